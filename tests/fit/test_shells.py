"""Series of several shells: which of them are fitted, and that the others change nothing."""

from __future__ import annotations

import json
import shutil
import subprocess

import nibabel as nib
import numpy as np
import pytest
from dipy.core.gradients import gradient_table

import tistreamlines as ts
from tistreamlines.fit import shells
from tistreamlines.fit.fits import Fits
from tistreamlines.io import nifti
from tistreamlines.phantom.phantom import make_phantom, save_phantom

FILES = ("dwi.nii.gz", "dwi.bval", "dwi.bvec")
GETTERS = [{"dg": "boot"}, {"dg": "boot", "model": "opdt"}, {"dg": "det"}, {"dg": "prob", "model": "csa"}]


def table(counts: dict[float, int], jitter: float = 0.0, threshold: float = 10.0):
    """Return DIPY's gradient table of two b0s and so many volumes of each b-value, in a mixed order."""
    rng = np.random.default_rng(0)
    bvals = np.repeat([0.0, *counts], [2, *counts.values()])
    bvals = rng.permutation(bvals + jitter * rng.uniform(-1, 1, len(bvals)) * (bvals > 0))
    bvecs = rng.normal(size=(len(bvals), 3))
    bvecs[bvals == 0] = 0
    bvecs[bvals > 0] /= np.linalg.norm(bvecs[bvals > 0], axis=1, keepdims=True)
    return gradient_table(bvals, bvecs=bvecs, b0_threshold=threshold)


@pytest.mark.parametrize(
    ("counts", "of_models", "of_tensor"),
    [
        ({1000: 64}, 1000, 1000),
        ({1000: 32, 2000: 32, 3000: 64}, 3000, 1000),
        ({1000: 90, 3000: 90, 5000: 90}, 3000, 1000),
        ({700: 30, 2800: 60}, 2800, 700),
        ({500: 6, 1000: 15, 2000: 15, 3000: 60}, 3000, 1000),
        ({1000: 64, 3000: 20}, 1000, 1000),  # too few directions
        ({1000: 20, 3000: 12}, 1000, 1000),  # none has enough
        ({1000: 4, 2000: 30}, 2000, 2000),
        ({5000: 64, 10_000: 128}, 5000, 5000),
    ],
)
def test_the_shells_that_are_fitted(counts, of_models, of_tensor):
    gtab = table(counts, jitter=20)
    for choose, bval in ((shells.shell_of_models, of_models), (shells.shell_of_tensor, of_tensor)):
        assert np.array_equal(choose(gtab), np.abs(gtab.bvals - bval) <= 20)


def scheme(*parts, b0s: int = 3):
    """Return a gradient table of b0s and of these b-values, in a mixed order."""
    rng = np.random.default_rng(4)
    bvals = rng.permutation(
        np.concatenate([np.zeros(b0s), *(np.atleast_1d(np.asarray(part, float)) for part in parts)])
    )
    bvecs = rng.normal(size=(len(bvals), 3))
    bvecs /= np.linalg.norm(bvecs, axis=1, keepdims=True)
    bvecs[bvals == 0] = 0
    return gradient_table(bvals, bvecs=bvecs, b0_threshold=50)


def spread(bval: float, apart: float, count: int):
    return bval + np.random.default_rng(7).uniform(-apart, apart, count)


GRID = np.sum(np.stack(np.meshgrid(*[np.arange(-3, 4)] * 3)).reshape(3, -1) ** 2, axis=0)
SCHEMES = {
    "human connectome": (
        scheme(spread(1000, 10, 90), spread(2000, 10, 90), spread(3000, 10, 90), b0s=18),
        [90, 90, 90],
    ),
    "3000 +- 60": (scheme(spread(3000, 60, 64)), [64]),
    "900 to 1100": (scheme(np.linspace(900, 1100, 30)), [30]),
    "900 to 1100 and 2000": (scheme(spread(1000, 100, 30), spread(2000, 30, 60)), [30, 60]),
    "two that almost touch": (scheme([1000] * 30, [1080] * 30), [30, 30]),
    "two that touch": (scheme([1000] * 30, [1079] * 30), [60]),
    "few stray volumes": (scheme([1000] * 30, 1500, 1505, [2500] * 30), [30, 30]),
    "one more and they are a shell": (scheme([1000] * 30, [1500] * 3, [2500] * 30), [30, 3, 30]),
    "stray volumes beside a shell": (scheme([1000] * 30, 1070, 920, 1200), [31]),
    "five shells": (scheme(*(spread(bval, 15, 12) for bval in (400, 700, 1000, 2000, 3000))), [12] * 5),
    "a diffusion spectrum": (scheme(GRID[(GRID > 0) & (GRID <= 9)] * 400.0, b0s=1), [6, 12, 8, 6, 24, 24, 12, 30]),
}


