"""FODs against MRtrix3's programs, the folder that is written, and errors in one line."""

import errno
import json
import shutil
import subprocess
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from commands import one_line
from nights import at_night

import tistreamlines as ts
from tistreamlines.errors import InputError, OutputError, ParameterError
from tistreamlines.io.images import open_image, read_array
from tistreamlines.io.sidecar import checksum
from tistreamlines.phantom.shells import make_shells
from tistreamlines.run.fod_files import SYMMETRIC
from tistreamlines.run.fods import plan_fods
from tistreamlines.space.harmonics import frame_of, order_of, sampling_matrix

MRTRIX = pytest.mark.skipif(shutil.which("dwi2fod") is None, reason="MRtrix3 is not installed")
TURN = np.linalg.qr(np.random.default_rng(5).normal(size=(3, 3)))[0]
# signals of white matter, grey matter and fluid in the phantom; rows are those of b = 0, 1000 and 2500
RESPONSES = {
    "wm": [[1050, 0, 0], [550, -220, 44], [310, -210, 100]],
    "gm": [[1490], [640], [180]], "csf": [[4250], [210], [3]],
}


def affine_of(name):
    """Upright axes, one that is flipped, and oblique ones of both hands."""
    affine = np.eye(4)
    turn = TURN * np.sign(np.linalg.det(TURN)) if "oblique" in name else np.eye(3)
    affine[:3, :3] = turn * ([-8, 8, 8] if "flipped" in name else [8, 8, 8])
    affine[:3, 3] = -30, 20, 10
    return affine


@pytest.fixture(scope="module")
def phantom():
    """A small head of three tissues, with two b0s and two shells."""
    return make_shells((18, 22, 16), 8.0, {0.0: 2, 1000.0: 20, 2500.0: 30})


@pytest.fixture(scope="module")
def folder(phantom, tmp_path_factory):
    """The series on different axes, in NIfTI and in MRtrix3's format, and the responses."""
    there = tmp_path_factory.mktemp("series")
    for axes in ("upright", "flipped", "oblique", "oblique flipped"):
        affine = affine_of(axes)
        nib.save(nib.Nifti1Image(phantom.data.astype(np.float32), affine), there / f"{axes}.nii.gz")
        nib.save(nib.Nifti1Image(phantom.mask.astype(np.uint8), affine), there / f"{axes} mask.nii.gz")
        fsl = phantom.bvecs * ([-1, 1, 1] if np.linalg.det(affine[:3, :3]) > 0 else [1, 1, 1])
        np.savetxt(there / f"{axes}.bval", phantom.bvals[None], "%g")
        np.savetxt(there / f"{axes}.bvec", fsl.T)
        if shutil.which("mrconvert"):
            gradients = ("-fslgrad", there / f"{axes}.bvec", there / f"{axes}.bval")
            call("mrconvert", there / f"{axes}.nii.gz", *gradients, there / f"{axes}.mif")
    for name, rows in RESPONSES.items():
        (there / f"{name}.txt").write_text("".join(" ".join(map(str, row)) + "\n" for row in rows))
    return there


def call(*words):
    return subprocess.run([*words, "-quiet"], check=True, capture_output=True, text=True).stdout


def files_of(folder, axes="upright", suffix=".nii.gz"):
    """Arguments of a series, its mask and its responses."""
    series = [folder / f"{axes}{end}" for end in (suffix, ".bval", ".bvec")][: 1 if suffix == ".mif" else 3]
    return series, {"mask": folder / f"{axes} mask.nii.gz"} | ({} if suffix == ".mif" else {"bvecs_frame": "fsl"})


def responses(folder):
    return {f"response_{name}": folder / f"{name}.txt" for name in RESPONSES}


def leftovers(folder):
    """Hidden files of drafts and locks."""
    return [path for path in folder.iterdir() if path.name.startswith(".")]


def read(path):
    return np.asarray(read_array(*open_image(path)), np.float64)


def straight(path, tmp_path):
    """The values of an image on the axes as NIfTI stores them, whatever the program made of them."""
    call("mrconvert", path, tmp_path / "straight.nii", "-strides", "1,2,3,4", "-force")
    return nib.load(tmp_path / "straight.nii").get_fdata()


