"""Checks of arrays and numbers given in memory; those read from files are checked in ``io``."""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from ..aliases import Array, GradientTable, Nifti1Header, SpatialImage, Sphere, StatefulTractogram
from ..errors import InputError, ParameterError
from ..io.in_memory import unmask
from ..space.batch import Space
from ..space.harmonics import BASES, frame_of
from ..space.sphere import without_opposite
from ..tracking.seeding.files import check_inside

Reference: TypeAlias = "str | SpatialImage | Nifti1Header | StatefulTractogram"  # of a grid, as DIPY takes it
SHEAR_TOLERANCE = 1e-5  # cosine of the angle between two axes
HALF = 0.25  # the mean of the vertices of half a sphere is 0.5 from the centre, that of a whole sphere 0
DATAF = "the array (x, y, z, n): the diffusion series for boot, else the PMF or ODF at the sphere's vertices"
STOP_MAP = "the map as an array (x, y, z): streamlines continue where it is above stop_threshold, 0.5 for a mask"
SEEDS = {
    "voxel": ("an array (n, 3) of voxel coordinates, centre of voxel = integer", "voxel coordinates, (n, 3)"),
    "rasmm": ("points (n, 3) in the space of the affine", "points (n, 3) in the space of the affine"),
}


def to_degrees(name: str, angle: float) -> float:
    """Convert an angle from radians, 0 to pi/2, to degrees."""
    converted = round(math.degrees(angle), 9)  # so that radians(60) is 60 again
    if not 0 <= converted <= 90:
        raise ParameterError(f"{name} is {angle}: give an angle in radians, at most pi/2; radians(60) is 60 degrees")
    return converted


def as_numbers(name: str, value: npt.ArrayLike, wanted: str) -> Array:
    """Convert a value to an array of real numbers, or raise an InputError that says what is wanted."""
    value = unmask(name, value)
    is_array = isinstance(value, (np.ndarray, list, tuple)) or hasattr(value, "__array__")
    try:
        array = np.asarray(value) if is_array else np.array(None)
    except ValueError:  # rows of unequal lengths
        array = np.array(None)
    if array.dtype.kind not in "biuf":
        raise InputError(f"{name} is of the kind {type(value).__name__}: give {wanted}")
    return array


def volume(name: str, value: npt.ArrayLike, ndim: int, wanted: str) -> npt.NDArray[np.float32]:
    """Return an array of ``ndim`` axes as float32; ``wanted`` says in errors what to give."""
    array = np.ascontiguousarray(as_numbers(name, value, wanted), np.float32)
    if array.ndim != ndim:
        raise InputError(f"{name} has the shape {array.shape}: give {wanted}")
    if not all(np.isfinite(plane).all() for plane in array):
        raise InputError(f"{name} has NaN or infinite values: replace them with numbers, e.g. with numpy.nan_to_num")
    return array


