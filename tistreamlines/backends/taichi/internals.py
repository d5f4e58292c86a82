"""What this package uses of a compiler beyond its documented functions, and what takes its place with other versions.

Names that a compiler does not document may change with any release. So :class:`Internals` uses them only with versions
that were tried (``backends.tried``). With others, :class:`Documented` takes its place, which uses documented functions
alone. The streamlines are the same.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any, Protocol

from ...devices.compilers import Compiler
from ..tried import is_tried

imported_here: set[str] = set()  # modules of compilers that this package was the first to import


class Ndarray(Protocol):
    """An array on the device, as a compiler has it."""

    dtype: object

    def __init__(self, dtype: object, shape: tuple[int, ...]) -> None: ...

    def fill(self, value: int) -> None:
        """Set all elements."""


class Internals:
    """Parts of versions that were tried, once the compiler has started.

    Attributes
    ----------
    sliced : the teams of a block may share an array of its shared memory.
    """

    sliced = True

    def __init__(self, compiler: Compiler, ti: ModuleType) -> None:
        self._array_of = import_module(f"{compiler.module}.lang._ndarray").ScalarNdarray
        self._current = _state_of(compiler)
        self._state = self._current()  # another one whenever the compiler starts or stops
        self._config = self._state.prog.config()

    @staticmethod
    def finish_start(compiler: Compiler) -> None:
        """Do what only the thread that starts the compiler can do."""
        _state_of(compiler)().materialize()

    @staticmethod
    def runs(compiler: Compiler) -> bool:
        """Whether a compiler that is imported runs in this process."""
        return _is_started(_state_of(compiler)())

    @property
    def goes_on(self) -> bool:
        """Whether the compiler still runs as it was started."""
        return self._current() is self._state and _is_started(self._state)

    def allow_reordering(self, allowed: bool) -> None:
        """Say whether kernels that are compiled from now on may reorder arithmetic."""
        self._config.fast_math = allowed  # read when a kernel is first called

    def array_class(self, forget: Callable[[object], None]) -> type[Ndarray]:
        """Return the class of arrays, which hand over their memory: Python may collect them in any thread, at any time."""
        is_finalizing = sys.is_finalizing  # at exit, modules lose their names before the last arrays are collected

        class DeviceArray(self._array_of):  # type: ignore[misc, name-defined]
            def __del__(self) -> None:
                if self.arr is not None and not is_finalizing():
                    forget(self.arr)

        return DeviceArray

    def free(self, handle: object) -> None:
        """Free the memory that an array has handed over."""
        self._state.prog.delete_ndarray(handle)


def _state_of(compiler: Compiler) -> Callable[[], Any]:
    """Return the function that returns a compiler's state."""
    return import_module(f"{compiler.module}.lang.impl").get_runtime


def _is_started(state: Any) -> bool:
    # where others have None, Quadrants raises an error
    return (state._prog if hasattr(state, "_prog") else state.prog) is not None


class Documented:
    """The same by documented functions alone, as far as they go."""

    sliced = False  # so a block has one team
    goes_on = True  # that other code has stopped it is not noticed

    def __init__(self, compiler: Compiler, ti: ModuleType) -> None:
        self._ti = ti

    @staticmethod
    def finish_start(compiler: Compiler) -> None:
        """Leave it to the first kernel."""

    @staticmethod
    def runs(compiler: Compiler) -> bool:
        """Whether other code, which has imported a compiler, may have started it: nothing tells."""
        return compiler.module not in imported_here

    def allow_reordering(self, allowed: bool) -> None:
        """Keep the order of arithmetic, as is allowed always."""

    def array_class(self, forget: Callable[[object], None]) -> type[Ndarray]:
        """Return the function that makes arrays, whose memory the compiler frees when Python collects them."""
        return self._ti.ndarray

    def free(self, handle: object) -> None:
        """Do nothing: no memory is handed over."""


def internals_of(compiler: Compiler) -> type[Internals] | type[Documented]:
    """Return what can be used of a compiler."""
    return Internals if is_tried(compiler.package) else Documented
