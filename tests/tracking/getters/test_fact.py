"""FACT: the peak that is chosen against its formula, and whole runs against tckgen."""

import os
import shutil
import subprocess
from itertools import pairwise

import nibabel as nib
import numpy as np
import pytest
from dialects import reals, run
from distributions import unit
from scipy.spatial import cKDTree
from streamlines import lengths, through

import tistreamlines as ts
from tistreamlines.kernels.getters.along_peaks import Fact, peak_at
from tistreamlines.kernels.interpolate import Volume
from tistreamlines.linker.lang import Reals, func, i32, vec3
from tistreamlines.run.from_arrays import prepare_arrays
from tistreamlines.tracking.tables.inputs import OrientationFunctions

needs_mrtrix = pytest.mark.skipif(shutil.which("tckgen") is None, reason="MRtrix3 is not installed")
SHAPE, AFFINE, SEEDS = (24, 22, 12), np.diag([2.0, 2.0, 2.0, 1.0]), 2500
ANGLE = 60.0


@func
def followed(item: i32, volume: Volume, method: Fact, points: Reals, headings: Reals, out: Reals):
    """The peak at a point that a heading leads to."""
    p = vec3(points[3 * item], points[3 * item + 1], points[3 * item + 2])
    d = vec3(headings[3 * item], headings[3 * item + 1], headings[3 * item + 2])
    peak = peak_at(volume, p, d, method)
    for axis in range(3):
        out[3 * item + axis] = peak[axis]


def many_peaks(count: int) -> np.ndarray:
    """Peaks (x, y, z, count, 3) of any length, a third of them missing."""
    rng = np.random.default_rng(count)
    peaks = rng.normal(size=(*SHAPE, count, 3))
    return (peaks * (rng.uniform(size=(*SHAPE, count, 1)) > 1 / 3)).astype(np.float32)


def most_collinear(peaks: np.ndarray, heading: np.ndarray) -> np.ndarray:
    """The peak of a voxel (count, 3) that is most collinear with a heading, in its sense."""
    lengths = np.linalg.norm(peaks, axis=1)
    cosines = np.divide(peaks @ heading, lengths, out=np.zeros(len(peaks)), where=lengths > 0)
    number = np.abs(cosines).argmax()
    if np.abs(cosines[number]) < np.cos(np.radians(ANGLE)):
        return np.zeros(3)
    return np.copysign(1, cosines[number]) * peaks[number]


def expected(peaks: np.ndarray, point: np.ndarray, heading: np.ndarray, between: str) -> np.ndarray:
    """The peak at a point, from the nearest voxel or blended from eight."""
    edge = np.array(SHAPE) - 1
    if between == "nearest":
        return most_collinear(peaks[tuple(np.clip(np.floor(point + 0.5).astype(int), 0, edge))], heading)
    low, total = np.floor(point), np.zeros(3)
    for corner in np.ndindex(2, 2, 2):
        weight = np.prod(np.where(corner, point - low, 1 - (point - low)))
        voxel = tuple(np.clip((low + corner).astype(int), 0, edge))
        total += weight * most_collinear(peaks[voxel], heading)
    return total


@pytest.mark.parametrize("between", ["nearest", "linear"])
@pytest.mark.parametrize("count", [1, 3, 40])
@pytest.mark.parametrize("dialect", ["python", "numba32"])
def test_the_peak_is_that_of_the_formula(dialect, count, between):
    peaks, items = many_peaks(count), 60 if dialect == "python" else 400
    flat = OrientationFunctions("peaks", peaks.reshape(*SHAPE, -1))
    prepared = prepare_arrays("fact", flat, np.ones(SHAPE, np.float32), 0.5, np.ones((1, 3)), max_angle=ANGLE,
                              peaks_between=between)
    rng = np.random.default_rng(7)
    points = rng.uniform(-0.4, np.array(SHAPE) - 0.6, (items, 3)).astype(np.float32)
    headings = unit(rng.normal(size=(items, 3))).astype(np.float32)
    values = prepared.arrays | prepared.scalars | {
        "points": points.ravel(), "headings": headings.ravel(), "out": reals(3 * items),
    }
    chosen = np.asarray(run(dialect, followed, items, values, prepared, prepared.scratch)["out"]).reshape(-1, 3)
    wanted = [expected(peaks, *place, between) for place in zip(points, headings, strict=True)]
    np.testing.assert_allclose(chosen, wanted, atol=1e-5)
    assert (chosen != 0).any(axis=1).mean() > 0.3


def crossing() -> np.ndarray:
    """Two peaks a voxel, (x, y, z, 6): a bundle that bends around a corner, and one that crosses it; NaN elsewhere.

    The first peak of a voxel is there if any is: tckgen takes voxels for empty whose first number is NaN.
    """
    _, y, z = np.indices(SHAPE)
    bent = 0.8 * bend()
    straight = np.broadcast_to([0.6, 0.1, 0.05], (*SHAPE, 3)).copy()
    straight[(np.abs(y - 8) > 3) | (np.abs(z - 6) > 3)] = np.nan
    alone = np.isnan(bent[..., :1])
    return np.where(alone, np.concatenate([straight, bent], axis=-1), np.concatenate([bent, straight], axis=-1)).astype(
        np.float32
    )


def bend() -> np.ndarray:
    """The bundle that bends, (x, y, z, 3)."""
    x, y, _ = np.indices(SHAPE)
    radius = np.hypot(x + 0.5, y + 0.5)
    peaks = np.stack([-(y + 0.5), x + 0.5, 0 * radius], axis=-1) / radius[..., None]
    peaks[(radius < 9) | (radius > 18)] = np.nan
    return peaks.astype(np.float32)


