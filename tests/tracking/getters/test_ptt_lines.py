"""Whole streamlines of parallel transport tractography: known fibres, DIPY's LocalTracking, laws of the engine."""

from __future__ import annotations

import numpy as np
import pytest
from crossings import same
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

from tistreamlines.kernels.stop_reasons import Stop
from tistreamlines.space.sphere import load_sphere

pytestmark = pytest.mark.filterwarnings("ignore:The legacy:PendingDeprecationWarning")


def radius_at_ends(line: np.ndarray) -> float:
    """Mean distance of a line's ends from the axis of the circles."""
    return np.linalg.norm(line[[0, -1], :2] + 0.5, axis=1).mean()


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
    dipys = list(LocalTracking(getter, criterion, seeds, np.eye(4), 0.5, max_cross=1, maxlen=200, random_seed=1))
    theirs = [len(line) for line in dipys]
    ours = batch.lengths
    assert len(ours) == len(theirs)
    noise = np.hypot(np.std(ours), np.std(theirs)) / np.sqrt(len(ours))
    assert abs(np.mean(ours) - np.mean(theirs)) < 3.5 * noise
    assert ks_2samp(ours, theirs).pvalue > 1e-3
    mine, other = (np.array([radius_at_ends(line) for line in each]) for each in (lines(batch), dipys))
    noise = np.hypot(np.std(mine), np.std(other)) / np.sqrt(len(ours))
    assert abs(mine.mean() - other.mean()) < 3.5 * noise
