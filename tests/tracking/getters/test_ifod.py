"""The parts of iFOD1 and iFOD2 against closed forms in float64, and their tables against those that tckgen prints."""

import os
import re
import shutil
import subprocess
from functools import cache

import nibabel as nib
import numpy as np
import pytest
from dialects import reals, run
from distributions import unit
from fod_kernels import SHAPE, amplitudes, arcs, courses, crossing, likelihoods
from scipy.ndimage import map_coordinates
from scipy.stats import kstest
from streamlines import lengths

import tistreamlines as ts
from tistreamlines.kernels.getters import ifod2
from tistreamlines.kernels.getters.fod import OUTSIDE
from tistreamlines.run.from_arrays import prepare_arrays
from tistreamlines.space.harmonics import sampling_matrix
from tistreamlines.tracking.tables.inputs import OrientationFunctions

STEP = np.array([0.11, 0.17, 0.13])  # voxels, of a part of an arc
RULES = {
    **dict(zip(("rules_step_x", "rules_step_y", "rules_step_z"), STEP, strict=True)), "rules_max_steps": 9,
    "rules_most": 9, "rules_key": np.array([5, 11]), "rules_first_seed": 0,
}
BENT = crossing()


@cache
def prepared(dg, order=8, **options):
    """The tables for the crossing; with ``step_mm``, the length of a step of the engine."""
    values, seeds = crossing(order), np.argwhere(np.ones(SHAPE)).astype(float)
    functions = OrientationFunctions("sh", values, "tournier07")
    return prepare_arrays(dg, functions, np.ones(SHAPE, np.float32), 0.5, seeds, **options)


def called(kernel, count, dg="ifod2", dialect="python", **arrays):
    """What a kernel writes."""
    tables = prepared(dg, max_angle={"ifod1": 20.0, "ifod2": 50.0}[dg])
    values = tables.arrays | tables.scalars | RULES | arrays
    return run(dialect, kernel, count, values, tables, tables.scratch)["out"]


def expected(points, directions):
    """The FOD at points (n, 3), voxel, each in its direction; OUTSIDE where the nearest voxel has none."""
    nearest = np.floor(points + 0.5).astype(int)
    inside = ((nearest >= 0) & (nearest < SHAPE)).all(axis=1)
    there = inside & BENT.any(axis=-1)[tuple(np.where(inside[:, None], nearest, 0).T)]
    volumes = np.moveaxis(BENT, -1, 0).astype(float)
    rows = np.stack([map_coordinates(each, points.T, order=1, mode="nearest") for each in volumes], axis=1)
    return np.where(there, (rows * sampling_matrix(directions, 8, "tournier07")).sum(axis=1), OUTSIDE)


# ------------------------------------------------------------------------------------------------------ the kernels
@pytest.mark.parametrize("spread", [0.0, 0.3, 6.0], ids=["one cell", "a few cells", "many"])
def test_amplitudes_are_those_of_the_interpolated_fod(spread):
    rng = np.random.default_rng(1)
    centres = rng.uniform(0, np.array(SHAPE) - 1, (12, 3))
    points = np.where(spread > 0, centres, np.floor(centres) + 0.5)[:, None] + spread * rng.uniform(-1, 1, (12, 32, 3))
    points += (spread == 0) * rng.uniform(-0.499, 0.499, points.shape)
    directions = unit(rng.normal(size=points.shape))
    lanewise = [np.moveaxis(vectors, 1, 2) for vectors in (points, directions)]
    got = called(amplitudes, 12, centres=centres, points=lanewise[0], directions=lanewise[1], out=reals(384))
    truth = expected(points.reshape(-1, 3), directions.reshape(-1, 3))
    assert 0.1 < (truth == OUTSIDE).mean() < 0.9
    np.testing.assert_allclose(got, truth, rtol=1e-9, atol=1e-6)  # values are stored as float32


def arc_of(start, d, end, parts, step):
    """Points (parts, 3) and directions of an arc, voxel, in MRtrix3's closed form; ``step`` is that of a part."""
    angle = np.arccos(np.clip(d @ end, -1, 1))
    aside = unit(end - (d @ end) * d)
    turned = (angle * np.arange(1, parts + 1) / parts)[:, None]
    places = (parts / angle) * (np.sin(turned) * d + (1 - np.cos(turned)) * aside)
    return start + step * places, np.cos(turned) * d + np.sin(turned) * aside


