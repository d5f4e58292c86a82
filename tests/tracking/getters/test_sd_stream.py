"""SD_STREAM: derivatives, codes and peaks against closed forms and sh2peaks, and whole runs against tckgen."""

import os
import shutil
import subprocess
from functools import cache
from itertools import pairwise

import nibabel as nib
import numpy as np
import pytest
from dialects import ints, reals, run
from distributions import unit
from fod_kernels import SHAPE, crossing, lobes
from peak_kernels import codes_of, directions_of, peaks
from scipy.spatial import cKDTree
from streamlines import lengths, through

import tistreamlines as ts
from tistreamlines.kernels.orientation.peaks import NONE
from tistreamlines.run.from_arrays import prepare_arrays
from tistreamlines.space.harmonics import from_harmonics, sampling_matrix, to_descoteaux
from tistreamlines.tracking.getters.along_peaks import great_circles
from tistreamlines.tracking.registry import METHODS
from tistreamlines.tracking.tables.inputs import OrientationFunctions

needs_mrtrix = pytest.mark.skipif(shutil.which("tckgen") is None, reason="MRtrix3 is not installed")
ROUNDED = 1.3e-4  # radians, of a direction's code
REACHED = 1e-4  # radians, of the last round


# -------------------------------------------------------------------------------------------------------- directions
@pytest.mark.parametrize("dialect", ["python", "numba32"])
def test_a_code_is_its_direction(dialect):
    directions = unit(np.random.default_rng(1).normal(size=(320, 3)))
    directions[:6] = np.vstack([np.eye(3), -np.eye(3)])
    directions[6] = unit(np.array([1.0, 1, 0]))
    decoded = directions_of(codes := codes_of(directions, dialect), dialect)
    np.testing.assert_allclose(np.linalg.norm(decoded, axis=1), 1, atol=1e-6)
    assert 1e-5 < np.linalg.norm(decoded - directions, axis=1).max() < ROUNDED
    np.testing.assert_allclose(decoded[:6], directions[:6], atol=1e-7)
    assert 0 <= codes.min() < codes.max() < 2**30
    opposite = directions_of(codes_of(-decoded, dialect), dialect)  # a backward half sets out in it
    np.testing.assert_allclose(opposite, -decoded, atol=5e-7)


