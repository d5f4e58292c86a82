"""Ways to seed: their positions against DIPY's and against laws, given directions, and the same bits everywhere."""

import json
import os
import re
import shutil
import subprocess
from functools import cache

import nibabel as nib
import numpy as np
import pytest
from dialects import reals
from dialects import run as on_dialect
from dipy.tracking.utils import random_seeds_from_mask, seeds_from_mask
from distributions import unit
from getters import WITH_PEAKS
from scipy.stats import chi2_contingency, chisquare, kstest
from synthetic import gradients, noisy_crossing

import tistreamlines as ts
from tistreamlines.option import ball_of
from tistreamlines.space.harmonics import sampling_matrix
from tistreamlines.space.sphere import load_sphere
from tistreamlines.tracking.registry import METHODS
from tistreamlines.tracking.seeding.directed import along_voxel_axes, initial_codes
from tistreamlines.tracking.seeding.more_seeds import BallSeeds, GridSeeds, SeedsPerVoxel, WeightedSeeds
from tistreamlines.tracking.seeding.place_seeds import draw_share, place_in_ball
from tistreamlines.tracking.seeding.seeds import Draw

SHAPE = (9, 8, 7)
TURN = np.linalg.qr(np.random.default_rng(4).normal(size=(3, 3)))[0]
AFFINE = np.eye(4)
AFFINE[:3, :3], AFFINE[:3, 3] = TURN * [2.0, 1.5, 2.5], [-30, 12, 5]
SPACE = ts.Space(AFFINE, SHAPE)
CENTRE = SPACE.to_ras(np.array([4.0, 3.5, 3.0]))
BALL = (*CENTRE.tolist(), 4.0)
ANGLES = {"boot": 60.0, "prob": 20.0, "det": 20.0, "ptt": 20.0}
MOVED = 5.5  # degrees by which a direction may be moved to a vertex of the default sphere
MASK = np.zeros(SHAPE, bool)
MASK[2:5, 3:6, 1:6:2] = True
VOXELS = np.argwhere(MASK).astype(np.int32)


@cache
def inputs(dg):
    """Inputs of a getter: a noisy crossing, or a noise of directions, so that steps have many to choose from."""
    common = {"affine": AFFINE, "stop_map": np.ones(SHAPE, np.float32), "stop_threshold": 0.5, "dg": dg, "max_steps": 6}
    common |= {"max_angle": ANGLES[dg], "min_length": 0}
    if "signals" in METHODS[dg].follows:
        gtab = gradients(32)
        return common | {"bvecs_frame": "voxel", "dwi": noisy_crossing(gtab, SHAPE, snr=12.0), "gtab": gtab}
    noise = np.random.default_rng(2).uniform(0.5, 1, (*SHAPE, len(load_sphere("default")[0])))
    return common | {"pmf": noise.astype(np.float32)}


def tracked(dg, arch="cpu", **options):
    """A batch of all streamlines; images in memory."""
    return ts.Batch.concatenate(list(ts.stream(**inputs(dg), arch=arch, **options)))


def rows(count=60, rng=None):
    """Seeds with directions of any length, in RASmm; the last seed is outside the image."""
    rng = rng or np.random.default_rng(6)
    points = SPACE.to_ras(rng.uniform(2, np.array(SHAPE) - 3, (count, 3)))
    points[-1] = SPACE.to_ras(np.array([-3.0, 0, 0]))
    fibre = np.array([0.6, 0, 0.8]) @ TURN.T  # one of the fibres of the crossing
    directions = rng.normal(size=(count, 3)) + 3 * rng.choice([-1, 1], (count, 1)) * fibre
    return np.hstack([points, directions])


def alike(a, b):
    return all(np.array_equal(getattr(a, n), getattr(b, n)) for n in ("points", "offsets", "seeds", "seed_number"))


def numbered(seeds):
    """All points; a seed depends on its number alone, whatever is asked for at a time."""
    whole = seeds.points(0, seeds.count + 5)
    parts = [seeds.points(first, 137) for first in range(0, seeds.count, 137)]
    assert whole.shape == (seeds.count, 3)
    assert np.array_equal(np.concatenate(parts), whole)
    return whole


