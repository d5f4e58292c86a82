"""Reading of orientations from images: spherical harmonics, functions sampled on a sphere, or peaks.

Values are read as stored. DIPY (``pam_to_niftis`` and its command line) writes directions along the voxel axes: x is
the first axis of the array, and so on. MRtrix3 writes harmonics and peaks along the scanner axes (RAS);
:mod:`tistreamlines.fit.frames` rotates those to the voxel axes.

Each loader takes the grid that the file must have, if any, and raises an InputError if the file is missing, damaged, on
another grid, not finite or all 0. nibabel and DIPY are imported inside the functions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from ..errors import InputError, ParameterError
from ..space.batch import Space
from ..space.harmonics import basis_of, count_of, degree_shares, order_of
from ..space.sphere import SPHERES, closest_vertices, load_sphere, products
from .images import AFFINE_TOLERANCE, AnyPath, Tell, grid_of, nearby, open_image, read_series, silent
from .labels import first_place
from .mif import MRTRIX_SUFFIXES
from .stored_image import Image

Floats = npt.NDArray[np.float32]
NEGATIVE_TOLERANCE = 1e-6  # of the largest value: negative values that rounding may leave in a PMF
SHARE_TOLERANCE = 2.0  # sqrt(2) for the scale of tournier07_legacy, the rest for noise
MRTRIX_BASIS = "tournier07"  # of a .mif, unless another one is given
SAMPLE = 2000  # number of voxels in which harmonics are checked
BLOCK = 1024  # voxels per block


@dataclass(frozen=True, eq=False)
class Orientations:
    """Orientations in every voxel, from one file.

    Parameters
    ----------
    kind : 'sh', 'pmf', 'odf' or 'peaks'
        The last axis: coefficients, vertices (for pmf and odf), or x, y, z of each peak in turn.
    values : (x, y, z, n) float32, C-contiguous
        As stored, or rotated to the voxel axes.
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


def load_sh(path: AnyPath, basis: str, space: Space | None = None, note: Tell = silent) -> Orientations:
    """Read coefficients of spherical harmonics.

    Parameters
    ----------
    path : str or Path
        4-D image with one coefficient per volume.
    basis : str
        One of harmonics.BASES; it has to be given, since no test can identify a basis with certainty.
    space : Space, optional
    note : callable
        Receives a message if there are NaN values. A voxel with NaN is one without a function: all of it becomes 0.

    Raises
    ------
    InputError
        If the number of volumes fits no order above 0, or if the coefficients do not represent orientation functions:
        in most voxels the first one is not positive, or others are larger than it allows. The sign of samples is not
        tested, since a valid fODF of DIPY's CSD can be slightly negative over half of the sphere.
    ParameterError
        If the basis is unknown.
    """
    basis_of(basis)
    path, image, grid = open_on_grid(path, space, "one coefficient per volume")
    _check_coefficients(path, image.shape[3], basis)
    values = _read(path, image, note, image.shape[3])
    _check_shares(path, values, basis)
    return Orientations("sh", values, basis, None, grid)


def default_basis(file: object, option: str = "--sh-basis") -> str:
    """Return the basis of a file that is MRtrix3's; raise a ParameterError, since the user has to give that of others.

    Parameters
    ----------
    file : path
        File of spherical harmonics, or what stands in for one.
    option : str
        The option that names the basis, for messages.
    """
    path = str(file)
    if path.lower().endswith(MRTRIX_SUFFIXES):
        return MRTRIX_BASIS
    if (hint := nearby(path)) and not Path(path).exists():
        raise ParameterError(f"{file}: no such file{hint}; check the path")
    raise ParameterError(
        f"{option} is needed, since {file} does not say it: tournier07 of MRtrix3, or descoteaux07_legacy, DIPY's "
        "default"
    )


def load_pmf(path: AnyPath, sphere: str, space: Space | None = None, note: Tell = silent) -> Orientations:
    """Read a probability mass function (PMF) of directions.

    Parameters
    ----------
    path : str or Path
        4-D image with one vertex per volume; values are not negative, except by rounding. The sum need not be 1.
    sphere : str
        One of sphere.SPHERES, in DIPY's order of vertices.
    space : Space, optional
    note : callable
        As of :func:`load_sh`.

    Raises
    ------
    InputError
        If a value is negative, or if the number of volumes is not the number of vertices.
    ParameterError
        If the sphere is unknown.
    """
    odf = load_odf(path, sphere, space, note)
    lowest = odf.values.min()
    if lowest < -NEGATIVE_TOLERANCE * odf.values.max():
        voxel = first_place(odf.values == lowest)
        raise InputError(
            f"{Path(path)}: value {lowest:.4g} in voxel {voxel[:3]} of volume {voxel[3]}; a PMF has no negative "
            "values, give an ODF as --odf"
        )
    return replace(odf, kind="pmf")


