"""From seeds to targets, as probtrackx2's --os2t: how many streamlines from each seed voxel reach each target."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ....aliases import Array, csr_matrix
from ....errors import OutputError, ParameterError
from ....io.images import AnyPath
from ....io.in_memory import InMemory
from ....io.maps import write_map
from ....io.tables import SEPARATORS, write_coordinates, write_voxel_table
from ....option import OUTPUT, ImageLike, OneOrMore, PathLike, file_of, option, pairs_of, values_of
from ....space.batch import Batch
from ..files import Maker, first_of
from .mask import MaskImage, VoxelMask, numbers_passed, read_mask
from .matrices import PairMatrix, VoxelMatrices, files_beside

SUFFIXES = (*SEPARATORS, ".txt", "")  # FSL's file has none


@dataclass(frozen=True, repr=False, eq=False)
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


@dataclass(frozen=True, eq=False)
class TargetCounts:
    """How many streamlines that begin in each voxel of a mask reach each of several targets.

    Parameters
    ----------
    counts : scipy.sparse.csr_matrix, (n, t) int32 or int64
        Number of streamlines of each voxel and target that has any.
    rows : (n, 3) int32
        Voxel coordinates of the rows, on the grid of the mask.
    targets : tuple of str
        Names of the columns.
    shape : tuple of int
        Shape of the mask.
    streamlines : int
        All streamlines.
    seeded : int
        Those of them that begin in a voxel of the mask.
    counted : int
        Those of these that reach a target.
    """

    counts: csr_matrix
    rows: npt.NDArray[np.int32]
    targets: tuple[str, ...]
    shape: tuple[int, int, int]
    streamlines: int
    seeded: int
    counted: int

    def map_of(self, target: str) -> Array:
        """Return the map of a target, (x, y, z): its counts in the voxels of the mask, 0 elsewhere.

        Raises
        ------
        ValueError
            If there is no target of this name.
        """
        column = self.counts[:, self.targets.index(target)].toarray().ravel()
        values = np.zeros(self.shape, column.dtype)
        values[tuple(self.rows.T)] = column
        return values

    def __repr__(self) -> str:
        """Return size and counts in one line."""
        size = f"{len(self.rows):,} voxels, {len(self.targets):,} targets"
        return f"<TargetCounts of {size}, {self.counted:,} of {self.seeded:,} streamlines reach one>"


class Targets:
    """Masks, each of which is a column; they may overlap, and lie on other grids.

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
        from scipy.sparse import csr_matrix

        self.paths, self.doubts = dict[str, str](), list[str]()
        grids: dict[tuple[tuple[int, ...], bytes], tuple[MaskImage, list[tuple[Array, Array]]]] = {}
        for number, (name, image) in enumerate(images.items()):
            mask = read_mask(image, self.doubts.append)
            self.paths[name] = mask.path
            voxels = np.flatnonzero(mask.inside)
            _, places = grids.setdefault((mask.space.shape, mask.space.affine.tobytes()), (mask, []))
            places.append((voxels, np.full(len(voxels), number)))
        # the targets of each voxel, for the masks on a grid together
        self._grids = list[tuple[MaskImage, Array, csr_matrix]]()
        for mask, places in grids.values():
            voxel, target = np.concatenate(places, axis=1)
            held = csr_matrix((np.ones(len(voxel), bool), (voxel, target)), shape=(mask.inside.size, len(images)))
            number = np.where(np.diff(held.indptr) > 0, np.arange(mask.inside.size, dtype=np.int32), np.int32(-1))
            self._grids.append((mask, number, held))

    def __len__(self) -> int:
        """Return the number of targets."""
        return len(self.paths)

    def passages(self, batch: Batch) -> Iterator[tuple[Array, Array]]:
        """Yield which streamlines of a batch pass which targets, each pair once, for some streamlines at a time.

        Yields
        ------
        streamline : (n,) number of the streamline among those of the batch.
        number : (n,) number of the target.
        """
        for mask, numbers, held in self._grids:
            for streamline, voxel in numbers_passed(batch, mask.space, numbers, mask.path):
                targets = held[voxel]
                streamlines = np.repeat(streamline.astype(np.int64), np.diff(targets.indptr))
                pair = np.unique(streamlines * len(self) + targets.indices)
                yield pair // len(self), pair % len(self)


