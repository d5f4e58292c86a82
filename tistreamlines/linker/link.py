"""From kernel functions to the text of one compiler's module (a *dialect*).

The linker collects the kernel functions that roots call, rewrites each of them for a dialect and joins them in the text of
one module, or of one for each root.  Compilers see this text alone.  It can be read, and it is cached under a hash of itself,
so that kernels linked with different constants are never confused.

It changes a function's syntax tree as follows:

* records are spread into their fields, holes and constants are filled in, branches on constants are resolved;
* unused parameters are dropped, and so are the fields of a record that neither the function nor its callees read;
* products and sums of reals are guarded against fusing and reordering if the dialect needs it, running sums excepted;
* words (u32) wrap at 32 bits; literals get the dialect's precision; words of the language get the dialect's spelling.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from . import lang
from .dialect import Dialect
from .parts import Filling
from .rewriter import Rewriter


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
        """The text of a module with a root and what it calls, which is the same whatever else was linked with it."""
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