def reached(seeds):
    """The voxels that interpolation at the points reads are among those that it reads around the reach."""
    def corners(points):
        low = np.floor(points).astype(int)
        return {tuple(cell) for cell in (low[:, None] + list(np.ndindex(2, 2, 2))).reshape(-1, 3)}

    inside = seeds.points(0, seeds.count)
    inside = inside[((inside >= -0.5) & (inside < np.array(SHAPE) - 0.5)).all(axis=1)]
    return corners(np.clip(inside, 0, np.array(SHAPE) - 1)) <= corners(np.clip(seeds.reach(), 0, np.array(SHAPE) - 1))


class TestPositions:
    @pytest.mark.parametrize("density", [1, 2, 3, 5])
    def test_the_grid_is_dipys(self, density):
        seeds = GridSeeds(VOXELS, density)
        assert np.array_equal(numbered(seeds), seeds_from_mask(MASK, np.eye(4), density=density))
        assert np.allclose(SPACE.to_ras(seeds.points(0, seeds.count)), seeds_from_mask(MASK, AFFINE, density=density))
        assert reached(seeds)

    def test_each_voxel_has_its_number_of_seeds(self):
        seeds = SeedsPerVoxel(VOXELS, 50, Draw(0, 3))
        points = numbered(seeds)
        theirs = random_seeds_from_mask(MASK, np.eye(4), seeds_count=50, random_seed=1)
        counts, dipys = (np.unique(np.rint(places), axis=0, return_counts=True) for places in (points, theirs))
        assert all(np.array_equal(*pair) for pair in zip(counts, dipys, strict=True))
        assert np.array_equal(np.rint(points[: len(VOXELS)]), VOXELS)
        for axis in range(3):
            assert kstest(points[:, axis] - np.rint(points[:, axis]) + 0.5, "uniform").pvalue > 1e-3
        fewer = SeedsPerVoxel(VOXELS, 20, Draw(0, 3, threads=1))
        assert np.array_equal(fewer.points(0, 2000), points[: 20 * len(VOXELS)])
        assert reached(seeds)

    def test_a_map_weighs_the_voxels(self):
        weights = np.random.default_rng(5).exponential(size=len(VOXELS)).astype(np.float32)
        weights[3] = 1e-6
        seeds = WeightedSeeds(VOXELS, weights, Draw(40_000, 1))
        points = numbered(seeds)
        which = {tuple(voxel): number for number, voxel in enumerate(VOXELS)}
        counts = np.bincount([which[tuple(p)] for p in np.rint(points).astype(int)], minlength=len(VOXELS))
        likely = weights > 1e-3
        expected = weights[likely] / weights[likely].sum(dtype=float) * counts[likely].sum()
        assert chisquare(counts[likely], expected).pvalue > 1e-3
        assert counts[~likely].sum() <= 1
        for axis in range(3):
            assert kstest(points[:, axis] - np.rint(points[:, axis]) + 0.5, "uniform").pvalue > 1e-3
        assert not np.array_equal(WeightedSeeds(VOXELS, weights, Draw(10, 2)).points(0, 10), points[:10])
        assert reached(seeds)

    def test_a_ball_is_filled_evenly(self):
        seeds = BallSeeds([BALL], SPACE, Draw(20_000, 9))
        offsets = SPACE.to_ras(numbered(seeds)) - CENTRE
        radii = np.linalg.norm(offsets, axis=1)
        assert radii.max() <= BALL[3] * (1 + 1e-6)
        assert kstest((radii / BALL[3]) ** 3, "uniform").pvalue > 1e-3
        for axis in range(3):  # Archimedes: each coordinate of a point on a sphere is uniform
            assert kstest(offsets[:, axis] / radii, "uniform", args=(-1, 2)).pvalue > 1e-3
        assert reached(seeds)

    def test_balls_share_seeds_by_volume(self):
        other = (*SPACE.to_ras(np.array([0.0, 0, 0])).tolist(), 2.0)
        seeds = BallSeeds([BALL, other], SPACE, Draw(9000, 9))
        away = np.linalg.norm(SPACE.to_ras(numbered(seeds)) - other[:3], axis=1)
        assert chisquare([(away > 2).sum(), (away <= 2).sum()], [8000, 1000]).pvalue > 1e-3
        assert reached(seeds)
        with pytest.raises(ts.ParameterError, match="seed_sphere 500,0,0,3 lies outside the image: give"):
            BallSeeds([(500, 0, 0, 3)], SPACE, Draw(9, 9)).reach()

    def test_kernels_agree_with_python(self):
        """In float64, the same tries are taken; the words are Philox's in both."""
        values = {
            "rules_step_x": 0.0, "rules_step_y": 0.0, "rules_step_z": 0.0, "rules_max_steps": 0,
            "rules_key": np.array([5, 6]), "rules_first_seed": 2**31 + 3, "out": reals(120),
        }
        for kernel, count in ((place_in_ball, 40), (draw_share, 60)):
            numbers = [on_dialect(dialect, kernel, count, values)["out"] for dialect in ("python", "numba32")]
            assert np.allclose(*numbers, rtol=0, atol=1e-6)
            assert np.ptp(numbers[0]) > 0.9

    def test_too_many(self):
        many = np.zeros((5000, 3), np.int32)
        for make in (lambda: GridSeeds(many, 100), lambda: SeedsPerVoxel(many, 1_000_000, Draw(0, 0))):
            with pytest.raises(ts.ParameterError, match="5000 voxels would have more than 4294967295 seeds"):
                make()


