"""What a run that goes on may replace, and what it says of inputs that have changed since it began."""

import shutil
import warnings

import nibabel as nib
import numpy as np
import pytest
from small_runs import SHAPE, write_inputs

import tistreamlines as ts
from tistreamlines.run import resume


class Stopped(Exception):
    pass


@pytest.fixture(scope="module")
def options(tmp_path_factory):
    return write_inputs(tmp_path_factory.mktemp("in")) | {"resume": True}


@pytest.fixture(scope="module")
def labels(tmp_path_factory):
    """Two parcellations: the nodes lie behind one another, or side by side."""
    folder, paths = tmp_path_factory.mktemp("labels"), []
    for axis in (1, 0):
        values = np.ones(SHAPE, np.int16)
        np.moveaxis(values, axis, 0)[SHAPE[axis] // 2 :] = 2
        paths.append(folder / f"{axis}.nii.gz")
        nib.Nifti1Image(values, np.diag([2.0, 2.0, 2.0, 1.0])).to_filename(paths[-1])
    return paths


def ended(call, name):
    """Call ``track`` with a function of the run that goes on broken, so that it ends there."""
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Stopped):
        real = getattr(resume, name)

        def stop(*arguments, **named):
            if name == "_finish":
                real(*arguments, **named)  # all outputs are written, but the folder of pieces is still there
            raise Stopped

        patch.setattr(resume, name, stop)
        call()


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize("product", ["density", "connectome", "report", "json_stats", "sample_table"])
def test_a_new_product_replaces_nothing(options, labels, tmp_path, product):
    """Whether the run was ended while it tracked, or while it wrote its outputs."""
    path = tmp_path / {"density": "b.nii.gz", "report": "b.html", "json_stats": "b.json"}.get(product, "b.csv")
    more = {product: (labels[0], path) if product == "connectome" else path}
    if product == "sample_table":
        options = options | {"sample": [options["stop_map"]]}
    for number, moment in enumerate(("_track_piece", "_finish")):
        output = tmp_path / f"{number}.trx"
        path.unlink(missing_ok=True)
        ended(lambda: ts.track(output=output, **options), moment)  # noqa: B023
        path.write_text("precious")
        before = contents(tmp_path)
        with pytest.raises(ts.TrackingError, match=rf"{path.name}: exists already"):
            ts.track(output=output, **options, **more)
        assert contents(tmp_path) == before
        ts.track(output=output, **options, **more, force=True)
        assert path.read_bytes() != b"precious"


def test_a_product_that_comes_while_seeds_are_tracked_stays(options, tmp_path, monkeypatch):
    """As without --resume."""
    real = resume._track_piece

    def track_piece(*arguments):
        (tmp_path / "b.nii.gz").write_text("precious")
        return real(*arguments)

    monkeypatch.setattr(resume, "_track_piece", track_piece)
    with pytest.raises(ts.TrackingError, match=r"b\.nii\.gz: exists already"):
        ts.track(output=tmp_path / "a.trx", **options, density=tmp_path / "b.nii.gz")
    assert contents(tmp_path) == {"b.nii.gz": b"precious"}
    (tmp_path / "b.nii.gz").unlink()
    monkeypatch.undo()
    ts.track(output=tmp_path / "a.trx", **options, density=tmp_path / "b.nii.gz")


@pytest.mark.parametrize("relative", [True, False])
def test_its_own_outputs_are_replaced(options, labels, tmp_path, monkeypatch, relative):
    """Those that it wrote before it was ended, however they are named."""
    monkeypatch.chdir(tmp_path)

    def call(folder):
        named = {
            "density": folder / "b.nii.gz",
            "connectome": (labels[0], folder / "c.csv"),
            "report": folder / "d.html",
        }
        ts.track(output=folder / "a.trx", **options, **named, json_stats=folder / "e.json")

    ended(lambda: call(tmp_path), "_finish")
    before = contents(tmp_path)
    assert {"a.trx", "a.json", "b.nii.gz", "c.csv", "d.html", "e.json"} <= before.keys()
    call(tmp_path.relative_to(tmp_path) if relative else tmp_path)
    after = contents(tmp_path)
    assert after.keys() == before.keys()
    assert all(after[name] == before[name] for name in ("a.trx", "b.nii.gz", "c.csv"))
    assert not (tmp_path / "a.trx.unfinished").exists()


@pytest.mark.parametrize("changed", [True, False])
def test_a_parcellation_that_has_changed_is_named(options, labels, tmp_path, changed):
    """The matrices are those of the new one, and the record has its hash."""
    parcels, matrix = tmp_path / "labels.nii.gz", tmp_path / "b.csv"
    shutil.copy(labels[0], parcels)
    call = lambda: ts.track(output=tmp_path / "a.trx", **options, connectome=(parcels, matrix))  # noqa: E731
    ended(call, "_track_piece")
    if changed:
        shutil.copy(labels[1], parcels)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = call()
    named = [str(warning.message) for warning in caught if "has changed since the run began" in str(warning.message)]
    assert len(named) == changed
    assert all(text.startswith(f"connectome {parcels}: ") for text in named)
    assert sum("has changed since the run began" in text for text in result.record["warnings"]) == changed
    ts.track(output=tmp_path / "c.trx", **options, connectome=(labels[int(changed)], tmp_path / "d.csv"))
    assert matrix.read_bytes() == (tmp_path / "d.csv").read_bytes()


def test_another_parcellation_is_no_surprise(options, labels, tmp_path):
    ended(
        lambda: ts.track(output=tmp_path / "a.trx", **options, connectome=(labels[0], tmp_path / "b.csv")),
        "_track_piece",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ts.track(output=tmp_path / "a.trx", **options, connectome=(labels[1], tmp_path / "b.csv"))
