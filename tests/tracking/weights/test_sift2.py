"""SIFT2 beside MRtrix3's tcksift2, and the same weights everywhere."""

import json
import shutil

import nibabel as nib
import numpy as np
import pytest
from commands import one_line
from fods import random_fods
from mrtrix_tests import inputs, means_of_bundles
from nights import at_night
from scipy.optimize import lsq_linear
from trx import trx_file_memmap
from visited import STEP, curves, densities, fixel_table, fixels_with, lengths_of, weigh

import tistreamlines as ts
from tistreamlines.devices import choose
from tistreamlines.errors import InputError
from tistreamlines.report.charts import facts
from tistreamlines.tracking.weights import sift2 as module
from tistreamlines.tracking.weights.options import Sift2Options
from tistreamlines.tracking.weights.sift2 import sift2
from tistreamlines.tracking.weights.visits import Visitor


# --------------------------------------------------------------------------------------------------- beside tcksift2
@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with MRtrix3's phantom, and what calls its programs there."""
    folder = tmp_path_factory.mktemp("sift2")
    return folder, inputs(folder, "tcksift2")


CASES = {
    "defaults": ("", {}),
    "grey matter": ("-act SIFT_phantom/5tt.mif -fd_scale_gm", {"act": "5tt", "fd_scale_gm": True}),
    "regularised in short steps": (
        "-reg_tikhonov 0.2 -reg_tv 0.02 -max_coeff_step 0.05 -max_iters 15",
        {"reg_tikhonov": 0.2, "reg_tv": 0.02, "max_coeff_step": 0.05, "max_iters": 15},
    ),
    "linear": ("-linear", {"linear": True}),
    "few fixels, bounds": (
        "-remove_untracked -fd_thresh 0.2 -min_factor 0.7 -max_factor 1.6",
        {"remove_untracked": True, "fd_thresh": 0.2, "min_factor": 0.7, "max_factor": 1.6},
    ),
    "null lobes, mask": (
        "-no_dilate_lut -make_null_lobes -proc_mask SIFT_phantom/mask.mif",
        {"no_dilate_lut": True, "make_null_lobes": True, "proc_mask": "mask"},
    ),
}
BY_DAY = ("defaults", "grey matter", "regularised in short steps")
SINGLE = {
    "five tissues": ("-act SIFT_phantom/5tt.mif", {"act": "5tt"}),
    "regularised": ("-reg_tikhonov 0.2 -reg_tv 0.02", {"reg_tikhonov": 0.2, "reg_tv": 0.02}),
    "bounds": ("-min_factor 0.7 -max_factor 1.6", {"min_factor": 0.7, "max_factor": 1.6}),
    "lobes alone": ("-no_dilate_lut", {"no_dilate_lut": True}),
    "mask": ("-proc_mask SIFT_phantom/mask.mif", {"proc_mask": "mask"}),
}


@pytest.mark.parametrize("case", [*BY_DAY, *at_night(*sorted({*CASES} - {*BY_DAY}), *SINGLE)])
def test_weights_are_those_of_tcksift2(place, case, monkeypatch):
    """At night, each rule also alone."""
    folder, call = place
    monkeypatch.chdir(folder)
    theirs, ours = (CASES | SINGLE)[case]
    table = "" if case == "linear" else "-csv t.csv"
    # without threads, tcksift2 leaves all fixels out
    words = f"-nthreads 2 -out_mu tmu.txt -out_coeffs tc.txt {table} {theirs}"
    call(f"tcksift2 SIFT_phantom/tracks.tck SIFT_phantom/fods.mif t.txt {words}")
    named = {f"sift2_{name}": f"SIFT_phantom/{value}.mif" if name in ("act", "proc_mask") else value
             for name, value in ours.items()}
    files = {"sift2_mu": "mu.txt", "sift2_coeffs": "c.txt"} | ({} if case == "linear" else {"sift2_csv": "c.csv"})
    result = ts.map_tractogram(
        "SIFT_phantom/tracks.tck", sift2=("SIFT_phantom/fods.mif", "w.txt"), force=True, **files, **named
    )
    coefficients, expected = np.loadtxt("c.txt"), np.loadtxt("tc.txt")
    kept = np.isfinite(expected)
    np.testing.assert_array_equal(np.isfinite(coefficients), kept)
    assert np.corrcoef(coefficients[kept], expected[kept])[0, 1] > 0.9999
    assert np.abs(coefficients - expected)[kept].mean() < 0.003
    np.testing.assert_allclose(np.loadtxt("mu.txt"), np.loadtxt("tmu.txt"), rtol=1e-3)
    np.testing.assert_allclose(np.loadtxt("w.txt"), np.exp(coefficients), rtol=1e-6)
    np.testing.assert_allclose(result["products"]["sift2"].weights, np.loadtxt("w.txt"), rtol=1e-6)
    if case != "linear":
        tables = (np.genfromtxt(name, delimiter=",", names=True, usecols=range(19)) for name in ("c.csv", "t.csv"))
        table, other = tables
        assert table.dtype.names == other.dtype.names
        assert abs(len(table) - len(other)) <= 2
        for name in ("Cost_data", "Cost_total", "Coeff_norm"):
            np.testing.assert_allclose(table[name][-1], other[name][-1], rtol=5e-3)
        assert table["Streamlines"][-1] == other["Streamlines"][-1]


