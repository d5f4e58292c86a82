"""Steps along vertices of the sphere: the code of a step is its direction, and the next step starts from that.

Methods that step differently have their own ``begin``, ``read``, ``choose`` and ``moved``, and ``depart`` if a half carries
more than its last code.
"""

from __future__ import annotations

from ...linker.lang import *
from ..growth import Method, Rules, Scratch, stepped
from ..interpolate import Volume, interpolate_row
from ..orientation.peaks import direction

initial_directions = Hole("the method's peaks at a seed")
next_direction = Hole("the method's choice of a direction")


@twin
def begin_by_row(volume: Volume, p: vec3, method: Method, scratch: Scratch) -> i32:
    """Find the initial directions at a point; return their number (``scratch.peaks.kept`` lists the vertices)."""
    interpolate_row(volume, p, scratch.row)
    return initial_directions(method, scratch)


@twin
def read_row(volume: Volume, p: vec3, row: Reals):
    """Interpolate all channels of the row."""
    interpolate_row(volume, p, row)


@twin
def choose_direction(
    volume: Volume, p: vec3, code: i32, method: Method, scratch: Scratch, attempt: i32, c0: u32, c1: u32, c2: u32, key: Ints
) -> i32:
    """Code of the next direction at the point whose row is in the scratch; NONE, or AGAIN for another draw."""
    return next_direction(method, scratch, direction(method.sphere, code), attempt, c0, c1, c2, key)


@twin
def moved_along(
    p: vec3, code: i32, method: Method, scratch: Scratch, c0: u32, c1: u32, c2: u32, rules: Rules
) -> vec3:
    """The point one step on in a coded direction."""
    return stepped(p, direction(method.sphere, code), rules)


ALONG_VERTICES = {
    "begin": begin_by_row, "read": read_row, "choose": choose_direction, "moved": moved_along,
    "CARRIED": 0, "DROPS_DEAD_END": 0,
}  # fmt: skip
