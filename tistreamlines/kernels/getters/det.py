"""Deterministic tracking: the greatest sample of the PMF in the cone (DIPY's ``deterministic_propagator``), or its peak
closest to the heading (``ClosestPeakDirectionGetter``).

If a cone has few vertices and coefficients are stored, these vertices are listed in one chunk.  Otherwise, patches of the
sphere are sampled in the order of their bounds, that of the greatest one first, until no bound of another patch that the cone
touches reaches the greatest sample.  This counts if it is not below a share of the maximum of the whole PMF.  That is at least
the greatest sample that is known, and at most the greatest bound of the other patches; these are sampled in the same order
while the answer depends on them.
"""

from __future__ import annotations

from ...linker.lang import *
from ..halves import Method, Scratch
from ..interpolate import Corners, Volume, find_corners
from ..orientation.patches import (
    CONE_CHUNKS,
    STORED,
    amplitudes_at,
    bounds_of,
    direction_number,
    greatest_in_patch,
    patch_of,
    touched_by,
)
from ..orientation.peaks import NONE, VERTEX_CHUNKS, alike, closest_peak, direction
from ..orientation.pmf import Pmf, PmfScratch, pmf_peaks


@stage
def reaches_share(
    found: real, highest: real, bounds: real, corners: Corners, volume: Volume, method: Method, scratch: Scratch
) -> i32:
    """1 if ``found`` counts, by the greatest sample that each lane knows, and the bounds of the patches that none knows."""
    rest = bounds
    high = team_max(highest)
    bound = team_max(rest)
    while (bound > high) & (found < method.threshold * bound) & (found >= method.threshold * high):
        patch = patch_of(rest, bound)
        sampled = greatest_in_patch(corners, volume, method, scratch, patch)
        high = maximum(high, sampled)
        rest = where(lane() == patch, 0.0, rest)
        bound = team_max(rest)
    result = 0
    if found >= method.threshold * high:
        result = 1
    return result


@stage
def greatest_vertex(
    volume: Volume, p: vec3, code: i32, method: Method, scratch: Scratch, c0: u32, c1: u32, c2: u32, key: Ints
) -> i32:
    """The vertex of the greatest sample in the cone, the lowest number among equals; NONE if it does not count."""
    corners = Corners()
    if STORED:
        find_corners(corners, volume, p)
    heading = direction(method.sphere, code)
    rest = bounds_of(scratch.row)
    ahead = where((touched_by(method, code) >> lane()) & 1 == 1, rest, 0.0)
    best = lanes(0.0)
    lowest = lanes(0)
    highest = lanes(0.0)
    found = 0.0
    bound = team_max(ahead)
    while (bound > 0.0) & (bound >= found):
        chunk = VERTEX_CHUNKS + direction_number(code)
        if CONE_CHUNKS == 0:
            chunk = patch_of(ahead, bound)
        number = at(method.numbers, 32 * chunk)
        value = where(number >= 0, amplitudes_at(corners, method, volume, scratch.row, chunk, chunk), 0.0)
        highest = maximum(highest, value)
        if CONE_CHUNKS:
            bound = 0.0
        else:
            place = vec3(at(method.places, 96 * chunk), at(method.places, 96 * chunk + 32), at(method.places, 96 * chunk + 64))
            value = where(alike(place, heading) > method.rule.cos_angle, value, 0.0)
            ahead = where(lane() == chunk, 0.0, ahead)
            rest = where(lane() == chunk, 0.0, rest)
            bound = team_max(ahead)
        lowest = where((value > best) | ((value == best) & (number < lowest)), number, lowest)
        best = maximum(best, value)
        found = team_max(best)
    number = NONE
    if found > 0.0:
        counts = reaches_share(found, highest, rest, corners, volume, method, scratch)
        if counts == 1:
            number = i32(team_min(where(best == found, real(lowest), 3.0e38)))
    return number


@func
def closest_direction(
    method: Pmf, scratch: PmfScratch, heading: vec3, attempt: i32, c0: u32, c1: u32, c2: u32, key: Ints
) -> i32:
    """Code of the closest peak at the point whose row is in the scratch, or NONE."""
    barrier()
    count = pmf_peaks(method, scratch)
    return closest_peak(method.sphere, method.rule, scratch.peaks, count, heading)
