"""Draws from the distribution of directions, against DIPY's ProbabilisticDirectionGetter and by chi-square."""

from __future__ import annotations

import random

import numpy as np
import pytest
from dialects import ints, reals, run
from dipy.core.sphere import HemiSphere
from dipy.core.subdivide_octahedron import create_unit_sphere
from dipy.direction import ProbabilisticDirectionGetter
from distributions import (
    CASES,
    CIRCLE_SEEDS,
    KEY,
    SHAPE,
    case,
    chosen_in_cone,
    circle,
    codes_at,
    dipy_pmf,
    dipy_sphere,
    fibres,
    go,
    headings_in,
    least_in_cone,
    lines,
    points_in,
    sphere_of,
    tracked,
    weights,
)
from scipy.stats import chisquare
from tables import prepare_prob

from tistreamlines.errors import InputError, ParameterError
from tistreamlines.kernels.getters.prob import draw
from tistreamlines.kernels.halves import Method, Scratch
from tistreamlines.kernels.interpolate import Volume, interpolate_row
from tistreamlines.kernels.orientation.patches import CONE_CHUNKS, first_chunk
from tistreamlines.kernels.orientation.peaks import VERTEX_CHUNKS, direction
from tistreamlines.kernels.orientation.pmf import initial_directions, sample, toward
from tistreamlines.linker.lang import Hole, Ints, Reals, barrier, each, func, i32, minimum, real, u32, vec3, where
from tistreamlines.linker.rng import philox, uniform
from tistreamlines.space.cones import divide_sphere
from tistreamlines.space.harmonics import sampling_matrix
from tistreamlines.space.sphere import load_sphere
from tistreamlines.tracking.getters.cone import PatchedGetter

read_all = Hole("what is read at a seed")
pytestmark = pytest.mark.filterwarnings("ignore:The legacy:PendingDeprecationWarning")


# ------------------------------------------------------------------------------------------------------ kernels
@func
def sampled(item: i32, volume: Volume, method: Method, scratch: Scratch, points: Reals, size: i32, out: Reals):
    """Samples at point ``item``."""
    read_all(volume, vec3(points[3 * item], points[3 * item + 1], points[3 * item + 2]), method, scratch)
    barrier()
    sample(method, scratch, vec3(0.0, 0.0, 0.0), -1.0)
    barrier()
    for i in each(size):
        out[item * size + i] = scratch.pmf[i]


@func
def whole_row(item: i32, volume: Volume, scratch: Scratch, points: Reals, size: i32, out: Reals):
    """All channels at point ``item``."""
    interpolate_row(volume, vec3(points[3 * item], points[3 * item + 1], points[3 * item + 2]), scratch.row)
    barrier()
    for i in each(size):
        out[item * size + i] = scratch.row[i]


@func
def begun(
    item: i32, volume: Volume, method: Method, scratch: Scratch, points: Reals, most: i32, counts: Ints, peaks: Ints
):
    """Initial directions at point ``item``."""
    read_all(volume, vec3(points[3 * item], points[3 * item + 1], points[3 * item + 2]), method, scratch)
    counts[item] = minimum(initial_directions(method, scratch), most)
    for i in each(counts[item]):
        peaks[item * most + i] = scratch.peaks.kept[i]


@func
def placed(item: i32, scratch: Scratch, pmf: Reals, size: i32, low: real, shares: Reals, codes: Ints):
    """The vertex at share ``item`` of a PMF."""
    for i in each(size):
        scratch.pmf[i] = pmf[i]
    barrier()
    number = draw(scratch.pmf, VERTEX_CHUNKS, low, shares[item])
    codes[item] = number


@func
def counted(
    item: i32, volume: Volume, method: Method, scratch: Scratch, points: Reals, begun: Ints, size: i32, out: Reals
):
    """Samples that count in the cone around a direction at point ``item``; what else is known of the PMF is not."""
    low = least_in_cone(item, volume, method, scratch, points, begun)
    first = first_chunk(begun[item])
    for i in each(32 * CONE_CHUNKS):
        number = method.numbers[32 * (VERTEX_CHUNKS + first) + i]
        if (number >= 0) & (method.patches[first + (i >> 5)] >= 0):
            out[item * size + number] = where(scratch.cone[i] < low, 0.0, scratch.cone[i])


