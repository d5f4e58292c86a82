"""A quicker front end of Taichi, the part that reads the source of kernels."""

from __future__ import annotations

import ast
import inspect
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import SimpleNamespace

from ...devices.compilers import Compiler
from ..tried import is_tried

_reading = threading.RLock()


def is_quick(compiler: Compiler) -> bool:
    """Whether parts of a compiler are replaced to compile sooner."""
    return compiler.name == "taichi" and is_tried(compiler.package)


@contextmanager
def quick_front_end(compiler: Compiler) -> Iterator[None]:
    """Skip three quarters of the time in which Taichi reads a kernel; other threads that do so wait meanwhile.

    For each node of a function it formats the source, for error messages that concern authors of kernels. At each call of
    a function it wraps and parses its source again, and checks whether it belongs to a class.
    """
    quick = _replacements() if is_quick(compiler) else {}
    with _reading:
        held = [(owner, name, vars(owner)[name]) for owner, ours in quick.items() for name in ours]
        for owner, ours in quick.items():
            for name, value in ours.items():
                setattr(owner, name, value)
        try:
            yield
        finally:
            for owner, name, value in held:
                setattr(owner, name, value)


def _replacements() -> dict[object, dict[str, object]]:
    """Return what replaces parts of Taichi, by their owners and names."""
    from taichi.lang import kernel_impl
    from taichi.lang.ast.ast_transformer_utils import ASTTransformerContext as Context

    def position(context: Context, node: ast.expr | ast.stmt) -> str:
        return f'File "{context.file}", line {node.lineno + context.lineno_offset}\n'

    return {
        kernel_impl: {
            "_inside_class": lambda level_of_class_stackframe: False,
            "getsourcelines": cache(inspect.getsourcelines),
            "textwrap": SimpleNamespace(**vars(textwrap) | {"fill": lambda line, **_: line.rstrip("\n")}),
            "ast": SimpleNamespace(**vars(ast) | {"parse": cache(ast.parse)}),
        },
        Context: {"get_pos_info": position},
    }
