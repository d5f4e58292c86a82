"""NaN in images: no signal outside the mask, a voxel less inside it, no function in FODs; and tckgen's streamlines."""

import shutil
import subprocess

import nibabel as nib
import numpy as np
import pytest
from head import SHAPE, straight_fod

import tistreamlines as ts
from tistreamlines.errors import InputError

AFFINE = np.diag([2.0, 2.0, 2.0, 1.0])
BLOCK = np.s_[14:17, :, :]


def points(result) -> np.ndarray:
    return np.concatenate([batch.points for batch in result.batches])


def saved(path, values, affine=AFFINE):
    nib.save(nib.Nifti1Image(np.asarray(values, np.float32), affine), path)
    return path


def tracked(head, dwi, mask, **options):
    return ts.track(
        dwi, *head.series[1:], mask=mask, dg="det", model="csa", nseeds=150, seed_mask=head.mask, arch="cpu", **options
    )


def test_nan_outside_the_mask_changes_nothing(head, tmp_path):
    data = head.phantom.data.copy()
    data[~head.phantom.mask] = np.nan
    result = tracked(head, saved(tmp_path / "dwi.nii.gz", data, head.phantom.affine), head.mask)
    assert np.array_equal(points(result), points(tracked(head, head.series[0], head.mask)))
    assert not any("NaN" in text for text in (*result.notes, *result.warnings))


@pytest.mark.filterwarnings("ignore:.*voxels of the mask have NaN")
def test_voxels_of_the_mask_with_nan_are_left_out_of_it(head, tmp_path):
    data, mask = head.phantom.data.copy(), head.phantom.mask.copy()
    places = np.argwhere(mask)[[900, 3000, 5000, 7000]]
    data[(*places.T, np.array([0, 5, 9, 20]))] = np.nan  # a volume each
    result = tracked(head, saved(tmp_path / "dwi.nii.gz", data, head.phantom.affine), head.mask)
    mask[tuple(places.T)], data[tuple(places.T)] = False, 0
    files = (saved(tmp_path / f"{name}.nii.gz", values, head.phantom.affine) for name, values in
             (("zero", data), ("fewer", mask)))
    assert np.array_equal(points(result), points(tracked(head, *files)))
    (warning,) = (text for text in result.warnings if "NaN" in text)
    first = tuple(map(int, places[0]))
    assert f"4 of {head.phantom.mask.sum()} voxels of the mask have NaN, the first is {first}; they are left" in warning


def test_a_mask_that_is_made_leaves_them_out_too(head, tmp_path):
    data = head.phantom.data.copy()
    inside = tuple(np.argwhere(head.phantom.mask)[4000])
    data[inside] = np.nan
    path = saved(tmp_path / "dwi.nii.gz", data, head.phantom.affine)
    result = ts.track(path, *head.series[1:], dg="det", model="csa", nseeds=50, arch="cpu")
    assert result.n_streamlines
    assert any(f"1 of {head.phantom.mask.size} voxels have NaN" in note for note in result.notes)


def test_a_mask_of_nan_alone_is_an_error(head, tmp_path):
    data = head.phantom.data.copy()
    data[head.phantom.mask] = np.nan
    path = saved(tmp_path / "dwi.nii.gz", data, head.phantom.affine)
    with pytest.raises(InputError, match=r"dwi.nii.gz: all \d+ voxels of the mask have NaN"):
        tracked(head, path, head.mask)


@pytest.fixture(scope="module")
def fods(tmp_path_factory):
    """Straight fibres, and the same with a block where they are NaN, or where one coefficient is, or zero."""
    folder, fod = tmp_path_factory.mktemp("fods"), straight_fod()
    files = {"whole": saved(folder / "whole.nii.gz", fod)}
    for name, volumes, value in (("nan", np.s_[:], np.nan), ("some", np.s_[3], np.nan), ("zero", np.s_[:], 0)):
        changed = fod.copy()
        changed[(*BLOCK, volumes)] = value
        files[name] = saved(folder / f"{name}.nii.gz", changed)
    files["seeds"] = saved(folder / "seeds.nii.gz", np.ones(SHAPE))
    return files


def followed(fods, name, dg="ifod2"):
    options = {"stopping": "binary", "stop_mask": fods["seeds"]} if dg == "det" else {"mask": fods["seeds"]}
    return ts.track(
        sh=fods[name], sh_basis="tournier07", seed_mask=fods["seeds"], dg=dg, nseeds=200, arch="cpu", **options
    )


@pytest.mark.parametrize("dg", ["ifod2", "det"])
def test_voxels_of_fods_with_nan_have_no_function(fods, dg):
    expected = points(followed(fods, "zero", dg))
    for name in ("nan", "some"):
        result = followed(fods, name, dg)
        assert np.array_equal(points(result), expected)
        assert any(f"{name}.nii.gz: " in note and "values are NaN and are set to 0" in note for note in result.notes)


@pytest.mark.skipif(shutil.which("tckgen") is None, reason="MRtrix3's tckgen is not installed")
def test_streamlines_end_there_as_tckgens_do(fods, tmp_path):
    """Neither passes the block of 28 to 34 mm; without it, both do."""
    for name in ("whole", "nan"):
        command = ["tckgen", fods[name], tmp_path / f"{name}.tck", "-seed_image", fods["seeds"], "-seeds", "200",
                   "-select", "0", "-minlength", "0", "-quiet"]
        subprocess.run([*map(str, command)], check=True)
        theirs = nib.streamlines.load(tmp_path / f"{name}.tck").streamlines
        for lines in (theirs, followed(fods, name).to_sft().streamlines):
            assert len(lines) > 50
            assert any(line[:, 0].min() < 26 and line[:, 0].max() > 34 for line in lines) == (name == "whole")


@pytest.mark.filterwarnings("ignore:.*values are NaN")
def test_fixels_and_weights_of_fods_with_nan(fods, tmp_path):
    tracks = tmp_path / "a.trx"
    followed(fods, "zero").save(tracks)
    contents = {}
    for name in ("zero", "nan", "some"):
        few = saved(tmp_path / f"{name}.nii.gz", np.asanyarray(nib.load(fods[name]).dataobj)[:, 6:10, 6:10])
        ts.fixels(few, tmp_path / name, sh_basis="tournier07")
        ts.map_tractogram(tracks, sift2=(few, tmp_path / f"{name}.txt"), sift2_basis="tournier07")
        files = [*sorted((tmp_path / name).glob("*.mif")), tmp_path / f"{name}.txt"]
        contents[name] = [file.read_bytes() for file in files]
    assert contents["zero"] == contents["nan"] == contents["some"]
    assert len(np.unique(np.loadtxt(tmp_path / "zero.txt"))) > 20
