"""Values of maps along streamlines, compared with MRtrix3's tcksample and with DIPY."""

import shutil
import subprocess

import nibabel as nib
import numpy as np
import pytest
from dipy.tracking.streamline import values_from_volume
from streamlines import batch_of

from tistreamlines.errors import InputError
from tistreamlines.io.writer import TractogramWriter
from tistreamlines.space.batch import Space
from tistreamlines.tracking.products.samples.sampler import STATISTICS, Sampler, load_sampled

TURNED = np.array([[0.8, -1.2, 0.1, 3], [1.6, 0.6, -0.2, -2], [0.1, 0.15, 2.5, 1], [0, 0, 0, 1.0]])
VALUES = np.random.default_rng(0).normal(size=(6, 5, 7)).astype(np.float32)
SPACE = Space(TURNED, VALUES.shape)


def lines_in(low, high, count=300, seed=1):
    """Streamlines of 2 to 70 points with voxel coordinates between ``low`` and ``high``, in RASmm."""
    rng = np.random.default_rng(seed)
    sides = np.array(VALUES.shape) - 1
    return [SPACE.to_ras(rng.uniform(low, sides + high, (rng.integers(2, 70), 3))) for _ in range(count)]


@pytest.fixture(scope="module")
def map_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("map") / "map.nii.gz"
    nib.save(nib.Nifti1Image(VALUES, TURNED), path)
    return path


@pytest.fixture(scope="module")
def sampler(map_file):
    return Sampler({"map": load_sampled(map_file)}, threads=2)


@pytest.mark.skipif(shutil.which("tcksample") is None, reason="MRtrix3 is not installed")
def test_mrtrix3s_tcksample(tmp_path, sampler):
    """Also outside the image, where values are 0, and in its border of half a voxel, where they are constant."""
    turned = tmp_path / "map.nii"  # MRtrix3 drops the shear of an affine, so the axes are made orthogonal
    affine = TURNED.copy()
    affine[:3, :3] = np.linalg.qr(TURNED[:3, :3])[0] * [2, 1.5, 2.5]
    nib.save(nib.Nifti1Image(VALUES, affine), turned)
    lines = [Space(affine, VALUES.shape).to_ras(SPACE.to_voxel(line)) for line in lines_in(-1.2, 1.2)]
    batch, tck = batch_of(lines), tmp_path / "lines.tck"
    with TractogramWriter(tck, SPACE) as writer:
        writer.write(batch)
    points, streamlines = Sampler({"map": load_sampled(turned)}).sample(batch)
    for which in STATISTICS:
        path = tmp_path / f"{which}.txt"
        subprocess.run(["tcksample", "-quiet", "-stat_tck", which, tck, turned, path], check=True)
        assert np.allclose(streamlines[f"map_{which}"], np.loadtxt(path), atol=2e-5)
    each = tmp_path / "points.txt"
    subprocess.run(["tcksample", "-quiet", tck, turned, each], check=True)
    rows = [row.split() for row in each.read_text().splitlines() if not row.startswith("#")]
    expected = np.concatenate([np.array(row, float) for row in rows])
    assert np.allclose(points["map"], expected, atol=2e-5)
    assert 0.2 < np.mean(expected == 0) < 0.8
    assert np.array_equal(points["map"] == 0, expected == 0)


def test_dipys_values_from_volume(sampler):
    """Inside the image, also with a sheared affine."""
    lines = lines_in(0, 0)
    expected = np.concatenate(values_from_volume(VALUES, lines, TURNED))
    assert np.allclose(sampler.per_point(batch_of(lines))["map"], expected, atol=2e-5)


def test_statistics_are_those_of_the_points(sampler):
    lines = lines_in(-0.4, 0.4)
    batch = batch_of(lines)
    points, streamlines = sampler.sample(batch)
    for i, (values, line) in enumerate(zip(np.split(points["map"], batch.offsets[1:-1]), batch, strict=True)):
        assert streamlines["map_median"][i] == np.median(values)
        assert (streamlines["map_min"][i], streamlines["map_max"][i]) == (values.min(), values.max())
        sides = np.linalg.norm(np.diff(line.astype(float), axis=0), axis=1)
        mean = np.average((values[1:] + values[:-1]) / 2, weights=sides)
        assert streamlines["map_mean"][i] == pytest.approx(mean, abs=1e-5)


def test_points_at_one_place_have_its_value(sampler):
    place = SPACE.to_ras([[2.25, 1.5, 3]])
    points, streamlines = sampler.sample(batch_of([place, np.repeat(place, 3, 0)]))
    assert np.ptp(points["map"]) == 0 != points["map"][0]
    assert all(streamlines[f"map_{which}"] == pytest.approx([points["map"][0]] * 2, rel=1e-6) for which in STATISTICS)


def test_batches_and_threads_change_nothing(map_file, sampler):
    batch = batch_of(lines_in(-1, 1, 500))
    expected = sampler.per_streamline(batch)
    single = Sampler({"map": load_sampled(map_file)}, threads=1)
    parts = [single.per_streamline(batch[first : first + 37]) for first in range(0, 500, 37)]
    assert expected.keys() == parts[0].keys()
    for name, values in expected.items():
        assert np.array_equal(np.concatenate([part[name] for part in parts]), values)
    assert sampler.per_streamline(batch[:0]).keys() == expected.keys()


def test_a_map_of_several_volumes_is_refused(tmp_path):
    nib.save(nib.Nifti1Image(np.zeros((4, 4, 4, 2)), np.eye(4)), tmp_path / "two.nii")
    with pytest.raises(InputError, match="give a 3-D image"):
        load_sampled(tmp_path / "two.nii")