def test_a_step_is_an_arc_of_a_circle():
    directions = unit(np.random.default_rng(2).normal(size=(50, 3)))
    directions[:2] = [[0, 0, 1], [0, 0, -1]]
    steps = called(arcs, 50, directions=directions, out=reals(50 * 18)).reshape(50, 3, 6)
    for d, (*parts,) in zip(directions, steps, strict=True):
        points, ways = arc_of(np.zeros(3), d, parts[-1][3:], 3, STEP)
        np.testing.assert_allclose(np.array(parts), np.hstack([points, ways]), atol=2e-7)


def test_an_arc_is_as_probable_as_the_product_of_its_amplitudes():
    rng = np.random.default_rng(3)
    places = np.argwhere(BENT.any(axis=-1))
    centres = places[rng.integers(len(places), size=12)] + rng.uniform(-0.5, 0.5, (12, 3))
    radial = centres[:, :2] + 0.5
    directions = unit(np.column_stack([-radial[:, 1], radial[:, 0], rng.normal(0, 2, 12)]))
    got = called(likelihoods, 12, centres=centres, directions=directions, out=reals(12 * 224)).reshape(12, 7, 32)
    kinds = set()
    for p, d, (likely, half, cosine, sine, *u) in zip(centres, directions, got, strict=True):
        first = np.array(u)[:, 0]
        assert abs(first @ d) < 1e-6 and abs(np.linalg.norm(first) - 1) < 1e-6
        for k in range(32):
            angle, aside = 2 * np.arcsin(half[k]), cosine[k] * first + sine[k] * np.cross(d, first)
            values = expected(*arc_of(p, d, np.cos(angle) * d + np.sin(angle) * aside, 3, STEP))
            low = np.flatnonzero(values < 0.1)
            kind = 0 if not len(low) else 1 if values[low[0]] > OUTSIDE else 2
            kinds.add(kind)
            truth = np.log(np.maximum(values, 1e-9)) @ [1, 1, 0.5]
            assert likely[k] == pytest.approx((truth, ifod2.IMPOSSIBLE, ifod2.LEFT)[kind], rel=1e-5, abs=2e-5)
    assert kinds == {0, 1, 2}


@pytest.mark.parametrize(("dg", "greatest"), [("ifod1", 20.0), ("ifod2", 50.0)])
def test_draws_are_uniform_in_the_cone(dg, greatest):
    d = unit(np.array([0.3, -0.5, 0.7]))
    directions = np.broadcast_to(d, (1000, 3))
    if dg == "ifod1":
        ends = called(courses, 1000, dg, "numba64", directions=directions, out=reals(3000)).reshape(-1, 3) / STEP
    else:
        ends = called(arcs, 1000, dg, "numba64", directions=directions, out=reals(18_000)).reshape(-1, 18)[:, 15:]
    np.testing.assert_allclose(np.linalg.norm(ends, axis=1), 1, atol=1e-6)
    height = (1 - ends @ d) / (1 - np.cos(np.radians(greatest)))  # uniform in the cone, by Archimedes
    first = unit(np.cross(d, [1, 0, 0]))
    azimuth = np.arctan2(ends @ np.cross(d, first), ends @ first) / (2 * np.pi) + 0.5
    assert height.max() <= 1
    assert kstest(height, "uniform").pvalue > 1e-3
    assert kstest(azimuth, "uniform").pvalue > 1e-3
    assert abs(np.corrcoef(height, azimuth)[0, 1]) < 0.1