def load_odf(path: AnyPath, sphere: str, space: Space | None = None, note: Tell = silent) -> Orientations:
    """Read ODFs sampled on a sphere, like :func:`load_pmf`, but negative values are allowed."""
    if sphere not in SPHERES:
        raise ParameterError(f"the sphere is {sphere!r}: give one of {', '.join(SPHERES)}")
    path, image, grid = open_on_grid(path, space, "one vertex per volume")
    count, counts = image.shape[3], {name: len(load_sphere(name)[0]) for name in SPHERES}
    if count != counts[sphere]:
        known = ", ".join(f"{name} has {size}" for name, size in counts.items())
        ways = [f"give --sphere {name}" for name, size in counts.items() if size == count]
        ways = ways or [f"sample it on one of the known spheres ({known}), or give coefficients as --sh"]
        raise InputError(f"{path}: {count} volumes, but sphere {sphere} has {counts[sphere]} vertices; {ways[0]}")
    return Orientations("odf", _read(path, image, note, image.shape[3]), None, sphere, grid)


def load_peaks(path: AnyPath, space: Space | None = None, note: Tell = silent) -> Orientations:
    """Read peaks.

    Parameters
    ----------
    path : str or Path
        Image with k peaks per voxel, (x, y, z, 3 k) or, as from DIPY's ``pam_to_niftis``, (x, y, z, k, 3), which
        is reshaped. The length of a peak is its amplitude (1 in DIPY); a peak of length 0, or with NaN, is ignored.
    space : Space, optional
    note : callable
        Receives a message if there are NaN values, which MRtrix3 writes for missing peaks.

    Raises
    ------
    InputError
        If the number of volumes is not a multiple of 3.
    """
    path, image, grid = open_on_grid(path, space, "three volumes per peak", five=True)
    if image.shape[-1] % 3 or image.shape[4:] not in ((), (3,)):
        raise InputError(
            f"{path}: shape {tuple(image.shape)} does not hold x, y and z of each peak; "
            "give 3 volumes per peak, or (peaks, 3) as the last axes"
        )
    return Orientations("peaks", _read(path, image, note, 3), None, None, grid)


def peaks_to_pmf(peaks: npt.ArrayLike, vertices: npt.ArrayLike, width: float = 0.0) -> Floats:
    """Make a function on the sphere of the peaks, so that methods on a sphere can use them.

    Parameters
    ----------
    peaks : (..., k, 3)
        Directions in the frame of the vertices, with the amplitude as length; the sign does not matter.
    vertices : (n, 3)
        Unit vectors of a sphere or hemisphere.
    width : float
        Standard deviation of the lobe of a peak, degrees; 0 for a lobe of a single vertex.

    Returns
    -------
    pmf : (..., n) float32
        Sum of the lobes at each vertex, added in float64 and not normalised. The highest sample of a lobe is the
        amplitude. It lies at the nearest vertex, which has the largest absolute cosine, and is the first one of equals,
        as in ``find_closest`` of DIPY's PmfGen.

    Raises
    ------
    ValueError
        If an array has the wrong shape.

    Notes
    -----
    A lobe has the shape of Watson's distribution, exp((cos^2 - c^2) / (2 width^2)), where cos is the cosine between
    vertex and peak, and c the cosine of the nearest vertex. Interpolation mixes amplitudes, not directions: where the
    peaks of neighbouring voxels differ, lobes of some width add up to one between them, single vertices do not.
    """
    arrows, points = np.asarray(peaks), np.asarray(vertices, np.float64)
    if arrows.ndim < 2 or arrows.shape[-1] != 3 or points.ndim != 2 or points.shape[1] != 3:
        raise ValueError(f"peaks are (x, y, z, k, 3) and vertices (n, 3), not {arrows.shape} and {points.shape}")
    out = np.zeros((*arrows.shape[:-2], len(points)), np.float32)
    rows = out.reshape(-1, len(points))
    flat = arrows.reshape(len(rows), *arrows.shape[-2:])
    used = np.flatnonzero(flat.any(axis=(1, 2)))
    for first in range(0, len(used), BLOCK):
        block = used[first : first + BLOCK]
        sums = np.zeros((len(block), len(points)))
        for part in np.moveaxis(flat[block].astype(np.float64), 1, 0):
            _add_lobes(sums, part, points, np.radians(width))
        rows[block] = sums
    return out


