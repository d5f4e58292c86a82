"""Visits of streamlines to fixels: against dense sampling of curves, and tckmap's lengths in voxels."""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest
from region_runs import vulkan
from visited import AFFINE, ALONG_X, SHAPE, STEP, batch, curves, fixel_table, lengths_of, table_of

from tistreamlines.devices import choose
from tistreamlines.kernels.weights.visits import FIXEL_BITS, FIXEL_MASK, MOST_UNITS
from tistreamlines.space.geodesic import half_sphere
from tistreamlines.tracking.weights import visits as module
from tistreamlines.tracking.weights.visits import Visitor


def dense(line, table, parts=200):
    """Lengths (mm) of a curve in each fixel, by many points; passes of a voxel are told apart by its chord."""
    mu = (np.arange(parts) / parts)[:, None]
    padded = np.concatenate([2 * line[:1] - line[1:2], line, 2 * line[-1:] - line[-2:-1]]).astype(float)
    slope = 0.45
    fine = []
    for a, b, c, d in zip(padded[:-3], padded[1:-2], padded[2:-1], padded[3:], strict=True):
        first, last = slope * (2 * mu**2 - mu - mu**3), slope * (mu**3 - mu**2)
        turn = 2 * mu**3 - 3 * mu**2
        fine.append(first * a + (1 + turn - last) * b + (-turn - first) * c + last * d)
    fine = np.concatenate([*fine, line[-1:].astype(float)])
    voxel = np.floor((fine - AFFINE[:3, 3]) @ np.linalg.inv(AFFINE[:3, :3]).T + 0.5).astype(int)
    first = np.concatenate([[0], np.cumsum(table.counts.ravel())])
    in_fixels = np.zeros(table.count)
    cuts = [0, *(np.flatnonzero((np.diff(voxel, axis=0) != 0).any(axis=1)) + 1).tolist(), len(fine) - 1]
    for begin, end in pairwise(cuts):
        place = voxel[begin]
        if (place < 0).any() or (place >= SHAPE).any() or not table.counts[tuple(place)]:
            continue
        chord = fine[end] - fine[begin]
        lobe = 0 if ALONG_X[np.abs(half_sphere()[0] @ chord).argmax()] else 1
        length = np.linalg.norm(np.diff(fine[begin : end + 1], axis=0), axis=1).sum()
        in_fixels[first[np.ravel_multi_index(tuple(place), SHAPE)] + lobe] += length
    return in_fixels


def test_lengths_are_those_of_dense_sampling():
    table, lines = fixel_table(), curves(150)
    lengths = lengths_of(Visitor(table, STEP, choose("cpu")).parts(lines), len(lines), table.count) * table.unit_mm
    errors, total = [], 0.0
    for line, ours in zip(lines, lengths, strict=True):
        expected = dense(line, table) if len(line) > 1 else np.zeros(table.count)
        total += expected.sum()
        errors.append(np.abs(ours - expected))
    errors = np.array(errors)
    assert total > 500
    # a unit of length is 0.012 mm; chords near the border of both lobes, and grazed voxels, may differ
    assert (errors > 2 * table.unit_mm).mean() < 1e-3
    assert errors.sum() < 0.01 * total
    assert not lengths[lines.lengths == 1].any()


def test_a_fixel_that_is_visited_twice_has_one_visit():
    """A way along the border of two voxels, back and forth."""
    table = table_of(np.eye(4), np.ones((4, 4, 4), int), np.zeros(1281))
    x = np.linspace(0.0, 2.0, 21)
    points = np.stack([x, 1.5 + 0.02 * (-1) ** np.arange(21), np.full(21, 1.0)], axis=1).astype(np.float32)
    (part,) = Visitor(table, 0.1, choose("cpu")).parts(batch(points, np.array([0, 21])))
    words = part.words.reshape(-1, 32)[:, 0]
    fixels, units = words & FIXEL_MASK, (words >> FIXEL_BITS) & MOST_UNITS
    assert len(set(fixels[units > 0].tolist())) == np.count_nonzero(units)
    length = np.linalg.norm(np.diff(points, axis=0), axis=1).sum()
    assert abs(units.sum() * table.unit_mm - length) < 0.05 * length