@pytest.mark.parametrize("name", SCHEMES)
def test_b_values_that_are_close_are_a_shell(name):
    gtab, sizes = SCHEMES[name]
    masks = shells.shells(gtab)
    assert [int(volumes.sum()) for volumes in masks] == sizes
    assert np.sum(masks, axis=0).max() == 1
    assert not np.any(masks & gtab.b0s_mask)


@pytest.mark.skipif(shutil.which("mrinfo") is None, reason="MRtrix3's mrinfo is not installed")
@pytest.mark.parametrize("name", SCHEMES)
def test_the_shells_are_those_of_mrinfo(name, tmp_path):
    gtab = SCHEMES[name][0]
    nib.save(nib.Nifti1Image(np.zeros((1, 1, 1, len(gtab.bvals)), np.float32), np.eye(4)), tmp_path / "a.nii")
    np.savetxt(tmp_path / "grad", np.c_[np.where(gtab.b0s_mask[:, None], [0, 0, 1], gtab.bvecs), gtab.bvals])
    command = ["mrinfo", tmp_path / "a.nii", "-grad", tmp_path / "grad", "-shell_indices", "-bvalue_scaling", "false"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    theirs = [[int(index) for index in indices.split(",")] for indices in printed][1:]  # the first are the b0s
    assert [np.flatnonzero(volumes).tolist() for volumes in shells.shells(gtab)] == theirs


@pytest.mark.parametrize(("bvals", "sizes"), [([700], [1]), ([700, 900], [1, 1]), ([700, 750], [2]), ([], [])])
def test_too_few_volumes_for_clusters_are_shells_all_the_same(bvals, sizes):
    assert [int(volumes.sum()) for volumes in shells.shells(scheme(bvals))] == sizes


@pytest.mark.filterwarnings("ignore:.*in no shell")
def test_doubtful_shells_are_told(two, tmp_path):
    assert not any(shells.doubts(SCHEMES[name][0]) for name in ("human connectome", "900 to 1100", "3000 +- 60"))
    (doubt,) = shells.doubts(scheme(np.linspace(300, 3000, 60)))
    assert doubt.startswith("60 volumes of b = 300 to 3000 follow each other so closely that they count as one shell")
    (doubt,) = shells.doubts(SCHEMES["few stray volumes"][0])
    assert doubt.startswith("2 volumes are in no shell and not fitted (first: volume ")
    folder = shutil.copytree(two / "2500", tmp_path / "stray")
    bvals = np.loadtxt(folder / FILES[1])
    bvals[-1] = 1700
    np.savetxt(folder / FILES[1], bvals[None], fmt="%g")
    result = run(folder, output=tmp_path / "a.trx")
    (doubt,) = (warning for warning in result.warnings if "in no shell" in warning)
    assert doubt.endswith("1 volume is in no shell and not fitted (first: volume 31 of b = 1700, with fewer than 3 "
                         "b-values within 80)")
    assert json.loads((tmp_path / "a.json").read_text())["chosen"]["shells"]["b"] == [2500.0]


@pytest.mark.parametrize("asked", [900, 950, 1000, 1100, 1140])
def test_a_shell_is_asked_for_by_any_of_its_b_values(asked):
    gtab = scheme(np.linspace(900, 1100, 30), [2000] * 30)
    dwi = nifti.Dwi(np.zeros((1, 1, 1, 63), np.float32), None, gtab, "a.nii")
    assert (asked == 1140) == (not any(shells._is_asked(gtab, volumes, asked) for volumes in shells.shells(gtab)))
    if asked != 1140:
        assert shells.only_shells(dwi, asked).data.shape == (1, 1, 1, 33)


def test_the_shell_and_the_b0s_are_kept():
    gtab = table({1000: 30, 2000: 31})
    data = np.arange(2.0 * 63).reshape(1, 1, 2, -1)
    kept, left = shells.on_shell(data, gtab, shells.shell_of_models)
    expected = (gtab.bvals == 2000) | (gtab.bvals == 0)
    assert np.array_equal(kept, data[..., expected])
    assert np.array_equal(left.bvals, gtab.bvals[expected])
    assert np.allclose(left.bvecs, gtab.bvecs[expected])
    assert left.b0_threshold == 10
    assert np.array_equal(left.b0s_mask, gtab.b0s_mask[expected])
    assert left.b0s_mask.sum() == 2


def test_a_single_shell_stays_as_it_is():
    data, gtab = np.zeros((1, 1, 1, 66)), table({1000: 64}, jitter=15)
    assert shells.on_shell(data, gtab, shells.shell_of_models) == (data, gtab)


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """Folders of a series with shells of 1000 and 2500, with the first one alone, and with the second one alone."""
    root = tmp_path_factory.mktemp("shells")
    phantoms = {b: make_phantom((18, 22, 17), voxel_mm=8.0, n_b0=2, n_dirs=30, bval=b) for b in (1000, 2500)}
    for bval, phantom in phantoms.items():
        save_phantom(phantom, root / str(bval))
    read = [[np.loadtxt(root / str(b) / name, ndmin=2) for name in FILES[1:]] for b in phantoms]
    images = [nib.load(root / str(b) / FILES[0]) for b in phantoms]
    both = root / "both"
    shutil.copytree(root / "1000", both)
    every = np.random.default_rng(0).permutation(64)
    data = np.concatenate([image.get_fdata(dtype=np.float32) for image in images], axis=3)[..., every]
    nib.save(nib.Nifti1Image(data, images[0].affine), both / FILES[0])
    for name, *tables in zip(FILES[1:], *read, strict=True):
        np.savetxt(both / name, np.concatenate(tables, axis=1)[:, every], fmt="%.9g")
    return root


def run(folder, **options):
    """Track 60 seeds in a folder's series."""
    fixed = {"mask": folder / "mask.nii.gz", "arch": "cpu", "nseeds": 60}
    return ts.track(*(folder / name for name in FILES), **fixed, **options)


def points(result) -> np.ndarray:
    return np.concatenate([batch.points for batch in result.batches])


@pytest.fixture(scope="module")
def fa(two, tmp_path_factory):
    """A stop map and seeds, so that only the models differ."""
    folder = tmp_path_factory.mktemp("fa")
    mask = nib.load(two / "both" / "mask.nii.gz")
    nib.save(nib.Nifti1Image(mask.get_fdata().astype(np.float32), mask.affine), folder / "stop.nii.gz")
    return {"stop_map": folder / "stop.nii.gz", "stop_threshold": 0.5, "seed_mask": two / "both" / "mask.nii.gz"}


@pytest.mark.parametrize("options", GETTERS)
def test_models_are_fitted_to_the_higher_shell(two, fa, options):
    mixed, alone = (run(two / name, **fa, **options) for name in ("both", "2500"))
    fitted = "csd is fitted to b = 1000, 2500" if mixed.parameters.model == "csd" else "models are fitted to b = 2500"
    assert f"shells of b = 1000, 2500: {fitted}, FA to b = 1000" in mixed.notes[0]
    # the b0s of both halves are used, so that CSA's and the response's mean b0 differs a little
    assert mixed.n_streamlines == pytest.approx(alone.n_streamlines, rel=0.2)
    lower = run(two / "both", shells=1000, **fa, **options)
    assert not any("shells of" in note for note in lower.notes)
    assert not np.array_equal(points(lower), points(mixed)[: len(points(lower))])


@pytest.mark.skipif(shutil.which("dwiextract") is None, reason="MRtrix3's dwiextract is not installed")
@pytest.mark.parametrize("options", GETTERS)
@pytest.mark.parametrize("bval", [1000, 2500])
def test_one_shell_is_that_of_dwiextract(two, tmp_path, options, bval):
    """FA, seeds and models included."""
    folder = two / "both"
    command = ["dwiextract", folder / FILES[0], "-fslgrad", folder / FILES[2], folder / FILES[1], tmp_path / FILES[0]]
    gradients = ["-export_grad_fsl", tmp_path / FILES[2], tmp_path / FILES[1], "-quiet"]
    subprocess.run([*command, "-shells", f"0,{bval}", *gradients], check=True)
    shutil.copy(folder / "mask.nii.gz", tmp_path)
    assert np.array_equal(points(run(folder, shells=bval, **options)), points(run(tmp_path, **options)))


def test_fa_is_that_of_the_lower_shell(two):
    dwi = nifti.load_dwi(*(two / "both" / name for name in FILES))
    mask = np.ones(dwi.space.shape, bool)
    both, lower, higher = (Fits(series, mask).anisotropy() for series in (
        dwi, shells.only_shells(dwi, "1000"), shells.only_shells(dwi, "2500"),
    ))
    assert np.array_equal(both, lower)
    assert np.abs(both - higher).max() > 0.1


def test_the_record(two, tmp_path):
    folder = two / "both"
    run(folder, output=tmp_path / "a.trx", dg="det")
    chosen = json.loads((tmp_path / "a.json").read_text())["chosen"]
    assert chosen["shells"] == {"b": [1000.0, 2500.0], "models": [1000.0, 2500.0], "fa": 1000.0}
    assert chosen["sh_order"] == 8  # 30 directions of one shell determine order 6
    assert chosen["response"]["b"] == [1000.0, 2500.0]


def test_what_is_refused(two):
    with pytest.raises(ts.InputError, match=r"shells has 2000, but the shells are 1000 \(30 volumes\), 2500 \(30"):
        run(two / "both", shells=(1000, 2000))
    for wrong in ("", "a", "1000,", "-1", "nan", [1000, None], []):
        with pytest.raises(ts.ParameterError, match="give b-values of shells in s/mm2"):
            ts.Parameters(shells=wrong)
    with pytest.raises(ts.ParameterError, match="shells says what FA and models are fitted to"):
        ts.track(
            pmf=np.ones((2, 2, 2, 362)), stop_map=np.ones((2, 2, 2)), shells=1000, seeds=np.zeros((1, 3)),
            affine=np.eye(4),
        )
