"""The bits of a half's points as it grows: a half collects them, and ends with its streamline where one is excluded.

The bits of a point count once a step leads on from it, because the last point may yet be dropped.  Where a recovery may take
points back, they are collected along the steps of a half that has ended.
"""

from ...linker.lang import *
from ..halves import *
from ..stop_reasons import ALL_INCLUDED, GROWING, OUTSIDE_LIMIT, REJECTED
from ..trail import *
from .regions import EXCLUDE, LIMIT, MET, MORE, add_bits, beyond, exclude_if_asked

bits_at = Hole("bits of a point, see the module regions")
COLLECTS = Constant("1: points that a half leaves count, 0: there is only a limit mask, which needs only the current point")
ONE_WAY = Constant("not 0: there are no backward halves")


@func
def visited_before(half: i32, taken: i32, halves: Halves) -> i32:
    """Bits that a half has visited; one that grows after the other begins with the regions of that one."""
    visited = halves.visited[WORDS * half]
    if IN_TURN:
        if ((half & 1) == 1) & (taken == 0):
            visited = halves.visited[WORDS * (half - 1)]
            if MORE:
                for k in range(MORE + 1):
                    halves.more[(MORE + 1) * half + k] = halves.more[(MORE + 1) * (half - 1) + k]
                barrier()
    return visited


@func
def complete(half: i32, p: vec3, visited: i32, here: i32, halves: Halves, filter: Filter) -> i32:
    """1 if a half that has visited ``visited`` has visited all regions with its point p, whose bits are ``here``, else 0."""
    met = 0
    if (add_bits(filter, visited, here) & filter.wanted) == filter.wanted:
        met = 1
        if MORE:
            if (beyond(filter, p, halves.more, (MORE + 1) * half, 0) & MET) == 0:
                met = 0
    return met


@stage
def load_bits(walk: Walk, bits: Bits, half: i32, halves: Halves):
    """Begin with the regions that the half has visited."""
    bits.visited = visited_before(half, walk.taken, halves)
    if DROPS_DEAD_END:
        bits.before = halves.visited[WORDS * half + 2]
    bits.stays = 1


@stage
def look(walk: Walk, bits: Bits, filter: Filter):
    """Find the bits of the point that is looked at."""
    bits.next = bits_at(filter, walk.ahead, 0)


@stage
def confine(walk: Walk, bits: Bits, filter: Filter):
    """End a half outside the limit mask."""
    if filter.limited != 0:  # asked first: without limits no GPU need wait for the bits before the next step
        if (walk.status == GROWING) & ((bits.next & LIMIT) == 0):
            walk.status = OUTSIDE_LIMIT


@stage
def add_point(walk: Walk, bits: Bits, half: i32, halves: Halves, filter: Filter):
    """Take a new last point into account; end a half that has visited all regions, if options say so."""
    bits.before = bits.here
    bits.here = bits.next
    if filter.stops == 1:
        if complete(half, walk.p, bits.visited, bits.here, halves, filter) == 1:
            walk.status = ALL_INCLUDED


@stage
def stand(walk: Walk, bits: Bits, half: i32, halves: Halves, filter: Filter):
    """Take the last point into account where a launch begins, or another draw; reject a seed outside the limit mask."""
    bits.here = bits.next
    if (bits.next & LIMIT) < filter.limited:
        walk.status = REJECTED
    if DROPS_DEAD_END:
        if (filter.stops == 1) & (walk.taken > 0):
            if complete(half, walk.p, bits.visited, bits.here, halves, filter) == 1:
                walk.status = ALL_INCLUDED
    if ONE_WAY:
        if walk.taken == 0:
            halves.visited[WORDS * (half + 1) + 1] = bits.here  # the other end is the seed


@stage
def leave_point(walk: Walk, bits: Bits, half: i32, halves: Halves, filter: Filter):
    """Collect the bits of a point that a step leads on from, and end with the other half where that is rejected."""
    if TAKES_BACK == 0:
        if walk.moves == 1:
            bits.visited = add_bits(filter, bits.visited, bits.here)
            if MORE:
                bits.visited = exclude_if_asked(bits.visited, beyond(filter, walk.p, halves.more, (MORE + 1) * half, 1))
            if (walk.taken & 7) == 0:  # looking at the other half takes time
                if halves.state[2 * (half ^ 1) + 1] == REJECTED:
                    bits.visited = bits.visited | EXCLUDE
            if (bits.visited & EXCLUDE) != 0:
                walk.status = REJECTED
                walk.goes_on = 0
    elif FOR_RECOVERY == 0:
        if (walk.moves == 1) & (filter.stops == 1):  # a rule takes back only points of halves that have ended
            bits.visited = add_bits(filter, bits.visited, bits.here)


@stage
def collect_along(walk: Walk, bits: Bits, half: i32, run: Run):
    """Collect the bits of the points of a half that has ended, repeating those of its steps that are kept."""
    branch = u32(run.halves.branch[half >> 1] * 2 + (half & 1))
    trail = Trail()
    repeated = State()
    begin_again(trail, repeated, half, walk.seed, branch, run)
    walk.p = trail.p
    bits.visited = 0
    for k in range(walk.taken):
        bits.visited = add_bits(run.filter, bits.visited, bits_at(run.filter, walk.p, 0))
        if MORE:
            bits.visited = exclude_if_asked(bits.visited, beyond(run.filter, walk.p, run.halves.more, (MORE + 1) * half, 1))
        take_again(trail, repeated, half, k, walk.taken, walk.seed, branch, run)
        walk.p = trail.p
    bits.here = bits_at(run.filter, walk.p, 0)


@stage
def store_bits(walk: Walk, bits: Bits, half: i32, run: Run):
    """Store the bits; reject a half that has ended if one of its points is excluded."""
    if walk.status != GROWING:
        if TAKES_BACK:
            if COLLECTS:
                collect_along(walk, bits, half, run)
        bits.visited = add_bits(run.filter, bits.visited, bits.here)
        if MORE:
            if bits.stays == 1:
                bits.visited = exclude_if_asked(bits.visited, beyond(run.filter, walk.p, run.halves.more, (MORE + 1) * half, 1))
        if (bits.visited & EXCLUDE) != 0:
            walk.status = REJECTED
    run.halves.visited[WORDS * half] = bits.visited
    run.halves.visited[WORDS * half + 1] = bits.here
    if DROPS_DEAD_END:
        run.halves.visited[WORDS * half + 2] = bits.before
