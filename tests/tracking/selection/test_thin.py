"""Regions that a step can jump over: a warning that names the region, its thickness and the step."""

import nibabel as nib
import numpy as np
import pytest
from small_runs import SHAPE as PEAKS
from small_runs import write_inputs

import tistreamlines as ts
from tistreamlines.space.batch import Space
from tistreamlines.tracking.selection.criteria import PASSED, thin_regions
from tistreamlines.tracking.selection.places import MaskRegion, SphereRegion

SHAPE, SIDES = (30, 26, 22), (0.5, 0.7, 1.0)


def mask(voxels, sides=SIDES):
    turn = nib.eulerangles.euler2mat(0.3, 0.2, 0.1)
    return MaskRegion("roi.nii", Space(nib.affines.from_matvec(turn @ np.diag(sides), [3, 4, 5]), SHAPE), voxels)


def slab(axis, layers):
    voxels = np.zeros(SHAPE, bool)
    voxels[(slice(None),) * axis + (slice(8, 8 + layers),)] = True
    return voxels


@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize("layers", [1, 2, 3, 4])
def test_slabs_are_as_thick_as_their_layers(axis, layers):
    thick = layers * SIDES[axis]
    for step, thin in ((thick * 0.999, False), (thick, False), (thick * 1.01, True)):
        texts = thin_regions({"include": [mask(slab(axis, layers))]}, step)
        assert bool(texts) == thin, (step, texts)
        if thin:
            assert f"roi.nii: is at most {thick:.3g} mm thick, less than a step of {step:.3g} mm" in texts[0]


def test_a_thick_part_is_enough_and_a_thin_one_elsewhere_does_no_harm():
    voxels = slab(0, 1)
    voxels[10:18, 5:11, 5:10] = True  # 4 x 4.2 x 5 mm
    assert thin_regions({"exclude": [mask(voxels)]}, 3.9) == []
    assert thin_regions({"exclude": [mask(voxels)]}, 4.3) != []


def test_oblique_sheets_and_balls():
    x, y, z = np.indices(SHAPE) * np.array(SIDES)[:, None, None, None]
    sheet = np.abs(0.6 * x + 0.8 * y - 11) < 0.75
    assert thin_regions({"include_ordered": [mask(sheet)]}, 1.0) == []
    assert thin_regions({"include_ordered": [mask(sheet)]}, 2.2) != []
    ball = (x - 7) ** 2 + (y - 9) ** 2 + (z - 11) ** 2 < 16
    assert thin_regions({"include": [mask(ball)]}, 6.5) == []
    assert thin_regions({"include": [mask(ball)]}, 8.8) != []
    balls = [SphereRegion(f"0,0,0,{radius}", np.zeros(3), radius) for radius in (0.4, 0.5, 0.6)]
    (said,) = thin_regions({"exclude": balls}, 1.0)
    assert said.startswith("0,0,0,0.4: is at most 0.8 mm thick")


def test_only_what_streamlines_pass_through_can_be_jumped_over():
    thin = [mask(slab(0, 1))]
    assert {name for name in ("include", "include_ordered", "exclude", "limit_mask", "ends_in")
            if thin_regions({name: thin}, 2.0)} == set(PASSED)


def test_a_run_jumps_over_a_sheet_and_says_so(tmp_path):
    """Streamlines along y; the sheet lies across them, and its steps are longer than it is thick."""
    options = write_inputs(tmp_path) | {"step_size": 1.0, "max_angle": 60}
    fine = np.zeros((PEAKS[0], PEAKS[1] * 10, PEAKS[2]), np.uint8)
    fine[:, 90] = 1  # 0.2 mm
    affine = np.diag([2, 0.2, 2, 1.0])
    affine[1, 3] = -0.9
    nib.save(nib.Nifti1Image(fine, affine), tmp_path / "sheet.nii.gz")
    with pytest.warns(UserWarning, match=r"sheet.nii.gz: is at most 0.2 mm thick, less than a step of 1 mm"):
        result = ts.track(**options, include=tmp_path / "sheet.nii.gz")
    passing = sum(line[:, 1].min() < 17 < 17.2 < line[:, 1].max() for line in ts.track(**options))
    assert 0 < result.n_streamlines < 0.8 * passing
    fine[:, 85:95] = 1
    nib.save(nib.Nifti1Image(fine, affine), tmp_path / "thick.nii.gz")
    assert not ts.track(**options, include=tmp_path / "thick.nii.gz").warnings
