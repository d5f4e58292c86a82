"""The points of streamlines: the device packs the codes of their steps, and the host repeats the steps with its arithmetic."""

from ...linker.lang import *
from ..growth import move, set_out
from ..halves import *
from ..lanes import either
from ..orientation.peaks import NONE
from ..trail import Trail, cropped_end


@func
def pack(item: i32, earlier: i32, accepted: Ints, words_slot: Ints, halves: Halves, rules: Rules, out: Ints):
    """Copy the codes of a half of an accepted streamline, several to a word, to ``out``.

    It is half ``2 * earlier + item`` of the accepted ones, so that launches of a chunk share their arrays.
    ``words_slot`` has each one's first word among those of the chunk, ``out`` begins with the first word of this launch.
    """
    number = 2 * earlier + item
    half = 2 * accepted[number >> 1] + (item & 1)
    n = halves.state[2 * half]
    slot = words_slot[number] - words_slot[2 * earlier]
    for i in each((n + 32 // CODE_BITS - 1) // (32 // CODE_BITS)):
        word = 0
        for k in unrolled(32 // CODE_BITS):
            place = minimum(i * (32 // CODE_BITS) + k, n - 1)
            word = word | (halves.codes[code_place(half, place, rules)] << (k * CODE_BITS))
        out[slot + i] = word


class Affine(Record):
    """From one space to another, as from voxels to RASmm: rows of a 3 x 4 matrix."""

    xx: real
    xy: real
    xz: real
    x: real
    yx: real
    yy: real
    yz: real
    y: real
    zx: real
    zy: real
    zz: real
    z: real


@func
def transform_point(p: vec3, affine: Affine) -> vec3:
    """A point in the space that an affine leads to."""
    return vec3(
        ((affine.xx * p[0] + affine.xy * p[1]) + affine.xz * p[2]) + affine.x,
        ((affine.yx * p[0] + affine.yy * p[1]) + affine.yz * p[2]) + affine.y,
        ((affine.zx * p[0] + affine.zy * p[1]) + affine.zz * p[2]) + affine.z,
    )


@func
def write_points(p: vec3, affine: Affine, out: Reals, place: i32):
    """Write each lane's point in RASmm."""
    there = transform_point(p, affine)
    out[3 * place] = there[0]
    out[3 * place + 1] = there[1]
    out[3 * place + 2] = there[2]


class PointBuffers(Record):
    """Streamlines whose points are computed.

    For each streamline: its seed's number in the chunk, its number among the seed's directions, the codes of its initial
    direction and of the forward half's first step, its first point's place in ``out``.  For each half: its first word (if
    PAGED, its number among the halves that grew), its steps and its stop reason, and, if CROPS, where its end lies in its
    last segment (:func:`..trail.cropped_end`).  ``point`` has the seeds (voxel).  If ABREAST, ``order`` lists the halves
    in the order of the work, always 32 of one side together.
    """

    seed: Ints
    branch: Ints
    initial: Ints
    first: Ints
    point: Reals
    offset: Ints
    slot: Ints
    state: Ints
    cropped: Ints
    order: Ints


@func
def word_place(slot: i32, turn: i32, rules: Rules) -> i32:
    """Where a half's word lies: where words are PAGED, each has one code, as the kernels that grow it have left it."""
    place = slot + turn
    if PAGED:
        place = code_place(slot, turn, rules)
    return place


@func
def unpack(item: i32, words: Ints, laid: PointBuffers, run: Run, affine: Affine, out: Reals):
    """Compute the points of one half-streamline, or of 32, one in each lane (ABREAST), in RASmm; backward halves reversed.

    Lanes are faster if a step needs much arithmetic, a single half if memory is the limit.  A half that has ended writes
    its last point again while the other lanes go on.
    """
    if ABREAST:
        half = at(laid.order, 32 * item)
        side = laid.order[32 * item] & 1
        longest = i32(team_max(real(laid.state[2 * half])))
    else:
        half = item
        side = half & 1
        longest = laid.state[2 * half]
    streamline = half >> 1
    seed = 3 * laid.seed[streamline]
    p = vec3(laid.point[seed], laid.point[seed + 1], laid.point[seed + 2])
    place = laid.offset[streamline] + laid.state[4 * streamline + 2]
    write_points(p, affine, out, place)
    length = laid.state[2 * half]
    slot = laid.slot[half]
    c0 = u32(laid.seed[streamline]) + run.rules.first_seed
    c2 = u32(2 * laid.branch[streamline] + side)
    state = State()
    if CARRIED:
        if TAKES_BACK:
            first = laid.first[streamline]
        else:
            first = words[word_place(laid.slot[2 * streamline], 0, run.rules)] & ((1 << CODE_BITS) - 1)
            first = where(laid.state[4 * streamline] > 0, first, NONE)
        first = where(side == 1, first, NONE)
        set_out(Position(p, laid.initial[streamline], state, 0, c0, u32(0), c2), side, first, run)
    taken = 0
    if CROPS:
        trail = Trail()
        trail.before = p
        trail.earlier = p
    for turn in range((longest + 32 // CODE_BITS - 1) // (32 // CODE_BITS)):
        word = words[word_place(slot, where(turn * (32 // CODE_BITS) < length, turn, 0), run.rules)]
        for k in range(minimum(32 // CODE_BITS, longest - turn * (32 // CODE_BITS))):
            taken = taken + 1
            going = 1
            if ABREAST:
                going = where(taken <= length, 1, 0)
            code = (word >> (k * CODE_BITS)) & ((1 << CODE_BITS) - 1)
            ahead = move(Position(p, code, state, 0, c0, u32(taken), c2), run)
            if CROPS:
                trail.earlier = either(going, trail.before, trail.earlier)
                trail.before = either(going, p, trail.before)
            p = either(going, ahead, p)
            place = place + going * (1 - 2 * side)
            write_points(p, affine, out, place)
    if CROPS:
        trail.p = p
        part = laid.cropped[half]
        write_points(either(part, cropped_end(trail, part), p), affine, out, place)
