"""Probabilistic tracking: each direction in the cone is drawn with its probability (DIPY's ``probabilistic_tracking``).

The directions within the greatest angle to the heading are drawn from by the inverse of their cumulative sum.  Lane l
owns numbers l, l + 32, ... of their list; the sum runs over lane 0's, then over lane 1's, and so on.  DIPY's runs over the
vertices by number; the probabilities are the same.

Behrens et al. 2003, Parker et al. 2003 (the method); DIPY's ``probabilistic_propagator``.
"""

from __future__ import annotations

from ...linker.lang import *
from ...linker.rng import philox, uniform
from ..halves import Method, Scratch
from ..interpolate import Volume
from ..orientation.cone import first_chunk, least_that_counts
from ..orientation.patches import CONE_CHUNKS
from ..orientation.peaks import NONE, VERTEX_CHUNKS
from ..orientation.pmf import Pmf, PmfScratch, probability, sample, toward


@func
def scan(sums: Reals, value: real):
    """Put the sum over lanes 0 to l at ``sums[32 + l]``, and 0 before them (Hillis and Steele 1986: 5 rounds)."""
    put(sums, 0, lanes(0.0))
    total = value
    for turn in unrolled(5):
        put(sums, 32, total)
        barrier()
        below = at(sums, 32 - (1 << turn))
        barrier()
        total = total + below
    put(sums, 32, total)
    barrier()


@stage
def draw(pmf: Reals, chunks: i32, sums: Reals, low: real, u: real) -> i32:
    """Place at fraction ``u`` of the cumulative sum of the samples that reach ``low``; NONE if all are 0.

    It is the last lane above 0, and the last of this lane's samples above 0, whose cumulative sum starts at or before that
    fraction.  So no sample of probability 0 is drawn, however sums are rounded.
    """
    own = lanes(0.0)
    for chunk in range(chunks):
        own = own + probability(pmf, chunk * 32, low)
    scan(sums, own)
    before = at(sums, 31)
    place = u * sums[63]
    rest = place - before
    begun = lanes(0.0)
    last = lanes(0)
    for chunk in range(chunks):
        value = probability(pmf, chunk * 32, low)
        last = where((value > 0.0) & (begun <= rest), chunk, last)
        begun = begun + value
    drawn = i32(team_max(where((own > 0.0) & (before <= place), real(lane() * 32 + last), -1.0)))
    number = NONE
    if drawn >= 0:
        number = (drawn & 31) * 32 + (drawn >> 5)
    return number


@stage
def drawn_vertex(
    volume: Volume, p: vec3, code: i32, method: Method, scratch: Scratch, c0: u32, c1: u32, c2: u32, key: Ints
) -> i32:
    """A vertex of the cone, drawn with its probability; NONE if no sample counts."""
    low = least_that_counts(volume, p, code, method, scratch)
    w = philox(c0, c1, c2, u32(0), u32(key[0]), u32(key[1]))
    number = draw(scratch.cone, CONE_CHUNKS, scratch.sums, low, uniform(w[0]))
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
    number = draw(scratch.pmf, VERTEX_CHUNKS, scratch.sums, method.threshold * high, uniform(w[0]))
    return toward(method.sphere, number, heading)
