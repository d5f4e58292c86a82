"""What Numba compiles, kept between runs in the package's own folder (:mod:`tistreamlines.linker.store`)."""

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
except ValueError as error:  # a variable of the environment that Numba cannot use
    raise DeviceError(f"Numba cannot start ({error}): unset the variables NUMBA_... of the environment") from error

if config.DISABLE_JIT:
    raise DeviceError("NUMBA_DISABLE_JIT in the environment keeps Numba from compiling: unset it")


@cache
def made_by() -> str:
    """What shapes compiled code besides a module's own text: the compilers, and the functions that they copy into it.

    Compiled code is told apart by the module's text, so this belongs in the text of whatever is kept.
    """
    folder = Path(__file__).parent
    copied = hashlib.sha256(b"".join((folder / name).read_bytes() for name in ("simd.py", "lanes.py"))).hexdigest()
    return f"numba {version('numba')}, llvmlite {version('llvmlite')}, team operations {copied[:24]}"


def load_source(path: Path) -> Any:
    """Load a copy of a module, whose compiled code is kept as that of linked ones is."""
    return load(f"# compiled with {made_by()}\n{path.read_text(encoding='utf-8')}")


def kept(function: Any) -> Any:
    """Decorate a function of a loaded module that Numba compiles: the compiled code is kept beside the module's file."""
    if path := function.py_func.__globals__.get("__file__"):
        function._cache = _Kept(Path(path), function.py_func.__name__)
    return function


class _Kept(NullCache):
    """Compiled code of one function, a file for each signature and processor, in the place of Numba's own cache.

    That one would run what is damaged, and end with an error where nothing can be written.
    """

    def __init__(self, module: Path, name: str) -> None:
        self._module, self._name = module, name

    def _path(self, signature: Any, codegen: Any) -> Path:
        causes = repr((signature, codegen.magic_tuple(), sys.implementation.cache_tag)).encode()
        return self._module.with_name(f"{self._module.stem}-{self._name}-{hashlib.sha256(causes).hexdigest()[:24]}.bin")

    def load_overload(self, sig: Any, target_context: Any) -> CompileResult | None:
        """Return what is kept for a signature, or None."""
        target_context.refresh()
        content = read(self._path(sig, target_context.codegen()))
        if content is None or hashlib.sha256(content[32:]).digest() != content[:32]:
            return None
        return CompileResult._rebuild(target_context, *pickle.loads(content[32:]))

    def save_overload(self, sig: Any, cres: CompileResult) -> None:
        """Keep what was compiled for a signature, unless it holds addresses of this process."""
        if not cres.library.has_dynamic_globals:
            content = dumps(cres._reduce())
            write(self._path(sig, cres.codegen), hashlib.sha256(content).digest() + content)
