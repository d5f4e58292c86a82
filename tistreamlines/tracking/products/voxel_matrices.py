"""Matrices of voxels, as probtrackx2 writes them: from each seed voxel to others, and between those of a mask."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...aliases import Json
from ...devices import usable_cores
from ...devices.threads import thread_pool
from ...errors import OutputError, ParameterError
from ...io.sparse import SUFFIXES
from ...option import OUTPUT, option
from ...space.batch import Batch, Space
from ..growth.settings import Settings
from .density import MOST_THREADS
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


class VoxelMatrices:
    """Makes matrices of voxels of a run, and writes them; see :class:`.files.ProductFile`.

    Parameters
    ----------
    made : the matrices.
    paths : all files.
    threads : how many threads add streamlines; None for as many as help.
    """

    def __init__(self, made: Sequence[PairMatrix], paths: tuple[Path, ...], threads: int | None) -> None:
        self._made, self.paths = made, paths
        self._threads = max(1, min(threads or usable_cores(), MOST_THREADS))
        self._waiting: deque[Future[None]] = deque()
        self.value: tuple[Any, ...] = ()
        self.told: Json = {}
        self.doubts: tuple[str, ...] = ()

    def add(self, batch: Batch) -> None:
        """Add the streamlines of a batch, in another thread; wait if several batches are not added yet."""
        while len(self._waiting) > WAITING * self._threads:
            self._waiting.popleft().result()
        self._waiting.append(thread_pool("voxels", self._threads).submit(self._add, batch))

    def _add(self, batch: Batch) -> None:
        for one in self._made:
            one.add(batch)

    def collector(self, space: Space, settings: Settings) -> None:
        """Return nothing: all points are needed."""
        del space, settings

    def write(self, *, force: bool) -> None:
        """Wait until all streamlines are added, and write the matrices."""
        while self._waiting:
            self._waiting.popleft().result()
        self.value = tuple(one.value() for one in self._made)
        both = list(zip(self._made, self.value, strict=True))
        self.told = {
            "matrices": [one.told(made) for one, made in both],
            "files": [file for one, made in both for file in one.write(made, force=force)],
        }
        self.doubts = tuple(dict.fromkeys(text for one, made in both for text in one.doubts(made)))


def seed_matrices(options: SeedMatrixOptions, space: Space, step_mm: float, threads: int | None) -> VoxelMatrices:
    """Make the matrices of --seed-matrix."""
    del space, step_mm
    pairs: Any = options.seed_matrix
    made = []
    for (seeds, path), target in zip(pairs, _targets(options), strict=True):
        rows = VoxelMask(seeds)
        columns = rows if target is None or (other := VoxelMask(target)).same(rows) else other
        made.append(FromSeeds(Path(path), rows, columns, options.seed_matrix_min_length, target is not None))
    return VoxelMatrices(made, seed_files(options), threads)


def voxel_matrices(options: VoxelMatrixOptions, space: Space, step_mm: float, threads: int | None) -> VoxelMatrices:
    """Make the matrices of --voxel-matrix."""
    del space, step_mm
    pairs: Any = options.voxel_matrix
    masks = [(VoxelMask(mask), Path(path)) for mask, path in pairs]
    made = [Between(path, mask, mask, options.voxel_matrix_min_length) for mask, path in masks]
    return VoxelMatrices(made, voxel_files(options), threads)


def _targets(options: SeedMatrixOptions) -> Sequence[Any]:
    """Return the mask of the columns of each seed matrix, or None."""
    pairs: Any = options.seed_matrix
    given: Any = options.seed_matrix_targets
    if given is None or len(given) == 1:
        return (given or (None,)) * len(pairs)
    if len(given) != len(pairs):
        raise ParameterError(f"--seed-matrix-targets is there {len(given)} times, --seed-matrix {len(pairs)} times: "
                             "give one mask for all matrices, or one for each")
    return given


def seed_files(options: SeedMatrixOptions) -> tuple[Path, ...]:
    """Return all files of --seed-matrix."""
    return _files(options.seed_matrix, [one is not None for one in _targets(options)])


def voxel_files(options: VoxelMatrixOptions) -> tuple[Path, ...]:
    """Return all files of --voxel-matrix."""
    pairs: Any = options.voxel_matrix
    return _files(pairs, [False] * len(pairs))


def _files(pairs: Any, targets: Sequence[bool]) -> tuple[Path, ...]:
    """Return each matrix and what lies beside it; raise OutputError if a matrix has an unknown suffix."""
    out: list[Path] = []
    for (_, given), more in zip(pairs, targets, strict=True):
        path = Path(given)
        if path.suffix.lower() not in SUFFIXES:
            raise OutputError(f"{path}: unknown suffix {path.suffix!r}; end the name with {', '.join(SUFFIXES)}")
        out += [path, *beside(path, targets=more)]
    return tuple(out)


def check_seed(options: SeedMatrixOptions) -> None:
    """Read the masks of --seed-matrix: an error of a small file comes before the work."""
    pairs: Any = options.seed_matrix
    targets: Any = options.seed_matrix_targets or ()
    for image in (*(seeds for seeds, _ in pairs), *targets):
        VoxelMask(image)


def check_voxel(options: VoxelMatrixOptions) -> None:
    """Read the masks of --voxel-matrix."""
    pairs: Any = options.voxel_matrix
    for image, _ in pairs:
        VoxelMask(image)
