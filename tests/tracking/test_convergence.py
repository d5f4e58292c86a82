"""Shorter steps, better streamlines: errors on circles and helices whose streamlines are known in closed form."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import ptt_lines
import pytest
from dialects import reals, run
from distributions import fibres, lines, tracked, unit
from scipy.linalg import expm
from tables import prepare_det
from transport import framed

from tistreamlines.kernels.getters.probes import binormal_after, onward, tangent_after
from tistreamlines.kernels.lanes import cross, normalised
from tistreamlines.linker.lang import Reals, func, i32, real, vec3
from tistreamlines.tracking.growth.settings import Settings

SHAPE = (24, 24, 13)
RISE = {"circle": 0.0, "helix": np.radians(20.0)}  # angle to the plane
RADIUS = 14.0


def tangents(rise: float) -> np.ndarray:
    """Of helices of one angle about an axis along z at (-0.5, -0.5)."""
    x, y, _ = np.meshgrid(*map(np.arange, SHAPE), indexing="ij")
    around = unit(np.stack([-(y + 0.5), x + 0.5, 0.0 * x], axis=-1))
    return np.cos(rise) * around + [0, 0, np.sin(rise)]


def seeds_at(angles) -> np.ndarray:
    return np.stack([RADIUS * np.cos(angles) - 0.5, RADIUS * np.sin(angles) - 0.5, 6.0 + 0 * angles], axis=1)


# ------------------------------------------------------------------------------------------------- deterministic
def ring(rise: float, count: int = 362) -> tuple[np.ndarray, np.ndarray]:
    """A sphere that has the tangents of the field close together, and no other direction.

    Its vertices and their neighbours are as many as the default sphere's, whose kernels serve.
    """
    angles = (1 + np.arange(count) / (count - 1)) * np.pi / 2  # of the field's quarter of the circle
    around = np.stack([np.cos(angles), np.sin(angles), 0 * angles], axis=1)
    vertices = np.cos(rise) * around + [0, 0, np.sin(rise)]
    joined = [(k, (k + near) % count) for near in (1, 2, 3) for k in range(count)]
    return vertices, np.array(joined + [(k, k + count // 2) for k in range(count // 2)])


def det_errors(rise: float, step: float, length: float) -> np.ndarray:
    """How far the ends of streamlines are from the axis, less the seeds' distance."""
    sphere, steps = ring(rise), int(length / step)
    cosines = np.abs(tangents(rise) @ sphere[0].T)
    lobes = np.exp((cosines - 1) * 100).astype(np.float32)
    batch = tracked(
        lobes, seeds_at(np.linspace(0.6, 0.9, 7)), make=prepare_det, source="pmf", sphere=sphere, max_angle=30.0,
        min_separation_angle=25.0, settings=Settings(step, max_steps=steps),
    )
    assert (batch.lengths == 2 * steps + 1).all()
    ends = np.array([line[[0, -1]] for line in lines(batch)])
    assert np.allclose(np.abs(ends[..., 2] - 6.0), length * np.sin(rise), atol=1e-3)
    return np.linalg.norm(ends[..., :2] + 0.5, axis=-1) - RADIUS


@pytest.mark.parametrize("name", RISE)
def test_deterministic_errors_are_of_the_first_order(name):
    """A step along the tangent lengthens the radius to (r^2 + h^2)^(1/2), h the step in the plane: Euler's method."""
    rise, length = RISE[name], 8.0
    errors = []
    for step in (2.0, 1.0, 0.5):
        got = det_errors(rise, step, length)
        expected = np.sqrt(RADIUS**2 + length * step * np.cos(rise) ** 2) - RADIUS
        assert np.abs(got - expected).max() < 0.03  # directions 0.25 degrees apart, interpolated between voxels
        errors.append(got.mean())
    assert all(1.7 < longer / shorter < 2.3 for longer, shorter in pairwise(errors))


