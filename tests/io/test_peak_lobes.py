"""Peaks as lobes on the sphere: their shape, and streamlines that follow peaks which differ from voxel to voxel."""

import nibabel as nib
import numpy as np
import pytest
from dipy.core.sphere import Sphere
from dipy.direction import DeterministicMaximumDirectionGetter
from scipy.integrate import quad

import tistreamlines as ts
from tistreamlines.io.orientations import peaks_to_pmf
from tistreamlines.space.sphere import load_sphere

SIDE, RADIUS, NOISE = 2.0, 15.0, 9.0  # mm, voxels, degrees
VERTICES = load_sphere("default")[0]


def at_random(count, seed=0):
    vectors = np.random.default_rng(seed).normal(size=(count, 3))
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_a_lobe_is_highest_at_the_nearest_vertex():
    directions = at_random(200) * np.random.default_rng(1).uniform(0.1, 3, (200, 1))
    narrow, wide = (peaks_to_pmf(directions[:, None], VERTICES, width) for width in (0, 15))
    assert np.array_equal(narrow.argmax(axis=1), wide.argmax(axis=1))
    assert np.allclose(narrow.max(axis=1), wide.max(axis=1), rtol=1e-6)
    assert np.allclose(wide.max(axis=1), np.linalg.norm(directions, axis=1), rtol=1e-6)


@pytest.mark.parametrize("width", [5, 15, 30])
def test_a_lobe_is_that_of_watson(width):
    # of a peak at a vertex; the mean squared cosine of the distribution on the sphere, by quadrature
    vertex = VERTICES[17]
    lobe = peaks_to_pmf(vertex[None, None], np.concatenate([load_sphere("full")[0]]), width)[0].astype(float)
    kappa = 1 / (2 * np.radians(width) ** 2)
    mass, moment = (quad(lambda u, n=n: u**n * np.exp(kappa * (u * u - 1)), -1, 1)[0] for n in (0, 2))
    squares = (load_sphere("full")[0] @ vertex) ** 2
    assert lobe @ squares / lobe.sum() == pytest.approx(moment / mass, abs=0.01)


def test_lobes_of_neighbours_meet_between_them():
    # peaks 24 degrees apart, in two halves of an image; DIPY reads the middle
    first, last = ([np.cos(angle), np.sin(angle), 0] for angle in np.radians([-12, 12]))
    peaks = np.where(np.arange(4)[:, None, None, None, None] < 2, first, last) * np.ones((4, 4, 4, 1, 1))
    along = {}
    for width in (0, 15):
        pmf = peaks_to_pmf(peaks, VERTICES, width).astype(float)
        getter = DeterministicMaximumDirectionGetter.from_pmf(pmf, 20, Sphere(xyz=VERTICES))
        (along[width],) = getter.initial_direction(np.array([1.5, 1.5, 1.5]))[:1]
    assert abs(along[0][0]) < np.cos(np.radians(6)), "a vertex is the peak of one side"
    assert abs(along[15][0]) > np.cos(np.radians(5)), "lobes have their mean"


@pytest.fixture(scope="module")
def ring(tmp_path_factory):
    """A ring of fibres whose peaks are off by some degrees at random; a weaker second peak points to its centre."""
    x, y, _ = np.indices((40, 40, 6)) - np.array([19.5, 19.5, 2.5])[:, None, None, None]
    away = np.hypot(x, y)
    inside = (abs(away - RADIUS) < 3).astype(np.float32)
    rng = np.random.default_rng(3)
    tangent, centre = (np.stack([a, b, 0 * x], axis=-1) / away[..., None] for a, b in ((-y, x), (x, y)))
    noisy = tangent + np.radians(NOISE) * rng.normal(size=tangent.shape)
    peaks = np.concatenate([0.4 * centre, noisy / np.linalg.norm(noisy, axis=-1, keepdims=True)], axis=-1)
    folder, affine = tmp_path_factory.mktemp("ring"), np.diag([SIDE, SIDE, SIDE, 1])
    for name, values in (("peaks", peaks * inside[..., None]), ("inside", inside)):
        nib.save(nib.Nifti1Image(values.astype(np.float32), affine), folder / f"{name}.nii.gz")
    return folder


def followed(folder, **options):
    return ts.track(
        peaks=folder / "peaks.nii.gz", peaks_frame="voxel", stop_map=folder / "inside.nii.gz", stop_threshold=0.5,
        seed_mask=folder / "inside.nii.gz", nseeds=200, max_steps=60, arch="cpu", like="dipy", **options,
    )


def share_without_direction(result):
    return result.stop_reasons["no_direction"] / sum(result.stop_reasons.values())


@pytest.mark.parametrize("dg", ["det", "prob"])
def test_peaks_that_differ_are_followed(ring, dg):
    result = followed(ring, dg=dg, max_directions=1)
    assert share_without_direction(result) < 0.05
    assert result.median_mm > 40
    assert share_without_direction(followed(ring, dg=dg, max_directions=1, peak_width=0)) > 0.5


def test_the_highest_peak_is_the_one_of_the_greatest_amplitude(ring):
    # the second peak of the file is the higher one
    (batch,) = ts.stream(
        peaks=ring / "peaks.nii.gz", peaks_frame="voxel", stop_map=ring / "inside.nii.gz", stop_threshold=0.5,
        seed_mask=ring / "inside.nii.gz", nseeds=200, max_directions=1, max_steps=3, min_length=0, dg="det", arch="cpu",
    )
    along = np.array([line[-1] - line[0] for line in batch])
    middle = np.array([line.mean(axis=0) for line in batch]) - np.array([19.5, 19.5, 2.5]) * SIDE
    radial = (along * middle)[:, :2].sum(axis=1) / np.linalg.norm(along, axis=1) / np.linalg.norm(middle[:, :2], axis=1)
    assert np.median(abs(radial)) < 0.3
