"""TCK (MRtrix3): only points, with a row of NaN after each streamline and a row of infinity at the end.

Values of maps along the streamlines are written to a table beside it, with a row for each streamline.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import ClassVar

import numpy as np

from ..space.batch import Batch, Space
from .tabular import Table

ROW = np.dtype("V12")
HEADER_BYTES = 128  # size of the header below; the points begin after it
TABLE = "_samples.csv"  # what its name ends with, in place of .tck
HEADER = "mrtrix tracks\n{step}count: {count:010}\ndatatype: Float32LE\nfile: . {start}\nEND\n"


class TckSink:
    """Appends the points of batches to a TCK file; the format has no data per streamline, which get a file beside it.

    The header contains the step size, which MRtrix3's ``tckmap`` uses to resample streamlines.
    """

    STREAMLINE_BYTES: ClassVar[int] = 12  # a row of NaN

    def __init__(
        self, folder: Path, space: Space, files: ExitStack, step_mm: float | None = None, point_type: str = "float32"
    ) -> None:
        del space, point_type  # TCK is in RASmm and has no grid, and one type
        self.beside: Path | None = None
        self._opened, self._table = files, folder / "samples.csv"
        self._rows: Table | None = None
        self._step = "" if step_mm is None else f"step_size: {step_mm:.9g}\n"
        self._path = folder / "tractogram.tck"
        self._streamlines = 0
        self._file = files.enter_context(self._path.open("wb"))
        self._file.write(self._header())

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
        self._file.write(rows.data)
        self._streamlines += len(batch)
        if batch.data_per_streamline:
            self._tabulate(batch)

    def _tabulate(self, batch: Batch) -> None:
        """Append a row of values for each streamline to the table."""
        if self._rows is None:
            self._rows = Table(self._opened.enter_context(self._table.open("w", encoding="ascii", newline="\n")))
            self.beside = self._table
        self._rows.append(batch.data_per_streamline)

    def finish(self) -> Path:
        """Write the end marker, and the number of streamlines into the header; return the path."""
        self._file.write(np.full(3, np.inf, "<f4").data)
        self._file.seek(0)
        self._file.write(self._header())
        self._file.close()
        return self._path

    def _header(self) -> bytes:
        text = HEADER.format(step=self._step, count=self._streamlines, start=HEADER_BYTES)
        return text.encode().ljust(HEADER_BYTES, b"\n")
