"""Tissues that lie elsewhere than the fibres, or in each other's place, are told from orientation functions and FA."""

import re

import nibabel as nib
import numpy as np
import pytest
from places import CROP, DATA
from scipy.ndimage import gaussian_filter

import tistreamlines as ts
from tistreamlines.fit.fits import Fits
from tistreamlines.io.nifti import load_dwi, load_mask
from tistreamlines.io.segmentations import load_five_tissues
from tistreamlines.options.parameters import Parameters
from tistreamlines.phantom.phantom import make_phantom
from tistreamlines.space.batch import Space
from tistreamlines.tracking.stopping.tissues import placement_doubt
from tistreamlines.tracking.tables.inputs import MapImage, OrientationFunctions

SIFT = DATA / "mrtrix_sift_phantom"
EXCHANGED = [3, 1, 2, 0, 4]
MOVES = [np.eye(3)[axis] * sign * 20 for axis in range(3) for sign in (1, -1)]
BASIS = "descoteaux07_legacy"
needs_sift = pytest.mark.skipif(not SIFT.is_dir(), reason=f"no data in {SIFT}")
needs_crop = pytest.mark.skipif(not CROP.is_dir(), reason=f"no data in {CROP}")


def moved(affine, by):
    return nib.affines.from_matvec(np.eye(3), by) @ affine


# --------------------------------------------------------------------------------------------------- whole runs
def tracked(values, affine):
    """Five tissues in a run along MRtrix3's FODs."""
    image = nib.Nifti1Image(values, affine)
    return ts.track(sh=SIFT / "fods.mif", sh_basis="tournier07", dg="ifod2", act=image, seed_mask=SIFT / "mask.mif",
                    nseeds=100, arch="cpu")


@needs_sift
def test_mrtrix3s_phantom_as_it_is_exchanged_and_moved():
    values, space = load_five_tissues(SIFT / "5tt.mif")
    assert tracked(values, space.affine).warnings == ()
    with pytest.warns(UserWarning, match="grey matter lies like cerebrospinal fluid .* may be exchanged"):
        tracked(values[..., EXCHANGED], space.affine)
    for by in MOVES[:2]:
        with pytest.warns(UserWarning, match="8[0-9]% of orientation functions, by size, lie where there is no"):
            tracked(values, moved(space.affine, by))


@pytest.mark.parametrize("dg", ["boot", "det"])
def test_a_phantoms_series(tmp_path, dg):
    """FA, or a fitted model, beside tissues that were not made of it."""
    phantom = make_phantom((24, 29, 23), voxel_mm=6.0, n_b0=1, n_dirs=30)
    maps = {f"pve_{name}": nib.Nifti1Image(tissue, phantom.affine) for name, tissue in phantom.tissues.items()}
    tissues = ts.five_tissues(**maps, sgm=nib.Nifti1Image(1e-3 * phantom.mask.astype(np.float32), phantom.affine))
    save = {"dwi": phantom.data, "mask": phantom.mask.astype(np.uint8)}
    for name, values in save.items():
        nib.save(nib.Nifti1Image(values, phantom.affine), tmp_path / f"{name}.nii.gz")
    np.savetxt(tmp_path / "dwi.bval", phantom.bvals[None])
    np.savetxt(tmp_path / "dwi.bvec", np.transpose(phantom.bvecs))
    files = [tmp_path / name for name in ("dwi.nii.gz", "dwi.bval", "dwi.bvec")]
    options = {"mask": tmp_path / "mask.nii.gz", "nseeds": 50, "arch": "cpu", "dg": dg, "bvecs_frame": "voxel"}
    values = np.asarray(tissues.dataobj)

    def said(by):
        image = nib.Nifti1Image(values, moved(tissues.affine, by))
        return [text for text in ts.track(*files, act=image, **options).warnings if "of one subject" in text]

    assert said(np.zeros(3)) == []
    assert said(MOVES[0] * 1.5) != []