@func
def counted_of_all(
    item: i32, volume: Volume, method: Method, scratch: Scratch, points: Reals, begun: Ints, size: i32, out: Reals
):
    """The same, by all samples of the PMF."""
    read_all(volume, vec3(points[3 * item], points[3 * item + 1], points[3 * item + 2]), method, scratch)
    barrier()
    low = method.threshold * sample(method, scratch, direction(method.sphere, begun[item]), method.rule.cos_angle)
    barrier()
    for i in each(size):
        out[item * size + i] = where(scratch.pmf[i] < low, 0.0, scratch.pmf[i])


@func
def drawn_of_known(
    item: i32, volume: Volume, method: Method, scratch: Scratch, points: Reals, begun: Ints, key: Ints, codes: Ints
):
    """The direction code that is drawn in the cone at point ``item`` when the least sample that counts is known."""
    low = least_in_cone(item, volume, method, scratch, points, begun)
    w = philox(u32(item), u32(1), u32(2), u32(0), u32(key[0]), u32(key[1]))
    number = draw(scratch.cone, CONE_CHUNKS, low, uniform(w[0]))
    if number >= 0:
        number = method.numbers[32 * (VERTEX_CHUNKS + first_chunk(begun[item])) + number]
    codes[item] = toward(method.sphere, number, direction(method.sphere, begun[item]))


# --------------------------------------------------------------------------------------------- samples and peaks
@pytest.mark.parametrize("name", CASES)
def test_samples_are_dipys(name):
    prepared, points = case(name), points_in(20)
    size = 32 * prepared.getter.ball.vertex_chunks
    got = go("python", sampled, 20, prepared, points=points, size=size, out=reals(20 * size))["out"].reshape(20, size)
    expected = np.array([np.array(dipy_pmf(name).get_pmf(p)) for p in points])
    count = expected.shape[1]
    assert np.abs(got[:, :count] - expected).max() < 1e-5 * np.abs(expected).max()
    assert not got[:, count:].any()


@pytest.mark.parametrize("basis", ["descoteaux07", "tournier07"])
def test_other_bases_are_converted(basis):
    values = np.random.default_rng(3).normal(size=(*SHAPE, 15)).astype(np.float32)
    prepared = prepare_prob("sh", values, np.ones(SHAPE, np.float32), 0.5, np.ones((1, 3)), basis=basis)
    size = 32 * prepared.getter.ball.vertex_chunks
    got = go("python", sampled, 1, prepared, points=np.ones(3), size=size, out=reals(size))["out"]
    expected = sampling_matrix(dipy_sphere("default").vertices, 4, basis) @ values[1, 1, 1]
    assert np.abs(got[: len(expected)] - expected).max() < 1e-5 * np.abs(expected).max()


@pytest.mark.parametrize("options", [{}, {"relative_peak_threshold": 0.1, "min_separation_angle": 10}])
@pytest.mark.parametrize("name", CASES)
def test_initial_directions_are_dipys(name, options):
    sphere, points, count = sphere_of(name), points_in(20), 20
    threshold = CASES[name][1].get("pmf_threshold", 0.1)
    symmetric = {} if "asymmetric" not in CASES[name][1] else {"is_symmetric": False}
    getter = ProbabilisticDirectionGetter(dipy_pmf(name), 45.0, sphere, pmf_threshold=threshold, **options, **symmetric)
    expected = [getter.initial_direction(p) for p in points]
    for most in (None, 1):
        prepared = case(name, max_directions=most, **options)
        width = prepared.scalars["seeds_most"]
        values = {"points": points, "most": width, "counts": ints(count), "peaks": ints(count * width)}
        held = go("python", begun, count, prepared, **values)
        for row, n, directions in zip(held["peaks"].reshape(count, width), held["counts"], expected, strict=True):
            assert np.allclose(sphere.vertices[row[:n]], directions[:most])
    assert np.mean([len(e) for e in expected]) > 1


@pytest.mark.parametrize("angle", [10.0, 30.0])
@pytest.mark.parametrize("threshold", [0.1, 0.7])
@pytest.mark.parametrize("name", CASES)
def test_the_cone_alone_tells_which_samples_count(name, threshold, angle):
    """Bit for bit, though the maximum of the PMF may lie outside the cone and is not looked for unless it matters."""
    prepared, points = case(name, pmf_threshold=threshold, max_angle=angle), points_in(400)
    size = 32 * prepared.getter.ball.vertex_chunks
    begun = np.random.default_rng(2).integers(0, 2 * prepared.scalars["method_sphere_count"], 400)
    values = {"points": points.ravel(), "begun": begun, "size": size, "out": reals(400 * size)}
    samples, expected = (go("numba32", kernel, 400, prepared, **values)["out"] for kernel in (counted, counted_of_all))
    assert expected.any()
    np.testing.assert_array_equal(samples, expected)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("threshold", "angle"), [(0.02, 20.0), (0.1, 20.0), (0.3, 50.0)])
