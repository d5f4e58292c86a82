"""Reading of surfaces: GIFTI and FreeSurfer's geometry, with vertices moved to RASmm.

FreeSurfer's own coordinates of a surface, tkRAS, have their origin at the centre of the volume from which it was made.
The geometry of this volume, with the scanner coordinates of its centre (``c_ras``), lies beside the vertices.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..aliases import Array
from ..errors import InputError
from ..option import FARTHEST, flag
from ..space.batch import Space
from .images import AnyPath, Tell, existing_path, reading, silent

if TYPE_CHECKING:
    from nibabel.gifti.gifti import GiftiDataArray

AUTO, SCANNER, TKRAS = SPACES = ("auto", "scanner", "tkras")
MAGIC = re.compile(rb"\xff\xff[\xfd-\xff]")  # with which FreeSurfer's geometry begins
POINTSET = re.compile(rb"<DataArray[^>]*NIFTI_INTENT_POINTSET.*?<Data>", re.DOTALL)
SCANNER_TAGS = (2, 1, 20)  # the tags before the footer of a file of mris_convert --to-scanner; 0 for 1 without
GZIPPED, EXTERNAL = 3, 4  # codes of encodings
MOST_BYTES = 1 << 30  # of an array, which are 89 million vertices
SCANNER_CODE, ALIGNED_CODE = 1, 2  # of NIFTI_XFORM_SCANNER_ANAT and NIFTI_XFORM_ALIGNED_ANAT
# tkRAS directions of the voxel axes of any volume, in columns
TK_AXES = np.array([[-1.0, 0, 0], [0, 0, 1], [0, -1, 0]])
UNMOVED, DIFFERENT = 1e-3, 1e-2  # mm
SHAPES = {"inflated", "vinflated", "veryinflated", "sphere", "spherical", "flat", "ellipsoid"}  # not of the brain
ASK = f"say with {flag('surface_space')} in which space its vertices are, {SCANNER} or {TKRAS}"

Floats = npt.NDArray[np.float64]
Triangles = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Surface:
    """A surface of triangles.

    Parameters
    ----------
    vertices : (n, 3) float64, RASmm
    triangles : (m, 3) int64
        Vertices of each triangle, counter-clockwise seen from outside; m may be 0.
    path : str
        For messages.
    """

    vertices: Floats
    triangles: Triangles
    path: str


def load_surface(
    path: AnyPath, space: str = AUTO, note: Tell = silent, warn: Tell = silent, *, geometry: Floats | None = None
) -> Surface:
    """Read a surface, and move its vertices to RASmm.

    Parameters
    ----------
    path : str or Path
        GIFTI (.gii), or FreeSurfer's geometry such as lh.white.
    space : str
        ``scanner``: the vertices are in RASmm; ``tkras``: they are in FreeSurfer's tkRAS, and the file has the geometry
        of its volume; ``auto``: as the file says.
    note, warn : callable
        Receive a message if vertices are moved, and a warning if the file leaves it open whether they have to be.
    geometry : (4, 4) float64, optional
        From tkRAS to RASmm, for a file of FreeSurfer's without the geometry of its volume, see :func:`geometry_of`.

    Returns
    -------
    Surface

    Raises
    ------
    InputError
        If the file is missing or damaged, is no surface of the brain, or does not say where its vertices are.
    """
    path = existing_path(path)
    with reading(path):
        with path.open("rb") as file:
            freesurfer = MAGIC.match(file.read(3)) is not None
        if not freesurfer and not path.name.lower().endswith(".gii"):
            raise InputError(f"{path}: is neither GIFTI (.gii) nor FreeSurfer's geometry; convert it with mris_convert")
        if freesurfer:
            vertices, triangles, kind, affine = _read_freesurfer(path, space, geometry)
        else:
            vertices, triangles, kind, affine = _read_gifti(path, space, note, warn)
    if _moves(affine):
        shift = ", ".join(f"{value:.2f}" for value in affine[:3, 3])
        note(f"{path}: vertices are moved from FreeSurfer's tkRAS to RASmm, c_ras = ({shift})")
    if words := SHAPES & {*re.split(r"[._]", path.name.lower()), *re.split(r"\W", kind.lower())}:
        raise InputError(f"{path}: is of the shape {min(words)!r}, which does not lie in the brain; give e.g. white")
    _check(path, vertices, triangles)
    moved = Space(affine, (1, 1, 1)).to_ras(vertices)
    if np.linalg.det(affine[:3, :3]) < 0:
        triangles = triangles[:, ::-1]  # a reflection turns the order of the vertices of a triangle round
    return Surface(moved, triangles, str(path))


def _check(path: Path, vertices: Floats, triangles: Triangles) -> None:
    """Check that vertices are places and that triangles have vertices."""
    if vertices.ndim != 2 or vertices.shape[1] != 3 or not len(vertices):
        raise InputError(f"{path}: vertices have the shape {vertices.shape}; give a surface with (n, 3)")
    far = np.flatnonzero(~(np.abs(vertices) <= FARTHEST).all(axis=1))
    if len(far):
        raise InputError(
            f"{path}: vertex {far[0]} is {vertices[far[0]].tolist()}; {len(far)} of {len(vertices)} vertices are not "
            f"finite or more than {FARTHEST:g} mm away: make the surface again"
        )
    if triangles.ndim != 2 or triangles.shape[1] != 3:
        raise InputError(f"{path}: triangles have the shape {triangles.shape}; give a surface with (n, 3)")
    bad = np.flatnonzero(((triangles < 0) | (triangles >= len(vertices))).any(axis=1))
    if len(bad):
        raise InputError(
            f"{path}: triangle {bad[0]} is of the vertices {triangles[bad[0]].tolist()}, and there are vertices 0 to "
            f"{len(vertices) - 1}; {len(bad)} triangles are so: make the surface again"
        )


Read = tuple[Floats, Triangles, str, Floats]


def geometry_of(space: Space) -> Floats:
    """Return the affine from tkRAS to RASmm, (4, 4), of a volume on a grid without shear."""
    return _from_tkras(Path(), space.axes, space.to_ras(np.array(space.shape) / 2))


def _read_freesurfer(path: Path, space: str, geometry: Floats | None) -> Read:
    """Return vertices, triangles, nothing, and the affine to RASmm, (4, 4), of a file of FreeSurfer's."""
    from nibabel.freesurfer.io import read_geometry

    content: Any = read_geometry(path, read_metadata=True)
    vertices, triangles, footer = content
    affine = np.eye(4)
    if space == AUTO and _tags_of(path, len(vertices), len(triangles)) == SCANNER_TAGS:
        space = SCANNER
    if space != SCANNER:
        if not str(footer.get("valid", "")).startswith("1"):
            if geometry is not None:
                return np.asarray(vertices, np.float64), np.asarray(triangles, np.int64), "", geometry
            raise InputError(
                f"{path}: has no valid geometry of its volume, so its tkRAS cannot be moved to RASmm; make the file "
                "again from one that has, with mris_convert's to-scanner option, or give "
                f"{flag('surface_space')} {SCANNER} if its vertices are in RASmm"
            )
        axes = np.stack([footer[name] for name in ("xras", "yras", "zras")], axis=1)
        affine = _from_tkras(path, axes, footer["cras"])
    return np.asarray(vertices, np.float64), np.asarray(triangles, np.int64), "", affine


