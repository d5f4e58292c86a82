"""How Numba spells the kernel language, in float32, as GPUs have it, or in float64 for reference."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from functools import lru_cache

from ...linker.dialect import WORDS, Dialect, calls
from ..tried import is_tried
from .cache import made_by

HEADER = '''"""Made by tistreamlines from its kernel language; see tistreamlines/linker/link.py."""
# compiled with {made_by}
import math
import numpy as np
from numba import njit
from tistreamlines.backends.numba.compiler import compiled, kernel
from tistreamlines.backends.numba.lanes import i32, lanes{p} as lanes, real{p} as real, u32
from tistreamlines.backends.numba.memory import add, at, claim, make_spread, prefetch, put, take
from tistreamlines.backends.numba.simd import (absolute, bits, collect, floor, from_bits, lane, maximum, minimum, raised, team_any, team_first,
    team_last, team_max, team_min, team_value, umulhi, where)
from tistreamlines.backends.numba.simd import index as _index
REAL = np.float{b}

'''
# in float64, what the kernels compute from the bits of a float32
NATIVE = {
    "log": "from tistreamlines.backends.numba.simd import log8 as log",
    "divide": "@njit(error_model='numpy')\ndef divide(a, b):\n    return a / b",
    "square_root": "@njit\ndef square_root(a):\n    return math.sqrt(a)",
}


def spread(array: str, start: str, pattern: str, _table: str = "") -> str:
    """A call of the function that reads lanes by one pattern of offsets."""
    return f"{spread_name(pattern)}({array}, {start})"


def spread_name(pattern: str) -> str:
    """Name of that function."""
    return f"_spread_{hashlib.sha1(pattern.encode()).hexdigest()[:8]}"


def _tuple(*texts: str) -> str:
    return f"({', '.join(texts)})"


SPELL = calls(*WORDS) | {"vec3": _tuple, "words": _tuple, "barrier": lambda: "pass", "spread": spread}


def dialect(bits: int = 32, fast: bool = False) -> Dialect:
    """Return Numba's spelling; ``bits`` is 32 for tracking or 64 for reference."""
    options = "error_model='numpy', nogil=True" + (", fastmath=True" if fast else "")
    if is_tried():
        # kernels alone call these functions and they make no arrays: no wrappers to compile, no references to count
        options += ", no_cpython_wrapper=True, no_cfunc_wrapper=True, _nrt=False"
    native = NATIVE if bits == 64 else {}
    return Dialect(
        name=f"numba{bits}{'fast' if fast else ''}",
        header=HEADER.format(p=bits // 8, b=bits, made_by=made_by()) + "".join(f"{text}\n\n\n" for text in native.values()),
        decorator=f"@kernel({options})",
        spell=SPELL,
        literal=lambda x: f"real({x!r})",
        handed=lambda x: f"i32({x})",  # Numba would compile another version for a literal
        index=lambda x: f"_index({x})",
        wrap_words=True,
        replaced=tuple(native),
    )


@lru_cache(64)  # texts of programs that are opened again and again
def inlined_once(text: str) -> str:
    """Return a module in which functions become part of their caller where there is only one call of them.

    Kernels call each other with up to a hundred arguments, most of which go through memory. It does not pay where halves carry
    numbers: ``ptt`` would take 1.2 times as long.
    """
    calls = Counter(re.findall(r"\b(\w+)\(", text))  # a definition looks like one, too

    def chosen(matched: re.Match[str]) -> str:
        options = f"{matched[1]}, forceinline=True" if calls[matched[2]] <= 2 else matched[1]
        return f"@kernel({options})\ndef {matched[2]}("

    return re.sub(r"@kernel\((.*)\)\ndef (\w+)\(", chosen, text)
