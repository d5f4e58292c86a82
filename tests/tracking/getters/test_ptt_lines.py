"""Whole streamlines of parallel transport tractography: known fibres, DIPY's LocalTracking, laws of the engine."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from commands import computed
from dialects import reals, run
from dipy.data import default_sphere
from dipy.direction import PTTDirectionGetter
from dipy.direction.pmf import SHCoeffPmfGen
from dipy.tracking.local_tracking import LocalTracking
from dipy.tracking.stopping_criterion import ThresholdStoppingCriterion
from distributions import CIRCLE_SEEDS as SEEDS
from distributions import circle, fibres, lines, unit
from ptt_lines import tracked
from scipy.stats import ks_2samp
from tables import probe
from transport import case, framed

from tistreamlines.backends.taichi import program as _taichi
from tistreamlines.devices import choose
from tistreamlines.kernels.stop_reasons import Stop
from tistreamlines.space.batch import Batch
from tistreamlines.space.sphere import load_sphere
from tistreamlines.tracking.growth.pace import Pace
from tistreamlines.tracking.growth.settings import Settings

pytestmark = pytest.mark.filterwarnings("ignore:The legacy:PendingDeprecationWarning")


def radius_at_ends(line: np.ndarray) -> float:
    """Mean distance of a line's ends from the axis of the circles."""
    return np.linalg.norm(line[[0, -1], :2] + 0.5, axis=1).mean()


def same(one: Batch, other: Batch) -> bool:
    return all(np.array_equal(getattr(one, f.name), getattr(other, f.name)) for f in fields(Batch))


def test_streamlines_stay_with_circles_within_their_curvature():
    seeds = np.tile(SEEDS, (10, 1))
    batch, _ = tracked(fibres(circle()), seeds, pmf_threshold=0.2)
    bend = probe(max_angle=15.0).curvature * 0.5
    assert len(batch) == 90
    for line in lines(batch):
        steps = np.diff(line, axis=0)
        lengths = np.linalg.norm(steps, axis=1)
        assert lengths.min() >= 0.5 - 1e-5  # a step is a chord of the second order: h (1 + (k h)^2 / 4)^(1/2)
        assert lengths.max() <= 0.5 * np.sqrt(1 + bend**2 / 4) + 1e-5
        cosines = (unit(steps)[1:] * unit(steps)[:-1]).sum(axis=1)
        assert np.arccos(np.clip(cosines, -1, 1)).max() <= bend * (1 + bend) + 1e-3
    radii = [np.linalg.norm(line[:, :2] + 0.5, axis=1) for line in lines(batch)]
    drift = np.array([(r[0] + r[-1]) / 2 for r in radii]) - np.linalg.norm(seeds[:, :2] + 0.5, axis=1)
    assert np.abs(drift).mean() < 1.5
    assert np.median([len(line) for line in lines(batch)]) > 30


def test_streamlines_stay_with_straight_and_helical_fibres():
    x, y, z = np.meshgrid(*map(np.arange, (24, 24, 12)), indexing="ij")
    axis = load_sphere("default")[0][int(np.argmax(load_sphere("default")[0] @ [0.94, 0.33, 0.05]))]
    straight = np.broadcast_to(axis, (24, 24, 12, 3))
    helix = unit(np.stack([-(y + 0.5), x + 0.5, 4.0 + 0 * z], axis=-1))
    seeds = np.array([[11.0, 11.0, 5.0]] * 40)
    batch, _ = tracked(fibres(straight), seeds, pmf_threshold=0.2)
    away = batch.points - seeds[0]
    across = away - np.outer(away @ axis, axis)
    assert np.median(np.linalg.norm(across, axis=1)) < 1.0
    assert np.abs(across.mean(axis=0)).max() < 0.4
    batch, _ = tracked(fibres(helix), seeds, pmf_threshold=0.2)
    turned, radius = np.arctan2(batch.points[:, 1] + 0.5, batch.points[:, 0] + 0.5), 11.5 * np.sqrt(2)
    apart = np.linalg.norm(batch.points[:, :2] + 0.5, axis=1) - radius
    assert np.abs(np.median(apart)) < 0.4
    # a helix of pitch 4 rises by 4 a radian
    slope = np.polyfit(turned, batch.points[:, 2], 1)[0]
    assert abs(slope / 4 - 1) < 0.15


def test_points_end_where_the_devices_do():
    batch, used = tracked(fibres(circle()), np.tile(SEEDS, (4, 1)))
    carried = 3 + used.growth.prepared.getter.carried
    ends = used.growth.values["halves_point"][: 2 * len(batch) * carried].reshape(len(batch), 2, carried)
    branch, seed = (used.growth.values[f"halves_{name}"][: len(batch)] for name in ("branch", "seed"))
    order = np.lexsort([branch, seed])
    for line, reasons, (forward, backward) in zip(lines(batch), batch.stop_reasons, ends[order], strict=True):
        for tip, reason, end in ((line[0], reasons[0], backward), (line[-1], reasons[1], forward)):
            # a dead end is dropped from the streamline, so there the device stands a step further on
            assert reason == Stop.NO_DIRECTION or np.array_equal(tip, end[:3])


