"""A chunk: streamlines that grow together, from seeds that wait for their initial directions on."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ...aliases import Array
from ...backends.numba.cache import Function, text_of
from ...kernels.stop_reasons import Stop, Verdict
from ...linker.records import Arguments
from ...linker.transfer import Transfer
from ...space.batch import Space

CELL_BITS = 5  # 32 cells along each axis
_kernel = partial(Function, text_of(Path(__file__).with_name("chunk_kernels.py")))
_exclusive, _exclusive_in_order, _along_curve = map(_kernel, ("exclusive", "exclusive_in_order", "along_curve"))
_enlist, _tally, _count, _places, _write_facts = map(_kernel, ("enlist", "tally", "count", "places", "write_facts"))
judge_lengths = _kernel("judge_lengths")
SeedBlock = tuple[Array, int, Array | None]  # (n, 3) seeds, number of the first, and (n,) codes of given directions


def exclusive_sum(counts: Array) -> npt.NDArray[np.int64]:
    """Return the sum of all counts (n,) before each one."""
    out = np.empty(len(counts), np.int64)
    _exclusive(np.ascontiguousarray(counts), out)
    return out


def exclusive_sum_in_order(counts: npt.NDArray[np.int32], order: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Return for each count (n,) the sum of those that come before it in an order (n,)."""
    out = np.empty(len(counts), np.int32)
    _exclusive_in_order(counts, order, out)
    return out


def z_order(points: npt.NDArray[np.float32]) -> npt.NDArray[np.int32]:
    """Return the order of points along a Z-shaped curve (Morton 1966) through 32 x 32 x 32 cells, by a counting sort.

    Parameters
    ----------
    points : (n, 3), voxel coordinates.
    """
    shift = max(int(points.max(initial=0)).bit_length() - CELL_BITS, 0)
    order, keys = np.empty(len(points), np.int32), np.empty(len(points), np.int32)
    _along_curve(np.ascontiguousarray(points), shift, keys, np.zeros(8**CELL_BITS + 1, np.int32), order)
    return order


def enlist_halves(counts: Array, slot: Array) -> tuple[Array, Array, Array]:
    """Return the streamlines of seeds, each (m,) int32: their seeds, branches and numbers; see :class:`Chunk`.

    Parameters
    ----------
    counts : (n,) int32, the streamlines of each seed.
    slot : (n,) int32, the number of its first one.
    """
    seed, branch, number = (np.empty(int(counts.sum()), np.int32) for _ in range(3))
    _enlist(counts, slot, seed, branch, number)
    return seed, branch, number


def tally_halves(state: Array) -> tuple[int, int, Array]:
    """Return the steps of all halves, the most of one, and forward and backward halves by stop reason (2, reasons).

    Parameters
    ----------
    state : (m, 2, 2) int32, see :class:`Chunk`.
    """
    out = np.zeros((3, len(Stop)), np.int64)
    _tally(state, out)
    return int(out[0, 0]), int(out[0, 1]), out[1:]


def count_chunk(chunk: Chunk, verdicts: Array) -> Array:
    """Return the counts of :class:`.statistics.Statistics` for a chunk that has ended, with the verdicts on it."""
    ends, judged = tally_halves(chunk.state)[2].sum(axis=0), np.zeros(len(Verdict), np.int64)
    _count(np.asarray(verdicts, np.int8), judged)  # at once: among many threads, each step of Python's may have to wait
    return np.concatenate([[len(chunk.seeds)], ends, judged])


@dataclass(frozen=True)
class Chunk:
    """Streamlines that grow together, in the order of their seeds and initial directions.

    Parameters
    ----------
    first_seed : number of the chunk's first seed in the run.
    seeds : (n, 3) float32, voxel coordinates.
    seed : (m,) int32, number of each streamline's seed in the chunk.
    branch : (m,) int32, number of its initial direction among those of the seed.
    number : (m,) int32, its number on the device: its halves are 2 * number (forward) and 2 * number + 1 (backward).
    state : (m, 2, 2) int32, of the forward half and of the backward half its steps and its stop reason.
    besides : what has come back of each streamline besides, (m, ...) int32 by name. ``verdict``, where points have
        bits: what regions make of it, see :func:`...kernels.streamlines.judge`. ``initial`` and ``first``, for getters
        that carry more than a code from step to step: the code of its initial direction and, where a recovery may take
        it back, of the forward half's first step. ``cropped``, where the rule moves ends: (m, 2), see
        :class:`...kernels.halves.Halves`.
    """

    first_seed: int
    seeds: Array
    seed: Array
    branch: Array
    number: Array
    state: Array
    besides: Mapping[str, Array] = field(default_factory=dict)

    @cached_property
    def steps(self) -> Array:
        """Steps of each streamline, both halves together, (m,)."""
        return self.state[:, 0, 0] + self.state[:, 1, 0]

    def places(self, codes_a_word: int) -> tuple[Array, Array]:
        """Return the first word of each half, (2 m + 1,) int32, and the first point of each streamline, (m + 1,) int64.

        The last elements are the numbers of all words and of all points.
        """
        count = len(self.seed)
        slot, offset = np.empty(2 * count + 1, np.int32), np.empty(count + 1, np.int64)
        most = int(self.state[..., 0].max(initial=0))
        words = (np.arange(most + 1, dtype=np.int32) + codes_a_word - 1) // codes_a_word
        _places(self.state, words, slot, offset)
        return slot, offset

    def facts(self, space: Space) -> tuple[tuple[Array, ...], Array]:
        """Return what a batch says of each streamline besides its points, and the places of first points as int32.

        The former are the offsets, the seed (RASmm), the numbers of seed and direction, and the stop reasons.
        """
        count = len(self.seed)
        offsets, begins = np.empty(count + 1, np.int64), np.empty(count, np.int32)
        seeds, numbers = np.empty((count, 3), np.float32), np.empty(count, np.uint32)
        directions, reasons = np.empty(count, np.uint16), np.empty((count, 2), np.uint8)
        facts = offsets, begins, seeds, numbers, directions, reasons
        _write_facts(space.affine, self.first_seed, (self.seeds, self.seed, self.branch, self.state), facts)
        return (offsets, seeds, numbers, directions, reasons), begins

    def first(self, count: int) -> Chunk:
        """Return the chunk with its first streamlines, and their seeds."""
        return replace(self.select(slice(count)), seeds=self.seeds[: int(self.seed[count - 1]) + 1])

    def select(self, places: Array | slice) -> Chunk:
        """Return the chunk with some of its streamlines."""
        def chosen(values: Array) -> Array:
            return values[places] if isinstance(places, slice) else np.take(values, places, axis=0)

        named = {name: chosen(getattr(self, name)) for name in ("seed", "branch", "number", "state")}
        return replace(self, **named, besides={name: chosen(values) for name, values in self.besides.items()})


