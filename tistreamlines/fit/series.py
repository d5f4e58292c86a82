"""Signals of a series for fits: whether they match the gradients, and copies of some voxels."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator

import numpy as np
import numpy.typing as npt

from ..aliases import Array, GradientTable
from ..devices import usable_cores
from ..devices.threads import ahead, single_blas, thread_pool
from ..errors import InputError

COPIED = 1 << 12  # voxels that a thread copies at a time


def check_series(data: Array, gtab: GradientTable, mask: Array | None = None) -> None:
    """Check that data, gradients and mask belong together, and that volumes are diffusion-weighted."""
    if data.ndim != 4 or data.shape[3] != len(gtab.bvals):
        raise InputError(f"data is {data.shape}, the gradient table has {len(gtab.bvals)} volumes: give one series")
    if mask is not None and (mask.shape != data.shape[:3] or mask.dtype != bool):
        raise InputError(f"mask is {mask.shape} {mask.dtype}, data {data.shape}: give a bool for each voxel")
    if np.asarray(gtab.b0s_mask).all():
        raise InputError("all volumes are b0s: give a diffusion-weighted series")


def signals_of(series: Array, voxels: Array, volumes: Array, threads: int | None) -> npt.NDArray[np.float32]:
    """Return some volumes of some voxels of a series (voxels, all volumes), which threads copy."""
    out = np.empty((len(voxels), len(volumes)), np.float32)
    whole = len(volumes) == series.shape[1]

    def copy(part: slice) -> None:
        rows = series[voxels[part]]
        out[part] = rows if whole else rows[:, volumes]

    in_parts(copy, len(voxels), threads)
    return out


def batches_of(
    data: Array, mask: npt.NDArray[np.bool_], volumes: Array, most: int, threads: int | None,
    progress: Callable[[float], object],
) -> Generator[tuple[Array, npt.NDArray[np.float32]], None, None]:
    """Yield the numbers (m,) of at most so many voxels of a mask, and their signals (m, volumes).

    Meanwhile, those of the next ones are copied. ``progress`` receives the share of voxels that were yielded before.
    """
    voxels, series = np.flatnonzero(mask), np.ascontiguousarray(data).reshape(mask.size, -1)
    parts = [voxels[first : first + most] for first in range(0, len(voxels), most)]
    copies = ahead(lambda part: signals_of(series, part, volumes, threads), parts)
    for number, batch in enumerate(zip(parts, copies, strict=True)):
        progress(number / len(parts))
        yield batch
    progress(1.0)


def in_parts(copy: Callable[[slice], None], count: int, threads: int | None) -> None:
    """Copy so many voxels in parts, in threads."""
    parts = (slice(first, first + COPIED) for first in range(0, count, COPIED))
    with single_blas():
        deque(thread_pool("copies", threads or usable_cores()).map(copy, parts), maxlen=0)


def rows_of(data: Array, mask: npt.NDArray[np.bool_]) -> tuple[Array, npt.NDArray[np.intp]]:
    """Return the signals of voxels in rows (m, n), and which rows are those of a mask.

    They are the data themselves, or a copy of the mask's voxels if the data do not lie in the order of C.
    """
    if data.flags.c_contiguous:
        return data.reshape(mask.size, -1), np.flatnonzero(mask)
    rows = data[mask]
    return rows, np.arange(len(rows))
