"""What a draw needs of a PMF: its samples within the greatest angle to the heading, and the least sample that counts.

The heading of a step is a vertex of the sphere or its opposite, so tables list the vertices in the cone around each.

Samples below a share of the maximum count as 0.  The maximum is at least the greatest sample in the cone, and at most the
greatest bound of a patch.  Only if the thresholds that follow from both differ for a sample of the cone, patches are sampled,
that of the greatest bound first, until the maximum is known well enough.  So the same samples count as if all were known.
"""

from __future__ import annotations

from ...linker.lang import *
from ..halves import Method
from ..interpolate import Corners, Volume, find_corners
from .patches import STORED, PatchedPmf, amplitudes_at, bounds_of, patch_of
from .peaks import SYMMETRIC, VERTEX_CHUNKS
from .pmf import PmfScratch

CONE_CHUNKS = Constant("most chunks of 32 vertices in which those of a cone are listed")
TOGETHER = Constant("chunks of a cone that are read together, so that a processor waits for their samples once")


class ConePmf(PatchedPmf):
    """Tables of the method.

    Behind the patches, ``numbers`` has 32 * CONE_CHUNKS vertices for each direction, which is a vertex or, unless SYMMETRIC,
    then its opposite; ~number of one that is not in the cone.  ``patches``: the patch of each chunk of these whose samples
    are stored, or 0; -1 for TOGETHER chunks without vertices.
    """

    patches: Ints

    def elements(self, fill):
        chunks = fill["CONE_CHUNKS"] * self.sphere.count * (1 if fill["SYMMETRIC"] else 2)
        numbers = 32 * (chunks + fill["VERTEX_CHUNKS"])
        return self.sizes(fill) | {"numbers": numbers, "places": 3 * numbers, "patches": chunks}


class ConeScratch(PmfScratch):
    """Team memory; ``cone`` has the samples of the chunks that are listed for a direction, 0 outside its cone.

    They may overwrite the begin of a row of samples, which is not read in a step.
    """

    cone: Reals

    @staticmethod
    def sizes(fill):
        return PmfScratch.sizes(fill) | {"cone": 32 * fill["CONE_CHUNKS"]}


@stage
def first_chunk(code: i32) -> i32:
    """The first chunk of the cone around a direction."""
    chunk = CONE_CHUNKS * code
    if SYMMETRIC:
        chunk = CONE_CHUNKS * (code >> 1)
    return chunk


@func
def greatest_below(cone: Reals, most: real) -> real:
    """The greatest sample in the cone that is below ``most``, or 0."""
    below = lanes(0.0)
    for chunk in range(CONE_CHUNKS):
        value = at(cone, 32 * chunk)
        below = maximum(below, where(value < most, value, 0.0))
    return team_max(below)


@stage
def sample_cone(method: Method, volume: Volume, scratch: ConeScratch, p: vec3, first: i32) -> real:
    """Sample the PMF in the chunks of a cone, from number ``first`` on.  Return the least sample that counts."""
    corners = Corners()
    if STORED:
        find_corners(corners, volume, p)
    rest = bounds_of(scratch.row)
    best = lanes(0.0)
    barrier()
    for group in range(CONE_CHUNKS // TOGETHER):
        chunk = TOGETHER * group
        if method.patches[first + chunk] >= 0:
            for part in unrolled(TOGETHER):
                patch = method.patches[first + chunk + part]
                listed = VERTEX_CHUNKS + first + chunk + part
                number = at(method.numbers, 32 * listed)
                value = amplitudes_at(corners, method, volume, scratch.row, listed, patch)
                # vertices beside the cone are looked at all the same
                best = maximum(best, where(maximum(number, -1 - number) < method.sphere.count, value, 0.0))
                put(scratch.cone, 32 * (chunk + part), where(number >= 0, value, 0.0))
                if STORED:
                    rest = where(lane() == patch, 0.0, rest)
        else:
            for part in unrolled(TOGETHER):
                put(scratch.cone, 32 * (chunk + part), lanes(0.0))
    high = team_max(best)
    bound = team_max(rest)
    barrier()
    doubtful = greatest_below(scratch.cone, method.threshold * maximum(bound, high))
    while (doubtful > 0.0) & (doubtful >= method.threshold * high) & (bound > high):
        patch = patch_of(rest, bound)
        value = amplitudes_at(corners, method, volume, scratch.row, patch, patch)
        high = maximum(high, team_max(where(at(method.numbers, 32 * patch) >= 0, value, 0.0)))
        rest = where(lane() == patch, 0.0, rest)
        bound = team_max(rest)
        doubtful = greatest_below(scratch.cone, method.threshold * maximum(bound, high))
    return method.threshold * high
