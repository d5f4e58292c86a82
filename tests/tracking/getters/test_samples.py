"""Laws of tracking through samples of fibres, for the oracle and for what is compared with it.

A tracker takes samples and options (``probtrackx.Options``) and has ``halves(seeds)``: the halves of each seed.
"""

from itertools import product

import numpy as np
import pytest
from probtrackx import LENGTH, NO_DIRECTION, OUTSIDE, Options, Probtrackx, draw
from sample_files import POSITIVE, mirrored, save_samples
from sample_runs import Getter

from tistreamlines.io.samples import Samples, load_samples, sample_files
from tistreamlines.space.batch import Space

TRACKERS = {"oracle": Probtrackx, "getter": Getter}
SHAPE = (20, 12, 10)
ISOTROPIC = np.diag([2.0, 2, 2, 1])
MIDDLE = np.array([9.45, 5.5, 4.5])


@pytest.fixture(params=TRACKERS)
def tracker(request):
    """Makes a tracker: ``tracker(samples, **options)``."""
    return lambda samples, **options: TRACKERS[request.param](samples, Options(**options))


def uniform_samples(directions, fractions, mask=None, affine=ISOTROPIC, count=3) -> Samples:
    """The same fibres in each voxel of a mask."""
    mask = np.ones(SHAPE, bool) if mask is None else mask
    rows = np.concatenate([np.asarray(directions, float), np.asarray(fractions, float)[:, None]], axis=1)
    values = np.broadcast_to(rows, (int(mask.sum()), count, *rows.shape)).astype(np.float32)
    return Samples(values, mask, Space(affine, mask.shape))


def in_plane(angle):
    return np.array([np.cos(np.radians(angle)), np.sin(np.radians(angle)), 0])


@pytest.mark.parametrize("modified", [False, True])
@pytest.mark.parametrize("angle", [60, 90])
def test_goes_straight_through_a_crossing(tracker, angle, modified):
    """The fibre nearest to the heading is followed, also where the other one is larger."""
    samples = uniform_samples([in_plane(0), in_plane(angle)], [0.3, 0.6])
    for halves in tracker(samples, modified_euler=modified).halves(np.tile(MIDDLE, (5, 1))):
        assert [half.reason for half in halves] == [OUTSIDE] * 2
        for half, sense, count in zip(halves, (1, -1), (40, 39), strict=True):
            steps = np.diff(half.points, axis=0)
            assert len(steps) == count  # of 0.25 voxels, while the nearest voxel exists: 10.05 and 9.95 voxels
            assert np.allclose(steps, [0.25 * sense, 0, 0], atol=1e-5)


def test_steps_are_in_mm_along_anisotropic_axes(tracker):
    samples = uniform_samples([in_plane(45)], [0.5], affine=np.diag([1.0, 2, 4, 1]))
    ((forward, _),) = tracker(samples, step_size=0.8).halves([MIDDLE])
    moved = np.diff(forward.points, axis=0) * [1, 2, 4]
    assert np.allclose(moved, 0.8 * in_plane(45), atol=1e-5)


@pytest.mark.parametrize(("fraction", "counts"), [(0.009, False), (0.011, True)])
def test_small_fractions_do_not_count(tracker, fraction, counts):
    """A fibre along the heading is left for another one within the angle where its fraction is too small."""
    samples = uniform_samples([in_plane(0), in_plane(50)], [fraction, 0.6])
    ((*halves,),) = tracker(samples).halves([MIDDLE])
    assert len(halves) == 2 * counts  # the seed's direction is fibre 1
    either = tracker(samples, random_fibre=True).halves(np.tile(MIDDLE, (200, 1)))
    first = np.array([half[0].points[1] - MIDDLE for half in either])
    along = np.abs(first[:, 1]) < 1e-6
    assert abs(along.mean() - counts / 2) < 0.15
    assert np.allclose(first[~along], 0.25 * in_plane(50), atol=1e-5)


@pytest.mark.parametrize(("angle", "goes_on"), [(75, True), (78, False)])
def test_greatest_angle(tracker, angle, goes_on):
    """Halves end where the only fibre turns by more than the greatest angle."""
    samples = uniform_samples([in_plane(0)], [0.5])
    values, turned = samples.values.copy(), np.indices(SHAPE)[0] >= 12
    values[turned[samples.mask], :, 0, :3] = in_plane(angle)
    ((forward, _),) = tracker(Samples(values, samples.mask, samples.space), max_angle=76).halves([MIDDLE])
    assert (forward.reason == NO_DIRECTION) != goes_on
    assert np.ptp(forward.points[:, 0]) < 2.51 or goes_on  # the voxel beyond may be drawn from x = 11 to 12


