"""The visits of streamlines to fixels, found on any device and held 32 streamlines side by side."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from queue import SimpleQueue
from threading import local
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...aliases import Array
from ...backends import open_program
from ...backends.numba.cache import Function, text_of
from ...backends.program import Program, on_device
from ...devices import Device, free_memory
from ...errors import InputError
from ...kernels.weights.lengths import sum_lengths
from ...kernels.weights.trimming import trim_visits
from ...kernels.weights.visits import visit_fixels
from ...linker.lang import LANES
from ...linker.parts import Source
from ...linker.records import INTS, REALS, Arguments, spread
from ...linker.transfer import Transfer
from ...space.batch import Batch
from ..products.points.thinning import thin_batch
from .fixel_table import FixelTable
from .visit_list import WORD, DeviceWords, VisitList
from .visit_memory import DeviceRoom

_kernel = partial(Function, text_of(Path(__file__).with_name("visits_kernels.py")))
_join_lines, _sort_lines = map(_kernel, ("join_lines", "sort_lines"))
TENSION = 0.1  # of Hermite's curves, as in MRtrix3
FINE = 0.1  # voxels: the longest step along a curve
LONGEST = 128  # voxels that a step may be long: time and memory grow with the steps along its curve
ROUNDED = 1e-3  # part of a step by which files round it
MOST_PARTS = 500  # of a way between two points; longer ways are followed in longer steps
USUAL_PARTS = 50  # for which a lane has room at first
MOST_BATCHES = 16  # that are gathered for a launch, since those of other processes hold shared memory
TOGETHER, ON_GPU = 2**20, 2**23  # points in a launch; a GPU needs more, since each warp follows 32 streamlines
LAUNCHES = 2  # of a GPU: it receives the points of one while it finds the visits of the other
A_POINT, AT_LEAST = 1.7, 8  # visits for which a lane has room at first: for each voxel of its length, and besides


def blend(ratio: int) -> Array:
    """Return the weights of four points in Hermite's curve after each of ``ratio`` steps, (4 * ratio,)."""
    mu = np.arange(1, ratio + 1) / ratio
    square, cube, slope = mu * mu, mu**3, 0.5 * (1.0 - TENSION)
    first, last = slope * (2.0 * square - mu - cube), slope * (cube - square)
    turn = 2.0 * cube - 3.0 * square
    rows = np.stack([first, 1.0 + turn - last, -turn - first, last], axis=1)
    rows[-1] = 0.0, 0.0, 1.0, 0.0
    return rows.astype(np.float32).ravel()


class _Lines(NamedTuple):
    """Streamlines of batches from number ``first`` up to ``last``; ``offsets`` are those of the points of all."""

    batches: Sequence[Batch]
    offsets: Array
    first: int
    last: int


class _LaunchMemory:
    """Memory for the points and visits of a launch; a GPU uses it again, since to free some waits for all kernels."""

    def __init__(self, program: Program, device: Device) -> None:
        self._program, self._on_host = program, device.on_host
        self._arrays: dict[str, tuple[int, Any]] = {}

    def fill(self, values: Mapping[str, Array]) -> Arguments:
        """Return arguments that hold these values."""
        if self._on_host:
            return on_device(self._program, dict(values))
        arguments: Arguments = {}
        for name, value in values.items():
            array = self._array(name, value.size, REALS if value.dtype.kind == "f" else INTS)
            arguments[name] = self._program.upload(array, value)
        return arguments

    def empty(self, sizes: Mapping[str, int]) -> Arguments:
        """Return arguments of so many whole numbers, for a kernel to fill."""
        return {name: self._array(name, size, INTS) for name, size in sizes.items()}

    def _array(self, name: str, size: int, kind: str) -> object:
        """Return the array of a name, or a greater one in its place."""
        if self._on_host:
            return self._program.empty(size, kind)
        if self._arrays.get(name, (0, None))[0] < size:
            self._arrays.pop(name, None)
            self._arrays[name] = size + size // 4, self._program.empty(size + size // 4, kind)
        return self._arrays[name][1]


