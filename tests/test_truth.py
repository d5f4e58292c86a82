"""Phantoms of strands: their signals in closed form, and the scores of streamlines that are known."""

import nibabel as nib
import numpy as np
import pytest

from tistreamlines.benchmarks.phantom.strands import GEOMETRIES
from tistreamlines.benchmarks.phantom.truth import ACROSS, ALONG, SIGNAL, Scan, Truth


@pytest.fixture(scope="module")
def truth():
    return Truth("crossings", Scan(1000.0, 1e6, 12, 2.5), 3)


def strands_of(truth):
    return [line for part in truth.bundles.values() for line in part]


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_the_strands_themselves_are_valid(geometry):
    truth = Truth(geometry, Scan(voxel_mm=2.5), 2)
    scores = truth.score([line[::-1] if number % 2 else line for number, line in enumerate(strands_of(truth))])
    assert scores["VC"] > 97  # a few end within the end of another bundle
    assert scores["valid_bundles"] == 100
    assert scores["overlap"] > 99.9
    assert scores["r"] > 0.99
    assert truth.white.any()


def test_halves_connect_nothing(truth):
    scores = truth.score([line[: len(line) // 2] for line in strands_of(truth)])
    assert (scores["VC"], scores["IC"], scores["NC"]) == (0, 0, 100)
    assert (scores["overlap"], scores["overreach"], scores["valid_bundles"]) == (0, 0, 0)


def test_lines_between_bundles_are_invalid(truth):
    first, second, *_ = truth.bundles.values()
    over = [np.linspace(first[0, 0], second[0, -1], 30), first[0], np.linspace(first[0, 0], first[1, 0], 2)]
    scores = truth.score(over)
    assert scores["IC"] == pytest.approx(200 / 3)
    assert scores["VC"] == pytest.approx(100 / 3)


def test_what_lies_outside_is_overreach(truth):
    line = next(iter(truth.bundles.values()))[0]
    detour = np.concatenate([line[:5], line[5:-5] + np.array([0, 0, 6]), line[-5:]])
    plain, other = (truth.score([one]) for one in (line, detour))
    assert other["VC"] == 100
    assert other["overreach"] > plain["overreach"]
    assert other["overlap"] < plain["overlap"]


def test_a_voxel_of_one_straight_bundle_has_its_tensors_signal(truth):
    data, bvals, gradients = truth.series()
    name = "crossing_90_a"
    others = sum(amount for other, amount in truth.amounts.items() if other != name)
    voxel = np.argmax(np.where(others == 0, truth.amounts[name], 0))
    part = truth.bundles[name]
    along = np.gradient(part, axis=1).reshape(-1, 3)[truth.voxels(part.reshape(-1, 3)) == voxel].mean(axis=0)
    along /= np.linalg.norm(along)
    expected = SIGNAL * np.exp(-bvals * (ACROSS + (ALONG - ACROSS) * (gradients @ along) ** 2))
    assert np.allclose(data.reshape(-1, len(bvals))[voxel], expected, rtol=0.08)


def test_files_are_in_fsls_frame(truth, tmp_path):
    """A tensor fitted to the files lies along the strands."""
    from dipy.core.gradients import gradient_table
    from dipy.reconst.dti import TensorModel

    truth.save(tmp_path)
    image = nib.load(tmp_path / "dwi.nii.gz")
    gtab = gradient_table(np.loadtxt(tmp_path / "dwi.bval"), bvecs=np.loadtxt(tmp_path / "dwi.bvec").T)
    fitted = TensorModel(gtab).fit(image.get_fdata(), mask=truth.white)
    for name in ("crossing_60_a", "crossing_60_b"):
        strand = truth.bundles[name][0]
        ends = strand[10:20]
        voxel = np.unravel_index(truth.voxels(ends)[5], truth.shape)
        axis = fitted.directions[voxel][0] * np.sign(np.diag(image.affine)[:3])
        along = (ends[-1] - ends[0]) / np.linalg.norm(ends[-1] - ends[0])
        assert abs(axis @ along) > 0.97


def test_seeds_lie_in_white_matter(truth):
    assert truth.white.ravel()[truth.voxels(truth.seeds(200))].all()
