"""Checks of arrays given in memory, as those of files are checked where they are read."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .errors import InputError
from .harmonics import BASES
from .parameters import ParameterError
from .tractogram import Space

if TYPE_CHECKING:
    from dipy.core.gradients import GradientTable
    from dipy.core.sphere import Sphere

Array = npt.NDArray[Any]
SHEAR_TOLERANCE = 1e-5  # cosine of the angle between two axes


def degrees(name: str, angle: float) -> float:
    """Return an angle given in radians, 0 to pi/2, in degrees."""
    converted = round(math.degrees(angle), 9)  # so that radians(60) is 60 again
    if not 0 <= converted <= 90:
        raise ParameterError(f"{name} is {angle}: give an angle in radians, at most pi/2; radians(60) is 60 degrees")
    return converted


def volumes(dataf: Array, stop_map: Array) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Return data (x, y, z, n) and a stop map (x, y, z) of one grid as float32."""
    data, stop = np.ascontiguousarray(dataf, np.float32), np.ascontiguousarray(stop_map, np.float32)
    if data.ndim != 4 or data.shape[:3] != stop.shape:
        raise InputError(f"dataf is {data.shape}, stop_map {stop.shape}: give (x, y, z, n) and (x, y, z)")
    for name, array in (("dataf", data), ("stop_map", stop)):
        if not all(np.isfinite(plane).all() for plane in array):
            raise InputError(f"{name} has NaN or infinite values: replace them with numbers, e.g. 0")
    return data, stop


def series(gtab: GradientTable, dataf: Array) -> None:
    """Check that data (x, y, z, n) are a series of these gradients, b0s among them."""
    if dataf.shape[3] != len(gtab.bvals):
        raise InputError(
            f"dataf has {dataf.shape[3]} volumes, the gradient table {len(gtab.bvals)}: give those of one series"
        )
    if not gtab.b0s_mask.any():
        raise InputError("the gradient table has no b0: the signals are divided by the mean one")


def samples(dataf: Array, vertices: Array | None) -> None:
    """Check that data (x, y, z, n) have directions in them, and a value for each vertex (v, 3) if these are given."""
    if vertices is not None and dataf.shape[3] != len(vertices):
        raise InputError(
            f"dataf has {dataf.shape[3]} values a voxel, the sphere {len(vertices)} vertices: give the PMF or ODF at "
            "these vertices, not the diffusion series"
        )
    if not (dataf > 0).any():
        raise InputError("dataf has no value above 0: give the PMF or ODF of each voxel")


def basis(name: str) -> str:
    """Return the name of a basis of spherical harmonics."""
    if name not in BASES:
        raise ParameterError(f"sh_basis is {name!r}: give one of {', '.join(BASES)}")
    return name


def sphere_tables(vertices: Array, edges: Array, sphere: Sphere | None = None) -> tuple[Array, Array]:
    """Return vertices (v, 3) and edges (e, 2), which must be those of a sphere, of this one if it is given."""
    vertices, edges = np.asarray(vertices, float), np.asarray(edges, np.int64)
    if sphere is not None:
        own = np.asarray(sphere.vertices)
        if vertices.shape != own.shape or not np.allclose(vertices, own, atol=1e-6):
            raise ParameterError(
                f"sphere_vertices ({len(vertices)}) are not those of the direction getter's sphere ({len(own)}): "
                "give both the same sphere"
            )
    if vertices.ndim != 2 or vertices.shape[1] != 3 or not np.allclose(np.linalg.norm(vertices, axis=1), 1, atol=1e-3):
        raise ParameterError(f"sphere_vertices is {vertices.shape}: give unit vectors, (v, 3)")
    if edges.ndim != 2 or edges.shape[1] != 2 or edges.min() < 0 or edges.max() >= len(vertices):
        raise ParameterError(f"sphere_edges is {edges.shape}: give pairs of vertices, (e, 2)")
    return vertices, edges


def seed_points(seeds: npt.ArrayLike, shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
    """Return seeds (n, 3) in voxel coordinates; unless there is none, at least one must lie in the image."""
    points = np.asarray(seeds, np.float64)
    if points.ndim != 2 or points.shape[1] != 3 or not np.isfinite(points).all():
        raise InputError(f"seeds is {points.shape}: give finite voxel coordinates, (n, 3)")
    if len(points) and not ((points >= -0.5) & (points < np.array(shape) - 0.5)).all(axis=1).any():
        raise InputError(f"none of the {len(points)} seeds lies in the image: give voxel coordinates, not mm")
    return points


def space_of(reference: Any, shape: tuple[int, ...]) -> Space:
    """Return the grid of a reference, which must be that of the data.

    Parameters
    ----------
    reference : image, or what else DIPY takes as a reference; None for an affine of ones.
    shape : (3,) voxels of the data along each axis.
    """
    if reference is None:
        return Space(np.eye(4), shape)  # type: ignore[arg-type]
    if hasattr(reference, "affine") and hasattr(reference, "shape"):
        affine, dimensions = np.asarray(reference.affine, np.float64), reference.shape[:3]
    else:
        from dipy.io.utils import get_reference_info

        affine, dimensions, _, _ = get_reference_info(reference)
    if tuple(int(n) for n in dimensions) != tuple(shape):
        size = " x ".join(str(int(n)) for n in dimensions)
        raise InputError(f"ref_img has {size} voxels, the data {tuple(shape)}: give an image on its grid")
    space = Space(affine, shape)  # type: ignore[arg-type]
    axes = space.affine[:3, :3] / space.voxel_sizes
    if not np.abs(np.triu(axes.T @ axes, 1)).max() <= SHEAR_TOLERANCE:  # so written that a NaN is caught too
        raise InputError(f"ref_img: affine {space.affine.tolist()} is sheared or singular: resample to a regular grid")
    return space
