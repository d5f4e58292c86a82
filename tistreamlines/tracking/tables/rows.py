"""The table of rows, one for each voxel that tracking can read, and the volume of indices into it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt

from ...aliases import Array
from ...devices.threads import in_threads
from ...errors import InputError
from ...io.samples import Samples
from ...kernels.interpolate import Volume
from ..parts import Getter
from .inputs import GetterInputs, KernelTables, Signals

BLOCK = 8192  # voxels
CACHE_LINE = 16  # float32
CUBE = 8  # voxels whose rows may lie interleaved
# Numbers that interleaved rows may take in any case, so that those of small images lie as in kernels that were
# compiled before.
FEW_NUMBERS = 2**18
WASTE = 1.5  # greatest size of interleaved rows, in sizes of those one after the other
ROUNDING = 1e-5  # relative, of the length of a step in float32
MOST_NUMBERS = 2**30  # greatest size of an array, so that the address of each byte fits 32 bits


Fill = Callable[[Array, Array], None]  # writes rows (m, width) of values (m, n) in float64


def front(numbers: Callable[[Array], Array] = lambda values: values) -> Fill:
    """Return a function that writes ``numbers(values)``, (m, k), to the front of the rows; by default, the values.

    It takes the values and the rows of m voxels.
    """
    def fill(values: Array, rows: Array) -> None:
        columns = numbers(values)
        rows[:, : columns.shape[1]] = columns

    return fill


@dataclass(frozen=True, eq=False)
class Rows:
    """How rows are made of the values of voxels, and which voxels need one.

    Parameters
    ----------
    fill : callable
        Called with values (m, n), float64, and the rows (m, width) into which to write.
    reach : callable
        Returns the voxels along each axis, (3,), that a method reads beyond the point from which it steps, of an image
        of a shape.
    stretch : float
        Greatest length of a step, in step sizes.
    all_values : bool
        Whether exactly the voxels with a value need a row, since streamlines end elsewhere.
    """

    fill: Fill
    reach: Callable[[tuple[int, ...]], npt.ArrayLike] = lambda _: (0, 0, 0)
    stretch: float = 1.0
    all_values: bool = False


def tables_of(inputs: GetterInputs, getter: Getter, rows: Rows) -> KernelTables:
    """Return the tables of a getter, with rows of the values.

    Raises
    ------
    InputError
        If the rows are larger than an array on every arch can be.
    """
    follows, fill = inputs.follows, rows.fill
    if isinstance(follows, Samples):
        values, fill = _sample_numbers(follows, fill)
    else:
        whole = follows.data if isinstance(follows, Signals) else follows.values
        values = whole.reshape(*whole.shape[:3], -1)
    if rows.all_values:
        keep = np.stack(in_threads(lambda plane: np.logical_or.reduce(plane, axis=-1), values, None))
    else:
        keep = rows_to_keep(inputs, values, rows.reach(values.shape[:3]), rows.stretch)
    volume = build_volume(values, keep, 32 * getter.row.row_chunks, fill, inputs.channels)
    return KernelTables(getter, inputs.stop.rule, volume)


def _sample_numbers(samples: Samples, fill: Fill) -> tuple[npt.NDArray[np.int32], Fill]:
    """Return the number of each voxel's samples, from 1, (x, y, z, 1), and what fills rows of these numbers."""
    each = samples.values.reshape(len(samples.values), -1)
    numbers = np.zeros((*samples.mask.shape, 1), np.int32)
    numbers[samples.mask, 0] = np.arange(1, len(each) + 1)

    def fill_rows(values: Array, rows: Array) -> None:
        number = values[:, 0].astype(np.int64)
        sampled = np.zeros((len(number), each.shape[1]), np.float32)
        sampled[number > 0] = each[number[number > 0] - 1]
        fill(sampled, rows)

    return numbers, fill_rows


