"""TRX: a ZIP archive of arrays, streamed to disk.

The points lie at a fixed place of the archive and are written there while tracking goes on. The other arrays, 24 bytes
per streamline, go to separate files and are copied into the archive at the end. Only then are the sizes known, so
the JSON header, the first member, is padded with spaces up to the points. All ZIP headers are those that Python's
zipfile writes if it knows the sizes in advance: trx-python 0.3 misreads extra fields of members below 2 GiB.
"""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from itertools import count, pairwise
from pathlib import Path
from typing import IO, ClassVar, NamedTuple, TypedDict

import numpy as np
import numpy.typing as npt

from ..aliases import Array
from ..space.batch import Batch, Space
from .checksums import crc32, join_crc32

# Member of the archive for each field of a batch; a number in the middle is the number of columns.
POINTS = "positions.3.float32"  # or float16, which has as many letters
MEMBERS = {
    "seeds": "dps/seeds.3.float32",
    "seed_number": "dps/seed_number.uint32",
    "direction_number": "dps/direction_number.uint16",
    "stop_reasons": "dps/stop_reasons.2.uint8",
}
POINTS_START = 1024  # where the points begin; the JSON header has up to 700 bytes
POINTS_BEFORE = POINTS_START - 30 - len(POINTS)  # where their entry in the archive begins
OFFSETS_AT_ONCE = 1 << 20
BUFFER_BYTES = 1 << 20  # large, since each write to a disk may have to wait for Python's lock


class Details(TypedDict, total=False):
    """Data of streamlines and points that formats keep, if they have room.

    Parameters
    ----------
    step_mm : float or None
        Distance between points, mm, if they are a step apart (.tck).
    point_type : str
        'float32', the default, or 'float16' (.trx).
    fields : callable
        Called when all streamlines are written: returns what else is known of the run, by name (.tck).
    late : callable
        Called when all streamlines are written: returns values of each streamline, (n,), by name, which only then are
        known (.trx).
    """

    step_mm: float | None
    point_type: str
    fields: Callable[[], Mapping[str, object]]
    late: Callable[[], Mapping[str, Array]]


class TrxBlock(NamedTuple):
    """Arrays of a batch as they are in the file.

    Parameters
    ----------
    points : (p, 3), of the type that the file has.
    crc : checksum of the points.
    arrays : values of each streamline or point, by the name of their member.
    starts : (n,) the number of points before each streamline of the batch.
    groups : names of the groups of each kind.
    """

    points: Array
    crc: int
    arrays: dict[str, Array]
    starts: npt.NDArray[np.int64]
    groups: list[tuple[str, ...]]


