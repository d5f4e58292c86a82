"""The reports of a run and of a tractogram: pictures of the tables, of the devices and of the streamlines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ..aliases import Json
from ..errors import DeviceError
from ..io.picture import grey
from ..report.page import RunFacts
from ..report.scene import ReportScene, SlicePeaks, StreamlineSample
from ..report.views import write_report
from ..space.batch import Batch, of_each
from ..tracking.engine.directions import fod_peaks, initial_directions
from ..tracking.engine.engine import Engine
from ..tracking.getters.fod import FodGetter
from ..tracking.products.density.kinds import norms, segments
from ..tracking.products.grid import Extent
from ..tracking.tables.inputs import KernelTables
from ..viewer.scene import opened_image
from .saving import Receiver

if TYPE_CHECKING:
    from ..option import ImageLike
    from ..workers.several import Several

RESOLUTION_MM = 0.1  # of the histogram of lengths of a tractogram that is there
JOINED = "The directions of a slice are not drawn, since the streamlines of parts were joined without the series."


def report(
    receiver: Receiver, output: Path | None, record: Json, notes: Sequence[str] = (),
    background: npt.NDArray[np.uint8] | None = None, engine: Engine | Several | None = None,
    prepared: KernelTables | None = None,
) -> None:
    """Write the report of a run that asks for one.

    Parameters
    ----------
    receiver : of its streamlines.
    output : its tractogram, if it has written one.
    record : its record.
    notes : choices that were made for the user.
    background : the mean b0, if there is one.
    engine, prepared : what has tracked, and its tables; None if streamlines were only read.
    """
    gathered, page = receiver.gathered, receiver.parameters.report
    assert gathered is not None and page is not None
    path = None if output is None else str(output)
    facts = RunFacts(record, path, receiver.counts.histogram, notes, receiver.products.values)
    scene = gathered.scene(background)
    directions = JOINED if prepared is None else _peaks(engine, prepared, scene)
    write_report(Path(page), facts, scene, directions, force=receiver.force)


def _peaks(engine: Engine | Several | None, prepared: KernelTables, scene: ReportScene) -> SlicePeaks | str:
    """Return the directions in the axial slice of the scene, in the voxels that the tables have, or why not."""
    known = prepared.arrays["volume_index"].reshape(scene.space.shape) > 0
    voxels = np.argwhere(scene.frame.volume(known)[:, :, scene.slices[2]])
    places = scene.frame.voxels(np.column_stack([voxels, np.full(len(voxels), scene.slices[2])]))
    try:
        if isinstance(prepared.getter, FodGetter):  # tckgen's algorithms start in a random direction
            numbers, directions = fod_peaks(prepared, places)
        elif isinstance(engine, Engine):
            numbers, directions = initial_directions(engine, places)
        else:
            assert engine is not None
            numbers, directions = engine.initial_directions(places)
    except DeviceError as error:  # the streamlines are there, so the page is written all the same
        return f"The directions of a slice are not drawn: {error.on_command_line}."
    if not len(numbers):
        return "The directions of a slice are not drawn: the slice has none."
    first = np.searchsorted(numbers, numbers)  # the greatest one comes first
    return SlicePeaks(places[numbers], directions, np.arange(len(numbers)) - first)


class Shown:
    """Collects the streamlines of an existing tractogram for a report, as batches pass.

    Parameters
    ----------
    extent : of all streamlines.
    step_mm : the longest distance between two points of a streamline, mm.
    image : what lies behind them, and whose grid the density has; None for cubes around them, and the density.
    threads : how many threads count; None for as many as help.

    Raises
    ------
    InputError
        If the image is missing or damaged.
    """

    def __init__(self, extent: Extent, step_mm: float, image: ImageLike | None, threads: int | None) -> None:
        if image is None:
            space, self._background, self._behind = extent.grid(), None, "the density"
        else:
            self._behind, space, values = opened_image(image)
            self._background = grey(values)
        self._gathered = StreamlineSample(space, step_mm, threads)
        self._lengths: list[npt.NDArray[np.float32]] = []
        self._points = 0

    def add(self, batch: Batch) -> None:
        """Take the streamlines of a batch into account."""
        self._gathered.add(batch)
        lengths = of_each(np.add, norms(segments(batch.points, batch.offsets)), batch.offsets)
        self._lengths.append(lengths.astype(np.float32))
        self._points += len(batch.points)

    def write(self, page: Path, record: Json, products: Mapping[str, object], *, force: bool) -> None:
        """Write the report.

        Parameters
        ----------
        page : name of the page; the other files lie beside it.
        record : what was made of which files.
        products : what was made, by the name of the product.
        force : replace existing files.
        """
        lengths = np.concatenate([np.zeros(0, np.float32), *self._lengths])
        count = len(lengths)
        result = {
            "streamlines": count, "points": self._points, "mean_points": self._points / max(count, 1),
            "mean_mm": float(lengths.mean(dtype=float)) if count else 0.0,
            "median_mm": float(np.median(lengths)) if count else 0.0,
        }
        # lengths are as of streamlines with so short a step
        histogram = np.bincount((lengths / RESOLUTION_MM).astype(np.int64) + 1, minlength=1)
        facts = RunFacts({**record, "result": result, "step_mm": RESOLUTION_MM}, None, histogram, (), products)
        write_report(page, facts, self._gathered.scene(self._background, self._behind), "", force=force)
