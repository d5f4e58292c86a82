"""The report of a run: what its pictures show is taken from the tables, the engine and the streamlines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ..errors import DeviceError
from ..report.files import write_report
from ..report.gathered import Gathered
from ..report.page import Told
from ..report.views import Peaks, Scene
from ..tracking.engine.directions import fod_peaks, initial_directions
from ..tracking.engine.engine import Engine
from ..tracking.getters.fod import FodGetter
from ..tracking.tables.given import Prepared

if TYPE_CHECKING:
    from ..workers.several import Several

JOINED = "The directions of a slice are not drawn, since the streamlines of parts were joined without the series."


def report(
    page: Path, told: Told, gathered: Gathered, background: npt.NDArray[np.uint8] | None,
    engine: Engine | Several | None = None, prepared: Prepared | None = None, *, force: bool,
) -> None:
    """Write the report of a run.

    Parameters
    ----------
    page : name of the page.
    told : what is known of the run.
    gathered : what was kept of its streamlines.
    background : the mean b0, if there is one.
    engine, prepared : what has tracked, and its tables; None if streamlines were only read.
    force : replace existing files.
    """
    count = int(told.record["result"]["streamlines"])
    scene = Scene(gathered.space, gathered.density(), gathered.sample(), background, count)
    write_report(page, told, scene, JOINED if prepared is None else _peaks(engine, prepared, scene), force=force)


def _peaks(engine: Engine | Several | None, prepared: Prepared, scene: Scene) -> Peaks | str:
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
    return Peaks(places[numbers], directions, np.arange(len(numbers)) - first)
