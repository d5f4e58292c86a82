"""From seeds to targets, as probtrackx2's --os2t: how many streamlines from each seed voxel reach each target."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ....aliases import Array
from ....errors import OutputError, ParameterError
from ....io.images import AnyPath
from ....io.in_memory import InMemory
from ....io.maps import write_map
from ....io.sparse import TABLES, write_coordinates, write_voxel_table
from ....option import OUTPUT, file_of, option, pairs_of, values_of
from ....space.batch import Batch, Space
from ...growth.ordering import exclusive_sum
from ..files import Checked, first_of
from .counts import TargetCounts
from .mask import VoxelMask, numbers_passed, read_mask
from .matrices import Finished, PairMatrix, VoxelMatrices, beside

if TYPE_CHECKING:
    from ....option import ImageLike, OneOrMore, PathLike

SUFFIXES = (*TABLES, ".txt", "")  # FSL's file has none


@dataclass(frozen=True)
class TargetOptions:
    """Options of counts from seeds to targets, a part of :class:`tistreamlines.Parameters`."""

    seeds_to_targets: OneOrMore[tuple[ImageLike, PathLike]] | None = option(
        None, OUTPUT, "Write how many streamlines from each voxel of the mask SEEDS reach each of --targets, as "
        "probtrackx2's --os2t and --s2tastext: the table FILE, .csv, .tsv or FSL's text matrix_seeds_to_all_targets, "
        "and beside it a map for each target, seeds_to_NAME.nii.gz. Without --output, no streamline is written.",
        unit="SEEDS FILE", absent="not written", requires=("targets",), affects="run",
    )
    targets: OneOrMore[ImageLike] | None = option(
        None, OUTPUT, "Mask that is a target of --seeds-to-targets, on any grid. NAME is that of its file.",
        unit="MASK", absent="none", requires=("seeds_to_targets",), affects="run",
    )


class Targets:
    """Masks, each of which is a column; they may overlap, and lie on grids of their own.

    Parameters
    ----------
    images : mapping
        Path of each mask, or what stands in for it, by name.

    Attributes
    ----------
    paths : of the masks by name, as messages name them.
    doubts : why the images may be no masks.

    Raises
    ------
    InputError
        If a file is missing or damaged, empty, or too large.
    """

    def __init__(self, images: Mapping[str, AnyPath]) -> None:
        self.paths, self.doubts = dict[str, str](), list[str]()
        grids: dict[tuple[tuple[int, ...], bytes], tuple[Space, list[Array], list[int]]] = {}
        for number, (name, image) in enumerate(images.items()):
            mask = read_mask(image, self.doubts.append)
            self.paths[name] = mask.path
            key = mask.space.shape, mask.space.affine.tobytes()
            _, voxels, numbers = grids.setdefault(key, (mask.space, [], []))
            voxels.append(np.flatnonzero(mask.inside))
            numbers.append(number)
        paths = tuple(self.paths.values())
        self._grids = [_TargetGrid(*grid, paths[grid[2][0]]) for grid in grids.values()]

    def __len__(self) -> int:
        """Return the number of targets."""
        return len(self.paths)

    def passed(self, batch: Batch) -> Iterator[tuple[Array, Array]]:
        """Yield which streamlines of a batch pass which targets, each pair once, for some streamlines at a time.

        Yields
        ------
        streamline : (n,) number of the streamline among those of the batch.
        number : (n,) number of the target.
        """
        for grid in self._grids:
            for streamline, target in grid.passed(batch):
                pair = np.unique(streamline.astype(np.int64) * len(self) + target)
                yield pair // len(self), pair % len(self)


class _TargetGrid:
    """Those targets that lie on the same grid, whose voxels are looked up together.

    Parameters
    ----------
    space : the grid.
    voxels : for each target, the numbers of its voxels.
    numbers : of the targets.
    file : of the first target, for messages.
    """

    def __init__(self, space: Space, voxels: list[Array], numbers: list[int], file: str) -> None:
        self._space, self._file = space, file
        voxel, target = np.concatenate(voxels), np.repeat(numbers, list(map(len, voxels)))
        order = np.argsort(voxel, kind="stable")
        known, self._starts, self._counts = np.unique(voxel[order], return_index=True, return_counts=True)
        self._targets = target[order]  # of the first voxel, then of the second, and so on
        self._number = np.full(space.shape, -1, np.int32).ravel()
        self._number[known] = np.arange(len(known))

    def passed(self, batch: Batch) -> Iterator[tuple[Array, Array]]:
        """Yield the numbers of streamlines and of targets, for each voxel that a streamline passes in a target."""
        for streamline, number in numbers_passed(batch, self._space, self._number, self._file):
            many = self._counts[number]
            place = np.arange(many.sum()) - np.repeat(exclusive_sum(many) - self._starts[number], many)
            yield np.repeat(streamline, many), self._targets[place]


class TargetMatrix(PairMatrix[TargetCounts]):
    """From the voxel of a streamline's seed to the targets that it passes.

    Parameters
    ----------
    path : its table.
    rows : mask of the seeds.
    targets : its columns.
    """

    def __init__(self, path: Path, rows: VoxelMask, targets: Targets) -> None:
        super().__init__(path, rows, len(targets), 0.0)
        self.targets, self._seeded = targets, 0

    def _pairs(self, batch: Batch) -> Iterator[tuple[Array, Iterator[tuple[Array, Array]]]]:
        seeds = self.rows.of_seeds(batch)
        with self._counting:
            self._seeded += int((seeds >= 0).sum())
        for streamline, column in self.targets.passed(batch):
            kept = np.flatnonzero(seeds[streamline] >= 0)
            yield streamline[kept], iter([(seeds[streamline[kept]], column[kept])])

    def finish(self, *, force: bool) -> Finished[TargetCounts]:
        """Write the table, the coordinates of its rows if it lacks them, and the maps."""
        counts = TargetCounts(
            self._sums.take(), self.rows.voxels, tuple(self.targets.paths), self.rows.space.shape, self._streamlines,
            self._seeded, self._counted,
        )
        files = files_of(self.path, counts.targets)
        maps = dict(zip(counts.targets, files[-len(counts.targets) :], strict=True))
        write_voxel_table(self.path, counts.counts, counts.rows, [f"seeds_to_{name}" for name in maps], force=force)
        if len(files) > 1 + len(maps):
            write_coordinates(files[1], counts.rows, numbered=True, force=force)
        for name, path in maps.items():
            write_map(path, counts.map_of(name), self.rows.space, force=force)
        details = {
            "seeds": self.rows.path, "targets": self.targets.paths, "shape": [len(counts.rows), len(counts.targets)],
            "streamlines": counts.streamlines, "seeded": counts.seeded, "counted": counts.counted,
        }
        advice, doubts = "in the space of the tracked image", [*self.rows.doubts, *self.targets.doubts]
        if counts.streamlines and not counts.seeded:
            doubts.append(f"{self.path}: none of {counts.streamlines:,} streamlines begins in a voxel of "
                          f"{self.rows.path}: check that it lies {advice}")
        reached = np.bincount(counts.counts.indices, minlength=len(counts.targets))
        missed = [path for path, count in zip(self.targets.paths.values(), reached, strict=True) if not count]
        if counts.seeded and missed:
            doubts.append(f"{self.path}: {len(missed)} of {len(counts.targets)} targets are reached by no streamline "
                          f"({first_of(missed)}): check that they lie {advice}")
        return Finished(counts, details, files, doubts)


def names_of(images: Iterable[AnyPath]) -> dict[str, AnyPath]:
    """Return targets by the name of their file, in their order; one in memory has its number.

    Raises
    ------
    ParameterError
        If two have the same name, since their maps would be one file.
    """
    named: dict[str, AnyPath] = {}
    taken: dict[str, AnyPath] = {}  # some file systems do not tell letters from capitals
    for number, image in enumerate(images, 1):
        file = f"target_{number}" if isinstance(image, InMemory) else Path(image).name.removesuffix(".gz")
        name = file if isinstance(image, InMemory) else Path(file).stem
        if name.lower() in taken:
            raise ParameterError(f"--targets {image}: its map would have the name of that of {taken[name.lower()]}, "
                                 f"seeds_to_{name}.nii.gz; give a file of another name")
        named[name] = taken[name.lower()] = image
    return named


def files_of(path: Path, targets: Iterable[str]) -> list[Path]:
    """Return a table, the coordinates of its rows if it lacks them, and a map for each target."""
    table = path.suffix.lower() in TABLES
    maps = [path.with_name(f"seeds_to_{name}.nii.gz") for name in targets]
    return [path, *([] if table else beside(path, targets=False)), *maps]


def files(options: TargetOptions) -> tuple[Path, ...]:
    """Return all files of --seeds-to-targets; raise OutputError if a table has an unknown suffix."""
    names, out = names_of(map(file_of, values_of(options.targets))), list[Path]()
    for _, path in pairs_of(options.seeds_to_targets):
        if path.suffix.lower() not in SUFFIXES:
            raise OutputError(f"{path}: unknown suffix {path.suffix!r}; end the name with {', '.join(TABLES)} or .txt, "
                              "or give FSL's name, matrix_seeds_to_all_targets")
        out += files_of(path, names)
    return tuple(out)


def make(options: TargetOptions, space: Space, step_mm: float, threads: int | None) -> VoxelMatrices:
    """Make the counts of --seeds-to-targets."""
    del space, step_mm
    masks, targets = INPUTS.take(options)
    pairs = zip(pairs_of(options.seeds_to_targets), masks, strict=True)
    return VoxelMatrices([TargetMatrix(path, seeds, targets) for (_, path), seeds in pairs], files(options), threads)


def inputs_of(options: TargetOptions) -> tuple[list[VoxelMask], Targets]:
    """Read the masks of the seeds, and the targets."""
    masks = [VoxelMask(seeds) for seeds, _ in pairs_of(options.seeds_to_targets)]
    return masks, Targets(names_of(map(file_of, values_of(options.targets))))


INPUTS = Checked(inputs_of)
