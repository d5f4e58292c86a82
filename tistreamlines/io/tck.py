"""TCK (MRtrix3): only points, with a row of NaN after each streamline and a row of infinity at the end.

Values of maps along the streamlines are written to a table beside it, with a row for each streamline.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TextIO

import numpy as np

from ..space.batch import Batch, Space
from .tabular import write_rows
from .trx import Details, crc32

if TYPE_CHECKING:
    from typing_extensions import Unpack

ROW = np.dtype("V12")
HEADER_BYTES = 1024  # room of the header, whose counts are known at the end; the points begin after it
TABLE = "_samples.csv"  # what its name ends with, in place of .tck


class TckSink:
    """Appends the points of batches to a TCK file; the format has no data per streamline, which get a file beside it.

    The header has the fields of MRtrix3's ``tckgen``: the step size, with which ``tckmap`` resamples streamlines, what
    else is known of the run, and a timestamp. MRtrix3's programs compare the timestamps of a tractogram and of a file
    of values at its points (.tsf), to see whether they belong together; they do not read a time from them. So that
    equal runs write equal bytes, it is not the time, but a checksum of the points, as a number below 1.

    Parameters
    ----------
    folder, files : where the file is written, and what closes it.
    space : not needed: TCK is in RASmm and has no grid.
    **details : see :class:`.trx.Details`.
    """

    STREAMLINE_BYTES: ClassVar[int] = 12  # a row of NaN

    def __init__(self, folder: Path, space: Space, files: ExitStack, **details: Unpack[Details]) -> None:
        self.beside: Path | None = None
        self._rows: TextIO | None = None
        self._folder, self._opened, self._details = folder, files, details
        self._path = folder / "tractogram.tck"
        self._streamlines = self._crc = 0
        self._file = files.enter_context(self._path.open("wb"))
        self._file.seek(HEADER_BYTES)

    def append(self, batch: Batch) -> None:
        """Append the streamlines of a batch."""
        # NumPy moves a row in one piece, three times as fast as its numbers, if it does not know what is in it.
        points = batch.points.astype("<f4", copy=False).view(ROW)[:, 0]
        ends = batch.offsets[1:] + np.arange(len(batch))
        rows = np.empty(len(points) + len(batch), ROW)
        is_point = np.ones(len(rows), bool)
        is_point[ends] = False
        rows[is_point] = points
        rows[ends] = np.full(3, np.nan, "<f4").view(ROW)
        self._crc = crc32(rows.data, self._crc)
        self._file.write(rows.data)
        self._streamlines += len(batch)
        if not batch.data_per_streamline:
            return
        if heading := self._rows is None:
            self.beside = self._folder / "samples.csv"
            self._rows = self._opened.enter_context(self.beside.open("w", encoding="ascii", newline="\n"))
        write_rows(self._rows, batch.data_per_streamline, heading=heading)

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
