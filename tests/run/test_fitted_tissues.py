"""Tissues of a fit of FODs: they end streamlines in the same run, and a five-tissue-type image is made of them."""

import shutil
import subprocess

import nibabel as nib
import numpy as np
import pytest
from nights import at_night

import tistreamlines as ts
from tistreamlines.errors import InputError, ParameterError
from tistreamlines.fit.tissues import TISSUES
from tistreamlines.phantom.shells import make_shells

# signals of the phantom's tissues; rows are those of b = 0, 1000 and 2500
RESPONSES = {
    "wm": [[1050, 0, 0], [550, -220, 44], [310, -210, 100]],
    "gm": [[1490], [640], [180]], "csf": [[4250], [210], [3]],
}


@pytest.fixture(scope="module")
def options(tmp_path_factory):
    """A small head of three tissues with two shells, and the responses of these, as files."""
    folder = tmp_path_factory.mktemp("series")
    phantom = make_shells((18, 22, 16), 8.0, {0.0: 2, 1000.0: 20, 2500.0: 30})
    arrays = {"dwi": phantom.data.astype(np.float32), "mask": phantom.mask.astype(np.uint8)}
    for name, values in arrays.items():
        nib.save(nib.Nifti1Image(values, phantom.affine), folder / f"{name}.nii.gz")
    np.savetxt(folder / "dwi.bval", phantom.bvals[None], "%g")
    np.savetxt(folder / "dwi.bvec", phantom.bvecs.T)
    for name, rows in RESPONSES.items():
        np.savetxt(folder / f"{name}.txt", rows)
    files = {f"response_{name}": folder / f"{name}.txt" for name in RESPONSES}
    return {"dwi": folder / "dwi.nii.gz", "mask": folder / "mask.nii.gz", "bvecs_frame": "voxel"} | files


@pytest.fixture(scope="module")
def fods(options, tmp_path_factory):
    """A folder of FODs, and what was fitted."""
    return ts.fit_fods(**options, folder=tmp_path_factory.mktemp("fods") / "fods", lmax=(4, 0, 0))


@pytest.fixture(scope="module")
def tracked(options):
    """Options of a run that follows the FODs of such a fit."""
    run = {"model": "msmt", "sh_order": 4, "nseeds": 100, "min_length": 0, "arch": "cpu", "pve": "fitted"}
    return options | run | {"seed_mask": options["mask"]}


def points(result):
    assert len(result) > 20
    return result.streamlines.get_data().tobytes()


# --------------------------------------------------------------------------------------------- where streamlines end
@pytest.mark.parametrize(("rule", "dg"), [("act", "prob"), *at_night(("cmc", "det"))])
def test_they_end_streamlines_as_their_shares_in_files_do(fods, tracked, tmp_path, rule, dg):
    """Also those of the cache: of all tables, or of the fit where another step needs other tables."""
    shares = fods.fit.shares()
    for name in TISSUES:
        nib.save(nib.Nifti1Image(shares[name], fods.space.affine), tmp_path / f"{name}.nii.gz")
    files = {f"pve_{name}": tmp_path / f"{name}.nii.gz" for name in TISSUES}
    common = tracked | {"dg": dg, "stopping": rule, "cache_dir": tmp_path / "cache"}
    whole = points(ts.track(**common | {"pve": None, "cache_dir": None} | files))
    first, again, written = (ts.track(**common | change) for change in ({}, {}, {"pve": None} | files))
    assert [points(result) for result in (first, again, written)] == [whole] * 3
    assert "fit" not in again.seconds
    assert first.record["parameters"]["pve"] == "fitted"
    assert not any(name.startswith("pve") for name in first.record["inputs"])
    long = common | {"step_size": 3.0}
    assert points(ts.track(**long)) == points(ts.track(**long | {"cache_dir": None})) != whole


@pytest.mark.nightly
def test_a_run_goes_on_with_the_same_tissues(tracked, tmp_path):
    """Of the night: by day, the record of a run names what it compares, and other tests go on."""

    class Ended(ts.Watcher):
        def stage(self, name):
            if name == "write":
                raise KeyboardInterrupt

    output, common = tmp_path / "a.trx", tracked | {"dg": "prob", "resume": True}
    with pytest.raises(KeyboardInterrupt):
        ts.track(**common, output=output, watcher=Ended())
    with pytest.raises(ParameterError, match="belongs to another run"):
        ts.track(**common | {"pve": None, "stop_mask": tracked["mask"]}, output=output)
    assert points(ts.track(**common, output=output)) == points(ts.track(**common | {"resume": False}))


