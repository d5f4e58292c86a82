"""Programs that one process opens again and again are linked once.

The text of a program depends on its functions, on what these read of their modules, on what fills their holes, and on
the dialect. Where all of them are the same, so is the text, which takes longer to make than a small run to track.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Sequence

from .dialect import Dialect
from .lang import Func
from .link import Linked, link
from .parts import Filling

KERNELS = "tistreamlines.kernels", "tistreamlines.linker.maths", "tistreamlines.linker.rng"
PLAIN = bool, int, float, str, tuple, type(None)  # what is known by its text


class LinkedOnce:
    """The linker, which remembers what it has linked.

    Parameters
    ----------
    link : the linker. Two dialects that have the same name, header, decorator and replaced functions are the same.
    """

    def __init__(self, link: Callable[..., Linked]) -> None:
        self.link = link
        self._known: dict[Hashable, Linked] = {}
        self._states: dict[tuple[int, ...], tuple[int, list[object]]] = {}

    def __call__(self, roots: Sequence[Func], dialect: Dialect, filling: Filling) -> Linked:
        if not all(callable(value) or isinstance(value, PLAIN) for value in filling.values()):
            return self.link(roots, dialect, filling)
        # functions and records are known by themselves; 1, 1.0 and True are told apart
        filled = tuple((name, value if callable(value) else repr(value)) for name, value in sorted(filling.items()))
        functions = [*roots, *(value for value in filling.values() if isinstance(value, Func))]
        state = self._state({function.__module__ for function in functions})
        key = tuple(roots), filled, dialect.name, dialect.header, dialect.decorator, dialect.replaced, state
        if key not in self._known:
            self._known[key] = self.link(roots, dialect, filling)
        return self._known[key]

    def _state(self, modules: set[str]) -> int:
        """Return a number of what these modules and those of kernels hold: another one once a constant was changed."""
        names = sorted(modules | {name for name in sys.modules if name.startswith(KERNELS)})
        values = [value for name in names if name in sys.modules for value in list(vars(sys.modules[name]).values())]
        # the values are kept, so that nothing else comes to have the id of one of them
        return self._states.setdefault(tuple(map(id, values)), (len(self._states), values))[0]


link_once = LinkedOnce(link)
