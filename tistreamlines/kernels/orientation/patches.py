"""An orientation function by patches of 32 neighbouring vertices, and bounds of its samples in each.

A row of stored samples holds those of a patch together, so that a patch is one read.  Behind them, or behind
coefficients, it holds the greatest sample of its voxel in each patch, with the greatest error of rounding.  Their
interpolated value is nowhere below an interpolated sample, so kernels skip patches that cannot matter.
"""

from ...linker.lang import *
from ..halves import Method
from ..interpolate import ROW_CHUNKS, Corners, Volume, chunk_of, find_corners, interpolate_row
from .amplitudes import harmonic
from .peaks import SYMMETRIC, VERTEX_CHUNKS
from .pmf import Pmf, PmfScratch

amplitudes_at = Hole("stage: the orientation function at a point at 32 vertices of a chunk of ``numbers``, which lie in one patch")
CONE_CHUNKS = Constant("chunks of 32 vertices, behind the patches, in which those of the cone around each direction are listed")
BOUNDS = Constant("channel of the first patch's bound in a row")
STORED = Constant("1: rows hold samples, 0: coefficients")
FIRST_CHUNK = Constant("first chunk of a row that is read at a point")


class PatchedPmf(Pmf):
    """Tables of the method.

    A direction is a vertex or, unless SYMMETRIC, then its opposite.  ``numbers``: the 32 vertices in each patch, ~number of one
    that does not exist; behind these, CONE_CHUNKS chunks for each direction, with ~number of one that is not in the cone.
    ``places``: x, y and z of all these, 32 of each in turn.
    """

    numbers: Ints
    places: Reals

    def directions(self, getter):
        """Number of directions."""
        return self.sphere.count * (1 if getter.symmetric else 2)

    def elements(self, getter):
        chunks = getter.ball.vertex_chunks + getter.cone_chunks * self.directions(getter)
        return self.sizes(getter) | {"numbers": 32 * chunks, "places": 96 * chunks}


@func
def amplitudes_in_place(scratch: PmfScratch, c: i32, x: real, y: real, z: real) -> real:
    """Amplitudes at 32 vertices of the sphere, from number ``c`` on, which ``read_patches`` has put there."""
    return at(scratch.pmf, c)


@func
def read_patches(volume: Volume, p: vec3, method: Method, scratch: PmfScratch):
    """Put the samples at a point in their places in ``pmf``."""
    corners = Corners()
    find_corners(corners, volume, p)
    barrier()
    for patch in range(VERTEX_CHUNKS):
        number = at(method.numbers, 32 * patch)
        value = chunk_of(corners, volume, 32 * patch)
        scratch.pmf[maximum(number, -1 - number)] = where(number >= 0, value, 0.0)


@stage
def harmonics_at(corners: Corners, method: Method, volume: Volume, row: Reals, chunk: i32, patch: i32) -> real:
    """Amplitudes of the coefficients in the row.

    They begin at ``patch >> 5``, which is 0, but compilers do not know that.  So they load each coefficient where it is used;
    otherwise they would load all of them before a loop, and store them again, since there are more of them than registers.
    """
    x = at(method.places, 96 * chunk)
    y = at(method.places, 96 * chunk + 32)
    z = at(method.places, 96 * chunk + 64)
    return harmonic(row, patch >> 5, x, y, z)


@stage
def samples_at(corners: Corners, method: Method, volume: Volume, row: Reals, chunk: i32, patch: i32) -> real:
    """Amplitudes of the samples in the rows of the voxels around the point."""
    return chunk_of(corners, volume, 32 * patch)


@stage
def interpolate_bounds(corners: Corners, volume: Volume, row: Reals):
    """Interpolate the end of the row, with bounds and the stopping rule's channels; of coefficients, the whole row."""
    for chunk in unrolled(ROW_CHUNKS):
        if chunk >= FIRST_CHUNK:
            put(row, 32 * chunk, chunk_of(corners, volume, 32 * chunk))


@func
def read_bounds(volume: Volume, p: vec3, code: i32, method: Method, scratch: PmfScratch):
    """Read what a step needs of the rows before patches are sampled."""
    corners = Corners()
    find_corners(corners, volume, p)
    interpolate_bounds(corners, volume, scratch.row)


@stage
def direction_number(code: i32) -> i32:
    """The place of a direction in tables that have one entry for a vertex and its opposite if these are alike."""
    place = code
    if SYMMETRIC:
        place = code >> 1
    return place


@func
def bounds_of(row: Reals) -> real:
    """The bound of each patch at a point, one in each lane; 0 in others."""
    bound = take(row, minimum(lane() + BOUNDS, 32 * ROW_CHUNKS - 1))
    return where(lane() < VERTEX_CHUNKS, bound, 0.0)


@stage
def greatest_in_patch(corners: Corners, volume: Volume, method: Method, scratch: PmfScratch, patch: i32) -> real:
    """The greatest sample in a patch at a point, or 0."""
    value = amplitudes_at(corners, method, volume, scratch.row, patch, patch)
    return team_max(where(at(method.numbers, 32 * patch) >= 0, value, 0.0))


@func
def patch_of(bounds: real, bound: real) -> i32:
    """The first patch that has a bound."""
    return team_first(bounds == bound)


@stage
def sample_next_patch(
    high: real, rest: real, bound: real, corners: Corners, volume: Volume, method: Method, scratch: PmfScratch
):
    """Sample the patch of the greatest bound.

    ``high`` is the greatest sample that is known, ``rest`` has the bounds of other patches, ``bound`` is the greatest of them.
    """
    patch = patch_of(rest, bound)
    sampled = greatest_in_patch(corners, volume, method, scratch, patch)
    high = maximum(high, sampled)
    rest = where(lane() == patch, 0.0, rest)
    bound = team_max(rest)


# The parts of a PMF for a draw: its samples within the greatest angle to the heading, and bounds of the others.
#
# The heading of a step is a vertex of the sphere or its opposite, so tables list the vertices in the cone around
# each. A read fetches stored samples with the bounds and the stopping rule's channels, so that a processor waits for
# memory once. The choice of a step evaluates coefficients.
#
# Samples below a share of the maximum count as 0. The maximum is at least the greatest sample in the cone, and at
# most the greatest bound of a patch. If these do not decide, patches are sampled, the one with the greatest bound
# first.
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
