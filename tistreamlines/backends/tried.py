"""Versions of Numba whose private parts this package uses, each of which was tried.

Modules that make Numba quicker or keep its compiled code use private parts of it. With another version, they use only
public parts: kernels compile more slowly, with the same results. Of other compilers, only versions that were
tried can be installed.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.metadata import version

from ..linker.store import tell

TRIED = {"numba": ((0, 63), (0, 68))}  # the first and the last release


@cache
def is_tried(compiler: str) -> bool:
    """Whether the installed version was tried; if not, the user gets a note."""
    first, last = TRIED[compiler]
    installed = version(compiler)
    numbers = [int(number) for number in re.findall(r"\d+", installed)]
    tried = first <= tuple(numbers[: len(first)]) <= last
    if not tried:
        tell_slower(f"{compiler} {installed} was not tried with this version of tistreamlines")
    return tried


def tell_slower(reason: str) -> None:
    """Note why the private parts of a compiler are not used."""
    tell(f"{reason}: kernels are compiled more slowly, with the same results")
