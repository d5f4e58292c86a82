"""The engine: seeds go in, batches of finished streamlines come out, chunk by chunk.

The seeds of a chunk get their initial directions, each direction becomes a streamline, and both halves of every
streamline grow in launches of bounded length (:mod:`.growth`).  Filters accept streamlines
(:mod:`..selection.filters`), and products are made of the accepted ones (:mod:`..products.collector`).  The host lays
out the points of one chunk while the device grows the next.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import reduce

import numpy as np

from ...aliases import Array
from ...devices import Device
from ...errors import DeviceMemoryError, ParameterError
from ...kernels.stop_reasons import Verdict
from ...space.batch import Batch, Space
from ..growth.chunk import Chunk, DirectedSeeds, GrowingChunk, SeedBlock, SeedDirections, SeedQueue, count_chunk, split
from ..growth.growth import Growth
from ..growth.settings import Settings
from ..growth.statistics import Statistics
from ..products.collector import Collector
from ..products.points.points import Batches, Outlines, points_on
from ..seeding.directed import are_codes, check_shapes, initial_codes
from ..selection.filters import Filter
from ..tables.inputs import KernelTables
from .kernels import demand_of, filters_of, kernels_of, settings_for

FEWEST_SELECTED = 1024  # fewest seeds of a chunk with a number of streamlines to select
LOOK_SECONDS = 0.0003  # between looks at whether a chunk has ended
SPARE = 1.25  # times as many seeds as are expected to give that number
Block = SeedBlock  # with directions instead of their codes: see Engine.track


class Engine:
    """Grows streamlines on one device.

    Parameters
    ----------
    prepared : tables of the method and the stopping rule.
    space : the image's space.
    device : where to run (see :func:`tistreamlines.devices.choose`).
    settings : how streamlines are grown.
    filters : what accepts streamlines, besides their length.
    products : what is made of the accepted streamlines, besides their points.
    note : receives a message if the device runs out of memory and has to take fewer seeds at a time.
    points : whether the points of streamlines are wanted; without them, batches are outlines.

    Attributes
    ----------
    has_less_room : whether the device has run out of memory, so that chunks have fewer seeds from then on.
    at_work : whether streamlines grow while the engine takes the next seeds.

    Raises
    ------
    DeviceError
        If the device cannot start, computes wrong results or has too little memory.
    ParameterError
        If the memory limit is too small for the tables and a single seed.
    """

    def __init__(
        self, prepared: KernelTables, space: Space, device: Device, settings: Settings, filters: Sequence[Filter] = (),
        products: Sequence[Collector] = (), note: Callable[[str], object] = lambda _: None, points: bool = True,
    ) -> None:
        begun = time.perf_counter()
        self.settings, self.note = settings_for(prepared.getter, settings), note
        self.points: Batches = (
            points_on(device, prepared, space, settings.threads, settings.every) if points else Outlines(space)
        )
        self._made, self.has_less_room, self.at_work = tuple(products), False, False
        self._uncounted: deque[Callable[[], Array]] = deque()
        self.filters, self.products = filters_of(settings, filters), (self.points, *products)
        selection, kernels = demand_of(self.filters), kernels_of(self.products)
        self.growth = Growth(prepared, space.voxel_sizes, device, self.settings, selection, kernels)
        self.growth.compile()
        for product in self.products:
            product.compile(self.growth)
            self.growth.program.sync()
        self.growth.measure_pace()
        self.growth.statistics = Statistics()
        self.statistics.seconds["compile"] = time.perf_counter() - begun

    def begin(self, note: Callable[[str], object]) -> None:
        """Begin another run, whose counts and times begin at 0; ``note`` receives its messages."""
        self.note, self.growth.statistics = note, Statistics()

    @property
    def seeds_done(self) -> int:
        """How many seeds at least have had all their streamlines handed out, with the last batch; 0 if unknown."""
        return self.statistics.seeds if self.points.ended else 0

    @property
    def statistics(self) -> Statistics:
        """Counts and times of the engine so far."""
        return self.growth.statistics

    def chunk_size(self) -> int:
        """Return the seeds of a chunk: the caller's number, or as many as fit the device's memory, if these are
        fewer."""
        return self.growth.memory.capacity.seeds

    def track(
        self, seeds: Array, first_seed: int = 0, directions: Array | None = None, *, most: int | None = None,
        enough: Callable[[], bool] = lambda: False,
    ) -> Iterator[Batch]:
        """Grow streamlines from seeds.

        Parameters
        ----------
        seeds : (n, 3) voxel coordinates, centre of voxel = integer.
        first_seed : number of the first seed; random numbers are counted by the seeds' numbers.
        directions : (n, 3) unit vectors along the voxel axes: the one initial direction of each seed, which is moved to
            the nearest vertex of the sphere. Without them, the peaks at each seed are its initial directions.
        most : end after so many accepted streamlines, in the order of seeds and directions.
        enough : asked before each chunk; if it returns True, tracking ends.

        Yields
        ------
        Batch
            Accepted streamlines, in the order of their seeds and directions.

        Raises
        ------
        ParameterError
            If a seed's number does not fit 32 bits, or if there is not one unit vector for each seed.
        """
        alone = iter([(seeds, first_seed, directions)])
        yield from self.track_all(alone, most=most, enough=enough, more=False)

    def track_all(
        self, blocks: Iterator[Block | None], *, most: int | None = None, enough: Callable[[], bool] = lambda: False,
        more: bool = True,
    ) -> Iterator[Batch]:
        """Grow streamlines from blocks of seeds, and merge what products have collected: see :meth:`track_blocks`."""
        begun = time.perf_counter()
        for batch in self.track_blocks(blocks, most=most, enough=enough, more=more):
            self.statistics.seconds["track"] = time.perf_counter() - begun
            yield batch
        for product, delta in zip(self._made, self.take(), strict=True):
            product.merge(delta)
        self.statistics.seconds["track"] = time.perf_counter() - begun

    def track_blocks(
        self, blocks: Iterator[Block | None], *, most: int | None = None,
        enough: Callable[[], bool] = lambda: False, more: bool = True,
    ) -> Iterator[Batch]:
        """Grow streamlines from blocks of seeds, without a pause between them; see :meth:`track`.

        None stands for a block that is not there yet. The engine takes it when it has launched the streamlines of the
        blocks before it, or else when it has handed them out. ``more`` says whether blocks may follow the first one. A
        chunk has seeds of one block. Where ``points.ended``, the batch was the last one of its chunk.
        """
        growth, points, left = self.growth, self.points, 2**62 if most is None else most
        waiting, launched, seeds, most = SeedQueue(map(_checked, blocks), self._encode, more), None, 0, left
        try:
            while left and not enough():
                growing = starting = following = None
                self.at_work = launched is not None
                try:
                    if launched is None:
                        starting = self._start(waiting, seeds_for(left, most - left, seeds))
                        if starting is None:  # perhaps there are seeds once all streamlines are handed out
                            points.bring(growth)
                            yield from self._hand_out()
                            starting = self._start(waiting, seeds_for(left, most - left, seeds))
                        if starting is None:
                            break
                        following, starting = self._take_directions(waiting, starting), None
                        launched, following = growth.launch(following), None
                        self.at_work = True
                    # a device finds directions before it grows streamlines, if the seeds are there
                    wanted = seeds_for(left, most - left, seeds, len(launched.block[0]))
                    starting = self._start(waiting, wanted)
                    growth.go_on(launched)
                    growing, launched = launched, None
                    if self._uncounted:
                        growth.program.submit()
                    with growth.pace.away():
                        points.bring(growth)
                    if not growth.program.copies_beside:  # then `ending` waits until this chunk has grown
                        yield from self._hand_out()
                    if starting is None:
                        starting = self._start(waiting, wanted)
                    if starting is not None:
                        following, starting = self._take_directions(waiting, starting), None
                    ended = growth.ending(growing)
                    if following is not None:
                        launched, following = growth.launch(following), None
                        growth.program.submit()
                    yield from self._hand_out(None if self._made else ended.is_there)
                    chunk, verdicts, accepted = self._filter(ended.wait(), left)
                    self._collect(chunk, verdicts, accepted)
                except DeviceMemoryError as error:
                    self._halve(waiting, (growing, launched, starting or following), error)
                    launched = None
                    continue
                left, seeds = left - len(accepted.number), seeds + len(chunk.seeds)
                self._uncounted.append(growth.beside(count_chunk, chunk, verdicts))
            points.bring(growth)
            yield from self._hand_out()
        finally:
            points.cancel()
            growth.program.drop()
            self._uncounted.clear()

    def _hand_out(self, is_idle: Callable[[], bool] | None = None) -> Iterator[Batch]:
        """Hand out the batches that are being laid out, while the device is at work.

        Stop where the device ``is_idle``, unless a chunk before the last one is still to be handed out.
        """
        points = self.points
        while points.waiting:
            if is_idle is not None and points.chunks == 1:
                while not is_idle() and not points.is_there(LOOK_SECONDS):
                    pass
                if is_idle():
                    return
            if points.ended:  # the next chunk is counted before its first batch is handed out
                self.statistics.counts += self._uncounted.popleft()()
            with self.growth.pace.away():
                yield points.next(self.growth)

    def _start(self, waiting: SeedQueue, most: int) -> SeedDirections | None:
        """Start the next seeds, at most so many; return None if there are none."""
        if not most:
            return None
        with self.statistics.stage("start"):
            if (block := waiting.next(min(self.growth.ready(waiting.left), most))) is None:
                return None
            try:
                return SeedDirections(block, self.growth.start(*block))
            except DeviceMemoryError:
                waiting.put_back(block)
                raise

    def _take_directions(self, waiting: SeedQueue, starting: SeedDirections) -> DirectedSeeds:
        """Wait for the directions of seeds, and let those for which there is no room wait."""
        with self.statistics.stage("start"):
            started = starting.coming.wait()
            waiting.put_back(split(starting.block, len(started.counts))[1])
            return started

    def take(self) -> tuple[object, ...]:
        """Return what each of the products besides points has collected since the last call."""
        return tuple(product.take(self.growth) for product in self._made)

    def _collect(self, chunk: Chunk, verdicts: Array, accepted: Chunk) -> None:
        """Add a chunk to all products, or to none if the device runs out of memory, since it is tried again."""
        begun: list[Collector] = []
        try:
            for product in self.products:
                if product.takes_dropped:
                    begun.append(product)
                    product.collect_dropped(self.growth, chunk, verdicts)
            self.growth.accept(accepted)
            for product in sorted(self.products, key=lambda product: not product.waits):
                begun.append(product)
                product.collect(self.growth, accepted)
        except DeviceMemoryError:
            for product in begun:
                product.undo(self.growth)
            raise

    def codes(self, seeds: Array, first: int, directions: Array) -> Array:
        """Return the codes of directions, (n,), of seeds in float32 from a number on; any thread may ask for them."""
        return initial_codes(directions, seeds, self.growth.prepared, self.settings.threads, first)

    def _encode(self, seeds: Array, first: int, directions: Array | None) -> SeedBlock:
        """Return a block's seeds in float32, the number of the first, and the codes of directions."""
        points = np.ascontiguousarray(seeds, np.float32)
        if directions is None or are_codes(directions):
            return points, first, directions
        return points, first, self.codes(points, first, directions)

    def _filter(self, chunk: Chunk, left: int) -> tuple[Chunk, Array, Chunk]:
        """Return a chunk as far as it counts, the verdicts, and the accepted streamlines, at most ``left``."""
        verdicts = reduce(np.minimum, [judge.verdicts(chunk) for judge in self.filters])
        accepted = np.flatnonzero(verdicts == int(Verdict.ACCEPTED))
        if len(accepted) >= left:  # what comes after the last one does not count
            accepted = accepted[:left]
            verdicts = verdicts[: accepted[-1] + 1]
            chunk = chunk.first(len(verdicts))
        return chunk, verdicts, chunk if len(accepted) == len(verdicts) else chunk.select(accepted)

    def _halve(
        self, waiting: SeedQueue, begun: Sequence[SeedDirections | DirectedSeeds | GrowingChunk | None],
        error: DeviceMemoryError,
    ) -> None:
        """Let seeds that were begun wait again; later chunks take half as many. Raise the error if these are few."""
        blocks = [seeds.block for seeds in begun if seeds is not None]
        for block in reversed(blocks):
            waiting.put_back(block)
        seeds = len(blocks[0][0]) if blocks else min(waiting.ahead, self.growth.ready())
        if not (fewer := self.growth.halve(seeds)):
            raise error
        self.has_less_room = True
        self.note(f"the device ran out of memory with {seeds:,} seeds at a time: from here on it takes {fewer:,}")


def _checked(block: Block | None) -> Block | None:
    """Return a block; raise ParameterError if its numbers do not fit 32 bits, or if directions are missing."""
    if block is not None:
        seeds, first, directions = block
        check_numbers(first, len(seeds))
        check_shapes(directions, seeds)
    return block


def seeds_for(left: int, accepted: int, seeds: int, growing: int = 0) -> int:
    """Estimate how many seeds give the ``left`` streamlines, by how many were ``accepted`` of the ``seeds`` so far.

    So many as are ``growing`` need not be started; 0 if these are likely to give all.
    """
    if seeds and not accepted:
        return 2**62
    more = int(SPARE * left * max(seeds, 1) / max(accepted, 1)) - growing
    return 0 if growing and more <= 0 else max(FEWEST_SELECTED, more)


def check_numbers(first_seed: int, count: int) -> None:
    """Raise ParameterError if the number of a seed does not fit 32 bits."""
    if not 0 <= first_seed <= first_seed + count <= 2**32:
        raise ParameterError(
            f"seeds are numbered from {first_seed} to {first_seed + count - 1}, but random numbers are drawn for seeds "
            "from 0 to 2**32 - 1: give fewer seeds, or a lower number to the first"
        )