# ------------------------------------------------------------------------------------------------------ against MRtrix3
@MRTRIX
@pytest.mark.parametrize(("axes", "suffix", "format"), [
    ("oblique flipped", ".nii.gz", "nii.gz"), ("oblique flipped", ".mif", "mif"), *at_night(
        ("upright", ".nii.gz", "mif"), ("flipped", ".mif", "nii.gz"), ("oblique", ".nii.gz", "nii.gz"),
    ),
])
def test_mrtrix_finds_the_same_directions(folder, tmp_path, axes, suffix, format):
    series, options = files_of(folder, axes, suffix)
    ours, theirs = tmp_path / f"fods/wmfod.{format}", tmp_path / "theirs.mif"
    result = ts.fit_fods(*series, folder=tmp_path / "fods", model="csd", format=format, lmax=6, **options)
    assert sorted(result.fit.coefficients) == ["wm"]
    call("dwi2fod", "csd", folder / f"{axes}.mif", tmp_path / "fods/response_wm.txt", theirs, "-lmax", "6",
         "-shells", "2500")
    peaks = []
    for path in (ours, theirs):
        call("sh2peaks", path, tmp_path / "peaks.mif", "-num", "1", "-force")
        peaks.append(np.nan_to_num(straight(tmp_path / "peaks.mif", tmp_path)))
    size = [np.linalg.norm(peak, axis=-1) for peak in peaks]
    fibre = size[1] > 0.5 * np.percentile(size[1], 99)
    cosine = np.abs((peaks[0] * peaks[1]).sum(axis=-1)[fibre]) / (size[0] * size[1])[fibre]
    assert fibre.sum() > 50
    assert (cosine > np.cos(np.radians(10))).mean() > 0.95


@MRTRIX
def test_tissues_are_those_of_dwi2fod_and_mtnormalise(folder, tmp_path):
    axes = "oblique flipped"
    series, options = files_of(folder, axes)
    result = ts.fit_fods(*series, folder=tmp_path / "fods", **options, **responses(folder))
    names = {"wm": "wmfod", "gm": "gm", "csf": "csf"}
    pairs = [word for name in names for word in (folder / f"{name}.txt", tmp_path / f"{name}.mif")]
    call("dwi2fod", "msmt_csd", folder / f"{axes}.mif", *pairs, "-mask", options["mask"], "-nthreads", "1")
    pairs = [tmp_path / f"{name}{end}.mif" for name in names for end in ("", "_normalised")]
    call("mtnormalise", *pairs, "-mask", options["mask"], "-nthreads", "1")
    mask = result.fit.mask
    for name, image in names.items():
        ours = straight(tmp_path / f"fods/{image}.mif", tmp_path)[mask]
        theirs = straight(tmp_path / f"{name}_normalised.mif", tmp_path)[mask]
        assert np.abs(ours - theirs).mean() < 1e-4 * np.abs(theirs).mean()
        assert np.corrcoef(ours.ravel(), theirs.ravel())[0, 1] > 0.9999
    scale = call("mrinfo", tmp_path / "wm_normalised.mif", "-property", "lognorm_scale")
    np.testing.assert_allclose(result.fit.scale, float(scale), rtol=1e-4)


@MRTRIX
def test_mrtrix_goes_on_from_the_folder(folder, tmp_path):
    series, options = files_of(folder, "flipped")
    result = ts.fit_fods(*series, folder=tmp_path / "fods", **options, **responses(folder))
    fods = tmp_path / "fods/wmfod.mif"
    assert call("mrinfo", fods, "-property", "shells").strip() == "0,1000,2500"
    assert b"\ndw_scheme" not in fods.read_bytes()
    assert float(call("mrinfo", fods, "-property", "lognorm_scale")) == result.fit.scale
    assert b"\nprior_dw_scheme: " in fods.read_bytes()
    call("fod2fixel", fods, tmp_path / "fixels", "-mask", tmp_path / "fods/mask.mif")
    call("tckgen", "-algorithm", "SD_Stream", fods, tmp_path / "lines.tck", "-seed_image", tmp_path / "fods/mask.mif",
         "-select", "20", "-nthreads", "1")
    call("dwi2fod", "msmt_csd", folder / "flipped.mif", tmp_path / "fods/response_wm.txt", tmp_path / "again.mif",
         "-mask", tmp_path / "fods/mask.mif", "-nthreads", "1")
    assert call("mrinfo", tmp_path / "fods/tissues.mif", "-size").split()[3] == "3"


