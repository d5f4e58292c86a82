"""The cache of the code that Numba compiles, in the folder of :mod:`tistreamlines.linker.store`."""

from __future__ import annotations

import hashlib
import pickle
import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ...errors import DeviceError
from ...linker.store import load, read, write

try:
    from numba import config
    from numba.core.caching import NullCache
    from numba.core.compiler import CompileResult
    from numba.core.serialize import dumps
except ValueError as error:  # an environment variable with a wrong value
    raise DeviceError(f"Numba cannot start ({error}): unset the environment variables NUMBA_...") from error

if config.DISABLE_JIT:
    raise DeviceError("the environment variable NUMBA_DISABLE_JIT keeps Numba from compiling: unset it")


def _import_rules() -> None:
    """Import Numba's rules for arrays without SciPy's linear algebra, which only kernels with matrix products need.

    The rules ask at once whether SciPy has it. If a kernel needs it, Numba imports it then.
    """
    from numba.np import linalg

    ensure, linalg.ensure_blas = linalg.ensure_blas, lambda: None
    try:
        import numba.np.arraymath  # noqa: F401
    finally:
        linalg.ensure_blas = ensure


_import_rules()


@cache
def made_by() -> str:
    """Return what compiled code depends on besides its module's text: the compilers, and the functions that they inline.

    Compiled code is found by the hash of the text, so the text of every cached module must contain this.
    """
    folder = Path(__file__).parent
    copied = hashlib.sha256(b"".join((folder / name).read_bytes() for name in ("simd.py", "lanes.py"))).hexdigest()
    return f"numba {version('numba')}, llvmlite {version('llvmlite')}, team operations {copied[:24]}"


def load_source(path: Path) -> Any:
    """Load a copy of a module, whose compiled code is cached like that of linked modules."""
    return load(f"# compiled with {made_by()}\n{path.read_text(encoding='utf-8')}")


def kept(function: Any) -> Any:
    """Decorate a Numba function of a loaded module: its compiled code is cached beside the module's file."""
    if path := function.py_func.__globals__.get("__file__"):
        function._cache = _Kept(Path(path), function.py_func.__name__)
    return function


class _Kept(NullCache):
    """Cache of one function's compiled code, with a file for each signature and processor.

    Numba's own cache would run damaged code, and fails if it cannot write.  Here a file begins with a hash of the rest, so
    damaged code is compiled again.
    """

    def __init__(self, module: Path, name: str) -> None:
        self._module, self._name = module, name

    def _path(self, signature: Any, codegen: Any) -> Path:
        causes = repr((signature, codegen.magic_tuple(), sys.implementation.cache_tag)).encode()
        return self._module.with_name(f"{self._module.stem}-{self._name}-{hashlib.sha256(causes).hexdigest()[:24]}.bin")

    def load_overload(self, sig: Any, target_context: Any) -> CompileResult | None:
        """Return the code for a signature, or None."""
        target_context.refresh()
        content = read(self._path(sig, target_context.codegen()))
        if content is None or hashlib.sha256(content[32:]).digest() != content[:32]:
            return None
        return CompileResult._rebuild(target_context, *pickle.loads(content[32:]))

    def save_overload(self, sig: Any, cres: CompileResult) -> None:
        """Store the code for a signature, unless it contains addresses of this process."""
        if not cres.library.has_dynamic_globals:
            content = dumps(cres._reduce())
            write(self._path(sig, cres.codegen), hashlib.sha256(content).digest() + content)
