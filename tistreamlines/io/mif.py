"""Reading of MRtrix3's image format: a text header, and values in any order of the axes.

An image is read as MRtrix3's ``mrconvert`` writes it to NIfTI. The spatial axes are in the order and sense in which the
file stores them, volumes in the order of their numbers, and the affine and the scaling rounded to float32. So one
voxel has the same index in both files. Gradients are those that ``mrconvert -export_grad_fsl`` writes.
"""

from __future__ import annotations

import math
import re
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from ..aliases import Array
from ..errors import InputError
from .mrtrix_header import Header, Values, read_header, values_of
from .stored_image import Gradients, StoredImage
from .unpacking import content_of

MRTRIX_SUFFIXES = (".mif", ".mif.gz", ".mih")
MAGIC = b"mrtrix image"
AXES = range(3, 17)
LARGEST_SIZE = 2**31 - 1  # of an axis
DIGITS = 10  # significant ones, with which MRtrix3 keeps gradients that it has changed
CHANGED = 1e-5  # largest |log| of squared norms with which MRtrix3 leaves directions as they are
SCALED = 0.01  # largest |log| of squared norms with which it leaves b-values as they are
TYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64")
ORDERS: dict[str, Literal["<", ">", "="]] = {"le": "<", "be": ">", "": "="}
UNPLACED = {"sform_code": 0, "qform_code": 0}  # what NIfTI says of an image of unknown place
Floats = npt.NDArray[np.float64]


# ------------------------------------------------------------------------------------------------------------- header
def open_mif(path: Path) -> StoredImage:
    """Read the header of an image of MRtrix3.

    Parameters
    ----------
    path : Path
        File that exists: .mif, .mif.gz, or .mih with the values in a file beside it.

    Returns
    -------
    StoredImage
        It reads its values at the first use, and maps an uncompressed file.

    Raises
    ------
    InputError
        If the header is damaged, or if the file is too short.
    """
    header = read_header(path, MAGIC)
    shape, ranks = _shape(header), _ranks(header)
    if len(ranks) != len(shape):
        raise header.fault(f"layout has {len(ranks)} axes, but dim has {len(shape)}")
    kind, bits = _kind(header)
    # the spatial axes as they lie in the file, since NIfTI has no other order, and then the volumes
    axes = [*sorted(range(3), key=lambda axis: abs(ranks[axis])), *range(3, len(shape))]
    values, size = values_of(header), (math.prod(shape) * bits + 7) // 8
    directions, affine = _affine(header, shape, ranks, axes[:3])
    slope, inter = _scaling(header) if kind.kind in "iu" and bits > 1 else (1.0, 0.0)  # MRtrix3 scales no others
    _check_length(header, values, size)

    def load() -> Array:
        """Return the values as stored, as a view with the axes of the image."""
        if values.path.suffix.lower() == ".gz":
            content = content_of(str(values.path), values.offset + size)
            _check_length(header, values, size, len(content))
            stored = np.frombuffer(content, np.uint8, size, values.offset)
        else:
            stored = np.memmap(values.path, np.uint8, "r", values.offset, (size,))
        count = math.prod(shape)
        flat = np.unpackbits(stored, count=count) if bits == 1 else np.frombuffer(stored, kind, count)
        slowest = sorted(range(len(shape)), key=lambda axis: -abs(ranks[axis]))
        array = flat.reshape([shape[axis] for axis in slowest]).transpose(np.argsort(slowest))
        # the spatial axes run as stored, with an affine that fits; other axes have none
        turned = tuple(slice(None, None, -1 if axis > 2 and ranks[axis] < 0 else None) for axis in range(len(shape)))
        return array[turned].transpose(axes)

    gradients = partial(_gradients, header, directions, shape) if "dw_scheme" in header.lines else None
    placed = {} if "transform" in header.lines else UNPLACED
    return StoredImage(tuple(shape[axis] for axis in axes), affine, kind, load, slope, inter, gradients, placed)


def files_of_mif(path: Path) -> list[Path]:
    """Return the files that make up an image: itself, and that of the values if it is another one."""
    values = values_of(read_header(path, MAGIC))
    return [path] if values.path == path else [path, values.path]


def _shape(header: Header) -> tuple[int, ...]:
    text = header.value("dim")
    sizes = header.numbers("dim", text)
    if len(sizes) not in AXES or not all(size.is_integer() and 1 <= size <= LARGEST_SIZE for size in sizes):
        raise header.fault(f"dim is {text[:60]!r}, where three sizes or more are needed, each from 1 to {LARGEST_SIZE}")
    return tuple(map(int, sizes))


def _ranks(header: Header) -> tuple[int, ...]:
    """Return for each axis its place among the axes, 1 for the one whose neighbours lie side by side; < 0 if turned."""
    text = header.value("layout")
    matches = [re.fullmatch(r"\s*([+-]?)([0-9]{1,2})\s*", word) for word in text.split(",")]
    words = [(match[1], int(match[2])) for match in matches if match]
    count = len(matches)
    if sorted(place for _, place in words) != [*range(count)]:
        raise header.fault(f"layout is {text[:60]!r}, where each of 0 to {count - 1} is needed once, with + or -")
    return tuple(-(place + 1) if sign == "-" else place + 1 for sign, place in words)


