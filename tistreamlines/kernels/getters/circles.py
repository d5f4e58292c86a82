"""Arcs of circles, in parts of one length: how far a part leads, and the direction at its end."""

from __future__ import annotations

from ...linker.lang import *
from ...linker.maths import quarter_turn, reciprocal_root
from ..halves import ARC
from .fod import root

QUARTER = 0.6366197723675814  # quarter turns in a radian


@func
def arc_sine(x: real) -> real:
    """Angle whose sine is ``x``, for 0 to 1/2 (the minimax polynomial of Cephes' ``asinf``, Moshier 1989)."""
    z = x * x
    y = 4.2163199048e-2 * z + 2.4181311049e-2
    y = y * z + 4.5470025998e-2
    y = y * z + 7.4953002686e-2
    y = y * z + 1.6666752422e-1
    return (y * z) * x + x


@func
def half_part(half_sine: real) -> vec3:
    """Cosine and sine of half the angle by which a part of an arc turns, and its chord, as a share of its length.

    ``half_sine`` is the sine of half the angle of the whole arc, at most sqrt(1/2); a quarter's is at most 0.39.
    """
    squared = half_sine * half_sine
    cosine = root(1.0 - squared)
    fourth = half_sine * reciprocal_root(2.0 * (1.0 + cosine))
    x = arc_sine(fourth) * (2.0 / real(ARC))
    t = quarter_turn(x * QUARTER)
    z = x * x
    chord = z * (z * (1.0 / 120.0 - z * (1.0 / 5040.0)) - 1.0 / 6.0) + 1.0
    return vec3(t[0], t[1], chord)


@func
def onward(cosine: real, sine: real, turn: vec3) -> vec3:
    """Cosine and sine of an angle, half a part of the arc farther."""
    return vec3(cosine * turn[0] - sine * turn[1], sine * turn[0] + cosine * turn[1], 0.0)


@func
def mixed(cosine: real, d: vec3, sine: real, s: vec3) -> vec3:
    """The direction at an angle from ``d`` towards ``s``."""
    return vec3(cosine * d[0] + sine * s[0], cosine * d[1] + sine * s[1], cosine * d[2] + sine * s[2])
