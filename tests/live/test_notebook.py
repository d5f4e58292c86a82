"""Live tracking in a notebook: streamlines of the widget are those where its crosshair is, or of the last run."""

from __future__ import annotations

import gzip
import io
import sys
import threading

import nibabel as nib
import numpy as np
import pytest

import tistreamlines as ts
from tistreamlines.errors import InputError
from tistreamlines.live import notebook
from tistreamlines.live.tracker import Silent

ipyniivue = pytest.importorskip("ipyniivue", reason="needs ipyniivue")


@pytest.fixture
def live(head) -> ts.Live:
    return ts.Live(*head.series, mask=head.mask, dg="prob", arch="cpu", min_length=0)


def points_of(widget) -> bytes:
    """Return the points of the streamlines that a widget shows."""
    (mesh,) = widget.meshes
    return nib.streamlines.load(io.BytesIO(mesh.data)).streamlines.get_data().astype(np.float32).tobytes()


def points(result) -> bytes:
    return ts.Batch.concatenate(list(result.batches)).points.tobytes()


def move(widget, *mm: float) -> None:
    """Move the crosshair, as the browser tells it."""
    place = {"mm": [*mm, 1.0], "axCorSag": 0, "xy": [0, 0], "values": [], "string": ""}
    place |= {key: [0, 0, 0] for key in ("vox", "frac")}
    widget._handle_custom_msg({"event": "location_change", "data": place}, [])


def test_the_widget_follows_the_crosshair_and_python(live, head):
    widget = live.view(nseeds=100)
    assert isinstance(widget, ipyniivue.NiiVue) and widget.meshes[0].fiber_color == "Local"
    first = points_of(widget)
    move(widget, 4.0, -6.0, 2.0)
    expected = ts.track(
        *head.series, mask=head.mask, dg="prob", arch="cpu", min_length=0, nseeds=100, seed_sphere="4,-6,2,3",
    )
    assert points_of(widget) == points(expected) != first
    _, data = widget.meshes[0].data.split(b"END\n")
    assert np.isnan(np.frombuffer(data.lstrip(b"\n"), "<f4", 3)).all(), "NiiVue loses the first streamline"
    result = live.track(seed_sphere="-14,0,8,7", nseeds=50, max_angle=30)
    assert points_of(widget) == points(result)


def test_the_image_is_the_mean_b0_or_another_one(live, head, tmp_path):
    widget = live.view(nseeds=20)
    image = nib.Nifti1Image.from_bytes(gzip.decompress(widget.volumes[0].data))
    assert image.shape == live.space.shape and np.asarray(image.dataobj).max() > 0
    assert np.allclose(image.affine, live.space.affine, atol=1e-4)
    nib.save(nib.Nifti1Image(np.full((4, 5, 6), 7, np.float32), np.eye(4)), tmp_path / "T1.nii.gz")
    other = live.view(tmp_path / "T1.nii.gz", radius=6, nseeds=20)
    image = nib.Nifti1Image.from_bytes(gzip.decompress(other.volumes[0].data))
    assert image.shape == (4, 5, 6) and other.volumes[0].name == "T1.nii.gz"
    assert points_of(widget) == points_of(other), "both follow the last run"


def test_places_without_streamlines(live):
    live.watcher = Silent()
    widget = live.view(nseeds=20)
    before = points_of(widget)
    move(widget, 900.0, 0.0, 0.0)  # outside the image: the streamlines stay
    assert points_of(widget) == before
    live.track(seed_sphere="4,-6,2,9", nseeds=20, min_length=199.0, max_length=200.0)
    assert widget.meshes == []
    move(widget, 4.0, -6.0, 2.0)
    assert points_of(widget)


def test_a_widget_that_was_closed_gets_no_more(live):
    widget = live.view(nseeds=20)
    before = points_of(widget)
    widget.close()
    live.track(seed_sphere="4,-6,2,9", nseeds=50)
    assert points_of(widget) == before and not live._views


def test_widgets_show_the_last_run_of_several_threads(live, monkeypatch):
    """Though the widget takes longer for an earlier one."""
    widget, show, seeds = live.view(nseeds=20), notebook.show, []
    began, later = threading.Event(), threading.Event()

    def slowly(view, result) -> None:
        if result.seeds == 30:
            began.set()
            later.wait(1)
        show(view, result)
        seeds.append(result.seeds)
        later.set()

    monkeypatch.setattr(notebook, "show", slowly)
    earlier = threading.Thread(target=lambda: live.track(seed_sphere="4,-6,2,9", nseeds=30))
    earlier.start()
    assert began.wait(30)
    result = live.track(seed_sphere="-14,0,8,7", nseeds=40)
    earlier.join()
    assert seeds == [30, 40] and points_of(widget) == points(result)


def test_a_widget_that_tracks_shows_what_it_tracked(live, monkeypatch):
    """And so do others."""
    widgets, show, left = [live.view(nseeds=20) for _ in range(2)], notebook.show, [1]

    def once_more(view, result) -> None:
        show(view, result)
        if left:
            left.pop()
            live.track(seed_sphere="-14,0,8,7", nseeds=40)

    monkeypatch.setattr(notebook, "show", once_more)
    live.track(seed_sphere="4,-6,2,9", nseeds=30)
    drawn = [points_of(widget) for widget in widgets]
    assert drawn == [points(live.track(seed_sphere="-14,0,8,7", nseeds=40))] * 2


def test_without_ipyniivue(live, monkeypatch):
    monkeypatch.setitem(sys.modules, "ipyniivue", None)
    with pytest.raises(InputError, match="needs ipyniivue"):
        live.view()