class TrxSink:
    """Appends batches to a TRX file."""

    STREAMLINE_BYTES: ClassVar[int] = 24  # offset, 4, and MEMBERS; above 2^32 points, offsets take 4 more
    beside: Path | None = None

    def __init__(self, folder: Path, space: Space, files: ExitStack, details: Details) -> None:
        point_type = details.get("point_type", "float32")
        self._folder, self._late = folder, details.get("late", dict)
        self._space = space
        self._type = np.dtype(point_type).newbyteorder("<")
        self._member = f"positions.3.{point_type}"
        self._streamlines = self._vertices = self._crc = 0
        self._opened, self._files = files, dict[str, IO[bytes]]()
        self._groups: list[tuple[str, ...]] = []
        self._archive = files.enter_context((folder / "tractogram.trx").open("wb"))
        self._archive.seek(POINTS_START)

    def lay_out(self, batch: Batch) -> TrxBlock:
        """Return a batch as it is in the file."""
        points = batch.points.astype(self._type, copy=False)
        arrays: dict[str, Array] = {member: getattr(batch, field) for field, member in MEMBERS.items()}
        arrays |= {f"dps/{name}.float32": values for name, values in batch.data_per_streamline.items()}
        arrays |= {f"dpv/{name}.float32": values for name, values in batch.data_per_point.items()}
        arrays |= {f"groups_{place}": groups.numbers for place, groups in enumerate(batch.groups)}
        groups = [kind.names for kind in batch.groups]
        return TrxBlock(points, crc32(points.data), arrays, batch.offsets[:-1], groups)

    def append(self, block: TrxBlock) -> None:
        """Append the bytes of a batch."""
        self._archive.write(block.points.data)
        self._crc = join_crc32(self._crc, block.crc, block.points.nbytes)
        for name, array in (block.arrays | {"starts": block.starts + self._vertices}).items():
            self._extend(name, array)
        self._groups = block.groups
        self._streamlines += len(block.starts)
        self._vertices += len(block.points)

    def _extend(self, name: str, array: Array) -> None:
        """Append values to a separate file, which has the name of a member of the archive if it becomes one."""
        if name not in self._files:
            path = self._folder / name
            path.parent.mkdir(exist_ok=True)
            self._files[name] = self._opened.enter_context(path.open("wb", BUFFER_BYTES))
        self._files[name].write(array.astype(array.dtype.newbyteorder("<"), copy=False).data)

    def finish(self) -> Path:
        """Complete the archive; return its path."""
        for name, values in self._late().items():
            self._extend(f"dps/{name}.float32", np.asarray(values, np.float32))
        self._extend("starts", np.array([self._vertices]))
        for file in self._files.values():
            file.close()
        self._archive.seek(0)
        with zipfile.ZipFile(self._archive, "w") as target:
            header = entry_of("header.json")
            points = entry_of(self._member, 3 * self._type.itemsize * self._vertices, self._crc)
            before = POINTS_START - len(points.FileHeader()) - len(header.FileHeader())
            target.writestr(header, self._header().ljust(before))
            # trx-python stores an empty tractogram as a header only, and cannot map members of zero bytes.
            if self._streamlines:
                _add(target, points)
                self._store_offsets(target)
                for member in (name for name in self._files if "." in name):
                    _store(target, self._folder / member, member)
                for place, names in enumerate(self._groups):
                    self._store_groups(target, self._folder / f"groups_{place}", names)
        self._archive.close()
        return Path(self._archive.name)

    def _store_groups(self, archive: zipfile.ZipFile, path: Path, names: Sequence[str]) -> None:
        """Write the streamlines of each group, in their order; trx-python cannot map a group that has none."""
        numbers = np.fromfile(path, "<i4")
        path.unlink()
        order = np.argsort(numbers, kind="stable")
        cuts = np.searchsorted(numbers, range(1, len(names) + 2), sorter=order)
        for name, (first, end) in zip(names, pairwise(cuts), strict=True):
            if first < end:
                members = np.unique(order[first:end] // (len(numbers) // self._streamlines)).astype("<u4")
                archive.writestr(entry_of(f"groups/{name}.uint32"), members.tobytes())

    def _header(self) -> str:
        grid = {"DIMENSIONS": list(self._space.shape), "VOXEL_TO_RASMM": self._space.affine.tolist()}
        return json.dumps(grid | {"NB_VERTICES": self._vertices, "NB_STREAMLINES": self._streamlines})

    def _store_offsets(self, archive: zipfile.ZipFile) -> None:
        """Write n starts and the total number of points; only now is it known whether 32 bits are enough."""
        kind = np.dtype("<u4" if self._vertices < 1 << 32 else "<u8")
        entry = entry_of(f"offsets.{kind.name}", kind.itemsize * (self._streamlines + 1))
        with (self._folder / "starts").open("rb") as source:
            _write(archive, entry, iter(lambda: np.fromfile(source, "<i8", OFFSETS_AT_ONCE).astype(kind).data, b""))


def member_names(texts: Iterable[str], most: int = 64) -> list[str]:
    """Return names for members of an archive: of letters, digits, - and _; one that is taken gets a number.

    Parameters
    ----------
    texts : what is to be named.
    most : characters of a name without its number.
    """
    names, taken = list[str](), set[str]()  # some file systems do not tell letters from capitals
    for text in texts:
        stem = re.sub(r"[^A-Za-z0-9_-]", "_", text)[:most]
        candidates = (stem if number == 1 else f"{stem}_{number}" for number in count(1))
        names.append(next(name for name in candidates if name.lower() not in taken))
        taken.add(names[-1].lower())
    return names


def member_of_points(names: Iterable[str]) -> str:
    """Return the name of the member that holds the points, which says their type; '' if there is none."""
    return next((name for name in names if name.startswith("positions.3.float")), "")


def map_points(path: Path | IO[bytes]) -> tuple[Array, npt.NDArray[np.int64]]:
    """Map the points of a file of :class:`TrxSink`; what is changed in them stays in memory.

    Returns
    -------
    points : (p, 3) float32 or float16, RASmm
    offsets : (n + 1,) int64
        Streamline ``i`` is ``points[offsets[i]:offsets[i + 1]]``.

    Raises
    ------
    ValueError
        If another program has written the file.
    """
    with zipfile.ZipFile(path) as archive:
        sizes = {member.filename: member.file_size for member in archive.infolist()}
        if sizes.keys() == {"header.json"}:
            return np.empty((0, 3), np.float32), np.zeros(1, np.int64)
        starts, member = next((name for name in sizes if name.startswith("offsets.")), ""), member_of_points(sizes)
        if not member or not starts or archive.getinfo(member).header_offset != POINTS_BEFORE:
            raise ValueError("another program has written it")
        offsets = np.frombuffer(archive.read(starts), np.dtype(starts.split(".")[1]).newbyteorder("<")).astype(np.int64)
    kind = np.dtype(member.split(".")[-1]).newbyteorder("<")
    points = np.memmap(path, kind, "c", POINTS_START, (sizes[member] // (3 * kind.itemsize), 3))
    if offsets[0] != 0 or offsets[-1] != len(points) or (np.diff(offsets) < 1).any():
        raise ValueError("its arrays do not fit each other")
    return points.view(np.ndarray), offsets


def contents(archive: zipfile.ZipFile) -> str:
    """Return a hash of the names, sizes and checksums of all members, which tells the content of files apart."""
    members = [(member.filename, member.file_size, member.CRC) for member in archive.infolist()]
    return hashlib.sha256(json.dumps(members).encode()).hexdigest()


def entry_of(member: str, size: int = 0, crc: int = 0) -> zipfile.ZipInfo:
    """Return an entry with ZipInfo's default date, 1980, so that equal tractograms give equal files."""
    entry = zipfile.ZipInfo(member)
    entry.file_size = entry.compress_size = size
    entry.CRC = crc
    entry.external_attr = 0o644 << 16
    return entry


def _store(archive: zipfile.ZipFile, path: Path, member: str) -> None:
    with path.open("rb") as source:
        _write(archive, entry_of(member, path.stat().st_size), iter(lambda: source.read(BUFFER_BYTES), b""))
    path.unlink()


def _write(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, blocks: Iterable[memoryview | bytes]) -> None:
    """Write a member whose size is known, and sum its bytes, which takes zipfile longer than to write them."""
    assert archive.fp is not None
    archive.fp.seek(archive.start_dir + len(entry.FileHeader()))
    for block in blocks:
        archive.fp.write(block)
        entry.CRC = crc32(block, entry.CRC)
    _add(archive, entry)


def _add(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> None:
    """Write the header of the next member, whose bytes are in their place."""
    assert archive.fp is not None
    entry.header_offset = archive.start_dir
    archive.fp.seek(entry.header_offset)
    archive.start_dir += archive.fp.write(entry.FileHeader()) + entry.file_size
    archive.filelist.append(entry)
