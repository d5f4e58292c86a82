"""A quicker front end of Taichi, the part that reads the source of kernels."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import SimpleNamespace


@contextmanager
def quick_front_end() -> Iterator[None]:
    """Skip three quarters of the time in which Taichi reads a kernel.

    For each node of a function it formats the source, for error messages that concern authors of kernels. At each call of
    a function it wraps and parses its source again, and checks whether it belongs to a class.
    """
    from taichi.lang import kernel_impl
    from taichi.lang.ast.ast_transformer_utils import ASTTransformerContext as Context

    def position(context: Context, node: ast.AST) -> str:
        return f'File "{context.file}", line {node.lineno + context.lineno_offset}\n'

    quick = {
        "_inside_class": lambda level_of_class_stackframe: False,
        "getsourcelines": cache(inspect.getsourcelines),
        "textwrap": SimpleNamespace(**vars(textwrap) | {"fill": lambda line, **_: line.rstrip("\n")}),
        "ast": SimpleNamespace(**vars(ast) | {"parse": cache(ast.parse)}),
    }
    held, held_position = {name: getattr(kernel_impl, name) for name in quick}, Context.get_pos_info
    vars(kernel_impl).update(quick)
    Context.get_pos_info = position
    try:
        yield
    finally:
        vars(kernel_impl).update(held)
        Context.get_pos_info = held_position
