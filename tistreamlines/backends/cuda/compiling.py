"""Kernels that Taichi compiles for CUDA."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ..driven.memory import Compiled, Task
from .ptx import completed

if TYPE_CHECKING:
    from ..taichi.runtime import Runtime

WORD, ADDRESS = 4, 8  # bytes of a number, and of an address


def compiler(runtime: Runtime, text: str, exact: bool) -> Callable[[str], Compiled]:
    """Return what compiles the kernels of a module, by their names. The code is PTX.

    Taichi compiles a kernel when it launches it, so each one is launched without items, and writes the PTX to the current
    folder if it is asked to print it.
    """

    def compile_kernel(name: str) -> Compiled:
        with runtime.kernel(text, exact, name) as (kernel, taken):
            kernel(*taken.values())
            return _kernel(_written(Path.cwd(), name), taken, exact)

    return compile_kernel


def _written(place: Path, name: str) -> str:
    """Return the PTX that Taichi has written for a kernel, without the number that it has added to the name."""
    for path in place.glob("*.ptx"):
        text = path.read_text().rstrip("\0")
        if re.search(rf"\.entry {name}_c\d+_", text):
            return re.sub(rf"\b{name}_c\d+_\d+_", f"{name}_", text)
    raise RuntimeError(f"Taichi has not written the code of {name}")


def _kernel(text: str, arguments: dict[str, object], exact: bool) -> Compiled:
    places, size = [], 0
    for value in arguments.values():
        if isinstance(value, (int, float)):
            places.append((size, WORD))
            size += WORD
        else:  # an array's length, which is not read, comes before its address
            size += -size % ADDRESS
            places.append((size + ADDRESS, ADDRESS))
            size += 2 * ADDRESS
    size += -size % ADDRESS
    zero = places[list(arguments).index("_zero")][0] if exact else None
    entry = completed(text, dict(places), size, zero)
    task = Task(name=entry.name, code=entry.text, threads=entry.threads, groups=0)
    return Compiled(tasks=[task], places=[place for place, _ in places], bytes=size + WORD)