def test_both_bundles_have_the_density_of_the_phantom(place, run, monkeypatch):
    """MRtrix3's own test of tcksift2, with its tolerance."""
    folder, call = place
    monkeypatch.chdir(folder)
    done = run("map", "SIFT_phantom/tracks.tck", "--sift2", "SIFT_phantom/fods.mif", "own.txt", "--force")
    assert done.code == 0, done.err
    assert "SIFT2: 12 iterations, 0.6% of the cost of the densities is left" in done.out + done.err
    call("tckmap SIFT_phantom/tracks.tck -template SIFT_phantom/mask.mif -precise -tck_weights_in own.txt own.mif")
    upper, lower = means_of_bundles("own.mif")
    assert abs(upper - lower) < 50


# ---------------------------------------------------------------------------------------------------- everywhere alike
def test_weights_depend_neither_on_threads_nor_on_parts():
    whole, _ = weigh(300, threads=1)
    assert len(whole.iterations) > 10 and whole.coefficients.std() > 0.1
    for threads, parts in ((2, 1), (3, 4)):
        other, _ = weigh(300, threads=threads, parts=parts)
        np.testing.assert_array_equal(other.coefficients, whole.coefficients)
        assert [state.data for state in other.iterations] == [state.data for state in whole.iterations]


def test_the_cost_falls_to_that_of_an_optimiser():
    """Without regularisation and with every fixel, the sum of squares is least, as bounded least squares find it."""
    fixels, lines = densities(), curves(200, seed=11)
    table, fibres, masks = fixels.table, fixels.fibres, fixels.masks
    weights, _ = weigh(200, reg_tv=0.0, min_td_frac=0.0, max_iters=400, min_iters=400)
    lengths = lengths_of(Visitor(table, STEP, choose("cpu")).parts(lines), len(lines), table.count)
    density = weights.mu * table.unit_mm * lengths.T
    np.testing.assert_allclose(np.sum(masks * density.sum(axis=1)), np.sum(masks * fibres), rtol=1e-6)
    cost = np.sum(masks * (density @ weights.weights - fibres) ** 2)
    np.testing.assert_allclose(weights.iterations[-1].data, cost, rtol=1e-3)
    root = np.sqrt(masks)
    best = 2 * lsq_linear(root[:, None] * density, root * fibres, (0, np.inf)).cost
    first = weights.iterations[0].data
    assert best < cost < best + 0.05 * (first - best)


def test_streamlines_that_visit_nothing_are_an_error():
    table, lines = fixel_table(), curves(5)
    parts = Visitor(table, STEP, choose("cpu")).parts(lines)
    nothing = np.zeros(table.counts.shape)
    with pytest.raises(InputError, match="in one space"):
        sift2(fixels_with(table, np.ones(table.count), nothing), parts, len(lines), choose("cpu"), Sift2Options())


