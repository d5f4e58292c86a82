"""The anatomy of the phantom: the paths of its bundles, and their voxels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

# Ellipsoids (centre, radii) whose union is the head: cerebrum, cerebellum, brainstem.
_HEAD = (
    ((0.0, 0.0, 0.16), (0.90, 0.94, 0.80)),
    ((0.0, -0.50, -0.52), (0.56, 0.40, 0.36)),
    ((0.0, -0.17, -0.58), (0.28, 0.24, 0.41)),
)
# The ventricle of the right half, which is mirrored.
_VENTRICLE = ((0.09, -0.05, 0.12), (0.06, 0.30, 0.09))
CORTEX_STARTS = 0.87  # fraction of the ellipsoids' radii at which grey matter begins

# Each bundle is a tube around a curve: rows of (x right, y front, z up, half-width across, half-width along the sheet
# axis) on [-1, 1]^3. Rows of a paired bundle describe the right one; rows of a commissure run from the midline to the
# right cortex.
_BODY = ((0.0, 0.24, 0.055), (0.18, 0.26, 0.06), (0.36, 0.36, 0.075), (0.54, 0.52, 0.10), (0.70, 0.69, 0.14))


def _body(y: float, half: float) -> tuple:
    """Return the rows of a callosal arc at ``y`` that widens in the front-back direction towards the cortex."""
    return tuple((x, y * (1 + 0.45 * x), z, across, half * (1 + 0.8 * x)) for x, z, across in _BODY)


_COMMISSURES = {
    "callosum_body_front": (_body(0.30, 0.11), (0, 1, 0)),
    "callosum_body_middle": (_body(0.0, 0.11), (0, 1, 0)),
    "callosum_body_back": (_body(-0.30, 0.11), (0, 1, 0)),
    "forceps_minor": (
        ((0, 0.46, 0.12, 0.06, 0.10), (0.10, 0.49, 0.12, 0.06, 0.10), (0.20, 0.60, 0.13, 0.06, 0.11),
         (0.27, 0.76, 0.17, 0.09, 0.15), (0.31, 0.92, 0.24, 0.13, 0.22)),
        (0, 0, 1),
    ),
    "forceps_major": (
        ((0, -0.46, 0.14, 0.06, 0.10), (0.11, -0.49, 0.14, 0.06, 0.10), (0.21, -0.60, 0.15, 0.06, 0.11),
         (0.26, -0.76, 0.20, 0.09, 0.15), (0.29, -0.92, 0.28, 0.13, 0.22)),
        (0, 0, 1),
    ),
    "middle_cerebellar_peduncle": (
        ((0, -0.03, -0.57, 0.055, 0.09), (0.13, -0.09, -0.57, 0.055, 0.09), (0.22, -0.25, -0.55, 0.06, 0.09),
         (0.29, -0.45, -0.53, 0.10, 0.11), (0.34, -0.72, -0.52, 0.17, 0.17)),
        (0, 0, 1),
    ),
}
_PAIRS = {
    "corticospinal": (
        ((0.125, -0.16, -0.93, 0.055, 0.075), (0.125, -0.16, -0.65, 0.055, 0.075), (0.19, -0.13, -0.28, 0.06, 0.09),
         (0.27, -0.10, 0.03, 0.06, 0.13), (0.31, -0.10, 0.38, 0.09, 0.18), (0.36, -0.10, 0.66, 0.14, 0.24),
         (0.41, -0.10, 0.93, 0.20, 0.30)),
        (0, 1, 0),
    ),
    "arcuate": (
        ((0.57, 0.80, 0.30, 0.20, 0.12), (0.54, 0.55, 0.33, 0.12, 0.08), (0.51, 0.20, 0.36, 0.07, 0.06),
         (0.51, -0.15, 0.36, 0.07, 0.06), (0.54, -0.42, 0.22, 0.07, 0.06), (0.60, -0.45, 0.0, 0.07, 0.06),
         (0.66, -0.28, -0.17, 0.09, 0.07), (0.73, -0.02, -0.27, 0.14, 0.09)),
        (1, 0, 0),
    ),
    "cingulum": (
        ((0.12, 0.74, 0.0, 0.07, 0.06), (0.11, 0.70, 0.24, 0.06, 0.05), (0.11, 0.46, 0.42, 0.055, 0.05),
         (0.11, 0.0, 0.47, 0.055, 0.05), (0.11, -0.46, 0.42, 0.055, 0.05), (0.12, -0.72, 0.22, 0.06, 0.05),
         (0.14, -0.74, -0.04, 0.07, 0.06)),
        (1, 0, 0),
    ),
    "inferior_fronto_occipital": (
        ((0.40, 0.84, -0.20, 0.14, 0.16), (0.40, 0.58, -0.16, 0.09, 0.09), (0.41, 0.25, -0.14, 0.07, 0.06),
         (0.43, -0.15, -0.14, 0.07, 0.06), (0.42, -0.55, -0.14, 0.09, 0.09), (0.40, -0.86, -0.14, 0.14, 0.16)),
        (1, 0, 0),
    ),
}


class Tube(NamedTuple):
    """A voxelised bundle: fraction (x, y, z), unit direction (x, y, z, 3), end regions, centreline (m, 3) in voxels."""

    fraction: np.ndarray
    direction: np.ndarray
    ends: tuple[np.ndarray, np.ndarray]
    centreline: np.ndarray


def anatomy() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return each bundle's control rows (k, 5) and sheet axis (3,) on [-1, 1]^3, by name."""
    mirror = np.array([-1, 1, 1, 1, 1])
    gyri = {}
    for name, (half, sheet) in _COMMISSURES.items():
        right = np.array(half, float)
        gyri[name] = np.concatenate([right[:0:-1] * mirror, right]), np.array(sheet, float)
    for name, (rows, sheet) in _PAIRS.items():
        right = np.array(rows, float)
        gyri[f"{name}_left"] = right * mirror, np.array(sheet, float)
        gyri[f"{name}_right"] = right, np.array(sheet, float)
    return gyri