@dataclass(frozen=True, eq=False)
class _Launch:
    """Streamlines whose visits a kernel has found.

    Attributes
    ----------
    order : (n,) numbers of the streamlines, in the order of lanes.
    depth : (teams,) visits for which the lanes of a team have room.
    visited : (teams, 32) visits of each lane.
    slots : the kernel's arguments with the visits, until other streamlines have the ``memory``.
    lengths : of the streamlines in each fixel, all together, if the caller wants them.
    """

    order: Array
    depth: Array
    visited: Array
    slots: Arguments
    lengths: Transfer[Array] | None
    memory: _LaunchMemory

    @property
    def most(self) -> Array:
        """The greatest number of visits of the lanes of each team, (teams,)."""
        return self.visited.max(axis=1)

    @property
    def starts(self) -> Array:
        """Where the visits of each team begin that are left without room that nothing has used, (teams,)."""
        return LANES * (np.cumsum(self.most) - self.most)

    def trim(self, words: Array | DeviceWords) -> VisitList:
        """Return the visits without room that nothing has used; those on a device are without it.

        Words behind a lane's last visit become 0.
        """
        most, starts = self.most, self.starts
        if isinstance(words, DeviceWords):
            starts = words.first + starts
        else:
            places = np.repeat(_begin(self.depth) - starts, LANES * most) + np.arange(int(LANES * most.sum()))
            visits = words[places].reshape(-1, LANES)
            rank = np.arange(len(visits)) - np.repeat(np.cumsum(most) - most, most)
            visits[rank[:, None] >= np.repeat(self.visited, most, axis=0)] = 0
            words = visits.ravel()
        lanes = np.pad(self.order, (0, self.visited.size - len(self.order)), constant_values=-1)
        return VisitList(lanes.astype(np.int32), starts.astype(np.int32), most.astype(np.int32), words)


