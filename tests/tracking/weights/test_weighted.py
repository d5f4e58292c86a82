"""Matrices of weighted streamlines, beside tck2connectome's."""

import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from commands import one_line
from mrtrix_tests import inputs
from visited import AFFINE, SHAPE, curves

import tistreamlines as ts
from tistreamlines.cli.main import main
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
    result = ts.map_tractogram(
        "SIFT_phantom/tracks.tck", connectome=("parc.nii.gz", "o.csv"), connectome_measure=measure, weights="w.txt",
        connectome_radius=4, force=True,
    )
    expected = np.loadtxt("t.csv", delimiter=",")
    assert np.count_nonzero(expected) >= 3
    np.testing.assert_allclose(result["products"]["connectome"][0].values[measure], expected, rtol=1e-5)
    np.testing.assert_allclose(np.loadtxt("o.csv", delimiter=","), expected, rtol=1e-5)


def test_one_pass_makes_the_matrices_of_qsirecon(place, monkeypatch):
    """Two atlases, four measures of weighted and of unweighted streamlines, and the mean of a map: ten commands."""
    folder, call = place
    monkeypatch.chdir(folder)
    call("mrcalc SIFT_phantom/parc.mif 1 -gt 1 2 -if SIFT_phantom/parc.mif 0 -gt 1 0 -if -mult both.nii.gz"
         " -datatype uint16")
    call("mrconvert SIFT_phantom/fods.mif map.nii.gz -coord 3 0 -axes 0,1,2")
    call("tcksample SIFT_phantom/tracks.tck map.nii.gz mean.txt -stat_tck mean")
    measures = {
        "count": "-tck_weights_in w.txt", "inverse-volume": "-tck_weights_in w.txt -scale_invnodevol",
        "unweighted-count": "", "unweighted-mean-length": "-scale_length -stat_edge mean",
        "map_mean": "-tck_weights_in w.txt -scale_file mean.txt -stat_edge mean",
    }
    atlases = ("parc.nii.gz", "both.nii.gz")
    ts.map_tractogram(
        "SIFT_phantom/tracks.tck", connectome=[(name, f"q{name[0]}.csv") for name in atlases], weights="w.txt",
        connectome_measure=list(measures)[:4], connectome_sample="map.nii.gz", connectome_radius=2, force=True,
    )
    for name in atlases:
        for measure, options in measures.items():
            how = f"-symmetric -assignment_radial_search 2 {options}"
            call(f"tck2connectome SIFT_phantom/tracks.tck {name} t.csv {how}")
            file = f"q{name[0]}.csv" if measure == "count" else f"q{name[0]}_{measure}.csv"
            ours, expected = (np.loadtxt(path, delimiter=",") for path in (file, "t.csv"))
            assert np.count_nonzero(expected) >= 3, (name, measure)
            if measure == "unweighted-count":
                np.testing.assert_array_equal(ours, expected)
            np.testing.assert_allclose(ours, expected, rtol=2e-5, err_msg=f"{name} {measure}")


def test_a_run_weighs_what_it_tracks(place, monkeypatch):
    """Whether a tractogram is written or not."""
    folder, _ = place
    monkeypatch.chdir(folder)
    fod, mask = "SIFT_phantom/fods.mif", "SIFT_phantom/mask.mif"
    named = {"sh": fod, "sh_basis": "tournier07", "dg": "ifod1", "seed_mask": mask, "stop_mask": mask, "nseeds": 300,
             "arch": "cpu", "min_length": 4, "sift2": (fod, "r.txt"), "weights": "sift2", "force": True}
    both = [ts.track(output=output, connectome=("parc.nii.gz", f"{name}.csv"), **named) for output, name in
            ((None, "without"), ("with.trx", "with"))]
    counts, other = (result.products["connectome"][0].values["count"] for result in both)
    np.testing.assert_array_equal(counts, other)
    weights = both[0].products["sift2"].weights
    assert len(weights) == both[0].n_streamlines > 100
    matrix = both[0].products["connectome"][0]
    assert 0 < np.triu(counts).sum() <= weights.sum() * (1 + 1e-6)
    assert matrix.streamlines == both[0].n_streamlines
    both[0].save("saved.trx", force=True)
    assert Path("saved.trx").read_bytes() == Path("with.trx").read_bytes()


@pytest.fixture(scope="module")
def weighed(place):
    """The folder after a command that weighs streamlines, and makes of them a matrix, maps and a page; what it said."""
    folder, call = place
    call("mrconvert SIFT_phantom/mask.mif grid.nii.gz -datatype uint8")
    products = ["--connectome", "parc.nii.gz", "s.csv", "--density", "s.nii.gz", "--density-grid", "grid.nii.gz",
                "--ends", "s-ends.nii.gz", "--report", "s.html"]
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()) as out, pytest.raises(SystemExit) as left:
        patch.chdir(folder)
        main(["map", "SIFT_phantom/tracks.tck", "--sift2", "SIFT_phantom/fods.mif", "s.txt", "--weights", "sift2",
              *products, "--force"])
    assert not left.value.code
    return folder, out.getvalue()


