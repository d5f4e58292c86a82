"""TCK (MRtrix3): only points, with a row of NaN after each streamline and a row of infinity at the end."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import ClassVar

import numpy as np

from ..space.batch import Batch, Space

ROW = np.dtype("V12")
HEADER_BYTES = 128  # size of the header below; the points begin after it
HEADER = "mrtrix tracks\n{step}count: {count:010}\ndatatype: Float32LE\nfile: . {start}\nEND\n"


class TckSink:
    """Appends the points of batches to a TCK file; the format has no data per streamline.

    The header contains the step size, which MRtrix3's ``tckmap`` uses to resample streamlines.
    """

    STREAMLINE_BYTES: ClassVar[int] = 12  # a row of NaN

    def __init__(self, folder: Path, space: Space, files: ExitStack, step_mm: float | None = None) -> None:
        del space  # TCK is in RASmm and has no grid
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