@pytest.mark.parametrize("fraction", [0.5, 0.8])
def test_use_f_stops_with_a_probability_of_one_minus_f(tracker, fraction):
    """The number of steps is geometric: its mean before an end is f / (1 - f), the first step included."""
    mask = np.ones((80, 3, 3), bool)
    samples = uniform_samples([in_plane(0)], [fraction], mask)
    seeds = np.tile([40.0, 1, 1], (400, 1))
    halves = [half for pair in tracker(samples, use_f=True, step_size=0.3).halves(seeds) for half in pair]
    assert {half.reason for half in halves} == {NO_DIRECTION}
    steps = np.array([len(half.points) - 1 for half in halves])
    expected, deviation = fraction / (1 - fraction), fraction**0.5 / (1 - fraction)
    assert abs(steps.mean() - expected) < 4 * deviation / len(steps) ** 0.5
    assert abs((steps == 0).mean() - (1 - fraction)) < 4 * (fraction * (1 - fraction) / len(steps)) ** 0.5


def test_voxels_are_drawn_by_the_fraction(tracker):
    """Between two voxels of different fibres, the upper one decides with a probability equal to the fraction."""
    samples = uniform_samples([in_plane(0)], [0.5])
    values, upper = samples.values.copy(), np.indices(SHAPE)[1] >= 6
    values[upper[samples.mask], :, 0, :3] = in_plane(30)
    seeds = np.tile([9.0, 5.3, 4.0], (600, 1))
    halves = tracker(Samples(values, samples.mask, samples.space), max_steps=1).halves(seeds)
    turned = np.array([abs(half[0].points[1, 1] - 5.3) > 0.1 for half in halves])
    assert abs(turned.mean() - 0.3) < 4 * (0.3 * 0.7 / len(seeds)) ** 0.5


def test_each_sample_is_as_likely(tracker):
    angles = np.arange(5) * 10
    values = np.zeros((np.prod(SHAPE), 5, 1, 4), np.float32)
    values[:, :, 0, :3], values[..., 3] = [in_plane(angle) for angle in angles], 0.5
    samples = Samples(values, np.ones(SHAPE, bool), Space(ISOTROPIC, SHAPE))
    halves = tracker(samples, max_steps=1, one_way=True).halves(np.tile(MIDDLE, (500, 1)))
    steps = np.array([half[0].points[1] - MIDDLE for half in halves])
    numbers = np.rint(np.degrees(np.arctan2(steps[:, 1], steps[:, 0])) / 10).astype(int)
    assert np.bincount(numbers, minlength=5).min() > 60  # 100 expected, with a deviation of 9


def test_modified_euler_steps_along_the_mean(tracker):
    """One step ahead lies the other fibre for certain: the step is along the mean of both."""
    samples = uniform_samples([in_plane(0)], [0.5])
    values, beyond = samples.values.copy(), np.indices(SHAPE)[0] >= 11
    values[beyond[samples.mask], :, 0, :3] = in_plane(40)
    samples = Samples(values, samples.mask, samples.space)
    ((forward, backward),) = tracker(samples, modified_euler=True, step_size=2.0, max_steps=1).halves([[10.0, 5, 4]])
    assert np.allclose(forward.points[1] - forward.points[0], in_plane(20), atol=1e-5)
    assert np.allclose(backward.points[1] - backward.points[0], -in_plane(0), atol=1e-5)


def test_one_way(tracker):
    samples = uniform_samples([in_plane(0)], [0.5])
    (both,), (forward,) = (tracker(samples, one_way=way).halves([MIDDLE]) for way in (False, True))
    assert len(both) == 2
    assert len(forward) == 1
    assert np.array_equal(forward[0].points, both[0].points)


def test_greatest_number_of_steps(tracker):
    ((forward, _),) = tracker(uniform_samples([in_plane(0)], [0.5]), max_steps=7).halves([MIDDLE])
    assert (len(forward.points), forward.reason) == (8, LENGTH)


def test_nothing_grows_outside_the_mask(tracker):
    mask = np.indices(SHAPE)[0] < 12
    samples = uniform_samples([in_plane(0)], [0.5], mask)
    nothing, (forward, backward) = tracker(samples).halves([[15.0, 5, 4], [9.0, 5, 4]])
    assert nothing == ()
    assert forward.reason in (OUTSIDE, NO_DIRECTION)  # the empty voxel may be drawn before the point lies in it
    assert forward.points[:, 0].max() < 11.5
    assert backward.points[:, 0].min() == pytest.approx(-0.5, abs=0.26)


def test_voxels_without_fibres_end_a_half(tracker):
    samples = uniform_samples([in_plane(0)], [0.5])
    values = samples.values.copy()
    values[(np.indices(SHAPE)[0] == 12)[samples.mask], ..., 3] = 0
    (nothing, (forward, _)) = tracker(Samples(values, samples.mask, samples.space)).halves([[12.0, 5, 4], [9.0, 5, 4]])
    assert nothing == ()
    assert forward.reason == NO_DIRECTION
    assert forward.points[-1, 0] < 13


