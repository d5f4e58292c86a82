"""Deterministic choices against DIPY's, point by point, and whole streamlines on fibres that are known."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from dipy.direction import ClosestPeakDirectionGetter, DeterministicMaximumDirectionGetter
from distributions import (
    CASES,
    CIRCLE_SEEDS,
    SHAPE,
    circle,
    dipy_pmf,
    directions,
    fibres,
    headings_in,
    lines,
    points_in,
    sphere_of,
    tracked,
    weights,
)
from distributions import case as any_case
from tables import prepare_det, prepare_prob

from tistreamlines.kernels.stop_reasons import Stop
from tistreamlines.space.sphere import load_sphere
from tistreamlines.tracking.getters import cone
from tistreamlines.tracking.growth.settings import Settings
from tistreamlines.tracking.tables.inputs import KernelTables

pytestmark = pytest.mark.filterwarnings("ignore:The legacy:PendingDeprecationWarning")
GETTERS = {"max": DeterministicMaximumDirectionGetter, "closest": ClosestPeakDirectionGetter}
ANGLE = 45.0


def case(name: str, rule: str = "max", **options) -> KernelTables:
    return any_case(name, prepare_det, det_rule=rule, **options)


def by_dipy(name: str, rule: str, points: np.ndarray, headings: np.ndarray, **options) -> np.ndarray:
    """Directions that DIPY's getter takes, 0 where it takes none."""
    threshold = CASES[name][1].get("pmf_threshold", 0.1)
    getter = GETTERS[rule](dipy_pmf(name), ANGLE, sphere_of(name), pmf_threshold=threshold, **options)
    out = headings.copy()
    for point, towards in zip(points, out, strict=True):
        if getter.get_direction(point, towards):
            towards[:] = 0
    return out


@pytest.mark.parametrize("rule", GETTERS)
@pytest.mark.parametrize("name", ["sh", "sampled", "pmf"])
def test_directions_are_dipys(name, rule):
    points, headings = points_in(120), headings_in(name, 120)
    expected = by_dipy(name, rule, points, headings)
    got = directions(case(name, rule), "python", points, headings)[1]
    assert np.abs(got - expected).max() < 1e-6
    assert 0.4 < expected.any(axis=1).mean() < (1.1 if name == "pmf" else 1.0)


def test_peaks_follow_their_options():
    options = {"relative_peak_threshold": 0.05, "min_separation_angle": 10.0}
    points, headings = points_in(120), headings_in("pmf", 120)
    few = directions(case("pmf", "closest"), "python", points, headings)[1]
    got = directions(case("pmf", "closest", **options), "python", points, headings)[1]
    assert np.abs(got - by_dipy("pmf", "closest", points, headings, **options)).max() < 1e-6
    assert np.abs(got - few).max() > 0.1


@pytest.mark.parametrize(("name", "rule"), [("sh", "closest"), ("sampled", "max")])
def test_single_precision_chooses_the_same(name, rule):
    points, headings = points_in(150), headings_in(name, 150)
    double, single = (directions(case(name, rule), dialect, points, headings)[0] for dialect in ("python", "numba32"))
    assert np.mean(double == single) > 0.99


@pytest.mark.parametrize("rule", GETTERS)
def test_unlike_opposites_keep_their_sense(rule):
    points, headings = points_in(100), headings_in("asymmetric", 100)
    prepared, vertices = case("asymmetric", rule), load_sphere("full")[0]
    codes, got = directions(prepared, "python", points, headings)
    taken = codes >= 0
    assert not (codes[taken] & 1).any()
    assert (got[taken] * headings[taken]).sum(axis=1).min() > np.cos(np.radians(ANGLE)) - 1e-9
    if rule == "max":
        expected = [weights("asymmetric", *place) for place in zip(points, headings, strict=True)]
        assert np.array_equal(taken, [w.max() > 0 for w in expected])
        best = [w.argmax() for w, s in zip(expected, taken, strict=True) if s]
        assert np.allclose(got[taken], vertices[best], atol=1e-6)


def one_row(make, samples: np.ndarray, **options) -> KernelTables:
    pmf = np.broadcast_to(samples.astype(np.float32), (*SHAPE, len(samples)))
    return make("pmf", pmf, np.ones(SHAPE, np.float32), 0.5, np.ones((1, 3)), **options)


