"""Where a streamline enters a region that it is rejected for."""

from ...linker.lang import *
from ..halves import *
from ..selection.regions import EXCLUDE, MORE, add_bits, beyond, exclude_if_asked
from ..trail import *
from .points import Affine, transform_point

bits_at = Hole("bits of a point, see the module regions")


@func
def find_entry(item: i32, earlier: i32, accepted: Ints, run: Run, affine: Affine, ends: Ints):
    """Find the first point of a streamline that a region rejects, by repeating its steps: of the forward half, else of the other.

    It is number ``accepted[earlier + item]``, and its halves have grown in turn. From ``ends[7 * item]`` on stand the bits of
    the point. It is the seed if no point is rejected.
    """
    streamline = accepted[earlier + item]
    c0 = u32(run.halves.seed[streamline]) + run.rules.first_seed
    place = 3 * run.halves.seed[streamline]
    here = vec3(run.seeds.points[place], run.seeds.points[place + 1], run.seeds.points[place + 2])
    entered = 0
    for side in range(2):
        half = 2 * streamline + side
        c2 = u32(run.halves.branch[streamline] * 2 + side)
        state = State()
        trail = Trail()
        begin_again(trail, state, half, c0, c2, run)
        steps = run.halves.state[2 * half]
        visited = 0
        if MORE:
            for k in range(MORE + 1):
                run.halves.more[(MORE + 1) * half + k] = 0
            barrier()
        k = 0
        while (entered == 0) & (k <= steps):
            visited = add_bits(run.filter, visited, bits_at(run.filter, trail.p, 0))
            if MORE:
                visited = exclude_if_asked(visited, beyond(run.filter, trail.p, run.halves.more, (MORE + 1) * half, 1))
            if (visited & EXCLUDE) != 0:
                entered = 1
                here = trail.p
            elif k < steps:
                take_again(trail, state, half, k, steps, c0, c2, run)
            k = k + 1
    there = transform_point(here, affine)
    ends[7 * item] = bits(there[0])
    ends[7 * item + 1] = bits(there[1])
    ends[7 * item + 2] = bits(there[2])
