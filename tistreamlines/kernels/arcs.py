"""Arcs of constant curvatures (k1, k2) that carry a frame: the propagator of Aydogan and Shi 2021, to second order.

Its rows say how far the arc leads, and where the tangent and the binormal point at its end (DIPY's
``prepare_propagator``).  All work on lane values, each lane its own arc, and on uniform ones.
"""

from __future__ import annotations

from .lang import absolute, real, twin, vec3, where
from .probe import normalised

SMALL = 1.0e-4  # curvature, 1/mm, that counts as none


@twin
def settled(k: real, other: real) -> real:
    """A curvature as the propagator takes it: a small one is none, or, beside one that is not, SMALL."""
    size = absolute(k)
    return where(size < SMALL, where(absolute(other) < SMALL, 0.0, SMALL), k)


@twin
def onward(s: real, k1: real, k2: real, t: vec3, n: vec3, b: vec3) -> vec3:
    """How far an arc of length ``s`` leads, mm: row 1 of the propagator."""
    h = (0.5 * s) * s
    p = k1 * h
    q = k2 * h
    return vec3(
        (s * t[0] + p * n[0]) + q * b[0], (s * t[1] + p * n[1]) + q * b[1], (s * t[2] + p * n[2]) + q * b[2]
    )


@twin
def tangent_after(s: real, k1: real, k2: real, t: vec3, n: vec3, b: vec3) -> vec3:
    """The tangent at the end of an arc: row 2 of the propagator, normalised."""
    h = (0.5 * s) * s
    p = (1.0 - (k2 * k2) * h) - (k1 * k1) * h
    q = k1 * s
    r = k2 * s
    return normalised(
        vec3((p * t[0] + q * n[0]) + r * b[0], (p * t[1] + q * n[1]) + r * b[1], (p * t[2] + q * n[2]) + r * b[2])
    )


@twin
def binormal_after(s: real, k1: real, k2: real, t: vec3, n: vec3, b: vec3) -> vec3:
    """The binormal at the end of an arc: row 3 of the propagator, as it comes."""
    h = (0.5 * s) * s
    p = 0.0 - k2 * s
    q = 0.0 - (k1 * k2) * h
    r = 1.0 - (k2 * k2) * h
    return vec3((p * t[0] + q * n[0]) + r * b[0], (p * t[1] + q * n[1]) + r * b[1], (p * t[2] + q * n[2]) + r * b[2])