def test_launches_chunks_and_threads_change_no_bit(monkeypatch):
    values, seeds = fibres(circle()), np.tile(SEEDS, (3, 1))
    once, _ = tracked(values, seeds)
    for chunk, threads in ((7, 1), (5, 2)):
        settings = Settings(0.5, max_steps=200, chunk_size=chunk, threads=threads)
        assert same(once, tracked(values, seeds, settings=settings)[0])
    for steps in (1, 3):
        monkeypatch.setattr(Pace, "steps", lambda *_, steps=steps: steps)
        assert same(once, tracked(values, seeds)[0])


def test_probes_read_all_the_voxels_that_they_reach():
    values, seeds = fibres(circle((24, 24, 13))), SEEDS + np.array([0, 0, 4])
    stop_map = np.zeros(values.shape[:3], np.float32)
    stop_map[:, :, 6] = 1
    options = {"stop_map": stop_map, "pmf_threshold": 0.01, "voxel_sizes": (1.2, 1.2, 1.2)}
    few, used = tracked(values, seeds, everywhere=False, **options)
    every, other = tracked(np.where(values == 0, 1e-12, values), seeds, **options)
    assert used.growth.prepared.arrays["volume_rows"].size < other.growth.prepared.arrays["volume_rows"].size
    assert same(few, every)


def test_lengths_are_localtrackings():
    rng = np.random.default_rng(9)
    values = fibres(circle()) * rng.uniform(0.2, 1, (24, 24, 5, 1)) + 0.04 * rng.normal(size=(24, 24, 5, 45))
    values = values.astype(np.float32)
    seeds = np.tile(SEEDS, (16, 1)).astype(np.float32).astype(float)
    options = {"pmf_threshold": 0.1, "max_angle": 15.0}
    batch, _ = tracked(values, seeds, **options)
    getter = PTTDirectionGetter(
        SHCoeffPmfGen(values.astype(float), default_sphere, None, True), sphere=default_sphere, probe_length=1.5,
        probe_quality=7, relative_peak_threshold=0.5, min_separation_angle=45, **options,
    )
    criterion = ThresholdStoppingCriterion(np.ones(values.shape[:3]), 0.5)
    found = list(LocalTracking(getter, criterion, seeds, np.eye(4), 0.5, max_cross=1, maxlen=200, random_seed=1))
    theirs = [len(s) for s in found]
    ours = batch.lengths
    assert len(ours) == len(theirs)
    noise = np.hypot(np.std(ours), np.std(theirs)) / np.sqrt(len(ours))
    assert abs(np.mean(ours) - np.mean(theirs)) < 3.5 * noise
    assert ks_2samp(ours, theirs).pvalue > 1e-3
    mine, other = (np.array([radius_at_ends(line) for line in some]) for some in (lines(batch), found))
    noise = np.hypot(np.std(mine), np.std(other)) / np.sqrt(len(ours))
    assert abs(mine.mean() - other.mean()) < 3.5 * noise


# -------------------------------------------------------------------------------------------------- other devices
def arcs_on(arch: str) -> np.ndarray:
    """Exact arcs, which the drop-in for cuslines takes, by an arch's dialect."""
    made = case("plain")[0]
    made = replace(made, getter=replace(made.getter, exact_arcs=1))
    bends = np.random.default_rng(0).normal(scale=3, size=(200, 2))
    bends[0] = 0
    values = {"bends": bends.ravel(), "step": 0.5, "out": reals(1800)}
    if arch == "cpu":
        return run("numba32", framed, 200, values, made, made.scratch)["out"]
    program = _taichi.TaichiProgram(choose(arch), made.source([framed]), exact=True)
    held = {k: program.array(v) if isinstance(v, np.ndarray) else v for k, v in values.items()}
    program.run("framed", 200, held)
    return held["out"].to_numpy()


def compute(arch: str) -> dict[str, np.ndarray]:
    """What has to be the same everywhere, also where compilers would be free: the host lays out where devices were."""
    exact, chunk = (True, None) if arch == "cpu" else (False, 7)
    settings = Settings(0.5, max_steps=40, rng_seed=2**40 + 5, chunk_size=chunk, exact=exact)
    options = {"settings": settings, "voxel_sizes": (1.2, 0.9, 1.0), "pmf_threshold": 0.3}
    batch, _ = tracked(fibres(circle()), np.tile(SEEDS, (2, 1)), arch, **options)
    found = {"points": batch.points, "offsets": batch.offsets, "stop_reasons": batch.stop_reasons}
    return found | {"arcs": arcs_on(arch)}


@pytest.fixture(scope="module")
def on_the_cpu(tmp_path_factory):
    return computed(__file__, "cpu", tmp_path_factory.mktemp("cpu"))


@pytest.mark.parametrize("arch", ["vulkan", "cuda", "metal"])
def test_other_devices_give_the_same_bits(arch, tmp_path, on_the_cpu):
    for name, array in computed(__file__, arch, tmp_path).items():
        assert np.array_equal(array, on_the_cpu[name]), name
