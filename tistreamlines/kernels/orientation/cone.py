"""What a draw needs of a PMF: its samples within the greatest angle to the heading, and bounds of the others.

The heading of a step is a vertex of the sphere or its opposite, so tables list the vertices in the cone around each.  Stored
samples are read together with the bounds and the stopping rule's channels, so that a processor waits for memory once;
coefficients are evaluated when a step is chosen.

Samples below a share of the maximum count as 0.  The maximum is at least the greatest sample in the cone, and at most the
greatest bound of a patch.  Where that does not tell enough, patches are sampled, that of the greatest bound first.
"""

from __future__ import annotations

from ...linker.lang import *
from ..halves import Method
from ..interpolate import Corners, Volume, find_corners, interpolate_row
from .patches import *
from .peaks import VERTEX_CHUNKS
from .pmf import PmfScratch

TOGETHER = Constant("chunks of a cone that are read together, so that a processor waits for their samples once")


class ConePmf(PatchedPmf):
    """Tables of the method.

    ``patches``: the patch of each listed chunk whose samples are stored, or 0; -1 for TOGETHER chunks without vertices.
    ``touched``: for each direction, one bit for each patch: 1 if it has vertices in the cone around the direction.
    """

    patches: Ints
    touched: Ints

    def elements(self, getter):
        directions = self.directions(getter)
        return super().elements(getter) | {"patches": getter.cone_chunks * directions, "touched": directions}


class ConeScratch(PmfScratch):
    """Team memory; ``cone`` has the samples of the chunks that are listed for a direction, 0 outside its cone.

    They may overwrite the begin of a row of samples, which is not read in a step.  ``highest`` is each lane's greatest sample,
    also of those outside.
    """

    cone: Reals
    highest: Reals

    @staticmethod
    def sizes(getter):
        return PmfScratch.sizes(getter) | {"cone": 32 * getter.cone_chunks, "highest": 32}


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
    put(scratch.highest, 0, best)


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


@stage
def bounds_beside(method: Method, code: i32, row: Reals) -> real:
    """The bound of each patch of which samples may be unknown, one in each lane; 0 in others."""
    bounds = bounds_of(row)
    if STORED:
        bounds = where((method.touched[direction_number(code)] >> lane()) & 1 == 1, 0.0, bounds)
    return bounds
