"""The peak of a lobe: the direction of its greatest amplitude, between the directions that were sampled."""

from __future__ import annotations

from ...linker.lang import *
from ..lanes import cross, everywhere, normalised
from ..orientation.amplitudes import harmonic
from ..orientation.peaks import VERTEX_CHUNKS, dot, vertex, vertices_from
from .watershed import MERGES, Half, LobeScratch, lobe_of

# of the search, in radians: how far directions are tried at first, less than from which it ends
REACH, LEAST = 0.04, 0.0002
NARROWED = 0.4  # times the reach, where the best direction is not near the rim
INNER = 12  # last lane of the pattern that is not near the rim
MOST_TURNS = 50


@func
def amplitude(row: Reals, d: vec3) -> real:
    """Amplitude in each lane's direction."""
    return harmonic(row, 0, d[0], d[1], d[2])


@func
def climb(row: Reals, half: Half, start: vec3) -> vec3:
    """Direction of the peak to which the function rises from a direction.

    The best of 32 directions around is taken, until they lie close together.
    """
    d = start
    reach = REACH
    turn = 0
    while (reach > LEAST) & (turn < MOST_TURNS):
        along_x = absolute(d[0]) < 0.6
        u = normalised(cross(d, vec3(where(along_x, 1.0, 0.0), where(along_x, 0.0, 1.0), 0.0)))
        v = cross(d, u)
        a = reach * at(half.pattern, 0)
        b = reach * at(half.pattern, 32)
        around = normalised(vec3(d[0] + (a * u[0] + b * v[0]), d[1] + (a * u[1] + b * v[1]), d[2] + (a * u[2] + b * v[2])))
        value = amplitude(row, around)
        high = team_max(value)
        best = team_first(value >= high)
        p = reach * half.pattern[best]
        q = reach * half.pattern[32 + best]
        d = normalised(vec3(d[0] + (p * u[0] + q * v[0]), d[1] + (p * u[1] + q * v[1]), d[2] + (p * u[2] + q * v[2])))
        if best <= INNER:
            reach = NARROWED * reach
        turn = turn + 1
    return d


@func
def nearest_direction(half: Half, d: vec3) -> i32:
    """Number of the nearest direction of the half sphere."""
    here = everywhere(d)
    best = lanes(-1.0)
    found = lanes(0)
    for chunk in range(VERTEX_CHUNKS):
        c = 32 * chunk
        cosine = absolute(dot(vertices_from(half.sphere, c), here))
        found = where(cosine > best, lane() + c, found)
        best = maximum(best, cosine)
    return i32(team_min(where(best >= team_max(best), real(found), 32.0 * real(VERTEX_CHUNKS))))


@func
def peak_of_lobe(half: Half, scratch: LobeScratch, lobe: i32, count: i32) -> vec3:
    """Direction of the peak of a lobe; that with which it begins, if the function rises from there out of the lobe.

    A lobe that was merged has several peaks; the greatest, which is the first, may not end nearer to another one.
    """
    start = vertex(half.sphere, scratch.seeds[lobe])
    d = climb(scratch.row, half, start)
    inside = where(lobe_of(scratch, nearest_direction(half, d)) == lobe, 1, 0)
    if MERGES:
        own = absolute(dot(d, start))
        for other in range(count):
            if lobe_of(scratch, scratch.seeds[other]) == lobe:
                if absolute(dot(d, vertex(half.sphere, scratch.seeds[other]))) > own:
                    inside = 0
    if inside == 0:
        d = start
    return d
