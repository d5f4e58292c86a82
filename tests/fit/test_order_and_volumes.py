"""The lines that are said where a model has more coefficients than a series has volumes."""

import json

import nibabel as nib
import numpy as np
import pytest

import tistreamlines as ts
from tistreamlines.phantom.phantom import make_phantom, save_phantom
from tistreamlines.space.harmonics import highest_order


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """Paths of a series of 32 directions, and of its mask."""
    folder = tmp_path_factory.mktemp("few")
    save_phantom(make_phantom((18, 22, 17), voxel_mm=8.0, n_b0=2, n_dirs=32), folder)
    names = {"dwi": "dwi.nii.gz", "bvals": "dwi.bval", "bvecs": "dwi.bvec", "mask": "mask.nii.gz"}
    return {name: str(folder / file) for name, file in names.items()} | {"nseeds": 20, "arch": "cpu"}


@pytest.mark.parametrize("options", [{"dg": "boot"}, {"dg": "det", "model": "csa"}])
def test_an_order_that_is_refused(few, options):
    with pytest.raises(ts.InputError, match=r"dwi\.nii\.gz: 32 .*45 coefficients.*: give sh_order 6$"):
        ts.track(**few, sh_order=8, **options)
    assert ts.track(**few, sh_order=6, **options).n_streamlines


def test_csd_is_told_of(few):
    (note,) = ts.track(**few, dg="det", like="dipy").notes
    assert "dwi.nii.gz: 32 diffusion-weighted volumes are fewer than the 45 coefficients of order 8" in note
    assert "sh_order 6" in note
    assert ts.track(**few, dg="det", like="dipy", sh_order=6).notes == ()


@pytest.mark.parametrize(("directions", "options", "words"), [
    (6, {"dg": "boot"}, "leave no residuals with order 2 .*: give dg prob, det or ptt, which need no residuals"),
    (6, {"dg": "boot", "model": "opdt"}, "leave no residuals with order 2 .*: give dg prob"),
    (5, {"dg": "det", "model": "csa", "sh_order": 2}, "give a series of at least 6 directions"),
    (5, {"dg": "det", "model": "csa", "sh_order": 4}, "give a series of at least 6 directions"),
])
def test_no_advice_that_cannot_be_followed(few, directions, options, words):
    """Order 2 is the lowest, so it is no advice where 6 directions do not do."""
    image, bvals, bvecs = (nib.load(few["dwi"]), np.loadtxt(few["bvals"]), np.loadtxt(few["bvecs"]))
    kept = np.sort(np.concatenate([np.flatnonzero(bvals < 50), np.flatnonzero(bvals > 50)[:directions]]))
    vectors = (bvecs if bvecs.shape[0] == 3 else bvecs.T)[:, kept]
    series = {"dwi": image.get_fdata(dtype=np.float32)[..., kept], "bvals": bvals[kept], "bvecs": vectors}
    chosen = few | series | options | {"affine": image.affine, "mask": few["mask"], "seed_sphere": "0,0,0,20"}
    with pytest.raises(ts.InputError, match=words) as raised:
        ts.track(**chosen, stop_mask=few["mask"])
    assert "give sh_order" not in str(raised.value)


@pytest.mark.nightly
def test_six_directions_do_for_what_is_advised(few):
    image, bvals, bvecs = (nib.load(few["dwi"]), np.loadtxt(few["bvals"]), np.loadtxt(few["bvecs"]))
    kept = np.sort(np.concatenate([np.flatnonzero(bvals < 50), np.flatnonzero(bvals > 50)[:6]]))
    vectors = (bvecs if bvecs.shape[0] == 3 else bvecs.T)[:, kept]
    series = {"dwi": image.get_fdata(dtype=np.float32)[..., kept], "bvals": bvals[kept], "bvecs": vectors}
    for dg in ("prob", "det", "ptt"):
        ts.track(**few | series | {"affine": image.affine, "dg": dg})


@pytest.mark.parametrize(("volumes", "order"), [(6, 2), (14, 2), (15, 4), (28, 6), (32, 6), (45, 8), (300, 22)])
def test_the_highest_order(volumes, order):
    assert highest_order(volumes) == order


CASES = [({}, 30), ({"max_angle": 25}, 25), ({"sh_order": 8}, 25), ({"like": "dipy"}, 20), ({"model": "csa"}, 25)]


def test_the_angle_of_prob_follows_the_order_unless_it_is_given(few, tmp_path):
    """Also when the tables come from the cache: with the default of 25 degrees, and with 25 that are given."""
    record, cached = tmp_path / "a.json", {"cache_dir": tmp_path / "cache", "force": True}
    counts: dict[int, tuple[int, int]] = {}
    for number, (options, angle) in enumerate([*CASES, *CASES]):
        chosen = few | {"dg": "prob", "nseeds": 60} | options
        result = ts.track(**chosen, output=tmp_path / "a.trx", **cached)
        assert json.loads(record.read_text())["parameters"]["max_angle"] == angle
        case = number % len(CASES)
        if case not in counts:
            expected = ts.track(**chosen | {"max_angle": angle})
            counts[case] = expected.n_streamlines, expected.points
        assert (result.n_streamlines, result.points) == counts[case]
