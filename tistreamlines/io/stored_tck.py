"""Reading of TCK files (MRtrix3) of any program."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..space.batch import MOST_POINTS
from .mrtrix_header import read_header

MAGIC = b"mrtrix tracks"
KINDS = {"float32le": "<f4", "float32be": ">f4", "float64le": "<f8", "float64be": ">f8"}
LONGEST_STEP_MM = 10.0  # with which a program tracks
MISSING = {"datatype": "Float32LE is taken", "file": "the points are taken to begin behind END"}


@dataclass(frozen=True)
class TckHeader:
    """What a TCK file says of itself.

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
        What it lacks, and what is taken in its place.
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
    kind = KINDS.get(header.one("datatype").lower() if "datatype" in header.lines else "float32le")
    if kind is None:
        raise header.fault(f"datatype is {header.one('datatype')[:60]!r}, which is none of {', '.join(KINDS)}")
    words = header.one("file").split() if "file" in header.lines else [".", str(header.end)]
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
            with np.errstate(over="ignore"):  # what is not finite is told of
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