def _kind(header: Header) -> tuple[np.dtype, int]:
    """Return the type of the values, and how many bits each takes in the file."""
    text = header.value("datatype")
    name = text.lower()
    if name == "bit":
        return np.dtype(np.uint8), 1
    order = name[-2:] if name[-2:] in ORDERS else ""
    if name.startswith("cfloat"):
        raise InputError(f"{header.path}: datatype {text} has complex values; give e.g. their size, by mrcalc X -abs Y")
    if name.removesuffix(order) not in TYPES:
        raise header.fault(f"datatype {text[:60]!r} is none of Bit, {', '.join(TYPES)} with LE or BE")
    kind = np.dtype(name.removesuffix(order)).newbyteorder(ORDERS[order])
    return kind, kind.itemsize * 8


def _scaling(header: Header) -> tuple[float, float]:
    """Return the factor of integers and what is added, rounded to float32 as in NIfTI."""
    if "scaling" not in header.lines:
        return 1.0, 0.0
    text = header.value("scaling")
    numbers = header.numbers("scaling", text)
    if len(numbers) != 2 or not np.isfinite(numbers).all() or not numbers[1]:
        raise header.fault(f"scaling is {text[:60]!r}, where an offset and a factor other than 0 are needed")
    with np.errstate(over="ignore"):  # infinite values are reported when they are read
        rounded = np.array(numbers, np.float32)
    return float(rounded[1]), float(rounded[0])


# ------------------------------------------------------------------------------------------------------------- affine
def _affine(header: Header, shape: tuple[int, ...], ranks: tuple[int, ...], axes: list[int]) -> tuple[Floats, Floats]:
    """Return the direction of each axis as stored, (3, 3), one a column, and the affine."""
    sides = header.numbers("vox", header.value("vox"))[:3]
    if len(sides) < 3 or not all(0 < side < np.inf for side in sides):
        raise header.fault(f"vox is {header.value('vox')[:60]!r}, where three lengths in mm are needed")
    rows = [header.numbers("transform", line) for line in header.lines.get("transform", [])]
    if rows and (len(rows) not in (3, 4) or any(len(row) != 4 for row in rows) or not np.isfinite(rows).all()):
        raise header.fault(f"transform is {rows[:4]}, where three rows of four finite numbers are needed")
    centred = [-side * (size - 1) / 2 for side, size in zip(sides, shape[:3], strict=True)]  # MRtrix3's default
    matrix = np.array(rows[:3]) if rows else np.column_stack([np.eye(3), centred])
    directions, first = matrix[:, :3].copy(), matrix[:, 3].copy()
    for axis in axes:
        if ranks[axis] < 0:
            first += directions[:, axis] * ((shape[axis] - 1) * sides[axis])
            directions[:, axis] *= -1
    affine = np.eye(4)
    with np.errstate(over="ignore"):  # numbers beyond float32 are reported with the affine
        affine[:3, :3] = (directions * sides)[:, axes].astype(np.float32)
        affine[:3, 3] = first.astype(np.float32)
    return directions[:, axes], affine


# ---------------------------------------------------------------------------------------------------------- gradients
def _gradients(header: Header, directions: Floats, shape: tuple[int, ...]) -> Gradients:
    """Return the gradients of ``dw_scheme``, rotated from the scanner's axes to those of the voxels."""
    rows = [header.numbers("dw_scheme", line) for line in header.lines["dw_scheme"]]
    if len(rows) != math.prod(shape[3:4]):
        raise header.fault(f"dw_scheme has {len(rows)} rows, but the image {math.prod(shape[3:4])} volumes")
    short = next((number for number, row in enumerate(rows) if len(row) < 4), None)
    if short is not None:
        raise header.fault(f"dw_scheme has {rows[short]} in row {short}, where x, y, z and b are needed")
    scheme = normalise_gradients(np.array([row[:4] for row in rows]))
    # the rotation nearest to the axes, as in MRtrix3: they are orthogonal only to the digits of the header
    left, _, right = np.linalg.svd(directions)
    return Gradients(scheme[:, 3], scheme[:, :3] @ (left @ right))


def normalise_gradients(scheme: Floats) -> Floats:
    """Return gradients with unit directions, as MRtrix3 interprets those of a header.

    Parameters
    ----------
    scheme : (n, 4) float64
        x, y, z and b of each volume. Scanners often store a shell as the highest b-value and shorter directions.

    Returns
    -------
    (n, 4) float64
        b-values are multiplied by the squared lengths of the directions, unless all lengths are 1 to within 0.5 %.
        A direction of no length counts as a deviation, as it does in MRtrix3 3.0.3, and gets a b-value of 0.
    """
    with np.errstate(all="ignore"):  # what is not finite is reported with the gradients
        squares = (scheme[:, :3] ** 2).sum(axis=1)
        most = np.abs(np.log(squares)).max()
    if not most > CHANGED:
        return scheme
    gradients = scheme.copy()
    with np.errstate(all="ignore"):
        gradients[:, :3] /= np.where(squares > 0, np.sqrt(squares), 1)[:, None]
        if most > SCALED:
            gradients[:, 3] *= squares
    return np.array([[float(f"{number:.{DIGITS}g}") for number in row] for row in gradients])


# ------------------------------------------------------------------------------------------------------------- values
def _check_length(header: Header, values: Values, size: int, packed: int | None = None) -> None:
    """Raise an InputError if a file has fewer bytes than the values take; of a packed file when it is unpacked."""
    if values.path.suffix.lower() == ".gz" and packed is None:
        return
    try:
        there = values.path.stat().st_size if packed is None else packed
    except (OSError, ValueError) as error:
        raise header.fault(f"its values should be in {values.path.name}, which cannot be read") from error
    if there - values.offset < size:
        raise InputError(
            f"{values.path}: has {max(0, there - values.offset)} bytes of values from byte {values.offset} on, but dim "
            f"and datatype of {header.path.name} need {size}; it is incomplete, copy or create it again"
        )