def test_the_same_is_drawn_as_where_all_that_counts_is_known(name, threshold, angle):
    prepared, points = case(name, pmf_threshold=threshold, max_angle=angle), points_in(2000)
    if not isinstance(prepared.getter, PatchedGetter):
        pytest.skip("all samples are read at once")
    begun = np.random.default_rng(3).integers(0, 2 * prepared.scalars["method_sphere_count"], 2000)
    values = {"points": points.ravel(), "begun": begun, "key": KEY, "codes": ints(2000)}
    kernels = (chosen_in_cone, drawn_of_known)
    codes, expected = (go("numba32", kernel, 2000, prepared, **values)["codes"] for kernel in kernels)
    assert len(np.unique(expected)) > 100
    np.testing.assert_array_equal(codes, expected)


@pytest.mark.parametrize("angle", [10.0, 20.0, 30.0])
def test_memory_that_is_shared_has_room_on_a_small_sphere(angle):
    """DIPY's subdivided octahedron has 129 vertices on a hemisphere, whose cones touch few patches or nearly all."""
    small = HemiSphere.from_sphere(create_unit_sphere(recursion_level=4))
    values = np.ones((*SHAPE, len(small.vertices)), np.float32)
    prepared = prepare_prob("pmf", values, np.ones(SHAPE, np.float32), 0.5, np.ones((1, 3)), max_angle=angle,
                            sphere=(small.vertices, small.edges))
    for guest, (host, start) in prepared.getter.shares.items():
        assert start + prepared.scratch[guest][1] <= prepared.scratch[host][1]


def test_where_a_cone_touches_most_patches_all_samples_are_read():
    """Those of coefficients are evaluated in the cone at any angle, and a cone has at most half of a whole sphere."""
    wide = {name: case(name, max_angle=75.0) for name in CASES}
    in_cones = {name for name, prepared in wide.items() if isinstance(prepared.getter, PatchedGetter)}
    assert in_cones == {"sh", "asymmetric"}
    points, headings = points_in(300), headings_in("pmf", 300)
    codes = codes_at("numba32", wide["pmf"], points, headings)
    for code, *place in zip(codes, points, headings, strict=True):
        assert weights("pmf", *place, angle=75.0)[code >> 1] > 0


@pytest.mark.parametrize("name", CASES)
def test_bounds_are_above_what_is_interpolated(name):
    """Also by as much as rounding changes a sample, of which a tenth is used."""
    count = 60
    prepared, points = case(name, max_angle=20.0), points_in(count)
    size, first = 32 * prepared.getter.ball.vertex_chunks, prepared.getter.bounds
    values = {"points": points.ravel(), "size": size, "out": reals(count * size)}
    samples, precise = (
        go(dialect, sampled, count, prepared, **values)["out"].reshape(count, size) for dialect in ("numba32", "python")
    )
    patched = prepared.arrays["method_numbers"][:size]
    highest = np.where(patched >= 0, samples[:, patched], 0).reshape(count, -1, 32).max(axis=2)
    width = 32 * prepared.getter.row.row_chunks
    values |= {"size": width, "out": reals(count * width)}
    rows = go("numba32", whole_row, count, prepared, **values)["out"]
    bounds = rows.reshape(count, width)[:, first : first + highest.shape[1]]
    assert (bounds >= highest).all()
    assert (np.abs(samples - precise).max(axis=1) <= 0.1 * (bounds - highest.clip(0)).min(axis=1)).mean() > 0.9


