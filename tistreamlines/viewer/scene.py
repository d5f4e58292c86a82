"""The contents of a page or a widget: an even sample of streamlines, the density of all, and an image."""

from __future__ import annotations

import gzip
import math
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from ..aliases import Array
from ..errors import InputError
from ..io.images import grid_of, open_image, read_array
from ..io.tck import TckSink
from ..io.tractograms import batch_of
from ..option import ImageLike
from ..space.batch import Batch, Space
from ..tracking.products.density.density import Density
from ..tracking.products.grid import MOST_SIDE, MOST_VOXELS, Extent
from ..tracking.products.points.compression import compress_batch
from .extras import ExtraMaker, Extras

BRIGHTEST = 99.5  # percentile of the voxels with streamlines that has the brightest colour
GZIP_LEVEL = 4
MOST_STREAMLINES = 20_000
MOST_POINTS = 500_000  # NiiVue's tubes take about 280 bytes of the browser's memory for each
TOLERANCE_MM, SEGMENT_MM = 0.1, 10.0  # a point that is left out was this near to the line, whose pieces are no longer
VALUED_MM = 3.0  # length of the pieces if values at points are shown, which change along a straight line


class Sample:
    """Keeps every streamline, then every 2nd, 4th, 8th ... one, so that the bounds are never exceeded.

    Parameters
    ----------
    most_streamlines, most_points : int
        The bounds.
    segment_mm : float, optional
        Leave out points on an almost straight line between others, which is no longer, and in the end streamlines of
        one point, which cannot be drawn; by default, all stay.
    extend : callable
        Is called with the streamlines that are chosen, before points are left out, and returns them.

    Attributes
    ----------
    every : int
        Of the streamlines so far, each ``every``-th one is in the sample, the first one included.
    total : int
        Number of streamlines so far.
    """

    def __init__(
        self, most_streamlines: int, most_points: float = math.inf, *, segment_mm: float | None = None,
        extend: Callable[[Batch], Batch] = lambda batch: batch,
    ) -> None:
        self.every, self.total = 1, 0
        self._most, self._segment_mm, self._extend = (most_streamlines, most_points), segment_mm, extend
        self._kept, self._held = list[Batch](), (0, 0)  # and how many streamlines and points these have

    def add(self, batch: Batch) -> None:
        """Take what the sample needs of a batch, which is read once."""
        chosen = self._extend(batch[-self.total % self.every :: self.every])
        self.total += len(batch)
        self._keep(chosen if self._segment_mm is None else compress_batch(chosen, TOLERANCE_MM, self._segment_mm))
        while self._held[0] > self._most[0] or self._held[1] > self._most[1]:
            half = Batch.concatenate(self._kept)[::2]
            self._kept, self._held, self.every = [], (0, 0), 2 * self.every
            self._keep(half)

    def _keep(self, batch: Batch) -> None:
        self._kept.append(batch)
        self._held = self._held[0] + len(batch), self._held[1] + len(batch.points)

    def batch(self) -> Batch:
        """Return the sample."""
        whole = Batch.concatenate(self._kept)
        return whole if self._segment_mm is None else whole[whole.lengths > 1]


@dataclass(frozen=True)
class Scene:
    """Files in memory, and what is said of them.

    Parameters
    ----------
    title : str
        Name of the tractogram.
    streamlines : bytes
        The sample, as a TCK file, before it a streamline without points.
    density : bytes
        How many streamlines pass through each voxel, as a compressed NIfTI file.
    image : bytes or None
        The image, as a compressed NIfTI file.
    image_name : str
        Its name.
    shown, total : int
        Number of streamlines in the sample, and of all.
    every : int
        One streamline in so many is in the sample.
    brightest : float
        Streamlines in a voxel of the brightest colour.
    extras : Extras
        Values, groups and nodes of the streamlines.
    """

    title: str
    streamlines: bytes
    density: bytes
    image: bytes | None
    image_name: str
    shown: int
    total: int
    every: int
    brightest: float
    extras: Extras = Extras()


