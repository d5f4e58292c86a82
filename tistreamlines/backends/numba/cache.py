"""Functions compiled by Numba, kept in the folder of :mod:`tistreamlines.linker.store` and called without Numba.

Most runs find all their functions compiled, and to import Numba takes longer than to track 100,000 seeds on a GPU. So
the machine code of a function is kept by itself and loaded by LLVM, and only a process that compiles imports Numba.

Each file begins with a hash of its name and content, so damaged or exchanged code is compiled again. Numba's own cache
would run damaged code, and fails where it cannot write. It serves only versions of Numba that were not tried
(:mod:`..tried`).
"""

from __future__ import annotations

import ctypes as c
import hashlib
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import cache
from itertools import chain
from pathlib import Path

import numpy as np

from ...devices import usable_cores
from ...helpers import tell_event
from ...installed import version_of
from ...linker.store import stem_of
from ..compile_process import CompileProcess, compile_process, compiled
from ..tried import is_tried
from .kinds import Kind, TupleKind

SCALARS = {
    "int32": c.c_int32, "int64": c.c_int64, "uint32": c.c_uint32, "uint64": c.c_uint64, "float32": c.c_float,
    "float64": c.c_double,
}
PROCESSES = 2  # at most: one compiles what takes longest, the other one the rest
INLINED = ("simd.py", "lanes.py", "memory.py")
Call = Callable[[Sequence["Held"]], "int | None"]
_unread = c.create_string_buffer(64)  # receives the result, which is nothing, and the error, which no function raises


@cache
def made_by() -> str:
    """Return what compiled code depends on besides its module's text: the compilers, and the functions that they inline.

    Compiled code is found by the hash of the text, so the text of every cached module must contain this.
    """
    parts = hashlib.sha256(b"".join((Path(__file__).parent / name).read_bytes() for name in INLINED))
    return f"numba {version_of('numba')}, llvmlite {version_of('llvmlite')}, team operations {parts.hexdigest()[:24]}"


def text_of(path: Path) -> str:
    """Return the text of a file of kernels, with the dependencies of its compiled code."""
    return f"# compiled with {made_by()}\n{path.read_text(encoding='utf-8')}"


class Held:
    """An argument of functions, converted once for many calls.

    Parameters
    ----------
    value : an array whose memory stays where it is, a number, or a tuple of arrays and numbers.
    """

    def __init__(self, value: object) -> None:
        self.value, self.kind, self.parts = value, _kind(value), _parts(value)