# ------------------------------------------------------------------------------------------------------ what is written
def test_the_folder_is_complete(folder, tmp_path, run):
    series, options = files_of(folder)
    words = [word for name, path in responses(folder).items() for word in (f"--{name.replace('_', '-')}", path)]
    page = tmp_path / "fods.html"
    done = run("fod", *series, "-o", tmp_path / "fods", "--mask", options["mask"], "--bvecs-frame", "fsl", *words,
               "--lmax", "4,0,0", "--report", page)
    assert done.code == 0, done
    assert "msmt" in done.out
    names = {path.name for path in (tmp_path / "fods").iterdir()}
    images = ("wmfod", "gm", "csf", "tissues", "mask", "failed", "residual", "field")
    assert names == {f"{name}.mif" for name in images} | {f"response_{name}.txt" for name in RESPONSES} | {"fod.json"}
    record = json.loads((tmp_path / "fods/fod.json").read_text())
    assert record["checksum"] == checksum(record)
    assert record["parameters"]["model"] == "msmt"
    assert record["parameters"]["lmax"] == "4,0,0"
    assert set(record["inputs"]) == {"dwi", "bvals", "bvecs", "mask", *responses(folder)}
    assert read(tmp_path / "fods/wmfod.mif").shape[3] == 15
    shares = read(tmp_path / "fods/tissues.mif")
    inside = shares.any(axis=-1)
    np.testing.assert_allclose(shares[inside].sum(axis=-1), 1, atol=1e-5)
    text = page.read_text(encoding="utf-8")
    for words in ("Responses", "Tissues", "Residuals", "Normalisation", "FODs in a slice", "tistreamlines fod"):
        assert words in text
    assert "http" not in text.partition("<main>")[2].replace("doi", "")
    assert not leftovers(tmp_path)


