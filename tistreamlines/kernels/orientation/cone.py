"""What a step needs of a PMF: its samples within the greatest angle to the heading, and the least sample that counts.

The heading of a step is a vertex of the sphere or its opposite, so tables list the vertices in the cone around each.  Stored
samples are read patch by patch, because a row holds those of 32 neighbouring vertices together.

Samples below a share of the maximum count as 0.  The maximum is at least the greatest sample in the cone, and at most the
greatest bound of a patch: a row holds the greatest sample of its voxel in each patch, and what is interpolated from these is
nowhere below what is interpolated from samples.  Only if the thresholds that follow from both differ for a sample of the cone,
patches are sampled, that of the greatest bound first, until the maximum is known well enough.  So the same samples count as if all
were known.
"""

from __future__ import annotations

from ...linker.lang import *
from ..halves import Method
from ..interpolate import ROW_CHUNKS, Corners, Volume, chunk_of, find_corners, interpolate_chunks
from .harmonics import harmonic
from .peaks import SYMMETRIC, VERTEX_CHUNKS
from .pmf import Pmf, PmfScratch

amplitudes_at = Hole("stage: the orientation function at a point at 32 vertices of ``near``, or in a patch")
CONE_CHUNKS = Constant("most chunks of 32 vertices in which those of a cone are listed")
TOGETHER = Constant("chunks of a cone that are read together, so that a processor waits for their samples once")
BOUNDS = Constant("channel of the first patch's bound in a row")
ALL_MATTER = Constant("1: the getter asks which samples count, 0: it takes the greatest one if that counts")
STORED = Constant("1: rows hold samples, 0: coefficients")
FIRST_CHUNK = Constant("first chunk of a row that is read at a point")


class ConePmf(Pmf):
    """Tables of the method.

    ``near``: 32 * CONE_CHUNKS numbers of vertices for each direction, which is a vertex or, unless SYMMETRIC, then its opposite;
    ~number of one that is not in the cone; behind them, the vertices in each patch.  ``places``: x, y and z of all these, 32 of
    each in turn.  ``patches``: the patch of each chunk of ``near`` whose samples are stored, or 0; -1 for TOGETHER chunks
    without vertices.
    """

    near: Ints
    places: Reals
    patches: Ints

    def elements(self, fill):
        chunks = fill["CONE_CHUNKS"] * self.sphere.count * (1 if fill["SYMMETRIC"] else 2)
        numbers = 32 * (chunks + fill["VERTEX_CHUNKS"])
        return self.sizes(fill) | {"near": numbers, "places": 3 * numbers, "patches": chunks}


class ConeScratch(PmfScratch):
    """Team memory; ``cone`` has the samples of the chunks that are listed for a direction, 0 outside its cone.

    They may overwrite the begin of a row of samples, which is not read in a step.
    """

    cone: Reals

    @staticmethod
    def sizes(fill):
        return PmfScratch.sizes(fill) | {"cone": 32 * fill["CONE_CHUNKS"]}


@func
def amplitudes_in_place(scratch: PmfScratch, c: i32, x: real, y: real, z: real) -> real:
    """Amplitudes at 32 vertices of the sphere, from number ``c`` on, which ``read_patches`` has put there."""
    return at(scratch.pmf, c)


@stage
def first_chunk(method: Method, code: i32) -> i32:
    """The first chunk of ``near`` for a direction."""
    chunk = CONE_CHUNKS * code
    if SYMMETRIC:
        chunk = CONE_CHUNKS * (code >> 1)
    return chunk


@func
def read_patches(volume: Volume, p: vec3, method: Method, scratch: PmfScratch):
    """Put the samples at a point in their places in ``pmf``."""
    corners = Corners()
    find_corners(corners, volume, p)
    behind = first_chunk(method, 2 * method.sphere.count)
    barrier()
    for patch in range(VERTEX_CHUNKS):
        number = at(method.near, 32 * (behind + patch))
        value = chunk_of(corners, volume, 32 * patch)
        scratch.pmf[maximum(number, -1 - number)] = where(number >= 0, value, 0.0)


@stage
def harmonics_at(corners: Corners, method: Method, volume: Volume, row: Reals, chunk: i32, patch: i32) -> real:
    """Amplitudes of the coefficients in the row."""
    x = at(method.places, 96 * chunk)
    y = at(method.places, 96 * chunk + 32)
    z = at(method.places, 96 * chunk + 64)
    return harmonic(row, 0, x, y, z)


@stage
def samples_at(corners: Corners, method: Method, volume: Volume, row: Reals, chunk: i32, patch: i32) -> real:
    """Amplitudes of the samples in the rows of the voxels around the point."""
    return chunk_of(corners, volume, 32 * patch)


@func
def read_for_cone(volume: Volume, p: vec3, row: Reals):
    """Interpolate the end of the row, with bounds and the stopping rule's channels; of coefficients, the whole row."""
    interpolate_chunks(volume, p, row, FIRST_CHUNK)


@func
def greatest_below(cone: Reals, most: real) -> real:
    """The greatest sample in the cone that is below ``most``, or 0.

    If only the greatest sample matters, it is 0 unless all samples are below ``most``.
    """
    below = lanes(0.0)
    best = lanes(0.0)
    for chunk in range(CONE_CHUNKS):
        value = at(cone, 32 * chunk)
        best = maximum(best, value)
        below = maximum(below, where(value < most, value, 0.0))
    found = team_max(below)
    if ALL_MATTER == 0:
        if team_max(best) >= most:
            found = 0.0
    return found


@stage
def sample_cone(method: Method, volume: Volume, scratch: ConeScratch, p: vec3, first: i32) -> real:
    """Sample the PMF in the chunks of a cone, from number ``first`` on.  Return the least sample that counts."""
    corners = Corners()
    if STORED:
        find_corners(corners, volume, p)
    rest = take(scratch.row, minimum(lane() + BOUNDS, 32 * ROW_CHUNKS - 1))
    rest = where(lane() < VERTEX_CHUNKS, rest, 0.0)
    best = lanes(0.0)
    barrier()
    for group in range(CONE_CHUNKS // TOGETHER):
        chunk = TOGETHER * group
        if method.patches[first + chunk] >= 0:
            for part in unrolled(TOGETHER):
                patch = method.patches[first + chunk + part]
                number = at(method.near, 32 * (first + chunk + part))
                value = amplitudes_at(corners, method, volume, scratch.row, first + chunk + part, patch)
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
    behind = first_chunk(method, 2 * method.sphere.count)
    while (doubtful > 0.0) & (doubtful >= method.threshold * high) & (bound > high):
        patch = i32(team_min(where(rest == bound, real(lane()), 32.0)))
        value = amplitudes_at(corners, method, volume, scratch.row, behind + patch, patch)
        high = maximum(high, team_max(where(at(method.near, 32 * (behind + patch)) >= 0, value, 0.0)))
        rest = where(lane() == patch, 0.0, rest)
        bound = team_max(rest)
        doubtful = greatest_below(scratch.cone, method.threshold * maximum(bound, high))
    return method.threshold * high
