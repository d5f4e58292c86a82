"""Candidates of parallel transport, and their data support: the sum of the PMF along a probe, a short arc.

Each lane has a candidate of its own or, where PARTS is 2, lanes l and l + 16 have one, and evaluate half of its probe each.
"""

from __future__ import annotations

from ...linker.lang import *
from ...linker.maths import exp, log, reciprocal_root
from ...linker.rng import philox, uniform
from ..interpolate import Volume
from ..lanes import Cells, azimuth, cross, either, normalised
from ..orientation.pmf import Pmf
from .arcs import binormal_after, onward, settled, tangent_after

amplitude = Hole("amplitude of the orientation function at each lane's point, in its direction")
SEGMENTS = Constant("segments of a probe, one less than its quality")
PARTS = Constant("lanes that evaluate one probe, each a part of its segments: 1 or 2")
PROBES = Constant("number of parallel lines of a probe")
POWERED = Constant("1: the data support is raised to a power")
PAPER = Constant("1: where DIPY and the paper differ, follow the paper")
STRICT = Constant("1: a candidate without data support is never accepted, and values at the seed have the threshold too")

FRAMES = 1 << 16  # of a counter: the random vector of a half's first frame


class Ptt(Pmf):
    """Tables of the method.

    cells : see ``lanes.nearest_vertex``; ring : cosines and sines that place a probe's lines about its axis, times its
    radius.  max_curvature : 1/mm; step, segment : mm; x, y, z : voxels a mm; probe_x, ... : the same for probes;
    share : one over the number of a probe's look-ups; power : of the data support; slack : 2**power.
    """

    cells: Cells
    ring: Reals
    max_curvature: real
    step: real
    segment: real
    x: real
    y: real
    z: real
    probe_x: real
    probe_y: real
    probe_z: real
    share: real
    power: real
    slack: real

    @staticmethod
    def sizes(getter):
        return {"ring": 2 * getter.probes}


# ------------------------------------------------------------------------------------------------- a candidate
@func
def candidate(method: Ptt, c0: u32, c1: u32, c2: u32, number: u32, key: Ints) -> vec3:
    """Curvatures (k1, k2) and the random number to accept them by.

    The curvatures are uniform in the disc up to the greatest one, but ``settled`` replaces small ones.
    """
    w = philox(c0, c1, c2, number, u32(key[0]), u32(key[1]))
    u = uniform(w[0])
    radius = method.max_curvature * (u * reciprocal_root(u))
    a = azimuth(w[1])
    k1 = radius * a[0]
    k2 = radius * a[1]
    return vec3(settled(k1, k2), settled(k2, k1), uniform(w[2]))


@func
def sideways(t: vec3, c0: u32, c1: u32, c2: u32, number: u32, key: Ints) -> vec3:
    """A random unit vector perpendicular to ``t`` (DIPY's ``random_perpendicular_vector``)."""
    w = philox(c0, c1, c2, number | u32(FRAMES), u32(key[0]), u32(key[1]))
    r = vec3(2.0 * uniform(w[0]) - 1.0, 2.0 * uniform(w[1]) - 1.0, 2.0 * uniform(w[2]) - 1.0)
    return normalised(cross(t, r))


# ------------------------------------------------------------------------------------------------ data support
@func
def heard(method: Ptt, volume: Volume, p: vec3, t: vec3, n: vec3, b: vec3, low: real) -> real:
    """The PMF in direction ``t`` at the end of each lane's probe, summed over its lines; 0 if not above ``low``."""
    total = lanes(0.0)
    if PROBES == 1:
        value = amplitude(method, volume, p, t)
        total = where(value > low, value, 0.0)
    else:
        for i in range(PROBES):
            c = method.ring[2 * i]
            s = method.ring[2 * i + 1]
            x = p[0] + method.x * (c * n[0] + s * b[0])
            y = p[1] + method.y * (c * n[1] + s * b[1])
            z = p[2] + method.z * (c * n[2] + s * b[2])
            value = amplitude(method, volume, vec3(x, y, z), t)
            total = total + where(value > low, value, 0.0)
    return total


@func
def powered(x: real, power: real) -> real:
    """``x**power`` for x of 0 or more."""
    return where(x > 1.0e-30, exp(maximum(power * log(maximum(x, 1.0e-30)), -87.0)), 0.0)


@stage
def lengthen(method: Ptt, p: vec3, t: vec3, n: vec3, b: vec3, k1: real, k2: real):
    """Add a segment to each lane's probe: ``p`` moves to its end, and the frame turns.

    As in DIPY, only the tangent of the frame is normalised again.
    """
    d = onward(method.segment, k1, k2, t, n, b)
    p = vec3(p[0] + method.probe_x * d[0], p[1] + method.probe_y * d[1], p[2] + method.probe_z * d[2])
    ahead = tangent_after(method.segment, k1, k2, t, n, b)
    b = binormal_after(method.segment, k1, k2, t, n, b)
    n = cross(b, ahead)
    t = ahead


@func
def data_support(
    method: Ptt, volume: Volume, p: vec3, t: vec3, n: vec3, b: vec3, bends: vec3, last: real, ends: Reals
) -> vec3:
    """Data support of each lane's probe, and the PMF at its end (DIPY's ``calculate_data_support``).

    ``bends`` are what :func:`candidate` returns, and ``last`` the PMF at the begin.
    Where two lanes share a probe, both know the result.  ``ends`` is team memory for the values that each has read, since
    all are added in the order of the segments.
    """
    total = last
    end = lanes(0.0)
    if PARTS == 1:
        for _ in range(SEGMENTS):
            lengthen(method, p, t, n, b, bends[0], bends[1])
            end = heard(method, volume, p, t, n, b, method.threshold)
            total = total + end
    else:
        second = lane() >> 4
        there = p
        tangent = t
        normal = n
        binormal = b
        for _ in range(SEGMENTS // 2):
            lengthen(method, there, tangent, normal, binormal, bends[0], bends[1])
        p = either(second, there, p)
        t = either(second, tangent, t)
        n = either(second, normal, n)
        b = either(second, binormal, b)
        barrier()
        for k in range(SEGMENTS - SEGMENTS // 2):
            lengthen(method, p, t, n, b, bends[0], bends[1])
            put(ends, 32 * k, heard(method, volume, p, t, n, b, method.threshold))
        barrier()
        first = lane() & 15
        for k in range(SEGMENTS // 2):
            total = total + take(ends, first + 32 * k)
        for k in range(SEGMENTS - SEGMENTS // 2):
            end = take(ends, first + (32 * k + 16))
            total = total + end
    total = total * method.share
    if POWERED:
        total = powered(total, method.power)
    return vec3(total, end, end)


@func
def bound_of(method: Ptt, greatest: real) -> real:
    """Bound of the rejection sampling: twice the maximum support; DIPY raises it to the exponent a second time."""
    bound = 2.0 * greatest
    if POWERED:
        if PAPER:
            bound = method.slack * greatest
        else:
            bound = powered(bound, method.power)
    return bound


@func
def accepted(share: real, bound: real, support: real) -> i32:
    """1 in the lanes whose candidate is accepted; DIPY's getter accepts any candidate if none has support."""
    if STRICT:
        taken = where(share * bound < support, 1, 0)
    else:
        taken = where(share * bound <= support, 1, 0)
    return taken