# -------------------------------------------------------------------------------------------------------- draws
@pytest.mark.parametrize("name", ["sh", "pmf"])
def test_the_law_of_the_draws_is_dipys(name):
    """The weights that the next tests draw by are those that DIPY draws by, number for number."""
    sphere, count = sphere_of(name), 300
    threshold = CASES[name][1].get("pmf_threshold", 0.1)
    getter = ProbabilisticDirectionGetter(dipy_pmf(name), 45.0, sphere, pmf_threshold=threshold)
    random.seed(4)
    shares = [random.random() for _ in range(count)]
    random.seed(4)
    for point, heading, share in zip(points_in(count), headings_in(name, count), shares, strict=True):
        sums = np.cumsum(weights(name, point, heading))
        towards = heading.copy()
        failed = getter.get_direction(point, towards)
        assert failed == (sums[-1] == 0)
        if failed:
            random.random()  # DIPY has drawn none
            continue
        vertex = sphere.vertices[np.searchsorted(sums, share * sums[-1], side="right")]
        assert np.allclose(towards, vertex if vertex @ heading > 0 else -vertex)


def chi_square_p(counts: np.ndarray, probabilities: np.ndarray) -> float:
    """Probability of a worse fit; vertices of neighbouring numbers are counted together until about 12 are expected."""
    expected = counts.sum() * probabilities
    groups = np.floor(np.cumsum(expected) / 12).astype(int)
    sums = np.array([np.bincount(np.minimum(groups, groups.max() - 1), each) for each in (counts, expected)])
    return chisquare(*sums[:, sums[1] > 0]).pvalue


def drawn_at(dialect: str, name: str, point: np.ndarray, heading: np.ndarray, count: int) -> np.ndarray:
    """Codes of many draws at one place."""
    return codes_at(dialect, case(name), np.tile(point, (count, 1)), np.tile(heading, (count, 1)))


def rich_place(name: str) -> tuple[np.ndarray, np.ndarray]:
    """A point and a heading that have much to choose from."""
    places = zip(points_in(40), headings_in(name, 40), strict=True)
    return max(places, key=lambda place: (weights(name, *place) > 0).sum())


COMPILED = ("sh", "asymmetric")  # between them they have each of the kernels' branches
DRAWN = [("python", name, 400) for name in CASES] + [("numba32", name, 20000) for name in COMPILED]


@pytest.mark.parametrize(("dialect", "name", "count"), DRAWN)
def test_draws_follow_the_pmf(dialect, name, count):
    point, heading = rich_place(name)
    codes = drawn_at(dialect, name, point, heading, count)
    expected = weights(name, point, heading)
    counts = np.bincount(codes >> 1, minlength=len(expected))
    assert len(counts) == len(expected)
    assert (expected > 0).sum() > 15
    assert counts[expected == 0].sum() == 0
    assert chi_square_p(counts, expected / expected.sum()) > 1e-3
    towards = sphere_of(name).vertices[codes >> 1] * np.where(codes & 1, -1, 1)[:, None]
    assert (towards @ heading).min() > np.cos(np.radians(45.0)) - 1e-6
    if name == "asymmetric":
        assert not (codes & 1).any()


@pytest.mark.parametrize("dialect", ["python", "numba32"])
def test_what_has_no_probability_is_never_drawn(dialect):
    prepared, rng = case("pmf"), np.random.default_rng(8)
    size = 32 * prepared.getter.ball.vertex_chunks
    shares = np.concatenate([[0.0, 2.0**-24, 1 - 2.0**-24], rng.integers(0, 2**24, 400) / 2**24])
    for kept in (1, 2, 5, 60):
        pmf = np.zeros(size)
        pmf[rng.choice(size, kept, replace=False)] = 10.0 ** rng.uniform(-12, 0, kept)
        pmf = pmf.astype(np.float32).astype(float)
        values = {"pmf": pmf, "size": size, "low": 0.0, "shares": shares, "codes": ints(len(shares))}
        scratch = prepared.scratch
        drawn = run(dialect, placed, len(shares), values, prepared, scratch)["codes"]
        assert (pmf[drawn] > 0).all()
        order = np.arange(size).reshape(-1, 32).T.ravel()  # the lanes' vertices in turn
        ends = np.cumsum(pmf[order])
        rank = np.argsort(order)[drawn]
        slack = 1e-6 * ends[-1]
        assert (ends[rank] >= shares * ends[-1] - slack).all()
        assert (ends[rank] - pmf[drawn] <= shares * ends[-1] + slack).all()
    values |= {"pmf": np.zeros(size)}
    assert (run(dialect, placed, len(shares), values, prepared, prepared.scratch)["codes"] == -1).all()


