"""What a draw needs of a PMF: its samples within the greatest angle to the heading, and the least sample that counts.

The heading of a step is a vertex of the sphere or its opposite, so tables list the vertices in the cone around each.  Stored
samples are read together with the bounds and the stopping rule's channels, so that a processor waits for memory once;
coefficients are evaluated when a step is chosen.

Samples below a share of the maximum count as 0.  The maximum is at least the greatest sample in the cone, and at most the
greatest bound of a patch.  Only if the thresholds that follow from both differ for a sample of the cone, patches are sampled,
that of the greatest bound first, until the maximum is known well enough.  So the same samples count as if all were known.
"""

from __future__ import annotations

from ...linker.lang import *
from ..halves import Method
from ..interpolate import Corners, Volume, find_corners, interpolate_row
from .patches import (
    CONE_CHUNKS,
    STORED,
    PatchedPmf,
    amplitudes_at,
    bounds_of,
    direction_number,
    greatest_in_patch,
    interpolate_bounds,
    patch_of,
    touched_by,
)
from .peaks import VERTEX_CHUNKS
from .pmf import PmfScratch

TOGETHER = Constant("chunks of a cone that are read together, so that a processor waits for their samples once")


class ConePmf(PatchedPmf):
    """Tables of the method.

    ``patches``: the patch of each listed chunk whose samples are stored, or 0; -1 for TOGETHER chunks without vertices.
    """

    patches: Ints

    def elements(self, fill):
        sizes = super().elements(fill)
        return sizes | {"patches": fill["CONE_CHUNKS"] * sizes["touched"]}


class ConeScratch(PmfScratch):
    """Team memory; ``cone`` has the samples of the chunks that are listed for a direction, 0 outside its cone.

    They may overwrite the begin of a row of samples, which is not read in a step.  ``sums`` begins with each lane's greatest
    sample, also of those outside, until a vertex is drawn.
    """

    cone: Reals

    @staticmethod
    def sizes(fill):
        return PmfScratch.sizes(fill) | {"cone": 32 * fill["CONE_CHUNKS"]}


@stage
def first_chunk(code: i32) -> i32:
    """The first chunk of the cone around a direction."""
    return CONE_CHUNKS * direction_number(code)


@stage
def sample_cone(corners: Corners, volume: Volume, code: i32, method: Method, scratch: ConeScratch):
    """Sample the PMF in the cone around a direction."""
    first = first_chunk(code)
    best = lanes(0.0)
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
        else:
            for part in unrolled(TOGETHER):
                put(scratch.cone, 32 * (chunk + part), lanes(0.0))
    put(scratch.sums, 0, best)


@func
def read_cone(volume: Volume, p: vec3, code: i32, method: Method, scratch: ConeScratch):
    """Read what a step needs of the rows: of coefficients, all; of samples, those of the patches that the cone touches."""
    if STORED:
        corners = Corners()
        find_corners(corners, volume, p)
        interpolate_bounds(corners, volume, scratch.row)
        sample_cone(corners, volume, code, method, scratch)
    else:
        interpolate_row(volume, p, scratch.row)


@func
def greatest_below(cone: Reals, most: real) -> real:
    """The greatest sample in the cone that is below ``most``, or 0."""
    below = lanes(0.0)
    for chunk in range(CONE_CHUNKS):
        value = at(cone, 32 * chunk)
        below = maximum(below, where(value < most, value, 0.0))
    return team_max(below)


@func
def least_that_counts(volume: Volume, p: vec3, code: i32, method: Method, scratch: ConeScratch) -> real:
    """The least sample that counts in the cone around a direction, which has been read; the samples are in ``cone``."""
    corners = Corners()
    if STORED == 0:
        sample_cone(corners, volume, code, method, scratch)
        barrier()
    rest = bounds_of(scratch.row)
    if STORED:
        rest = where((touched_by(method, code) >> lane()) & 1 == 1, 0.0, rest)
    high = team_max(at(scratch.sums, 0))
    bound = team_max(rest)
    doubtful = greatest_below(scratch.cone, method.threshold * maximum(bound, high))
    while (doubtful > 0.0) & (doubtful >= method.threshold * high) & (bound > high):
        if STORED:
            find_corners(corners, volume, p)
        patch = patch_of(rest, bound)
        found = greatest_in_patch(corners, volume, method, scratch, patch)
        high = maximum(high, found)
        rest = where(lane() == patch, 0.0, rest)
        bound = team_max(rest)
        doubtful = greatest_below(scratch.cone, method.threshold * maximum(bound, high))
    return method.threshold * high
