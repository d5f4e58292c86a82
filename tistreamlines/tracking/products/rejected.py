"""Where streamlines are dropped, and why: a map with a volume for each reason."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ...aliases import Array
from ...errors import InputError
from ...io import sidecar
from ...io.drafts import completed
from ...io.images import reading
from ...io.maps import write_map
from ...kernels.products.lengths import measure_steps
from ...kernels.products.rejections import find_entry
from ...kernels.stop_reasons import DROPPED, VALID, Stop, Verdict
from ...linker.lang import Func
from ...linker.records import INTS, Arguments, spread
from ...option import OUTPUT, PathLike, option
from ...space.batch import Batch, Space
from ..growth.chunk import Chunk
from ..growth.growth import Growth
from ..growth.memory import WORD, memory_for
from ..growth.settings import Settings
from .collector import Collector
from .files import ProductFile
from .grid import affine_of
from .keyed_sums import KeyedSums

AT_ONCE = 1 << 18  # streamlines whose places are held: 7 words each
PARTS = 2  # of a streamline, whose two ends may count one each
AT_SEED = (Verdict.SEED_OUTSIDE_LIMIT, Verdict.NO_STEP)
AT_ENTRY = (Verdict.EXCLUDED, Verdict.OUT_OF_TURN)  # which streamlines are dropped for before they end


@dataclass(frozen=True, repr=False, eq=False)
class RejectedOptions:
    """The option that names the map, a part of :class:`tistreamlines.Parameters`."""

    rejected: PathLike | None = option(
        None, OUTPUT, "Write a map of where streamlines are dropped, .nii, .nii.gz or .mif, with a volume for each "
        "reason: where they enter an exclude region, at their seed, or half at each end. The record names the "
        "volumes.", unit="FILE", absent="not written", affects="run",
    )


@dataclass(frozen=True, repr=False, eq=False)
class RejectedInputs(RejectedOptions):
    """The option, and those of a run that decide where streamlines are dropped."""

    exclude: object = None
    include_ordered: object = None


class DroppedStreamlines(Collector):
    """Counts the dropped streamlines of chunks by reason and voxel, in parts of a streamline.

    Parameters
    ----------
    space : of the image that is tracked.

    Attributes
    ----------
    total : what was merged so far.
    """

    roots: tuple[Func, ...] = (measure_steps,)
    bytes = 2 * 7 * WORD * AT_ONCE
    takes_dropped = True

    def __init__(self, space: Space) -> None:
        self._shape, self._voxels = space.shape, int(np.prod(space.shape))
        self._sums, self.total = (KeyedSums(1, len(DROPPED) * self._voxels) for _ in range(2))
        # from voxels to voxels, whose coordinates stay as they are
        self._affine = spread("affine", affine_of(np.eye(4)))
        self._arrays: Arguments = {}
        self._last: tuple[Array, Array] | None = None  # of a chunk that may be taken back

    def compile(self, growth: Growth) -> None:
        """Find the places of a streamline without steps, by each kernel."""
        with memory_for(f"the places of {AT_ONCE:,} streamlines"):
            self._arrays = {"ends": growth.program.empty(7 * AT_ONCE, INTS)}
        for kernel in self.roots:
            self._places(growth, growth.made_up(0), kernel)

    def collect_dropped(self, growth: Growth, chunk: Chunk, verdicts: Array) -> None:
        """Count the dropped streamlines of a chunk; those of the chunk before are certain now."""
        self._settle()
        dropped = np.flatnonzero(verdicts != int(Verdict.ACCEPTED))
        chunk, verdicts = chunk.select(dropped), verdicts[dropped]
        at_entry = np.isin(verdicts, AT_ENTRY)
        at_ends = ~at_entry & ~np.isin(verdicts, AT_SEED)
        places = np.repeat(chunk.seeds[chunk.seed][:, None], PARTS, axis=1)
        for kernel, chosen in ((find_entry, at_entry), (measure_steps, at_ends)):
            if chosen.any():
                places[chosen] = self._places(growth, chunk.select(np.flatnonzero(chosen)), kernel)
        parts = np.where(np.arange(PARTS) == 0, PARTS, np.zeros((len(dropped), 1), np.int64))  # at one place
        parts[at_ends] = parts_of_ends(chunk.state[at_ends, ::-1, 1], verdicts[at_ends])
        streamline, place = np.nonzero(parts)
        voxels = voxels_of(places[streamline, place], self._shape)
        keys = verdicts[streamline].astype(np.int64) * self._voxels + voxels
        self._last = keys, parts[streamline, place][:, None]

    def _places(self, growth: Growth, dropped: Chunk, kernel: Func) -> npt.NDArray[np.float32]:
        """Return the two places that a kernel finds of streamlines, (n, 2, 3), voxel coordinates: entry, or ends.

        Of the ends, that of the backward half comes first.
        """
        count, places = len(dropped.number), []
        with growth.statistics.stage("pack"):
            growth.accept(dropped)
            values = growth.values | self._affine | self._arrays
            for first in range(0, count, AT_ONCE):
                many = min(AT_ONCE, count - first)
                growth.program.run(kernel.__name__, many, values | {"earlier": first})
                places.append(growth.fetch(self._arrays["ends"], 7 * many).reshape(-1, 7)[:, :6].copy())
        return np.concatenate(places).view(np.float32).reshape(-1, PARTS, 3)

    def undo(self, growth: Growth) -> None:
        """Forget the last chunk."""
        self._last = None

    def _settle(self) -> None:
        """Add the last chunk, whose streamlines are certain now."""
        if self._last is not None:
            self._sums.add(*self._last)
        self._last = None

    def take(self, growth: Growth) -> KeyedSums:
        """Return what was counted since the last call."""
        self._settle()
        return self._sums.take()

    def merge(self, delta: KeyedSums) -> None:
        """Add what was counted on some device."""
        self.total.merge(delta)


class DroppedInRegions(DroppedStreamlines):
    """The same where regions drop streamlines before these end."""

    roots = (measure_steps, find_entry)


def parts_of_ends(reasons: Array, verdicts: Array) -> npt.NDArray[np.int64]:
    """Return how many parts of each streamline its two ends count, (n, 2), for the ends' stop reasons and the verdicts.

    Both ends count, or only those that are the reason: an end that is not valid, if ends have to be. The seed does not
    count as an end of a half that did not grow.
    """
    invalid = (verdicts == int(Verdict.INVALID_ENDS))[:, None]
    counts = np.where(invalid, ~np.isin(reasons, VALID), reasons != int(Stop.NOT_GROWN))
    return counts * (PARTS // np.maximum(counts.sum(axis=1, keepdims=True), 1))


def voxels_of(points: Array, shape: tuple[int, int, int]) -> npt.NDArray[np.int64]:
    """Return the numbers of the voxels that hold points, (n, 3) in voxel coordinates."""
    nearest = np.floor(points.astype(np.float64) + 0.5).astype(np.int64)
    return np.asarray(np.ravel_multi_index(tuple(np.clip(nearest, 0, np.array(shape) - 1).T), shape))


class Rejected(ProductFile):
    """Writes the map; see :class:`.files.ProductFile`.

    Parameters
    ----------
    options : its options.
    space : grid of the image that is tracked.
    step_mm, threads : not needed.
    """

    needs_points = False
    of_dropped = True

    def __init__(self, options: RejectedInputs, space: Space, step_mm: float, threads: int | None = None) -> None:
        assert options.rejected is not None
        super().__init__(Path(options.rejected))
        self._space, self._device = space, collector_of(options)(space)
        self._sums = KeyedSums(1, len(DROPPED) * int(np.prod(space.shape)))
        self.value: Array = np.zeros((0, 0, 0, len(DROPPED)), np.float32)

    def add(self, batch: Batch) -> None:
        """Take no streamline that is accepted."""

    def collector(self, space: Space, settings: Settings) -> Collector:
        """Return what counts on the devices."""
        return self._device

    def keep(self, path: Path) -> None:
        """Write what was counted since the last call to a file, for a run that goes on."""
        taken = self._device.total.take()
        keys, sums = taken.sorted()
        with completed(path, force=True) as draft, draft.open("wb") as file:
            np.save(file, np.column_stack([keys, sums]))
        self._sums.merge(taken)

    def restore(self, path: Path, dropped: Array) -> None:
        """Add what :meth:`keep` has written; ``dropped`` is how many streamlines it must have for each reason.

        Raises
        ------
        InputError
            If the file is missing, damaged or of other streamlines.
        """
        with reading(path):
            keys, sums = np.load(path, allow_pickle=False).astype(np.int64).reshape(-1, 2).T
            reasons = np.bincount(keys // int(np.prod(self._space.shape)), sums, len(DROPPED))
        if not np.array_equal(reasons, PARTS * dropped):
            raise InputError(f"{path}: has other dropped streamlines than the piece beside it")
        self._sums.add(np.ascontiguousarray(keys), np.ascontiguousarray(sums)[:, None])

    def write(self, *, force: bool) -> None:
        """Write the map, and name its volumes."""
        (path,), shape = self.paths, self._space.shape
        self._sums.merge(self._device.total.take())
        keys, sums = self._sums.sorted()
        counts = np.zeros((len(DROPPED), *shape), np.float32)
        counts.ravel()[keys] = sums[:, 0] / PARTS
        self.value = np.moveaxis(counts, 0, -1)
        totals = (np.bincount(keys // int(np.prod(shape)), sums[:, 0], len(DROPPED)) / PARTS).astype(int)
        names = [reason.name.lower() for reason in DROPPED]
        write_map(path, self.value, self._space, force=force, keys={"volumes": "\n".join(names)})
        volumes = [
            {"name": name, "reason": reason.text, "streamlines": int(count)}
            for name, reason, count in zip(names, DROPPED, totals, strict=True)
        ]
        details = {"shape": self.value.shape, "affine": self._space.affine, "volumes": volumes}
        self.details = sidecar.file_record(path) | details


def collector_of(options: RejectedInputs) -> type[DroppedStreamlines]:
    """Return what counts where streamlines are tracked."""
    entered = options.exclude or options.include_ordered
    return DroppedInRegions if entered else DroppedStreamlines
