"""Random seeds, drawn from the same generator as the steps of streamlines."""

from ...kernels.halves import Rules
from ...linker.lang import *
from ...linker.rng import SEEDING, STREAM, philox, uniform

TRIES = 64  # more would be needed once in 1e20 seeds


@func
def seeding(item: i32, part: i32, rules: Rules) -> words:
    """Random words of seed ``first_seed + item``: of its voxel or ball (``part`` 0), and of its place in that."""
    number = u32(item) + rules.first_seed
    return philox(number, u32(part), u32(0), u32(SEEDING << STREAM), u32(rules.key[0]), u32(rules.key[1]))


@func
def place_within(item: i32, voxel: i32, rules: Rules, voxels: Ints, out: Reals):
    """Place seed ``first_seed + item`` uniformly in a voxel."""
    where_in = seeding(item, 1, rules)
    out[3 * item] = real(voxels[3 * voxel]) + (uniform(where_in[0]) - 0.5)
    out[3 * item + 1] = real(voxels[3 * voxel + 1]) + (uniform(where_in[1]) - 0.5)
    out[3 * item + 2] = real(voxels[3 * voxel + 2]) + (uniform(where_in[2]) - 0.5)


@func
def place_seed(item: i32, rules: Rules, voxels: Ints, voxel_count: i32, out: Reals):
    """Place seed ``first_seed + item`` uniformly in one of ``voxel_count`` voxels (x, y and z of one after the other)."""
    which = seeding(item, 0, rules)
    place_within(item, i32(umulhi(which[0], u32(voxel_count))), rules, voxels, out)


@func
def place_in_voxel(item: i32, rules: Rules, voxels: Ints, out: Reals):
    """Place seed ``first_seed + item`` uniformly in voxel ``item``."""
    place_within(item, item, rules, voxels, out)


@func
def draw_share(item: i32, rules: Rules, out: Reals):
    """Two reals in [0, 1) by which the host chooses the voxel or the ball of seed ``first_seed + item``."""
    which = seeding(item, 0, rules)
    out[2 * item] = uniform(which[0])
    out[2 * item + 1] = uniform(which[1])


@func
def draw_attempt(item: i32, rules: Rules, items: Ints, attempts: Ints, out: Reals):
    """Seven reals in [0, 1) of an attempt, ``attempts[item]`` from 0 on, at seed ``first_seed + items[item]``.

    By two, the host chooses a voxel, three are the place in that, and two a shift.
    """
    which = seeding(items[item], 2 * attempts[item], rules)
    where_in = seeding(items[item], 2 * attempts[item] + 1, rules)
    out[7 * item] = uniform(which[0])
    out[7 * item + 1] = uniform(which[1])
    out[7 * item + 2] = uniform(where_in[0])
    out[7 * item + 3] = uniform(where_in[1])
    out[7 * item + 4] = uniform(where_in[2])
    out[7 * item + 5] = uniform(which[2])
    out[7 * item + 6] = uniform(which[3])


@func
def place_in_ball(item: i32, rules: Rules, out: Reals):
    """Place seed ``first_seed + item`` uniformly in the ball of radius 1: the first of the tries in a cube that is in it.

    Sums and products alone decide, so all devices agree.
    """
    x = 0.0
    y = 0.0
    z = 0.0
    attempt = 0
    while attempt < TRIES:
        attempt = attempt + 1
        drawn = seeding(item, attempt, rules)
        x = 2.0 * uniform(drawn[0]) - 1.0
        y = 2.0 * uniform(drawn[1]) - 1.0
        z = 2.0 * uniform(drawn[2]) - 1.0
        if (x * x + y * y) + z * z <= 1.0:
            attempt = TRIES
    out[3 * item] = x
    out[3 * item + 1] = y
    out[3 * item + 2] = z
