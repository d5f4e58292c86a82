"""Compilation by Numba, which only this module and what it compiles import."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable
from contextlib import AbstractContextManager, nullcontext, suppress
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FunctionType
from typing import Any
from zipfile import ZipFile

from ...errors import DeviceError
from ...linker.store import load, read_sealed, write_sealed
from .. import llvm  # tells of an LLVM that cannot be loaded, which Numba needs too

try:
    from numba import config as numba_config
    from numba import from_dtype, njit, types
except ValueError as error:  # an environment variable with a wrong value
    raise DeviceError(f"Numba cannot start ({error}): unset the environment variables NUMBA_...") from error

import numpy as np
from numba.core.dispatcher import Dispatcher

from ..tried import is_tried, tell_slower
from .kinds import Kind, TupleKind

config: Any = numba_config  # whose attributes are made when it is imported
if config.DISABLE_JIT:
    raise DeviceError("the environment variable NUMBA_DISABLE_JIT keeps Numba from compiling: unset it")

# decorates functions that are called by their address or by each other: no wrappers to compile, no references to count
_BARE = {"_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True} if is_tried("numba") else {}
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", **_BARE}
compiled = njit(**_OPTIONS)
_kernels: dict[Hashable, Dispatcher] = {}
_placing = threading.Lock()  # Numba's setting of where its cache is belongs to all threads


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
        The object file.
    """
    function, signature = getattr(load(text), name), tuple(map(_type, kinds))
    with _quick_compiler():
        function.compile(signature)
        overload = function.overloads[signature]
        bitcode, codegen = overload.library._final_module.as_bitcode(), overload.library._codegen
    target = {"opt": config.OPT}  # and then what Numba does with a module
    codegen._customize_tm_options(target)
    first = {"speed_level": codegen._opt_level, "loop_vectorization": codegen._loopvect, "slp_vectorization": False}
    second = {
        "speed_level": config.OPT, "loop_vectorization": config.LOOP_VECTORIZE,
        "slp_vectorization": config.SLP_VECTORIZE,
    }
    return overload.fndesc.llvm_func_name, llvm.machine_code(bitcode, target, first, second)


def _quick_compiler() -> AbstractContextManager[None]:
    try:
        from .quick import quick_compiler
    except (AttributeError, ImportError) as error:
        tell_slower(f"Numba lacks a part that tistreamlines replaces ({error})")
        return nullcontext()
    return quick_compiler()


def compile_plainly(text: str, name: str, kinds: Iterable[Kind], path: Path | None) -> Callable[..., None]:
    """Compile a function of a module with Numba's public parts alone, or find it compiled; return a Python function.

    Numba's own cache runs whatever is in its files. So the files get a folder of this call alone, and are kept as one file
    with a seal.

    Parameters
    ----------
    text, name, kinds : see :func:`compile_entry`.
    path : the file in which compiled code is kept; None to keep none.
    """
    function, signature = getattr(load(text), name), tuple(map(_type, kinds))
    if path is not None:
        with suppress(Exception):  # Numba's cache is not what it was; an error of the function's own comes again below
            return _compile_once(function.py_func, signature, path)
    function.compile(signature)
    return function.overloads[signature].entry_point


def _compile_once(function: Callable[..., None], signature: tuple[types.Type, ...], path: Path) -> Callable[..., None]:
    """Return a compiled function from Numba's cache, as a file keeps it, or compile it and write the file."""
    with TemporaryDirectory(prefix=path.stem, dir=path.parent, ignore_cleanup_errors=True) as place:
        if kept := read_sealed(path):
            ZipFile(BytesIO(kept)).extractall(place)
        with _placing:
            before, config.CACHE_DIR = config.CACHE_DIR, place
            try:
                cached = njit(cache=True, **_OPTIONS)(function)
            finally:
                config.CACHE_DIR = before
        if not Path(cached.stats.cache_path or "").is_relative_to(place):
            raise RuntimeError("Numba's cache is elsewhere")
        cached.compile(signature)
        if not cached.stats.cache_hits:
            write_sealed(path, _archive(Path(place)))
    return cached.overloads[signature].entry_point


def _archive(folder: Path) -> bytes:
    """Return the files of a folder as a ZIP archive."""
    with BytesIO() as stream:
        with ZipFile(stream, "w") as archive:
            for file in sorted(folder.rglob("*")):
                archive.write(file, file.relative_to(folder))
        return stream.getvalue()


def _type(kind: Kind) -> types.Type:
    if isinstance(kind, TupleKind):
        return types.Tuple([_type(item) for item in kind])
    name, form, count = kind
    scalar = from_dtype(np.dtype(name))
    return types.Array(scalar, count, "C") if form == "array" else scalar