def _tags_of(path: Path, vertices: int, triangles: int) -> tuple[int, ...]:
    """Return the three numbers after the triangles; nibabel reads no footer where they say that it is scanner RAS."""
    with path.open("rb") as file:
        file.seek(3)
        for _ in range(2):  # the stamp and an empty line
            file.readline()
        file.seek(8 + 12 * (vertices + triangles), 1)
        return tuple(np.frombuffer(file.read(12).ljust(12, b"\0"), ">i4").tolist())


def _read_gifti(path: Path, space: str, note: Tell, warn: Tell) -> Read:
    """Return vertices, triangles (m may be 0), the geometric type, and the affine to RASmm, (4, 4), of a GIFTI file."""
    content = path.read_bytes()
    image = _gifti_within(path, content)
    points, triangles = (image.get_arrays_from_intent(f"NIFTI_INTENT_{kind}") for kind in ("POINTSET", "TRIANGLE"))
    if len(points) != 1 or len(triangles) > 1:
        raise InputError(
            f"{path}: has {len(points)} sets of vertices and {len(triangles)} of triangles; give a surface with one of "
            "each"
        )
    corners = triangles[0].data if triangles else np.empty((0, 3), np.int64)
    if corners.dtype.kind not in "iu":
        raise InputError(f"{path}: triangles are {corners.dtype}; give numbers of vertices as integers")
    systems = POINTSET.search(content)
    if space == AUTO and systems is not None and systems[0].count(b"<CoordinateSystemTransformMatrix") > 1:
        raise InputError(f"{path}: names several spaces for its vertices; {ASK}")  # nibabel knows only the last
    affine = _affine_of_gifti(path, points[0], image.meta, space, note, warn)
    vertices = np.asarray(points[0].data, np.float64)
    return vertices, corners.astype(np.int64), points[0].meta.get("GeometricType", ""), affine


def _gifti_within(path: Path, content: bytes) -> Any:
    """Return a GIFTI image whose values are all in its file, where no array unpacks to more than its sides promise."""
    from nibabel.gifti.parse_gifti_fast import GiftiImageParser

    class Parser(GiftiImageParser):
        def flush_chardata(self) -> None:
            if self.write_to == "Data" and self.da is not None:
                _check_array(path, self.da, self._char_blocks or ())
            super().flush_chardata()

    parser = Parser()
    parser.parse(string=content)
    return parser.img


