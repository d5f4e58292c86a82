"""TRX of any program, as an archive or a folder, whose members are checked against its specification.

Members are neither mapped nor unpacked to files. Blocks of values are read one after the other, in the order of the
file. So a file need not be writable, its checksums are compared, and memory does not depend on the promises of a
header.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

import numpy as np
import numpy.typing as npt

from ..aliases import Array
from ..errors import InputError
from ..space.batch import MOST_POINTS
from .images import checked_grid
from .regular import open_regular

HEADER = "header.json"
LONGEST_HEADER = 1 << 20  # bytes
ROWS_AT_ONCE = 1 << 18
LARGEST_SIDE = (1 << 16) - 1  # of the grid, which has numbers of 16 bits
COUNTS = ("NB_STREAMLINES", "NB_VERTICES")
REALS = ("float16", "float32", "float64")
WHOLE = tuple(f"{sign}int{bits}" for sign in ("u", "") for bits in (8, 16, 32, 64))
# the types that each array may have; signed offsets, which the specification lacks, lose nothing
KINDS = {
    "positions": REALS, "offsets": ("uint32", "uint64", "int32", "int64"), "groups": WHOLE,
    **dict.fromkeys(("dps", "dpv", "dpg"), (*REALS, *WHOLE, "bit", "bool")),
}
BYTE = {"bit": "bool"}  # of which each value takes a byte
DEPTHS = {"positions": 1, "offsets": 1, "dps": 2, "dpv": 2, "groups": 2, "dpg": 3}  # parts of a name
METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}  # of others, a small block may unpack to gigabytes


class StoredMember(NamedTuple):
    """A member as it is stored: the number of its bytes, and how it is opened."""

    size: int
    open: Callable[[], IO[bytes]]


@dataclass(frozen=True)
class Member:
    """An array, (rows, columns).

    Parameters
    ----------
    name : str
        Of its member, for messages.
    kind : numpy.dtype
        Of its values, with the smaller byte first.
    columns : int
    stored : StoredMember
    """

    name: str
    kind: np.dtype
    columns: int
    stored: StoredMember

    @property
    def width(self) -> int:
        """Bytes of a row."""
        return self.columns * self.kind.itemsize

    @property
    def count(self) -> int:
        """How many rows there are."""
        return self.stored.size // self.width

    def reader(self) -> Callable[[int], Array]:
        """Return a function that reads so many of the next rows, (count, columns)."""
        file = self.stored.open()

        def read(count: int) -> Array:
            content = file.read(count * self.width)
            if len(content) != count * self.width:
                raise ValueError(f"{self.name} ends early")
            return np.frombuffer(content, self.kind).reshape(count, self.columns)

        return read


class Trx:
    """A TRX file whose members fit each other; see :func:`open_trx`.

    Attributes
    ----------
    space : Space
        Grid of the image that the streamlines belong to.
    streamlines, vertices : int
        How many streamlines and points there are.
    members : dict of str to Member
        Arrays by name, such as ``positions`` and ``dps/seeds``.
    """

    def __init__(self, path: Path, stored: Iterable[tuple[str, StoredMember]]) -> None:
        self._path = path
        beside = self._header_and_others(stored)
        self._read_header(beside.pop((HEADER,)))
        self.members = self._arrays(beside)
        self._check_sizes()
        for _ in self.lengths():
            pass  # it checks what it reads
        self._check_groups()

    def lengths(self) -> Generator[npt.NDArray[np.int64], None, None]:
        """Return how many points each streamline has, a block of streamlines at a time, and check the offsets."""
        if "offsets" not in self.members:
            return
        member, last = self.members["offsets"], 0
        read, whole = member.reader(), member.count > self.streamlines  # with the end of all
        if member.count and (start := read(1)[0, 0]) != 0:
            raise self._fault(f"{member.name} begins with {start}, not with 0")
        for first in range(0, self.streamlines, ROWS_AT_ONCE):
            count = min(ROWS_AT_ONCE, self.streamlines - first)
            known = whole or first + count < self.streamlines
            ends = read(count if known else count - 1).ravel().astype(np.int64)
            lengths = np.diff(ends if known else np.append(ends, self.vertices), prepend=last)
            if lengths.min() < 0 or (last := last + int(lengths.sum())) > self.vertices:
                raise self._fault(f"{member.name} falls, or goes beyond the {self.vertices:,} points")
            if (most := int(lengths.max())) > MOST_POINTS:
                raise self._fault(f"has a streamline of {most:,} points")
            yield lengths
        if last != self.vertices:
            raise self._fault(f"{member.name} ends with {last}, but there are {self.vertices:,} points")

    def _fault(self, text: str) -> InputError:
        return InputError(f"{self._path}: {text}; write the tractogram again")

    def _header_and_others(self, stored: Iterable[tuple[str, StoredMember]]) -> dict[tuple[str, ...], StoredMember]:
        """Return the header and what lies beside and below it, by the parts of their names from there on."""
        named: dict[tuple[str, ...], StoredMember] = {}
        for name, member in stored:
            parts = tuple(part for part in PurePosixPath(name.replace("\\", "/")).parts if part != ".")
            if parts in named:
                raise self._fault(f"has two members {'/'.join(parts)!r}")
            named[parts] = member
        headers = sorted((parts[:-1] for parts in named if parts[-1:] == (HEADER,)), key=len)
        if not headers:
            raise InputError(f"{self._path}: has no {HEADER}; give a tractogram in the TRX format")
        if sum(len(root) == len(headers[0]) for root in headers) > 1:
            raise InputError(f"{self._path}: has several {HEADER}; give one tractogram")
        root, depth = headers[0], len(headers[0])
        return {parts[depth:]: member for parts, member in named.items() if parts[:depth] == root}

    def _read_header(self, stored: StoredMember) -> None:
        with stored.open() as file:
            content = file.read(LONGEST_HEADER + 1)
        if len(content) > LONGEST_HEADER:
            raise self._fault(f"{HEADER} has more than {LONGEST_HEADER:,} bytes")
        header = json.loads(content)
        if not isinstance(header, dict) or (missing := {"VOXEL_TO_RASMM", "DIMENSIONS", *COUNTS} - header.keys()):
            raise self._fault(f"{HEADER} lacks {', '.join(sorted(missing)) if isinstance(header, dict) else 'fields'}")
        self.streamlines, self.vertices = (self._whole(name, header[name]) for name in COUNTS)
        sides = [self._whole("DIMENSIONS", side) for side in np.ravel(header["DIMENSIONS"]).tolist()]
        if len(sides) != 3 or not 1 <= min(sides) <= max(sides) <= LARGEST_SIDE:
            raise self._fault(f"{HEADER} has DIMENSIONS of {str(sides)[:60]}, not three from 1 to {LARGEST_SIDE}")
        affine = np.array(header["VOXEL_TO_RASMM"], np.float64)
        if affine.size != 16:
            raise self._fault(f"{HEADER} has a VOXEL_TO_RASMM of shape {affine.shape}, not (4, 4)")
        self.space = checked_grid(self._path, affine.reshape(4, 4), tuple(sides), sheared=True)

    def _whole(self, name: str, value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**53 or value % 1:
            raise self._fault(f"{HEADER} has {name} of {str(value)[:60]}, not a whole number from 0 on")
        return int(value)

    def _arrays(self, stored: dict[tuple[str, ...], StoredMember]) -> dict[str, Member]:
        """Return the members that are arrays of TRX by name; other files are of no concern."""
        members: dict[str, Member] = {}
        for parts, member in stored.items():
            name, (*folders, last) = "/".join(parts), parts
            stem, *sizes, kind = last.split(".") if "." in last else (last, "")
            array = folders[0] if folders else stem
            if DEPTHS.get(array) != len(parts) or last.startswith(".") or kind == "json":
                continue
            if kind not in KINDS[array]:
                raise self._fault(f"{name} has values of the type {kind!r}; {array} may have {', '.join(KINDS[array])}")
            columns = int(sizes.pop()) if sizes and sizes[-1].isdecimal() else 1
            if columns != {"positions": 3, "offsets": 1, "groups": 1}.get(array, columns) or not columns:
                raise self._fault(f"{name} says that it has {columns} columns, which {array} cannot have")
            key = "/".join((*folders, ".".join((stem, *sizes))))
            if key in members:
                raise self._fault(f"{members[key].name} and {name} are two members of one array")
            members[key] = Member(name, np.dtype(BYTE.get(kind, kind)).newbyteorder("<"), columns, member)
        return members

    def _check_sizes(self) -> None:
        """Raise an InputError if an array has fewer or more values than the header says."""
        needed = {"positions": self.vertices, "offsets": self.streamlines}
        for name in (name for name, count in needed.items() if count and name not in self.members):
            raise self._fault(f"has no {name}, but {HEADER} tells of {self.streamlines:,} streamlines")
        if self.vertices and not self.streamlines:
            raise self._fault(f"{HEADER} tells of {self.vertices:,} points, but of no streamline")
        needed |= {"dps": self.streamlines, "dpv": self.vertices}
        for name, member in self.members.items():
            rows, size = needed.get(name.split("/")[0]), member.stored.size
            whole = (rows or 0) * member.width
            # an empty array that was mapped has a byte; some programs add their end to the offsets
            sizes = {whole, whole or 1, whole + member.width * (name == "offsets")}
            if size % member.width if rows is None else size not in sizes:
                says = "" if rows is None else f", but {HEADER} tells of {rows:,} rows of {member.width}"
                raise self._fault(f"{member.name} has {size:,} bytes{says}")

    def _check_groups(self) -> None:
        for member in (member for name, member in self.members.items() if name.startswith("groups/")):
            read = member.reader()
            for first in range(0, member.count, ROWS_AT_ONCE):
                block = read(min(ROWS_AT_ONCE, member.count - first))
                if not 0 <= block.min() <= block.max() < self.streamlines:
                    raise self._fault(f"{member.name} has numbers beyond the {self.streamlines:,} streamlines")


@contextmanager
def open_trx(path: Path) -> Generator[Trx, None, None]:
    """Open a TRX file of any program, or its folder, and check it.

    Raises
    ------
    InputError
        If its members are not those of a TRX file, or do not fit each other. A file that is damaged in another way
        raises errors of zipfile, json and NumPy.
    """
    if path.is_dir():
        yield Trx(path, ((str(file.relative_to(path).as_posix()), _in_folder(file)) for file in files_of_trx(path)))
        return
    with zipfile.ZipFile(path) as archive:
        listed = [info for info in archive.infolist() if not info.is_dir()]
        for info in listed:
            if info.compress_type not in METHODS:
                raise InputError(f"{path}: {info.filename} is neither stored nor deflated; write it again as a .trx")
        yield Trx(path, ((info.filename, StoredMember(info.file_size, partial(archive.open, info))) for info in listed))


def files_of_trx(path: Path) -> list[Path]:
    """Return the files of a TRX file, of which a folder has several."""
    if not path.is_dir():
        return [path]
    depths = range(1, max(DEPTHS.values()) + 1)
    return [file for depth in depths for file in sorted(path.glob("/".join("*" * depth))) if file.is_file()]


def _in_folder(path: Path) -> StoredMember:
    return StoredMember(path.stat().st_size, lambda: os.fdopen(open_regular(path), "rb"))
