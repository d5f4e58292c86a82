"""Streamlines of any program's TRX, TRK or TCK file, read in batches, so that memory stays bounded."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..space.batch import Batch, Space
from .images import existing, reading

SUFFIXES = (".trx", ".trk", ".tck")
POINTS_AT_ONCE = 1 << 18
LONGEST_STEP_MM = 10.0  # in a header


def check_tractogram(path: str | PathLike[str]) -> Path:
    """Return the path of an existing file with the suffix of a tractogram, or raise an InputError."""
    path = existing(path)
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"{path}: unknown suffix {path.suffix!r}; give a tractogram: {', '.join(SUFFIXES)}")
    return path


def stored_batches(path: Path) -> Generator[Batch, None, None]:
    """Read the streamlines of a tractogram, in its order, also those without points.

    Parameters
    ----------
    path : Path
        Of :func:`check_tractogram`.

    Yields
    ------
    Batch
        Points in RASmm.  Seeds, numbers and reasons to stop are 0, since not every program writes them, except for the
        seeds and their numbers that a TRX file has.

    Raises
    ------
    InputError
        If the file is damaged, or if a point is not finite.
    """
    pieces = READERS[path.suffix.lower()](path)
    while True:
        with reading(path):  # not around the yield: errors of the caller are not those of the file
            batch = next(pieces, None)
        if batch is None:
            return
        if not np.isfinite(batch.points).all():
            raise InputError(f"{path}: has points that are not finite; correct or write the file again")
        yield batch


def grid_of_tractogram(path: Path) -> Space | None:
    """Return the grid of the image that a tractogram belongs to, as its header has it; None for TCK."""
    with reading(path):
        if path.suffix.lower() == ".trx":
            from trx import trx_file_memmap

            file: Any = trx_file_memmap.load(str(path))
            try:
                return _space(file.header["VOXEL_TO_RASMM"], file.header["DIMENSIONS"])
            finally:
                file.close()
        if path.suffix.lower() == ".trk":
            import nibabel as nib

            header: Any = nib.streamlines.load(path, lazy_load=True).header
            return _space(header["voxel_to_rasmm"], header["dimensions"])
    return None


def step_of_tractogram(path: Path) -> float | None:
    """Return the distance of the points of a streamline, mm, as the header of a TCK has it.

    None for other files, and where the header has none, or one with which no program tracks.
    """
    if path.suffix.lower() != ".tck":
        return None
    import nibabel as nib

    with reading(path):
        header: Any = nib.streamlines.load(path, lazy_load=True).header
        # tckgen before 3.0 wrote the distance as output_step_size where it left points out; tcksift2 reads the other
        for name in ("output_step_size", "step_size"):
            with suppress(KeyError, ValueError):
                if 0 < (step := float(header[name])) <= LONGEST_STEP_MM:
                    return step
    return None


def has_seeds(path: Path) -> bool:
    """Whether a tractogram has the seed of each streamline, which only a TRX file can have."""
    if path.suffix.lower() != ".trx":
        return False
    with reading(path):
        from trx import trx_file_memmap

        file: Any = trx_file_memmap.load(str(path))
        try:
            return _seeds_in(file) is not None
        finally:
            file.close()


def _seeds_in(file: Any) -> npt.NDArray[Any] | None:
    """Return the seeds that a TRX file has, (n, 3) in RASmm."""
    seeds = file.data_per_streamline.get("seeds")
    return None if seeds is None or np.shape(seeds)[1:] != (3,) else np.array(seeds)


def _space(affine: Any, shape: Any) -> Space:
    across, deep, high = (int(side) for side in shape)
    return Space(np.array(affine, np.float64), (across, deep, high))


def batch_of(
    points: npt.NDArray[Any], lengths: npt.NDArray[Any], numbers: npt.NDArray[Any] | None = None,
    seeds: npt.NDArray[Any] | None = None,
) -> Batch:  # fmt: skip
    """Return streamlines, points (p, 3) in RASmm and how many each has, as a batch."""
    zeros: Any = np.zeros
    own: Any = zeros(len(lengths)) if numbers is None else numbers
    begun: Any = zeros((len(lengths), 3)) if seeds is None else seeds
    n, offsets = len(lengths), np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    return Batch(points, offsets, begun, own, zeros(n), zeros((n, 2)))  # converted by Batch


def _mapped(path: Path) -> Generator[Batch, None, None]:
    """Read a TRX file, which is mapped."""
    from trx import trx_file_memmap

    file: Any = trx_file_memmap.load(str(path))
    try:
        stored = file.streamlines
        lengths = np.diff(np.asarray(stored._offsets, np.int64), append=len(stored._data))
        lengths = lengths if len(lengths) else np.zeros(int(file.header["NB_STREAMLINES"]), np.int64)
        ends, numbers = np.cumsum(lengths), file.data_per_streamline.get("seed_number")
        if numbers is not None:
            numbers = np.asarray(numbers).ravel()
        seeds = _seeds_in(file)
        first, done = 0, 0
        while first < len(lengths):
            last = max(int(np.searchsorted(ends, done + POINTS_AT_ONCE, "right")), first + 1)
            # copies, since members of the file may begin anywhere
            own, begun = (None if values is None else np.array(values[first:last]) for values in (numbers, seeds))
            points = np.array(stored._data[done : ends[last - 1]], np.float32).reshape(-1, 3)
            yield batch_of(points, lengths[first:last], own, begun)
            first, done = last, int(ends[last - 1])
    finally:
        file.close()


def _loaded(path: Path) -> Generator[Batch, None, None]:
    """Read a TRK file, which nibabel reads one streamline at a time."""
    import nibabel as nib

    lines: Iterable[Any] = nib.streamlines.load(path, lazy_load=True).streamlines
    held: list[npt.NDArray[Any]] = []
    points = 0
    for line in lines:
        held.append(line)
        points += len(line)
        if points >= POINTS_AT_ONCE:
            yield _gathered(held)
            held, points = [], 0
    if held:
        yield _gathered(held)


def _gathered(lines: list[npt.NDArray[Any]]) -> Batch:
    return batch_of(np.concatenate(lines).astype(np.float32, copy=False), np.array([len(line) for line in lines]))


def _in_rows(path: Path) -> Generator[Batch, None, None]:
    """Read a TCK file: rows of three numbers, of which one of NaN ends a streamline, and one of infinity the file."""
    import nibabel as nib

    header: Any = nib.streamlines.load(path, lazy_load=True).header
    kind, held = ">f4" if header["datatype"].endswith("BE") else "<f4", np.empty((0, 3), np.float32)
    with path.open("rb") as file:
        file.seek(int(header["file"].split()[1]))
        while len(values := np.fromfile(file, kind, 3 * POINTS_AT_ONCE)):
            held = np.concatenate([held, values.astype(np.float32, copy=False).reshape(-1, 3)])
            missing = np.isnan(held)
            ending = missing[:, 0] & missing[:, 1] & missing[:, 2]
            if len(ends := np.flatnonzero(ending)):
                past = int(ends[-1]) + 1
                points = held.take(np.flatnonzero(~ending[:past]), axis=0)  # faster than by the mask
                yield batch_of(points, np.diff(ends, prepend=-1) - 1)
                held = held[past:]
    if not (len(held) == 1 and np.isinf(held).all()):
        raise ValueError("it has no mark of its end")


READERS = {".trx": _mapped, ".trk": _loaded, ".tck": _in_rows}