# --------------------------------------------------------------------------------------------- parallel transport
@func
def carried(item: i32, bends: Reals, steps: i32, step: real, out: Reals):
    """Where arcs lead that set out along x, one after the other, of curvatures (k1, k2) by turns in ``bends``."""
    p = vec3(0.0, 0.0, 0.0)
    t = vec3(1.0, 0.0, 0.0)
    n = vec3(0.0, 1.0, 0.0)
    b = vec3(0.0, 0.0, 1.0)
    for i in range(steps):
        k1 = bends[2 * i]
        k2 = bends[2 * i + 1]
        way = onward(step, k1, k2, t, n, b)
        p = vec3(p[0] + way[0], p[1] + way[1], p[2] + way[2])
        ahead = tangent_after(step, k1, k2, t, n, b)
        n = normalised(cross(binormal_after(step, k1, k2, t, n, b), ahead))
        t = ahead
        b = cross(t, n)
    for i in range(3):
        out[3 * item + i] = p[i]


def helix_end(curvature: float, torsion: float, length: float) -> np.ndarray:
    """End of a curve that sets out along x, bends towards y and twists (Frenet and Serret)."""
    w = np.hypot(curvature, torsion)
    around, along = curvature**2 * np.sin(w * length) / w**3, torsion**2 * length / w**2
    side, up = curvature * (1 - np.cos(w * length)) / w**2, length / w - np.sin(w * length) / w**2
    return np.array([around + along, side, curvature * torsion * up / w])


@pytest.mark.parametrize("torsion", [0.0, 0.15], ids=list(RISE))
@pytest.mark.parametrize("dialect", ["python", "numba32"])
def test_arcs_are_of_the_second_order(dialect, torsion):
    """In a frame that is carried in parallel the curvatures of a helix turn with its torsion (Bishop 1975)."""
    curvature, length, errors = 0.2, 12.0, []
    for step in (2.0, 1.0, 0.5):
        middles = (np.arange(length / step) + 0.5) * step * torsion
        bends = curvature * np.stack([np.cos(middles), np.sin(middles)], axis=1)
        values = {"bends": bends, "steps": len(bends), "step": step, "out": reals(3)}
        end = run(dialect, carried, 1, values, {"EXACT_ARCS": 0})["out"]
        errors.append(np.linalg.norm(end - helix_end(curvature, torsion, length)))
    assert errors[-1] < 0.03
    assert all(3.4 < longer / shorter < 4.6 for longer, shorter in pairwise(errors))


@pytest.mark.parametrize("dialect", ["python", "numba32"])
def test_exact_arcs_solve_the_frames_equation(dialect):
    """t' = k1 n + k2 b, n' = -k1 t, b' = -k2 t: the exponential of their matrix, up to more than a whole turn."""
    rng, step = np.random.default_rng(0), 0.5
    bends = rng.normal(size=(60, 2)) * np.geomspace(1e-3, 10, 60)[:, None]
    bends[:3] = (0, 0), (3, 0), (0, -20)
    got = run(dialect, framed, 60, {"bends": bends, "step": step, "out": reals(540)}, {"EXACT_ARCS": 1})["out"]
    for (k1, k2), rows in zip(bends, got.reshape(60, 3, 3), strict=True):
        change = np.zeros((4, 4))
        change[0, 1], change[1, 2:], change[2:, 1] = 1, (k1, k2), (-k1, -k2)  # of the place, t, n, b
        place, tangent, _, binormal = expm(step * change)[:, 1:]
        assert np.allclose(rows, [place, tangent, binormal], atol=2e-6)


@pytest.mark.parametrize("name", RISE)
def test_shorter_steps_of_parallel_transport_stay_closer(name):
    """With the greatest curvature and the probe left as they are, what wandering remains is the steps' own."""
    rise, length, bend = RISE[name], 5.0, 1.0
    means, spreads = [], []
    for step in (1.0, 0.5, 0.25):
        angle = np.degrees(2 * np.arcsin(bend * step / 2))
        batch, _ = ptt_lines.tracked(
            fibres(tangents(rise)), seeds_at(np.full(400, np.pi / 4)), pmf_threshold=0.2, max_angle=angle, step_mm=step,
            settings=Settings(step, max_steps=int(length / step)),
        )
        ends = np.concatenate([line[[0, -1]] for line in lines(batch)])
        away = np.linalg.norm(ends[:, :2] + 0.5, axis=1) - RADIUS
        means.append(away.mean())
        spreads.append(away.std())
    assert all(1.6 < longer / shorter < 2.4 for longer, shorter in pairwise(spreads))
    assert abs(means[1] - means[2]) < abs(means[0] - means[2])
    assert abs(means[2]) < 0.2
