"""A quicker front end of Taichi, the part that reads the source of kernels."""

from __future__ import annotations

import ast
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from ...devices.compilers import Compiler

_reading = threading.RLock()


@contextmanager
def quick_front_end(compiler: Compiler) -> Generator[None, None, None]:
    """Skip two thirds of the time in which Taichi reads a kernel; other threads that do so wait meanwhile.

    For each node of a function it formats the source, for error messages that concern authors of kernels.
    """
    if compiler.name != "taichi":
        yield
        return
    from taichi.lang.ast.ast_transformer_utils import ASTTransformerContext as Context

    with _reading:
        before = Context.get_pos_info
        setattr(Context, "get_pos_info", _position)  # noqa: B010 -- types of Taichi's method differ
        try:
            yield
        finally:
            setattr(Context, "get_pos_info", before)  # noqa: B010


def _position(context: Any, node: ast.expr | ast.stmt) -> str:
    return f'File "{context.file}", line {node.lineno + context.lineno_offset}\n'
