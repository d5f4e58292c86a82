"""The parts of parallel transport tractography: against DIPY's formulas in float64 and the law of its draws."""

from __future__ import annotations

import numpy as np
import pytest
from dialects import ints, reals, run
from distributions import unit
from linked import Linked
from scipy.stats import ks_2samp, kstest
from tables import prepare_ptt
from transport import CASES, KEY, RULES, SIZES, Emulation, case, field, frames, go

from tistreamlines.errors import ParameterError
from tistreamlines.kernels.getters.ptt import (
    Frame,
    Ptt,
    PttScratch,
    candidate,
    choose_try,
    data_support,
    heard,
    move_by_try,
)
from tistreamlines.kernels.halves import Position, Run
from tistreamlines.kernels.interpolate import STOP_CHANNEL, Volume, interpolate_row
from tistreamlines.kernels.lanes import Cells, interpolate_stop, nearest_vertex
from tistreamlines.linker.lang import Ints, Reals, at, barrier, func, i32, lane, lanes, put, real, u32, vec3
from tistreamlines.linker.records import spread
from tistreamlines.space.sphere import cell_table, load_sphere, sphere_tables

pytestmark = pytest.mark.filterwarnings("ignore:The legacy:PendingDeprecationWarning")


# ------------------------------------------------------------------------------------------------------ kernels
@func
def closest(item: i32, vertices: Reals, cells: Cells, directions: Reals, out: Reals):
    """Nearest vertices of 32 directions."""
    c = 96 * item
    d = vec3(at(directions, c), at(directions, c + 32), at(directions, c + 64))
    put(out, 32 * item, real(nearest_vertex(vertices, cells, d)))


@func
def supported(item: i32, volume: Volume, method: Ptt, scratch: PttScratch, places: Reals, out: Reals):
    """Data support of the lanes' probes, the PMF at their end, and that at their beginning."""
    c = 448 * item
    p = vec3(at(places, c), at(places, c + 32), at(places, c + 64))
    t = vec3(at(places, c + 96), at(places, c + 128), at(places, c + 160))
    n = vec3(at(places, c + 192), at(places, c + 224), at(places, c + 256))
    b = vec3(at(places, c + 288), at(places, c + 320), at(places, c + 352))
    first = heard(method, volume, p, t, n, b, 0.0)
    bends = vec3(at(places, c + 384), at(places, c + 416), lanes(0.0))
    support = data_support(method, volume, p, t, n, b, bends, first, scratch.pmf)
    put(out, 96 * item, support[0])
    put(out, 96 * item + 32, support[1])
    put(out, 96 * item + 64, first)


@func
def drawn(item: i32, method: Ptt, key: Ints, out: Reals):
    """Curvatures of 32 candidates."""
    d = candidate(method, lanes(u32(item)), lanes(u32(1)), lanes(u32(2)), u32(lane()), key)
    put(out, 96 * item, d[0])
    put(out, 96 * item + 32, d[1])
    put(out, 96 * item + 64, d[2])


@func
def stepping(item: i32, run: Run, start: Reals, step: i32, out: Reals, codes: Ints):
    """Choose a step from the state in ``start``, and take it; where to, and the new tangent."""
    for i in range(10):
        run.scratch.carried[i] = start[3 + i]
    barrier()
    p = vec3(start[0], start[1], start[2])
    state = Frame()
    code = choose_try(Position(p, 0, state, 0, u32(item), u32(step), u32(0)), run)
    codes[item] = code
    if code >= 0:
        p = move_by_try(Position(p, code, state, 0, u32(item), u32(step), u32(0)), run)
    for i in range(3):
        out[6 * item + 3 + i] = run.scratch.carried[i]
    out[6 * item] = p[0]
    out[6 * item + 1] = p[1]
    out[6 * item + 2] = p[2]


