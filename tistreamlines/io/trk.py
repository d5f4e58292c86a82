"""TRK (TrackVis): one record per streamline, written one batch at a time.

nibabel writes one streamline at a time, which takes minutes for millions of them; only its header tools are used here.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..space.batch import Batch, Space

# Number of values per streamline for each field of a batch, sorted by name as in nibabel. All are float32 in the file,
# so a seed number is exact only below 2**24, about 16.8 million; TRX has no such limit.
PROPERTIES = {"direction_number": 1, "seed_number": 1, "seeds": 3, "stop_reasons": 2}
PROPERTY_WORDS = sum(PROPERTIES.values())
POINTS_AT_ONCE = 1 << 16


class TrkSink:
    """Appends batches to a TRK file."""

    STREAMLINE_BYTES: ClassVar[int] = 32  # number of points and properties

    def __init__(self, folder: Path, space: Space, files: ExitStack, step_mm: float | None = None) -> None:
        del step_mm  # the format has no field for it
        self._path = folder / "tractogram.trk"
        self._header, self._affine = _header(space)
        self._file = files.enter_context(self._path.open("wb"))
        self._file.write(self._header.tobytes())

    def append(self, batch: Batch) -> None:
        """Append the streamlines of a batch."""
        self._file.write(_pack(batch, self._affine).data)
        self._header["nb_streamlines"] += len(batch)

    def finish(self) -> Path:
        """Write the number of streamlines into the header; return the path."""
        if not self._header["nb_streamlines"]:  # nibabel cannot read properties if there is no streamline
            self._header["nb_properties_per_streamline"] = 0
            self._header["property_name"] = b""
        self._file.seek(0)
        self._file.write(self._header.tobytes())
        self._file.close()
        return self._path


def _header(space: Space) -> tuple[npt.NDArray[Any], npt.NDArray[np.float64]]:
    from nibabel.orientations import aff2axcodes
    from nibabel.streamlines.trk import encode_value_in_name, get_affine_trackvis_to_rasmm, header_2_dtype

    header: npt.NDArray[Any] = np.zeros((), header_2_dtype.newbyteorder("<"))
    header["magic_number"] = b"TRACK"
    header["version"] = 2
    header["hdr_size"] = header.dtype.itemsize
    header["dimensions"] = space.shape
    header["voxel_sizes"] = space.voxel_sizes
    header["voxel_to_rasmm"] = space.affine
    header["voxel_order"] = "".join(aff2axcodes(space.affine)).encode()
    header["nb_properties_per_streamline"] = PROPERTY_WORDS
    for i, (name, values) in enumerate(PROPERTIES.items()):
        header["property_name"][i] = encode_value_in_name(values, name)
    # The inverse of the float32 matrix that readers apply, which includes the shift from voxel centre to corner.
    to_trackvis = np.linalg.inv(get_affine_trackvis_to_rasmm(header).astype(np.float64))
    return header, to_trackvis


def _pack(batch: Batch, to_trackvis: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """Return the records (number of points, points, properties) of all streamlines as 32-bit words."""
    n = len(batch)
    words = np.empty(n * (1 + PROPERTY_WORDS) + batch.points.size, "<f4")
    starts = 3 * batch.offsets[:-1] + np.arange(n) * (1 + PROPERTY_WORDS)
    ends = starts + 1 + 3 * batch.lengths
    is_point = np.ones(len(words), bool)
    is_point[starts] = False
    words.view("<i4")[starts] = batch.lengths
    column = 0
    for name, values in PROPERTIES.items():
        for value in getattr(batch, name).reshape(n, values).T:
            is_point[ends + column] = False
            words[ends + column] = value
            column += 1
    words[is_point] = _moved(batch.points, to_trackvis).ravel()
    return words


def _moved(points: npt.NDArray[np.float32], affine: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    # One axis at a time is eight times faster than a matrix product with so narrow an array. Blocks stay in the cache.
    moved = np.empty_like(points)
    for first in range(0, len(points), POINTS_AT_ONCE):
        part = slice(first, first + POINTS_AT_ONCE)
        x, y, z = points[part].T.astype(np.float64, order="C")
        for axis, (a, b, c, d) in enumerate(affine[:3]):
            moved[part, axis] = a * x + b * y + c * z + d
    return moved
