"""What the benchmark measures of streamlines: closed forms, and centrelines as the truth."""

from __future__ import annotations

import numpy as np
import pytest
from suite import tractometer

from tistreamlines.benchmarks.cases import CASES
from tistreamlines.benchmarks.streamlines import (
    RunStreamlines,
    concatenate_lines,
    density,
    identical,
    length_ks,
    lengths_mm,
)
from tistreamlines.phantom.phantom import make_phantom
from tistreamlines.space.batch import Space


def lines(*points) -> RunStreamlines:
    return concatenate_lines([np.array(line, np.float32) for line in points], 1.0)


def test_lengths_and_crossings_in_closed_form():
    tracked = lines([[-5, 0, 0], [-5, 3, 4], [-5, 3, 14]], [[-9, 0, 0], [9, 0, 0]], [[1, 0, 0], [-1, 0, 0]], [[7] * 3])
    assert np.allclose(lengths_mm(tracked), [15, 18, 2])
    # the third has its ends on both sides, but stays within 2 mm of the plane
    for middle, counts in ((0.0, (1, 2)), (20.0, (0, 0))):
        space = Space(np.array([[2.0, 0, 0, middle - 3], [0, 2, 0, 0], [0, 0, 2, 0], [0, 0, 0, 1]]), (4, 3, 2))
        assert tuple(tractometer.crossings(tracked, space).values()) == counts


def test_density_counts_a_streamline_once_a_voxel():
    space = Space(np.diag([2.0, 2.0, 2.0, 1.0]), (4, 3, 2))
    tracked = lines([[0, 0, 0], [0.4, 0, 0], [2, 0, 0]], [[0, 0, 0], [0, 2, 0]], [[0, 0, 0], [-40, 0, 0]])
    visits = density(tracked, space)
    assert visits[0, 0, 0] == 3
    assert visits[1, 0, 0] == 1
    assert visits[0, 1, 0] == 1
    assert visits.sum() == 5


def test_distance_of_lengths_in_closed_form():
    steps = np.arange(1.0, 101.0)
    assert length_ks(steps, steps + 1e-4) == 0
    assert length_ks(steps, steps[:50]) == pytest.approx(0.5)
    assert np.isnan(length_ks(steps, steps[:0]))


def test_identical_streamlines_are_shares_of_either():
    a, b, c = [[0, 0, 0], [1, 0, 0]], [[0, 0, 0], [2, 0, 0]], [[0, 0, 0], [3, 0, 0]]
    assert identical(lines(a, b), lines(b, a)) == 1
    assert identical(lines(a, b), lines(b, c)) == pytest.approx(1 / 3)


def test_truth_of_centrelines_is_perfect():
    phantom = make_phantom(**CASES["demo"].phantom)
    tracked = lines(*(bundle.centreline for bundle in phantom.bundles))
    scores = tractometer.truth(phantom, tracked)
    assert scores["valid"] == 1
    assert scores["bundles"] == len(phantom.bundles)
    assert scores["overreach"] < 0.2
    strangers = lines(*(np.stack([first.centreline[0], second.centreline[0]]) for first, second in zip(
        phantom.bundles[:3], phantom.bundles[3:6], strict=True)))
    assert tractometer.truth(phantom, strangers)["valid"] == 0
