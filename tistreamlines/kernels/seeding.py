"""Seeds and points: what the host does with the same generator and the same arithmetic as the devices."""

from __future__ import annotations

from .lang import Ints, Reals, Record, i32, minimum, real, twin, u32, umulhi, vec3
from .peaks import NONE
from .propagate import CARRIED, CODE_BITS, Method, Rules, Scratch, depart, moved
from .rng import philox, uniform

SEEDING = 1


@twin
def place_seed(item: i32, rules: Rules, voxels: Ints, voxel_count: i32, out: Reals):
    """Put seed ``first_seed + item`` anywhere in one of ``voxel_count`` voxels (x y z in turn), all equally likely."""
    number = u32(item) + rules.first_seed
    which = philox(number, u32(0), u32(0), u32(SEEDING << 28), u32(rules.key[0]), u32(rules.key[1]))
    where_in = philox(number, u32(1), u32(0), u32(SEEDING << 28), u32(rules.key[0]), u32(rules.key[1]))
    voxel = i32(umulhi(which[0], u32(voxel_count)))
    out[3 * item] = real(voxels[3 * voxel]) + (uniform(where_in[0]) - 0.5)
    out[3 * item + 1] = real(voxels[3 * voxel + 1]) + (uniform(where_in[1]) - 0.5)
    out[3 * item + 2] = real(voxels[3 * voxel + 2]) + (uniform(where_in[2]) - 0.5)


class Affine(Record):
    """Voxel to RASmm: rows of a 3 x 4 matrix."""

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


@twin
def write_point(p: vec3, affine: Affine, out: Reals, place: i32):
    """Write a point in RASmm."""
    out[3 * place] = ((affine.xx * p[0] + affine.xy * p[1]) + affine.xz * p[2]) + affine.x
    out[3 * place + 1] = ((affine.yx * p[0] + affine.yy * p[1]) + affine.yz * p[2]) + affine.y
    out[3 * place + 2] = ((affine.zx * p[0] + affine.zy * p[1]) + affine.zz * p[2]) + affine.z


@twin
def lay(
    words: Ints, first: i32, length: i32, seed: vec3, c0: u32, c2: u32, rules: Rules, method: Method, scratch: Scratch,
    affine: Affine, out: Reals, middle: i32, way: i32,
):  # fmt: skip
    """Write the points of a half-streamline, the seed left out, from its packed codes; ``way`` is its sense in ``out``."""
    p = seed
    place = middle
    taken = 0
    for turn in range((length + 32 // CODE_BITS - 1) // (32 // CODE_BITS)):
        word = words[first + turn]
        for k in range(minimum(32 // CODE_BITS, length - turn * (32 // CODE_BITS))):
            taken = taken + 1
            p = moved(p, (word >> (k * CODE_BITS)) & ((1 << CODE_BITS) - 1), method, scratch, c0, u32(taken), c2, rules)
            place = place + way
            write_point(p, affine, out, place)


class Laid(Record):
    """Streamlines to lay out: of each its seed in the chunk, number among the seed's directions, initial direction code,
    seed point, place in ``out``; of each half its first word and its steps.
    """

    seed: Ints
    branch: Ints
    initial: Ints
    point: Reals
    offset: Ints
    slot: Ints
    lengths: Ints


@twin
def unpack(
    item: i32, words: Ints, laid: Laid, rules: Rules, method: Method, scratch: Scratch, affine: Affine, out: Reals
):
    """Points of streamline ``item`` in RASmm: the backward half reversed, the seed, the forward half."""
    seed = vec3(laid.point[3 * item], laid.point[3 * item + 1], laid.point[3 * item + 2])
    middle = laid.offset[item] + laid.lengths[2 * item + 1]
    write_point(seed, affine, out, middle)
    c0 = u32(laid.seed[item]) + rules.first_seed
    for side in range(2):
        c2 = u32(laid.branch[item] * 2 + side)
        length = laid.lengths[2 * item + side]
        first = laid.slot[2 * item + side]
        if CARRIED:
            code = NONE
            if (side == 1) & (laid.lengths[2 * item] > 0):
                code = words[laid.slot[2 * item]] & ((1 << CODE_BITS) - 1)
            depart(method, scratch, laid.initial[item], side, code, c0, c2, rules)
        lay(words, first, length, seed, c0, c2, rules, method, scratch, affine, out, middle, 1 - 2 * side)
