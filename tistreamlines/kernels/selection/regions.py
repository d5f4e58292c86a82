"""Regions of interest: which regions hold a point, and what the points of a streamline so far mean for it.

Each region, or union of regions, has one bit.  If there are more include regions than a word has bits, there are MORE
further words: the bits of a half's points are then kept in memory, not in a register.  A streamline is rejected as soon
as one of its points certainly lies in an exclude region; whether it has visited all include regions is known when it
has ended.  The rules are those of MRtrix3's ``ROI``.
"""

from ...linker.lang import *
from ..interpolate import coordinate
from ..stop_reasons import ACCEPTED, ENDS_ELSEWHERE, MISSED_INCLUDE

EXCLUDE, LIMIT, FIRST_END, SECOND_END = 1, 2, 4, 8  # bits of unions of regions; those of include regions follow
DISORDER = LIMIT  # in the bits that a streamline has visited, which have no LIMIT
INCLUDES = 4  # number of the first include region's bit
MOST_INCLUDES = 26  # in the first word
WORD_BITS = 30  # include regions in a further word
MIXED = 1 << 30  # a voxel in which bits depend on the point
MET = 4  # what ``beyond`` answers if all regions are visited; EXCLUDE is 1
MORE = Constant("further words of bits, for include regions beyond those of the first word")


class Demands(Record):
    """Demands on streamlines, as bits.

    ``counted`` are those that add up in any order (EXCLUDE and the include regions), ``ordered`` the regions that must be entered
    in the order of their bits, of which ``first`` is the first.  ``limited``: LIMIT if streamlines end outside it, else 0.
    ``stops``: 1 if they end once all of ``wanted`` are visited.  ``ends``: number of regions in which they must end.
    """

    counted: i32
    ordered: i32
    first: i32
    wanted: i32
    limited: i32
    stops: i32
    ends: i32


class Regions(Demands):
    """Voxels of the tracked image, grids of other voxels, and spheres.

    ``voxels`` has, for each voxel of the tracked image (``across`` x ``deep`` x ``high``), the bits that all its points have,
    and MIXED if some have more; only then the rest is looked at.  Each of ``grids`` grids has three rows of four
    numbers in ``matrix`` from voxel coordinates of the tracked image to its own, and in ``sides`` its numbers of voxels
    and its first element in ``voxel_bits``, the bits of its voxels.  Each of ``spheres`` spheres has its centre (voxel coordinates
    of the tracked image) and the square of its radius (mm) in ``balls``, and its bits in ``ball_bits``.
    ``side_x``, ``side_y`` and ``side_z`` are those of a voxel of the tracked image in mm.

    With further words, ``voxels``, ``voxel_bits`` (``word_stride`` elements a word) and ``ball_bits`` have the bits of
    one word after those of the other. ``further`` has, for each further word, the bits that count in any order and
    those of ordered regions, and in the end the number of ordered regions.  These begin with a word of their own then,
    and each word but the last is full of them.
    """

    voxels: Ints
    across: i32
    deep: i32
    high: i32
    grids: i32
    matrix: Reals
    sides: Ints
    voxel_bits: Ints
    spheres: i32
    balls: Reals
    ball_bits: Ints
    side_x: real
    side_y: real
    side_z: real
    word_stride: i32
    further: Ints


@func
def nearest(row: Reals, first: i32, p: vec3) -> i32:
    """Nearest voxel of a grid along one axis."""
    return i32(floor(coordinate(row, first, p) + 0.5))


@func
def voxel_of(p: real, size: i32) -> i32:
    """Nearest voxel along an axis of the tracked image, in which the point lies."""
    return minimum(maximum(i32(floor(p + 0.5)), 0), size - 1)


@func
def others_at(filter: Regions, p: vec3, word: i32) -> i32:
    """Bits in a word of the nearest voxels in grids, none outside, and of the spheres around a point."""
    regions = 0
    for g in range(filter.grids):
        x = nearest(filter.matrix, 12 * g, p)
        y = nearest(filter.matrix, 12 * g + 4, p)
        z = nearest(filter.matrix, 12 * g + 8, p)
        if (x >= 0) & (x < filter.sides[4 * g]) & (y >= 0) & (y < filter.sides[4 * g + 1]):
            if (z >= 0) & (z < filter.sides[4 * g + 2]):
                place = (x * filter.sides[4 * g + 1] + y) * filter.sides[4 * g + 2] + z
                if MORE:
                    place = place + word * filter.word_stride
                regions = regions | filter.voxel_bits[filter.sides[4 * g + 3] + place]
    for s in range(filter.spheres):
        dx = filter.side_x * (p[0] - filter.balls[4 * s])
        dy = filter.side_y * (p[1] - filter.balls[4 * s + 1])
        dz = filter.side_z * (p[2] - filter.balls[4 * s + 2])
        if dx * dx + dy * dy + dz * dz <= filter.balls[4 * s + 3]:
            if MORE:
                regions = regions | filter.ball_bits[word * filter.spheres + s]
            else:
                regions = regions | filter.ball_bits[s]
    return regions