def check_volumes(dataf: Array, stop_map: Array) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Return data (x, y, z, n) and a stop map (x, y, z) as float32; both must be finite and on one grid."""
    data = np.ascontiguousarray(as_numbers("dataf", dataf, DATAF), np.float32)
    stop = np.ascontiguousarray(as_numbers("stop_map", stop_map, STOP_MAP), np.float32)
    if data.ndim != 4 or data.shape[:3] != stop.shape:
        raise InputError(f"dataf is {data.shape} and stop_map is {stop.shape}: give arrays (x, y, z, n) and (x, y, z)")
    for name, array in (("dataf", data), ("stop_map", stop)):
        if not all(np.isfinite(plane).all() for plane in array):
            raise InputError(f"{name} has NaN or infinite values: replace them with numbers, e.g. 0")
    return data, stop


def check_series(gtab: GradientTable, dataf: Array) -> None:
    """Check that data (x, y, z, n) have one volume per gradient, and that there are b0 volumes."""
    if dataf.shape[3] != len(gtab.bvals):
        raise InputError(
            f"dataf has {dataf.shape[3]} volumes, but the gradient table has {len(gtab.bvals)}: give both of one series"
        )
    if not gtab.b0s_mask.any():
        raise InputError("the gradient table has no b0: signals are divided by the mean b0, so give a series with b0s")


def check_samples(dataf: Array, vertices: Array | None) -> None:
    """Check that data (x, y, z, n) have positive values, and one per vertex unless ``vertices`` is None."""
    if vertices is not None and dataf.shape[3] != len(vertices):
        raise InputError(
            f"dataf has {dataf.shape[3]} values per voxel, but the sphere has {len(vertices)} vertices: give the PMF "
            "or ODF at these vertices, not the diffusion series"
        )
    if not (dataf > 0).any():
        raise InputError("dataf has no value above 0: give the PMF or ODF of each voxel")


def coefficient_frame(sh_frame: str | None, sh_basis: str) -> str:
    """Return the frame of spherical harmonic coefficients, 'voxel' or 'scanner'; None means the basis' default."""
    if sh_basis not in BASES:
        raise ParameterError(f"sh_basis is {sh_basis!r}: give one of {', '.join(BASES)}")
    if sh_frame not in (None, "voxel", "scanner"):
        raise ParameterError(f"sh_frame is {sh_frame!r}: give voxel or scanner, or None for the default of the basis")
    return sh_frame or frame_of(sh_basis)


def check_sphere(vertices: Array, edges: Array, sphere: Sphere | None = None) -> tuple[Array, Array]:
    """Return the vertices (v, 3) and edges (e, 2) of a sphere, checked.

    Parameters
    ----------
    vertices : array_like, (v, 3)
        Unit vectors.
    edges : array_like, (e, 2)
        Pairs of vertex indices.
    sphere : Sphere or None
        If given, the vertices must be those of this sphere.

    Returns
    -------
    tuple of ndarray
        Vertices as float64 and edges as int64.

    Raises
    ------
    InputError
        If either is not an array of numbers.
    ParameterError
        If the arrays do not describe a sphere, or describe another one than ``sphere``.
    """
    vertices = as_numbers("sphere_vertices", vertices, "unit vectors (v, 3), e.g. DIPY's sphere.vertices").astype(float)
    edges = as_numbers("sphere_edges", edges, "pairs of vertices (e, 2), e.g. DIPY's sphere.edges").astype(np.int64)
    if sphere is not None:
        its_vertices = np.asarray(sphere.vertices)
        if vertices.shape != its_vertices.shape or not np.allclose(vertices, its_vertices, atol=1e-6):
            raise ParameterError(
                f"sphere_vertices ({len(vertices)}) differ from the vertices of the direction getter's sphere "
                f"({len(its_vertices)}): give both the same sphere"
            )
    if vertices.ndim != 2 or vertices.shape[1] != 3 or not np.allclose(np.linalg.norm(vertices, axis=1), 1, atol=1e-3):
        raise ParameterError(f"sphere_vertices has the shape {vertices.shape}: give unit vectors, (v, 3)")
    if edges.ndim != 2 or edges.shape[1] != 2 or edges.min() < 0 or edges.max() >= len(vertices):
        raise ParameterError(f"sphere_edges has the shape {edges.shape}: give pairs of vertices, (e, 2)")
    return vertices, edges


def is_symmetric(vertices: Array, sphere_symm: bool, asymmetric: bool | None = None) -> bool:
    """Return whether the orientation function has the same value in opposite directions.

    Parameters
    ----------
    vertices : ndarray, (v, 3)
        Unit vectors. On half a sphere, the function is always symmetric.
    sphere_symm : bool
        cuslines' flag: whether the function is symmetric on a whole sphere.
    asymmetric : bool or None
        The direction getter's statement about its function; None if it leaves this to ``sphere_symm``.

    Returns
    -------
    bool
        True if the function is symmetric.

    Raises
    ------
    ParameterError
        If the arguments contradict one another.
    """
    half = bool(np.linalg.norm(vertices.mean(axis=0)) > HALF)
    if asymmetric and half:
        raise ParameterError(
            f"the {len(vertices)} sphere_vertices are half a sphere: an asymmetric function needs a whole sphere"
        )
    if asymmetric and sphere_symm:
        raise ParameterError("sphere_symm is True, but the direction getter is asymmetric: give only one of them")
    if not half and sphere_symm and (alone := without_opposite(vertices)):
        raise ParameterError(
            f"sphere_symm is True, but {alone} of the {len(vertices)} sphere_vertices have no opposite vertex: "
            "give False, half a sphere, or a sphere of opposite pairs"
        )
    return half or sphere_symm if asymmetric is None else not asymmetric


