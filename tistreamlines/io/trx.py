"""TRX: a ZIP archive of arrays, streamed to disk.

Each array is written to a file of its own and copied into the archive at the end, so that the disk briefly holds the
points twice. The size of each member is then known, and it gets a short ZIP header, as in trx-python; older releases
misread the long header of a member that is streamed into the archive.
"""

from __future__ import annotations

import json
import shutil
import zipfile
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from .tractogram import Batch, Space

# Member of the archive for each field of a batch; a number in the middle is the number of columns.
MEMBERS = {
    "points": "positions.3.float32",
    "seeds": "dps/seeds.3.float32",
    "seed_number": "dps/seed_number.uint32",
    "direction_number": "dps/direction_number.uint16",
    "stop_reasons": "dps/stop_reasons.2.uint8",
}
OFFSETS_AT_ONCE = 1 << 20
COPY_BYTES = 1 << 22


class TrxSink:
    """Appends batches to a TRX file."""

    def __init__(self, folder: Path, space: Space, files: ExitStack, step_mm: float | None = None) -> None:
        del step_mm  # the format has no field for it
        self._folder = folder
        self._space = space
        self._streamlines = 0
        self._vertices = 0
        (folder / "dps").mkdir()
        self._files = {field: files.enter_context((folder / member).open("wb")) for field, member in MEMBERS.items()}
        self._starts = files.enter_context((folder / "starts").open("wb"))

    def append(self, batch: Batch) -> None:
        """Append the streamlines of a batch."""
        for field, file in self._files.items():
            array = getattr(batch, field)
            file.write(array.astype(array.dtype.newbyteorder("<"), copy=False).data)
        self._starts.write((batch.offsets[:-1] + self._vertices).astype("<u8").data)
        self._streamlines += len(batch)
        self._vertices += len(batch.points)

    def finish(self) -> Path:
        """Build the archive from the files; return its path."""
        self._starts.write(np.array([self._vertices], "<u8").data)
        for file in (*self._files.values(), self._starts):
            file.close()
        archive = self._folder / "tractogram.trx"
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as target:
            target.writestr(zipfile.ZipInfo("header.json"), self._header())
            # trx-python stores an empty tractogram as a header only, and cannot map members of zero bytes.
            if self._streamlines:
                for member in (MEMBERS["points"], self._write_offsets(), *list(MEMBERS.values())[1:]):
                    _store(target, self._folder / member, member)
        return archive

    def _header(self) -> str:
        return json.dumps(
            {
                "DIMENSIONS": list(self._space.shape),
                "VOXEL_TO_RASMM": self._space.affine.tolist(),
                "NB_VERTICES": self._vertices,
                "NB_STREAMLINES": self._streamlines,
            }
        )

    def _write_offsets(self) -> str:
        # n starts and the total number of points; only now is it known whether 32 bits are enough.
        member = "offsets.uint32" if self._vertices < 1 << 32 else "offsets.uint64"
        dtype = "<u4" if member.endswith("32") else "<u8"
        with (self._folder / "starts").open("rb") as source, (self._folder / member).open("wb") as target:
            while len(starts := np.fromfile(source, "<u8", OFFSETS_AT_ONCE)):
                target.write(starts.astype(dtype).data)
        return member


def _store(archive: zipfile.ZipFile, path: Path, member: str) -> None:
    # With ZipInfo's default date, 1980, equal tractograms give equal files.
    entry = zipfile.ZipInfo(member)
    entry.file_size = path.stat().st_size
    entry.external_attr = 0o644 << 16
    with path.open("rb") as source, archive.open(entry, "w") as target:
        shutil.copyfileobj(source, target, COPY_BYTES)
    path.unlink()
