"""Kernels that Taichi compiles for CUDA."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

from ...devices import Device
from ..driven.memory import Compiled, Task
from .ptx import completed

WORD, ADDRESS = 4, 8  # bytes of a number, and of an address


def compiled(device: Device, text: str, exact: bool) -> dict[str, Compiled]:
    """Compile a module; see :func:`..driven.ahead.compiled`. The code is PTX.

    Taichi compiles a kernel when it launches it, so each one is launched without items, and writes the PTX to the current
    folder if it is asked to print it.
    """
    from ..taichi.runtime import start

    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        runtime = start(device, print_kernel_asm=True, offline_cache=False)
        kept = {}
        with runtime.kernels(text, exact) as kernels:
            for name, (kernel, taken) in kernels.items():
                kernel(*taken.values())
                kept[name] = _kernel(_written(Path(place), name), taken, exact)
        os.chdir("/")  # else Windows cannot remove the folder
    return kept


def _written(place: Path, name: str) -> str:
    """Return the PTX that Taichi has written for a kernel."""
    for path in place.glob("*.ptx"):
        text = path.read_text().rstrip("\0")
        if re.search(rf"\.entry {name}_c\d+_", text):
            return text
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
