"""The distribution of directions at a point (PMF), sampled on the sphere, and its peaks: for prob and det.

What a voxel's row holds is known to ``amplitudes`` alone: the samples (DIPY's ``SimplePmfGen``), or
coefficients, which are evaluated at the sphere's vertices in each step (``SHCoeffPmfGen``).  Samples below a fraction of the
maximum, and negative ones, count as 0 (DIPY's ``prepare_pmf``).
"""

from ...linker.lang import *
from ..halves import Method, Scratch
from ..interpolate import Volume
from ..lanes import interpolated, nearest_vertex
from .peaks import *

amplitudes = Hole("the orientation function at a point, which is in the team memory, at 32 of the sphere's vertices")


class Pmf(Record):
    """Tables of the method.

    threshold : samples below this fraction of the maximum count as 0.
    """

    sphere: Sphere
    rule: PeakRule
    threshold: real


class PmfScratch(Record):
    """Team memory: the row at a point, samples of the PMF, which may overwrite the row, and peaks."""

    row: Reals
    pmf: Reals
    peaks: PeakScratch

    @staticmethod
    def sizes(getter):
        return {"row": 32 * getter.row.row_chunks, "pmf": 32 * getter.ball.vertex_chunks}


@func
def sample(method: Method, scratch: PmfScratch, heading: vec3, cos_angle: real) -> real:
    """Sample the PMF; return its maximum, or 0 if that is negative.

    In ``pmf``, samples outside the cone are 0: directions whose cosine to the heading is less than ``cos_angle``.
    """
    high = lanes(0.0)
    for chunk in range(VERTEX_CHUNKS):
        c = chunk * 32
        d = vertices_from(method.sphere, c)
        value = amplitudes(scratch, c, d[0], d[1], d[2])
        value = where(lane() + c < method.sphere.count, value, 0.0)
        high = maximum(high, value)
        put(scratch.pmf, c, where(alike(d, heading) < cos_angle, 0.0, value))
    return team_max(high)


@func
def probability(pmf: Reals, c: i32, low: real) -> real:
    """32 samples from number ``c`` on; those below ``low`` count as 0."""
    value = at(pmf, c)
    return where(value < low, 0.0, value)


@func
def pmf_peaks(method: Method, scratch: PmfScratch) -> i32:
    """Sample the PMF and find its peaks; return their number."""
    high = sample(method, scratch, vec3(0.0, 0.0, 0.0), -1.0)
    low = method.threshold * high
    least = lanes(3.0e38)
    for chunk in range(VERTEX_CHUNKS):
        c = chunk * 32
        value = probability(scratch.pmf, c, low)
        put(scratch.pmf, c, value)
        least = minimum(least, where(lane() + c < method.sphere.count, value, 3.0e38))
    return find_peaks(scratch.pmf, method.sphere, method.rule, scratch.peaks, team_min(least), high)


@func
def toward(sphere: Sphere, number: i32, heading: vec3) -> i32:
    """Code of vertex ``number``, or of its opposite if that is closer to the heading; NONE for NONE."""
    code = NONE
    if number >= 0:
        code = 2 * number
        if SYMMETRIC:
            if dot(vertex(sphere, number), heading) <= 0.0:
                code = code + 1
    return code


@func
def initial_directions(method: Method, scratch: PmfScratch) -> i32:
    """Find the peaks of the PMF at the point whose row is in the scratch; return their number (``kept`` lists them)."""
    barrier()
    return pmf_peaks(method, scratch)


# ------------------------------------------------------------------------------------------------------------ amplitudes
ADDRESS_MASK = 0x1FFFFFFF  # shows compilers for GPUs that no address overflows, so that they can fold constant offsets
HALF_ORDER = Constant("half the order of the spherical harmonics")


@func
def triangle(c: Reals, first: i32, x: real, x2: real, y: real) -> real:
    """Sum of the monomials ``x^p y^q`` with p + q odd, less than the order, by Horner's method.

    With one more factor y that is all monomials of even p + q, up to the order, but those without y.
    """
    value = c[first] * y + c[first + 1] * x
    for h in unrolled(HALF_ORDER - 1):
        even = lanes(c[first + (h + 1) * (h + 2)])
        odd = lanes(c[first + (h + 2) * (h + 2)])
        for i in unrolled(h + 1):
            even = even * x2 + c[first + (h + 1) * (h + 2) + 1 + i]
            odd = odd * x2 + c[first + (h + 2) * (h + 2) + 1 + i]
        value = (value * y + even) * y + odd * x
    return value


@func
def harmonic(c: Reals, first: i32, x: real, y: real, z: real) -> real:
    """The function whose coefficients begin at ``c[first]``, in the directions (x, y, z)."""
    begin = first & ADDRESS_MASK
    x2 = x * x
    ridge = lanes(c[begin + HALF_ORDER * (HALF_ORDER + 1)])
    for i in unrolled(HALF_ORDER):
        ridge = ridge * x2 + c[begin + HALF_ORDER * (HALF_ORDER + 1) + 1 + i]
    even = triangle(c, begin, x, x2, y) * y + ridge
    return even + triangle(c, begin + (HALF_ORDER + 1) * (HALF_ORDER + 1), x, x2, y) * z


@func
def amplitudes_of_harmonics(scratch: Scratch, c: i32, x: real, y: real, z: real) -> real:
    """Amplitudes in 32 directions, which are those of the sphere's vertices from number ``c`` on."""
    return harmonic(scratch.row, 0, x, y, z)


@func
def amplitudes_of_samples(scratch: Scratch, c: i32, x: real, y: real, z: real) -> real:
    """Amplitudes at 32 vertices of the sphere, from number ``c`` on."""
    return at(scratch.row, c)


@func
def amplitude_of_samples(method: Method, volume: Volume, p: vec3, d: vec3) -> real:
    """Amplitude at each lane's point in its direction: that of the nearest vertex, as in DIPY's PTT."""
    return interpolated(volume, p, nearest_vertex(method.sphere.vertices, method.cells, d))


@func
def sphere_of_samples(volume: Volume, p: vec3, row: Reals):
    """Amplitudes at all vertices of the sphere at one point."""
    here = vec3(lanes(p[0]), lanes(p[1]), lanes(p[2]))
    for chunk in range(VERTEX_CHUNKS):
        put(row, 32 * chunk, interpolated(volume, here, lane() + 32 * chunk))
