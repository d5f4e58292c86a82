"""iFOD1: a step goes in a direction drawn in proportion to the FOD's amplitude at the point (Tournier et al. 2012).

The direction is drawn from a cone by rejection: the greatest amplitude along a grid of directions bounds it, and the first of
the random directions that is accepted is taken, as in MRtrix3's tckgen.  Each lane tries one direction, whose number is the
code of the step.
"""

from ...linker.lang import *
from ...linker.maths import exp, log
from ...linker.rng import uniform
from ..halves import *
from ..lanes import either, everywhere, normalised
from ..orientation.amplitudes import harmonic
from ..orientation.peaks import LEAVES, NONE
from .fod import *
from .shared import HeadingScratch, coded, draw_alone, drawn_with, try_number


@func
def valued(scratch: HeadingScratch, d: vec3, u: vec3, turn: vec3) -> real:
    """The FOD in each lane's direction, whose turn from ``d`` is given as those of the grid are."""
    t = turned(d, u, turn[0], turn[1], turn[2])
    return harmonic(scratch.row, 0, t[0], t[1], t[2])


@func
def choose_course(position: Position, run: Run) -> i32:
    """Number of the direction to take, NONE, or LEAVES where there is no FOD."""
    d = everywhere(position.state.d)
    u = everywhere(across(position.state.d))
    number = lane() - GRID
    best = 0.0
    chosen = where(team_any(has_fod(run.volume, everywhere(position.p)) == 1) == 1, NONE, LEAVES)
    going = where(chosen == NONE, 1, 0)
    chunk = 0
    while going == 1:
        w = draws_of(number, position.c0, position.c1, position.c2, run.rules)
        turn = drawn(run.method, w)
        if chunk < GRID_CHUNKS:
            turn = either(0 - number, of_grid(run.method, chunk), turn)
        value = valued(run.scratch, d, u, turn)
        if chunk < GRID_CHUNKS:
            best = maximum(best, team_max(where(number < 0, value, 0.0)))
        chunk = chunk + 1
        if chunk >= GRID_CHUNKS:
            lowest = first_fit(run.method, value, best, uniform(w[2]), number)
            going = where((best > 0.0) & (AT_ONCE * chunk < GRID + run.method.tries), 1, 0)
            if (best > 0.0) & (lowest < 1.0e6):
                chosen = coded(i32(lowest), NUMBER_BITS, position.c2)
                going = 0
        number = number + AT_ONCE
    return chosen


@func
def first_fit(method: Fod, value: real, best: real, share: real, number: i32) -> real:
    """The least number of a random direction that is accepted, given the FOD in all and in the best one of the grid."""
    bound = share * method.ratio
    if POWERED:
        part = log(maximum(value, 1.0e-30)) - log(lanes(maximum(best, 1.0e-30)))
        fit = bound < exp(maximum(minimum(method.power * part, 80.0), -80.0))
    else:
        fit = bound * best < value
    fit = fit & (value > method.threshold) & (number >= 0) & (number < method.tries)
    return team_min(where(fit, real(number), 1.0e6))


@stage
def move_on_course(position: Position, run: Run) -> vec3:
    """The point one step on."""
    branch = drawn_with(position.code, NUMBER_BITS, position.c2)
    w = draw_alone(position.c0, position.c1, branch, try_number(position.code, NUMBER_BITS), run.rules.key)
    turn = drawn(run.method, w)
    position.state.d = normalised(turned(position.state.d, across(position.state.d), turn[0], turn[1], turn[2]))
    return stepped(position.p, position.state.d, run.rules)


@stage
def set_out_on_course(position: Position, side: i32, first: i32, run: Run) -> i32:
    """Start in the direction that was found at the seed, a backward half against it."""
    position.state.d = setting_out(position.code, side)
    return position.code ^ side
