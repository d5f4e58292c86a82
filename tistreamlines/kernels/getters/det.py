"""Deterministic tracking: the greatest sample of the PMF in the cone (DIPY's ``deterministic_propagator``), or its peak
closest to the heading (``ClosestPeakDirectionGetter``).
"""

from __future__ import annotations

from ...linker.lang import *
from ..halves import Method, Scratch
from ..orientation.cone import CONE_CHUNKS
from ..orientation.peaks import NONE, VERTEX_CHUNKS, closest_peak
from ..orientation.pmf import Pmf, PmfScratch, pmf_peaks, probability, sample, toward


@stage
def greatest_vertex(method: Method, scratch: Scratch, first: i32, low: real, c0: u32, c1: u32, c2: u32, key: Ints) -> i32:
    """The vertex of the greatest sample in the cone, the lowest number among equals; NONE if no sample counts."""
    best = lanes(0.0)
    lowest = lanes(0)
    for chunk in range(CONE_CHUNKS):
        value = probability(scratch.cone, 32 * chunk, low)
        number = at(method.near, 32 * (first + chunk))
        lowest = where((value > best) | ((value == best) & (value > 0.0) & (number < lowest)), number, lowest)
        best = maximum(best, value)
    high = team_max(best)
    number = NONE
    if high > 0.0:
        number = i32(team_min(where(best == high, real(lowest), 3.0e38)))
    return number


@func
def next_direction(
    method: Pmf, scratch: PmfScratch, heading: vec3, attempt: i32, c0: u32, c1: u32, c2: u32, key: Ints
) -> i32:
    """Code of the direction of the greatest sample in the cone, or NONE, by all samples of the PMF."""
    barrier()
    low = method.threshold * sample(method, scratch, heading, method.rule.cos_angle)
    best = lanes(0.0)
    place = lanes(0)
    for chunk in range(VERTEX_CHUNKS):
        value = probability(scratch.pmf, chunk * 32, low)
        place = where(value > best, chunk * 32, place)
        best = maximum(best, value)
    high = team_max(best)
    number = NONE
    if high > 0.0:
        number = i32(team_min(where(best == high, real(lane() + place), 3.0e38)))
    return toward(method.sphere, number, heading)


@func
def closest_direction(
    method: Pmf, scratch: PmfScratch, heading: vec3, attempt: i32, c0: u32, c1: u32, c2: u32, key: Ints
) -> i32:
    """Code of the closest peak at the point whose row is in the scratch, or NONE."""
    barrier()
    count = pmf_peaks(method, scratch)
    return closest_peak(method.sphere, method.rule, scratch.peaks, count, heading)
