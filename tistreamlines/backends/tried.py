"""Versions of Numba whose private parts this package uses, each of which was tried.

Modules that make Numba quicker or keep its compiled code use private parts of it. With another version, they use only
public parts: kernels compile more slowly, with the same results. Of other compilers, only versions that were
tried can be installed.
"""

from __future__ import annotations

import re
from functools import cache

from ..installed import version_of
from ..linker.store import tell

FIRST, LAST = (0, 63), (0, 68)  # releases that were tried, and those between them


@cache
def is_tried() -> bool:
    """Whether the installed version was tried; if not, the user gets a note."""
    installed = version_of("numba")
    tried = FIRST <= tuple(int(number) for number in re.findall(r"\d+", installed)[:2]) <= LAST
    if not tried:
        untried = f"numba {installed} was not tried with this version of tistreamlines"
        tell(f"{untried}: kernels are compiled more slowly, with the same results")
    return tried
