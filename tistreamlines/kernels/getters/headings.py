"""What getters have in common whose steps go in any direction: the heading of a half, and their team memory."""

from __future__ import annotations

from ...linker.lang import *


class Heading(Record):
    """What a half carries: the direction of its last step, or that with which it starts."""

    d: vec3


class Kept(Record):
    """Team memory of the initial direction."""

    kept: Ints

    @staticmethod
    def sizes(getter):
        return {"kept": 1}


class HeadingScratch(Record):
    """Team memory."""

    row: Reals
    peaks: Kept

    @staticmethod
    def sizes(getter):
        return {"row": 32 * getter.row.row_chunks}


@stage
def load_heading(state: Heading, scratch: HeadingScratch, code: i32, held: Reals, place: i32, stride: i32):
    """Restore the direction of the last step."""
    state.d = vec3(held[place], held[place + stride], held[place + 2 * stride])


@stage
def store_heading(state: Heading, scratch: HeadingScratch, held: Reals, place: i32, stride: i32):
    """Store the direction of the last step."""
    for i in each(3):
        held[place + stride * i] = where(i == 0, state.d[0], where(i == 1, state.d[1], state.d[2]))