# ------------------------------------------------------------------------------------------------------- the tables
@pytest.mark.skipif(shutil.which("tckgen") is None, reason="MRtrix3 is not installed")
@pytest.mark.parametrize(("dg", "order", "options", "theirs"), [
    ("ifod1", 8, {"max_angle": 15.0}, ""), ("ifod1", 4, {"max_angle": 35.0, "power": 2.0}, "-angle 35 -power 2"),
    ("ifod2", 8, {"max_angle": 45.0}, ""), ("ifod2", 4, {"max_angle": 45.0}, ""),
    ("ifod2", 8, {"max_angle": 30.0, "samples": 6}, "-angle 30 -samples 6"),
    ("ifod2", 6, {"max_angle": 60.0, "step_mm": 2.4 / 3, "power": 1.0}, "-angle 60 -step 2.4 -power 1"),
])
def test_the_grid_is_that_of_tckgen(tmp_path, dg, order, options, theirs):
    nib.save(nib.Nifti1Image(crossing(order), np.diag([2.0, 2, 2, 1])), tmp_path / "fod.nii")
    words = f"tckgen fod.nii a.tck -algorithm {dg} -seed_sphere 20,10,6,1 -seeds 1 -select 0 -info -nthreads 0 {theirs}"
    printed = subprocess.run(words.split(), cwd=tmp_path, capture_output=True, text=True, check=True).stderr
    count, ratio = re.search(r"will use (\d+) directions with a ratio of ([\d.]+)", printed).groups()
    parts = options.get("samples", 4) - 1
    method = prepared(dg, order, voxel_sizes=(2.0, 2.0, 2.0), **{"step_mm": 1.0 / parts} | options).getter.method
    columns = method.grid.reshape(-1, 3, 32).swapaxes(1, 2).reshape(-1, 3)
    assert len(np.unique(columns.round(6), axis=0)) == int(count)
    assert method.ratio == pytest.approx(float(ratio), rel=2e-3)


@pytest.mark.parametrize(("change", "words"), [
    ({"basis": "tournier07_full", "count": 16}, "a full basis"), ({"count": 16}, "16 coefficients fit no order"),
    ({"count": 1}, "a single coefficient"), ({"step_mm": 8.0}, "step_size is more than 15 voxels"),
])
def test_what_cannot_be_tracked_is_told(change, words):
    values = np.ones((3, 3, 3, change.get("count", 45)), np.float32)
    functions = OrientationFunctions("sh", values, change.get("basis", "tournier07"))
    with pytest.raises(ts.TrackingError, match=words):
        prepare_arrays("ifod2", functions, np.ones((3, 3, 3)), 0.5, np.ones((1, 3)), step_mm=change.get("step_mm", 0.2))


# --------------------------------------------------------------------------------------------------------- whole runs
AFFINE = np.diag([2.0, 2.0, 2.0, 1.0])
SEEDS = 500
IMAGES = {"affine": AFFINE, "sh": BENT, "sh_basis": "tournier07", "arch": "cpu"}
INSIDE = BENT.any(axis=-1) & np.pad(np.ones((22, 22, 7), bool), ((1, 1), (1, 1), (0, 0)))
WHERE = {"seed_mask": INSIDE, "stop_mask": INSIDE.astype(np.float32)}


@cache
def tracked(dg, **options):
    named = IMAGES | WHERE | {"dg": dg, "nseeds": SEEDS} | options
    return ts.Batch.concatenate(list(ts.stream(**named)))


def same(batch, other):
    fields = ("points", "offsets", "seeds", "stop_reasons")
    return all(np.array_equal(getattr(batch, name), getattr(other, name)) for name in fields)


def figures(lines):
    """Share of accepted seeds, lengths of streamlines, and in how many voxels' neighbourhoods each was."""
    visits = [np.unique(np.clip(np.rint(line / 2).astype(int), 0, np.array(SHAPE) - 1), axis=0) for line in lines]
    density = np.zeros(SHAPE)
    np.add.at(density, tuple(np.concatenate(visits).T), 1)
    return len(lines) / SEEDS, lengths(lines), density


@pytest.mark.skipif(shutil.which("tckgen") is None, reason="MRtrix3 is not installed")
@pytest.mark.parametrize("dg", ["ifod1", "ifod2"])
def test_streamlines_are_those_of_tckgen_but_for_chance(tmp_path, dg):
    nib.save(nib.Nifti1Image(BENT, AFFINE), tmp_path / "fod.nii")
    nib.save(nib.Nifti1Image(INSIDE.astype(np.uint8), AFFINE), tmp_path / "mask.nii")
    words = f"tckgen fod.nii a.tck -algorithm {dg} -seed_image mask.nii -mask mask.nii -seeds {SEEDS} -select 0 -quiet"
    ours, again = (figures(list(tracked(dg, rng_seed=number, seed_seed=number))) for number in (0, 1))
    drawn = os.environ | {"MRTRIX_RNG_SEED": "1", "MRTRIX_NTHREADS": "0"}
    subprocess.run(words.split(), cwd=tmp_path, env=drawn, check=True)
    share, lengths, density = figures(list(nib.streamlines.load(tmp_path / "a.tck").streamlines))
    assert 0.2 < share < 0.98
    assert abs(ours[0] - share) < 4 * np.sqrt(2 * share * (1 - share) / SEEDS)
    error = np.sqrt(lengths.var() / len(lengths) + ours[1].var() / len(ours[1]))
    assert abs(ours[1].mean() - lengths.mean()) < 4 * error
    repeated, alike = (np.corrcoef(each.ravel(), ours[2].ravel())[0, 1] for each in (again[2], density))
    assert alike > repeated - 0.05 > 0.8  # of 500 seeds; two runs of one program differ by 0.02


