"""From kernel functions to the text of one compiler's module (a *dialect*).

The linker collects the kernel functions that roots call, rewrites each of them for a dialect and joins them in the text of
one module, or of one for each root.  Compilers see this text alone.  It can be read, and it is cached under a hash of itself,
so that kernels linked with different constants are never confused.

It changes a function's syntax tree as follows:

* it spreads records into their fields, fills holes and constants in, and resolves branches on constants;
* it drops unused parameters, and fields of a record that neither the function nor its callees read;
* products and sums of reals are guarded against fusing and reordering if the dialect needs it, running sums excepted;
* words (u32) wrap at 32 bits; literals get the dialect's precision; words of the language get the dialect's spelling.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field

from . import lang
from .dialect import Dialect
from .parts import Filling
from .rewriter import Rewriter

KERNELS = "tistreamlines.kernels", "tistreamlines.linker.maths", "tistreamlines.linker.rng", "tistreamlines.linker.wide_maths"
PLAIN = bool, int, float, str, tuple, type(None)  # what is known by its text


@dataclass(eq=False, repr=False)
class Linked:
    """Linked functions: the flat (name, kind) parameters of each, its text, and the names of all that its module needs.

    These are those that it calls, which may call others, and then its own.
    """

    header: str
    signatures: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    functions: dict[str, str] = field(default_factory=dict)
    needed: dict[str, list[str]] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The text of a module with all functions."""
        return self._module(self.functions)

    def text_for(self, root: str) -> str:
        """The text of a module with a root and its callees, which is the same for all other roots."""
        return self._module(self.needed[root])

    def _module(self, names: Iterable[str]) -> str:
        return self.header + "\n\n" + "\n\n".join(self.functions[name] for name in names)


def link(roots: Sequence[lang.Func], dialect: Dialect, filling: Filling) -> Linked:
    """Link kernel functions for a dialect.

    Parameters
    ----------
    roots : kernel functions that are called from outside.
    dialect : the compiler's spelling.
    filling : values of the constants, and functions and records for the holes, by their names in small letters; see
        :mod:`.parts`.

    Raises
    ------
    SyntaxError, NameError
        If a function uses something that the kernel language does not have, or a name without a value.
    KeyError
        If a constant or a hole is not filled.
    ValueError
        If two different functions have the same name.
    """
    owner: dict[str, lang.Func] = {}
    linked = Linked(dialect.header)

    def visit(function: lang.Func) -> list[tuple[str, str]]:
        """Link a function, after its callees; return its parameters."""
        name = function.__name__
        if owner.setdefault(name, function) is not function:
            raise ValueError(f"two kernel functions are called {name}")
        if name not in linked.signatures:
            needed: list[str] = []
            linked.needed[name] = needed

            def callee(function: lang.Func) -> list[tuple[str, str]]:
                parameters = visit(function)
                needed.extend(inner for inner in linked.needed[function.__name__] if inner not in needed)
                return parameters

            rewriter = Rewriter(function, dialect, filling, callee)
            if name not in dialect.replaced:
                linked.functions[name] = rewriter.run()
                needed.append(name)
            linked.signatures[name] = rewriter.parameters
        return linked.signatures[name]

    for root in roots:
        visit(root)
    return linked


class LinkedOnce:
    """The linker, which remembers what it has linked: programs that one process opens again and again are linked once.

    The text of a program depends on its functions, the names that these read of their modules, the values of their
    holes, and the dialect. The same functions, values and dialect give the same text, which takes longer to make than a
    small run to track.

    Parameters
    ----------
    link : the linker. Two dialects that have the same name, header, decorator and replaced functions are the same.
    """

    def __init__(self, link: Callable[..., Linked]) -> None:
        self.link = link
        self._known: dict[Hashable, Linked] = {}
        self._states: dict[tuple[int, ...], tuple[int, list[object]]] = {}

    def __call__(self, roots: Sequence[lang.Func], dialect: Dialect, filling: Filling) -> Linked:
        if not all(callable(value) or isinstance(value, PLAIN) for value in filling.values()):
            return self.link(roots, dialect, filling)
        # functions and records are known by themselves; 1, 1.0 and True differ
        filled = tuple((name, value if callable(value) else repr(value)) for name, value in sorted(filling.items()))
        functions = [*roots, *(value for value in filling.values() if isinstance(value, lang.Func))]
        state = self._state({function.__module__ for function in functions})
        key = tuple(roots), filled, dialect.name, dialect.header, dialect.decorator, dialect.replaced, state
        if key not in self._known:
            self._known[key] = self.link(roots, dialect, filling)
        return self._known[key]

    def _state(self, modules: set[str]) -> int:
        """Return a number of the contents of these modules and of kernels: another one once a constant was changed."""
        # a tuple, since other threads import
        names = sorted(modules | {name for name in tuple(sys.modules) if name.startswith(KERNELS)})
        values = [value for name in names if name in sys.modules for value in list(vars(sys.modules[name]).values())]
        # the values are kept, so that nothing else comes to have the id of one of them
        return self._states.setdefault(tuple(map(id, values)), (len(self._states), values))[0]


link_once = LinkedOnce(link)
