"""Compilation by Numba, which only this module and what it compiles import."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable
from types import FunctionType
from typing import Any

from ...errors import DeviceError
from ...linker.store import folder, load
from .. import llvm as llvm  # tells of an LLVM that cannot be loaded, which Numba needs too

try:
    from numba import config as numba_config
    from numba import from_dtype, njit, types
except ValueError as error:  # an environment variable with a wrong value
    raise DeviceError(f"Numba cannot start ({error}): unset the environment variables NUMBA_...") from error

import numpy as np
from numba.core.dispatcher import Dispatcher

from ..tried import is_tried
from .kinds import Kind, TupleKind

config: Any = numba_config  # whose attributes are made when it is imported
if config.DISABLE_JIT:
    raise DeviceError("the environment variable NUMBA_DISABLE_JIT keeps Numba from compiling: unset it")

# decorates functions that are called by their address or by each other: no wrappers to compile, no references to count
_BARE = {"_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True} if is_tried() else {}
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", **_BARE}
OF_C = ("sqrt",)  # functions that every process has
_kernels: dict[Hashable, Dispatcher] = {}
_placing = threading.Lock()  # Numba's setting of where its cache is belongs to all threads


def compiled(function: FunctionType) -> Dispatcher:
    """Decorate a function that is called from outside. A Numba that was not tried keeps by itself what it compiles."""
    if is_tried() or (place := folder()) is None:
        return njit(**_OPTIONS)(function)
    with _placing:
        before, config.CACHE_DIR = config.CACHE_DIR, str(place)
        try:
            return njit(cache=True, **_OPTIONS)(function)
        finally:
            config.CACHE_DIR = before


def kernel(**options: Any) -> Callable[[FunctionType], Dispatcher]:
    """Decorate a linked function like ``njit``; equal functions of several modules are one, which is compiled once.

    They are equal if their code is and they call the same functions, which come first in a module. Only what reads lanes by
    a pattern comes later, and has a name made of the pattern.
    """

    def decorate(function: FunctionType) -> Dispatcher:
        code, known = function.__code__, function.__globals__
        met = tuple(known.get(name) for name in code.co_names)
        key = (code.co_name, code.co_code, repr(code.co_consts), code.co_varnames, code.co_names, met, repr(options))
        if key not in _kernels:
            _kernels[key] = njit(**options)(function)
        return _kernels[key]

    return decorate


def compile_entry(text: str, name: str, kinds: Iterable[Kind]) -> tuple[str, bytes]:
    """Compile a function of a module.

    Parameters
    ----------
    text : of the module.
    name : of the function, which :data:`compiled` decorates.
    kinds : types of its arguments, see :data:`.kinds.Kind`.

    Returns
    -------
    symbol : str
        The function's name in the object file.
    code : bytes
        The object file, which refers to no other.

    Raises
    ------
    TypeError
        If the function calls others that are not in the object file.
    """
    from .quick import quick_compiler  # replaces parts of versions that were tried

    with quick_compiler():
        overload = compile_plainly(text, name, kinds)
        library = overload.library
        library._optimize_final_module()
        called = [function.name for function in library._final_module.functions if function.is_declaration]
        if missing := [name for name in called if not name.startswith("llvm.") and name not in OF_C]:
            raise TypeError(f"a kernel calls {', '.join(missing)}, which its object file does not contain")
        return overload.fndesc.llvm_func_name, library._codegen._tm.emit_object(library._final_module)


def compile_plainly(text: str, name: str, kinds: Iterable[Kind]) -> Any:
    """Compile a function of a module with Numba's public parts, or find it compiled; parameters are those of :func:`compile_entry`.

    Returns
    -------
    CompileResult
        Python can call its ``entry_point``.
    """
    function, signature = getattr(load(text), name), tuple(map(_type, kinds))
    function.compile(signature)
    return function.overloads[signature]


def _type(kind: Kind) -> types.Type:
    if isinstance(kind, TupleKind):
        return types.Tuple([_type(item) for item in kind])
    name, form, count = kind
    scalar = from_dtype(np.dtype(name))
    return types.Array(scalar, count, "C") if form == "array" else scalar
