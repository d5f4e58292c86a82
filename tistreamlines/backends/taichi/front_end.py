"""A quicker front end of Taichi, the part that reads the source of kernels."""

from __future__ import annotations

import ast
import inspect
import textwrap
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from types import SimpleNamespace

from ...devices.compilers import Compiler

_reading = threading.RLock()


@contextmanager
def quick_front_end(compiler: Compiler) -> Iterator[None]:
    """Skip three quarters of the time in which Taichi reads a kernel; other threads that do so wait meanwhile.

    For each node of a function it formats the source, for error messages that concern authors of kernels. At each call of
    a function it wraps and parses its source again, and checks whether it belongs to a class.
    """
    with _reading, ExitStack() as undone:
        for owner, parts in (_replacements() if compiler.name == "taichi" else {}).items():
            for name, part in parts.items():
                undone.callback(setattr, owner, name, vars(owner)[name])
                setattr(owner, name, part)
        yield


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
