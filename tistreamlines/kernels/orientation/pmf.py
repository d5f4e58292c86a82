"""The distribution of directions at a point (PMF), sampled on the sphere, and its peaks: for prob and det.

A voxel's row holds the samples (DIPY's ``SimplePmfGen``), or coefficients, which are evaluated at the sphere's vertices in
each step (``SHCoeffPmfGen``); :mod:`.amplitudes` reads both.  Samples below a fraction of the maximum, and negative ones, count
as 0 (DIPY's ``prepare_pmf``).
"""

from ...linker.lang import *
from ..halves import Method
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
