"""Live tracking in a notebook: a widget whose streamlines are replaced."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..aliases import Array
from ..run.result import TrackResult
from ..space.batch import Batch, Space
from ..viewer.niivue import empty_widget
from ..viewer.scene import nifti_of, tck_of

if TYPE_CHECKING:
    from ipyniivue import NiiVue


def widget_of(picture: tuple[str, Space, Array], move: Callable[[list[float]], object]) -> NiiVue:
    """Return a widget with an image, and no streamlines yet; ``move`` receives the place of its crosshair, RASmm."""
    widget = empty_widget()
    name, space, values = picture
    file = name if name.endswith((".nii", ".nii.gz")) else f"{name}.nii.gz"
    widget.load_volumes([{"name": file, "data": nifti_of(values, space), "colorbar_visible": False}])

    def tell(place: dict[str, Any]) -> None:
        move([float(x) for x in place["mm"][:3]])

    widget.on_location_change(tell)
    return widget


def show(widget: NiiVue, result: TrackResult) -> None:
    """Have a widget show the streamlines of a result, in the place of those before."""
    import ipyniivue

    if not len(result):
        widget.load_meshes([])
        return
    mesh = ipyniivue.Mesh(name="streamlines.tck", data=tck_of(Batch.concatenate(result.batches), result.space))
    mesh.fiber_color = "Local"
    widget.load_meshes([mesh])
