"""Matrices of weighted streamlines, beside tck2connectome's."""

import re
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from commands import one_line
from mrtrix_tests import inputs
from visited import AFFINE, SHAPE, curves

import tistreamlines as ts
from tistreamlines.run.log import Watcher

MEASURES = {
    "count": "", "length": "-scale_length", "mean-length": "-scale_length -stat_edge mean",
    "inverse-length": "-scale_invlength",
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with MRtrix3's phantom, weights of its streamlines, and what calls its programs there."""
    folder = tmp_path_factory.mktemp("weighted")
    call = inputs(folder, "tck2connectome")
    call("mrconvert SIFT_phantom/parc.mif parc.nii.gz -datatype uint16 -strides 1,2,3")
    np.savetxt(folder / "w.txt", np.random.default_rng(1).lognormal(0, 1.5, 5000), fmt="%.10g")
    return folder, call


@pytest.mark.parametrize("measure", MEASURES)
def test_matrices_are_those_of_tck2connectome(place, measure, monkeypatch):
    folder, call = place
    monkeypatch.chdir(folder)
    how = "-tck_weights_in w.txt -symmetric -assignment_radial_search 4"
    call(f"tck2connectome SIFT_phantom/tracks.tck SIFT_phantom/parc.mif t.csv {how} {MEASURES[measure]}")
    made = ts.map_tractogram(
        "SIFT_phantom/tracks.tck", connectome=("parc.nii.gz", "o.csv"), connectome_measure=measure, weights="w.txt",
        connectome_radius=4, force=True,
    )
    expected = np.loadtxt("t.csv", delimiter=",")
    assert np.count_nonzero(expected) >= 3
    np.testing.assert_allclose(made["products"]["connectome"][0].values[measure], expected, rtol=1e-5)
    np.testing.assert_allclose(np.loadtxt("o.csv", delimiter=","), expected, rtol=1e-5)


def test_weights_of_the_same_run_are_those_of_the_file(place, monkeypatch, run):
    folder, _ = place
    monkeypatch.chdir(folder)
    files = ["--connectome", "parc.nii.gz"]
    done = run("map", "SIFT_phantom/tracks.tck", "--sift2", "SIFT_phantom/fods.mif", "s.txt", *files, "a.csv",
               "--weights", "sift2", "--force")
    assert done.code == 0, done.err
    done = run("map", "SIFT_phantom/tracks.tck", *files, "b.csv", "--weights", "s.txt", "--force")
    assert done.code == 0, done.err
    one, other = (np.loadtxt(name, delimiter=",") for name in ("a.csv", "b.csv"))
    assert one.sum() > 100
    np.testing.assert_allclose(one, other, rtol=1e-6)


def test_a_run_weighs_what_it_tracks(place, monkeypatch):
    """Whether a tractogram is written or not."""
    folder, _ = place
    monkeypatch.chdir(folder)
    fod, mask = "SIFT_phantom/fods.mif", "SIFT_phantom/mask.mif"
    named = {"sh": fod, "sh_basis": "tournier07", "dg": "ifod1", "seed_mask": mask, "stop_mask": mask, "nseeds": 300,
             "arch": "cpu", "min_length": 4, "sift2": (fod, "r.txt"), "weights": "sift2", "force": True}
    both = [ts.track(output=output, connectome=("parc.nii.gz", f"{name}.csv"), **named) for output, name in
            ((None, "without"), ("with.trx", "with"))]
    one, other = (made.products["connectome"][0].values["count"] for made in both)
    np.testing.assert_array_equal(one, other)
    weights = both[0].products["sift2"].weights
    assert len(weights) == both[0].n_streamlines > 100
    matrix = both[0].products["connectome"][0]
    assert 0 < np.triu(one).sum() <= weights.sum() * (1 + 1e-6)
    assert matrix.streamlines == both[0].n_streamlines
    both[0].save("saved.trx", force=True)
    assert Path("saved.trx").read_bytes() == Path("with.trx").read_bytes()


@pytest.mark.parametrize(("text", "told"), [
    ("1 2 3", ["3 weights", "5,000 streamlines"]), ("1 -2", ["weight 2", "-2"]), ("1 nan", ["weight 2"]),
    ("one", ["one"]), (None, ["x.txt"]),
])
def test_weights_that_do_not_fit_are_told_in_a_line(place, run, monkeypatch, text, told):
    folder, _ = place
    monkeypatch.chdir(folder)
    if text is None:
        (folder / "x.txt").unlink(missing_ok=True)
    else:
        (folder / "x.txt").write_text(text)
    words = ["--connectome", "parc.nii.gz", "never.csv", "--weights", "x.txt"]
    one_line(run("map", "SIFT_phantom/tracks.tck", *words), 1, *told)
    assert not (folder / "never.csv").exists()


def test_weights_of_sift2_need_it(place, run, monkeypatch):
    folder, _ = place
    monkeypatch.chdir(folder)
    words = ["--connectome", "parc.nii.gz", "never.csv", "--weights", "sift2"]
    one_line(run("map", "SIFT_phantom/tracks.tck", *words), 2, "--sift2 FOD FILE")


# --------------------------------------------------------------------------------------------------------------- maps
@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    """A tractogram of curves, one of which each is there as often as its weight, and a map."""
    folder, rng = tmp_path_factory.mktemp("maps"), np.random.default_rng(2)
    some = curves(200, seed=3)
    weights = rng.integers(0, 4, len(some))
    for name, batch in (("some", some), ("repeated", some[np.repeat(np.arange(len(some)), weights)])):
        nib.streamlines.save(nib.streamlines.Tractogram(list(batch), affine_to_rasmm=np.eye(4)), folder / f"{name}.tck")
    np.savetxt(folder / "w.txt", weights)
    nib.save(nib.Nifti1Image(rng.uniform(1, 2, SHAPE).astype(np.float32), AFFINE), folder / "map.nii.gz")
    return folder


@pytest.mark.parametrize("kind", ["count", "ends", "direction", "length", "mean-length", "sample"])
def test_a_weight_counts_as_so_many_streamlines(lines, kind, monkeypatch):
    monkeypatch.chdir(lines)
    name, given = ("ends", {}) if kind == "ends" else ("density", {"density_kind": kind})
    given |= {"density_sample": "map.nii.gz"} if kind == "sample" else {}
    given |= {name: "d.nii.gz", "density_grid": "map.nii.gz", "force": True}
    one, other = (
        ts.map_tractogram(path, **given, **more)["products"][name]
        for path, more in (("some.tck", {"weights": "w.txt"}), ("repeated.tck", {}))
    )
    assert np.count_nonzero(other) > 100
    np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(np.asarray(nib.load("d.nii.gz").dataobj), other)


def test_maps_of_a_run_are_those_of_its_weights(place, monkeypatch):
    """Weights that come after all streamlines make the maps of a file of weights, and those of tckmap."""
    folder, call = place
    monkeypatch.chdir(folder)
    call("mrconvert SIFT_phantom/mask.mif grid.nii.gz -datatype uint8")
    common = {"force": True, "density": "d.nii.gz", "density_grid": "grid.nii.gz", "ends": "e.nii.gz"}
    sift2 = {"sift2": ("SIFT_phantom/fods.mif", "m.txt")}
    one = ts.map_tractogram("SIFT_phantom/tracks.tck", weights="sift2", **sift2, **common)["products"]
    other = ts.map_tractogram("SIFT_phantom/tracks.tck", weights="m.txt", **common)["products"]
    for name in ("density", "ends"):
        np.testing.assert_allclose(one[name], other[name], rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(one["ends"].sum(), 2 * np.loadtxt("m.txt").sum(), rtol=1e-3)
    call("tckmap SIFT_phantom/tracks.tck t.nii.gz -template grid.nii.gz -tck_weights_in m.txt -upsample 40")
    expected = np.asarray(nib.load(folder / "t.nii.gz").dataobj)
    assert abs(one["density"].sum() / expected.sum() - 1) < 0.01
    assert np.corrcoef(one["density"].ravel(), expected.ravel())[0, 1] > 0.9999


def test_there_are_as_many_weights_as_streamlines(lines, run, monkeypatch):
    monkeypatch.chdir(lines)
    for count, words in ((199, "has 199 weights, but there are 200"), (201, "has 201 weights")):
        np.savetxt("n.txt", np.ones(count))
        done = run("map", "some.tck", "--density", "n.nii.gz", "--density-grid", "map.nii.gz", "--weights", "n.txt")
        one_line(done, 1, words)
        assert not (lines / "n.nii.gz").exists()
    one_line(run("map", "some.tck", "--density", "n.nii.gz", "--weights", "sift2"), 2, "--weights sift2 needs --sift2")


def test_a_page_has_the_curves_of_the_iterations(place, monkeypatch, run):
    folder, _ = place
    monkeypatch.chdir(folder)
    sift2 = "--sift2", "SIFT_phantom/fods.mif", "p.txt"
    done = run("map", "SIFT_phantom/tracks.tck", *sift2, "--report", "p.html", "--force")
    assert done.code == 0, done.err
    assert "weight 1 reach 85.2% of the fibre density, and exceed it by 14.8%; weighted ones reach 98.8%" in done.out
    page = (folder / "p.html").read_text()
    points = [line.split() for line in re.findall(r'<polyline [^>]*points="([^"]*)"', page)]
    assert [len(line) for line in points] == [13, 13], "12 iterations, and the state before"
    heights = [float(point.split(",")[1]) for point in points[0]]
    assert heights == sorted(heights), "the cost of the densities falls"
    assert "NeuroImage 119, 2015" in page and "fibre density that streamlines reach" in page


def test_the_display_tells_iterations(place, monkeypatch):
    folder, _ = place
    monkeypatch.chdir(folder)
    told = []
    watcher = Watcher()
    watcher.weighing = lambda *one: told.append(one)
    made = ts.map_tractogram(
        "SIFT_phantom/tracks.tck", sift2=("SIFT_phantom/fods.mif", "q.txt"), force=True, watcher=watcher
    )["products"]["sift2"]
    first, last = made.iterations[0], made.iterations[-1]
    # mu gives the densities of fibres and of streamlines the same sum, so what is not reached is exceeded elsewhere
    assert first.explained + first.excess == pytest.approx(1, rel=1e-6)
    assert 0 < last.excess < first.excess
    first = made.iterations[0].total
    assert told == [(one.number, one.data / first, one.regularisation / first) for one in made.iterations[1:]]