@pytest.mark.skipif(shutil.which("tckgen") is None, reason="MRtrix3's tckgen is not installed")
@pytest.mark.parametrize("way", ["map", "balls"])
def test_tckgen_places_seeds_alike(way, tmp_path):
    """Its rejection sampling of a map, and its overlapping balls: the same counts, but for chance."""
    shape, affine = (12, 12, 12), np.diag([2.0, 2, 2, 1])
    fibre = sampling_matrix(np.array([[0, 0, 1.0]]), 4, "tournier07")
    weights = np.pad(np.random.default_rng(0).uniform(0.2, 1, (6, 6, 6)), 3).astype(np.float32)
    for name, values in (("fod", np.broadcast_to(fibre[0], (*shape, 15)).astype(np.float32)), ("map", weights)):
        nib.save(nib.Nifti1Image(values, affine), tmp_path / f"{name}.nii")
    balls = [(12, 12, 12, 5), (12, 12, 12, 2.5)]
    seeding = ("-seed_rejection", "map.nii") if way == "map" else ()
    for ball in balls if way == "balls" else ():
        seeding += ("-seed_sphere", ",".join(map(str, ball)))
    whole = ("-select", "20000", "-seeds", "0", "-cutoff", "0.01", "-minlength", "0", "-output_seeds", "seeds.txt")
    command = ["tckgen", "-quiet", "-algorithm", "SD_STREAM", "fod.nii", "a.tck", *seeding, *whole]
    drawn = os.environ | {"MRTRIX_RNG_SEED": "3", "MRTRIX_NTHREADS": "0"}
    subprocess.run(command, cwd=tmp_path, env=drawn, check=True, capture_output=True, timeout=120)
    lines = [line.split(",") for line in (tmp_path / "seeds.txt").read_text().splitlines() if line[:1].isdigit()]
    theirs = np.array([line[2:5] for line in lines], float)
    space = ts.Space(affine, shape)
    if way == "map":
        voxels = np.argwhere(weights).astype(np.int32)
        seeds = WeightedSeeds(voxels, weights[tuple(voxels.T)], Draw(20_000, 0))
    else:
        seeds = BallSeeds(balls, space, Draw(20_000, 0))
    cells = [np.rint(space.to_voxel(points)).astype(int) for points in (theirs, space.to_ras(seeds.points(0, 20_000)))]
    counts = np.array([np.bincount(cell @ [144, 12, 1], minlength=1728) for cell in cells])
    assert chi2_contingency(counts[:, counts.sum(axis=0) > 20]).pvalue > 1e-3