def tracked(peaks: np.ndarray, **named):
    image = nib.Nifti1Image(peaks, AFFINE)
    number = {} if "seed_grid" in named else {"nseeds": 300}
    named = number | {"seed_mask": np.ones(SHAPE, np.float32), "arch": "cpu"} | named
    named["seed_mask"] = nib.Nifti1Image(np.asarray(named["seed_mask"], np.float32), AFFINE)
    batches = ts.stream(peaks=image, peaks_frame="scanner", dg="fact", **named)
    return ts.Batch.concatenate(list(batches))


def of_tckgen(folder, peaks, words):
    """Streamlines of tckgen."""
    nib.save(nib.Nifti1Image(peaks, AFFINE), folder / "peaks.nii")
    nib.save(nib.Nifti1Image(np.ones(SHAPE, np.uint8), AFFINE), folder / "seeds.nii")
    command = f"tckgen peaks.nii a.tck -algorithm FACT -select 0 -quiet -force -nthreads 0 {words}"
    subprocess.run(command.split(), cwd=folder, env=os.environ | {"MRTRIX_RNG_SEED": "1"}, check=True)
    return [np.array(line) for line in nib.streamlines.load(folder / "a.tck").streamlines]


@needs_mrtrix
def test_streamlines_are_those_of_tckgen_but_for_chance(tmp_path):
    theirs = lengths(of_tckgen(tmp_path, crossing(), f"-seed_image seeds.nii -seeds {SEEDS}"))
    ours = lengths(list(tracked(crossing(), nseeds=SEEDS)))
    share = len(theirs) / SEEDS
    assert 0.1 < share < 0.9
    assert abs(len(ours) / SEEDS - share) < 4 * np.sqrt(2 * share * (1 - share) / SEEDS)
    error = np.sqrt(ours.var() / len(ours) + theirs.var() / len(theirs))
    assert abs(ours.mean() - theirs.mean()) < 4 * error < 0.1 * theirs.mean()


@needs_mrtrix
def test_each_streamline_is_that_of_tckgen_from_the_same_seed(tmp_path):
    bent = bend()
    theirs = of_tckgen(tmp_path, bent, "-seed_grid_per_voxel seeds.nii 1")
    ours = tracked(bent, seed_grid=1)
    there, compared = through(theirs, ours.seeds), 0
    for numbers, line in list(zip(there, ours, strict=True))[::3]:
        if len(numbers) == 1:
            compared += 1
            (other,) = (theirs[number] for number in numbers)
            fine = np.concatenate([a + (b - a) * np.linspace(0, 1, 20)[:, None] for a, b in pairwise(line)])
            assert cKDTree(fine).query(other[1:-1])[0].max() < 0.05  # tckgen keeps the first point outside
            assert abs(len(line) - len(other)) <= 4
    assert compared > 70


def test_blended_peaks_turn_little_by_little():
    """Those of the nearest voxel turn at the borders of voxels alone."""
    turns = {}
    for between in ("nearest", "linear"):
        steps = [unit(np.diff(line, axis=0)) for line in tracked(bend(), peaks_between=between) if len(line) > 60]
        angles = np.concatenate([np.degrees(np.arccos(np.clip((a[1:] * a[:-1]).sum(axis=1), -1, 1))) for a in steps])
        turns[between] = angles[angles > 0.1], angles.max()
    assert turns["linear"][1] < 0.5 * turns["nearest"][1]
    assert len(turns["linear"][0]) > 2 * len(turns["nearest"][0])


def test_a_sharper_turn_than_the_greatest_angle_ends_a_half():
    """Peaks turn by 30 degrees from one voxel to the next."""
    x = np.indices(SHAPE)[0]
    peaks = np.where((x < 12)[..., None], [1.0, 0, 0], unit(np.array([1.0, 0.58, 0]))).astype(np.float32)
    named = {"seed_mask": x == 6, "nseeds": 60, "min_length": 0}
    reach = [
        np.array([line[:, 0].max() for line in tracked(peaks, max_angle=angle, **named)]) / 2 for angle in (60.0, 20.0)
    ]
    assert np.median(reach[0]) > 14
    assert np.all(reach[1] < 12)


def test_short_peaks_are_not_followed():
    peaks = 0.3 * np.nan_to_num(crossing())
    assert len(tracked(peaks)) > 20
    with pytest.warns(UserWarning, match="streamline"):
        assert not any(len(batch) for batch in ts.stream(
            peaks=nib.Nifti1Image(peaks, AFFINE), dg="fact", seed_mask=nib.Nifti1Image(np.ones(SHAPE), AFFINE),
            nseeds=300, cutoff=0.5, arch="cpu",
        ))


def test_tissues_that_lie_in_the_rows_end_streamlines_where_they_end_those_of_other_getters():
    """Several maps need numbers of a row that peaks would have."""
    shares = {"pve_wm": np.ones(SHAPE), "pve_gm": np.zeros(SHAPE), "pve_csf": np.zeros(SHAPE)}
    shares["pve_wm"][:6], shares["pve_gm"][:6] = 0, 1
    shares["pve_wm"][14:], shares["pve_csf"][14:] = 0, 1
    maps = {name: nib.Nifti1Image(values.astype(np.float32), AFFINE) for name, values in shares.items()}
    peaks = np.broadcast_to(np.float32([1, 0, 0]), (*SHAPE, 3)).copy()
    result = tracked(peaks, stopping="act", seed_mask=np.indices(SHAPE)[0] == 10, nseeds=100, min_length=0, **maps)
    ends = np.array([[line[:, 0].min(), line[:, 0].max()] for line in result]) / 2
    assert len(ends) > 30
    assert np.abs(ends - [5.5, 13.5]).max() < 0.2
