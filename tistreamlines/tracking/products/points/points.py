"""The streamlines themselves: batches of them, whose points come back to the host as a few bits a step."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, cast

import numpy as np

from ....aliases import Array
from ....devices import Device, usable_cores
from ....devices.threads import begin_threads, submit_once, thread_pool
from ....kernels.halves import IN_A_ROW
from ....kernels.products.points import pack
from ....space.batch import Batch, Outline, Space
from ...growth.chunk import Chunk
from ...growth.growth import Growth
from ...growth.memory import PARTS_AHEAD
from ...tables.inputs import KernelTables
from ..collector import Collector
from .unpacking import PackedStreamlines, Unpacker, piece_bounds

if TYPE_CHECKING:
    from ....backends.numba.program import QueuedProgram

# a part of a chunk, what waits for its codes, the points of a batch, and whether it is the last part
Piece = tuple[PackedStreamlines, Callable[[], None] | None, int, bool]
# of a batch, which one thread lays out: a chunk has one for each thread, if there are enough points.
# 2**20 take 12 MB; malloc asks the system for more than 32 MB anew each time
FEWEST_POINTS, BATCH_POINTS = 2**18, 2**20
BESIDE = 2  # threads of the host that a GPU keeps at work: the one that waits for it, and what helps (Growth.beside)


@dataclass(frozen=True)
class BatchPoints:
    """A batch that is laid out: the memory of its codes, if no later one needs it, and whether it is a chunk's last."""

    batch: Future[Batch]
    spent: Array | None
    ends: bool


class Batches(Collector):
    """Streamlines that are handed out in batches.

    Attributes
    ----------
    waiting : batches that are still to be handed out.
    ended : whether the batch that was handed out last was the last one of its chunk.
    """

    def __init__(self) -> None:
        self.waiting: deque[BatchPoints] = deque()
        self.ended = True
        self._spare: list[Array] = []
        self._earlier = 0  # batches of earlier chunks

    def begin_chunk(self) -> None:
        """Note which batches stay if the chunk is taken back."""
        self._earlier = len(self.waiting)

    def bring(self, growth: Growth) -> None:
        """Copy what is left of the last chunk on the device; by default, there is nothing."""

    def undo(self, growth: Growth) -> None:
        """Forget the batches of the last chunk, of which none has been handed out yet."""
        while len(self.waiting) > self._earlier:
            self.waiting.pop().batch.cancel()

    @property
    def chunks(self) -> int:
        """Number of chunks whose last batch is still to be handed out."""
        return sum(laid.ends for laid in self.waiting)

    def is_there(self, seconds: float) -> bool:
        """Wait at most so long for the next batch; return whether it is there."""
        return bool(wait([self.waiting[0].batch], timeout=seconds).done)

    def next(self, growth: Growth) -> Batch:
        """Wait for the next batch."""
        laid = self.waiting.popleft()
        self.ended = laid.ends
        with growth.statistics.stage("unpack"):
            batch = laid.batch.result()
        if laid.spent is not None:
            self._spare.append(laid.spent)  # no other batch needs it
        growth.statistics.streamlines += len(batch)
        growth.statistics.points += int(batch.whole_lengths.sum())
        return batch

    def cancel(self) -> None:
        """Forget the batches that nobody waits for any more."""
        for laid in self.waiting:
            laid.batch.cancel()
        self.waiting.clear()
        self.ended = True


