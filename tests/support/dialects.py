"""Kernel functions linked for a dialect and run on arrays given by name; compiled once for the whole test session."""

from __future__ import annotations

from typing import Any

import numpy as np
from linked import Linkable, parts_of

from tistreamlines.backends.numba.program import NumbaProgram
from tistreamlines.linker import interpreted as _python
from tistreamlines.linker.lang import Func
from tistreamlines.linker.parts import Source, filling

DIALECTS = ("python", "numba64", "numba32")
RELATIVE = {"python": 1e-12, "numba64": 1e-12, "numba32": 2e-6}

_programs: dict[Any, Any] = {}


def program(
    dialect: str, kernels: list[Func], linked: Linkable = None, scratch: dict[str, Any] | None = None
) -> Any:
    """Kernels as a backend's Program; equal requests share one. ``linked`` is what they are linked with."""
    parts, scratch = parts_of(linked), scratch or {}
    key = (dialect, *(id(k) for k in kernels), frozenset(filling(parts).items()), frozenset(scratch.items()))
    if key not in _programs:
        if dialect.startswith("python"):
            _programs[key] = _python.InterpretedProgram(Source(kernels, parts, scratch), native=dialect == "python")
        else:
            _programs[key] = NumbaProgram(Source(kernels, parts, scratch), bits=int(dialect[-2:]), threads=2)
    return _programs[key]


def run(
    dialect: str, kernel: Func, count: int, values: dict[str, Any], linked: Linkable = None,
    scratch: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Run a kernel for items 0 to ``count`` - 1; return the arrays it worked on, by name.

    Arrays of another type than the dialect's are copied, so what a kernel writes is in the result.
    """
    opened = program(dialect, [kernel], linked, scratch)
    held = {k: opened.array(v.ravel()) if isinstance(v, np.ndarray) else v for k, v in values.items()}
    opened.run(kernel.__name__, count, held)
    return held


def reals(size: int) -> np.ndarray:
    """An array for a kernel to fill with reals."""
    return np.zeros(size)


def ints(size: int) -> np.ndarray:
    """An array for a kernel to fill with whole numbers."""
    return np.zeros(size, np.int32)
