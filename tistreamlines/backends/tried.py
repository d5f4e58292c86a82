"""Versions of Numba whose private parts this package uses, each of which was tried.

What makes Numba quicker, or keeps what it has made, replaces or calls private parts of it. With another version, only its
public ones are used: kernels are compiled more slowly, with the same results. Of other compilers, only versions that were
tried can be installed.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.metadata import version

from ..linker.store import tell

FIRST, LAST = (0, 63), (0, 68)  # releases that were tried, and those between them


@cache
def is_tried() -> bool:
    """Whether the version that is installed was tried; if not, the user is told."""
    installed = version("numba")
    tried = FIRST <= tuple(int(number) for number in re.findall(r"\d+", installed)[:2]) <= LAST
    if not tried:
        untried = f"numba {installed} was not tried with this version of tistreamlines"
        tell(f"{untried}: kernels are compiled more slowly, with the same results")
    return tried