@pytest.mark.parametrize("basis", SYMMETRIC)
def test_every_basis_has_the_same_amplitudes(folder, tmp_path, basis):
    """Along the scanner's axes in tournier07, and along those of the voxels in DIPY's."""
    series, options = files_of(folder, "oblique flipped")
    result = ts.fit_fods(
        *series, folder=tmp_path / "fods", model="csd", lmax=4, sh_basis=basis, format="nii.gz", **options
    )
    values, directions = read(tmp_path / "fods/wmfod.nii.gz"), np.random.default_rng(0).normal(size=(20, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    along = directions @ result.space.axes if frame_of(basis) == "voxel" else directions
    expected = result.fit.coefficients["wm"] @ sampling_matrix(directions, 4, "tournier07").T
    amplitudes = values @ sampling_matrix(along, 4, basis).T
    np.testing.assert_allclose(amplitudes, expected, atol=1e-4 * expected.max())


def test_the_residual_is_that_of_the_fit(folder, phantom):
    series, options = files_of(folder)
    result = ts.fit_fods(*series, model="csd", lmax=4, shells=2500, **options)
    assert result.folder is None
    weighted = phantom.bvals == 2500
    zonal, degree = result.fit.responses["wm"][0], np.repeat([0, 2, 4], [1, 5, 9])
    fsl = phantom.bvecs[weighted]  # the axes are the scanner's
    design = sampling_matrix(fsl, 4, "tournier07") * zonal[degree // 2] / np.sqrt((2 * degree + 1) / (4 * np.pi))
    left = phantom.data[..., weighted] - result.fit.coefficients["wm"] @ design.T
    expected = np.where(phantom.mask, np.sqrt((left**2).mean(axis=-1)), 0)
    np.testing.assert_allclose(result.fit.residual, expected, atol=1e-3 * expected.max())


@pytest.mark.parametrize(("way", "options"), [
    ("fa", {"fa_response": 0.4}), ("tournier", {}), ("1e-3,3e-4,3e-4,300", {}),
])
def test_voxels_of_csds_response_are_written(folder, phantom, tmp_path, way, options):
    """Unless the response is given."""
    series, common = files_of(folder)
    result = ts.fit_fods(*series, tmp_path / "fods", model="csd", lmax=4, response=way, **common, **options)
    path, selections = tmp_path / "fods/voxels.mif", result.fit.selections
    assert path.exists() == ("wm" in selections) == (way in ("fa", "tournier"))
    if path.exists():
        np.testing.assert_array_equal(read(path), np.stack([0 * selections["wm"]] * 2 + [selections["wm"]], axis=-1))
        unweighted = phantom.data[selections["wm"]][:, phantom.bvals == 0].mean()
        np.testing.assert_allclose(unweighted, result.record["chosen"]["response"]["b0_signal"], rtol=1e-5)
        assert result.record["result"]["selected"] == {"wm": selections["wm"].sum()}


def test_streamlines_follow_what_is_written(folder, tmp_path):
    """As when the fit is part of the run, bit for bit: nothing is turned on these axes."""
    series, options = files_of(folder)
    ts.fit_fods(*series, folder=tmp_path / "fods", **options, **responses(folder))
    common = {"dg": "ifod2", "seed_mask": options["mask"], "nseeds": 50, "arch": "cpu"}
    fitted = ts.track(*series, model="msmt", sh_order=4, **options, **responses(folder), **common)
    written = ts.track(sh=tmp_path / "fods/wmfod.mif", **common)
    assert len(fitted) == len(written) > 5
    for streamline, other in zip(fitted, written, strict=True):
        np.testing.assert_array_equal(streamline, other)


def test_shells_and_options_choose_the_model(folder):
    series, options = files_of(folder)
    for chosen in ({"shells": 2500}, {"csd_lambda": 0.5}, {"response": "fa", "fa_response": 0.4}):
        assert ts.fit_fods(*series, lmax=4, **options, **chosen).record["parameters"]["model"] == "csd"
    whole = ts.fit_fods(*series, normalise=False, **options, **responses(folder))
    assert whole.record["parameters"]["model"] == "msmt"
    assert whole.fit.field is None


def test_voxels_without_signal_are_counted(phantom, folder, tmp_path):
    data = phantom.data.astype(np.float32).copy()
    first, second = np.argwhere(phantom.mask)[[40, 200]]
    data[tuple(first)], data[tuple(second)] = 0, np.nan
    with pytest.warns(UserWarning, match="FODs are 0"):
        result = ts.fit_fods(
            nib.Nifti1Image(data, np.eye(4)), phantom.bvals, phantom.bvecs, mask=phantom.mask, model="csd", lmax=4,
        )
    assert result.fit.failed.sum() == 2
    assert result.fit.failed[tuple(first)]
    assert result.fit.failed[tuple(second)]


# ------------------------------------------------------------------------------------------------------------- dry runs
@pytest.mark.parametrize(("options", "words"), [
    ({"model": "csd", "lmax": 4}, ("csd", "wm of order 4 (15)", "b = 0 (2), b = 2500 (30)", "2,072", "dwi2response")),
    ({"responses": True, "normalise": False, "format": "nii.gz", "report": "beside"},
     ("wm of order 4 (15), gm of order 0 (1)", "b = 0 (2), b = 1000 (20), b = 2500 (30)", "gm.txt", "and ")),
    *at_night(
        ({"response": "1e-3,3e-4,3e-4,300", "report": "in"}, ("csd", "1e-3,3e-4,3e-4,300", "report.html")),
        ({"model": "msmt"}, ("msmt, normalised", "dwi2response dhollander", "voxels.mif")),
    ),
])
def test_a_dry_run_says_what_the_run_writes(folder, tmp_path, run, options, words):
    series, common = files_of(folder)
    reports = {"in": tmp_path / "fods/report.html", "beside": tmp_path / "report.html"}
    named = {**common, **(responses(folder) if options.get("responses") else {}), **options}
    named.pop("responses", None)
    named |= {"report": reports[options["report"]]} if "report" in options else {}
    flags = [word for name, value in named.items() for word in (
        ["--no-normalise"] if value is False else [f"--{name.replace('_', '-')}", value]
    )]
    done = run("fod", *series, "-o", tmp_path / "fods", "--dry-run", *flags)
    assert done.code == 0, done
    assert not list(tmp_path.iterdir())
    for part in words:
        assert part in done.out
    plan = plan_fods(*series, tmp_path / "fods", **named)
    result = ts.fit_fods(*series, tmp_path / "fods", **named)
    assert list(plan.files) == sorted(path.name for path in result.folder.iterdir())
    assert plan.orders == {
        name: order_of(values.shape[-1]) if values.shape[-1] > 1 else 0
        for name, values in result.fit.coefficients.items()
    }
    assert plan.voxels == result.fit.mask.sum()
    assert [*plan.shells][-len(result.fit.shells) :] == result.fit.shells


def test_a_note_on_the_order_names_the_option_of_the_command(folder, run):
    """The series has fewer directions than coefficients of order 8."""
    series, options = files_of(folder)
    words = ("fod", *series, "--mask", options["mask"], "--model", "csd", "--dry-run")
    assert "--sh-order" not in run(*words).err
    assert "so --lmax is 6, not 8" in run(*words).err


def test_a_dry_run_needs_no_folder(folder, run):
    series, options = files_of(folder)
    words = ("fod", *series, "--mask", options["mask"], "--model", "csd", "--bvecs-frame", "fsl")
    assert "that of --output" in run(*words, "--dry-run").out
    assert "Missing option '-o'" in run(*words).err


# -------------------------------------------------------------------------------------------------------------- errors
def test_folders_are_not_overwritten(folder, tmp_path, run):
    series, options = files_of(folder)
    words = ("fod", *series, "-o", tmp_path / "fods", "--mask", options["mask"], "--model", "csd", "--lmax", "4", "-q")
    assert run(*words).code == 0
    one_line(run(*words), 1, "is not empty", "--force")
    assert run(*words, "--force", "--format", "nii.gz").code == 0
    assert not (tmp_path / "fods/wmfod.mif").exists()
    (tmp_path / "link").symlink_to("fods")
    assert run(*words[:5], tmp_path / "link", *words[6:], "--force").code == 0
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "fods/wmfod.mif").exists()
    (tmp_path / "fods/notes.txt").write_text("text")
    one_line(run(*words, "--force"), 1, "notes.txt", "remove it")
    (tmp_path / "file").write_text("text")
    one_line(run(*words[:5], tmp_path / "file", *words[6:]), 1, "exists already")
    one_line(run(*words[:5], tmp_path / "no/fods", *words[6:]), 1, "make it first")
    assert not leftovers(tmp_path)


def test_the_name_of_an_image_is_no_name_of_a_new_folder(folder, tmp_path, run):
    series, options = files_of(folder)
    words = ("fod", *series, "--mask", options["mask"], "--model", "csd", "--lmax", "4", "-q")
    one_line(run(*words, "-o", tmp_path / "wm.nii.gz"), 1, "to a folder", "without .nii.gz")
    one_line(run(*words, "-o", tmp_path / "WM.MIF"), 1, "to a folder", "without .mif")
    assert not leftovers(tmp_path)
    (tmp_path / "old.mif").mkdir()
    assert run(*words, "-o", tmp_path / "old.mif").code == 0
    fixels = run("fixels", tmp_path / "old.mif" / "wmfod.mif", tmp_path / "fixels.nii", "-q")
    one_line(fixels, 1, "to a folder", "without .nii")


@pytest.mark.parametrize("stage", ["responses", "fit", "write", "place", "report"])
def test_nothing_half_written_stays(folder, tmp_path, stage):
    class Ended(ts.Watcher):
        def stage(self, name):
            if name == stage:
                raise KeyboardInterrupt

    series, options = files_of(folder)
    with pytest.raises(KeyboardInterrupt):
        ts.fit_fods(*series, folder=tmp_path / "fods", report=tmp_path / "fods.html", watcher=Ended(), lmax=(4, 0, 0),
                    **options, **responses(folder))
    assert (tmp_path / "fods").exists() == (stage == "report")
    assert not leftovers(tmp_path)


def test_a_report_may_lie_in_the_folder(folder, tmp_path):
    """It appears with the other files, and is replaced with them."""
    series, options = files_of(folder)
    there, stages = tmp_path / "fods", []
    options |= {"model": "csd", "lmax": 4, "folder": there}

    class Seen(ts.Watcher):
        def stage(self, name):
            stages.append((name, there.exists()))

    ts.fit_fods(*series, **options, report=there / "report.html", watcher=Seen())
    assert {name: exists for name, exists in stages}["place"] is False
    assert ("report", False) in stages
    assert {"report.html", "wmfod.mif"} <= set(json.loads((there / "fod.json").read_text())["files"])
    ts.fit_fods(*series, **options, report=there / "other.html", force=True)
    assert [path.name for path in there.glob("*.html")] == ["other.html"]
    with pytest.raises(OutputError, match=r"gets no folders within; give .*report\.html"):
        ts.fit_fods(*series, **options, report=there / "more/report.html", force=True)
    (there / "mine.html").write_text("text")
    with pytest.raises(OutputError, match=r"has mine\.html, which is not replaced"):
        ts.fit_fods(*series, **options, force=True)
    assert not leftovers(tmp_path)


def test_a_full_disk_leaves_the_earlier_folder(folder, tmp_path, monkeypatch):
    series, options = files_of(folder)
    options |= {"model": "csd", "lmax": 4, "folder": tmp_path / "fods"}
    ts.fit_fods(*series, **options)
    before = (tmp_path / "fods/fod.json").read_bytes()

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OutputError, match="No space left on device"):
        ts.fit_fods(*series, force=True, **options)
    assert (tmp_path / "fods/fod.json").read_bytes() == before
    assert not leftovers(tmp_path)


@pytest.mark.parametrize(("options", "words"), [
    ({"model": "dti"}, "--model is 'dti'"), ({"lmax": 3}, "--lmax is 3"), ({"lmax": "8,x"}, "--lmax is '8,x'"),
    ({"lmax": (8, 0, 0, 0)}, "--lmax is (8, 0, 0, 0)"), ({"lmax": 0}, "--lmax is 0"),
    ({"model": "csd", "lmax": "8,0"}, "--model csd one tissue"), ({"format": "nii"}, "--format is 'nii'"),
    ({"sh_basis": "tournier07_full"}, "--sh-basis is"), ({"sh_basis": "descoteaux07"}, "needs --format nii.gz"),
    ({"model": "msmt", "csd_lambda": 1}, "--csd-lambda"), ({"model": "csd", "normalise": False}, "--normalise"),
    ({"csd_lambda": 0}, "--csd-lambda is"), ({"threads": 0}, "--threads is 0"), ({"shells": "x"}, "--shells is 'x'"),
    ({"model": "csd", "response_wm": "wm.txt"}, "--response-wm"), ({"response_gm": "gm.txt"}, "needs --response-wm"),
])
def test_wrong_options_are_named(folder, options, words):
    series, common = files_of(folder)
    with pytest.raises(ParameterError) as error:
        ts.fit_fods(*series, **{**common, **options})
    assert words in error.value.on_command_line


@pytest.mark.parametrize(("bvals", "options", "words"), [
    ([0, 0, *[1000] * 50], {"model": "msmt", "response_wm": "three"}, "has 3 rows, but the series the shells b = 0,"),
    ([0, 0, *[1000] * 49, 3000], {"response_wm": "three"}, "has 3 rows"), ([1000] * 52, {"model": "csd"}, "no b0"),
    ([60] * 26 + [2000] * 26, {"model": "msmt"}, "the lowest b-value"), ([0] * 52, {}, "the highest b-value is 0"),
    (None, {"mask": "ten"}, "mask"), (None, {"mask": "none"}, "mask"),
    (None, {"shells": 700}, "--shells has 700"), (None, {"response_wm": "missing"}, "no such file"),
    (None, {"response_wm": "ragged"}, "rows of"), (None, {"response_wm": "nan"}, "has nan"),
    (None, {"response_wm": "gm.txt"}, "no direction"), (None, {"response_wm": "negative"}, "of row 2 is -550"),
    (None, {"response_wm": "flat"}, "not negative"), (None, {"response_wm": "three", "response_csf": "zero"}, "1 is 0"),
    (None, {"report": "page.txt"}, "unknown suffix"), (None, {"response_wm": "three", "lmax": (8, 0)}, "--lmax"),
])
def test_bad_input_is_one_line(phantom, folder, tmp_path, bvals, options, words):
    few = np.zeros(phantom.mask.shape)
    few[tuple(np.argwhere(phantom.mask)[:10].T)] = 1
    (tmp_path / "ragged").write_text("1 0\n2\n3 4\n")
    (tmp_path / "nan").write_text("nan 0\n2 1\n3 4\n")
    (tmp_path / "negative").write_text("1050 0\n-550 -220\n310 -210\n")
    (tmp_path / "flat").write_text("1050 0\n550 220\n310 210\n")
    (tmp_path / "zero").write_text("0\n0\n0\n")
    named = {"ten": few, "none": few * 0, "three": folder / "wm.txt", "page.txt": tmp_path / "page.txt"}
    named |= {name: tmp_path / name for name in ("missing", "ragged", "nan", "negative", "flat", "zero")}
    named["gm.txt"] = folder / "gm.txt"
    options = {name: named.get(value, value) if isinstance(value, str) else value for name, value in options.items()}
    options = {"mask": phantom.mask, **options}
    vectors = np.random.default_rng(1).normal(size=(len(phantom.bvals), 3))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors = phantom.bvecs if bvals is None else vectors
    for function in (ts.fit_fods, plan_fods)[: 1 if words == "mask" else 2]:  # a dry run estimates no response
        with pytest.raises((InputError, OutputError, ParameterError)) as error:
            function(
                phantom.data, phantom.bvals if bvals is None else bvals, vectors, folder=tmp_path / "fods",
                affine=np.eye(4), **options,
            )
        assert words in error.value.on_command_line
        assert "\n" not in str(error.value)
        assert not (tmp_path / "fods").exists()
