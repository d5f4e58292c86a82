"""Deterministic tracking: the greatest sample of the PMF in the cone (DIPY's ``deterministic_propagator``), or its peak
closest to the heading (``ClosestPeakDirectionGetter``).

If a cone has few vertices and coefficients are stored, these vertices are listed in one chunk.  Otherwise, patches of
the sphere are sampled in the order of their bounds, that of the greatest one first, until no bound of another patch
that the cone touches reaches the greatest sample.  This counts if it is not below a share of the maximum of the whole
PMF, which is at most the greatest bound of a patch.  If that bound does not decide, further patches are sampled in the
same order until the answer is known.
"""

from ...linker.lang import *
from ..halves import Method, Scratch
from ..interpolate import Corners, Volume, find_corners
from ..orientation.patches import *
from ..orientation.peaks import NONE, VERTEX_CHUNKS, closest_peak
from ..orientation.pmf import Pmf, PmfScratch, pmf_peaks


class DetPmf(PatchedPmf):
    """Tables of the method.

    ``within``: a word for each patch of each direction, which has a bit for each vertex of the patch: 1 if the vertex is in the
    cone around the direction.  32 zeros follow, since 32 words are read at once.  Where chunks are listed, there are only these.
    """

    within: Ints

    def elements(self, getter):
        words = 0 if getter.cone_chunks else getter.ball.vertex_chunks * self.directions(getter)
        return super().elements(getter) | {"within": words + 32}


@stage
def take_greatest(greatest: real, number: i32, chunk: i32, value: real, method: Method):
    """Note the greatest sample so far and its vertex, the lowest number among equals, with the samples of one more chunk."""
    sampled = team_max(value)
    vertex = method.numbers[32 * chunk + minimum(team_first(value == sampled), 31)]
    if (sampled > greatest) | ((sampled == greatest) & (vertex < number)):
        number = vertex
    greatest = maximum(greatest, sampled)


@stage
def reaches_share(
    greatest: real, bounds: real, corners: Corners, volume: Volume, method: Method, scratch: Scratch
) -> i32:
    """1 if a sample is not below the threshold's share of the maximum of the PMF."""
    high = greatest
    rest = bounds
    bound = team_max(rest)
    while (bound > high) & (greatest < method.threshold * bound) & (greatest >= method.threshold * high):
        sample_next_patch(high, rest, bound, corners, volume, method, scratch)
    return where(greatest >= method.threshold * high, 1, 0)


@stage
def greatest_vertex(
    volume: Volume, p: vec3, code: i32, method: Method, scratch: Scratch, c0: u32, c1: u32, c2: u32, key: Ints
) -> i32:
    """The vertex of the greatest sample in the cone, the lowest number among equals; NONE if it does not count."""
    corners = Corners()
    if STORED:
        find_corners(corners, volume, p)
    bounds = bounds_of(scratch.row)
    number = NONE
    greatest = 0.0
    if CONE_CHUNKS:
        chunk = VERTEX_CHUNKS + direction_number(code)
        value = amplitudes_at(corners, method, volume, scratch.row, chunk, 0)
        value = where(at(method.numbers, 32 * chunk) >= 0, value, 0.0)
        take_greatest(greatest, number, chunk, value, method)
    else:
        first = VERTEX_CHUNKS * direction_number(code)
        ahead = where(at(method.within, first) != 0, bounds, 0.0)
        bound = team_max(ahead)
        while (bound > 0.0) & (bound >= greatest):
            patch = patch_of(ahead, bound)
            value = amplitudes_at(corners, method, volume, scratch.row, patch, patch)
            value = where((method.within[first + patch] >> lane()) & 1 == 1, value, 0.0)
            take_greatest(greatest, number, patch, value, method)
            ahead = where(lane() == patch, 0.0, ahead)
            bound = team_max(ahead)
    if number >= 0:
        if reaches_share(greatest, bounds, corners, volume, method, scratch) == 0:
            number = NONE
    return number


@func
def closest_direction(
    method: Pmf, scratch: PmfScratch, heading: vec3, attempt: i32, c0: u32, c1: u32, c2: u32, key: Ints
) -> i32:
    """Code of the closest peak at the point whose row is in the scratch, or NONE."""
    barrier()
    count = pmf_peaks(method, scratch)
    return closest_peak(method.sphere, method.rule, scratch.peaks, count, heading)
