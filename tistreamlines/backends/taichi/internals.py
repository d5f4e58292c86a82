"""What this package uses of a compiler beyond its documented functions, and what takes its place with other versions.

Names that a compiler does not document may change with any release. So they are used with the versions that were tried
(``backends.tried``); with others, only documented functions are, by the second class. The streamlines are the same.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from ...devices.compilers import Compiler
from ..tried import is_tried

imported_here: set[str] = set()  # modules of compilers that this package was the first to import


class Internals:
    """Parts of versions that were tried, once the compiler has started.

    Attributes
    ----------
    sliced : the teams of a block may share an array of its shared memory.
    """

    sliced = True

    def __init__(self, compiler: Compiler, ti: Any) -> None:
        self._compiler = compiler
        self._array_of = import_module(f"{compiler.module}.lang._ndarray").ScalarNdarray
        self._state = self._current(compiler)  # another one whenever the compiler starts or stops
        self._config = self._state.prog.config()

    @staticmethod
    def _current(compiler: Compiler) -> Any:
        return import_module(f"{compiler.module}.lang.impl").get_runtime()

    @classmethod
    def finish_start(cls, compiler: Compiler) -> None:
        """Do what only the thread that starts the compiler can do."""
        cls._current(compiler).materialize()

    @classmethod
    def runs(cls, compiler: Compiler) -> bool:
        """Whether a compiler that is imported runs in this process."""
        state = cls._current(compiler)
        # where others have None, Quadrants raises an error
        return (state._prog if hasattr(state, "_prog") else state.prog) is not None

    @property
    def goes_on(self) -> bool:
        """Whether the compiler still runs as it was started."""
        return self._current(self._compiler) is self._state and self.runs(self._compiler)

    def allow_reordering(self, allowed: bool) -> None:
        """Say whether kernels that are compiled from now on may reorder arithmetic."""
        self._config.fast_math = allowed  # read when a kernel is first called

    def array_class(self, forget: Callable[[Any], None]) -> Callable[..., Any]:
        """Return the class of arrays, which hand over their memory: Python may collect them in any thread, at any time."""
        is_finalizing = sys.is_finalizing  # at exit, modules lose their names before the last arrays are collected

        class DeviceArray(self._array_of):  # type: ignore[misc, name-defined]
            def __del__(self) -> None:
                if self.arr is not None and not is_finalizing():
                    forget(self.arr)

        return DeviceArray

    def free(self, handle: Any) -> None:
        """Free the memory that an array has handed over."""
        self._state.prog.delete_ndarray(handle)


class Documented:
    """The same by documented functions alone, as far as they go."""

    sliced = False  # so a block has one team
    goes_on = True  # that other code has stopped it is not noticed

    def __init__(self, compiler: Compiler, ti: Any) -> None:
        self._ti = ti

    @classmethod
    def finish_start(cls, compiler: Compiler) -> None:
        """Leave it to the first kernel."""

    @classmethod
    def runs(cls, compiler: Compiler) -> bool:
        """Whether other code, which has imported a compiler, may have started it: nothing tells."""
        return compiler.module not in imported_here

    def allow_reordering(self, allowed: bool) -> None:
        """Keep the order of arithmetic, as is allowed always."""

    def array_class(self, forget: Callable[[Any], None]) -> Callable[..., Any]:
        """Return the function that makes arrays, whose memory the compiler frees when Python collects them."""
        return self._ti.ndarray

    def free(self, handle: Any) -> None:
        """Do nothing: no memory is handed over."""


def internals_of(compiler: Compiler) -> type[Internals] | type[Documented]:
    """Return what can be used of a compiler."""
    return Internals if is_tried(compiler.package) else Documented
