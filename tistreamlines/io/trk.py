"""TRK (TrackVis): one record per streamline, written one batch at a time.

nibabel writes one streamline at a time, which takes minutes for millions of them; only its header tools are used here.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ..aliases import Array, Unpack
from ..space.batch import Batch, Space
from .trx import Details

# Number of values per streamline for each field of a batch, sorted by name as in nibabel. All are float32 in the file,
# so a seed number is exact only below 2**24, about 16.8 million; TRX has no such limit.
PROPERTIES = {"direction_number": 1, "seed_number": 1, "seeds": 3, "stop_reasons": 2}
MOST_NAMES, NAME_CHARACTERS = 10, 20  # names of values per streamline, or per point, and of a name of one value
POINTS_AT_ONCE = 1 << 16


class TrkSink:
    """Appends batches to a TRK file."""

    STREAMLINE_BYTES: ClassVar[int] = 32  # number of points and properties
    beside: Path | None = None

    def __init__(self, folder: Path, space: Space, files: ExitStack, **_: Unpack[Details]) -> None:
        self._path = folder / "tractogram.trk"
        self._header, self._affine = _header(space)
        self._file = files.enter_context(self._path.open("wb"))
        self._file.write(self._header.tobytes())

    def append(self, batch: Batch) -> None:
        """Append the streamlines of a batch."""
        if not self._header["nb_streamlines"]:
            self._name(batch)
        self._file.write(_pack(batch, self._affine).data)
        self._header["nb_streamlines"] += len(batch)

    def _name(self, batch: Batch) -> None:
        """Name the values per streamline and per point, which are those of every batch."""
        from nibabel.streamlines.trk import encode_value_in_name

        properties = PROPERTIES | dict.fromkeys(batch.data_per_streamline, 1)
        self._header["nb_properties_per_streamline"] = sum(properties.values())
        for i, (name, values) in enumerate(properties.items()):
            self._header["property_name"][i] = encode_value_in_name(values, name)
        self._header["nb_scalars_per_point"] = len(batch.data_per_point)
        for i, name in enumerate(batch.data_per_point):
            self._header["scalar_name"][i] = encode_value_in_name(1, name)

    def finish(self) -> Path:
        """Write the header, with the number of streamlines; return the path."""
        self._file.seek(0)
        self._file.write(self._header.tobytes())
        self._file.close()
        return self._path


def _header(space: Space) -> tuple[Array, npt.NDArray[np.float64]]:
    from nibabel.orientations import aff2axcodes
    from nibabel.streamlines.trk import get_affine_trackvis_to_rasmm, header_2_dtype

    header: Array = np.zeros((), header_2_dtype.newbyteorder("<"))
    header["magic_number"] = b"TRACK"
    header["version"] = 2
    header["hdr_size"] = header.dtype.itemsize
    header["dimensions"] = space.shape
    header["voxel_sizes"] = space.voxel_sizes
    header["voxel_to_rasmm"] = space.affine
    header["voxel_order"] = "".join(aff2axcodes(space.affine)).encode()
    # The inverse of the float32 matrix that readers apply, which includes the shift from voxel centre to corner.
    to_trackvis = np.linalg.inv(get_affine_trackvis_to_rasmm(header).astype(np.float64))
    return header, to_trackvis


def _pack(batch: Batch, to_trackvis: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """Return the records of all streamlines as 32-bit words: number of points, points with their values, properties."""
    n = len(batch)
    properties = [column for name, values in PROPERTIES.items() for column in getattr(batch, name).reshape(n, values).T]
    properties += batch.data_per_streamline.values()
    points = moved(batch.points, to_trackvis)
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


def moved(points: npt.NDArray[np.float32], affine: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """Return points (p, 3) in the space that an affine (4, 4) leads to; it is computed in float64."""
    # One axis at a time is eight times faster than a matrix product with so narrow an array. Blocks stay in the cache.
    moved = np.empty_like(points)
    for first in range(0, len(points), POINTS_AT_ONCE):
        part = slice(first, first + POINTS_AT_ONCE)
        x, y, z = points[part].T.astype(np.float64, order="C")
        for axis, (a, b, c, d) in enumerate(affine[:3]):
            moved[part, axis] = a * x + b * y + c * z + d
    return moved