@func
def stops(item: i32, volume: Volume, scratch: PttScratch, points: Reals, out: Reals):
    """The stop map at a point, read alone and read with the row."""
    p = vec3(points[3 * item], points[3 * item + 1], points[3 * item + 2])
    interpolate_stop(volume, p, scratch.row)
    barrier()
    out[2 * item] = scratch.row[STOP_CHANNEL]
    barrier()
    interpolate_row(volume, p, scratch.row)
    barrier()
    out[2 * item + 1] = scratch.row[STOP_CHANNEL]


# ------------------------------------------------------------------------------------------------------- parts
@pytest.mark.parametrize(("name", "symmetric"), [("default", 1), ("small", 1), ("full", 1), ("full", 0)])
def test_the_nearest_vertex_is_dipys(name, symmetric):
    vertices, edges = load_sphere(name)
    ball, sphere = sphere_tables(vertices, edges)
    cells, cell_sizes = cell_table(vertices, bool(symmetric))
    count = 1000
    directions = unit(np.random.default_rng(0).normal(size=(32 * count, 3))).astype(np.float32).astype(float)
    values = {"vertices": sphere.vertices, **spread("cells", cells), "out": reals(32 * count)}
    values["directions"] = directions.reshape(-1, 32, 3).transpose(0, 2, 1)
    got = run("numba32", closest, count, values, [ball, cell_sizes, Linked(symmetric=symmetric)])["out"]
    cosines = directions @ vertices.T
    expected = (np.abs(cosines) if symmetric else cosines).argmax(axis=1)
    if name == "full" and symmetric:  # an axis has two vertices there, and rounding alone tells them apart
        assert np.abs(vertices[got.astype(int)] * vertices[expected]).sum(axis=1).min() > 1 - 1e-12
    else:
        assert np.array_equal(got, expected)


def test_curvatures_fill_their_disc():
    greatest = case("plain")[1].curvature
    got = go("numba32", drawn, 2000, "plain", key=KEY, out=reals(96 * 2000))["out"].reshape(-1, 3, 32).astype(float)
    k1, k2, share = (got[:, i].ravel() / (greatest, greatest, 1)[i] for i in range(3))
    assert np.hypot(k1, k2).max() <= 1
    assert kstest(k1**2 + k2**2, "uniform").pvalue > 1e-3
    assert kstest(np.arctan2(k2, k1) / (2 * np.pi) + 0.5, "uniform").pvalue > 1e-3
    assert kstest(share, "uniform").pvalue > 1e-3
    assert np.abs(np.corrcoef([k1, k2, share]) - np.eye(3)).max() < 0.02
    assert np.isclose(greatest, 2 * np.sin(np.radians(10)) / (0.5 / np.mean(SIZES)))


