"""The report of a run: what its pictures show is taken from the tables, the engine and the streamlines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..report.files import write_report
from ..report.gathered import Gathered
from ..report.page import Told
from ..report.views import Peaks, Scene
from ..tracking.engine.directions import initial_directions
from ..tracking.engine.engine import Engine

JOINED = "The directions of a slice are not drawn, since the streamlines of parts were joined without the series."
ELSEWHERE = (
    "The directions of a slice are not drawn, since processes of their own have tracked (--devices, or --resume on a "
    "GPU). A short run on one device draws them."
)


def report(
    page: Path, told: Told, gathered: Gathered, background: npt.NDArray[np.uint8] | None, engine: Any, *, force: bool
) -> None:
    """Write the report of a run.

    Parameters
    ----------
    page : name of the page.
    told : what is known of the run.
    gathered : what was kept of its streamlines.
    background : the mean b0, if there is one.
    engine : what has tracked; None if streamlines were only read.
    force : replace existing files.
    """
    count = int(told.record["result"]["streamlines"])
    scene = Scene(gathered.space, gathered.density(), gathered.sample(), background, count)
    write_report(page, told, scene, _peaks(engine, scene), force=force)


def _peaks(engine: Any, scene: Scene) -> Peaks | str:
    """Return the directions in the axial slice of the scene, in the voxels that the tables have, or why not."""
    if not isinstance(engine, Engine):
        return JOINED if engine is None else ELSEWHERE
    known = engine.growth.prepared.arrays["volume_index"].reshape(scene.space.shape) > 0
    voxels = np.argwhere(scene.frame.volume(known)[:, :, scene.slices[2]])
    places = scene.frame.voxels(np.column_stack([voxels, np.full(len(voxels), scene.slices[2])]))
    numbers, directions = initial_directions(engine, places)
    if not len(numbers):
        return "The directions of a slice are not drawn: the slice has none."
    first = np.searchsorted(numbers, numbers)  # the greatest one comes first
    return Peaks(places[numbers], directions, np.arange(len(numbers)) - first)
