"""Candidates of parallel transport, and their data support: the sum of the PMF along a probe, a short arc.

Each lane evaluates one candidate. Where PARTS is 2, lanes l and l + 16 share a candidate and evaluate half of its probe
each: most steps need no more than 16 candidates. The second lane first moves its frame along the first half, and their
values are added in the order of the segments. Curvatures are drawn from a disc by radius and angle, so every draw is
valid and no lane idles.
"""

from ...linker.lang import *
from ...linker.maths import exp, floored, log, quarter_turn, reciprocal_root
from ...linker.rng import philox, uniform
from ..interpolate import Volume
from ..lanes import Cells, azimuth, cross, either, normalised
from ..orientation.pmf import Pmf

# Arcs of constant curvatures (k1, k2) that carry a frame: the propagator of Aydogan and Shi 2021.
#
# Its rows say how far the arc leads, and where the tangent and the binormal point at its end (DIPY's
# ``prepare_propagator``, which is of second order). All work on lane values, each lane its own arc, and on uniform
# ones.
EXACT_ARCS = Constant("1: arcs are exact, 0: of second order as in DIPY, which leads farther the more an arc bends")
SMALL = 1.0e-4  # curvature, 1/mm, that counts as none


@func
def effective_curvature(k: real, other: real) -> real:
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

    The curvatures are uniform in the disc up to the greatest one, but ``effective_curvature`` replaces small ones.
    """
    w = philox(c0, c1, c2, number, u32(key[0]), u32(key[1]))
    u = uniform(w[0])
    radius = method.max_curvature * (u * reciprocal_root(u))
    a = azimuth(w[1])
    k1 = radius * a[0]
    k2 = radius * a[1]
    return vec3(effective_curvature(k1, k2), effective_curvature(k2, k1), uniform(w[2]))


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
def power_of(x: real, power: real) -> real:
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
        total = power_of(total, method.power)
    return vec3(total, end, end)


@func
def bound_of(method: Ptt, greatest: real) -> real:
    """Bound of the rejection sampling: twice the maximum support; DIPY raises it to the exponent a second time."""
    bound = 2.0 * greatest
    if POWERED:
        if PAPER:
            bound = method.slack * greatest
        else:
            bound = power_of(bound, method.power)
    return bound


@func
def is_accepted(share: real, bound: real, support: real) -> i32:
    """1 in the lanes whose candidate is accepted; DIPY's getter accepts any candidate if none has support."""
    if STRICT:
        taken = where(share * bound < support, 1, 0)
    else:
        taken = where(share * bound <= support, 1, 0)
    return taken
