"""Programs that tests open again and again in one process are linked once.

The text of a program depends on its functions, on what these read of their modules, on what fills their holes, and on
the dialect. Where all of them are the same, so is the text, which takes longer to make than a small run to track.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tistreamlines.linker.dialect import Dialect
from tistreamlines.linker.lang import Func
from tistreamlines.linker.link import Linked

KERNELS = "tistreamlines.kernels"
PLAIN = bool, int, float, str, tuple, type(None)  # what is known by its text


class LinkedOnce:
    """The linker, which remembers what it has linked.

    Parameters
    ----------
    link : the linker, as one compiler calls it: two of its dialects that have the same name, header and decorator are
        the same.
    """

    def __init__(self, link: Callable[..., Linked]) -> None:
        self.link = link
        self._known: dict[Any, Linked] = {}
        self._states: dict[tuple[int, ...], tuple[int, list[Any]]] = {}

    def __call__(self, roots: Sequence[Func], dialect: Dialect, fill: Mapping[str, Any]) -> Linked:
        if not all(callable(value) or isinstance(value, PLAIN) for value in fill.values()):
            return self.link(roots, dialect, fill)
        # functions and records are known by themselves; 1, 1.0 and True are told apart
        filled = tuple((name, value if callable(value) else repr(value)) for name, value in sorted(fill.items()))
        functions = [*roots, *(value for value in fill.values() if isinstance(value, Func))]
        state = self._state({function.__module__ for function in functions})
        key = tuple(roots), filled, dialect.name, dialect.header, dialect.decorator, state
        if key not in self._known:
            self._known[key] = self.link(roots, dialect, fill)
        return self._known[key]

    def _state(self, modules: set[str]) -> int:
        """A number of what these modules and those of kernels hold: another one once a test has changed a constant."""
        names = sorted(modules | {name for name in sys.modules if name.startswith(KERNELS)})
        values = [value for name in names if name in sys.modules for value in list(vars(sys.modules[name]).values())]
        # the values are kept, so that nothing else comes to have the id of one of them
        return self._states.setdefault(tuple(map(id, values)), (len(self._states), values))[0]
