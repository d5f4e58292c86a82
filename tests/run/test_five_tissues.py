"""Five-tissue-type images that are made: the tissues of labels, shares of fractions, and errors in one line."""

import os
import shutil
import subprocess
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from commands import one_line

import tistreamlines as ts
from tistreamlines.errors import InputError, ParameterError
from tistreamlines.io.segmentations import load_five_tissues

AFFINE = np.diag([-2.0, 2, 2, 1])
CORTICAL, DEEP, WHITE, FLUID, PATHOLOGICAL = range(5)
# FreeSurfer's labels and 5ttgen's tissues, with both ends of each range of numbers
KNOWN = {
    CORTICAL: (3, 8, 17, 18, 42, 47, 53, 54, 96, 97, 1000, 1035, 1100, 1181, 2000, 2035, 11100, 11175, 12100, 12175),
    DEEP: (9, 10, 11, 12, 13, 25, 26, 48, 49, 50, 51, 52, 57, 58),
    WHITE: (2, 7, 16, 28, 41, 46, 60, 85, 155, 175, 192, 250, 251, 255, 3000, 4035, 5001, 5002, 13100, 14175),
    FLUID: (4, 5, 14, 15, 24, 30, 31, 43, 44, 62, 63, 72),
    PATHOLOGICAL: (77, 78, 79, 80, 81, 82, 180, 181),
}
MAPS = ("pve_wm", "pve_gm", "pve_csf")
SCRIPT_DATA = os.environ.get("MRTRIX3_SCRIPT_DATA")


def image_of(labels, kind=np.int32):
    """An image of labels in a row, with a voxel of none at either end."""
    return nib.Nifti1Image(np.array([0, *labels, 0], kind).reshape(-1, 1, 1), AFFINE)


def fractions_of(image):
    return np.asarray(image.dataobj)