def test_the_lowest_vertex_of_equals_is_taken():
    vertices = load_sphere("default")[0]
    levels = np.round(np.random.default_rng(3).uniform(0, 4, len(vertices)))
    codes = directions(one_row(prepare_det, levels, max_angle=30.0), "python", np.ones((100, 3)), vertices[:100])[0]
    cosines = np.abs(vertices[:100] @ vertices.T)
    expected = [np.argmax(np.where(row > np.cos(np.pi / 6), levels, -1)) for row in cosines]
    assert (codes >> 1).tolist() == expected


@pytest.mark.parametrize("rule", GETTERS)
def test_nothing_gives_no_direction(rule):
    vertices = load_sphere("default")[0]
    for level in (0.0, -1.0):
        prepared = one_row(prepare_det, np.full(len(vertices), level), det_rule=rule)
        assert (directions(prepared, "python", np.ones((5, 3)), vertices[:5])[0] == -1).all()


def test_a_vertex_just_within_the_greatest_angle_is_in_the_cone():
    vertices = load_sphere("default")[0].astype(np.float32)
    samples = np.eye(len(vertices))[31]
    angle = float(np.degrees(np.arccos(np.float64(abs((vertices[20] * vertices[31]).sum())))))
    for make in (prepare_det, prepare_prob):
        for nearer in (-0.01, 0.01):
            prepared = one_row(make, samples, max_angle=angle + nearer)
            codes = directions(prepared, "python", np.ones((1, 3)), vertices[20:21].astype(float))[0]
            assert (codes[0] >= 0) == (nearer > 0)


def test_one_at_just_the_greatest_angle_is_not(monkeypatch):
    vertices = load_sphere("default")[0].astype(np.float32)
    a, b = vertices[20], vertices[31]
    edge = abs((a[0] * b[0] + a[1] * b[1]) + a[2] * b[2])
    for cosine, inside in ((edge, False), (np.nextafter(edge, np.float32(0)), True)):
        monkeypatch.setattr(cone, "peak_rule", lambda _, cosine=cosine: SimpleNamespace(cos_angle=float(cosine)))
        prepared = one_row(prepare_det, np.eye(len(vertices))[31], max_angle=89.0)
        assert (directions(prepared, "numba32", np.ones((1, 3)), vertices[20:21].astype(float))[0][0] >= 0) == inside


# --------------------------------------------------------------------------------------------- whole streamlines
def test_a_straight_bundle_gives_straight_lines():
    vertices = load_sphere("default")[0]
    axis = vertices[np.argmax(vertices @ [0.94, 0.33, 0.05])]
    values = fibres(np.broadcast_to(axis, (24, 20, 9, 3)))
    seeds = np.random.default_rng(0).uniform([8, 8, 3], [15, 11, 5], (20, 3))
    batch = tracked(values, seeds, make=prepare_det)
    assert len(batch.seeds) == 20
    assert (batch.stop_reasons == Stop.OUTSIDE_IMAGE).all()
    for line, seed in zip(lines(batch), seeds, strict=True):
        along = (line - seed) @ axis
        assert np.abs(line - seed - along[:, None] * axis).max() < 1e-4
        assert np.allclose(np.abs(np.diff(along)), 0.5, atol=1e-4)


def test_a_circle_is_followed():
    batch = tracked(fibres(circle()), CIRCLE_SEEDS, make=prepare_det)
    again = tracked(fibres(circle()), CIRCLE_SEEDS, make=prepare_det, settings=Settings(0.5, max_steps=200, rng_seed=7))
    assert np.array_equal(batch.points, again.points)  # nothing is drawn
    for line, seed in zip(lines(batch), CIRCLE_SEEDS, strict=True):
        radius, start = np.linalg.norm(line[:, :2] + 0.5, axis=1), np.linalg.norm(seed[:2] + 0.5)
        middle = radius[(line[:, :2] > 1).all(axis=1)]  # at the axes the image ends
        assert np.abs(middle - start).max() < 0.5
        assert len(line) * 0.5 > 0.85 * np.pi / 2 * start
