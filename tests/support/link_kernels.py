"""Kernels of records and of holes, to be linked."""

from __future__ import annotations

from tistreamlines.linker.lang import Constant, Hole, Reals, Record, func, i32, real

SCALE = Constant("a number that the test fills in")
operation = Hole("a function of two reals")


@func
def plus(a: real, b: real) -> real:
    """Sum."""
    return a + b


@func
def times(a: real, b: real) -> real:
    """Product."""
    return a * b


@func
def combine(item: i32, a: Reals, out: Reals):
    """The hole's function of neighbours, scaled."""
    out[item] = operation(a[item], a[item + 1]) * real(SCALE)


class Pair(Record):
    """Two numbers."""

    first: real
    second: real


class Nested(Record):
    """A record in a record."""

    pair: Pair
    table: Reals


@func
def second_of(pair: Pair) -> real:
    """The second number."""
    return pair.second


@func
def through(item: i32, nested: Nested, out: Reals):
    """Reach through records, and through a call that takes one."""
    out[item] = second_of(nested.pair) * 10.0 + nested.pair.first + nested.table[item]