def test_both_orders_of_storage_give_the_same_anatomy(tracker, tmp_path):
    """A curved fibre, known in scanner space, is followed alike whichever way the first axis is stored."""
    shape = (14, 14, 5)
    grid = np.moveaxis(np.indices(shape).astype(float), 0, -1) @ POSITIVE[:3, :3].T + POSITIVE[:3, 3]
    away = grid - POSITIVE[:3, 3]
    around = np.stack([-away[..., 1], away[..., 0], 0.3 + 0 * away[..., 2]], axis=-1)
    around /= np.linalg.norm(around, axis=-1, keepdims=True)
    directions = np.broadcast_to(around[:, :, :, None, None], (*shape, 2, 1, 3))
    fractions = np.full((*shape, 2, 1), 0.5)
    ends = []
    for flip in (False, True):
        affine, step = (mirrored(POSITIVE, shape[0]), -1) if flip else (POSITIVE, 1)
        folder = save_samples(tmp_path / str(flip), directions[::step], fractions[::step], affine)
        samples = load_samples(sample_files(folder))
        seeds = samples.space.to_voxel(np.tile(POSITIVE[:3, :3] @ [9, 2, 1] + POSITIVE[:3, 3], (40, 1)))
        halves = tracker(samples, max_steps=30).halves(seeds)
        ends.append(np.mean([samples.space.to_ras(half.points[-1]) for half, _ in halves], axis=0))
    assert np.linalg.norm(ends[0] - ends[1]) < 0.5
    assert ends[0][1] > POSITIVE[1, 3] + 2 * 1.8 + 10  # 15 mm along the circle


def test_words_of_draws_differ():
    """No two draws of a step, a side or a seed share a counter."""
    places = list(product((0, 1), (0, 1), (0, 1), (0, 1, 2)))
    assert len({draw(*place, (1, 0)) for place in places}) == len(places)


# ------------------------------------------------------------------------------------------- the getter and the oracle
def crossing_samples(fibres=3, count=7, affine=POSITIVE) -> Samples:
    """Fibres around an axis, along another one and anywhere, which scatter from sample to sample, in an ellipsoid."""
    rng = np.random.default_rng(11)
    place = np.indices(SHAPE).astype(float)
    mask = ((place[0] - 9.5) / 9.6) ** 2 + ((place[1] - 5.5) / 5.8) ** 2 + ((place[2] - 4.5) / 5) ** 2 < 1
    around = np.stack([place[1] + 4, -place[0] + 9.5, 0.5 + 0 * place[0]], axis=-1)[mask]
    lines = np.stack([around, np.broadcast_to([1.0, 0.2, 0], around.shape), np.zeros_like(around)], axis=1)[:, :fibres]
    lines /= np.maximum(np.linalg.norm(lines, axis=2, keepdims=True), 1)
    values = np.empty((len(lines), count, fibres, 4), np.float32)
    scattered = lines[:, None] + 0.25 * rng.normal(size=(len(lines), count, fibres, 3))
    values[..., :3] = scattered / np.linalg.norm(scattered, axis=-1, keepdims=True)
    values[..., 3] = rng.uniform([0.6, 0, 0][:fibres], [0.99, 0.7, 0.05][:fibres], (len(lines), count, fibres))
    return Samples(values, mask, Space(affine, SHAPE))


WAYS = [
    {}, {"use_f": True}, {"modified_euler": True}, {"random_fibre": True, "max_angle": 45.0},
    {"use_f": True, "modified_euler": True, "random_fibre": True, "step_size": 0.9, "one_way": True},
]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: "-".join(way) or "default")
def test_the_getter_takes_the_steps_of_the_oracle(way):
    """From the same random words the streamlines are the same, apart from rounding, until each half ends alike."""
    samples, options = crossing_samples(), Options(key=(5, 0), **({"max_steps": 60} | way))
    rng = np.random.default_rng(3)
    seeds = np.argwhere(samples.mask)[rng.integers(samples.mask.sum(), size=80)] + rng.uniform(-0.49, 0.49, (80, 3))
    seeds = seeds.astype(np.float32).astype(float)
    theirs, ours = Probtrackx(samples, options).halves(seeds), Getter(samples, options).halves(seeds)
    assert list(map(len, theirs)) == list(map(len, ours))
    steps = 0
    for pair, others in zip(theirs, ours, strict=True):
        for half, other in zip(pair, others, strict=True):
            assert half.reason == other.reason
            assert half.points.shape == other.points.shape
            assert np.abs(half.points - other.points).max() < 5e-5
            steps += len(half.points) - 1
    assert steps > (80 if "use_f" in way else 2000)