def assert_accepted(path):
    """5ttcheck accepts an image without a warning."""
    done = subprocess.run(["5ttcheck", path], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "[WARNING]" not in done.stderr


@pytest.mark.parametrize("deep", [False, True])
def test_labels_belong_to_the_tissues_of_5ttgen(deep):
    pairs = [(label, tissue) for tissue, labels in KNOWN.items() for label in labels]
    values = fractions_of(ts.five_tissues(image_of([label for label, _ in pairs]), sgm_amyg_hipp=deep))[1:-1, 0, 0]
    for (label, tissue), value in zip(pairs, values, strict=True):
        expected = DEEP if deep and label in (17, 18, 53, 54) else tissue
        assert value.tolist() == np.eye(5)[expected].tolist(), label


@pytest.mark.skipif(SCRIPT_DATA is None, reason="MRTRIX3_SCRIPT_DATA names no copy of MRtrix3's script_test_data")
@pytest.mark.parametrize(("name", "options"), [
    ("nocrop", {}), ("default", {"crop": True}), ("sgm_amyg_hipp", {"crop": True, "sgm_amyg_hipp": True}),
])
def test_images_are_those_of_5ttgen(name, options):
    """The stored results of ``testing/scripts/tests/5ttgen`` in MRtrix3."""
    image = ts.five_tissues(Path(SCRIPT_DATA) / "BIDS/sub-01/anat/aparc+aseg.mgz", **options)
    values, space = load_five_tissues(Path(SCRIPT_DATA) / f"5ttgen/freesurfer/{name}.mif.gz")
    np.testing.assert_array_equal(fractions_of(image), values)
    np.testing.assert_allclose(image.affine, space.affine, atol=1e-4)


def test_the_command_writes_what_the_function_returns(tmp_path, run):
    labels = np.random.default_rng(2).choice([0, 2, 3, 10, 24, 77], (7, 8, 9)).astype(np.int32)
    labels[:3] = labels[:, :2] = labels[..., 7:] = 0
    nib.save(nib.MGHImage(labels, AFFINE), tmp_path / "aseg.mgz")
    done = run("5tt", tmp_path / "aseg.mgz", "-o", tmp_path / "5tt.nii.gz", "--crop")
    assert done.code == 0, done
    assert "ml of pathological tissue" in done.out
    written = nib.load(tmp_path / "5tt.nii.gz")
    assert written.shape == (5, 7, 8, 5)
    assert written.get_data_dtype() == np.float32
    np.testing.assert_array_equal(written.affine @ [0, 0, 0, 1], AFFINE @ [2, 1, 0, 1])
    whole = fractions_of(ts.five_tissues(tmp_path / "aseg.mgz"))
    np.testing.assert_array_equal(written.dataobj, whole[2:, 1:, :8])
    assert whole.shape == (7, 8, 9, 5)
    np.testing.assert_array_equal(whole.sum(axis=-1), labels > 0)
    if shutil.which("5ttcheck") is not None:
        assert_accepted(tmp_path / "5tt.nii.gz")
    one_line(run("5tt", tmp_path / "aseg.mgz", "-o", tmp_path / "5tt.nii.gz"), 1, "exists already", "--force")
    assert run("5tt", tmp_path / "aseg.mgz", "-o", tmp_path / "5tt.nii.gz", "--force", "-q").out == ""


def test_unknown_labels_are_named(tmp_path, run):
    nib.save(image_of([2, 3, 165, 165, 600, 2**31 - 1]), tmp_path / "odd.nii")
    done = run("5tt", tmp_path / "odd.nii", "-o", tmp_path / "5tt.nii")
    one_line(done, 1, "odd.nii: 4 voxels have labels of no known tissue (165, 600, 2147483647)", "set these labels to")
    assert not (tmp_path / "5tt.nii").exists()


# ------------------------------------------------------------------------------------------------------- fractions
@pytest.fixture(scope="module")
def parts():
    """Fractions of three tissues, whose sums vary, and of subcortical grey matter, partly outside the brain."""
    rng = np.random.default_rng(7)
    three = rng.dirichlet(np.full(3, 0.4), (9, 10, 11)).astype(np.float32)
    three[4] = np.eye(3)[rng.integers(0, 3, (10, 11))]
    three *= rng.uniform(0.6, 1, (9, 10, 11, 1)).astype(np.float32)
    three[0], three[1] = 0, 0.1
    deep = np.where(rng.random((9, 10, 11)) < 0.3, rng.random((9, 10, 11)), 0).astype(np.float32)
    return three, deep


def images(parts):
    three, deep = parts
    maps = {name: nib.Nifti1Image(three[..., number], AFFINE) for number, name in enumerate(MAPS)}
    return maps, nib.Nifti1Image(deep, AFFINE)


@pytest.mark.filterwarnings("ignore:.*may be exchanged")
def test_fractions_are_combined_as_by_5ttgen(parts, tmp_path):
    """Fluid stays, then subcortical grey matter, and what is left is shared; compared with MRtrix3's mrcalc."""
    maps, deep = images(parts)
    values = fractions_of(ts.five_tissues(output=tmp_path / "5tt.nii", **maps, sgm=deep))
    sums, brain = values.sum(axis=-1), parts[0].sum(axis=-1) >= 0.5
    np.testing.assert_allclose(sums, brain, atol=1e-6)
    assert not values[..., PATHOLOGICAL].any()
    if shutil.which("mrcalc") is None:
        pytest.skip("MRtrix3 is not installed")
    assert_accepted(tmp_path / "5tt.nii")
    total = parts[0].sum(axis=-1, keepdims=True)
    # 5ttgen takes the fractions of FAST, which sum to 1
    three = np.where(brain[..., None], parts[0] / np.where(total > 0, total, 1), 0)
    for name, fractions in zip((*MAPS, "deep"), (*np.moveaxis(three, -1, 0), parts[1] * brain), strict=True):
        nib.save(nib.Nifti1Image(fractions.astype(np.float32), AFFINE), tmp_path / f"{name}.nii")

    def mrcalc(words, name):
        subprocess.run(["mrcalc", "-quiet", *words.split(), name], cwd=tmp_path, check=True)
        return np.asarray(nib.load(tmp_path / name).dataobj)

    np.testing.assert_allclose(values[..., FLUID], three[..., 2], atol=1e-6)
    left = mrcalc("1 pve_csf.nii -sub deep.nii -min", "sgm.nii")
    np.testing.assert_allclose(values[..., DEEP], left, atol=1e-6)
    mrcalc("1 pve_csf.nii sgm.nii -add -sub pve_gm.nii pve_wm.nii -add -div", "ratio.nii")
    for name, tissue in (("pve_gm", CORTICAL), ("pve_wm", WHITE)):
        share = mrcalc(f"ratio.nii -finite ratio.nii 0 -if {name}.nii -mult", f"{name}_share.nii")
        np.testing.assert_allclose(values[..., tissue], share, atol=1e-6)


def test_fractions_of_the_phantom(head, tmp_path, run):
    """Without subcortical grey matter a warning says so, and fractions that are exchanged are found."""
    files = [head.folder / f"{name}.nii.gz" for name in MAPS]
    words = [word for name, file in zip(MAPS, files, strict=True) for word in (f"--{name.replace('_', '-')}", file)]
    done = run("5tt", *words, "-o", tmp_path / "5tt.nii.gz")
    assert done.code == 0, done
    assert done.err.startswith("Warning: no subcortical grey matter is given")
    assert done.err.count("\n") == 1
    assert "subcortical" not in done.out
    values, _ = load_five_tissues(tmp_path / "5tt.nii.gz")
    wm, gm, csf = (fractions_of(nib.load(file)) for file in files)
    np.testing.assert_allclose(values[..., [WHITE, CORTICAL, FLUID]], np.stack([wm, gm, csf], axis=-1), atol=1e-4)
    words[1], words[3] = words[3], words[1]
    done = run("5tt", *words, "-o", tmp_path / "swapped.nii.gz")
    assert "may be exchanged" in done.err


@pytest.mark.filterwarnings("ignore:.*may be exchanged")
def test_labels_of_subcortical_grey_matter(parts):
    maps, _ = images(parts)
    labels = np.zeros((9, 10, 11), np.int16)
    labels[4:6, 2], labels[6, 2], labels[7, 2] = 10, 17, 16
    image = nib.Nifti1Image(labels, AFFINE)
    for options, inside in (({}, labels == 10), ({"sgm_amyg_hipp": True}, (labels == 10) | (labels == 17))):
        values = fractions_of(ts.five_tissues(**maps, sgm=image, **options))
        assert values[..., DEEP][~inside].max() == 0
        np.testing.assert_allclose(values[inside][:, [DEEP, FLUID]].sum(axis=-1), 1, atol=1e-6)


@pytest.mark.filterwarnings("ignore:.*may be exchanged")
def test_inputs_stay_as_they_are(parts):
    maps, _ = images(parts)
    before = maps["pve_wm"].get_fdata()
    maps["pve_wm"] = nib.Nifti1Image((before - 5e-4).astype(np.float32), AFFINE)
    with pytest.warns(UserWarning, match="subcortical"):
        ts.five_tissues(**maps)
    np.testing.assert_array_equal(maps["pve_wm"].dataobj, (before - 5e-4).astype(np.float32))


@pytest.mark.parametrize(("change", "error", "message"), [
    ({"pve_csf": None}, ParameterError, "give a segmentation, or all of"),
    ({"segmentation": image_of([2])}, ParameterError, "cannot be combined"),
    ({"pve_gm": np.zeros((9, 10, 11))}, ParameterError, "is an array"),
    ({"sgm_amyg_hipp": True}, ParameterError, "has none: leave the option out"),
    ({"sgm_amyg_hipp": True, "sgm": None}, ParameterError, "needs a segmentation, or labels"),
    ({"sgm": nib.Nifti1Image(np.full((9, 10, 11), 10, np.int16), AFFINE + 900 * np.eye(4, k=3))}, InputError,
     r"only zeros where pve_wm \(in memory\) lie"),
    ({"sgm": nib.Nifti1Image(np.full((9, 10, 11), 165, np.int16), AFFINE)}, InputError, "990 voxels have labels of"),
    ({"sgm": nib.Nifti1Image(np.zeros((9, 10, 11), np.int16), AFFINE)}, InputError, "has no subcortical grey matter"),
    ({"sgm": nib.Nifti1Image(np.full((9, 10, 11), 1.5, np.float32), AFFINE)}, InputError, "990 voxels are no"),
    ({"pve_csf": nib.Nifti1Image(np.full((9, 10, 11), -1, np.int16), AFFINE)}, InputError, "pve_csf .* no fractions"),
    ({name: nib.Nifti1Image(np.full((9, 10, 11), 0.1), AFFINE) for name in MAPS}, InputError, "in no voxel"),
])
@pytest.mark.filterwarnings("ignore")
def test_inputs_that_cannot_be_used(parts, change, error, message):
    maps, deep = images(parts)
    with pytest.raises(error, match=message):
        ts.five_tissues(**{**maps, "sgm": deep, **change})


def test_outputs_that_cannot_be_written(tmp_path, run):
    nib.save(image_of([2, 3]), tmp_path / "aseg.nii")
    one_line(run("5tt", tmp_path / "aseg.nii", "-o", tmp_path / "5tt.mif"), 1, "5tt.mif: unknown suffix", ".nii.gz")
    one_line(run("5tt", tmp_path / "aseg.nii", "--force", "-o", tmp_path / "aseg.nii"), 1, "is an input")
