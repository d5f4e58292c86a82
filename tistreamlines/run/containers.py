"""Streamlines as nibabel's ArraySequence, DIPY's StatefulTractogram and trx-python's TrxFile."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..aliases import Array, Nifti1Image, StatefulTractogram
from ..io import trx as trx_format
from ..io.images import reading
from ..io.writer import WriterThread
from ..space.batch import PER_STREAMLINE, Batch, Space

if TYPE_CHECKING:
    from nibabel.streamlines.array_sequence import ArraySequence
    from trx.trx_file_memmap import TrxFile


def sequence(points: Array, lengths: npt.NDArray[np.int64]) -> ArraySequence:
    """Wrap points (p, 3) of streamlines of the given numbers of points, without a copy."""
    from nibabel.streamlines.array_sequence import ArraySequence

    wrapped = ArraySequence()
    wrapped._data = points
    wrapped._offsets = np.cumsum(lengths) - lengths
    wrapped._lengths = lengths
    return wrapped


def read_sequence(path: Path) -> ArraySequence:
    """Read the points of a tractogram that this package has written; those of a .trx file are mapped.

    Raises
    ------
    InputError
        If the file is damaged, or was written by another program that lays it out differently.
    """
    import nibabel as nib

    with reading(path):
        if path.suffix.lower() == ".trx":
            points, offsets = trx_format.map_points(path)
            return sequence(points, np.diff(offsets))
        return nib.streamlines.load(path).streamlines


def tractogram(batches: Iterable[Batch], reference: object) -> StatefulTractogram:
    """Gather batches in a StatefulTractogram in RASmm.

    Parameters
    ----------
    batches : iterable of Batch
    reference : str, nibabel image or header
        Any reference of a tractogram that DIPY accepts.
    """
    from dipy.io.stateful_tractogram import StatefulTractogram
    from dipy.io.utils import Space as Frame

    whole = Batch.concatenate(batches)
    if not len(whole):
        return StatefulTractogram([], reference, Frame.RASMM)
    data = {name: getattr(whole, name).reshape(len(whole), -1) for name in PER_STREAMLINE}
    data |= {name: values[:, None] for name, values in whole.data_per_streamline.items()}
    at_points = {name: sequence(values[:, None], whole.lengths) for name, values in whole.data_per_point.items()}
    return StatefulTractogram(
        sequence(whole.points, whole.lengths), reference, Frame.RASMM, data_per_streamline=data,
        data_per_point=at_points,
    )


def reference_image(space: Space) -> Nifti1Image:
    """Return a nibabel image without values on a grid, which DIPY takes as the reference of a tractogram."""
    import nibabel as nib

    return nib.Nifti1Image(np.broadcast_to(np.uint8(0), space.shape), space.affine)


def mapped_trx(
    batches: Iterable[Batch], space: Space, point_type: str, content: Callable[[Batch], Batch] | None
) -> TrxFile:
    """Write batches to a TRX file in a temporary folder and map it; closing the TrxFile removes the folder.

    Parameters
    ----------
    batches : all streamlines.
    space : grid of the image that was tracked.
    point_type : 'float16' or 'float32'.
    content : makes of each batch what is written of it.
    """
    from trx import trx_file_memmap

    folder = tempfile.TemporaryDirectory(prefix="tistreamlines-")
    try:
        path = Path(folder.name) / "tractogram.trx"
        with WriterThread(path, space, content=content, point_type=point_type) as writer:
            for batch in batches:
                writer.put(batch)
        trx: Any = trx_file_memmap.load(str(path))
        trx._uncompressed_folder_handle = folder
    except BaseException:
        folder.cleanup()
        raise
    return trx
