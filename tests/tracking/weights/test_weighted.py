"""Matrices of weighted streamlines, beside tck2connectome's."""

import numpy as np
import pytest
from commands import one_line
from mrtrix_tests import inputs

import tistreamlines as ts

MEASURES = {
    "count": "", "length": "-scale_length", "mean-length": "-scale_length -stat_edge mean",
    "inverse-length": "-scale_invlength",
}  # fmt: skip


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
    )  # fmt: skip
    expected = np.loadtxt("t.csv", delimiter=",")
    assert np.count_nonzero(expected) >= 3
    np.testing.assert_allclose(made["products"]["connectome"][0].values[measure], expected, rtol=1e-5)
    np.testing.assert_allclose(np.loadtxt("o.csv", delimiter=","), expected, rtol=1e-5)


def test_weights_of_the_same_run_are_those_of_the_file(place, monkeypatch, run):
    folder, _ = place
    monkeypatch.chdir(folder)
    files = ["--connectome", "parc.nii.gz"]
    done = run("map", "SIFT_phantom/tracks.tck", "--sift2", "SIFT_phantom/fods.mif", "s.txt", *files, "a.csv",
               "--weights", "sift2", "--force")  # fmt: skip
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
             "arch": "cpu", "min_length": 4, "sift2": (fod, "r.txt"), "weights": "sift2", "force": True}  # fmt: skip
    both = [ts.track(output=output, connectome=("parc.nii.gz", f"{name}.csv"), **named) for output, name in
            ((None, "without"), ("with.trx", "with"))]  # fmt: skip
    one, other = (made.products["connectome"][0].values["count"] for made in both)
    np.testing.assert_array_equal(one, other)
    weights = both[0].products["sift2"].weights
    assert len(weights) == both[0].n_streamlines > 100
    matrix = both[0].products["connectome"][0]
    assert 0 < np.triu(one).sum() <= weights.sum() * (1 + 1e-6)
    assert matrix.streamlines == both[0].n_streamlines


@pytest.mark.parametrize(("text", "told"), [
    ("1 2 3", ["3 weights", "5,000 streamlines"]), ("1 -2", ["weight 2", "-2"]), ("1 nan", ["weight 2"]),
    ("one", ["one"]), (None, ["x.txt"]),
])  # fmt: skip
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
