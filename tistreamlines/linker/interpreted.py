"""The interpreted dialect: kernels as plain Python in float64, for debugging and as a reference in tests.

The kernels' division, square root and logarithm work on float32 bits; here numpy's float64 functions replace them.
"""

from __future__ import annotations

from collections.abc import Mapping

from .dialect import Dialect, calls
from .host_arrays import HostArrays
from .link import link
from .source import Source
from .store import load

HEADER = '''"""Made by tistreamlines from its kernel language; see tistreamlines/linker/link.py."""
from operator import truediv as divide

from numpy import log
from numpy import sqrt as square_root

from tistreamlines.linker.lang import *
'''
NATIVE = ("divide", "square_root", "log")

SPELL = calls(
    "real", "i32", "u32", "umulhi", "floor", "bits", "from_bits", "absolute", "minimum", "maximum", "where", "lane", "lanes",
    "at", "prefetch", "put", "add", "take", "spread", "collect", "team_any", "team_first", "team_last", "team_max", "team_min",
    "team_value", "raised", "barrier", "vec3", "words",
)


def dialect(native: bool = True) -> Dialect:
    """Python's spelling; without ``native`` division and square root are the kernels' own (exact on float32)."""
    return Dialect(
        name="python",
        header=HEADER,
        decorator="",
        spell=SPELL,
        literal=repr,
        wrap_words=True,
        replaced=NATIVE if native else ("log",),
    )


class InterpretedProgram(HostArrays):
    """Kernels linked for the interpreter.

    Parameters
    ----------
    source : what is linked.
    native : see :func:`dialect`.
    """

    def __init__(self, source: Source, *, native: bool = True) -> None:
        super().__init__(64)
        linked = link(source.roots, dialect(native), source.filling)
        self.signatures = {r.__name__: linked.signatures[r.__name__] for r in source.roots}
        self.scratch = source.scratch
        self.module = load(linked.text)

    def run(self, name: str, count: int, values: Mapping[str, object]) -> None:
        """Call kernel ``name`` for items 0 to ``count`` - 1 with arguments by name."""
        team = {n: self.empty(size, kind) for n, (kind, size) in self.scratch.items()}
        both, function = {**values, **team}, getattr(self.module, name)
        for item in range(count):
            function(*(item if n == "item" else both[n] for n, _ in self.signatures[name]))
