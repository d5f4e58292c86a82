"""Matrices of voxels, as probtrackx2 writes them: from each seed voxel to others, and between those of a mask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ...devices import usable_cores
from ...errors import OutputError
from ...io import sidecar
from ...io.images import AnyPath
from ...io.sparse import SUFFIXES
from ...option import OUTPUT, file_of, of_each, option, pairs_of, values_of
from ...space.batch import Batch, Space
from .backlog import Backlog
from .density import MOST_THREADS
from .files import Checked, ProductFile
from .voxel_counts import TargetCounts, VoxelCounts
from .voxel_mask import VoxelMask
from .voxel_matrix import Between, FromSeeds, PairMatrix, beside

if TYPE_CHECKING:
    from ...option import ImageLike, OneOrMore, PathLike

WAITING = 2  # batches for each thread, besides the one that it adds


@dataclass(frozen=True)
class SeedMatrixOptions:
    """Options of matrices from seed voxels, a part of :class:`tistreamlines.Parameters`."""

    seed_matrix: OneOrMore[tuple[ImageLike, PathLike]] | None = option(
        None, OUTPUT, "Write how many streamlines from each voxel of the mask SEEDS pass each other voxel of it to "
        "FILE, .npz or .dot, as probtrackx2's matrix1. Without --output, no streamline is written.", unit="SEEDS FILE",
        absent="not written", affects="run",
    )
    seed_matrix_targets: OneOrMore[ImageLike] | None = option(
        None, OUTPUT, "Mask for --seed-matrix, whose voxels are the columns, as in probtrackx2's matrix2. One for all "
        "matrices, or one for each.", unit="FILE", absent="the voxels of SEEDS", requires=("seed_matrix",),
        affects="run",
    )
    seed_matrix_min_length: float = option(
        0.0, OUTPUT, "Length below which --seed-matrix leaves streamlines out, as probtrackx2's --distthresh1.",
        unit="mm", low=0, requires=("seed_matrix",), affects="run",
    )


@dataclass(frozen=True)
class VoxelMatrixOptions:
    """Options of matrices between voxels, a part of :class:`tistreamlines.Parameters`."""

    voxel_matrix: OneOrMore[tuple[ImageLike, PathLike]] | None = option(
        None, OUTPUT, "Write how many streamlines pass both of two voxels of MASK, for each pair of them, to FILE, "
        ".npz or .dot, as probtrackx2's matrix3. Without --output, no streamline is written.", unit="MASK FILE",
        absent="not written", affects="run",
    )
    voxel_matrix_min_length: float = option(
        0.0, OUTPUT, "Length below which --voxel-matrix leaves streamlines out, as probtrackx2's --distthresh3.",
        unit="mm", low=0, requires=("voxel_matrix",), affects="run",
    )


class VoxelMatrices(ProductFile):
    """Makes matrices of voxels of a run, and writes them.

    Parameters
    ----------
    matrices : what is made.
    paths : all files.
    threads : how many threads add streamlines; None for as many as help.
    """

    def __init__(
        self, matrices: Sequence[PairMatrix[VoxelCounts] | PairMatrix[TargetCounts]], paths: tuple[Path, ...],
        threads: int | None,
    ) -> None:
        super().__init__(*paths)
        self._matrices, threads = matrices, max(1, min(threads or usable_cores(), MOST_THREADS))
        self._backlog = Backlog[None]("voxels", threads, WAITING * threads)

    def add(self, batch: Batch) -> None:
        """Add the streamlines of a batch, in another thread; wait if several batches are not added yet."""
        self._backlog.submit(self._add, batch)

    def _add(self, batch: Batch) -> None:
        for matrix in self._matrices:
            matrix.add(batch)

    def write(self, *, force: bool) -> None:
        """Wait until all streamlines are added, and write the matrices."""
        self._backlog.wait()
        finished = [matrix.finish(force=force) for matrix in self._matrices]
        self.value = tuple(matrix.counts for matrix in finished)
        files = [sidecar.described(path) for matrix in finished for path in matrix.files]
        self.details = {"matrices": [matrix.details for matrix in finished], "files": files}
        self.doubts = tuple(dict.fromkeys(text for matrix in finished for text in matrix.doubts))


def seed_matrices(options: SeedMatrixOptions, space: Space, step_mm: float, threads: int | None) -> VoxelMatrices:
    """Make the matrices of --seed-matrix."""
    del space, step_mm
    matrices = []
    for (_, path), (rows, target) in zip(pairs_of(options.seed_matrix), SEEDS.take(options), strict=True):
        columns = rows if target is None or target.same(rows) else target
        matrices.append(FromSeeds(path, rows, columns, options.seed_matrix_min_length, target is not None))
    return VoxelMatrices(matrices, seed_files(options), threads)


def voxel_matrices(options: VoxelMatrixOptions, space: Space, step_mm: float, threads: int | None) -> VoxelMatrices:
    """Make the matrices of --voxel-matrix."""
    del space, step_mm
    matrices = [
        Between(path, mask, mask, options.voxel_matrix_min_length)
        for (_, path), mask in zip(pairs_of(options.voxel_matrix), MASKS.take(options), strict=True)
    ]
    return VoxelMatrices(matrices, voxel_files(options), threads)


def _targets(options: SeedMatrixOptions) -> list[AnyPath | None]:
    """Return the mask of the columns of each seed matrix, or None."""
    masks = of_each(
        "seed_matrix", len(values_of(options.seed_matrix)), "seed_matrix_targets",
        values_of(options.seed_matrix_targets), "one mask for all matrices",
    )
    return [None if mask is None else file_of(mask) for mask in masks]


def seed_files(options: SeedMatrixOptions) -> tuple[Path, ...]:
    """Return all files of --seed-matrix."""
    return _files([path for _, path in pairs_of(options.seed_matrix)], [mask is not None for mask in _targets(options)])


def voxel_files(options: VoxelMatrixOptions) -> tuple[Path, ...]:
    """Return all files of --voxel-matrix."""
    paths = [path for _, path in pairs_of(options.voxel_matrix)]
    return _files(paths, [False] * len(paths))


def _files(paths: Sequence[Path], targets: Sequence[bool]) -> tuple[Path, ...]:
    """Return each matrix and what lies beside it; raise OutputError if a matrix has an unknown suffix."""
    out: list[Path] = []
    for path, more in zip(paths, targets, strict=True):
        if path.suffix.lower() not in SUFFIXES:
            raise OutputError(f"{path}: unknown suffix {path.suffix!r}; end the name with {', '.join(SUFFIXES)}")
        out += [path, *beside(path, targets=more)]
    return tuple(out)


def _seed_masks(options: SeedMatrixOptions) -> list[tuple[VoxelMask, VoxelMask | None]]:
    """Read the masks of rows and columns."""
    seeds = [VoxelMask(image) for image, _ in pairs_of(options.seed_matrix)]
    return [
        (rows, None if target is None else VoxelMask(target))
        for rows, target in zip(seeds, _targets(options), strict=True)
    ]


def _voxel_masks(options: VoxelMatrixOptions) -> list[VoxelMask]:
    """Read the masks of --voxel-matrix."""
    return [VoxelMask(image) for image, _ in pairs_of(options.voxel_matrix)]


SEEDS, MASKS = Checked(_seed_masks), Checked(_voxel_masks)
