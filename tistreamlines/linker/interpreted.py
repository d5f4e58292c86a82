"""The interpreted dialect: kernels as plain Python, for debugging and as a reference in tests.

In float32, the kernels compute what they do on every device, bit for bit. In float64, numpy's functions replace their
division, square root and logarithm, which work on the bits of a float32.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, wait

import numpy as np

from ..aliases import Array
from .dialect import WORDS, Dialect, calls
from .host_arrays import HostArrays
from .link import link
from .parts import Source
from .records import REAL
from .store import load

HEADER = '''"""Made by tistreamlines from its kernel language; see tistreamlines/linker/link.py."""
from operator import truediv as divide

from numpy import log
from numpy import sqrt as square_root

from tistreamlines.linker.lang import *
'''
# words of the language whose result is a real
SINGLE = """from numpy import float32 as real
from numpy import floor

from tistreamlines.linker import lang


def from_bits(x):
    return real(lang.from_bits(x))
"""
NATIVE = ("divide", "square_root", "log")


def dialect(native: bool = True, bits: int = 64) -> Dialect:
    """Python's spelling; without ``native`` division and square root are the kernels' own (exact on float32)."""
    single = bits == 32
    return Dialect(
        name=f"python{bits}",
        header=HEADER + (SINGLE if single else ""),
        decorator="",
        spell=calls(*WORDS),
        literal=(lambda x: f"real({x!r})") if single else repr,
        wrap_words=True,
        replaced=() if single else NATIVE if native else ("log",),
        debugs=True,
    )


class InterpretedProgram(HostArrays):
    """Kernels linked for the interpreter, which ``breakpoint()`` and ``print`` in a kernel stop and print.

    Parameters
    ----------
    source : what is linked.
    native : see :func:`dialect`.
    bits : of a real: 64, or 32 as on devices.
    """

    def __init__(self, source: Source, *, native: bool = True, bits: int = 64) -> None:
        super().__init__(bits)
        linked = link(source.roots, dialect(native, bits), source.filling)
        self.signatures = {r.__name__: linked.signatures[r.__name__] for r in source.roots}
        self.scratch = source.scratch
        self.module = load(linked.text)

    def run(self, name: str, count: int, values: Mapping[str, object]) -> None:
        """Call kernel ``name`` for items 0 to ``count`` - 1 with arguments by name."""
        team = {n: self.empty(size, kind) for n, (kind, size) in self.scratch.items()}
        both, function = {**values, **team}, getattr(self.module, name)
        both |= {n: self.real.type(both[n]) for n, kind in self.signatures[name] if kind == REAL}
        with np.errstate(all="ignore"):  # as compilers do
            for item in range(count):
                function(*(item if n == "item" else both[n] for n, _ in self.signatures[name]))

    def also_read(self, array: Array, reader: Future) -> None:
        """Wait for a reader of an array before kernels write to it again."""
        wait([reader])