def test_an_empty_cone_ends_the_streamline():
    vertices = load_sphere("default")[0]
    pmf = np.zeros((*SHAPE, len(vertices)), np.float32)
    pmf[..., 7] = 1
    prepared = prepare_prob("pmf", pmf, np.ones(SHAPE, np.float32), 0.5, np.ones((1, 3)), max_angle=30.0)
    headings = np.concatenate([vertices, -vertices])
    codes = codes_at("python", prepared, np.ones((len(headings), 3)), headings)
    cosines = headings @ vertices[7]
    assert np.array_equal(codes, np.where(np.abs(cosines) < np.cos(np.pi / 6), -1, np.where(cosines > 0, 14, 15)))


def test_precisions_draw_the_same():
    for name in COMPILED:
        double, single = (drawn_at(dialect, name, *rich_place(name), 200) for dialect in ("python", "numba32"))
        assert np.mean(double == single) > 0.99


# --------------------------------------------------------------------------------------------- whole streamlines


def test_streamlines_stay_with_their_fibres():
    seeds = np.tile(CIRCLE_SEEDS, (10, 1))
    streamlines = lines(tracked(fibres(circle()), seeds, pmf_threshold=0.5))
    assert len(streamlines) == 90
    for line in streamlines:
        steps = np.diff(line, axis=0)
        assert np.allclose(np.linalg.norm(steps, axis=1), 0.5, atol=1e-4)
        assert (steps[1:] * steps[:-1]).sum(axis=1).min() > 0.25 * np.cos(np.radians(20.0)) - 1e-4
    radii = [np.linalg.norm(line[:, :2] + 0.5, axis=1) for line in streamlines]
    drift = np.array([(r[0] + r[-1]) / 2 for r in radii]) - np.linalg.norm(seeds[:, :2] + 0.5, axis=1)
    assert 0.05 < np.abs(drift).mean() < 1.5  # they wander, and to no side
    assert abs(drift.mean()) < 0.4
    assert np.median([len(line) for line in streamlines]) > 25


# -------------------------------------------------------------------------------------------------------- tables
@pytest.mark.parametrize(
    ("source", "count", "options", "words"),
    [
        ("sh", 44, {}, "44 coefficients fit no order"),
        ("sh", 1, {}, "no direction"),
        ("pmf", 361, {}, "361 samples per voxel, but the sphere has 362"),
        ("sh", 81, {"basis": "tournier07_full"}, "half a sphere"),
        ("pmf", 362, {"asymmetric": True}, "half a sphere"),
        ("sh", 45, {"pmf_threshold": -0.1}, "pmf.threshold is -0.1"),
        ("sh", 45, {"max_directions": 0}, "max.directions is 0"),
        ("sh", 45, {"det_rule": "best"}, "det.rule is 'best'"),
        ("sh", 45, {"basis": "tournier"}, "the basis is 'tournier'"),
    ],
)
def test_what_does_not_fit_is_an_error(source, count, options, words):
    values, others = np.ones((*SHAPE, count), np.float32), (np.ones(SHAPE, np.float32), 0.5, np.ones((1, 3)))
    with pytest.raises((InputError, ParameterError), match=words):
        prepare_prob(source, values, *others, **options)
    with pytest.raises(InputError, match="on one grid"):
        prepare_prob(source, values[:, :, 1:], *others)


def test_a_full_basis_keeps_both_senses():
    vertices = load_sphere("full")[0]
    values = np.random.default_rng(9).normal(size=(*SHAPE, 25)).astype(np.float32)
    options = {"basis": "descoteaux07_full", "sphere": "full"}
    prepared = prepare_prob("sh", values, np.ones(SHAPE, np.float32), 0.5, np.ones((1, 3)), **options)
    assert prepared.getter.symmetric == 0
    row = prepared.arrays["volume_rows"].reshape(28, -1)[14]
    expected = np.maximum(sampling_matrix(vertices, 4, "descoteaux07_full") @ values[1, 1, 1], 0)
    order = divide_sphere(vertices)[: len(vertices)]
    assert np.allclose(row[: len(vertices)], expected[order], atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_a_team_needs_little_memory(name):
    prepared = case(name, max_angle=30.0)
    size = sum(4 * n for key, (_, n) in prepared.scratch.items() if key not in prepared.getter.shares)
    assert size <= (4700 if name == "asymmetric" else 2560)
    for guest, (host, start) in prepared.getter.shares.items():
        assert start + prepared.scratch[guest][1] <= prepared.scratch[host][1]
