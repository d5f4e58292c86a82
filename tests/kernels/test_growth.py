"""Whole streamlines on data whose fibres are known, and laws that hold whatever the data."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from streamlines import fingerprint, joined, lines
from synthetic import gradients, noisy_crossing, rotated, signals
from tables import prepare_boot

from tistreamlines.devices import choose
from tistreamlines.errors import ParameterError
from tistreamlines.kernels.stop_reasons import Stop
from tistreamlines.space.batch import Batch, Space
from tistreamlines.space.sphere import load_sphere
from tistreamlines.tracking.engine.engine import Engine
from tistreamlines.tracking.growth.settings import Settings, steps_within

STEP = 0.5
SHAPE = (24, 20, 9)
AXIS = int(np.argmax(load_sphere("default")[0] @ [0.94, 0.33, 0.05]))


def engine(data, *, stop_map=None, affine=None, gtab=None, sphere="default", step=STEP, method=None, **settings):
    """Engine on the CPU for data whose stop map is 1 unless given."""
    stop_map = np.ones(data.shape[:3], np.float32) if stop_map is None else stop_map
    everywhere = np.argwhere(np.ones(data.shape[:3], bool)).astype(float)
    prepared = prepare_boot(data, gtab or gradients(), stop_map, 0.5, everywhere, sphere=sphere, **(method or {}))
    space = Space(np.eye(4) if affine is None else affine, data.shape[:3])
    return Engine(prepared, space, choose("cpu"), Settings(step, **{"max_steps": 200} | settings))


def track(engine: Engine, seeds, first_seed: int = 0) -> Batch:
    return joined(engine.track(np.asarray(seeds, float), first_seed))


@cache
def straight_data() -> np.ndarray:
    """One bundle along a vertex of the sphere, everywhere."""
    axis = load_sphere("default")[0][AXIS]
    return np.broadcast_to(signals(gradients(), axis), (*SHAPE, 66)).copy()


def circle_data(shape=(28, 28, 5), centre=(-0.5, -0.5)) -> np.ndarray:
    """Fibres on circles about an axis along z."""
    x, y, _ = np.meshgrid(*map(np.arange, shape), indexing="ij")
    tangent = np.stack([-(y - centre[1]), x - centre[0], 0.0 * x], axis=-1)
    return signals(gradients(), tangent / np.linalg.norm(tangent, axis=-1, keepdims=True))


@cache
def noisy() -> tuple[np.ndarray, np.ndarray]:
    """Noisy crossing fibres, and seeds in them."""
    data = noisy_crossing(gradients(), (9, 9, 9), snr=12.0)
    return data, np.random.default_rng(3).uniform(1, 7, (60, 3))


# ------------------------------------------------------------------------------------------------ known fibres
def test_a_straight_bundle_gives_straight_lines():
    seeds = np.random.default_rng(0).uniform([8, 8, 3], [15, 11, 5], (20, 3))
    batch = track(engine(straight_data()), seeds)
    axis = load_sphere("default")[0][AXIS]
    assert len(batch) == 20
    for line, seed in zip(lines(batch), seeds, strict=True):
        away = line - seed
        along = away @ axis
        assert np.abs(away - along[:, None] * axis).max() < 1e-3
        assert np.allclose(np.abs(np.diff(along)), STEP, atol=1e-3)
        # both halves reach the border: a further step is outside the image
        for tip, sense in ((line[0], np.sign(along[0])), (line[-1], np.sign(along[-1]))):
            assert np.any((tip + sense * STEP * axis < -0.5) | (tip + sense * STEP * axis > np.array(SHAPE) - 0.5))
    assert np.all(batch.stop_reasons == Stop.OUTSIDE_IMAGE)


def test_a_circle_is_followed():
    seeds = np.array([[r * np.cos(a) - 0.5, r * np.sin(a) - 0.5, 2.0] for r in (12, 16, 20) for a in (0.5, 0.8, 1.1)])
    batch = track(engine(circle_data()), seeds)
    assert len(batch) == len(seeds)
    for line, seed in zip(lines(batch), seeds, strict=True):
        radius = np.linalg.norm(line[:, :2] + 0.5, axis=1)
        middle = radius[(line[:, :2] > 1).all(axis=1)]  # at the axes the image ends
        assert np.abs(middle - np.linalg.norm(seed[:2] + 0.5)).max() < STEP
        assert len(line) * STEP > 0.85 * np.pi / 2 * np.linalg.norm(seed[:2] + 0.5)
        assert {int(np.argmin(line[[0, -1], 0])), int(np.argmin(line[[0, -1], 1]))} == {0, 1}


def test_a_crossing_gives_each_fibre_its_streamline():
    shape = (21, 21, 5)
    across, up = (np.broadcast_to(signals(gradients(), np.array(a)), (*shape, 66)) for a in ((1.0, 0, 0), (0, 1.0, 0)))
    x, y, _ = np.meshgrid(*map(np.arange, shape), indexing="ij")
    in_x, in_y = np.abs(y - 10) < 4, np.abs(x - 10) < 4
    share = (in_x / np.maximum(1.0 * in_x + in_y, 1.0))[..., None]
    data = (share * across + (1 - share) * up).astype(np.float32)
    batch = track(engine(data, stop_map=(in_x | in_y).astype(np.float32)), [[10, 10, 2], [3, 10, 2]])
    assert batch.seed_number.tolist() == [0, 0, 1]
    assert batch.direction_number.tolist() == [0, 1, 0]
    spans = [np.ptp(line, axis=0) for line in lines(batch)]
    assert sorted(int(np.argmax(span)) for span in spans[:2]) == [0, 1]
    assert np.argmax(spans[2]) == 0
    assert min(span.max() for span in spans) > 17


# -------------------------------------------------------------------------------------------------------- laws
def test_a_streamline_can_be_tracked_from_its_own_points():
    straight = engine(straight_data())
    line = lines(track(straight, [[12.0, 10.0, 4.0]]))[0]
    for seed in (line[1], line[len(line) // 3], line[-2]):
        again = lines(track(straight, [seed]))[0]
        again = again if (again[0] - again[-1]) @ (line[0] - line[-1]) > 0 else again[::-1]
        assert len(again) == len(line)
        assert np.abs(again - line).max() < 1e-3


@pytest.mark.parametrize("axes", [(1, 2, 0), (1, 0, 2), (0, 2, 1)])
def test_turning_the_image_turns_the_streamlines(axes):
    data, seeds = noisy()
    # a quarter turn: axis i of the new image is axis axes[i] of the old one, one of them backwards if need be
    turn = np.eye(3)[list(axes)]
    turn[0] *= np.linalg.det(turn)
    shift = np.where(turn.sum(axis=1) < 0, 8.0, 0.0)
    turned = data.transpose(*axes, 3)
    turned = turned[::-1] if turn[0].sum() < 0 else turned
    vertices, edges = load_sphere("default")
    batch = track(engine(data), seeds)
    other = track(
        engine(np.ascontiguousarray(turned), gtab=rotated(gradients(), turn), sphere=(vertices @ turn.T, edges)),
        seeds @ turn.T + shift,
    )
    # the same draws: but for rounding at a peak that is nearly another, the very same streamlines
    assert np.mean(batch.seed_number[: len(other)] == other.seed_number[: len(batch)]) > 0.9
    pairs = [(a, b) for a, b in zip(lines(batch), lines(other), strict=False) if len(a) == len(b)]
    same = [np.abs(a @ turn.T + shift - b).max() < 1e-3 for a, b in pairs]
    assert sum(same) > 0.9 * len(batch)


def test_a_seed_alone_grows_what_it_grows_among_others():
    data, seeds = noisy()
    tracker = engine(data)
    whole = track(tracker, seeds, first_seed=7)
    for i in (0, 17, 59):
        alone = track(tracker, seeds[i : i + 1], first_seed=7 + i)
        of_seed = [line for line, n in zip(lines(whole), whole.seed_number, strict=True) if n == 7 + i]
        assert len(alone) == len(of_seed)
        assert all(np.array_equal(a, b) for a, b in zip(lines(alone), of_seed, strict=True))
        assert set(alone.seed_number) == {7 + i}


def test_other_numbers_give_other_streamlines():
    data, seeds = noisy()
    first = fingerprint(track(engine(data), seeds))
    assert fingerprint(track(engine(data), seeds)) == first
    assert fingerprint(track(engine(data), seeds, first_seed=1)) != first
    assert fingerprint(track(engine(data, rng_seed=1), seeds)) != first
    assert fingerprint(track(engine(data, rng_seed=2**40), seeds)) != first


@pytest.mark.parametrize("settings", [{"chunk_size": 7}, {"threads": 1}, {"threads": 2, "chunk_size": 23}])
def test_chunks_and_threads_change_no_bit(settings):
    data, seeds = noisy()
    assert fingerprint(track(engine(data, **settings), seeds)) == fingerprint(track(engine(data), seeds))


@pytest.mark.parametrize("sizes", [(1.0, 2.0, 3.0), (2.5, 1.25, 2.0)])
def test_steps_have_their_length_in_mm(sizes):
    turn = np.array([[0.8, -0.6, 0], [0.6, 0.8, 0], [0, 0, 1.0]])
    affine = np.eye(4)
    affine[:3, :3] = turn * sizes
    affine[:3, 3] = -20, 5, 7
    batch = track(engine(straight_data(), affine=affine, step=0.4), [[12.0, 10.0, 4.0]])
    steps = np.diff(lines(batch)[0], axis=0)
    assert np.allclose(np.linalg.norm(steps, axis=1), 0.4, atol=2e-5)
    axis = turn @ load_sphere("default")[0][AXIS]  # b-vectors are given along the image's axes
    assert np.abs(np.abs(steps @ axis) - 0.4).max() < 2e-5


# ------------------------------------------------------------------------------------------------------ stopping
def test_the_number_of_steps_is_bounded():
    batch = track(engine(straight_data(), max_steps=6), [[12.0, 10.0, 4.0], [23.2, 10.0, 4.0]])
    assert batch.lengths[0] == 13
    assert batch.stop_reasons[0].tolist() == [Stop.MAX_LENGTH] * 2
    assert sorted(batch.stop_reasons[1].tolist()) == [Stop.OUTSIDE_IMAGE, Stop.MAX_LENGTH]
    assert batch.lengths[1] < 13


def test_lengths_outside_the_bounds_are_dropped():
    seeds = [[12.0, 10.0, 4.0], [12.0, 1.0, 4.0]]
    every = track(engine(straight_data()), seeds)
    mm = (every.lengths - 1) * STEP
    assert mm[0] != mm[1]
    fewest, most = steps_within(STEP, float(mm.mean())), steps_within(STEP, 0.0, float(mm.mean()))
    kept = [engine(straight_data(), fewest_steps=a, most_steps=b) for a, b in (fewest, most)]
    assert track(kept[0], seeds).lengths.tolist() == [every.lengths[np.argmax(mm)]]
    assert track(kept[1], seeds).lengths.tolist() == [every.lengths[np.argmin(mm)]]


def test_a_bound_is_within_the_bounds():
    """Rounded, 3 steps of 0.1 mm are more than 0.3 mm, 43 of 0.7 less than 30.1; sides of voxels come in float32."""
    assert 3 * 0.1 > 0.3
    assert 43 * 0.7 < 30.1
    for step in (0.1, 0.2, 0.7, 1 / 3, 0.5 * float(np.float32(1.8)), 1.25):
        for count in (1, 3, 20, 43, 1999, 20000):
            for exact in (count * step, float(f"{count * step:.9g}"), float(np.float32(count * step))):
                assert steps_within(step, exact, exact) == (count, count), (step, count)
            assert steps_within(step, (count - 0.01) * step, (count + 0.01) * step) == (count, count)
            assert steps_within(step, (count + 0.05) * step)[0] == count + 1
            assert steps_within(step, 0.0, (count - 0.05) * step)[1] == count - 1
    assert steps_within(0.5, 0.0) == (1, None)
    assert steps_within(0.5, 0.0, 0.2)[1] == 0


def stopping_maps():
    """Where the bundle ends: in the stop map, where fibres run across it, or at the border."""
    ends = np.ones(SHAPE, np.float32)
    ends[16:] = 0
    crossed = straight_data().copy()
    crossed[16:] = signals(gradients(), np.cross(load_sphere("default")[0][AXIS], [0.0, 0.0, 1.0]))
    return {
        Stop.END_POINT: (straight_data(), ends), Stop.NO_DIRECTION: (crossed, np.ones(SHAPE, np.float32)),
        Stop.OUTSIDE_IMAGE: (straight_data(), np.ones(SHAPE, np.float32)),
    }


@pytest.mark.parametrize("reason", [Stop.END_POINT, Stop.NO_DIRECTION, Stop.OUTSIDE_IMAGE, Stop.MAX_LENGTH])
def test_streamlines_end_where_dipys_do(reason):
    from dipy.data import default_sphere
    from dipy.direction import BootDirectionGetter
    from dipy.reconst.shm import OpdtModel
    from dipy.tracking.local_tracking import LocalTracking
    from dipy.tracking.stopping_criterion import ThresholdStoppingCriterion

    data, stop_map = stopping_maps().get(reason, (straight_data(), np.ones(SHAPE, np.float32)))
    limit = 9 if reason == Stop.MAX_LENGTH else 200
    seeds = np.array([[12.0, 10.0, 4.0], [10.3, 9.1, 3.8]])
    batch = track(engine(data, stop_map=stop_map, max_steps=limit), seeds)
    getter = BootDirectionGetter.from_data(
        data.astype(float), OpdtModel(gradients(), sh_order_max=4, smooth=0.006, min_signal=1), max_angle=60.0,
        sphere=default_sphere, sh_order=4, relative_peak_threshold=0.25, min_separation_angle=45,
    )
    criterion = ThresholdStoppingCriterion(stop_map.astype(float), 0.5)
    theirs = list(LocalTracking(getter, criterion, seeds, np.eye(4), STEP, maxlen=limit, random_seed=1))
    assert reason in batch.stop_reasons
    for ours, other in zip(lines(batch), theirs, strict=True):
        if reason == Stop.NO_DIRECTION:  # where the bundle fades, the draws decide when to stop
            n = min(len(ours), len(other)) - 4
            assert abs(len(ours) - len(other)) <= 4
            assert np.abs(ours[:n] - other[:n]).max() < STEP
            assert Stop(reason).keeps_last_point
        else:
            assert ours.shape == other.shape
            assert np.abs(ours - other).max() < 1e-4
    if reason == Stop.END_POINT:
        assert not Stop(reason).keeps_last_point
        assert max(line[:, 0].max() for line in lines(batch)) < 15.5


@pytest.mark.parametrize(
    ("first", "count", "message"),
    [(0, 25, r"directions have shape \(25, 3\): give \(20, 3\)"), (0, 7, r"have shape \(7, 3\)"),
     (2**32 - 19, 20, "seeds are numbered from")],
)
def test_a_whole_block_is_checked_before_any_streamline(first, count, message):
    grows = engine(straight_data(), chunk_size=4)
    seeds, directions = np.tile([12.0, 10, 4], (20, 1)), np.tile([1.0, 0, 0], (count, 1))
    with pytest.raises(ParameterError, match=message):
        next(grows.track(seeds, first, directions))
