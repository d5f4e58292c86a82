"""From one kernel source to the text of a face.

The linker collects the kernel functions that a root calls, rewrites each for a face and joins them in one module
of plain text.  That text is all a compiler sees: it can be read, it is cached under a hash of itself, and two
linkings of one function can never be taken for each other.

What it does to a function's syntax tree:

* records are spread into their fields, holes and constants are filled in, branches on constants are cut;
* a function takes and hands on only what it uses, of a record the fields alone that it or its callees read;
* every product and every sum of reals is guarded where a face asks for it (see ``Face``), but for running sums;
* words (u32) wrap at 32 bits; literals take the face's precision; team operations take the face's spelling.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..kernels import lang
from .face import Face
from .rewriter import Rewriter


@dataclass
class Linked:
    """A linked module: its text, and for each function the flat list of (name, kind) that it takes."""

    text: str
    signatures: dict[str, list[tuple[str, str]]] = field(default_factory=dict)


def link(roots: Sequence[lang.Twin], face: Face, fill: Mapping[str, Any]) -> Linked:
    """Link kernel functions for a face.

    Parameters
    ----------
    roots : kernel functions to make callable.
    face : the compiler's spelling.
    fill : values of the constants, and functions and records for the holes, by name.
    """
    done: dict[str, str] = {}
    owner: dict[str, lang.Twin] = {}
    linked = Linked("")

    def visit(function: lang.Twin) -> list[tuple[str, str]]:
        """Link a function and its callees, which come first in the text; return what it takes."""
        name = function.__name__
        if owner.setdefault(name, function) is not function:
            raise ValueError(f"two kernel functions are called {name}")
        if name not in linked.signatures:
            rewriter = Rewriter(function, face, fill, visit)
            if name not in face.replaced:
                done[name] = rewriter.run()
            linked.signatures[name] = rewriter.parameters
        return linked.signatures[name]

    for root in roots:
        visit(root)
    linked.text = face.header + "\n\n" + "\n\n".join(done.values())
    return linked
