"""TCK (MRtrix3): only points, with a row of NaN after each streamline and a row of infinity at the end.

Files of any program are read. Values of maps along the streamlines are written to a table beside the file, with a row
for each streamline.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple, TextIO

import numpy as np
import numpy.typing as npt

from ..aliases import Array
from ..errors import InputError
from ..space.batch import MOST_POINTS, Batch, Space
from .blocks import SpareMemory
from .checksums import crc32, join_crc32
from .mrtrix_header import read_header
from .tables import write_rows
from .trx import Details

ROW = np.dtype("V12")
HEADER_BYTES = 1024  # room of the header, whose counts are known at the end; the points begin after it
TABLE = "_samples.csv"  # what its name ends with, instead of .tck
MAGIC = b"mrtrix tracks"
KINDS = {"float32le": "<f4", "float32be": ">f4", "float64le": "<f8", "float64be": ">f8"}
LONGEST_STEP_MM = 10.0  # with which a program tracks
MISSING = {"datatype": "Float32LE is taken", "file": "the points are taken to begin behind END"}


class TckBlock(NamedTuple):
    """Bytes of a batch: points with rows of NaN, and their checksum; and the values that are sampled along it."""

    rows: Array
    crc: int
    streamlines: int
    sampled: Mapping[str, Array]


class TckSink:
    """Appends the points of batches to a TCK file; the format has no data per streamline, which get a file beside it.

    The header has the fields of MRtrix3's ``tckgen``: the step size, with which ``tckmap`` resamples streamlines, other
    facts of the run, and a timestamp. MRtrix3's programs compare the timestamps of a tractogram and of a file
    of values at its points (.tsf), to see whether they belong together; they do not read a time from them. So that
    equal runs write equal bytes, it is not the time, but a checksum of the points, as a number below 1.

    Parameters
    ----------
    folder, files : where the file is written, and what closes it.
    space : not needed: TCK is in RASmm and has no grid.
    details : what the format may keep besides.
    """

    STREAMLINE_BYTES: ClassVar[int] = 12  # a row of NaN

    def __init__(self, folder: Path, space: Space, files: ExitStack, details: Details) -> None:
        self.beside: Path | None = None
        self._rows: TextIO | None = None
        self._folder, self._opened, self._details = folder, files, details
        self._path = folder / "tractogram.tck"
        self._streamlines = self._crc = 0
        self._memory = SpareMemory()
        self._file = files.enter_context(self._path.open("wb"))
        self._file.seek(HEADER_BYTES)

    def lay_out(self, batch: Batch) -> TckBlock:
        """Return a batch as it is in the file."""
        # NumPy moves a row in one piece, three times as fast as its numbers, if it does not know what is in it.
        points = batch.points.astype("<f4", copy=False).view(ROW)[:, 0]
        ends = batch.offsets[1:] + np.arange(len(batch))
        rows = self._memory.take(len(points) + len(batch), ROW)
        is_point = np.ones(len(rows), bool)
        is_point[ends] = False
        rows[is_point] = points
        rows[ends] = np.full(3, np.nan, "<f4").view(ROW)
        return TckBlock(rows, crc32(rows.data), len(batch), batch.data_per_streamline)

    def append(self, block: TckBlock) -> None:
        """Append the bytes of a batch."""
        self._file.write(block.rows.data)
        self._crc = join_crc32(self._crc, block.crc, block.rows.nbytes)
        self._memory.give_back(block.rows)
        self._streamlines += block.streamlines
        if not block.sampled:
            return
        if heading := self._rows is None:
            self.beside = self._folder / "samples.csv"
            self._rows = self._opened.enter_context(self.beside.open("w", encoding="ascii", newline="\n"))
        write_rows(self._rows, block.sampled, heading=heading)

    def finish(self) -> Path:
        """Write the end marker and the header; return the path."""
        self._file.write(np.full(3, np.inf, "<f4").data)
        self._file.seek(0)
        self._file.write(self._header())
        self._file.close()
        if self._rows is not None:
            self._rows.close()
        return self._path

    def _header(self) -> bytes:
        step_mm = self._details.get("step_mm")
        fields = {**self._details.get("fields", dict)(), **({} if step_mm is None else {"step_size": step_mm})}
        fields |= {"timestamp": f"0.{self._crc:010}", "count": self._streamlines}
        fields |= {"datatype": "Float32LE", "file": f". {HEADER_BYTES}"}
        lines = (f"{name}: {f'{value:.9g}' if isinstance(value, float) else value}" for name, value in fields.items())
        return "\n".join(("mrtrix tracks", *lines, "END\n")).encode().ljust(HEADER_BYTES, b"\n")


@dataclass(frozen=True)
class TckHeader:
    """The header of a TCK file.

    Parameters
    ----------
    path : Path
    kind : numpy.dtype
        Of the numbers.
    start : int
        Byte at which they begin.
    step_mm : float or None
        Distance of the points of a streamline, mm, if the header has one with which a program tracks.
    doubts : tuple of str
        The missing values and their replacements.
    """

    path: Path
    kind: np.dtype
    start: int
    step_mm: float | None
    doubts: tuple[str, ...]


def header_of_tck(path: Path) -> TckHeader:
    """Read the header of a TCK file.

    Raises
    ------
    InputError
        If it is none, or says what cannot be.
    """
    header = read_header(path, MAGIC)
    doubts = tuple(f"{path}: its header has no {key}: {taken}" for key, taken in MISSING.items()
                   if key not in header.lines)
    kind = KINDS.get(header.value("datatype").lower() if "datatype" in header.lines else "float32le")
    if kind is None:
        raise header.fault(f"datatype is {header.value('datatype')[:60]!r}, which is none of {', '.join(KINDS)}")
    words = header.value("file").split() if "file" in header.lines else [".", str(header.end)]
    if len(words) != 2 or words[0] != "." or not words[1].isdecimal() or not header.size <= int(words[1][:18]):
        raise header.fault(f"file is {' '.join(words)[:60]!r}, where '.' and the place of the first point are needed")
    return TckHeader(path, np.dtype(kind), int(words[1]), _step(header.lines), doubts)


def _step(lines: dict[str, list[str]]) -> float | None:
    # tckgen before 3.0 wrote the distance as output_step_size where it left points out; tcksift2 reads the other
    for name in ("output_step_size", "step_size"):
        with suppress(KeyError, ValueError):
            (word,) = lines[name]
            if 0 < (step := float(word)) <= LONGEST_STEP_MM:
                return step
    return None


def streamlines_of_tck(
    header: TckHeader, at_once: int
) -> Generator[tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]], None, None]:
    """Read rows of three numbers, of which one of NaN ends a streamline, and one of infinity the file.

    Yields
    ------
    points : (p, 3) float32, RASmm
    lengths : (n,) int64
        How many points each streamline has.

    Raises
    ------
    InputError
        If the file ends without its mark, or has a streamline that does not end.
    """
    held: list[npt.NDArray[np.float32]] = []  # blocks of a streamline that goes on
    with header.path.open("rb") as file:
        file.seek(header.start)
        while len(values := np.fromfile(file, header.kind, 3 * at_once)):
            with np.errstate(over="ignore"):  # a warning names values that are not finite
                rows = values.astype(np.float32, copy=False).reshape(-1, 3)
            missing = np.isnan(rows)
            ending = missing[:, 0] & missing[:, 1] & missing[:, 2]
            if len(ends := np.flatnonzero(ending)):
                before, past = sum(map(len, held)), int(ends[-1]) + 1
                points = rows.take(np.flatnonzero(~ending[:past]), axis=0)  # faster than by the mask
                lengths = np.diff(ends, prepend=-1) - 1
                lengths[0] += before
                yield np.concatenate([*held, points]) if held else points, lengths
                held, rows = [], rows[past:]
            held.append(rows)
            if sum(map(len, held)) > MOST_POINTS:
                raise InputError(f"{header.path}: has a streamline of more than {MOST_POINTS:,} points; it is damaged, "
                                 "copy or create it again")
    last = np.concatenate([np.empty((0, 3), np.float32), *held])
    if not (len(last) == 1 and np.isinf(last).all()):
        raise ValueError("it has no mark of its end")