def voxels_in_reach(
    alive: npt.NDArray[np.bool_] | None, seeds: npt.NDArray[np.float64], shape: tuple[int, ...]
) -> npt.NDArray[np.bool_]:
    """Return the voxels around all points from which a streamline can step.

    A streamline continues only if one of the eight voxels around its point is alive; the other seven are neighbours of
    this one. Seeds may lie anywhere.

    Parameters
    ----------
    alive : ndarray of bool, (x, y, z), or None
        See :class:`tistreamlines.tracking.tables.inputs.StopTables`; None selects all voxels.
    seeds : ndarray, (n, 3)
        Voxel coordinates.
    shape : tuple of int
        Shape of the image.

    Returns
    -------
    ndarray of bool, (x, y, z)
        The voxels.
    """
    if alive is None:
        return np.ones(shape, bool)
    # axis by axis, since numpy is slow along an axis of three
    near = np.logical_and.reduce([(x >= -0.5) & (x < side - 0.5) for x, side in zip(seeds.T, shape, strict=True)])
    low = np.zeros(np.asarray(shape) + 1, bool)  # whether a seed lies between a voxel's predecessor and the voxel
    low[tuple(np.floor(x[near]).astype(np.int64) + 1 for x in seeds.T)] = True
    return near_marks(alive, (1, 1, 1)) | of_windows(np.logical_or, low, (2, 2, 2))


def rows_to_keep(
    inputs: GetterInputs, values: Array, reach: npt.ArrayLike = (0, 0, 0), stretch: float = 1.0
) -> npt.NDArray[np.bool_]:
    """Return the voxels that get a row.

    Parameters
    ----------
    inputs : GetterInputs
        Inputs of the method.
    values : ndarray, (x, y, z, n)
        Values from which rows are made.
    reach : array_like of int, (3,)
        Voxels along each axis that the method reads beyond the point from which it steps.
    stretch : float
        Greatest length of a step, in step sizes.

    Returns
    -------
    ndarray of bool, (x, y, z)
        The voxels. Beyond those of :func:`voxels_in_reach`, voxels whose row would be all zeros have none.
    """
    shape, seeds = values.shape[:3], inputs.seeds() if callable(inputs.seeds) else inputs.seeds
    keep = voxels_in_reach(inputs.stop.alive, seeds, shape)
    if not inputs.stop.zeros_end:
        with np.errstate(over="ignore"):
            step = np.ceil(inputs.step_mm * stretch * (1 + ROUNDING) / np.asarray(inputs.voxel_sizes, float))
        reach = np.maximum(reach, np.minimum(step, shape).astype(int))
    reach = np.asarray(reach)
    if keep.all() or not reach.any():
        return keep
    return near_marks(keep, reach) & (values.any(axis=-1) | inputs.channels.any(axis=-1))


def near_marks(marks: npt.NDArray[np.bool_], reach: Sequence[int] | npt.NDArray[np.int_]) -> npt.NDArray[np.bool_]:
    """Return the voxels (x, y, z) within ``reach`` voxels of a marked one along each axis."""
    wide = np.pad(marks, [(side, side) for side in reach])
    return of_windows(np.logical_or, wide, [2 * side + 1 for side in reach])


def of_windows(choose: np.ufunc, values: Array, sizes: Iterable[int]) -> Array:
    """Return what ``choose`` leaves of each window of so many voxels, by its first voxel."""
    for axis, size in enumerate(sizes):
        moved = np.moveaxis(values, axis, 0)
        shifted = [moved[first : len(moved) - size + 1 + first] for first in range(size)]
        values = np.moveaxis(reduce(choose, shifted), 0, axis)
    return values


def _from_a_cache_line(shape: tuple[int, int]) -> npt.NDArray[np.float32]:
    """Return zeros that begin with a cache line, so that no vector of 16 of them lies in two."""
    count = shape[0] * shape[1]
    padded = np.zeros(count + CACHE_LINE, np.float32)
    first = -padded.ctypes.data // padded.itemsize % CACHE_LINE
    return padded[first : first + count].reshape(shape)