@pytest.mark.parametrize(("change", "error", "words"), [
    ({"model": "csd"}, ParameterError, "--pve fitted takes the tissues of a fit: give a series and --model msmt"),
    ({"dwi": None, "bvecs_frame": None, "model": None, "sh": "fods"}, ParameterError, "--pve fitted takes the tissues"),
    ({"stopping": "threshold"}, ParameterError, "--pve can be used with"),
    ({"response_gm": None}, InputError, "has no grey matter, and --stopping act needs three tissues"),
])
def test_without_three_tissues_it_is_one_line(fods, tracked, change, error, words):
    files = {"fods": fods.folder / "wmfod.mif"}
    named = {name: files.get(value, value) for name, value in change.items()}
    if tracked["model"] != change.get("model", "msmt"):
        named |= dict.fromkeys(map("response_{}".format, TISSUES)) | {"sh_order": None}
    with pytest.raises(error) as caught:
        ts.track(**tracked | {"dg": "prob"} | named)
    assert words in caught.value.on_command_line
    assert "\n" not in str(caught.value)


# --------------------------------------------------------------------------------------- a five-tissue-type image
def test_a_five_tissue_image_is_made_of_them(fods, tracked, tmp_path, run):
    """Its fractions sum to 1 where there are FODs, and are 0 elsewhere; MRtrix3 and --act go on from it."""
    image, wmfod = tmp_path / "5tt.nii.gz", fods.folder / "wmfod.mif"
    done = run("5tt", "--tissues", fods.folder, "-o", image)
    assert done.code == 0, done
    assert done.err.startswith("Warning: the tissues of FODs do not tell cortical from subcortical grey matter")
    assert done.err.count("\n") == 1
    values = np.asarray(nib.load(image).dataobj)
    shares, there = fods.fit.shares(), fods.fit.mask & ~fods.fit.failed
    np.testing.assert_allclose(values.sum(axis=-1), there, atol=1e-6)
    expected = [shares["gm"], 0 * shares["gm"], shares["wm"], shares["csf"], 0 * shares["gm"]]
    np.testing.assert_allclose(values, np.stack(expected, axis=-1), atol=1e-6)
    seeds = {"seed_mask": tracked["mask"], "nseeds": 300}
    result = ts.track(sh=wmfod, dg="ifod2", act=image, min_length=0, arch="cpu", **seeds)
    assert result.stop_reasons["entered_cortex"] > 20
    assert len(result) > 20
    if shutil.which("5ttcheck") is None:
        pytest.skip("MRtrix3 is not installed")
    checked = subprocess.run(["5ttcheck", image], capture_output=True, text=True, check=False)
    assert (checked.returncode, "[WARNING]" in checked.stderr) == (0, False)
    words = ("-act", image, "-seed_image", tracked["mask"], "-select", "20", "-minlength", "0", "-nthreads", "1")
    subprocess.run(["tckgen", "-quiet", wmfod, tmp_path / "lines.tck", *words], check=True)
    assert len(nib.streamlines.load(tmp_path / "lines.tck").streamlines) == 20


def test_subcortical_grey_matter_is_added_to_them(fods, tmp_path):
    grey = fods.fit.shares()["gm"]
    values = np.asarray(ts.five_tissues(
        tissues=fods.folder, sgm=nib.Nifti1Image((grey > 0.5).astype(np.uint8), fods.space.affine)
    ).dataobj)
    assert (values[..., 1][grey > 0.5] >= grey[grey > 0.5] - 1e-6).all()
    np.testing.assert_allclose(values.sum(axis=-1), fods.fit.mask & ~fods.fit.failed, atol=1e-6)


@pytest.mark.parametrize(("change", "error", "words"), [
    ({"tissues": "nothing"}, InputError, "nothing: has no tissues.mif or tissues.nii.gz: give a folder that"),
    ({"segmentation": "aseg.nii"}, ParameterError, "--tissues and a segmentation cannot be combined"),
    ({"pve_wm": "wm.nii"}, ParameterError, "--tissues and --pve-wm cannot be combined"),
    ({"sgm_amyg_hipp": True}, ParameterError, "--sgm-amyg-hipp needs a segmentation"),
    ({"tissues": "two"}, InputError, "tissues.nii.gz: has not all of white matter, grey matter and fluid"),
])
def test_folders_that_cannot_be_used(fods, tmp_path, change, error, words):
    (tmp_path / "two").mkdir()
    shares = np.zeros((*fods.space.shape, 3), np.float32)
    shares[..., [0, 2]] = 0.5
    nib.save(nib.Nifti1Image(shares, fods.space.affine), tmp_path / "two/tissues.nii.gz")
    change |= {"tissues": tmp_path / change["tissues"]} if "tissues" in change else {}
    with pytest.raises(error) as caught:
        ts.five_tissues(**{"tissues": fods.folder} | change)
    assert words in caught.value.on_command_line