class Points(Batches):
    """The streamlines themselves: a few bits a step come back, and threads of the host lay out the points.

    Parameters
    ----------
    unpacker : lays the points out.
    workers : how many threads do so.
    """

    roots = (pack,)

    def __init__(self, unpacker: Unpacker, workers: int) -> None:
        super().__init__()
        self.unpacker, self.workers = unpacker, workers
        self._copies: deque[Piece] = deque()
        begin_threads("points", workers)

    @property
    def pool(self) -> ThreadPoolExecutor:
        """Threads that lay points out."""
        return thread_pool("points", self.workers)

    def compile(self, growth: Growth) -> None:
        """Bring a made-up streamline of two steps back."""
        chunk = growth.made_up(1)
        growth.program.upload(growth.values["halves_codes"], np.zeros(2, np.int32))
        slot, offsets = self._place(growth, chunk)
        packed, copy = self._pack(growth, chunk, 0, slot, offsets)
        if copy is not None:
            copy()
        self.unpacker.batch(packed, growth.rules)

    def collect(self, growth: Growth, accepted: Chunk) -> None:
        """Bring the streamlines back as codes, a part at a time; see also :meth:`bring`."""
        self.begin_chunk()
        with growth.statistics.stage("pack"):
            slot, offsets = self._place(growth, accepted)
            words, most = slot[::2], growth.memory.capacity.words
            ends = np.searchsorted(words, np.arange(most, int(words[-1]), most))
            points = self.points_each(int(offsets[-1]))
            count = len(accepted.seed)
            for a, b in piece_bounds(ends, count):  # a batch for each chunk, though it is empty
                part, places = accepted.select(slice(a, b)), (slot[2 * a : 2 * b + 1], offsets[a : b + 1])
                self._copies.append((*self._pack(growth, part, a, *places), points, b == count))
                while self._copies and (self._copies[0][1] is None or len(self._copies) == PARTS_AHEAD):
                    self._bring_first(growth)

    def points_each(self, count: int) -> int:
        """Return how many of a chunk's points make a batch."""
        return min(max(count // self.workers + 1, FEWEST_POINTS), BATCH_POINTS)

    def bring(self, growth: Growth) -> None:
        """Copy what is left of the last chunk, while the device works on the next one."""
        with growth.statistics.stage("pack"):
            while self._copies:
                self._bring_first(growth)

    def _bring_first(self, growth: Growth) -> None:
        packed, copy, points, is_last = self._copies.popleft()
        if copy is not None:
            copy()
        self.lay_out(growth, packed, points, is_last, packed.words)

    def lay_out(
        self, growth: Growth, grown: PackedStreamlines, points: int, is_last: bool, spent: Array | None = None
    ) -> list[Future[Batch]]:
        """Let threads lay out so many points each, while the next part is copied or the next chunk grows.

        ``is_last``: these streamlines are the last ones of their chunk; ``spent``: memory that is free after them.
        """
        parts = grown.parts(-(-int(grown.offsets[-1] - grown.offsets[0]) // points))
        batches = [submit_once(self.pool, partial(self.unpacker.batch, part, growth.rules)) for part in parts]
        self.waiting += [BatchPoints(batch, None, False) for batch in batches[:-1]]
        self.waiting.append(BatchPoints(batches[-1], spent, is_last))
        return batches

    def undo(self, growth: Growth) -> None:
        """Forget the batches of the last chunk, of which none has been handed out yet."""
        self._copies.clear()
        super().undo(growth)

    def cancel(self) -> None:
        """Forget the batches that nobody waits for any more."""
        self._copies.clear()
        super().cancel()

    def _place(self, growth: Growth, accepted: Chunk) -> tuple[Array, Array]:
        """Return the places of a chunk's words and points, see :meth:`~.Chunk.places`, and upload the former.

        No kernel that may still run reads the array: those of the last chunk have ended, and this is the first product.
        """
        slot, offsets = accepted.places(growth.memory.capacity.codes_a_word)
        growth.program.upload(growth.memory.accepted.hold("words_slot", len(accepted.number)), slot[:-1], beside=True)
        return slot, offsets

    def _pack(
        self, growth: Growth, kept: Chunk, earlier: int, slot: Array, offsets: Array
    ) -> tuple[PackedStreamlines, Callable[[], None] | None]:
        """Bring streamlines back as codes, several to a word; ``earlier``: how many of the chunk come before them.

        Return them, and what copies the codes, if they are not there yet.
        """
        count = len(kept.number)
        slot, total = slot[:-1] - slot[0], int(slot[-1] - slot[0])
        # memory that earlier parts were in: fresh memory costs as much as the copy
        size = growth.memory.capacity.elements["packed"][1]
        packed = self._spare.pop() if self._spare else growth.program.words(size)
        copy = None
        if total:
            values = growth.values | {"earlier": earlier, "words_slot": growth.memory.accepted.hold("words_slot", 1)}
            copy = growth.program.gather("pack", 2 * count, values, packed[:total], len(packed))
            growth.statistics.copied_bytes += 4 * total
        return PackedStreamlines(kept, packed, slot, offsets), copy


class PointsOnHost(Points):
    """The streamlines themselves, which grow on the CPU: threads lay out the points while others grow the next chunk.

    The host reads their codes as the kernels leave them.
    """

    roots = ()

    def compile(self, growth: Growth) -> None:
        """Lay out a made-up streamline of two steps."""
        chunk = growth.made_up(1)
        growth.program.upload(growth.values["halves_codes"], np.zeros(2 * IN_A_ROW, np.int32))
        self.unpacker.batch(self._gather(growth, chunk), growth.rules)

    def collect(self, growth: Growth, accepted: Chunk) -> None:
        """Let threads lay out the points. Until they have, no later chunk takes the place of the codes."""
        self.begin_chunk()
        with growth.statistics.stage("pack"):
            grown, program = self._gather(growth, accepted), cast("QueuedProgram", growth.program)
            for batch in self.lay_out(growth, grown, self.points_each(int(grown.offsets[-1])), True):
                program.also_read(grown.words, batch)

    def _gather(self, growth: Growth, chunk: Chunk) -> PackedStreamlines:
        """Return streamlines whose codes are where the kernels have written them, each in a word of its own."""
        halves = np.add.outer(2 * chunk.number, np.arange(2, dtype=np.int32)).ravel()
        codes = growth.values["halves_codes"]
        assert isinstance(codes, np.ndarray)
        return PackedStreamlines(chunk, codes, halves, chunk.places(1)[1])


class Outlines(Batches):
    """Hands chunks out without points, in the place of :class:`.points.Points`.

    Parameters
    ----------
    space : the image's space.
    """

    def __init__(self, space: Space) -> None:
        super().__init__()
        self.space = space

    def collect(self, growth: Growth, accepted: Chunk) -> None:
        """Let a chunk be handed out as one batch."""
        self.begin_chunk()
        outline: Future[Batch] = Future()
        outline.set_result(Outline(np.empty((0, 3), np.float32), *accepted.facts(self.space)[0]))
        self.waiting.append(BatchPoints(outline, None, True))


def points_on(device: Device, prepared: KernelTables, space: Space, threads: int | None, every: int = 1) -> Points:
    """Return the points of streamlines that grow on a device.

    Parameters
    ----------
    prepared, space, every : see :class:`.unpacking.Unpacker`.
    threads : how many threads the run may use, None for all cores.
    """
    if device.on_host:  # as many as grow streamlines, which wait for none of them
        return PointsOnHost(Unpacker(prepared, space, packed=False, every=every), threads or usable_cores())
    return Points(Unpacker(prepared, space, every=every), threads or max(1, usable_cores() - BESIDE))