def split(block: SeedBlock, count: int) -> tuple[SeedBlock, SeedBlock]:
    """Return the first ``count`` seeds of a block, and the others."""
    seeds, first, codes = block
    ahead, behind = (None, None) if codes is None else (codes[:count], codes[count:])
    return (seeds[:count], first, ahead), (seeds[count:], first + count, behind)


@dataclass(frozen=True)
class DirectedSeeds:
    """Seeds whose initial directions are on the device, so that their streamlines can be launched.

    Parameters
    ----------
    block : the seeds, the number of the first one, and codes of given directions.
    counts : (n,) int32, the directions of each seed.
    arguments : the kernels' arguments that belong to these seeds, by flat name.
    order : returns the order of the seeds in which neighbours follow each other.
    """

    block: SeedBlock
    counts: Array
    arguments: Arguments
    order: Callable[[], Array]

    @cached_property
    def slot(self) -> Array:
        """Number of each seed's first streamline on the device, (n,) int32.

        There, streamlines of neighbouring seeds follow each other, since they read the same voxels.
        """
        return exclusive_sum_in_order(self.counts, self.order())

    def chunk(self) -> Chunk:
        """Return the streamlines, without steps and stop reasons."""
        seeds, first_seed, _ = self.block
        return Chunk(first_seed, seeds, *enlist_halves(self.counts, self.slot), np.zeros((0, 2, 2), np.int32))


@dataclass(frozen=True)
class SeedDirections:
    """Seeds whose initial directions the device is looking for."""

    block: SeedBlock
    coming: Transfer[DirectedSeeds]


@dataclass(frozen=True)
class GrowingChunk:
    """Streamlines that grow on the device.

    Parameters
    ----------
    block : their seeds, see :class:`DirectedSeeds`.
    count : how many there are.
    listed : returns the streamlines, without steps and stop reasons.
    arguments : the kernels' arguments that belong to them, by flat name.
    steps : steps that have been launched.
    """

    block: SeedBlock
    count: int
    listed: Callable[[], Chunk]
    arguments: Arguments
    steps: int


class SeedQueue:
    """Seeds that wait for their initial directions, in blocks; a chunk has seeds of one block.

    Parameters
    ----------
    blocks : seeds, numbers of the first ones, and given directions; None if the next ones are not there yet.
    coded : turns such a block into one with codes of directions.
    more : whether blocks may follow the first one.
    """

    def __init__(
        self, blocks: Iterator[SeedBlock | None], coded: Callable[[Array, int, Array | None], SeedBlock],
        more: bool = True,
    ) -> None:
        self._blocks, self._coded, self._more = blocks, coded, more
        self._here: deque[SeedBlock] = deque()  # with codes
        self._block: SeedBlock | None = None  # with directions, or without

    def next(self, count: int) -> SeedBlock | None:
        """Return the next seeds, at most so many of them; None if there are none."""
        if not self.ahead:
            return None
        if self._here:
            ahead, behind = split(self._here.popleft(), count)
            self.put_back(behind)
            return ahead
        assert self._block is not None
        ahead, self._block = split(self._block, count)
        return self._coded(*ahead)  # only these, since a device may wait for them

    @property
    def ahead(self) -> int:
        """How many seeds are left of the first block; 0 if no block is left."""
        if self._here:
            return len(self._here[0][0])
        while self._block is None or not len(self._block[0]):
            if (block := next(self._blocks, None)) is None:
                return 0
            self._block = block
        return len(self._block[0])

    @property
    def left(self) -> int:
        """How many seeds are left of all blocks; 0 if that is not known."""
        return 0 if self._more else self.ahead

    def put_back(self, block: SeedBlock) -> None:
        """Let seeds wait before all others."""
        if len(block[0]):
            self._here.appendleft(block)