def _check_array(path: Path, array: GiftiDataArray, texts: Iterable[str]) -> None:
    """Raise an InputError if the values of an array lie in another file, which may be a pipe, or unpack to too many."""
    import base64

    from nibabel.nifti1 import data_type_codes

    if array.ext_fname or array.encoding == EXTERNAL:
        raise InputError(f"{path}: its values lie in another file; make it again with values inside (GZipBase64Binary)")
    kind: Any = data_type_codes.dtype[array.datatype]
    promised = math.prod(array.dims) * kind.itemsize
    if promised > MOST_BYTES:
        raise InputError(f"{path}: has an array of the sides {array.dims}, which is no surface; make it again")
    if array.encoding == GZIPPED:
        packed = base64.b64decode("".join(texts).encode("ascii"))
        if len(zlib.decompressobj().decompress(packed, promised + 1)) > promised:
            raise InputError(f"{path}: an array of the sides {array.dims} has more values than these; make it again")


def _affine_of_gifti(
    path: Path, points: GiftiDataArray, meta: Mapping[str, str], space: str, note: Tell, warn: Tell
) -> Floats:
    """Return the affine from the vertices to RASmm: a matrix to the scanner's space, or that of FreeSurfer's fields."""
    system = points.coordsys
    if space == SCANNER or (space == AUTO and system is not None and system.dataspace == SCANNER_CODE):
        return np.eye(4)
    matrix, geometry = None, _volume_geometry(path, points.meta)
    if system is not None and system.xformspace == SCANNER_CODE != system.dataspace:
        matrix = np.asarray(system.xform, np.float64)
        if matrix.shape != (4, 4) or not np.isfinite(matrix).all() or not np.linalg.det(matrix[:3, :3]):
            raise InputError(f"{path}: its matrix to the scanner's space is {matrix.tolist()}; make the file again")
    affine = geometry if matrix is None else matrix
    if affine is None and space == TKRAS:
        raise InputError(
            f"{path}: has no VolGeomC_R and no matrix to the scanner's space, so its tkRAS cannot be moved to RASmm; "
            "make it again with mris_convert's to-scanner option"
        )
    if affine is None:
        if system is None or system.dataspace != ALIGNED_CODE:
            note(f"{path}: does not say in which space its vertices are; they are taken to be in RASmm")
        return np.eye(4)
    if space == AUTO:
        _doubt(path, matrix, geometry, meta, warn)
    return affine


def _doubt(path: Path, matrix: Floats | None, geometry: Floats | None, meta: Mapping[str, str], warn: Tell) -> None:
    """Raise an InputError or warn if it is not certain that the vertices of a GIFTI file are in tkRAS.

    FreeSurfer 7.4 and later say in which space they are, with a matrix from tkRAS to the scanner's. Files of earlier
    ones look the same with and without ``--to-scanner``, and Connectome Workbench keeps it when it moves vertices.
    """
    if matrix is not None and geometry is not None and not np.allclose(matrix, geometry, atol=DIFFERENT):
        raise InputError(f"{path}: its matrix to the scanner's space and its VolGeom fields differ; {ASK}")
    if all(affine is None or not _moves(affine) for affine in (matrix, geometry)):
        return
    if "Workbench" in meta.get("ProgramProvenance", ""):
        raise InputError(
            f"{path}: Connectome Workbench has written it and keeps FreeSurfer's c_ras whether or not it has moved the "
            f"vertices; {ASK}"
        )
    if matrix is None:
        warn(
            f"{path}: has FreeSurfer's c_ras and does not say in which space its vertices are: they are taken as "
            "mris_convert writes them without its to-scanner option, and moved; confirm it with "
            f"{flag('surface_space')} {TKRAS}, or give {SCANNER}"
        )


def _volume_geometry(path: Path, meta: Mapping[str, str]) -> Floats | None:
    """Return the affine from tkRAS to RASmm by the fields VolGeom... of a GIFTI file, if it has them."""
    names = [[f"VolGeom{column}_{row}" for column in "XYZC"] for row in "RAS"]
    if not any(name in meta for row in names for name in row):
        return None
    try:
        values = np.array([[float(meta[name]) for name in row] for row in names])
    except (KeyError, ValueError) as error:
        raise InputError(f"{path}: its VolGeom fields are not complete ({error}); {ASK}") from error
    return _from_tkras(path, values[:, :3], values[:, 3])


def _from_tkras(path: Path, axes: Array, centre: npt.ArrayLike) -> Floats:
    """Return the affine from tkRAS to RASmm, (4, 4), of a volume with unit vectors ``axes`` in columns, and a centre.

    It is FreeSurfer's ``Norig * inv(Torig)``: both have the same voxels, and the centre of the volume is 0 in tkRAS.
    """
    affine = np.eye(4)
    affine[:3, :3], affine[:3, 3] = np.asarray(axes, np.float64) @ TK_AXES.T, centre
    if not (np.isfinite(affine).all() and np.allclose(affine[:3, :3] @ affine[:3, :3].T, np.eye(3), atol=1e-3)):
        raise InputError(f"{path}: the geometry of its volume has axes that are not orthogonal unit vectors; {ASK}")
    return affine


def _moves(affine: Floats) -> bool:
    return not np.allclose(affine, np.eye(4), atol=UNMOVED)