def test_the_ends_of_arcs_are_written(tmp_path):
    written, every = tracked("ifod2", nseeds=150), tracked("ifod2", nseeds=150, downsample=1)
    assert len(written) == len(every)
    assert np.array_equal(written.seeds, every.seeds)
    for line, whole, seed in zip(written, every, every.seeds, strict=True):
        place = int(np.abs(whole - seed).sum(axis=1).argmin())
        kept = {0, len(whole) - 1, *range(place % 3, len(whole), 3)}
        assert np.array_equal(line, whole[sorted(kept)])
    assert same(every, tracked("ifod2", nseeds=150, downsample=1, threads=1))
    named = IMAGES | WHERE | {"dg": "ifod2", "nseeds": 20, "samples": 3}
    record = ts.track(output=tmp_path / "a.tck", **named).record
    assert record["parameters"]["downsample"] == 2
    assert float(nib.streamlines.load(tmp_path / "a.tck").header["step_size"]) == pytest.approx(1.0)  # of tckgen's, too
    assert ts.track(**IMAGES, **WHERE, dg="ifod1", nseeds=5).record["parameters"]["downsample"] == 1


@pytest.mark.parametrize(("dg", "steps"), [("ifod1", 60), ("ifod2", 36)])
def test_streamlines_end_at_the_greatest_length(dg, steps):
    whole, cut = (tracked(dg, nseeds=150, downsample=1, **more) for more in ({}, {"max_length": "6vox"}))
    assert (whole.lengths > steps + 1).sum() > 20
    for line, shorter, seed in zip(whole, cut, whole.seeds, strict=True):
        place = int(np.abs(line - seed).sum(axis=1).argmin())
        last = min(place + steps, len(line) - 1)
        assert np.array_equal(shorter, line[max(last - steps, 0) : last + 1])


def test_a_mask_ends_them_and_without_one_the_fods_do():
    everywhere = {name: value for name, value in (IMAGES | WHERE).items() if name != "stop_mask"}

    def batch(**ends):
        return ts.Batch.concatenate(list(ts.stream(**everywhere, dg="ifod2", nseeds=50, **ends)))

    masked, free = batch(mask=INSIDE), batch()
    assert same(masked, tracked("ifod2", nseeds=50))
    assert same(free, batch(stop_mask=BENT.any(axis=-1)))  # the FODs end where they do, and not at the mask
    assert not same(free, masked)
    with pytest.raises(ts.ParameterError, match="binary needs stop_mask, or mask for it"):
        ts.track(**everywhere, dg="prob", stopping="binary")


def test_parts_make_the_file_of_one_run(tmp_path):
    named = IMAGES | WHERE | {"dg": "ifod2", "nseeds": 100}
    parts = [tmp_path / f"part{number}.trx" for number in (1, 2)]
    for number, path in enumerate(parts, 1):
        ts.track(output=path, part=f"{number}/2", **named)
    ts.track(output=tmp_path / "whole.trx", **named)
    ts.join(parts, tmp_path / "joined.trx")
    assert (tmp_path / "joined.trx").read_bytes() == (tmp_path / "whole.trx").read_bytes()


def test_particles_are_refused():
    with pytest.raises(ts.ParameterError, match="have no particles"):
        tissues = {name: INSIDE.astype(np.float32) / 3 for name in ("pve_wm", "pve_gm", "pve_csf")}
        ts.track(**IMAGES, seed_mask=INSIDE, dg="ifod2", nseeds=1, stopping="act", pft=True, **tissues)