def build_volume(
    data: Array, keep: npt.NDArray[np.bool_], width: int, fill: Fill,
    channels: npt.NDArray[np.float32],
) -> Volume:
    """Make the index volume and the rows.

    Parameters
    ----------
    data : ndarray, (x, y, z, n)
        Values from which rows are made.
    keep : ndarray of bool, (x, y, z)
        Voxels that get a row.
    width : int
        Number of float32 in a row, a multiple of 32.
    fill : callable
        Called with values (m, n), float64, and the rows (m, width) into which to write.
    channels : ndarray, (x, y, z, k)
        Maps of the stopping rule, stored at the end of each row.

    Returns
    -------
    Volume
        ``index``, (x * y * z,) int32, is the start of each voxel's row in units of 32 numbers, or 0 if it has none.
        ``rows`` is the flat table of (1 + voxels, width) float32; row 0 is all zeros.

    Raises
    ------
    InputError
        If the table is larger than an array on every arch can be.
    """
    voxels = np.flatnonzero(keep)
    if (len(voxels) + 1) * width >= MOST_NUMBERS:
        raise InputError(
            f"{len(voxels)} voxels of {width} numbers exceed the 4 GiB that an array on a device can have: "
            "raise the stop threshold or use a tighter mask"
        )
    if keep.size >= MOST_NUMBERS:
        raise InputError(f"the image has {keep.size} voxels, but kernels can index fewer than 2**30: crop the image")
    index = np.zeros(keep.size, np.int32)
    index[voxels] = np.arange(1, len(voxels) + 1) * (width // 32)
    rows = _from_a_cache_line((len(voxels) + 1, width))
    flat, maps = data.reshape(-1, data.shape[-1]), channels.reshape(keep.size, -1)

    def fill_block(first: int) -> None:
        block = voxels[first : first + BLOCK]
        written = rows[1 + first : 1 + first + len(block)]
        fill(flat[block].astype(np.float64), written)
        written[:, width - maps.shape[1] :] = maps[block]

    in_threads(fill_block, range(0, len(voxels), BLOCK), None)
    return Volume(index=index, rows=rows.ravel(), shape=np.array(keep.shape))


def interleave(volume: Volume, width: int) -> Volume | None:
    """Lay out rows for devices on which each lane reads a number of its own from the eight voxels around its point.

    Parameters
    ----------
    volume : Volume
        See :func:`build_volume`.
    width : int
        Number of float32 in a row.

    Returns
    -------
    Volume or None
        In ``rows``, the first numbers of the eight rows of a cube of 2 x 2 x 2 voxels lie side by side, then their
        second numbers, and so on; a voxel without a row has zeros there. ``index`` is the place of each voxel's first
        number, 0 if it has no row. None if the rows would take far more memory. A lane then reads one to eight sectors
        of memory, by how many cubes its point is between, where it would otherwise read eight.
    """
    starts, rows, shape = (vars(volume)[name] for name in ("index", "rows", "shape"))
    whole = np.pad(starts.reshape(shape) // (width // 32), [(0, side % 2) for side in shape])
    x, y, z = (side // 2 for side in whole.shape)
    numbers = whole.reshape(x, 2, y, 2, z, 2).transpose(0, 2, 4, 1, 3, 5).reshape(-1, CUBE)  # of the rows of each cube
    used = np.flatnonzero(numbers.any(axis=1))
    count = len(used) + 1
    if count * width * CUBE >= min(MOST_NUMBERS, max(WASTE * rows.size, FEW_NUMBERS)):
        return None
    places = np.zeros(numbers.shape, np.int32)
    places[used] = np.arange(1, count)[:, None] * (width * CUBE) + np.arange(CUBE)
    places = np.where(numbers > 0, places, 0).reshape(x, y, z, 2, 2, 2).transpose(0, 3, 1, 4, 2, 5).reshape(whole.shape)
    table, cubes = rows.reshape(-1, width), np.zeros((count, width, CUBE), np.float32)

    def lay(first: int) -> None:
        block = used[first : first + BLOCK // CUBE]
        cubes[1 + first : 1 + first + len(block)] = table[numbers[block]].transpose(0, 2, 1)

    in_threads(lay, range(0, len(used), BLOCK // CUBE), None)
    index = places[tuple(slice(side) for side in shape)].ravel()
    return Volume(index=index, rows=cubes.ravel(), shape=shape)
