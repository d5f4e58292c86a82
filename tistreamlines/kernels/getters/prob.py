"""Probabilistic tracking: each direction in the cone is drawn with its probability (DIPY's ``probabilistic_tracking``).

The directions within the greatest angle to the heading are drawn from by the inverse of their cumulative sum.  Lane l
owns numbers l, l + 32, ... of their list; the sum runs over lane 0's, then over lane 1's, and so on.  DIPY's runs over the
vertices by number; the probabilities are the same.

Behrens et al. 2003, Parker et al. 2003 (the method); DIPY's ``probabilistic_propagator``.
"""

from ...linker.lang import *
from ...linker.rng import philox, uniform
from ..halves import Method, Scratch
from ..interpolate import Corners, Volume, find_corners
from ..orientation.patches import CONE_CHUNKS, STORED, bounds_beside, first_chunk, sample_cone, sample_next_patch
from ..orientation.peaks import NONE, VERTEX_CHUNKS
from ..orientation.pmf import Pmf, PmfScratch, probability, sample, toward


@func
def scan(value: real) -> real:
    """The sum over the lanes before each one and itself (Hillis and Steele 1986: 5 rounds)."""
    total = value
    total = total + raised(total, 1)
    total = total + raised(total, 2)
    total = total + raised(total, 4)
    total = total + raised(total, 8)
    return total + raised(total, 16)


@func
def sums_of(pmf: Reals, chunks: i32, low: real) -> real:
    """The cumulative sum, at the end of each lane, of the samples that reach ``low``."""
    sums = lanes(0.0)
    for chunk in range(chunks):
        sums = sums + probability(pmf, chunk * 32, low)
    return scan(sums)


@stage
def last_begun(pmf: Reals, chunks: i32, low: real, sums: real, sums_low: real, place: real) -> i32:
    """The last sample that reaches ``low`` and begins at or before ``place`` in a cumulative sum; NONE if there is none.

    The sum, ``sums``, is that of the samples that reach ``sums_low``.
    """
    before = raised(sums, 1)
    rest = place - before
    highest = lanes(0.0)
    begun = lanes(0.0)
    last = lanes(0)
    for chunk in range(chunks):
        value = probability(pmf, chunk * 32, low)
        last = where((value > 0.0) & (begun <= rest), chunk, last)
        highest = maximum(highest, value)
        begun = begun + probability(pmf, chunk * 32, sums_low)
    number = team_last((highest > 0.0) & (before <= place))
    if chunks > 1:
        if number >= 0:
            number = number + 32 * i32(team_value(real(last), number))
    return number


@stage
def draw(pmf: Reals, chunks: i32, low: real, u: real) -> i32:
    """Place at fraction ``u`` of the cumulative sum of the samples that reach ``low``; NONE if all are 0.

    It is the last lane above 0, and the last of this lane's samples above 0, whose cumulative sum starts at or before that
    fraction.  So no sample of probability 0 is drawn, however sums are rounded.
    """
    sums = sums_of(pmf, chunks, low)
    return last_begun(pmf, chunks, low, sums, low, u * team_value(sums, 31))


@stage
def draw_vertex(
    volume: Volume, p: vec3, code: i32, method: Method, scratch: Scratch, c0: u32, c1: u32, c2: u32, key: Ints
) -> i32:
    """A vertex of the cone, drawn with its probability; NONE if no sample counts.

    A sample counts if it reaches ``most``, and may count if it reaches ``least``.  A cumulative sum over more samples
    is nowhere lower, even after rounding.  ``number`` is the last vertex that could be drawn: it may count, the sums
    before it are as low as possible, and the fraction is that of the greatest sum.  ``first`` is the first one: it
    counts, the sums before it are as high as possible, and the fraction is that of the least sum.  If both differ,
    another patch is sampled.
    """
    corners = Corners()
    if STORED == 0:
        sample_cone(corners, volume, code, method, scratch)
        barrier()
    rest = bounds_beside(method, code, scratch.row)
    high = team_max(at(scratch.highest, 0))
    bound = team_max(rest)
    w = philox(c0, c1, c2, u32(0), u32(key[0]), u32(key[1]))
    u = uniform(w[0])
    number = NONE
    uncertain = 1
    while uncertain == 1:
        least = method.threshold * high
        most = method.threshold * maximum(bound, high)
        possible = sums_of(scratch.cone, CONE_CHUNKS, least)
        certain = possible
        if bound > high:
            certain = sums_of(scratch.cone, CONE_CHUNKS, most)
        number = last_begun(scratch.cone, CONE_CHUNKS, least, certain, most, u * team_value(possible, 31))
        uncertain = 0
        if bound > high:
            first = last_begun(scratch.cone, CONE_CHUNKS, most, possible, least, u * team_value(certain, 31))
            if first != number:
                uncertain = 1
                if STORED:
                    find_corners(corners, volume, p)
                sample_next_patch(high, rest, bound, corners, volume, method, scratch)
    if number >= 0:
        number = method.numbers[32 * (VERTEX_CHUNKS + first_chunk(code)) + number]
    return number


@func
def next_direction(
    method: Pmf, scratch: PmfScratch, heading: vec3, attempt: i32, c0: u32, c1: u32, c2: u32, key: Ints
) -> i32:
    """Code of the next direction at the point whose row is in the scratch, or NONE, by all samples of the PMF."""
    barrier()
    high = sample(method, scratch, heading, method.rule.cos_angle)
    w = philox(c0, c1, c2, u32(0), u32(key[0]), u32(key[1]))
    number = draw(scratch.pmf, VERTEX_CHUNKS, method.threshold * high, uniform(w[0]))
    return toward(method.sphere, number, heading)