def _add_lobes(
    sums: npt.NDArray[np.float64], part: npt.NDArray[np.float64], points: npt.NDArray[np.float64], width: float
) -> None:
    """Add the lobe of one peak (m, 3) of each voxel to the samples (m, n); the width is in radians."""
    amplitudes = np.linalg.norm(part, axis=1)
    there = np.flatnonzero(amplitudes)
    nearest = closest_vertices(part[there], points)
    if width == 0:
        sums[there, nearest] += amplitudes[there]
        return
    squares = products(part[there] / amplitudes[there, None], points) ** 2
    squares -= np.take_along_axis(squares, nearest[:, None], axis=1)
    sums[there] += amplitudes[there, None] * np.exp(squares / (2 * width**2))


def open_on_grid(path: AnyPath, space: Space | None, content: str, five: bool = False) -> tuple[Path, Image, Space]:
    """Open an image of four axes, or five, and check its grid; ``content`` says what its volumes are."""
    path, image = open_image(path)
    axes = len(image.shape)
    if axes != 4 and not (five and axes == 5):
        raise InputError(f"{path}: {axes}-D image of shape {tuple(image.shape)}; give a 4-D one, {content}")
    grid = grid_of(path, image)
    if space is not None:
        check_space(path, grid, space)
    return path, image, grid


def check_space(path: Path, grid: Space, space: Space) -> None:
    """Raise an InputError unless a file's grid is that of a reference."""
    if grid.shape != space.shape:
        raise InputError(f"{path}: shape {grid.shape}, but the reference has {space.shape}; give both on one grid")
    difference = np.abs(grid.affine - space.affine).max()
    if not difference <= AFFINE_TOLERANCE:  # "not <=" also catches NaN
        raise InputError(f"{path}: affine differs by {difference:.4g} from the reference's; give both on one grid")


def _read(path: Path, image: Image, note: Tell, together: int) -> Floats:
    """Return all values; so many become 0 together where there is NaN, with a message to ``note``."""
    values = read_series(path, image, note, together)
    if not values.any():
        raise InputError(f"{path}: all {values.size} values are 0; give a file that contains orientations")
    return values


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
    if count % 3 == 0:
        way = "peaks, three volumes each, are given as --peaks"
    if count == 5:
        way = "five tissues are given as --act"
    if _fits(count, not full):
        way = f"perhaps --sh-basis {basis.removesuffix('_full') if full else basis + '_full'} is right"
    for name in SPHERES:
        if count == len(load_sphere(name)[0]):
            way = f"perhaps --odf with --sphere {name} is right"
    raise InputError(f"{path}: {count} volumes fit no order of basis {basis} (valid: {valid}, ...); {way}")


def _check_shares(path: Path, values: Floats, basis: str) -> None:
    """Raise an InputError if the coefficients in most voxels cannot represent an orientation function."""
    flat = values.reshape(-1, values.shape[3])
    used = np.flatnonzero(flat.any(axis=1))
    part = flat[used[:: -(-len(used) // SAMPLE)]]
    positive = part[:, 0] > 0
    if positive.mean() < 0.5:
        raise InputError(
            f"{path}: volume 0 is not above 0 in {1 - positive.mean():.0%} of the voxels, but it is the mean of an "
            "orientation function; check that the file contains coefficients, with degree 0 first"
        )
    # Coefficients of a sharp fibre may be larger than the first one, but only up to a bound.
    shares = np.median(degree_shares(part[positive], basis_of(basis).full), axis=0)
    if shares.max() > SHARE_TOLERANCE:
        raise InputError(
            f"{path}: coefficients of one degree are {shares.max():.3g} times as large as an orientation function "
            f"allows in half of the voxels; check --sh-basis {basis} and the order of the volumes"
        )
