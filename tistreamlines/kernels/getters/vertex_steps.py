"""Steps along vertices of the sphere: the code of a step is its direction, and the next step starts from that.

Getters that step differently have parts of their own in place of these.
"""

from __future__ import annotations

from ...linker.lang import *
from ..halves import *
from ..interpolate import Volume, interpolate_row, prefetch_row
from ..orientation.peaks import NONE, direction
from ..orientation.pmf import toward

read_all = Hole("reads the whole orientation function at a point")
initial_directions = Hole("the getter's peaks at a seed")
next_direction = Hole("the getter's choice of a direction")
pick = Hole("stage: the getter's choice of a vertex in the cone; NONE if no sample counts")


class Vertex(Record):
    """What a half carries beside the code of its last direction, or of its first one: nothing."""


@func
def begin_by_row(volume: Volume, p: vec3, method: Method, scratch: Scratch, c0: u32, key: Ints) -> i32:
    """Find the initial directions at a point; return their number (``scratch.peaks.kept`` lists the vertices)."""
    read_all(volume, p, method, scratch)
    return initial_directions(method, scratch)


@func
def read_whole_row(volume: Volume, p: vec3, method: Method, scratch: Scratch):
    """Interpolate all channels of the row into the team's memory."""
    interpolate_row(volume, p, scratch.row)


@stage
def set_out_along(position: Position, side: i32, first: i32, run: Run) -> i32:
    """Start along the initial direction, a backward half opposite to the forward half's first step if there is one."""
    return where(first == NONE, position.code, first) ^ side


@func
def choose_direction(position: Position, run: Run) -> i32:
    """Code of the next direction at the point whose row is in the scratch; NONE, or AGAIN for another draw."""
    return next_direction(run.method, run.scratch, direction(run.method.sphere, position.code), position.attempt, position.c0, position.c1, position.c2, run.rules.key)


@stage
def choose_in_cone(position: Position, run: Run) -> i32:
    """The same of getters that ask for nothing but the samples within the greatest angle to the last direction."""
    barrier()
    number = pick(run.volume, position.p, position.code, run.method, run.scratch, position.c0, position.c1, position.c2, run.rules.key)
    return toward(run.method.sphere, number, direction(run.method.sphere, position.code))


@stage
def move_along(position: Position, run: Run) -> vec3:
    """The point one step on in a coded direction."""
    return stepped(position.p, direction(run.method.sphere, position.code), run.rules)


@stage
def prefetch_along(p: vec3, code: i32, volume: Volume, method: Method, rules: Rules):
    """Ask caches for the rows around the point that a step straight on would lead to, since most steps lead close to it."""
    prefetch_row(volume, stepped(p, direction(method.sphere, code), rules))