def test_weights_that_come_after_all_streamlines_count_as_those_of_a_file(weighed, monkeypatch):
    """In matrices and maps."""
    monkeypatch.chdir(weighed[0])
    maps = {"density": "f.nii.gz", "density_grid": "grid.nii.gz", "ends": "f-ends.nii.gz"}
    matrix = ("parc.nii.gz", "f.csv")
    ts.map_tractogram("SIFT_phantom/tracks.tck", weights="s.txt", connectome=matrix, force=True, **maps)
    counts, expected = (np.loadtxt(name, delimiter=",") for name in ("s.csv", "f.csv"))
    assert counts.sum() > 100
    np.testing.assert_allclose(counts, expected, rtol=1e-6)
    for name in (".nii.gz", "-ends.nii.gz"):
        values, expected = (nib.load(f"{run}{name}").get_fdata() for run in "sf")
        np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(values.sum(), 2 * np.loadtxt("s.txt").sum(), rtol=1e-3)


def test_a_map_of_weighted_streamlines_is_that_of_tckmap(weighed, place):
    folder, _ = weighed
    place[1]("tckmap SIFT_phantom/tracks.tck t.nii.gz -template grid.nii.gz -tck_weights_in s.txt -upsample 40")
    ours, theirs = (nib.load(folder / f"{name}.nii.gz").get_fdata() for name in "st")
    assert abs(ours.sum() / theirs.sum() - 1) < 0.01
    assert np.corrcoef(ours.ravel(), theirs.ravel())[0, 1] > 0.9999


def test_a_page_has_the_curves_of_the_iterations(weighed):
    folder, out = weighed
    assert "weight 1 reach 85.2% of the fibre density, and exceed it by 14.8%; weighted ones reach 98.8%" in out
    page = (folder / "s.html").read_text()
    points = [line.split() for line in re.findall(r'<polyline [^>]*points="([^"]*)"', page)]
    assert [len(line) for line in points] == [13, 13], "12 iterations, and the state before"
    heights = [float(point.split(",")[1]) for point in points[0]]
    assert heights == sorted(heights), "the cost of the densities falls"
    assert "NeuroImage 119, 2015" in page and "fibre density that streamlines reach" in page


@pytest.mark.parametrize(("text", "parts"), [
    ("1 2 3", ["3 weights", "5,000 streamlines"]), ("1 -2", ["weight 2", "-2"]), ("1 nan", ["weight 2"]),
    ("one", ["one"]), (None, ["x.txt"]),
])
def test_weights_that_do_not_fit_are_told_in_a_line(place, run, monkeypatch, text, parts):
    folder, _ = place
    monkeypatch.chdir(folder)
    if text is None:
        (folder / "x.txt").unlink(missing_ok=True)
    else:
        (folder / "x.txt").write_text(text)
    words = ["--connectome", "parc.nii.gz", "never.csv", "--weights", "x.txt"]
    one_line(run("map", "SIFT_phantom/tracks.tck", *words), 1, *parts)
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
    single = curves(200, seed=3)
    weights = rng.integers(0, 4, len(single))
    for name, batch in (("some", single), ("repeated", single[np.repeat(np.arange(len(single)), weights)])):
        nib.streamlines.save(nib.streamlines.Tractogram(list(batch), affine_to_rasmm=np.eye(4)), folder / f"{name}.tck")
    np.savetxt(folder / "w.txt", weights)
    nib.save(nib.Nifti1Image(rng.uniform(1, 2, SHAPE).astype(np.float32), AFFINE), folder / "map.nii.gz")
    return folder


@pytest.mark.parametrize("kind", ["count", "ends", "direction", "length", "mean-length", "sample"])
def test_a_weight_counts_as_so_many_streamlines(lines, kind, monkeypatch):
    monkeypatch.chdir(lines)
    name, options = ("ends", {}) if kind == "ends" else ("density", {"density_kind": kind})
    options |= {"density_sample": "map.nii.gz"} if kind == "sample" else {}
    options |= {name: "d.nii.gz", "density_grid": "map.nii.gz", "force": True}
    weighted, other = (
        ts.map_tractogram(path, **options, **more)["products"][name]
        for path, more in (("some.tck", {"weights": "w.txt"}), ("repeated.tck", {}))
    )
    assert np.count_nonzero(other) > 100
    np.testing.assert_allclose(weighted, other, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(np.asarray(nib.load("d.nii.gz").dataobj), other)


def test_there_are_as_many_weights_as_streamlines(lines, run, monkeypatch):
    monkeypatch.chdir(lines)
    for count, words in ((199, "has 199 weights, but there are 200"), (201, "has 201 weights")):
        np.savetxt("n.txt", np.ones(count))
        done = run("map", "some.tck", "--density", "n.nii.gz", "--density-grid", "map.nii.gz", "--weights", "n.txt")
        one_line(done, 1, words)
        assert not (lines / "n.nii.gz").exists()
    one_line(run("map", "some.tck", "--density", "n.nii.gz", "--weights", "sift2"), 2, "--weights sift2 needs --sift2")


def test_the_display_tells_iterations(place, monkeypatch):
    folder, _ = place
    monkeypatch.chdir(folder)
    iterations = []
    watcher = Watcher()
    watcher.weighing = lambda *state: iterations.append(state)
    weights = ts.map_tractogram(
        "SIFT_phantom/tracks.tck", sift2=("SIFT_phantom/fods.mif", "q.txt"), force=True, watcher=watcher
    )["products"]["sift2"]
    first, last = weights.iterations[0], weights.iterations[-1]
    # mu gives the densities of fibres and of streamlines the same sum, so what is not reached is exceeded elsewhere
    assert first.explained + first.excess == pytest.approx(1, rel=1e-6)
    assert 0 < last.excess < first.excess
    first = weights.iterations[0].total
    assert iterations == [
        (state.number, state.data / first, state.regularisation / first) for state in weights.iterations[1:]
    ]