@pytest.mark.parametrize(("dialect", "name"), [*(("python", name) for name in CASES), ("numba32", "paper tube")])
def test_data_support_is_dipys(dialect, name):
    emulation, rng, count = Emulation(case(name)[1]), np.random.default_rng(3), 32
    points, around = rng.uniform(-0.5, 5.4, (count, 3)), frames(count, 4)
    curvatures = rng.uniform(-0.9, 0.9, (count, 2))
    curvatures[:3] = (0, 0), (5e-5, 0.3), (-0.2, -5e-5)
    size = np.abs(curvatures)
    settled = np.where(size < 1e-4, np.where(size.max(axis=1, keepdims=True) < 1e-4, 0, 1e-4), curvatures)
    places = np.concatenate([points, around.reshape(count, 9), settled], axis=1).reshape(-1, 16, 14).transpose(0, 2, 1)
    places = np.concatenate([places, places], axis=2)  # as where two lanes share a probe
    out = go(dialect, supported, len(places), name, places=places, out=reals(6 * count))["out"].reshape(-1, 3, 2, 16)
    assert np.array_equal(out[:, :, 0], out[:, :, 1])
    for i in range(count):
        first = emulation.heard(points[i], *around[i], 0.0)
        expected = (*emulation.support(points[i], around[i], *curvatures[i], first), first)
        assert np.allclose(out[i // 16, :, 0, i % 16], expected, rtol=1e-5, atol=1e-5)
    assert (out > 0).mean() > 0.5


def test_the_stop_map_is_read_as_with_the_row():
    points = np.random.default_rng(5).uniform(-0.5, 5.4, (100, 3)).astype(np.float32).astype(float)
    got = go("numba32", stops, 100, "plain", points=points, out=reals(200))["out"].reshape(100, 2)
    assert np.array_equal(got[:, 0], got[:, 1])


@pytest.mark.parametrize("step", [1, 2])
def test_steps_follow_dipys_law(step):
    """The first step brings its frame, the others have one: where they lead, and how the tangent turns."""
    count, probe = 400, case("plain")[1]
    emulation, rng, p = Emulation(probe), np.random.default_rng(6), np.array([2.6, 2.3, 2.7])
    frame = frames(1, 7)[0].astype(np.float32).astype(float)
    last = emulation.heard(p, *frame, 0.0)

    def candidate():
        if step > 1:
            return frame
        b = unit(np.cross(frame[0], unit(rng.uniform(-1, 1, 3))))
        return np.array([frame[0], np.cross(b, frame[0]), b])

    expected = []
    for _ in range(count):
        axes, k1, k2 = emulation.accepted(rng, p, candidate, last)
        way, t, _ = emulation.propagator(probe.step_mm, k1, k2) @ axes
        expected.append([*(p + way / SIZES), *unit(t)])
    start = np.concatenate([p, frame.ravel(), [last]])
    values = {"start": start, "step": step, "out": reals(6 * 8000), "codes": ints(8000)}
    held = go("numba32", stepping, 8000, "plain", **values)
    assert held["codes"].min() >= 10
    assert held["codes"].max() < 110
    got = held["out"].reshape(-1, 6)
    # along each axis, and in two more directions, since marginals alone do not tell a turned distribution
    for axis in (*np.eye(6), [1, 1, 0, 0, 0, 0], [0, 0, 0, 0, 1, -1]):
        assert ks_2samp(got @ axis, np.array(expected) @ axis).pvalue > 1e-3
    assert np.allclose(np.linalg.norm(got[:, 3:], axis=1), 1, atol=1e-6)


def test_where_nothing_supports_a_probe_dipys_getter_goes_on_and_the_others_end():
    vertices = load_sphere("default")[0]
    values = np.zeros((6, 6, 6, len(vertices)), np.float32)
    values[2, 2, 2, 5] = 1.0
    stop_map, seed = np.ones((6, 6, 6), np.float32), np.array([[2.0, 2.0, 2.0]])
    for rule, kept in (("dipy", True), ("tracker", False), ("paper", False)):
        tables = prepare_ptt("pmf", values, stop_map, 0.5, seed, max_directions=1, probe_rule=rule, pmf_threshold=1.0)
        start = np.concatenate([seed[0], frames(1, 7)[0].ravel(), [0.0]])
        more = RULES | {"start": start, "step": 2, "out": reals(60), "codes": ints(10)}
        codes = run("python", stepping, 10, tables.arrays | tables.scalars | more, tables, tables.scratch)["codes"]
        assert np.array_equal(codes, np.full(10, 10 if kept else -1))


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("probe_quality", 1), ("probe_count", 0), ("probe_radius", -1), ("probe_length", 0), ("max_angle", 0),
        ("max_angle", 91), ("data_support_exponent", 0), ("probe_rule", "mrtrix"),
    ],
)
def test_options_out_of_bounds_are_refused(option, value):
    with pytest.raises(ParameterError, match=option):
        prepare_ptt("sh", field(), np.ones((6, 6, 6), np.float32), 0.5, np.ones((1, 3)), **{option: value})


def test_an_asymmetric_function_needs_opposites():
    vertices, edges = load_sphere("full")
    sphere = (vertices[1:], edges[(edges > 0).all(axis=1)] - 1)
    with pytest.raises(ParameterError, match="1 of the sphere's 723 vertices have no opposite"):
        prepare_ptt("sh", field(), np.ones((6, 6, 6), np.float32), 0.5, np.ones((1, 3)), sphere=sphere, asymmetric=True)
