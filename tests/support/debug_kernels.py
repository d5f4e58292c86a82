"""A kernel that prints and stops, as whoever debugs writes it."""

from __future__ import annotations

from tistreamlines.linker.lang import Reals, func, i32


@func
def doubled(item: i32, a: Reals, out: Reals) -> None:
    """Twice a number, of which the first is looked at."""
    if item == 0:
        print("a is", a[item])
        breakpoint()
    out[item] = 2.0 * a[item]


@func
def beyond(item: i32, a: Reals, out: Reals) -> None:
    """A number that is not there."""
    out[item] = a[item + 1000]
