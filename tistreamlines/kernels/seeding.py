"""Seeds and points: what the host does with the same generator and the same arithmetic as the devices."""

from __future__ import annotations

from .lang import Ints, Reals, Record, i32, minimum, real, twin, u32, umulhi, vec3
from .peaks import Sphere, direction
from .propagate import CODE_BITS, Rules, stepped
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
    words: Ints, first: i32, length: i32, seed: vec3, rules: Rules, sphere: Sphere, affine: Affine, out: Reals,
    middle: i32, way: i32,
):  # fmt: skip
    """Write the points of a half-streamline, the seed left out, from its packed codes; ``way`` is its sense in ``out``."""
    p = seed
    place = middle
    for turn in range((length + 32 // CODE_BITS - 1) // (32 // CODE_BITS)):
        word = words[first + turn]
        for k in range(minimum(32 // CODE_BITS, length - turn * (32 // CODE_BITS))):
            p = stepped(p, direction(sphere, (word >> (k * CODE_BITS)) & ((1 << CODE_BITS) - 1)), rules)
            place = place + way
            write_point(p, affine, out, place)


@twin
def unpack(
    item: i32, words: Ints, slot: Ints, lengths: Ints, seeds: Reals, offset: Ints, rules: Rules, sphere: Sphere,
    affine: Affine, out: Reals,
):  # fmt: skip
    """Points of streamline ``item`` in RASmm: the backward half reversed, the seed, the forward half."""
    seed = vec3(seeds[3 * item], seeds[3 * item + 1], seeds[3 * item + 2])
    middle = offset[item] + lengths[2 * item + 1]
    write_point(seed, affine, out, middle)
    lay(words, slot[2 * item], lengths[2 * item], seed, rules, sphere, affine, out, middle, 1)
    lay(words, slot[2 * item + 1], lengths[2 * item + 1], seed, rules, sphere, affine, out, middle, 0 - 1)
