"""Kernels that call the parts of iFOD1 and iFOD2, and FODs of known fibres."""

from __future__ import annotations

import numpy as np
from distributions import unit

from tistreamlines.kernels.getters.fod import Fod, across, amplitude, move_on_course, sideways
from tistreamlines.kernels.getters.ifod2 import (
    ARC,
    Arc,
    ArcScratch,
    arc_of_lane,
    draw_turn,
    half_part,
    heading_of,
    likelihood,
    move_along_arc,
)
from tistreamlines.kernels.getters.shared import Heading
from tistreamlines.kernels.halves import Position, Rules, Run, Stopping
from tistreamlines.kernels.interpolate import Volume
from tistreamlines.kernels.lanes import everywhere
from tistreamlines.linker.lang import Reals, at, func, i32, lanes, put, u32, vec3
from tistreamlines.linker.rng import philox
from tistreamlines.space.harmonics import sampling_matrix

SHAPE = (24, 24, 7)


@func
def amplitudes(item: i32, volume: Volume, centres: Reals, points: Reals, directions: Reals, out: Reals):
    """The FOD at 32 points near a centre, each in a direction of its own."""
    c = 96 * item
    centre = vec3(centres[3 * item], centres[3 * item + 1], centres[3 * item + 2])
    p = vec3(at(points, c), at(points, c + 32), at(points, c + 64))
    d = vec3(at(directions, c), at(directions, c + 32), at(directions, c + 64))
    put(out, 32 * item, amplitude(volume, centre, p, d))


@func
def likelihoods(
    item: i32, volume: Volume, method: Fod, stopping: Stopping, scratch: ArcScratch, rules: Rules, centres: Reals,
    directions: Reals, out: Reals,
):
    """In each lane: likelihood, half sine, cosine and sine of its random arc; the vector from which azimuths count."""
    centre = vec3(centres[3 * item], centres[3 * item + 1], centres[3 * item + 2])
    d = vec3(directions[3 * item], directions[3 * item + 1], directions[3 * item + 2])
    u = across(d)
    w = philox(lanes(u32(item)), lanes(u32(1)), lanes(u32(0)), u32(arc_of_lane()), u32(rules.key[0]), u32(rules.key[1]))
    arc = draw_turn(method, w)
    s = sideways(everywhere(d), everywhere(u), arc[1], arc[2])
    likely = likelihood(method, volume, stopping, scratch, centre, everywhere(d), s, half_part(arc[0]), rules)
    put(out, 224 * item, likely)
    for i in range(3):
        put(out, 224 * item + 32 + 32 * i, arc[i])
        put(out, 224 * item + 128 + 32 * i, lanes(u[i]))


@func
def arcs(item: i32, run: Run, directions: Reals, out: Reals):
    """The points of an arc from the origin, and the directions at them."""
    state = Arc()
    state.d = vec3(directions[3 * item], directions[3 * item + 1], directions[3 * item + 2])
    p = vec3(0.0, 0.0, 0.0)
    for part in range(ARC):
        p = move_along_arc(Position(p, item, state, 0, u32(7), u32(part + 1), u32(0)), run)
        d = heading_of(state)
        for i in range(3):
            out[(item * ARC + part) * 6 + i] = p[i]
            out[(item * ARC + part) * 6 + 3 + i] = d[i]


@func
def courses(item: i32, run: Run, directions: Reals, out: Reals):
    """A step from the origin."""
    state = Heading()
    state.d = vec3(directions[3 * item], directions[3 * item + 1], directions[3 * item + 2])
    p = move_on_course(Position(vec3(0.0, 0.0, 0.0), item, state, 0, u32(7), u32(1), u32(0)), run)
    for i in range(3):
        out[3 * item + i] = p[i]


def lobes(directions: np.ndarray, order: int = 8) -> np.ndarray:
    """Coefficients (tournier07) of fibres along unit vectors (..., 3), with a greatest amplitude of 1."""
    flat = sampling_matrix(directions.reshape(-1, 3), order, "tournier07")
    return (flat / (flat**2).sum(axis=1, keepdims=True)).reshape(*directions.shape[:-1], -1)


def crossing(order: int = 8) -> np.ndarray:
    """FODs (x, y, z, coefficients) of a bundle that bends by a quarter circle, crossed by a straight one."""
    x, y, _ = np.indices(SHAPE)
    radius = np.hypot(x + 0.5, y + 0.5)
    bent = lobes(unit(np.stack([-(y + 0.5), x + 0.5, 0 * radius], axis=-1)), order)
    straight = lobes(np.broadcast_to(unit(np.array([1.0, 0.2, 0.05])), (*SHAPE, 3)), order)
    inside = (radius > 9) & (radius < 18), np.abs(y - 9 - 0.2 * x) < 3
    fod = 0.8 * bent * inside[0][..., None] + 0.6 * straight * inside[1][..., None]
    fod[:, :, [0, -1]] = 0
    return fod.astype(np.float32)
