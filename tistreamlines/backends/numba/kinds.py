"""Types of the arguments of functions, as processes describe them to each other without Numba."""

from __future__ import annotations


class TupleKind(tuple["Kind", ...]):
    """The kinds of the items of a tuple."""


Kind = tuple[str, str, int] | TupleKind  # the type of a number, 'number' or 'array', and the number of axes
