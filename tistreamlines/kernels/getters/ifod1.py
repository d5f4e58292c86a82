"""iFOD1: a step goes in a direction drawn in proportion to the FOD's amplitude at the point (Tournier et al. 2012).

The direction is drawn from a cone by rejection: the greatest amplitude along a grid of directions bounds it, and the first of
the random directions that is accepted is taken, as in MRtrix3's tckgen.  Each lane tries one direction, whose number is the
code of the step.
"""

from __future__ import annotations

from ...linker.lang import *
from ...linker.maths import exp, log
from ...linker.rng import philox, uniform
from ..halves import *
from ..interpolate import Volume
from ..lanes import everywhere, normalised
from ..orientation.harmonics import harmonic
from ..orientation.peaks import LEAVES, NONE
from .fod import GRID_CHUNKS, NUMBER_BITS, POWERED, Fod, across, azimuth, has_fod, root, start_of, turned
from .headings import Heading, HeadingScratch
from .tries import coded, drawn_with, number_of


@func
def drawn_course(method: Fod, d: vec3, u: vec3, w: words) -> vec3:
    """A random direction, uniform in the cone about ``d``."""
    a = azimuth(w[1])
    return turned(d, u, root(uniform(w[0])) * method.sine, a[0], a[1])


@func
def choose_course(
    volume: Volume, p: vec3, code: i32, state: Heading, method: Fod, scratch: HeadingScratch, attempt: i32, c0: u32, c1: u32,
    c2: u32, rules: Rules, stopping: Stopping,
) -> i32:  # fmt: skip
    """Number of the direction to take, NONE, or LEAVES where there is no FOD."""
    d = everywhere(state.d)
    u = everywhere(across(state.d))
    best = 0.0
    for chunk in range(GRID_CHUNKS):
        c = 96 * chunk
        t = turned(d, u, at(method.grid, c), at(method.grid, c + 32), at(method.grid, c + 64))
        best = maximum(best, team_max(harmonic(scratch.row, 0, t[0], t[1], t[2])))
    going = i32(team_max(real(has_fod(volume, everywhere(p)))))
    chosen = where(going == 1, NONE, LEAVES)
    going = where(best > 0.0, going, 0)
    turn = 0
    while (going == 1) & (turn * 32 < method.tries):
        number = lane() + 32 * turn
        w = philox(lanes(c0), lanes(c1), lanes(c2), u32(number), u32(rules.key[0]), u32(rules.key[1]))
        t = drawn_course(method, d, u, w)
        value = harmonic(scratch.row, 0, t[0], t[1], t[2])
        bound = uniform(w[2]) * method.ratio
        if POWERED:
            part = log(maximum(value, 1.0e-30)) - log(lanes(maximum(best, 1.0e-30)))
            fit = bound < exp(maximum(minimum(method.power * part, 80.0), -80.0))
        else:
            fit = bound * best < value
        lowest = team_min(where(fit & (value > method.threshold) & (number < method.tries), real(number), 1.0e6))
        if lowest < 1.0e6:
            chosen = coded(i32(lowest), NUMBER_BITS, c2)
            going = 0
        turn = turn + 1
    return chosen


@stage
def move_on_course(
    state: Heading, scratch: HeadingScratch, p: vec3, code: i32, volume: Volume, method: Fod, c0: u32, c1: u32, c2: u32,
    rules: Rules,
) -> vec3:  # fmt: skip
    """The point one step on."""
    branch = drawn_with(code, NUMBER_BITS, c2)
    w = philox(c0, c1, branch, number_of(code, NUMBER_BITS), u32(rules.key[0]), u32(rules.key[1]))
    state.d = normalised(drawn_course(method, state.d, across(state.d), w))
    return stepped(p, state.d, rules)


@stage
def set_out_on_course(
    state: Heading, scratch: HeadingScratch, initial: i32, side: i32, first: i32, p: vec3, volume: Volume, method: Fod, c0: u32,
    c2: u32, rules: Rules,
) -> i32:  # fmt: skip
    """Start in the direction that was found at the seed, a backward half against it."""
    d = start_of(method, c0, u32(initial >> 1), rules.key)
    sense = where(((initial ^ side) & 1) == 1, real(-1.0), real(1.0))
    state.d = vec3(sense * d[0], sense * d[1], sense * d[2])
    return initial ^ side