class TargetMatrix(PairMatrix):
    """From the voxel of a streamline's seed to the targets that it passes.

    Parameters
    ----------
    path : its table.
    rows : mask of the seeds.
    targets : its columns.
    """

    def __init__(self, path: Path, rows: VoxelMask, targets: Targets) -> None:
        super().__init__(files_of(path, targets.paths), rows, len(targets), 0.0)
        self.targets, self._seeded = targets, 0

    def _pairs(self, batch: Batch) -> Iterator[tuple[Array, Iterator[tuple[Array, Array]]]]:
        seeds = self.rows.of_seeds(batch)
        with self._counting:
            self._seeded += int((seeds >= 0).sum())
        for streamline, column in self.targets.passages(batch):
            kept = np.flatnonzero(seeds[streamline] >= 0)
            yield streamline[kept], iter([(seeds[streamline[kept]], column[kept])])

    def write(self, *, force: bool) -> None:
        """Write the table, the coordinates of its rows if it lacks them, and the maps."""
        counts = TargetCounts(
            self._matrix(), self.rows.voxels, tuple(self.targets.paths), self.rows.space.shape, self._streamlines,
            self._seeded, self._counted,
        )
        path, files = self.paths[0], self.paths
        maps = dict(zip(counts.targets, files[-len(counts.targets) :], strict=True))
        write_voxel_table(path, counts.counts, counts.rows, [f"seeds_to_{name}" for name in maps], force=force)
        if len(files) > 1 + len(maps):
            write_coordinates(files[1], counts.rows, numbered=True, force=force)
        for name, file in maps.items():
            write_map(file, counts.map_of(name), self.rows.space, force=force)
        self.value, self.details = counts, {
            "seeds": self.rows.path, "targets": self.targets.paths, "shape": [len(counts.rows), len(counts.targets)],
            "streamlines": counts.streamlines, "seeded": counts.seeded, "counted": counts.counted,
        }
        advice, doubts = "in the space of the tracked image", [*self.rows.doubts, *self.targets.doubts]
        if counts.streamlines and not counts.seeded:
            doubts.append(f"{path}: none of {counts.streamlines:,} streamlines begins in a voxel of "
                          f"{self.rows.path}: check that it lies {advice}")
        reached = np.bincount(counts.counts.indices, minlength=len(counts.targets))
        missed = [path for path, count in zip(self.targets.paths.values(), reached, strict=True) if not count]
        if counts.seeded and missed:
            doubts.append(f"{path}: {len(missed)} of {len(counts.targets)} targets are reached by no streamline "
                          f"({first_of(missed)}): check that they lie {advice}")
        self.doubts = tuple(doubts)


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
    table = path.suffix.lower() in SEPARATORS
    maps = [path.with_name(f"seeds_to_{name}.nii.gz") for name in targets]
    return [path, *([] if table else files_beside(path, targets=False)), *maps]


def files(options: TargetOptions) -> tuple[Path, ...]:
    """Return all files of --seeds-to-targets; raise OutputError if a table has an unknown suffix."""
    names, out = names_of(map(file_of, values_of(options.targets))), list[Path]()
    for _, path in pairs_of(options.seeds_to_targets):
        if path.suffix.lower() not in SUFFIXES:
            raise OutputError(f"{path}: unknown suffix {path.suffix!r}; end the name with {', '.join(SEPARATORS)} or "
                              ".txt, or give FSL's name, matrix_seeds_to_all_targets")
        out += files_of(path, names)
    return tuple(out)


def seeds_to_targets(options: TargetOptions) -> Maker:
    """Read the masks of the seeds, and the targets."""
    masks = [(path, VoxelMask(seeds)) for seeds, path in pairs_of(options.seeds_to_targets)]
    targets = Targets(names_of(map(file_of, values_of(options.targets))))
    return partial(VoxelMatrices, [TargetMatrix(path, mask, targets) for path, mask in masks])