def check_seeds(
    name: str, value: npt.ArrayLike, space: Space, frame: Literal["voxel", "rasmm"]
) -> npt.NDArray[np.float64]:
    """Return seeds (n, 3) as float64, voxel coordinates or in the space of the affine; most must lie in the image."""
    wanted, advice = SEEDS[frame]
    points = as_numbers(name, value, wanted).astype(np.float64)
    if points.ndim != 2 or points.shape[1] != 3 or not np.isfinite(points).all():
        raise InputError(f"{name} has the shape {points.shape}: give finite {advice}")
    check_inside(points, space, frame, name)
    return points


def grid(affine: npt.ArrayLike, shape: tuple[int, ...], *, regular: bool) -> Space:
    """Return the voxel grid of an affine, (4, 4), which must not be sheared if ``regular``."""
    matrix = as_numbers("affine", affine, "the (4, 4) array that transforms voxel coordinates to those of the seeds")
    if matrix.shape != (4, 4) or not np.isfinite(matrix).all() or not np.linalg.det(matrix):
        raise InputError(f"affine is {matrix.tolist()}: give an array (4, 4) that can be inverted")
    space = Space(matrix, shape)  # type: ignore[arg-type]
    if regular and not space.shear <= SHEAR_TOLERANCE:
        raise InputError(f"affine {matrix.tolist()} is sheared: resample the data to a regular grid")
    return space


def space_of(reference: Reference | None, shape: tuple[int, ...]) -> Space:
    """Return the voxel grid of a reference.

    Parameters
    ----------
    reference : nibabel image, str, or any other reference that DIPY accepts
        Must have the same number of voxels along each axis as the data.
    shape : tuple of int
        Number of voxels of the data along each axis.

    Returns
    -------
    Space
        The grid.

    Raises
    ------
    InputError
        If the reference is missing, has another shape, or has a sheared or singular affine.
    """
    if reference is None:
        raise InputError(
            "ref_img is missing: give the image (or its file name) that has the grid and the affine of the data; "
            "nibabel.Nifti1Image(stop_map, numpy.eye(4)) gives points in voxel coordinates"
        )
    affine, dimensions = getattr(reference, "affine", None), getattr(reference, "shape", None)
    if affine is None or dimensions is None:
        from dipy.io.utils import get_reference_info

        affine, dimensions, _, _ = get_reference_info(reference)
    sizes = [int(size) for size in dimensions[:3]]
    if sizes != [*shape]:
        size = " x ".join(map(str, sizes))
        raise InputError(f"ref_img has {size} voxels, but the data have {tuple(shape)}: give an image on their grid")
    space = Space(affine, shape)  # type: ignore[arg-type]
    if not space.shear <= SHEAR_TOLERANCE:  # written with "not" so that NaN is refused too
        raise InputError(f"ref_img: affine {space.affine.tolist()} is sheared or singular: resample to a regular grid")
    return space


def sides_of(voxel_size: npt.ArrayLike | None, space: Space) -> tuple[float, ...]:
    """Return the sides of a voxel, mm; by default those of the affine."""
    sides = space.voxel_sizes if voxel_size is None else np.asarray(voxel_size, np.float64)
    if sides.shape != (3,) or not (sides > 0).all():
        raise ParameterError(f"voxel_size is {voxel_size}: give the three sides of a voxel, mm")
    return tuple(map(float, sides))