# ------------------------------------------------------------------------------------------------------------- in a run
@pytest.fixture(scope="module")
def fod(tmp_path_factory):
    """An image of random FODs."""
    folder = tmp_path_factory.mktemp("fod")
    functions, _ = random_fods(8 * 8 * 8, seed=1)
    nib.save(nib.Nifti1Image(functions.reshape(8, 8, 8, -1), np.diag([2, 2, 2, 1.0])), folder / "fod.nii.gz")
    nib.save(nib.Nifti1Image(np.ones((8, 8, 8), np.uint8), np.diag([2, 2, 2, 1.0])), folder / "mask.nii.gz")
    return folder


def test_a_run_weighs_its_streamlines(fod, tmp_path):
    """As ``map`` weighs them afterwards, but for the rounding of points and for those that the file leaves out."""
    weights = tmp_path / "w.txt"
    result = ts.track(
        sh=fod / "fod.nii.gz", sh_basis="tournier07", output=tmp_path / "a.trx", dg="ifod1", nseeds=300, arch="cpu",
        seed_mask=fod / "mask.nii.gz", stop_mask=fod / "mask.nii.gz", min_length=0,
        sift2=(fod / "fod.nii.gz", weights), sift2_basis="tournier07",
    )
    values = np.loadtxt(weights)
    assert len(values) == result.n_streamlines > 100
    assert json.loads((tmp_path / "a.json").read_text())["sift2"]["mu"] > 0
    file = trx_file_memmap.load(str(tmp_path / "a.trx"))
    np.testing.assert_allclose(np.ravel(file.data_per_streamline["weights"]), values, rtol=1e-6)
    file.close()
    again = ts.map_tractogram(
        tmp_path / "a.trx", sift2=(fod / "fod.nii.gz", tmp_path / "m.txt"), sift2_basis="tournier07"
    )["products"]["sift2"]
    assert np.corrcoef(again.coefficients, np.log(values))[0, 1] > 0.999


def test_fods_of_another_place_are_told_before_tracking(fod, tmp_path):
    image = nib.load(fod / "fod.nii.gz")
    nib.save(nib.Nifti1Image(np.asarray(image.dataobj), image.affine + 100 * np.eye(4, k=3)), tmp_path / "far.nii.gz")
    with pytest.raises(InputError, match=r"far\.nii\.gz: no fixel lies in the tracked image"):
        ts.track(
            sh=fod / "fod.nii.gz", sh_basis="tournier07", output=tmp_path / "a.trx", dg="ifod1", nseeds=10, arch="cpu",
            seed_mask=fod / "mask.nii.gz", stop_mask=fod / "mask.nii.gz", sift2_basis="tournier07",
            sift2=(tmp_path / "far.nii.gz", tmp_path / "w.txt"),
        )
    assert not (tmp_path / "a.trx").exists()


def test_streamlines_beside_the_fods_are_warned_of(fod, tmp_path):
    lines = [np.array([[x, 2, 2], [x + 3, 5, 6]], np.float32) for x in (1.0, 4.0, 500.0)]
    nib.streamlines.save(nib.streamlines.Tractogram(lines, affine_to_rasmm=np.eye(4)), tmp_path / "a.tck")
    result = ts.map_tractogram(
        tmp_path / "a.tck", sift2=(fod / "fod.nii.gz", tmp_path / "w.txt"), sift2_basis="tournier07"
    )
    assert any("1 of 3 streamlines visit no fixel" in text for text in result["warnings"])
    assert np.loadtxt(tmp_path / "w.txt")[2] == 1


def test_a_run_whose_streamlines_visit_nothing_keeps_them(fod, tmp_path):
    """FODs and streamlines overlap, but where voxels count there is no streamline."""
    corner, other = np.zeros((2, 8, 8, 8), np.uint8)
    corner[:2], other[6:] = 1, 1
    for name, values in (("corner", corner), ("other", other)):
        nib.save(nib.Nifti1Image(values, np.diag([2, 2, 2, 1.0])), tmp_path / f"{name}.nii.gz")
    options = {
        "seed_mask": tmp_path / "corner.nii.gz", "stop_mask": tmp_path / "corner.nii.gz", "min_length": 0,
        "sift2": (fod / "fod.nii.gz", tmp_path / "w.txt"), "sift2_basis": "tournier07",
        "sift2_proc_mask": tmp_path / "other.nii.gz", "sift2_csv": tmp_path / "c.csv", "sift2_mu": tmp_path / "mu.txt",
    }
    with pytest.warns(UserWarning, match="50 of 50 streamlines visit no fixel"):
        result = ts.track(
            sh=fod / "fod.nii.gz", sh_basis="tournier07", output=tmp_path / "a.tck", dg="ifod1", nseeds=50, arch="cpu",
            **options,
        )
    assert result.n_streamlines == len(nib.streamlines.load(tmp_path / "a.tck").streamlines) == 50
    np.testing.assert_array_equal(np.loadtxt(tmp_path / "w.txt"), np.ones(50))
    assert json.loads((tmp_path / "a.json").read_text())["sift2"]["mu"] is None
    assert str(result.products["sift2"]) == "SIFT2: no streamline visits a fixel, so all weights are 1"


