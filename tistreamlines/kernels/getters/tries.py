"""Codes of steps that are drawn again from them: the number of the try that was accepted, and what a recovery drew it with.

A recovery adds to the third word of the random numbers' counter, so that steps that are taken again draw other numbers.
"""

from __future__ import annotations

from ...linker.lang import *
from ...linker.rng import PARTICLE, philox


@func
def added_to(c2: u32) -> i32:
    """What a recovery has added to the third word of the counter."""
    return i32(c2 >> u32(PARTICLE))


@func
def coded(number: i32, bits: i32, c2: u32) -> i32:
    """Code of the try with this number, which has so many bits, drawn with this third word of the counter."""
    return number | (added_to(c2) << bits)


@func
def try_number(code: i32, bits: i32) -> u32:
    """Number of the try."""
    return u32(code & ((1 << bits) - 1))


@func
def recovery_of(code: i32, bits: i32) -> i32:
    """What a recovery had added when the try was drawn."""
    return code >> bits


@func
def drawn_with(code: i32, bits: i32, c2: u32) -> u32:
    """The third word of the counter with which the try was drawn."""
    return (c2 & u32((1 << PARTICLE) - 1)) | (u32(recovery_of(code, bits)) << u32(PARTICLE))


@func
def draw_alone(c0: u32, c1: u32, c2: u32, number: u32, key: Ints) -> words:
    """Random words of one try; where c0 is a lane value, of one in each lane."""
    none = c0 & u32(0)
    return philox(c0, c1 | none, c2 | none, number, u32(key[0]), u32(key[1]))
