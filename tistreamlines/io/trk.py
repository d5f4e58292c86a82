"""TRK (TrackVis): one record per streamline, written one batch at a time, and read from files of any program.

nibabel reads and writes one streamline at a time, which takes minutes for millions of them; only its header tools are
used here.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from ..aliases import Array, Vector
from ..errors import InputError
from ..space.batch import MOST_POINTS, Batch, Space
from .trx import Details

# Number of values per streamline for each field of a batch, sorted by name as in nibabel. All are float32 in the file,
# so a seed number is exact only below 2**24, about 16.8 million; TRX has no such limit.
PROPERTIES = {"direction_number": 1, "seed_number": 1, "seeds": 3, "stop_reasons": 2}
MOST_NAMES, NAME_CHARACTERS = 10, 20  # names of values per streamline, or per point, and of a name of one value
POINTS_AT_ONCE = 1 << 16
SIZE, WORD = 1000, 4  # bytes of the header, and of a number
WORDS_AT_ONCE = 1 << 20
VERSIONS = (1, 2, 3)  # the first has no matrix; nibabel, too, reads the third as the second
AXES = str.maketrans("RLAPSI", "xxyyzz")
INVERTIBLE = "it has to be an affine that can be inverted"
UNPLACED = "docs/troubleshooting.md says how to add it"


class TrkBlock(NamedTuple):
    """Bytes of a batch: the records of its streamlines; and the names of further values in them."""

    words: npt.NDArray[np.float32]
    streamlines: int
    per_streamline: tuple[str, ...]
    per_point: tuple[str, ...]


class TrkSink:
    """Appends batches to a TRK file."""

    STREAMLINE_BYTES: ClassVar[int] = 32  # number of points and properties
    beside: Path | None = None

    def __init__(self, folder: Path, space: Space, files: ExitStack, details: Details) -> None:
        self._path = folder / "tractogram.trk"
        self._header, self._affine = _header(space)
        self._file = files.enter_context(self._path.open("wb"))
        self._file.write(self._header.tobytes())

    def lay_out(self, batch: Batch) -> TrkBlock:
        """Return a batch as it is in the file."""
        words = _pack(batch, self._affine)
        return TrkBlock(words, len(batch), tuple(batch.data_per_streamline), tuple(batch.data_per_point))

    def append(self, block: TrkBlock) -> None:
        """Append the bytes of a batch."""
        if not self._header["nb_streamlines"]:
            self._name(block)
        self._file.write(block.words.data)
        self._header["nb_streamlines"] += block.streamlines

    def _name(self, block: TrkBlock) -> None:
        """Name the values per streamline and per point, which are those of every batch."""
        from nibabel.streamlines.trk import encode_value_in_name

        properties = PROPERTIES | dict.fromkeys(block.per_streamline, 1)
        self._header["nb_properties_per_streamline"] = sum(properties.values())
        for i, (name, values) in enumerate(properties.items()):
            self._header["property_name"][i] = encode_value_in_name(values, name)
        self._header["nb_scalars_per_point"] = len(block.per_point)
        for i, name in enumerate(block.per_point):
            self._header["scalar_name"][i] = encode_value_in_name(1, name)

    def finish(self) -> Path:
        """Write the header, with the number of streamlines; return the path."""
        self._file.seek(0)
        self._file.write(self._header.tobytes())
        self._file.close()
        return self._path


def _header(space: Space) -> tuple[Array, npt.NDArray[np.float64]]:
    from nibabel.streamlines.trk import get_affine_trackvis_to_rasmm, header_2_dtype

    header: Array = np.zeros((), header_2_dtype.newbyteorder("<"))
    header["magic_number"] = b"TRACK"
    header["version"] = 2
    header["hdr_size"] = header.dtype.itemsize
    header["dimensions"] = space.shape
    header["voxel_sizes"] = space.voxel_sizes
    header["voxel_to_rasmm"] = space.affine
    header["voxel_order"] = _letters(space.affine).encode()
    # The inverse of the float32 matrix that readers apply, which includes the shift from voxel centre to corner.
    to_trackvis = np.linalg.inv(get_affine_trackvis_to_rasmm(header).astype(np.float64))
    return header, to_trackvis


def _pack(batch: Batch, to_trackvis: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """Return the records of all streamlines as 32-bit words: number of points, points with their values, properties."""
    n = len(batch)
    properties = [column for name, values in PROPERTIES.items() for column in getattr(batch, name).reshape(n, values).T]
    properties += batch.data_per_streamline.values()
    points = move_points(batch.points, to_trackvis)
    if batch.data_per_point:
        points = np.column_stack([points, *batch.data_per_point.values()])
    words = np.empty(n * (1 + len(properties)) + points.size, "<f4")
    starts = points.shape[1] * batch.offsets[:-1] + np.arange(n) * (1 + len(properties))
    ends = starts + 1 + points.shape[1] * batch.lengths
    is_point = np.ones(len(words), bool)
    is_point[starts] = False
    words.view("<i4")[starts] = batch.lengths
    for column, values in enumerate(properties):
        is_point[ends + column] = False
        words[ends + column] = values
    words[is_point] = points.ravel()
    return words


@dataclass(frozen=True, eq=False)
class TrkHeader:
    """The header of a TRK file.

    Parameters
    ----------
    path : Path
    fields : numpy.void
        Of the header, by nibabel's names. Missing values are filled in, see ``doubts``.
    to_rasmm : (4, 4) float64
        From the coordinates in the file, mm from the corner of the first voxel, to RASmm.
    count : int
        Of streamlines; 0 if it is unknown.
    doubts : tuple of str
        The missing values of the header and their replacements.
    """

    path: Path
    fields: np.void
    to_rasmm: npt.NDArray[np.float64]
    count: int
    doubts: tuple[str, ...]

    def grid(self) -> Space:
        """Return the grid of the image that the streamlines belong to; raise an InputError if it has no size."""
        if min(self.fields["dimensions"]) < 1:
            sizes = self.fields["dimensions"].tolist()
            raise InputError(f"{self.path}: its header has dim {sizes}, which are no sizes of an image; write it "
                             "again, or give another grid")
        return Space(self.fields["voxel_to_rasmm"].astype(np.float64), tuple(self.fields["dimensions"].tolist()))


def header_of_trk(path: Path) -> TrkHeader:
    """Read the header of a TRK file.

    Raises
    ------
    InputError
        If it is no header of TrackVis, or says what cannot be.
    """
    from nibabel.streamlines.trk import get_affine_trackvis_to_rasmm, header_2_dtype

    with path.open("rb") as file:
        content = file.read(SIZE)
    if not content.startswith(b"TRACK") or len(content) < SIZE:
        raise InputError(f"{path}: does not begin with a header of TrackVis; give a .trk file")
    sizes = {order: int(np.frombuffer(content, f"{order}i4", 1, SIZE - WORD)[0]) for order in "<>"}
    order = "<" if sizes["<"] == SIZE else ">"
    if sizes[order] != SIZE:
        raise _fault(path, "hdr_size", sizes["<"], f"it has to be {SIZE}")
    header: np.void = np.frombuffer(bytearray(content), header_2_dtype.newbyteorder(order))[0]
    if header["version"] not in VERSIONS:
        raise _fault(path, "version", header["version"], "it has to be 1, 2 or 3")
    doubts = []
    if header["version"] == 1 or header["voxel_to_rasmm"][3, 3] == 0:
        header["voxel_to_rasmm"] = np.eye(4)
        doubts.append(
            f"{path}: has no vox_to_ras, as from TrackVis before version 2: voxel coordinates are taken as RASmm, as "
            f"nibabel takes them; {UNPLACED}"
        )
    if not header["voxel_order"]:
        header["voxel_order"] = b"LPS"
        doubts.append(f"{path}: has no voxel_order: LPS is taken, TrackVis's default; {UNPLACED}")
    _check(path, header)
    with np.errstate(all="ignore"):  # a warning names a matrix that is not finite
        to_rasmm = get_affine_trackvis_to_rasmm(header).astype(np.float64)
    if not np.isfinite(to_rasmm).all():
        raise _fault(path, "vox_to_ras", header["voxel_to_rasmm"].tolist(), INVERTIBLE)
    return TrkHeader(path, header, to_rasmm, max(0, int(header["nb_streamlines"])), tuple(doubts))


def _check(path: Path, header: np.void) -> None:
    """Raise an InputError at the first field whose value cannot be."""
    sizes, affine = header["voxel_sizes"], header["voxel_to_rasmm"].astype(np.float64)
    if not (np.isfinite(sizes).all() and sizes.all()):
        raise _fault(path, "voxel_size", sizes.tolist(), "each has to be above 0 mm")
    if not np.isfinite(affine).all() or np.linalg.matrix_rank(affine[:3, :3]) < 3 or len(_letters(affine)) < 3:
        raise _fault(path, "vox_to_ras", affine.tolist(), INVERTIBLE)
    order = header["voxel_order"].decode("latin1").upper()
    if sorted(order.translate(AXES)) != [*"xyz"]:
        raise _fault(path, "voxel_order", repr(order), "it has to be three letters such as LPS")
    if order != _letters(affine) and not (header["dimensions"] > 0).all():
        raise _fault(path, "dim", header["dimensions"].tolist(), f"they have to be above 0, since voxel_order, "
                     f"{order}, is not that of vox_to_ras")
    for name in ("nb_scalars_per_point", "nb_properties_per_streamline"):
        if header[name] < 0:
            raise _fault(path, {"nb_s": "n_scalars", "nb_p": "n_properties"}[name[:4]], header[name], "give 0 or more")


def _letters(affine: Array) -> str:
    """Return where each voxel axis points to, such as 'RAS'; an axis that points nowhere has no letter."""
    from nibabel.orientations import aff2axcodes

    return "".join(letter for letter in aff2axcodes(affine) if letter is not None)


def _fault(path: Path, field: str, value: object, needed: str) -> InputError:
    return InputError(f"{path}: its header has {field} {value}: {needed}; write the tractogram again")


class TrkRecords(NamedTuple):
    """Records of some streamlines: words of 32 bits, the first word of each, and how many points it has."""

    words: npt.NDArray[np.int32]
    starts: list[int]
    lengths: Vector[np.int64]


class TrkStreamlines(NamedTuple):
    """Some streamlines: points (p, 3) in RASmm, how many each has (n,), scalars (p, s) and properties (n, q)."""

    points: npt.NDArray[np.float32]
    lengths: npt.NDArray[np.int64]
    scalars: npt.NDArray[np.float32]
    properties: npt.NDArray[np.float32]


def streamlines_of_trk(header: TrkHeader) -> Generator[TrkStreamlines, None, None]:
    """Read the streamlines, some of them at a time.

    Raises
    ------
    InputError
        If the file ends within a streamline, or has another number of them than its header says.
    """
    width, columns = 3 + int(header.fields["nb_scalars_per_point"]), int(header.fields["nb_properties_per_streamline"])
    for words, starts, lengths in records_of_trk(header):
        rows = [words[a + 1 : a + 1 + width * n] for a, n in zip(starts, lengths.tolist(), strict=True)]
        values = np.concatenate([words[:0], *rows]).view(np.float32).reshape(-1, width)
        behind = np.array(starts, np.int64) + 1 + width * lengths
        properties = words[behind[:, None] + np.arange(columns)].view(np.float32)
        yield TrkStreamlines(move_points(values[:, :3], header.to_rasmm), lengths, values[:, 3:], properties)


def values_of_trk(header: TrkHeader) -> tuple[dict[str, int], dict[str, int]]:
    """Return the columns of scalars, and of properties, by name; those with several numbers are left out."""
    fields = header.fields
    return (
        _columns(fields["scalar_name"].tolist(), int(fields["nb_scalars_per_point"])),
        _columns(fields["property_name"].tolist(), int(fields["nb_properties_per_streamline"])),
    )


def _columns(names: list[bytes], count: int) -> dict[str, int]:
    """Return the column of each name that has one number; a name may have the count of its numbers behind a 0."""
    columns, place = dict[str, int](), 0
    for stored in names:
        name, _, numbers = stored.partition(b"\0")
        wide = int(number) if (number := numbers.strip(b"\0")).isdigit() else 1
        if not name or place + wide > count:
            break
        if wide == 1:
            columns[name.decode("latin1")] = place
        place += wide
    return columns


def records_of_trk(header: TrkHeader) -> Generator[TrkRecords, None, None]:
    """Read the records of some streamlines at a time; see :func:`streamlines_of_trk`."""
    fields, number, size, held = header.fields, 0, 0, np.empty(0, np.int32)
    width, properties = 3 + int(fields["nb_scalars_per_point"]), int(fields["nb_properties_per_streamline"])
    left, rest = divmod(header.path.stat().st_size - SIZE, WORD)
    with header.path.open("rb") as file:
        file.seek(SIZE)
        while left or len(held):
            block = np.fromfile(file, fields.dtype["nb_streamlines"], max(WORDS_AT_ONCE, size - len(held)))
            left, held = left - len(block), np.concatenate([held, block.astype(np.int32, copy=False)])
            starts, place = [], 0
            while place < len(held):
                count = int(held[place])
                size = 1 + width * count + properties
                if not 0 <= count <= MOST_POINTS or size > len(held) - place + left:
                    raise _wrong(header, number + len(starts))
                if size > len(held) - place:
                    break
                starts.append(place)
                place += size
            number += len(starts)
            yield TrkRecords(held[:place], starts, held[starts].astype(np.int64))
            held = held[place:]
            if 0 < header.count < number:
                raise _wrong(header, number)
    if rest or number < header.count:
        raise _wrong(header, number)


def _wrong(header: TrkHeader, number: int) -> InputError:
    """Return the error of a file whose content ends badly behind so many streamlines."""
    if header.count and number >= header.count:
        return InputError(
            f"{header.path}: its header tells of {header.count:,} streamlines (n_count), but more follows; write it "
            "again, or set n_count to 0 if all of it is right"
        )
    total = f" of {header.count:,}" if header.count else ""
    return InputError(
        f"{header.path}: ends behind streamline {number:,}{total}, or is damaged there; copy or create it again"
    )


def move_points(points: npt.NDArray[np.float32], affine: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """Return points (p, 3) in the space that an affine (4, 4) leads to; it is computed in float64."""
    # One axis at a time is eight times faster than a matrix product with so narrow an array. Blocks stay in the cache.
    out = np.empty_like(points)
    for first in range(0, len(points), POINTS_AT_ONCE):
        part = slice(first, first + POINTS_AT_ONCE)
        x, y, z = points[part].T.astype(np.float64, order="C")
        for axis, (a, b, c, d) in enumerate(affine[:3]):
            out[part, axis] = a * x + b * y + c * z + d
    return out
