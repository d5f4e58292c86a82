"""Reports of runs: with a tractogram, with products alone, in parts, and of a run that goes on."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import nibabel as nib
import numpy as np
import pytest
from fods import random_fods
from PIL import Image
from small_runs import SHAPE, write_inputs, write_parts

import tistreamlines as ts
from tistreamlines.devices import choose
from tistreamlines.errors import LostDeviceError
from tistreamlines.report.scene import ReportScene
from tistreamlines.run import reporting, setup
from tistreamlines.tracking.engine.directions import fod_peaks, initial_directions

FILES = {"page.html", "page_mqc.png", "page_stats.json"}


@pytest.fixture(scope="module")
def options(tmp_path_factory):
    return write_inputs(tmp_path_factory.mktemp("in"))


@pytest.fixture(scope="module")
def whole(options, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    return folder, ts.track(output=folder / "a.trx", **options, report=folder / "page.html")


def asked(folder):
    return {path.name for path in Path(folder).iterdir()}


def test_page_picture_and_numbers(whole):
    folder, result = whole
    page = (folder / "page.html").read_text(encoding="utf-8")
    assert asked(folder) == {"a.trx", "a.json"} | FILES
    assert f"All {result.n_streamlines} streamlines" in page
    assert "directions in an axial slice" in page
    record = json.loads((folder / "a.json").read_text())
    assert all(entry["sha256"] in page for entry in record["inputs"].values())
    assert json.loads((folder / "page_stats.json").read_text()) == record["result"]
    assert np.asarray(Image.open(folder / "page_mqc.png").convert("L")).max() > 100


def test_without_a_tractogram(whole, options, tmp_path):
    """With products alone points come back, and in Python nothing but the report need be written."""
    ts.track(**options, density=tmp_path / "d.nii.gz", report=tmp_path / "page.html")
    assert asked(tmp_path) == {"d.nii.gz", "d.json"} | FILES
    kept = ts.track(**options, report=tmp_path / "page.html", force=True)
    assert len(kept.streamlines) == whole[1].n_streamlines
    shown = (tmp_path / "page_mqc.png").read_bytes()
    assert shown == (whole[0] / "page_mqc.png").read_bytes()


def test_parts_and_a_run_that_goes_on(whole, options, tmp_path):
    """Their pictures are those of one run."""
    ts.track(output=tmp_path / "b.trx", **options, report=tmp_path / "b.html", resume=True)
    assert (tmp_path / "b_mqc.png").read_bytes() == (whole[0] / "page_mqc.png").read_bytes()
    ts.join(write_parts(tmp_path, options), tmp_path / "c.trx", report=tmp_path / "c.html")
    assert (tmp_path / "c_mqc.png").read_bytes() == (whole[0] / "page_mqc.png").read_bytes()
    assert "parts were joined" in (tmp_path / "c.html").read_text(encoding="utf-8")


def test_two_devices_draw_what_one_does(whole, options, tmp_path, monkeypatch):
    monkeypatch.setattr(setup, "choose_several", lambda arch, text: [choose("cpu")] * 2)
    named = {name: value for name, value in options.items() if name != "threads"}
    ts.track(output=tmp_path / "a.trx", **named, devices="all", report=tmp_path / "page.html")
    pictures = [
        re.findall('src="(data:image/jpeg.*?)"', (folder / "page.html").read_text(encoding="utf-8"))
        for folder in (tmp_path, whole[0])
    ]
    assert len(pictures[0]) == 7
    assert pictures[0] == pictures[1]


def test_a_page_is_written_when_no_device_is_left(whole, monkeypatch):
    def lost(*_):
        raise LostDeviceError("no device is left: check them")

    shown = ReportScene(whole[1].space, np.ones(whole[1].space.shape, int), None, whole[1].sample, 1)
    arrays = {"volume_index": np.ones(whole[1].space.shape, int)}
    prepared = SimpleNamespace(arrays=arrays, getter=SimpleNamespace(aimed=False))
    peaks = vars(reporting)["_peaks"](SimpleNamespace(initial_directions=lost), prepared, shown)
    assert peaks == "The directions of a slice are not drawn: no device is left: check them."


@pytest.mark.parametrize(
    ("page", "more", "message"),
    [("page.htm", {"json_stats": "page_stats.json"}, "page_stats.json is also the name of another output"),
     ("page.pdf", {}, "unknown suffix"), ("old.html", {}, "old_mqc.png: exists already")],
)
def test_names_are_checked_first(options, tmp_path, page, more, message):
    (tmp_path / "old_mqc.png").write_bytes(b"mine")
    named = {name: tmp_path / file for name, file in more.items()}
    with pytest.raises(ts.TrackingError, match=message):
        ts.track(output=tmp_path / "a.trx", **options, **named, report=tmp_path / page)
    assert asked(tmp_path) == {"old_mqc.png"}


def test_streams_write_no_report(options, tmp_path):
    with pytest.raises(ts.ParameterError, match="report is written by track"):
        ts.stream(**options, report=tmp_path / "page.html")



def test_directions_are_those_in_which_streamlines_start(whole, options):
    """The first step of a streamline is along one of the directions that are found at its seed."""
    seen = []

    def keep(receiver, output, record, notes, background, engine, _):
        space = receiver.space
        lines = receiver.gathered.scene(background).sample
        numbers, directions = initial_directions(engine, space.to_voxel(lines.seeds))
        seen.append((lines, numbers, directions, background))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reporting, "report", keep)
        ts.track(**options, report="page.html")
    ((lines, numbers, directions, background),) = seen
    assert background is None
    assert np.array_equal(np.unique(numbers), np.arange(len(lines)))
    for place, line in enumerate(lines):
        at = int(np.argmin(np.linalg.norm(line - lines.seeds[place], axis=1)))
        step = line[at + 1] - line[at] if at + 1 < len(line) else line[at] - line[at - 1]
        cosines = np.abs(directions[numbers == place] @ (step / np.linalg.norm(step)))
        assert cosines.max() > np.cos(np.radians(25)), place


def test_the_mean_b0_lies_behind_also_with_tables_of_the_cache(head, tmp_path):
    named = {"mask": head.mask, "arch": "cpu", "nseeds": 50, "cache_dir": head.cache}
    for name in ("a", "b"):
        ts.track(*head.series, **named, report=tmp_path / f"{name}.html")
        assert "a slice of the mean b0" in (tmp_path / f"{name}.html").read_text(encoding="utf-8")
    assert (tmp_path / "a_mqc.png").read_bytes() == (tmp_path / "b_mqc.png").read_bytes()


@pytest.mark.parametrize("dg", ["ifod1", "ifod2", "sd_stream"])
def test_directions_of_tckgens_algorithms_are_the_peaks_of_the_fods(dg, tmp_path, options):
    """They start at random; the directions of the slice do not, and lie along the fibres."""
    functions, axes = random_fods(int(np.prod(SHAPE)))
    nib.save(nib.Nifti1Image(functions.reshape(*SHAPE, -1), np.diag([2.0, 2, 2, 1])), tmp_path / "fod.nii")
    drawn = []

    def keep(page, record, scene, peaks, *, force):
        drawn.append(peaks)

    named = {"sh": tmp_path / "fod.nii", "sh_basis": "tournier07", "dg": dg, "arch": "cpu", "min_length": 0}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reporting, "write_report", keep)
        points = np.load(options["seeds"])
        for seed, seeds in enumerate((points, np.c_[points, np.tile([1, 0, 0], (len(points), 1))])):
            ts.track(**named, stop_mask=options["stop_map"], seeds=seeds, rng_seed=seed, report=tmp_path / "page.html")
    for peaks in drawn:  # also where seeds have directions
        assert 1 < peaks.ranks.max() < 6
        first = peaks.ranks == 0
        strongest = axes[np.ravel_multi_index(tuple(peaks.places[first].T), SHAPE), 0]
        cosines = np.abs(np.sum(peaks.directions[first] * strongest, axis=1))
        angles = np.degrees(np.arccos(np.minimum(cosines, 1)))
        assert first.sum() > 100
        assert np.median(angles) < 4
        assert (angles < 12).mean() > 0.75  # elsewhere, two fibres are about as strong, or make one peak


def test_fods_without_a_peak_have_no_direction(options, tmp_path):
    """A voxel whose FOD is nowhere above the getter's threshold."""
    functions = random_fods(int(np.prod(SHAPE)))[0].reshape(*SHAPE, -1)
    functions[:8] *= 1e-3
    nib.save(nib.Nifti1Image(functions, np.diag([2.0, 2, 2, 1])), tmp_path / "fod.nii")
    prepared = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reporting, "report", lambda *arguments, **_: prepared.append(arguments[6]))
        ts.track(
            sh=tmp_path / "fod.nii", sh_basis="tournier07", dg="ifod2", arch="cpu", stop_mask=options["stop_map"],
            seeds=options["seeds"], report=tmp_path / "page.html",
        )
    voxels = np.argwhere(np.ones(SHAPE))
    numbers, directions = fod_peaks(prepared[0], voxels)
    assert (voxels[numbers][:, 0] >= 8).all()
    assert len(np.unique(numbers)) > 0.9 * np.prod(SHAPE) / 2
    assert np.allclose(np.linalg.norm(directions, axis=1), 1)
    assert [len(part) for part in fod_peaks(prepared[0], voxels[:0])] == [0, 0]
