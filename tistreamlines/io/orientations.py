"""Orientations that another program computed: harmonics, functions on a sphere, or peaks, from NIfTI files.

Values are read as they are stored. What DIPY writes (``pam_to_niftis``, its command line) is along the voxel axes: x
along the first axis of the array, and so on. MRtrix3 writes harmonics and peaks along the scanner's axes (RAS), and
:mod:`tistreamlines.fit.frames` turns those.

Each loader takes the grid that the file must have, if any, and raises an InputError where the file is missing, damaged,
on another grid, not finite or all 0. nibabel and DIPY are imported inside the functions.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ..errors import InputError, ParameterError
from ..sphere.harmonics import basis_of, count_of, degree_shares, order_of
from ..sphere.sphere import SPHERES, load_sphere
from .images import Tell, check_finite, grid_of, open_image, read_array, read_series, silent, without_nan
from .nifti import AFFINE_TOLERANCE
from .tractogram import Space

Floats = npt.NDArray[np.float32]
NEGATIVE_TOLERANCE = 1e-6  # of the greatest value: what rounding may leave below 0 in a pmf
SHARE_TOLERANCE = 2.0  # sqrt(2) is tournier07_legacy's scale, the rest is for noise
SAMPLE = 2000  # voxels that the harmonics are judged by
BLOCK = 1024  # voxels whose peaks are placed at a time


@dataclass(frozen=True, eq=False)
class Orientations:
    """Orientations of every voxel, as one file holds them.

    Parameters
    ----------
    kind : 'sh', 'pmf', 'odf' or 'peaks'
        What the last axis counts: coefficients, vertices (twice), or x, y, z of one peak after another.
    values : (x, y, z, n) float32, C-contiguous
        As stored, or turned to the voxel axes since.
    basis : str or None
        One of harmonics.BASES, for 'sh'.
    sphere : str or None
        One of sphere.SPHERES, for 'pmf' and 'odf'.
    space : Space
        Grid of the first three axes.
    """

    kind: Literal["sh", "pmf", "odf", "peaks"]
    values: Floats
    basis: str | None
    sphere: str | None
    space: Space


def load_sh(path: str | Path, basis: str, space: Space | None = None) -> Orientations:
    """Read coefficients of spherical harmonics.

    Parameters
    ----------
    path : str or Path
        4-D NIfTI file, a coefficient a volume.
    basis : str
        One of harmonics.BASES; the values stay in it. Nothing is guessed: no test tells the bases with certainty.
    space : Space, optional

    Raises
    ------
    InputError
        If no order above 0 has so many volumes, or if the coefficients are not those of orientation functions: in most
        voxels the first is not positive, or others are greater than it allows. The samples' sign is no such test: a
        sound fODF of DIPY's CSD may be faintly negative over half of the sphere.
    ParameterError
        If the basis is unknown.
    """
    basis_of(basis)
    path, image, grid = _open(path, space, "a coefficient a volume")
    _check_coefficients(path, image.shape[3], basis)
    values = _read(path, image)
    _check_shares(path, values, basis)
    return Orientations("sh", values, basis, None, grid)


def load_pmf(path: str | Path, sphere: str, space: Space | None = None) -> Orientations:
    """Read probabilities of directions.

    Parameters
    ----------
    path : str or Path
        4-D NIfTI file, a vertex a volume; at least 0, but for rounding. They need not add up to 1.
    sphere : str
        One of sphere.SPHERES, in DIPY's order of vertices.
    space : Space, optional

    Raises
    ------
    InputError
        If a value is negative, or if there are not as many volumes as vertices.
    ParameterError
        If the sphere is unknown.
    """
    path, values, grid = _load_sampled(path, sphere, space)
    lowest = values.min()
    if lowest < -NEGATIVE_TOLERANCE * values.max():
        voxel = tuple(int(i) for i in np.unravel_index(np.argmin(values), values.shape))
        raise InputError(
            f"{path}: value {lowest:.4g} in voxel {voxel[:3]} of volume {voxel[3]}; a pmf is not negative, "
            "give a function that is with --odf"
        )
    return Orientations("pmf", values, None, sphere, grid)


def load_odf(path: str | Path, sphere: str, space: Space | None = None) -> Orientations:
    """Read orientation functions sampled on a sphere; as :func:`load_pmf`, but of any sign."""
    _, values, grid = _load_sampled(path, sphere, space)
    return Orientations("odf", values, None, sphere, grid)


def load_peaks(path: str | Path, space: Space | None = None, note: Tell = silent) -> Orientations:
    """Read peaks.

    Parameters
    ----------
    path : str or Path
        NIfTI file of k peaks a voxel, (x, y, z, 3 k) or, as DIPY's ``pam_to_niftis`` writes it, (x, y, z, k, 3), which
        becomes the former. A peak's length is its amplitude (DIPY's are all 1); one of length 0, or NaN, is none.
    space : Space, optional
    note : callable
        Is told of NaN values, which MRtrix3 writes where there is no peak.

    Raises
    ------
    InputError
        If the volumes cannot be parted into threes.
    """
    path, image, grid = _open(path, space, "three volumes a peak", five=True)
    if image.shape[-1] % 3 or image.shape[4:] not in ((), (3,)):
        raise InputError(
            f"{path}: shape {tuple(image.shape)} does not hold x, y and z of each peak; "
            "give 3 volumes a peak, or (peaks, 3) as the last axes"
        )
    values = _read(path, image, note)
    return Orientations("peaks", values.reshape(*grid.shape, -1), None, None, grid)


def peaks_to_pmf(peaks: npt.ArrayLike, vertices: npt.ArrayLike) -> Floats:
    """Put each peak's amplitude at a vertex, so that peaks can enter a method that works on a sphere.

    Parameters
    ----------
    peaks : (x, y, z, k, 3)
        Directions, their lengths the amplitudes; the frame is that of the vertices, the sign of no account.
    vertices : (n, 3)
        Unit vectors of a sphere or hemisphere.

    Returns
    -------
    pmf : (x, y, z, n) float32
        Amplitudes at the closest vertex, the largest |cos| and the first of equals, as ``find_closest`` of DIPY's
        PmfGen; those at one vertex are added, in float64, and rounded once. It is not scaled to a sum of 1.

    Notes
    -----
    A direction is off by up to :func:`covering_angle`: 5.5 degrees on the spheres 'default' and 'full', 6.9 on 'small'.
    On a whole sphere one of two opposite vertices is taken. Between voxels, amplitudes are mixed and not directions.
    """
    arrows, points = np.asarray(peaks), np.asarray(vertices, np.float64)
    if arrows.ndim != 5 or arrows.shape[4] != 3 or points.ndim != 2 or points.shape[1] != 3:
        raise ValueError(f"peaks are (x, y, z, k, 3) and vertices (n, 3), not {arrows.shape} and {points.shape}")
    out = np.zeros((*arrows.shape[:3], len(points)), np.float32)
    rows = out.reshape(-1, len(points))
    flat = arrows.reshape(len(rows), *arrows.shape[3:])
    used = np.flatnonzero(flat.any(axis=(1, 2)))
    for first in range(0, len(used), BLOCK):
        block = used[first : first + BLOCK]
        part = flat[block].astype(np.float64)
        nearest = np.stack([_closest(part[:, i], points) for i in range(part.shape[1])], axis=1)
        places = nearest + len(points) * np.arange(len(block))[:, None]
        amplitudes = np.linalg.norm(part, axis=2)
        sums = np.bincount(places.ravel(), amplitudes.ravel(), len(block) * len(points))
        rows[block] = sums.reshape(len(block), -1)
    return out


def covering_angle(vertices: npt.ArrayLike) -> float:
    """Greatest angle from any direction to the closest vertex, signs aside.

    Parameters
    ----------
    vertices : (n, 3)
        Unit vectors of a sphere or hemisphere; a ValueError if they lie in one plane.

    Returns
    -------
    angle : float, degrees
        The farthest directions are the normals of the facets of the convex hull of all vertices and their opposites, at
        the angle whose cosine is the facet's distance from the centre.
    """
    from scipy.spatial import ConvexHull, QhullError

    points = np.asarray(vertices, np.float64)
    try:
        hull = ConvexHull(np.concatenate([points, -points]))
    except QhullError as error:
        raise ValueError(f"{len(points)} vertices lie in one plane and cover no sphere") from error
    return float(np.degrees(np.arccos(-hull.equations[:, 3].max())))


def _closest(directions: npt.NDArray[np.float64], vertices: npt.NDArray[np.float64]) -> npt.NDArray[np.intp]:
    # written out, since a matrix product may add in another order than DIPY, and then ties fall otherwise
    x, y, z = (directions[:, None, i] * vertices[:, i] for i in range(3))
    return np.argmax(np.abs(x + y + z), axis=1)


def _open(path: str | Path, space: Space | None, content: str, five: bool = False) -> tuple[Path, Any, Space]:
    """Open an image of four axes, or five, on the grid asked for."""
    path, image = open_image(path)
    axes = len(image.shape)
    if axes != 4 and not (five and axes == 5):
        raise InputError(f"{path}: {axes}-D image of shape {tuple(image.shape)}; give a 4-D one, {content}")
    grid = grid_of(path, image)
    if space is not None:
        _check_space(path, grid, space)
    return path, image, grid


def _check_space(path: Path, grid: Space, space: Space) -> None:
    if grid.shape != space.shape:
        raise InputError(f"{path}: shape {grid.shape}, but the reference has {space.shape}; give both on one grid")
    difference = np.abs(grid.affine - space.affine).max()
    if not difference <= AFFINE_TOLERANCE:  # so written that a NaN is caught too
        raise InputError(f"{path}: affine is {difference:.4g} off the reference's; give both on one grid")


def _read(path: Path, image: Any, note: Tell | None = None) -> Floats:
    """All values; with ``note``, which is told of them, NaN becomes 0, else it is an error."""
    if len(image.shape) == 4 and note is None:
        values = read_series(path, image)
    else:
        with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite and is named below
            values = np.ascontiguousarray(read_array(path, image), np.float32)
        values = values if note is None else without_nan(path, values, note)
        check_finite(path, values)
    if not values.any():
        raise InputError(f"{path}: all {values.size} values are 0; give a file with orientations in it")
    return values


def _load_sampled(path: str | Path, sphere: str, space: Space | None) -> tuple[Path, Floats, Space]:
    """Read values at the vertices of a sphere."""
    if sphere not in SPHERES:
        raise ParameterError(f"the sphere is {sphere!r}: give one of {', '.join(SPHERES)}")
    path, image, grid = _open(path, space, "a vertex a volume")
    count, counts = image.shape[3], {name: len(load_sphere(name)[0]) for name in SPHERES}
    if count != counts[sphere]:
        known = ", ".join(f"{name} has {size}" for name, size in counts.items())
        ways = [f"give --sphere {name}" for name, size in counts.items() if size == count]
        ways = ways or [f"sample it on one that the program knows ({known}), or give coefficients with --sh"]
        raise InputError(f"{path}: {count} volumes, but sphere {sphere} has {counts[sphere]} vertices; {ways[0]}")
    return path, _read(path, image), grid


def _fits(count: int, full: bool) -> bool:
    try:
        return order_of(count, full) > 0  # order 0 is the same in all directions
    except ValueError:
        return False


def _check_coefficients(path: Path, count: int, basis: str) -> None:
    full = basis_of(basis).full
    if _fits(count, full):
        return
    valid = ", ".join(str(count_of(order, full)) for order in (range(1, 9) if full else range(2, 13, 2)))
    way = "give one volume per coefficient"
    if _fits(count, not full):
        way = f"perhaps --sh-basis {basis.removesuffix('_full') if full else basis + '_full'} is meant"
    for name in SPHERES:
        if count == len(load_sphere(name)[0]):
            way = f"perhaps --odf with --sphere {name} is meant"
    raise InputError(f"{path}: {count} volumes fit no order of basis {basis} (valid: {valid}, ...); {way}")


def _check_shares(path: Path, values: Floats, basis: str) -> None:
    """Refuse what in most voxels is no function that is positive on the whole; a few voxels of noise are no matter."""
    flat = values.reshape(-1, values.shape[3])
    used = np.flatnonzero(flat.any(axis=1))
    part = flat[used[:: -(-len(used) // SAMPLE)]]
    positive = part[:, 0] > 0
    if positive.mean() < 0.5:
        raise InputError(
            f"{path}: volume 0 is not above 0 in {1 - positive.mean():.0%} of the voxels, but it is the mean of an "
            "orientation function; check that the file holds coefficients, the one of degree 0 first"
        )
    # A sharp fibre's later coefficients are above the first, so the first need not be the greatest.
    shares = np.median(degree_shares(part[positive], basis_of(basis).full), axis=0)
    if shares.max() > SHARE_TOLERANCE:
        raise InputError(
            f"{path}: coefficients of one degree are {shares.max():.3g} times as large as an orientation function "
            f"allows in half of the voxels; check --sh-basis {basis} and the order of the volumes"
        )