def scene_of(
    title: str, batches: Callable[[], Iterable[Batch]], image: ImageLike | None = None,
    extras: ExtraMaker | None = None, points: Callable[[], Iterable[Batch]] | None = None,
) -> Scene:
    """Make the scene of a tractogram, which is read twice: for the sample and its extent, and for the density.

    Parameters
    ----------
    title : str
        Name of the tractogram, which messages begin with.
    batches : callable
        Returns all streamlines in batches, each time from the start.
    image : str, Path or nibabel image, optional
        Image over which the streamlines lie; of a series, the first volume. Its grid is that of the density.
    extras : ExtraMaker, optional
        Makes the values, groups and nodes.
    points : callable, optional
        Returns the same streamlines for the density, which needs no values; by default, ``batches`` does.

    Raises
    ------
    InputError
        If there is no streamline of several points, if a file is damaged, if the image has no grid for a map, or if
        values, groups or nodes do not belong to the streamlines.
    """
    opened, maker = None if image is None else opened_image(image), extras or ExtraMaker(title)
    sample, extent = _read(title, batches(), maker)
    space = extent.grid() if opened is None else opened[1]
    drawn = sample.batch()
    if not len(drawn):
        raise InputError(f"{title}: has no streamline of several points; there is nothing to show")
    shown, density = maker.of(drawn, sample.total), Density(space, extent.step_mm)
    for batch in (points or batches)():
        density.add(batch)
    counts = density.counts()
    passed = counts[counts > 0]
    return Scene(
        title, tck_of(drawn, space), nifti_of(counts, space), None if opened is None else nifti_of(opened[2], space),
        "" if opened is None else opened[0], len(drawn), sample.total, sample.every,
        float(np.percentile(passed, BRIGHTEST)) if len(passed) else 1.0, shown,
    )


def _read(title: str, batches: Iterable[Batch], maker: ExtraMaker) -> tuple[Sample, Extent]:
    """Return an even sample of the streamlines, whose seed numbers are rows of the file, and the extent of all."""
    sample, extent, first = None, Extent(), 0
    for batch in batches:
        valued = maker.samples or bool(batch.data_per_point)
        sample = sample or Sample(
            MOST_STREAMLINES, MOST_POINTS, segment_mm=VALUED_MM if valued else SEGMENT_MM, extend=maker.extend
        )
        rows = np.arange(first, first + len(batch), dtype=np.uint32)
        numbered = replace(batch, seed_number=rows)
        maker.add(batch if batch.seed_number.any() else numbered)
        sample.add(numbered)
        extent.add(batch)
        first += len(batch)
    if sample is None or not sample.total:
        raise InputError(f"{title}: has no streamlines; there is nothing to show")
    return sample, extent


def opened_image(image: ImageLike) -> tuple[str, Space, Array]:
    """Return the name, the grid and the values (x, y, z) of an image; NaN and infinite values become 0."""
    from ..io.in_memory import source_of

    path, opened = open_image(source_of("image", image))
    if len(opened.shape) < 3:
        raise InputError(f"{path}: has {len(opened.shape)} axes; give an image of three")
    space = grid_of(path, opened, sheared=True)
    if np.prod(space.shape, dtype=float) > MOST_VOXELS or max(space.shape) > MOST_SIDE:
        raise InputError(f"{path}: has {' x '.join(map(str, space.shape))} voxels, too many for a page; resample it")
    values = read_array(path, opened)
    values = values.reshape(*values.shape[:3], -1)[..., 0]
    return path.name, space, np.nan_to_num(values.astype(np.float32), nan=0, posinf=0, neginf=0)


def tck_of(batch: Batch, space: Space) -> bytes:
    """Return points as a TCK file, before them a streamline without points: NiiVue loses the first streamline."""
    whole = batch_of(batch.points, np.insert(batch.lengths, 0, 0))
    with TemporaryDirectory(prefix="tistreamlines-") as folder, ExitStack() as files:
        sink = TckSink(Path(folder), space, files, {})
        sink.append(sink.lay_out(whole))
        return sink.finish().read_bytes()


def nifti_of(values: Array, space: Space) -> bytes:
    """Return a map as a compressed NIfTI file."""
    import nibabel as nib

    # viewers show counts beyond float32's 24 bits as well as any, and know no integers of 64
    image = nib.Nifti1Image(values.astype(np.float32), space.affine)
    return gzip.compress(image.to_bytes(), GZIP_LEVEL, mtime=0)
