"""Live tracking in a notebook: a widget that tracks where its crosshair is."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError, TrackingError
from ..option import ImageLike
from ..run.result import TrackResult
from ..viewer.niivue import NEEDED
from ..viewer.scene import nifti_of, opened_image

if TYPE_CHECKING:
    from ipyniivue import NiiVue

    from .tracker import Live

SLAB_MM = 4.0  # streamlines so near to a slice are drawn on it


def widget_of(live: Live, image: ImageLike | None, radius: float, nseeds: int) -> NiiVue:
    """Return the widget of :meth:`.tracker.Live.view`, with an image and no streamlines yet."""
    try:
        import ipyniivue
    except ImportError as error:
        raise InputError(NEEDED) from error
    name, values, space = image_of(live, image)
    shown = ipyniivue.NiiVue(height=480, is_slice_mm=True, mesh_thickness_on_2d=SLAB_MM)
    shown.load_volumes([{"name": name, "data": nifti_of(values, space), "colorbar_visible": False}])

    def move(place: dict[str, Any]) -> None:
        """Track from the crosshair."""
        ball = [float(x) for x in place["mm"][:3]]
        try:
            live.track(seed_sphere=[[*ball, radius]], nseeds=nseeds)
        except TrackingError as error:  # such as a place outside the image; the old streamlines stay
            live.watcher.warn(str(error))

    shown.on_location_change(move)
    return shown


def image_of(live: Live, image: ImageLike | None) -> tuple[str, Any, Any]:
    """Return the name, the values and the grid of an image for pictures: the mean b0, or what is followed, if None."""
    if image is None and live.background is not None:
        return "mean_b0.nii.gz", np.asarray(live.background), live.space
    source = live.followed if image is None else image
    if source is None:
        raise InputError("the series has no b0 volume for a picture: give an image")
    name, space, values = opened_image(source)
    return name if name.endswith((".nii", ".nii.gz")) else f"{name}.nii.gz", values, space


def show(shown: NiiVue, result: TrackResult) -> None:
    """Have a widget show the streamlines of a result, in the place of those before."""
    import ipyniivue

    if not len(result):
        shown.load_meshes([])
        return
    mesh = ipyniivue.Mesh(name="streamlines.tck", data=content_of(result, "tck"))
    mesh.fiber_color = "Local"
    shown.load_meshes([mesh])


def content_of(result: TrackResult, kind: str) -> bytes:
    """Return the content of the tractogram that has the streamlines of a result: tck, trk or trx."""
    with TemporaryDirectory(prefix="tistreamlines-") as folder:
        result.save(path := Path(folder) / f"streamlines.{kind}")
        return path.read_bytes()