class Visitor:
    """Finds the visits of streamlines.

    Parameters
    ----------
    table : FixelTable
        The fixels.
    step_mm : float
        Distance between the points of a streamline, which tells into how many steps the curve between two of them is
        divided.
    device : Device
        Where visits are found. They are the same everywhere.
    threads : int, optional
        CPU threads; by default all cores.
    every : int
        Of the points of a streamline, every n-th from its seed and both ends make its curve, as those that MRtrix3's
        ``tckgen`` writes of iFOD2's arcs. Batches of which points were left out have no others.

    Attributes
    ----------
    together : points for which a launch of kernels pays.
    """

    def __init__(
        self, table: FixelTable, step_mm: float, device: Device, threads: int | None = None, every: int = 1
    ) -> None:
        self._device, self._every, step_mm = device, every, every * step_mm
        side = float(table.space.voxel_sizes.min())
        if step_mm > LONGEST * side:
            raise InputError(f"a step of {step_mm:g} mm is longer than {LONGEST} voxels of the FODs, of {side:g} mm: "
                             "check the voxel sizes in their header")
        self._ratio = max(1, math.ceil(min(step_mm / (FINE * side), MOST_PARTS) * (1 - ROUNDED)))
        self._a_point = A_POINT * FINE * min(self._ratio, USUAL_PARTS)
        self.together = TOGETHER if device.on_host else ON_GPU
        grid, sizes = table.record()
        self._fixels = table.count
        self._program = open_program(device, Source([visit_fixels, sum_lengths, trim_visits], [sizes]), threads=threads)
        values = spread("grid", grid) | {"paths_ratio": self._ratio, "paths_blend": blend(self._ratio)}
        self._values = on_device(self._program, values)
        self._buffers, self._room = local(), DeviceRoom(self._program)
        self._launches: SimpleQueue[_LaunchMemory] = SimpleQueue()
        for _ in range(1 if device.on_host else LAUNCHES):
            self._launches.put(_LaunchMemory(self._program, device))

    def parts(self, *batches: Batch) -> list[VisitList]:
        """Return the visits of the streamlines of batches, numbered from 0 on; some without points are left out.

        Several threads may do so at once; on a GPU, two of them use the device.
        """
        parts = []
        for lines in self._divide(batches):
            with self._launch(lines) as launch:
                words = self._words(launch)
            parts.append(launch.trim(words))  # while another thread uses the device
        return parts

    def are_enough(self, batches: Sequence[Batch]) -> bool:
        """Whether batches make a launch."""
        points = sum(len(batch.points) // (self._every if batch.whole is None else 1) for batch in batches)
        return len(batches) == MOST_BATCHES or points >= self.together

    def lengths(
        self, *batches: Batch, keep: Callable[[VisitList], object] | None = None
    ) -> npt.NDArray[np.int64]:
        """Return the length of the streamlines of batches in each fixel, all together, in units; see :meth:`parts`.

        Visits leave the device only for ``keep``, which receives them.
        """
        sums = np.zeros(self._fixels, np.int64)
        for lines in self._divide(batches):
            with self._launch(lines, sums=True) as launch:
                words = None if keep is None else self._words(launch)
                assert launch.lengths is not None
                sums += launch.lengths.wait()
            if keep is not None and words is not None:
                keep(launch.trim(words))
        return sums

    def _divide(self, batches: Sequence[Batch]) -> list[_Lines]:
        """Return the streamlines of batches that each launch takes."""
        batches = [batch if batch.whole is not None else thin_batch(batch, self._every) for batch in batches]
        offsets = np.cumsum(np.concatenate([[0], *(batch.lengths for batch in batches)]))
        launches = max(round(offsets[-1] / self.together), 1)
        share = max(math.ceil(offsets[-1] / launches), 1)
        cuts = np.flatnonzero(np.diff(offsets[:-1] // share, append=-1)) + 1
        return [_Lines(batches, offsets, a, b) for a, b in pairwise([0, *cuts.tolist()]) if offsets[b] > offsets[a]]

    def _in_lanes(self, lines: _Lines) -> tuple[Array, dict[str, Array]]:
        """Return the numbers of streamlines in the order of lanes, and their points as arguments of the kernel.

        Those of most points come first. A device thus ends with short streamlines, which its threads share evenly. A
        curve through points that lie where the one before lies would turn back and forth there, so they are left out.
        """
        first, last, begin = lines.first, lines.last, 0
        offsets, count = lines.offsets[first : last + 1], last - first
        points = self._buffer(int(offsets[-1] - offsets[0]))
        begins, counts, ends = np.empty(count, np.int32), np.empty(count, np.int32), np.zeros(2, np.int64)
        for batch in lines.batches:
            low, high = max(first - begin, 0), min(last - begin, len(batch))
            _join_lines(batch.points, batch.offsets, low, high, ends, points, begins, counts)
            begin += len(batch)
        tally, order = np.zeros(int(np.diff(offsets).max()) + 1, np.int64), np.empty(np.count_nonzero(counts), np.int64)
        paths = {name: np.zeros(-(-len(order) // LANES) * LANES, np.int32) for name in ("paths_first", "paths_counts")}
        _sort_lines(begins, counts, tally, order, *paths.values())
        return first + order, paths | {"paths_points": points[: ends[0]].ravel()}

    def _buffer(self, count: int) -> Array:
        """Return memory of this thread for so many points, since fresh memory costs more than to copy them."""
        kept = getattr(self._buffers, "points", None)
        if kept is None or len(kept) < count:
            kept = self._buffers.points = np.empty((count + count // 4, 3), np.float32)
        return kept

    @contextmanager
    def _launch(self, lines: _Lines, sums: bool = False) -> Generator[_Launch, None, None]:
        """Find the visits of streamlines, with ``sums`` also their lengths; other launches have to wait meanwhile."""
        order, paths = self._in_lanes(lines)
        most = paths["paths_counts"].reshape(-1, LANES).max(axis=1)
        depth = (most * self._a_point).astype(np.int64) + AT_LEAST
        memory = self._launches.get()
        try:
            arguments = self._values | memory.fill(paths)
            while True:
                slots, visited, lengths = self._visit(depth, memory, arguments, sums)
                most = visited.max(axis=1)
                if (most <= depth).all():
                    break
                depth = np.maximum(depth, most)
            del arguments  # whose memory the next thread needs on the host
            yield _Launch(order, depth, visited, slots, lengths, memory)
        finally:
            self._launches.put(memory)

    def _visit(
        self, depth: Array, memory: _LaunchMemory, arguments: Arguments, sums: bool
    ) -> tuple[Arguments, Array, Transfer[Array] | None]:
        """Run the kernels with so much room in each team; return the visits, how many each lane has, and the lengths.

        With ``sums``, lengths are added up at once, since a device that grows streamlines comes late to a next kernel.
        They are wrong where a lane has more visits than there is room for, and nobody may wait for them then.
        """
        teams = len(depth)
        places = {"slots_begin": _begin(depth).astype(np.int32), "slots_depth": depth.astype(np.int32)}
        sizes = {"slots_words": int(LANES * (depth + 1).sum()), "slots_visited": LANES * teams}
        slots, lengths = memory.fill(places) | memory.empty(sizes), None
        self._program.run(visit_fixels.__name__, teams, arguments | slots)
        visited = self._program.later(slots["slots_visited"], LANES * teams)
        if sums:
            target = memory.fill({"lengths": np.zeros(self._fixels, np.int32)})  # less than 2^31 units each
            self._program.run(sum_lengths.__name__, teams, slots | target)
            lengths = self._program.later(target["lengths"], self._fixels)
        return slots, visited.wait().reshape(teams, LANES).copy(), lengths

    def leave_on_device(self) -> None:
        """Leave visits on the device from now on, as far as they take a quarter of its free memory; it is a GPU."""
        self._room.words = (free_memory(self._device) or 0) // (4 * WORD)

    def _words(self, launch: _Launch) -> Array | DeviceWords:
        """Copy visits from the device, or to where they stay on it."""
        words = self._room.claim(int(LANES * launch.most.sum()))
        if words is None:
            return self._program.host(launch.slots["slots_words"], int(LANES * (launch.depth + 1).sum()))
        places = {"begin": (words.first + launch.starts).astype(np.int32), "depth": launch.most.astype(np.int32)}
        arguments = launch.slots | launch.memory.fill(places) | {"visits": words.array}
        self._program.run(trim_visits.__name__, len(launch.depth), arguments)
        return words


def _begin(depth: Array) -> Array:
    """Return the first word of each team, which has so many words for each lane, and one more."""
    return LANES * (np.cumsum(depth + 1) - depth - 1)