class Function:
    """A function of a module, compiled for the types of its arguments when it is first called with them.

    Any thread may call it. It runs without Python's lock.

    Parameters
    ----------
    text : of the module. The function is decorated by ``compiler.compiled``, allocates no arrays and returns nothing.
    name : of the function.
    """

    def __init__(self, text: str, name: str) -> None:
        self._text, self._name = text, name
        self._loading = threading.Lock()
        self._begun: dict[tuple[Kind, ...], Future[bytes]] = {}
        self._loaded: dict[tuple[Kind, ...], Call] = {}

    def __call__(self, *arguments: object) -> None:
        """Call the function with C-contiguous arrays, numbers of NumPy or Python, and tuples of these."""
        self.call_with([Held(value) for value in arguments])

    def call_with(self, arguments: Sequence[Held]) -> None:
        """Call the function with arguments that are converted."""
        kinds = tuple([argument.kind for argument in arguments])
        call = self._loaded.get(kinds) or self._load(kinds)
        if call(arguments):
            raise RuntimeError(f"{self._name} has failed")

    def prepare(self, kinds: tuple[Kind, ...]) -> None:
        """Load the function for arguments of these types, or begin to compile it, which ends beside other work."""
        with self._loading:
            if is_tried() and kinds not in self._loaded and kinds not in self._begun:
                self._begun[kinds] = begun = self._ask(kinds, _process)
                if begun.done():
                    self._loaded[kinds] = self._native(kinds)

    def _load(self, kinds: tuple[Kind, ...]) -> Call:
        with self._loading:
            if kinds not in self._loaded:
                self._loaded[kinds] = self._native(kinds) if is_tried() else self._plain(kinds)
            return self._loaded[kinds]

    def _plain(self, kinds: tuple[Kind, ...]) -> Call:
        """Return a call of a function that Numba compiles, or keeps, by its public parts."""
        from .compiler import compile_plainly

        call = compile_plainly(self._text, self._name, kinds).entry_point
        return lambda arguments: call(*[argument.value for argument in arguments])

    def _native(self, kinds: tuple[Kind, ...]) -> Call:
        """Return a call of the function's machine code, as soon as that is compiled."""
        from .. import llvm

        asked = self._begun.pop(kinds, None) or self._ask(kinds, _process)
        try:
            content = asked.result()
        except (EOFError, RuntimeError):  # the process has ended, or has met an error, which occurs again here
            content = self._ask(kinds, lambda: None).result()
        symbol, code = content.split(b"\0", 1)
        call = c.CFUNCTYPE(c.c_int)(llvm.load_object(code, symbol.decode()))
        return lambda arguments: call(_unread, _unread, *chain.from_iterable([argument.parts for argument in arguments]))

    def _ask(self, kinds: tuple[Kind, ...], process: Callable[[], CompileProcess | None]) -> Future[bytes]:
        """Return the function's machine code, which a process compiles if the cache does not have it.

        The name of its file has a hash of the signature, the processor and the settings of Numba.
        """
        from .. import llvm

        causes = hashlib.sha256(repr((kinds, llvm.processor(), [*_settings()])).encode()).hexdigest()
        file = f"{stem_of(self._text)}-{self._name}-{causes[:24]}.bin"
        return compiled(file, process, compile_function, self._text, self._name, kinds)


def _settings() -> tuple[tuple[str, str], ...]:
    """Return the environment's settings of Numba, on which machine code depends."""
    return tuple(sorted(item for item in os.environ.items() if item[0].startswith("NUMBA_")))


def _process() -> CompileProcess | None:
    """Return the process that has least to compile; on a single core, to start one takes longer than it saves."""
    busy = []
    for number in range(PROCESSES if usable_cores() > 1 else 0):
        process = compile_process(number, _settings())
        if process is None or not process.waiting:
            return process
        busy.append(process)
    return min(busy, key=lambda process: process.waiting, default=None)


def compile_function(text: str, name: str, kinds: tuple[Kind, ...]) -> bytes:
    """Compile a function of a module; return its name in the object file, and this file."""
    from .compiler import compile_entry

    begun = time.perf_counter()
    symbol, code = compile_entry(text, name, kinds)
    tell_event(f"{name} of {stem_of(text)}.py: compiled by Numba", begun)
    return symbol.encode() + b"\0" + code


function = cache(Function)  # the same one in all of the process, so that it is loaded once
_name = cache(lambda dtype: dtype.name)  # which numpy makes anew each time


def _kind(value: object) -> Kind:
    """Return the type of an argument."""
    if isinstance(value, tuple):
        return TupleKind(map(_kind, value))
    if not isinstance(value, np.ndarray):
        return _name(np.asarray(value).dtype), "number", 1
    if not (value.flags.c_contiguous and value.flags.aligned and value.dtype.isnative):
        raise ValueError(f"an array of {value.dtype} is not contiguous, aligned and in the byte order of this computer")
    return _name(value.dtype), "array", value.ndim


def _parts(value: object) -> list[object]:
    """Return what Numba passes of an argument: of an array, owner and parent (none), sizes, data, shape and strides."""
    if isinstance(value, tuple):
        return [part for item in value for part in _parts(item)]
    if not isinstance(value, np.ndarray):
        number = np.asarray(value)
        return [SCALARS[_name(number.dtype)](number.item())]
    sizes, places = (value.size, value.itemsize), (*value.shape, *value.strides)
    return [c.c_void_p(), c.c_void_p(), *map(c.c_ssize_t, sizes), c.c_void_p(value.ctypes.data), *map(c.c_ssize_t, places)]