def depth(shape: tuple[int, int, int]) -> np.ndarray:
    """Return the scaled radius (x, y, z) in the nearest of the head's ellipsoids: 0 at a centre, 1 on the surface."""
    return np.min([_radius(shape, *ellipsoid) for ellipsoid in _HEAD], axis=0)


def ventricles(shape: tuple[int, int, int]) -> np.ndarray:
    """Return the scaled radius (x, y, z) in the nearer ventricle."""
    (x, y, z), radii = _VENTRICLE
    return np.minimum(_radius(shape, (x, y, z), radii), _radius(shape, (-x, y, z), radii))


def _radius(shape: tuple[int, int, int], centre: tuple[float, ...], radii: tuple[float, ...]) -> np.ndarray:
    """Return the scaled radius (x, y, z) in an ellipsoid on [-1, 1]^3."""
    axes = np.meshgrid(*(np.linspace(-1, 1, n) for n in shape), indexing="ij", sparse=True)
    return np.sqrt(sum(((u - c) / r) ** 2 for u, c, r in zip(axes, centre, radii, strict=True)))


def _strands(rows: np.ndarray, sheet: np.ndarray, shape: tuple[int, int, int]) -> np.ndarray:
    """Fill a tube with curves (strand, step, 3) in voxels, so densely that they reach every voxel inside."""
    from scipy.interpolate import CubicSpline

    scale = (np.array(shape) - 1) / 2
    # The first voxel axis points left (see Phantom.affine).
    centre = (rows[:, :3] * [-1, 1, 1] + 1) * scale
    half = rows[:, 3:] * scale.mean()
    at = np.concatenate([[0], np.cumsum(np.linalg.norm(np.diff(centre, axis=0), axis=1))])
    t = np.linspace(0, at[-1], int(at[-1] * 2.5) + 2)
    curve, width = CubicSpline(at, centre), CubicSpline(at, half)(t)
    along = curve(t, 1)
    across = np.cross(along, sheet)
    across /= np.linalg.norm(across, axis=1, keepdims=True)
    a, b = (np.linspace(-1, 1, int(4 * half[:, k].max()) + 2) for k in (0, 1))
    a, b = (g.ravel() for g in np.meshgrid(a, b))
    disc = a**2 + b**2 <= 1
    a, b = a[disc, None, None], b[disc, None, None]
    return curve(t) + a * (width[:, :1] * across) + b * (width[:, 1:] * sheet)


def tube(rows: np.ndarray, sheet: np.ndarray, shape: tuple[int, int, int]) -> Tube:
    """Voxelise a tube, given by its control rows (k, 5) and its sheet axis (3,)."""
    from scipy.ndimage import binary_dilation, gaussian_filter

    strands = _strands(rows, sheet, shape)
    tangents = np.gradient(strands, axis=1)
    tangents /= np.linalg.norm(tangents, axis=-1, keepdims=True)
    steps = strands.shape[1]
    reach = max(2, round(0.14 * steps))
    filled = _raster(strands, shape) > 0
    # Smoothing extends the directions to the partly filled voxels at the surface of the tube.
    sums = [gaussian_filter(_raster(strands, shape, tangents[..., k]), 0.8) for k in range(3)]
    direction = np.stack(sums, axis=-1)
    direction /= np.maximum(np.linalg.norm(direction, axis=-1, keepdims=True), 1e-12)
    first, last = (
        binary_dilation(_raster(strands[:, part], shape) > 0, iterations=2)
        for part in (slice(reach), slice(steps - reach, None))
    )
    centre = np.abs(strands - strands.mean(axis=0)).sum(axis=(1, 2)).argmin()
    return Tube(gaussian_filter(filled.astype(np.float32), 0.6), direction, (first, last), strands[centre])


def _raster(strands: np.ndarray, shape: tuple[int, int, int], weights: np.ndarray | None = None) -> np.ndarray:
    """Return the sum of the weights (by default 1) of the vertices in each voxel, (x, y, z) float32."""
    voxel = np.rint(strands).astype(np.int64).reshape(-1, 3)
    inside = ((voxel >= 0) & (voxel < shape)).all(axis=1)
    index = np.ravel_multi_index(tuple(voxel[inside].T), shape)
    kept = None if weights is None else weights.reshape(-1)[inside]
    return np.bincount(index, kept, minlength=int(np.prod(shape))).reshape(shape).astype(np.float32)
