"""Live tracking in a notebook: a widget whose streamlines are replaced."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from ..aliases import Array
from ..errors import InputError
from ..run.result import TrackResult
from ..space.batch import Batch, Space
from ..viewer.niivue import NEEDED, SLAB_MM
from ..viewer.scene import nifti_of, tck_of

if TYPE_CHECKING:
    from ipyniivue import NiiVue


def widget_of(picture: tuple[str, Space, Array], move: Callable[[list[float]], object]) -> NiiVue:
    """Return a widget with an image, and no streamlines yet; ``move`` receives the place of its crosshair, RASmm."""
    try:
        import ipyniivue
    except ImportError as error:
        raise InputError(NEEDED) from error
    name, space, values = picture
    file = name if name.endswith((".nii", ".nii.gz")) else f"{name}.nii.gz"
    widget = ipyniivue.NiiVue(height=480, is_slice_mm=True, mesh_thickness_on_2d=SLAB_MM)
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


def content_of(result: TrackResult, kind: str) -> bytes:
    """Return the content of the tractogram that has the streamlines of a result: tck, trk or trx."""
    with TemporaryDirectory(prefix="tistreamlines-") as folder:
        result.save(path := Path(folder) / f"streamlines.{kind}")
        return path.read_bytes()