@pytest.mark.parametrize("order", [2, 8, 10, 16])
def test_derivatives_are_those_of_the_function(order):
    """By differences on the sphere, in float64."""
    rng = np.random.default_rng(order)
    axes = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    values = rng.normal(size=(order + 1) * (order + 2) // 2)

    def along(a, b):
        t = np.hypot(a, b)
        d = np.cos(t) * axes[0] + np.sinc(t / np.pi) * (a * axes[1] + b * axes[2])
        return (sampling_matrix(d[None], order, "tournier07") @ values)[0]

    h = 1e-4
    mixed = along(h, h) + along(-h, -h) - along(h, -h) - along(-h, h)
    expect = [along(h, 0) - along(-h, 0), along(0, h) - along(0, -h)], [
        along(h, 0) + along(-h, 0) - 2 * along(0, 0), along(0, h) + along(0, -h) - 2 * along(0, 0), mixed / 4,
    ]
    parts, weights = great_circles(order)
    slopes, bends = np.split(sampling_matrix(parts @ axes, order, "tournier07") @ values @ weights, [2])
    np.testing.assert_allclose(slopes, np.array(expect[0]) / (2 * h), atol=1e-4 * np.abs(slopes).max())
    np.testing.assert_allclose(bends, np.array(expect[1]) / h**2, atol=1e-4 * np.abs(bends).max())


# -------------------------------------------------------------------------------------------------------------- peaks
@cache
def prepared(order=8):
    """The tables for the crossing."""
    functions = OrientationFunctions("sh", crossing(order), "tournier07")
    seeds = np.argwhere(np.ones(SHAPE)).astype(float)
    return prepare_arrays("sd_stream", functions, np.ones(SHAPE, np.float32), 0.5, seeds, max_angle=60.0)


def climbed(values, directions, dialect="python", order=8):
    """The peaks that are found from directions (n, 3) on FODs (n, coefficients): directions, amplitudes, and which."""
    tables, n = prepared(order), len(values)
    rows = np.zeros((n, tables.scratch["scratch_row"][1]))
    polynomials = to_descoteaux(values, "tournier07") @ from_harmonics(order).T
    rows[:, : polynomials.shape[1]] = polynomials
    out = tables.arrays | tables.scalars | {
        "rows": rows, "directions": directions, "codes": ints(n), "amplitudes": reals(n),
    }
    done = run(dialect, peaks, n, out, tables, tables.scratch)
    codes = np.asarray(done["codes"])
    return directions_of(np.maximum(codes, 0)), np.asarray(done["amplitudes"]), codes != NONE


def angles(axes, others):
    """Angles between axes, radians."""
    return np.linalg.norm(np.cross(axes, others), axis=-1)


@pytest.mark.parametrize("dialect", ["python", "numba32"])
def test_the_peak_of_a_fibre_is_its_direction(dialect):
    rng = np.random.default_rng(3)
    fibres = unit(rng.normal(size=(24, 3)))
    fibres[:2] = [[0, 0, 1], [1, 0, 0]]
    begin = unit(fibres + 0.3 * rng.uniform(-1, 1, fibres.shape))
    heights = np.where(np.arange(24) < 20, 0.8, 0.05)
    axes, amplitudes, there = climbed(heights[:, None] * lobes(fibres), begin, dialect)
    np.testing.assert_array_equal(there, heights > 0.1)
    np.testing.assert_allclose(amplitudes, heights, rtol=1e-5)
    assert angles(axes, fibres)[there].max() < ROUNDED + REACHED
    assert ((axes * begin).sum(axis=1) > 0)[there].all()


@pytest.mark.skipif(shutil.which("sh2peaks") is None, reason="MRtrix3 is not installed")
@pytest.mark.parametrize("order", [4, 8])
def test_peaks_are_those_of_sh2peaks(tmp_path, order):
    rng = np.random.default_rng(4)
    n = 150
    fibres, shares = unit(rng.normal(size=(n, 3, 3))), rng.uniform(0.3, 1, (n, 3, 1))
    values = (shares * lobes(fibres, order)).sum(axis=1).astype(np.float32)
    nib.save(nib.Nifti1Image(values[:, None, None], np.eye(4)), tmp_path / "fod.nii")
    words = "sh2peaks fod.nii peaks.nii -num 12 -quiet -nthreads 0"
    subprocess.run(words.split(), cwd=tmp_path, check=True)
    theirs = np.asarray(nib.load(tmp_path / "peaks.nii").dataobj)[:, 0, 0].reshape(n, -1, 3)
    heights = np.linalg.norm(theirs, axis=-1)
    with np.errstate(invalid="ignore"):
        theirs = theirs / heights[..., None]
    axes, amplitudes, there = climbed(values, unit(rng.normal(size=(n, 3))), "numba64", order)
    high = there & (amplitudes > 0.2)  # sh2peaks climbs from 60 directions, and misses some low side lobes
    assert high.sum() > 30
    for k in np.flatnonzero(high):
        apart = angles(theirs[k], axes[k])
        nearest = np.nanargmin(apart)
        assert apart[nearest] < 3e-3  # the last rounds of both are shorter than 1e-4, also along a flat ridge
        assert heights[k, nearest] == pytest.approx(amplitudes[k], rel=1e-4)


# --------------------------------------------------------------------------------------------------------- whole runs
AFFINE = np.diag([2.0, 2.0, 2.0, 1.0])
SEEDS = 1200
BENT = crossing()
INSIDE = BENT.any(axis=-1) & np.pad(np.ones((22, 22, 7), bool), ((1, 1), (1, 1), (0, 0)))
WHERE = {"affine": AFFINE, "sh_basis": "tournier07", "arch": "cpu", "seed_mask": INSIDE,
         "stop_mask": INSIDE.astype(np.float32), "dg": "sd_stream"}


def tracked(fod=BENT, **options):
    return ts.Batch.concatenate(list(ts.stream(**WHERE | {"sh": fod} | options)))


def of_tckgen(folder, fod, mask, words, **environment):
    """Streamlines of tckgen."""
    nib.save(nib.Nifti1Image(fod, AFFINE), folder / "fod.nii")
    nib.save(nib.Nifti1Image(mask.astype(np.uint8), AFFINE), folder / "mask.nii")
    command = f"tckgen fod.nii a.tck -algorithm SD_Stream -mask mask.nii -select 0 -quiet -force -nthreads 0 {words}"
    subprocess.run(command.split(), cwd=folder, env=os.environ | environment, check=True)
    return [np.array(line) for line in nib.streamlines.load(folder / "a.tck").streamlines]


def arrived(lines):
    """Share of seeds, lengths, and how many streamlines were in each voxel."""
    density = np.zeros(SHAPE)
    for line in lines:
        density[tuple(np.unique(np.clip(np.rint(line / 2).astype(int), 0, np.array(SHAPE) - 1), axis=0).T)] += 1
    return len(lines) / SEEDS, lengths(lines), density


@needs_mrtrix
def test_streamlines_are_those_of_tckgen_but_for_chance(tmp_path):
    ours, again = (arrived(list(tracked(nseeds=SEEDS, rng_seed=n, seed_seed=n))) for n in (0, 1))
    words = f"-seed_image mask.nii -seeds {SEEDS}"
    share, lengths, density = arrived(of_tckgen(tmp_path, BENT, INSIDE, words, MRTRIX_RNG_SEED="1"))
    assert 0.1 < share < 0.9
    assert abs(ours[0] - share) < 4 * np.sqrt(2 * share * (1 - share) / SEEDS)
    error = np.sqrt(lengths.var() / len(lengths) + ours[1].var() / len(ours[1]))
    assert abs(ours[1].mean() - lengths.mean()) < 4 * error
    repeated, alike = (np.corrcoef(each.ravel(), ours[2].ravel())[0, 1] for each in (again[2], density))
    assert alike > repeated - 0.05 > 0.7


def lone(fibres):
    """FODs (..., coefficients) with one peak, of 0.8: the fourth power of the cosine of the angle from a fibre."""
    directions = unit(np.random.default_rng(5).normal(size=(100, 3)))
    powers = 0.8 * (fibres.reshape(-1, 3) @ directions.T) ** 4
    values = np.linalg.lstsq(sampling_matrix(directions, 4, "tournier07"), powers.T, rcond=None)[0].T
    return values.reshape(*fibres.shape[:-1], -1).astype(np.float32)


@pytest.fixture(scope="module")
def bundle():
    """FODs of a bundle that bends: from any direction, the peak is its fibre."""
    x, y, _ = np.indices(SHAPE)
    radius = np.hypot(x + 0.5, y + 0.5)
    fibres = unit(np.stack([-(y + 0.5), x + 0.5, 0 * radius], axis=-1))
    return lone(fibres) * ((radius > 9) & (radius < 18))[..., None]


@needs_mrtrix
def test_each_streamline_is_that_of_tckgen_from_the_same_seed(tmp_path, bundle):
    seeds = np.zeros(SHAPE, bool)
    seeds[3:14:2, 9:13, 2:5] = bundle[3:14:2, 9:13, 2:5].any(axis=-1)
    nib.save(nib.Nifti1Image(seeds.astype(np.uint8), AFFINE), tmp_path / "seeds.nii")
    theirs = of_tckgen(tmp_path, bundle, bundle.any(axis=-1), "-seed_grid_per_voxel seeds.nii 1")
    ours = tracked(bundle, seed_mask=seeds, seed_grid=1, stop_mask=bundle.any(axis=-1).astype(np.float32))
    compared = 0
    for numbers, line in zip(through(theirs, ours.seeds), ours, strict=True):
        if numbers:
            (other,) = (theirs[number] for number in numbers)
            compared += 1
            inner = other[1:-1]  # tckgen keeps the first point outside
            fine = np.concatenate([a + (b - a) * np.linspace(0, 1, 20)[:, None] for a, b in pairwise(line)])
            assert cKDTree(fine).query(inner)[0].max() < 0.02
            assert abs(len(line) - len(other)) <= 4
    assert compared > 0.5 * seeds.sum()


def test_only_the_first_direction_is_drawn(bundle):
    """With other random numbers, the streamlines are the same ones, some of them reversed."""
    named = {"nseeds": 200, "stop_mask": bundle.any(axis=-1).astype(np.float32)}
    first, second = (tracked(bundle, rng_seed=number, **named) for number in (1, 2))
    pairs = {tuple(seed): line for seed, line in zip(first.seeds, first, strict=True)}
    both = [(pairs[tuple(seed)], line) for seed, line in zip(second.seeds, second, strict=True) if tuple(seed) in pairs]
    assert len(both) > 50
    reversed_ones = 0
    for line, again in both:
        backwards = np.linalg.norm(line[0] - again[0]) > np.linalg.norm(line[0] - again[-1])
        reversed_ones += backwards
        np.testing.assert_allclose((line[0], line[-1]), (again[::-1] if backwards else again)[[0, -1]], atol=0.3)
    assert 0.2 < reversed_ones / len(both) < 0.8
    assert METHODS["sd_stream"].draws and not METHODS["sd_stream"].steps_draw


def test_a_sharper_turn_than_the_greatest_angle_ends_a_half():
    """Fibres turn by 30 degrees from one voxel to the next, which a streamline crosses in about ten steps."""
    x = np.indices(SHAPE)[0]
    fibres = np.where((x < 12)[..., None], [1.0, 0, 0], unit(np.array([1.0, 0.58, 0])))
    named = {"seed_mask": x == 6, "stop_mask": np.ones(SHAPE, np.float32), "nseeds": 60, "min_length": 0}
    wide, narrow = (tracked(lone(fibres), max_angle=angle, **named) for angle in (60.0, 1.0))
    reach = [np.array([line[:, 0].max() for line in batch]) / 2 for batch in (wide, narrow)]
    assert np.median(reach[0]) > 14
    assert np.all(reach[1] < 12)
    assert np.all(reach[1] > 10.5)


def test_particles_are_refused():
    with pytest.raises(ts.ParameterError, match="have no particles"):
        tissues = {name: INSIDE.astype(np.float32) / 3 for name in ("pve_wm", "pve_gm", "pve_csf")}
        named = {name: value for name, value in WHERE.items() if name != "stop_mask"}
        ts.track(**named, sh=BENT, nseeds=1, stopping="act", pft=True, **tissues)
