"""Deterministic tracking: the greatest sample of the PMF in the cone (DIPY's ``deterministic_propagator``), or its peak
closest to the heading (``ClosestPeakDirectionGetter``).
"""

from __future__ import annotations

from ...linker.lang import *
from ..orientation.peaks import NONE, VERTEX_CHUNKS, closest_peak
from ..orientation.pmf import Pmf, PmfScratch, pmf_peaks, probability, sample, toward

GREATEST = Constant("1: follow the greatest sample in the cone, 0: the closest peak")


@func
def greatest(method: Pmf, scratch: PmfScratch, heading: vec3) -> i32:
    """Vertex of the greatest sample in the cone, the lowest number among equals; NONE if no sample is above 0."""
    low = method.threshold * sample(method, scratch, heading, method.rule.cos_angle)
    best = lanes(0.0)
    place = lanes(0)
    for chunk in range(VERTEX_CHUNKS):
        value = probability(scratch, chunk * 32, low)
        place = where(value > best, chunk * 32, place)
        best = maximum(best, value)
    high = team_max(best)
    number = NONE
    if high > 0.0:
        number = i32(team_min(where(best == high, real(lane() + place), 3.0e38)))
    return number


@func
def next_direction(
    method: Pmf, scratch: PmfScratch, heading: vec3, attempt: i32, c0: u32, c1: u32, c2: u32, key: Ints
) -> i32:
    """Code of the next direction at the point whose row is in the scratch, or NONE."""
    barrier()
    if GREATEST:
        code = toward(method.sphere, greatest(method, scratch, heading), heading)
    else:
        count = pmf_peaks(method, scratch)
        code = closest_peak(method.sphere, method.rule, scratch.peaks, count, heading)
    return code
