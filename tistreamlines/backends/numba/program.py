"""The CPU: faces compiled by Numba, float32 as the GPUs have it, or float64 for reference."""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np

from ...kernels import lang
from ...linker.link import REALS, Face, link
from ...linker.store import load, made_by
from ..devices.host import usable_cores

TOGETHER = 16  # items that one thread takes at a time
LINE = 32  # elements that fill a cache's lines, or two
HEADER = '''"""Made by tistreamlines from its kernel language; see tistreamlines/linker/link.py."""
# compiled with {made_by}
import math
import numba
import numpy as np
from numba import njit
from tistreamlines.backends.numba import simd as _simd
from tistreamlines.linker.store import kept
from tistreamlines.backends.numba.simd import (absolute, at, bits, collect, floor, from_bits, i32, lane, lanes{p} as lanes, maximum, minimum,
    put, real{p} as real, take, team_max, team_min, u32, umulhi, where)
REAL = np.float{b}

'''
SCAN = {"scan": "from tistreamlines.backends.numba.simd import scan"}
# float64 for what the kernels make of float32 bits
NATIVE = SCAN | {
    "log": "from tistreamlines.backends.numba.simd import log8 as log",
    "divide": "@njit(error_model='numpy')\ndef divide(a, b):\n    return a / b",
    "square_root": "@njit\ndef square_root(a):\n    return math.sqrt(a)",
}


def _call(name: str):
    return lambda *args: f"{name}({', '.join(args)})"


def _spread(array: str, start: str, pattern: str, _table: str) -> str:
    return f"_spread_{hashlib.sha1(pattern.encode()).hexdigest()[:8]}({array}, {start})"


SPELL = {
    name: _call(name)
    for name in (
        "real", "i32", "u32", "umulhi", "floor", "bits", "from_bits", "absolute", "minimum", "maximum", "where", "lane",
        "lanes", "at", "put", "take", "collect", "team_min", "team_max",
    )
} | {
    "vec3": lambda *a: f"({', '.join(a)})",
    "words": lambda *a: f"({', '.join(a)})",
    "barrier": lambda: "pass",
    "spread": _spread,
}  # fmt: skip


def face(bits: int = 32, fast: bool = False) -> Face:
    """Numba's spelling; ``bits`` 32 is what tracks, 64 is for reference."""
    # they are called by kernels alone and make no arrays: no wrappers to compile, and no arrays to count references of
    inner = "no_cpython_wrapper=True, no_cfunc_wrapper=True, _nrt=False"
    options = f"error_model='numpy', nogil=True, {inner}" + (", fastmath=True" if fast else "")
    native = NATIVE if bits == 64 else SCAN
    return Face(
        name=f"numba{bits}{'fast' if fast else ''}",
        header=HEADER.format(p=bits // 8, b=bits, made_by=made_by()) + "".join(f"{text}\n\n\n" for text in native.values()),
        decorator=f"@njit({options})",
        spell=SPELL,
        literal=lambda x: f"real({x!r})",
        handed=lambda x: f"i32({x})",  # for a literal Numba would compile a version of its own
        wrap_words=True,
        replaced=tuple(native),
    )


@cache
def _workers(process: int, count: int) -> ThreadPoolExecutor:
    """Threads that wait for kernels; a process that was forked has none of its parent's."""
    return ThreadPoolExecutor(count, thread_name_prefix="kernels")


def entry_text(name: str, signature: list[tuple[str, str]]) -> str:
    """A thread's loop over items: it takes every so-manieth TOGETHER of them.

    Items that follow each other are close in space and share caches; a streamline's two halves go to one thread, since
    all forward halves may be longer than all backward ones.
    """
    names = [n for n, _ in signature]
    lines = [
        "@kept",
        "@njit(nogil=True, error_model='numpy', _nrt=False)",
        f"def run_{name}({', '.join(['count', 'thread', 'threads', *(n for n in names if n != 'item')])}):",
        f"    for _first in range({TOGETHER} * thread, count, {TOGETHER} * threads):",
        f"        for item in range(_first, _first + {TOGETHER}):",
        "            if item < count:",
        f"                {name}({', '.join(names)})",
    ]
    return "\n".join(lines) + "\n"


class Program:
    """Kernels linked for the CPU; ``run`` takes numpy arrays.

    The threads are Python's, since kernels let go of its lock: Numba's own loops take longer to compile and to start.
    """

    def __init__(
        self, roots: list[lang.Twin], fill: dict[str, Any], scratch: dict[str, tuple[str, int]], *, bits: int = 32,
        fast: bool = False, threads: int | None = None,
    ) -> None:  # fmt: skip
        import numba

        self.threads = threads or min(numba.get_num_threads(), usable_cores())  # no more than the caller has
        linked = link(roots, face(bits, fast), fill)
        patterns = {v for v in fill.values() if isinstance(v, tuple)}
        text = linked.text + "".join(
            f"\n{_spread('', '', repr(p), '').split('(')[0]} = _simd.make_spread({p!r})\n" for p in sorted(patterns)
        )
        self.signatures = {r.__name__: linked.signatures[r.__name__] for r in roots}
        self.scratch = scratch
        for name, signature in self.signatures.items():
            text += "\n\n" + entry_text(name, signature)
        self.module = load(text)
        self.real = np.dtype(f"float{bits}")

    def array(self, values: np.ndarray) -> np.ndarray:
        """An array that kernels can take."""
        return np.ascontiguousarray(values, self.real if values.dtype.kind == "f" else np.int32)

    def empty(self, size: int, kind: str) -> np.ndarray:
        """An array of ``kind`` to be filled by kernels."""
        return np.zeros(max(size, 1), self.real if kind == REALS else np.int32)

    def upload(self, array: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Copy values to the front of an array."""
        array[: len(values)] = values
        return array

    def host(self, array: np.ndarray, count: int) -> np.ndarray:
        """A copy of the first ``count`` elements in the host's memory."""
        return array[:count].copy()

    def sync(self) -> None:
        """Wait for the device."""

    def kernel_seconds(self) -> float:
        """Seconds in kernels since the last call; not measured here."""
        return 0.0

    def gather(self, name: str, count: int, values: dict[str, Any], out: np.ndarray, most: int) -> None:
        """Run a kernel whose int32 array ``out``, of at most so many elements, is wanted on the host."""
        self.run(name, count, values | {"out": out})

    def run(self, name: str, count: int, values: dict[str, Any]) -> None:
        """Call kernel ``name`` for items 0 to ``count`` - 1 with arguments by name; several threads may do so at once."""
        call = getattr(self.module, f"run_{name}")
        threads = max(1, min(self.threads, -(-count // TOGETHER)))
        shared = {n: self._scalar(values[n], k) for n, k in self.signatures[name] if n in values}

        def share(thread: int, items: int = count) -> None:
            call(items, thread, threads, *self._arguments(name, shared))

        if threads > 1 and not call.signatures:
            share(0, 0)  # compiled by one thread
        others = [_workers(os.getpid(), self.threads - 1).submit(share, thread) for thread in range(1, threads)]
        share(0)
        for other in others:
            other.result()

    def _arguments(self, name: str, shared: dict[str, Any]) -> list[Any]:
        """Arguments of a kernel, with team memory that shares no line of a cache with another thread's."""
        team = {n: self.empty(size + LINE, kind)[:size] for n, (kind, size) in self.scratch.items()}
        return [team[n] if n in team else shared[n] for n, _ in self.signatures[name] if n != "item"]

    def _scalar(self, value: Any, kind: str) -> Any:
        types = {"real": self.real.type, "int": np.int64, "word": np.uint32}
        return types[kind](value) if kind in types else value