class TestDirections:
    @pytest.mark.parametrize("sphere", ["default", "full", "small"])
    def test_they_are_moved_a_little(self, sphere):
        """To the nearest vertex, with its sign; by no more than the help says."""
        others = {name: value for name, value in inputs("det").items() if name != "pmf"}
        sh = np.zeros((*SHAPE, 15), np.float32)
        sh[..., 0] = 1
        plan = ts.stream(**others, sh=sh, sh_basis="descoteaux07", sphere=sphere, seeds=rows(), arch="cpu").gi_frame
        prepared = plan.f_locals["run"].plan.prepared
        directions = unit(np.random.default_rng(0).normal(size=(20_000, 3)))
        codes = initial_codes(directions, np.zeros((20_000, 3), np.float32), prepared)
        moved = load_sphere(sphere)[0][codes >> 1] * np.where(codes & 1, -1, 1)[:, None]
        angles = np.degrees(np.arccos(np.clip((moved * directions).sum(axis=1), -1, 1)))
        most = {"small": 6.9}.get(sphere, MOVED)
        assert most - 0.5 < angles.max() <= most

    def test_a_step_leads_along_them_in_mm(self):
        """Also on a grid that is not rectangular."""
        sheared = ts.Space(AFFINE @ np.array([[1, 0.3, 0, 0], [0, 1, 0.1, 0], [0, 0, 1, 0], [0, 0, 0, 1]]), SHAPE)
        directions = np.random.default_rng(1).normal(size=(50, 3)) * 1e200
        along = along_voxel_axes(directions, sheared)
        assert np.allclose(np.linalg.norm(along, axis=1), 1)
        steps = sheared.to_ras(along / sheared.voxel_sizes) - sheared.to_ras(np.zeros(3))
        assert np.allclose(unit(steps), unit(directions / 1e200))

    @pytest.mark.parametrize("dg", WITH_PEAKS)
    def test_streamlines_start_along_them(self, dg):
        """The forward half along the direction, the backward half opposite to the forward half's first step."""
        seeds = rows()
        batch = tracked(dg, seeds=seeds)
        assert np.array_equal(np.unique(batch.seed_number, return_counts=True)[1], np.ones(len(batch)))
        assert 40 < len(batch) < len(seeds)
        assert not batch.direction_number.any()
        both = 0
        for number, points in zip(batch.seed_number, batch, strict=True):
            place = np.linalg.norm(points - seeds[number, :3], axis=1).argmin()
            ahead, behind = points[place + 1 : place + 2], points[max(place - 1, 0) : place]
            if len(ahead):
                assert angle(ahead[0] - points[place], seeds[number, 3:]) <= ANGLES[dg] + MOVED
            if len(ahead) and len(behind):
                both += 1
                assert angle(behind[0] - points[place], points[place] - ahead[0]) <= ANGLES[dg] + 0.1
        assert both > 30

    def test_either_sign(self):
        """The forward half follows the direction, also where that is opposite to the vertex of the half sphere."""
        seeds = rows()
        there, back = (tracked("det", seeds=seeds * ([1] * 3 + [sign] * 3)) for sign in (1, -1))
        common = np.intersect1d(there.seed_number, back.seed_number)
        assert len(common) > 40
        for number in common[:10]:
            for batch, sign in ((there, 1), (back, -1)):
                points = batch[np.flatnonzero(batch.seed_number == number)].points
                place = np.linalg.norm(points - seeds[number, :3], axis=1).argmin()
                if place + 1 < len(points):
                    assert angle(points[place + 1] - points[place], sign * seeds[number, 3:]) <= 20 + MOVED

    def test_opposites_are_kept_apart_on_a_whole_sphere(self):
        vertices = load_sphere("full")[0]
        lobe = np.maximum(vertices @ np.array([0.6, 0, 0.8]), 0).astype(np.float32) ** 4
        others = {name: value for name, value in inputs("prob").items() if name != "pmf"}
        others |= {"pmf": np.broadcast_to(lobe, (*SHAPE, len(vertices))), "sphere": "full", "asymmetric": True}
        others |= {"max_angle": 30}
        seeds = rows()[:-1]
        fibre = np.array([0.6, 0, 0.8]) @ TURN.T
        along = unit(seeds[:, 3:]) @ fibre
        batch = ts.Batch.concatenate(list(ts.stream(**others, seeds=seeds, arch="cpu")))
        for end, starts in ((0, along > 0.9), (-1, along < -0.9)):
            ends = {number: points[end] for number, points in zip(batch.seed_number, batch, strict=True)}
            assert starts.sum() > 10
            assert all(np.allclose(ends[number], seeds[number, :3], atol=1e-4) for number in np.flatnonzero(starts))

    def test_the_engine_checks_them(self):
        prepared = ts.stream(**inputs("det"), seeds=rows(), arch="cpu").gi_frame.f_locals["run"].plan.prepared
        seeds = np.array([[1, 1, 1], [-0.5, 0, 0], [-0.6, 0, 0], [8.5, 1, 1], [8.4, 1, 1]], np.float32)
        codes = initial_codes(np.eye(3)[[0, 0, 0, 0, 0]], seeds, prepared)
        assert np.array_equal(codes >= 0, [True, True, False, False, True])
        with pytest.raises(ts.ParameterError, match=r"directions have shape \(2, 3\): give \(5, 3\)"):
            initial_codes(np.eye(3)[:2], seeds, prepared)
        with pytest.raises(ts.ParameterError, match=r"direction 1 is .*: give unit vectors"):
            initial_codes(np.eye(3)[[0, 0, 0, 0, 0]] * [[1], [2], [1], [1], [1]], seeds, prepared)