@func
def bits_at(filter: Regions, p: vec3, word: i32) -> i32:
    """Bits in a word of the regions that hold a point of the image: of its nearest voxel in each grid, and of the spheres around it."""
    x = voxel_of(p[0], filter.across)
    y = voxel_of(p[1], filter.deep)
    z = voxel_of(p[2], filter.high)
    if MORE:
        x = x + word * filter.across
    regions = filter.voxels[(x * filter.deep + y) * filter.high + z]
    if regions >= MIXED:
        regions = (regions - MIXED) | others_at(filter, p, word)
    return regions


@func
def exclude_if_asked(visited: i32, answer: i32) -> i32:
    """Add EXCLUDE and DISORDER if ``answer`` has EXCLUDE, because of an ordered region, and no point was excluded before."""
    return where(((answer & EXCLUDE) != 0) & ((visited & EXCLUDE) == 0), visited | EXCLUDE | DISORDER, visited)


@func
def add_bits(filter: Demands, visited: i32, here: i32) -> i32:
    """Add the bits of a point that the streamline keeps to those that it has visited; adding a point twice changes nothing.

    EXCLUDE is also set by an ordered region that is entered before its turn, or again after the next one, and DISORDER if no
    point was excluded until then.
    """
    both = visited | (here & filter.counted)
    inside = here & filter.ordered
    lowest = inside & (0 - inside)  # of overlapping regions, MRtrix3 counts the first
    turn = (visited & filter.ordered) + filter.first  # bits of regions entered in order are consecutive
    if inside != 0:
        if lowest == turn:
            both = both | lowest
        elif lowest + lowest != turn:
            both = exclude_if_asked(both, EXCLUDE)
    return both


@func
def verdict_on(filter: Demands, visited: i32, start: i32, end: i32) -> i32:
    """The verdict on a streamline that has visited ``visited`` and ends in points with the bits ``start`` and ``end``."""
    verdict = MISSED_INCLUDE
    if (visited & filter.wanted) == filter.wanted:
        verdict = ENDS_ELSEWHERE
        crossed = (start & FIRST_END) * (end & SECOND_END) + (start & SECOND_END) * (end & FIRST_END)
        either = (start | end) & FIRST_END
        if (filter.ends == 0) | ((filter.ends == 1) & (either != 0)) | ((filter.ends == 2) & (crossed != 0)):
            verdict = ACCEPTED
    return verdict


@func
def number_of(inside: i32) -> i32:
    """Number of the lowest bit that is set."""
    number = WORD_BITS
    for b in range(WORD_BITS):
        if (number == WORD_BITS) & (((inside >> b) & 1) == 1):
            number = b
    return number


@func
def beyond(filter: Regions, p: vec3, more: Ints, place: i32, keep: i32) -> i32:
    """The consequences of a point for the regions of the further words: MET if all are visited then, and EXCLUDE as in
    ``add_bits``.

    From ``place`` on, ``more`` has the number of ordered regions that a half has entered, and the bits of each word that it has visited.
    If ``keep`` is 1, the point is one that the streamline keeps, and they are renewed.
    """
    turn = more[place]
    answer = MET
    lowest = -1
    barrier()  # all lanes have read the number of regions before one of them changes it
    for w in range(MORE):
        here = bits_at(filter, p, w + 1)
        visited = more[place + 1 + w] | (here & filter.further[2 * w])
        if visited != filter.further[2 * w]:
            answer = 0
        if keep == 1:
            more[place + 1 + w] = visited
        inside = here & filter.further[2 * w + 1]
        if (inside != 0) & (lowest < 0):
            lowest = number_of(inside)
            for v in range(w):
                if filter.further[2 * v + 1] != 0:
                    lowest = lowest + WORD_BITS
    if lowest >= 0:
        if lowest == turn:
            turn = turn + 1
        elif lowest + 1 != turn:
            answer = answer | EXCLUDE
    if turn != filter.further[2 * MORE]:
        answer = answer & EXCLUDE
    if keep == 1:
        more[place] = turn
        barrier()
    return answer


@func
def all_beyond(filter: Regions, more: Ints, forward: i32, backward: i32) -> i32:
    """1 if two halves together, whose bits begin at ``forward`` and ``backward``, have visited all regions of the further words, else 0."""
    met = 1
    if maximum(more[forward], more[backward]) != filter.further[2 * MORE]:
        met = 0
    for w in range(MORE):
        if (more[forward + 1 + w] | more[backward + 1 + w]) != filter.further[2 * w]:
            met = 0
    return met
