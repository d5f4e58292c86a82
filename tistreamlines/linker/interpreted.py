"""The interpreted face: kernels as plain Python over numpy in float64, to read, to step through, and to test against.

The kernels' own division, square root and logarithm are made of float32 bits; here numpy's float64 ones stand in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ..kernels import lang
from .link import INTS, REALS, Face, link
from .store import load

HEADER = '''"""Made by tistreamlines from its kernel language; see tistreamlines/linker/link.py."""
from tistreamlines.linker.interpreted import divide, log, square_root
from tistreamlines.kernels.lang import *
'''
NATIVE = ("divide", "square_root", "log")


def divide(a: Any, b: Any) -> Any:
    """``a / b``."""
    return a / b


def square_root(a: Any) -> Any:
    """Square root."""
    return np.sqrt(a)


def log(x: Any) -> Any:
    """Natural logarithm."""
    return np.log(x)


def _call(name: str) -> Callable[..., str]:
    return lambda *args: f"{name}({', '.join(args)})"


SPELL = {
    name: _call(name)
    for name in (
        "real", "i32", "u32", "umulhi", "floor", "bits", "from_bits", "absolute", "minimum", "maximum", "where", "lane",
        "lanes", "at", "put", "take", "spread", "collect", "team_min", "team_max", "barrier", "vec3", "words",
    )
}  # fmt: skip


def face(native: bool = True) -> Face:
    """Python's spelling; without ``native`` division and square root are the kernels' own (exact on float32)."""
    return Face(
        name="python",
        header=HEADER if native else HEADER.replace(" divide, log, square_root", " log"),
        decorator="",
        spell=SPELL,
        literal=repr,
        wrap_words=True,
        replaced=NATIVE if native else ("log",),
    )


class Program:
    """Kernels linked for the interpreter, with the interface of the other backends' programs."""

    real = np.dtype(np.float64)

    def __init__(
        self, roots: list[lang.Twin], fill: dict[str, Any], scratch: dict[str, tuple[str, int]], *, native: bool = True
    ) -> None:
        linked = link(roots, face(native), fill)
        self.signatures = {r.__name__: linked.signatures[r.__name__] for r in roots}
        self.scratch = scratch
        self.module = load(linked.text)

    def array(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """An array that kernels can take."""
        return np.ascontiguousarray(values, self.real if values.dtype.kind == "f" else np.int32)

    def empty(self, size: int, kind: str) -> npt.NDArray[Any]:
        """An array of ``kind`` to be filled by kernels."""
        return np.zeros(max(size, 1), self.real if kind == REALS else np.int32)

    def upload(self, array: npt.NDArray[Any], values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Copy values to the front of an array."""
        array[: len(values)] = values
        return array

    def host(self, array: npt.NDArray[Any], count: int) -> npt.NDArray[Any]:
        """A copy of the first ``count`` elements."""
        return array[:count].copy()

    def sync(self) -> None:
        """Wait for the device."""

    def kernel_seconds(self) -> float:
        """Seconds in kernels since the last call; not measured here."""
        return 0.0

    def gather(self, name: str, count: int, values: dict[str, Any], out: npt.NDArray[np.int32], most: int) -> None:
        """Run a kernel whose int32 array ``out``, of at most so many elements, is wanted."""
        self.run(name, count, values | {"out": out})

    def run(self, name: str, count: int, values: dict[str, Any]) -> None:
        """Call kernel ``name`` for items 0 to ``count`` - 1 with arguments by name."""
        team = {n: np.zeros(size, np.int32 if kind == INTS else self.real) for n, (kind, size) in self.scratch.items()}
        both, function = values | team, getattr(self.module, name)
        for item in range(count):
            function(*(item if n == "item" else both[n] for n, _ in self.signatures[name]))