# ------------------------------------------------------------------------------------------------- honest data
@pytest.fixture(scope="module")
def crop():
    """FA, coefficients of CSD and tissues of a crop of a brain: fluid where diffusion is fast, white matter by FA."""
    if not CROP.is_dir():
        pytest.skip(f"no data in {CROP}")
    dwi = load_dwi(*(CROP / name for name in ("dwi.nii.gz", "dwi.bval", "dwi.bvec")))
    mask = load_mask(CROP / "mask.nii.gz", dwi.space)
    fits = Fits(dwi, mask, 1)
    fa, harmonics = fits.anisotropy(), fits.coefficients("csd", Parameters.given({"dg": "prob", "sh_order": 6}))
    weighted = dwi.data[..., ~dwi.gtab.b0s_mask].mean(axis=-1)
    fast = np.log(np.maximum(dwi.mean_b0, 1) / np.maximum(weighted, 1)) * mask
    fluid = gaussian_filter((fast > 1.6).astype(np.float32), 0.5) * mask
    white = gaussian_filter(((fa > 0.25) & (fast < 1.4)).astype(np.float32), 0.5) * mask * (1 - fluid)
    return dwi.space, fa, harmonics, np.stack([white, np.clip(mask - white - fluid, 0, 1), fluid], axis=-1)


def doubted(crop, box=np.s_[:, :, :], by=(0, 0, 0), order=(0, 1, 2)):
    """What is said of a box of the crop: of its functions, and of its FA; tissues are those of the whole crop."""
    space, fa, harmonics, tissues = crop
    start = [side.start or 0 for side in box]
    affine = space.affine @ nib.affines.from_matvec(np.eye(3), start)
    part = Space(affine, fa[box].shape)
    to_grid = np.linalg.inv(moved(space.affine, by)) @ affine
    maps = MapImage(np.ascontiguousarray(tissues[..., list(order)]), to_grid)
    functions = OrientationFunctions("sh", harmonics[box], BASIS)
    return [placement_doubt(maps, functions, None, part), placement_doubt(maps, None, lambda: fa[box], part)]


@needs_crop
def test_a_crop_and_boxes_of_it_are_not_doubted(crop):
    rng, boxes = np.random.default_rng(0), [np.s_[:, :, :]]
    for _ in range(20):
        sizes = rng.integers([14, 14, 8], [44, 44, 20])
        starts = [int(rng.integers(0, most - size + 1)) for most, size in zip((44, 44, 20), sizes, strict=True)]
        boxes.append(tuple(slice(start, start + int(size)) for start, size in zip(starts, sizes, strict=True)))
    for box in boxes:
        assert doubted(crop, box) == ["", ""], box


@needs_crop
def test_moved_and_exchanged_tissues_of_a_crop_are_doubted(crop):
    for by in (*MOVES[:3], MOVES[4]):  # the others leave too little that could be compared
        assert "FA and the white matter of the tissues correlate by" in doubted(crop, by=by)[1]
    assert "larger in cerebrospinal fluid" in doubted(crop, order=(0, 2, 1))[0]


def test_functions_that_are_alike_everywhere_say_nothing():
    """As those of many made-up images, and of peaks without amplitudes."""
    space, rng = Space(np.diag([2.0, 2, 2, 1]), (20, 20, 20)), np.random.default_rng(0)
    tissues = MapImage(rng.dirichlet(np.ones(3), space.shape).astype(np.float32), np.eye(4))
    for functions in (OrientationFunctions("sh", np.ones((*space.shape, 15), np.float32), BASIS),
                      OrientationFunctions("peaks", np.ones((*space.shape, 3), np.float32)),
                      OrientationFunctions("pmf", np.ones((*space.shape, 9), np.float32))):
        assert placement_doubt(tissues, functions, None, space) == ""
    assert placement_doubt(tissues, None, None, space) == ""


@needs_crop
def test_where_the_tissues_would_fit_is_told_along_the_scanners_axes(crop):
    """They are 20 mm to the right, so they should go to the left; by whole cells of 3.6 mm."""
    assert re.search(r"with the tissues moved by -(18|22), 0, 0 mm \(RAS\)", doubted(crop, by=MOVES[0])[1])
