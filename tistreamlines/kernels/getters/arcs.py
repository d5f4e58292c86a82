"""Arcs of constant curvatures (k1, k2) that carry a frame: the propagator of Aydogan and Shi 2021.

Its rows say how far the arc leads, and where the tangent and the binormal point at its end (DIPY's
``prepare_propagator``, which is of second order).  All work on lane values, each lane its own arc, and on uniform ones.
"""

from __future__ import annotations

from ...linker.lang import *
from ...linker.maths import floored, quarter_turn, reciprocal_root
from ..lanes import normalised

EXACT_ARCS = Constant("1: arcs are exact, 0: of second order as in DIPY, which leads farther the more an arc bends")
SMALL = 1.0e-4  # curvature, 1/mm, that counts as none


@func
def settled(k: real, other: real) -> real:
    """A curvature as the propagator takes it: a small one is none, or, beside one that is not, SMALL."""
    size = absolute(k)
    return where(size < SMALL, where(absolute(other) < SMALL, 0.0, SMALL), k)


@func
def bend(s: real, k1: real, k2: real) -> vec3:
    """Sine and versed sine (1 - cosine) of the angle that an arc turns by, and its radius; a straight one's are 0.

    They come from half the angle, which loses nothing where that is small.
    """
    square = k1 * k1 + k2 * k2
    radius = where(square > 0.0, reciprocal_root(square), 0.0)
    turns = 0.31830988618379067 * (s * (square * radius))
    nearest = floored(turns + 0.5)
    a = quarter_turn(turns - nearest)
    half = 0.5 * nearest
    odd = floored(half) < half
    # a half turn more or less changes the sign of both, and so neither of their products
    cosine = where(odd, 0.0 - a[1], a[0])
    sine = where(odd, a[0], a[1])
    return vec3((2.0 * sine) * cosine, (2.0 * sine) * sine, radius)


@func
def blend(p: real, q: real, r: real, t: vec3, n: vec3, b: vec3) -> vec3:
    """``p t + q n + r b``."""
    return vec3((p * t[0] + q * n[0]) + r * b[0], (p * t[1] + q * n[1]) + r * b[1], (p * t[2] + q * n[2]) + r * b[2])


@func
def onward(s: real, k1: real, k2: real, t: vec3, n: vec3, b: vec3) -> vec3:
    """How far an arc of length ``s`` leads, mm: row 1 of the propagator."""
    if EXACT_ARCS:
        e = bend(s, k1, k2)
        p = where(e[2] > 0.0, e[0] * e[2], s)
        h = (e[1] * e[2]) * e[2]
    else:
        p = s
        h = (0.5 * s) * s
    return blend(p, k1 * h, k2 * h, t, n, b)


@func
def tangent_after(s: real, k1: real, k2: real, t: vec3, n: vec3, b: vec3) -> vec3:
    """The tangent at the end of an arc: row 2 of the propagator, normalised."""
    if EXACT_ARCS:
        e = bend(s, k1, k2)
        p = 1.0 - e[1]
        h = e[0] * e[2]
        ahead = blend(p, k1 * h, k2 * h, t, n, b)
    else:
        h = (0.5 * s) * s
        p = (1.0 - (k2 * k2) * h) - (k1 * k1) * h
        ahead = blend(p, k1 * s, k2 * s, t, n, b)
    return normalised(ahead)


@func
def binormal_after(s: real, k1: real, k2: real, t: vec3, n: vec3, b: vec3) -> vec3:
    """The binormal at the end of an arc: row 3 of the propagator, as it comes."""
    if EXACT_ARCS:
        e = bend(s, k1, k2)
        p = e[0] * e[2]
        h = (e[1] * e[2]) * e[2]
    else:
        p = s
        h = (0.5 * s) * s
    return blend(0.0 - k2 * p, 0.0 - (k1 * k2) * h, 1.0 - (k2 * k2) * h, t, n, b)