def angle(a, b):
    """Angle between two vectors, degrees."""
    return np.degrees(np.arccos(np.clip(a @ b / np.linalg.norm(a) / np.linalg.norm(b), -1, 1)))


WAYS = {
    "each voxel": {"seed_mask": MASK, "seeds_per_voxel": 3},
    "grid": {"seed_mask": MASK, "seed_grid": 2},
    "map": {"seed_image": np.arange(np.prod(SHAPE), dtype=np.float32).reshape(SHAPE), "nseeds": 150},
    "balls": {"seed_sphere": [BALL, (*BALL[:3], 1.0)], "nseeds": 150},
    "directions": {"seeds": rows()},
}


class TestRuns:
    @pytest.mark.parametrize(
        ("dg", "way"), [*(("det", way) for way in WAYS), *((dg, "directions") for dg in WITH_PEAKS if dg != "det")]
    )
    def test_threads_and_chunks_change_nothing(self, dg, way):
        whole = tracked(dg, threads=1, **WAYS[way])
        assert len(whole) > 30
        assert alike(tracked(dg, threads=2, chunk_size=37, **WAYS[way]), whole)

    def test_counts(self):
        counts = {way: ts.track(**inputs("det"), arch="cpu", **WAYS[way]).seeds for way in WAYS}
        many = len(VOXELS)
        assert counts == {"each voxel": 3 * many, "grid": 8 * many, "map": 150, "balls": 150, "directions": 60}

    @pytest.mark.parametrize("dg", WITH_PEAKS)
    def test_the_highest_peaks(self, dg):
        """With fewer directions the first ones of each seed remain; their random numbers are the same."""
        options = {"seed_mask": MASK, "seed_grid": 1, "relative_peak_threshold": 0.1}
        every, highest = tracked(dg, **options), tracked(dg, max_directions=1, **options)
        first = every[np.flatnonzero(every.direction_number == 0)]
        assert len(first) < len(every)
        assert alike(first, highest)

    def test_a_cache_keeps_what_each_needs(self, tmp_path):
        """Seeds reach other voxels, whose rows are in the tables; a map's weights are kept with them."""
        dead = inputs("det") | {"stop_map": (np.indices(SHAPE).sum(axis=0) == 0).astype(np.float32)}
        far = (*SPACE.to_ras(np.array([1.0, 1, 1])).tolist(), 2.0)
        for options in (*WAYS.values(), {"seed_sphere": far, "nseeds": 100}, *WAYS.values()):
            plain, kept = (
                ts.Batch.concatenate(list(ts.stream(**dead, arch="cpu", **options, **more)))
                for more in ({}, {"cache_dir": tmp_path})
            )
            assert alike(plain, kept)