@pytest.mark.parametrize("seed", range(3))
def test_points_that_repeat_are_left_out(seed):
    """Some trackers store the seed twice; streamlines of one point that is there several times visit nothing."""
    table, lines = fixel_table(), curves(60, seed)
    again = np.random.default_rng(seed).integers(1, 4, len(lines.points)) if seed else np.full(len(lines.points), 2)
    offsets = np.concatenate([[0], np.cumsum(again)])[lines.offsets]
    repeated = batch(np.repeat(lines.points, again, axis=0), offsets)
    visitor = Visitor(table, STEP, choose("cpu"))
    expected, lengths = (lengths_of(visitor.parts(each), len(lines), table.count) for each in (lines, repeated))
    assert expected.any() and np.array_equal(lengths, expected)
    assert len(repeated.points) > 1.5 * len(lines.points)


def test_a_step_that_is_far_too_long_takes_no_room(monkeypatch):
    """The curves are the same, and lanes have room for the visits that there are."""
    table, lines, room = fixel_table(), curves(40), []

    def visit(self, depth, *others, run=Visitor._visit):
        room.append(depth)
        return run(self, depth, *others)

    monkeypatch.setattr(Visitor, "_visit", visit)
    longest = 100 * float(table.space.voxel_sizes.min())
    visitors = [Visitor(table, step, choose("cpu")) for step in (STEP, longest)]
    usual, long = (lengths_of(visitor.parts(lines), 40, table.count) for visitor in visitors)
    assert abs(long.sum() / usual.sum() - 1) < 1e-3
    assert max(depth.max() for depth in room) < 60 * 10


def test_several_batches_are_as_one():
    table, lines = fixel_table(), curves(100, seed=3)
    visitor = Visitor(table, STEP, choose("cpu"))
    expected = lengths_of(visitor.parts(lines), 100, table.count)
    units = np.rint(expected.sum(axis=0)).astype(int)
    assert np.array_equal(visitor.lengths(*(lines[a:b] for a, b in pairwise((0, 30, 31, 100)))), units)
    for cuts in ([0, 30, 31, 100], [0, 99, 100]):  # memory of the first ones serves the second ones, too
        parts = visitor.parts(*(lines[a:b] for a, b in pairwise(cuts)))
        np.testing.assert_array_equal(lengths_of(parts, 100, table.count), expected)


@pytest.mark.skipif(not vulkan(), reason="no Vulkan device: install mesa-vulkan-drivers and libvulkan1")
def test_memory_of_a_gpu_is_used_again(monkeypatch):
    """By launches of fewer and of more points, in two threads."""
    table, lines = fixel_table(), curves(100, seed=3)
    expected = lengths_of(Visitor(table, STEP, choose("cpu")).parts(lines), 100, table.count)
    monkeypatch.setattr(module, "ON_GPU", 300)
    visitor = Visitor(table, STEP, choose("vulkan"))
    with ThreadPoolExecutor(2) as pool:
        for parts in pool.map(visitor.parts, [lines] * 4):
            assert len(parts) > 3
            np.testing.assert_array_equal(lengths_of(parts, 100, table.count), expected)


def test_visits_do_not_depend_on_room_or_on_how_many_are_found_at_a_time(monkeypatch):
    table, lines = fixel_table(), curves(100, seed=3)
    whole = lengths_of(Visitor(table, STEP, choose("cpu")).parts(lines), 100, table.count)
    monkeypatch.setattr(module, "TOGETHER", 300)
    monkeypatch.setattr(module, "AT_LEAST", 1)
    monkeypatch.setattr(module, "A_POINT", 0.01)
    parts = Visitor(table, STEP, choose("cpu"), threads=2).parts(lines)
    assert len(parts) > 3
    np.testing.assert_array_equal(lengths_of(parts, 100, table.count), whole)
