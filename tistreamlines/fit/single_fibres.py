"""Selection of voxels with a single fibre, by the metric of Dhollander et al. (2019), which MRtrix3 has, too.

References
----------
Dhollander, Mito, Raffelt, Connelly. Improved white matter response function estimation for 3-tissue constrained
spherical deconvolution. Proc ISMRM 27, 2019.
"""

from __future__ import annotations

import math
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from ..aliases import Array, GradientTable
from ..devices.threads import in_threads
from ..space.harmonics import from_harmonics, monomials, order_of, powers, to_descoteaux
from ..space.sphere import load_sphere
from .msmt import fit_msmt
from .series import rows_of
from .tissues import BASIS, CSF, WHITE

Voxels = npt.NDArray[np.bool_]

STAND_IN = (1.0, -1.0, 1.0, -1.0)  # a sharp response, which only ranks voxels
RANKINGS = ((2, 2), (6, 1))  # order of the harmonics, and the multiple of the final number of voxels that stay
BLOCK = 1 << 11  # voxels per task, so that a core's cache holds them
# of peaks: the paraboloid 1, u, v, uu, uv, vv through nine points, and the distances of these in radians, in turn
POWERS = ((0, 0), (1, 0), (0, 1), (2, 0), (1, 1), (0, 2))
STEPS = np.radians([4.0, 1.0, 0.25])
AROUND = np.array([(u, v) for u in (-1.0, 0.0, 1.0) for v in (-1.0, 0.0, 1.0)])
PARABOLOID = np.linalg.pinv(np.stack([np.prod(AROUND**p, axis=1) for p in POWERS], axis=1))


def single_fibres(
    data: Array, gtab: GradientTable, white: Voxels, csf: Array, count: int, threads: int | None, arch: str
) -> Voxels:
    """Return so many voxels (x, y, z) of white matter whose FOD is most like that of a single fibre.

    FODs and CSF are fitted with a sharp response that stands in for that of white matter. A voxel ranks high if the
    peak of its FOD is high over the sum of both tissues.
    """
    level = np.median(_means(data, white, threads)) * math.sqrt(4 * math.pi)
    stand_in = np.tile(level * np.array(STAND_IN), (len(csf), 1))
    stand_in[0, 1:] = 0
    tissues = {WHITE: stand_in, CSF: csf}
    for order, multiple in RANKINGS:
        fit = fit_msmt(data, gtab, white, tissues, (order, 0), threads, arch=arch)
        fods, fluid = (fit.coefficients[name][white].astype(np.float64) for name in (WHITE, CSF))
        likeness = np.full(white.shape, -np.inf)
        with np.errstate(all="ignore"):  # voxels without tissue, or without a solution
            quality = _peaks(fods, threads) / (fods[:, 0] + fluid[:, 0])
        likeness[white] = np.nan_to_num(quality, nan=-np.inf, posinf=-np.inf)
        white = highest(likeness, white, multiple * count)
    return white


def _means(data: Array, mask: Voxels, threads: int | None) -> Array:
    """Return the mean signal (m,) of the voxels of a mask."""
    rows, voxels = rows_of(data, mask)

    def block_means(first: int) -> Array:
        return rows[voxels[first : first + BLOCK]].mean(axis=1, dtype=np.float64)

    return np.concatenate(in_threads(block_means, range(0, len(voxels), BLOCK), threads))


def _peaks(functions: Array, threads: int | None) -> Array:
    """Return the greatest amplitude (m,) of functions (m, k)."""
    vertices, order = load_sphere("default")[0], order_of(functions.shape[1])
    polynomials = to_descoteaux(functions, BASIS) @ from_harmonics(order).T
    samples = monomials(vertices, order).T

    def block_peaks(first: int) -> Array:
        block = polynomials[first : first + BLOCK]
        axes, columns = vertices[(block @ samples).argmax(axis=1)].T, np.ascontiguousarray(block.T)
        for step in STEPS:
            axes = _climb(columns, axes, step, order)
        return _amplitudes(columns, axes, order)

    return np.concatenate([np.empty(0), *in_threads(block_peaks, range(0, len(functions), BLOCK), threads)])


def _amplitudes(polynomials: Array, directions: Array, order: int) -> Array:
    """Return the values (..., m) of polynomials (k, m) at directions (3, ..., m)."""
    x, y, z = ([np.ones_like(axis), *accumulate([axis] * order, np.multiply)] for axis in directions)
    values = np.zeros(directions.shape[1:])
    for factor, (p, q, r) in zip(polynomials, powers(order), strict=True):
        values += factor * x[p] * y[q] * z[r]
    return values


def _climb(polynomials: Array, axes: Array, step: float, order: int) -> Array:
    """Move each axis (3, m) to the top of the paraboloid through amplitudes at nine points around it."""
    first = _unit(np.cross(axes, np.eye(3)[:, np.abs(axes).argmin(axis=0)], axis=0))
    second = np.cross(axes, first, axis=0)
    along, across = AROUND.T[:, :, None]
    points = _unit(axes[:, None] + step * (along * first[:, None] + across * second[:, None]))
    u, v, uu, uv, vv = PARABOLOID[1:] @ _amplitudes(polynomials, points, order)
    curvature = 4 * uu * vv - uv**2
    steps = np.stack([uv * v - 2 * vv * u, uv * u - 2 * uu * v])
    top = (curvature > 0) & (uu < 0)
    forth, aside = np.divide(steps, curvature, out=np.zeros_like(steps), where=top).clip(-2, 2)
    return _unit(axes + step * (forth * first + aside * second))


def _unit(vectors: Array) -> Array:
    """Return vectors (3, ...) of length 1."""
    return vectors / np.sqrt((vectors**2).sum(axis=0))


def highest(values: Array, voxels: Voxels, count: int) -> Voxels:
    """Return so many of some voxels (...) with the highest values, the first ones of equals."""
    where = np.flatnonzero(voxels)
    chosen = np.zeros_like(voxels)
    chosen.flat[where[np.argsort(-values.flat[where], kind="stable")[:count]]] = True
    return chosen