def test_no_streamlines_have_no_weights(fod, tmp_path):
    result = ts.track(
        sh=fod / "fod.nii.gz", sh_basis="tournier07", output=tmp_path / "a.trx", dg="ifod1", nseeds=10, arch="cpu",
        seed_mask=fod / "mask.nii.gz", stop_mask=fod / "mask.nii.gz", min_length=150, sift2_basis="tournier07",
        sift2=(fod / "fod.nii.gz", tmp_path / "w.txt"),
    )
    assert result.n_streamlines == 0
    assert (tmp_path / "w.txt").read_text() == ""
    assert str(result.products["sift2"]) == "SIFT2: there are no streamlines"
    assert facts(result.products["sift2"]) == {
        "proportionality coefficient mu": "none, since no streamline visits a fixel"
    }
    assert json.loads((tmp_path / "a.json").read_text())["sift2"]["mu"] is None


@pytest.mark.parametrize(("code", "words", "parts"), [
    (2, ["--sift2", "fod.nii.gz", "w.txt"], ["--sift2-basis is needed"]),
    (1, ["--sift2", "nothing.mif", "w.txt"], ["nothing.mif"]),
    (1, ["--sift2", "fod.nii.gz", "w.png", "--basis", "tournier07"], [".png"]),
    (2, ["--sift2", "fod.nii.gz", "w.txt", "--basis", "tournier07", "--fd-scale-gm"], ["--sift2-act"]),
    (1, ["--sift2", "fod.nii.gz", "w.txt", "--basis", "tournier07", "--act", "mask.nii.gz"], ["mask.nii.gz", "labels"]),
    (2, ["--sift2", "fod.nii.gz", "w.txt", "--basis", "tournier07", "--linear", "--csv", "c.csv"], ["--sift2-csv"]),
    (2, ["--sift2", "fod.nii.gz", "w.txt", "--basis", "tournier07", "--make-null-lobes"], ["--sift2-no-dilate-lut"]),
    (2, ["--csv", "c.csv"], ["--sift2"]),
])
def test_a_mistake_is_told_in_a_line(run, fod, monkeypatch, tmp_path, code, words, parts):
    lines = curves(20)
    tractogram = nib.streamlines.Tractogram(list(lines), affine_to_rasmm=np.eye(4))
    monkeypatch.chdir(tmp_path)
    for name in ("fod.nii.gz", "mask.nii.gz"):
        shutil.copy(fod / name, tmp_path)
    nib.streamlines.save(tractogram, "a.tck")
    before = sorted(path.name for path in tmp_path.iterdir())
    one_line(run("map", "a.tck", *words), code, *parts)
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_better_weights_may_reach_less_of_the_fibre_density():
    """Of fixels with fibre densities 1, 1, 1 and 4, of which the last one is in no mask; what falls is the excess."""
    fibres, masks = np.array([1.0, 1, 1, 4]), np.array([1.0, 1, 1, 0])
    first, visits = np.array([4.0, 2, 0, 9]), np.array([2, 2, 0, 3])
    compared = vars(module)["_FixelDensities"](fibres, masks, first, visits, 0.5, np.zeros(4, bool))
    cost = compared.cost
    assert compared.shares == (pytest.approx(2 / 3), pytest.approx(1 / 3))
    compared.update(np.array([[2.2, 0], [1.6, 0], [0, 0], [0, 0]]))
    assert compared.cost < cost
    assert compared.shares == (pytest.approx(1.8 / 3), pytest.approx(0.1 / 3))