class TestSurface:
    @pytest.fixture
    def files(self, tmp_path):
        images = {"pmf": inputs("det")["pmf"], "stop": inputs("det")["stop_map"], "mask": MASK.astype(np.uint8)}
        images["map"] = WAYS["map"]["seed_image"]
        for name, values in images.items():
            nib.save(nib.Nifti1Image(values, AFFINE), tmp_path / f"{name}.nii")
        np.save(tmp_path / "rows.npy", rows())
        np.savetxt(tmp_path / "rows.txt", rows(), delimiter=", ", fmt="%.17g")
        return tmp_path

    @pytest.fixture
    def track(self, run, files):
        def track(*options):
            sources = ("--pmf", files / "pmf.nii", "--stop-map", files / "stop.nii", "--stop-threshold", 0.5)
            return run("track", "-o", files / "a.trx", "--force", "--arch", "cpu", "--dg", "det", *sources, *options)

        return track

    @pytest.mark.parametrize(
        ("options", "named"),
        [
            (("--seed-mask", "mask.nii", "--seeds-per-voxel", 3), WAYS["each voxel"]),
            (("--seed-mask", "mask.nii", "--seed-grid", 2), WAYS["grid"]),
            (("--seed-image", "map.nii", "--nseeds", 150), WAYS["map"]),
            (
                ("--seed-sphere", ",".join(map(repr, BALL)), "--seed-sphere", ",".join(map(repr, (*BALL[:3], 1.0))),
                 "--nseeds", 150), WAYS["balls"],
            ),
            (("--seeds", "rows.npy"), WAYS["directions"]),
            (("--seeds", "rows.txt"), WAYS["directions"]),
        ],
        ids=[*WAYS, "text"],
    )
    def test_command_line_and_python_agree(self, track, files, options, named):
        words = [files / o if "." in str(o)[-4:-2] else o for o in options]
        done = track("--max-angle", 20, "--max-steps", 6, "--min-length", 0, *words)
        assert done.code == 0, done.err
        batch = tracked("det", **named)
        written = nib.streamlines.ArraySequence(list(batch))
        result = json.loads((files / "a.json").read_text())
        assert result["result"]["streamlines"] == len(written) > 0
        assert result["result"]["points"] == len(batch.points)
        parameters = result["parameters"]
        first = next(name for name in named if name not in ("seed_mask", "nseeds"))
        assert parameters[first] is not None
        assert (parameters["nseeds"] is None) == ("nseeds" not in named)
        if first == "seed_sphere":
            assert parameters[first] == [",".join(map(repr, ball)) for ball in named[first]]
        for name in {"seed_mask", "seed_image", "seeds"} & named.keys():
            assert len(result["inputs"][name]["sha256"]) == 64

    @pytest.mark.parametrize(
        ("options", "code", "words"),
        [
            (("--seed-grid", 2, "--seeds-per-voxel", 2), 2, "--seeds-per-voxel and --seed-grid exclude each other"),
            (("--nseeds", 9, "--seed-grid", 2), 2, "--nseeds and --seed-grid exclude each other"),
            (("--seed-image", "a.nii", "--seed-sphere", "1,2,3,4"), 2, "--seed-image and --seed-sphere exclude"),
            (("--seeds", "a.npy", "--seed-sphere", "1,2,3,4"), 2, "exclude each other"),
            (("--seed-sphere", "1,2,3,4", "--seed-grid", 2), 2, "exclude each other"),
            (("--seed-sphere", "1,2,3"), 2, "--seed-sphere is '1,2,3': give x,y,z,r in RASmm"),
            (("--seed-sphere", "1,2,3,0"), 2, "a radius above 0"),
            (("--seed-sphere", "1,nan,3,4"), 2, "give x,y,z,r in RASmm"),
            (("--seed-sphere", "1,2,3,1e9"), 2, "at most 1e+06"),
            (("--seed-sphere", "900,2,3,4"), 2, "--seed-sphere 900,2,3,4 lies outside the image"),
            (("--seed-grid", 0), 2, "--seed-grid is 0: give a number from 1 to 100"),
            (("--seeds-per-voxel", 0), 2, "--seeds-per-voxel is 0: give a number from 1 to 1000000"),
            (("--seed-image", "negative.nii"), 1, "negative.nii: the lowest value is -1; give a map without values"),
            (("--seed-image", "zero.nii"), 1, "zero.nii: all values are 0"),
            (("--seed-image", "absent.nii"), 1, "absent.nii: no such file"),
            (("--seeds", "still.npy"), 1, "still.npy: seed 3 has the direction [0.0, 0.0, 0.0]; give 2 of the seeds"),
            (("--seeds", "nan.npy"), 1, "nan.npy: seed 4 has the direction [nan, "),
            (("--seeds", "five.npy"), 1, "five.npy: float64 array of shape (60, 5); give x y z"),
        ],
    )
    def test_one_line_for_a_bad_input(self, track, files, options, code, words):
        bad = {name: rows() for name in ("still", "nan", "five")}
        bad["still"][[3, 5], 3:], bad["nan"][4, 3], bad["five"] = 0, np.nan, bad["five"][:, :5]
        for name, values in bad.items():
            np.save(files / f"{name}.npy", values)
        for name, value in (("negative", -1), ("zero", 0)):
            nib.save(nib.Nifti1Image(np.full(SHAPE, value, np.float32), AFFINE), files / f"{name}.nii")
        placed = {"--seed-sphere", "--seeds", "--seed-image"} & set(options)
        mask = () if placed else ("--seed-mask", files / "mask.nii")
        done = track(*mask, *(files / o if re.search(r"\.n", str(o)) else o for o in options))
        assert done.code == code, done.err
        assert words in done.err
        assert len(done.err.strip().splitlines()) == 1

    def test_text_of_a_ball(self):
        assert ball_of("seed_sphere", "-1, 2.5,3e1,.5") == (-1, 2.5, 30, 0.5)
