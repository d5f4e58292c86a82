"""Checks of arrays given in memory, as those of files are checked where they are read."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError, ParameterError
from ..io.tractogram import Space
from ..run.seeds import check_inside
from ..sphere.harmonics import BASES, frame_of
from ..sphere.nearest_vertex import without_opposite

if TYPE_CHECKING:
    from dipy.core.gradients import GradientTable
    from dipy.core.sphere import Sphere

Array = npt.NDArray[Any]
SHEAR_TOLERANCE = 1e-5  # cosine of the angle between two axes
HALF = 0.25  # distance of vertices' mean from the centre above which they are half a sphere: 0.5 of one, 0 of a whole
DATAF = "the array (x, y, z, n): for boot the diffusion series, else the PMF or ODF at the sphere's vertices"
STOP_MAP = "the map itself, an array (x, y, z): streamlines go on where it is above stop_threshold, 0.5 for a mask"
SEEDS = "an array (n, 3) of voxel coordinates, centre of voxel = integer"


def getter(dg: Any) -> None:
    """Check that something is a direction getter of ours."""
    known = "BootDirectionGetter, ProbDirectionGetter or PttDirectionGetter"
    if isinstance(dg, type):
        raise ParameterError(f"dg is the class {dg.__name__}: give one of its objects, {dg.__name__}(...)")
    if not all(hasattr(dg, name) for name in ("options", "symmetric", "sphere_tables", "prepare")):
        raise ParameterError(f"dg is of the kind {type(dg).__name__}: give tistreamlines' {known}")


def degrees(name: str, angle: float) -> float:
    """Return an angle given in radians, 0 to pi/2, in degrees."""
    converted = round(math.degrees(angle), 9)  # so that radians(60) is 60 again
    if not 0 <= converted <= 90:
        raise ParameterError(f"{name} is {angle}: give an angle in radians, at most pi/2; radians(60) is 60 degrees")
    return converted


def numbers(name: str, value: Any, wanted: str) -> Array:
    """Return an array of real numbers; say what is wanted where something else was given, e.g. an object of DIPY's."""
    known = isinstance(value, (np.ndarray, list, tuple)) or hasattr(value, "__array__")
    try:
        array = np.asarray(value) if known else np.array(None)
    except ValueError:  # rows of unequal lengths
        array = np.array(None)
    if array.dtype.kind not in "biuf":
        raise InputError(f"{name} is of the kind {type(value).__name__}: give {wanted}")
    return array


def volumes(dataf: Array, stop_map: Array) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Return data (x, y, z, n) and a stop map (x, y, z) of one grid as float32."""
    data = np.ascontiguousarray(numbers("dataf", dataf, DATAF), np.float32)
    stop = np.ascontiguousarray(numbers("stop_map", stop_map, STOP_MAP), np.float32)
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


def frame(name: str | None, basis: str) -> str:
    """Return the axes of coefficients: those named, or the basis' own."""
    if name not in (None, "voxel", "scanner"):
        raise ParameterError(f"sh_frame is {name!r}: give voxel or scanner, or None for the basis' own")
    return name or frame_of(basis)


def sphere_tables(vertices: Array, edges: Array, sphere: Sphere | None = None) -> tuple[Array, Array]:
    """Return vertices (v, 3) and edges (e, 2), which must be those of a sphere, of this one if it is given."""
    vertices = numbers("sphere_vertices", vertices, "unit vectors, (v, 3): sphere.vertices of DIPY's").astype(float)
    edges = numbers("sphere_edges", edges, "pairs of vertices, (e, 2): sphere.edges of DIPY's").astype(np.int64)
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


def symmetry(vertices: Array, sphere_symm: bool, asymmetric: bool | None = None) -> bool:
    """Say whether a direction of the sphere stands for its opposite too.

    Parameters
    ----------
    vertices : (v, 3); on half a sphere each has to stand for its opposite.
    sphere_symm : cuslines' flag, which decides on a whole sphere.
    asymmetric : what the getter says of its function, if it does.

    Raises
    ------
    ParameterError
        Where these contradict each other.
    """
    half = bool(np.linalg.norm(vertices.mean(axis=0)) > HALF)
    if asymmetric and half:
        raise ParameterError(
            f"the {len(vertices)} sphere_vertices are half a sphere: an asymmetric function needs the whole one"
        )
    if asymmetric and sphere_symm:
        raise ParameterError("sphere_symm is True, but the direction getter's function is asymmetric: give one of them")
    if not half and sphere_symm and (alone := without_opposite(vertices)):
        raise ParameterError(
            f"sphere_symm is True, but {alone} of the {len(vertices)} sphere_vertices have no opposite among them: "
            "give False, half a sphere, or a sphere of opposite pairs"
        )
    return half or sphere_symm if asymmetric is None else not asymmetric


def seed_points(seeds: npt.ArrayLike, space: Space) -> npt.NDArray[np.float64]:
    """Return seeds (n, 3) in voxel coordinates; most must lie in the image."""
    points = numbers("seeds", seeds, SEEDS).astype(np.float64)
    if points.ndim != 2 or points.shape[1] != 3 or not np.isfinite(points).all():
        raise InputError(f"seeds is {points.shape}: give finite voxel coordinates, (n, 3)")
    check_inside(points, space, "voxel", "seeds")
    return points


def space_of(reference: Any, shape: tuple[int, ...]) -> Space:
    """Return the grid of a reference, which must be that of the data.

    Parameters
    ----------
    reference : image, or what else DIPY takes as a reference.
    shape : (3,) voxels of the data along each axis.
    """
    if reference is None:
        raise InputError(
            "ref_img is missing: give the image (or its file's name) whose grid and affine the data have; "
            "nibabel.Nifti1Image(stop_map, numpy.eye(4)) gives points in voxels"
        )
    if hasattr(reference, "affine") and hasattr(reference, "shape"):
        affine, dimensions = np.asarray(reference.affine, np.float64), reference.shape[:3]
    else:
        from dipy.io.utils import get_reference_info

        affine, dimensions, _, _ = get_reference_info(reference)
    if tuple(int(n) for n in dimensions) != tuple(shape):
        size = " x ".join(str(int(n)) for n in dimensions)
        raise InputError(f"ref_img has {size} voxels, the data {tuple(shape)}: give an image on its grid")
    space = Space(affine, shape)  # type: ignore[arg-type]
    if not space.shear <= SHEAR_TOLERANCE:  # so written that a NaN is caught too
        raise InputError(f"ref_img: affine {space.affine.tolist()} is sheared or singular: resample to a regular grid")
    return space
