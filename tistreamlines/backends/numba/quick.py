"""A quicker compilation by Numba, for kernels of a hundred functions that only each other call."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

from llvmlite.binding import ModuleRef
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
from numba.core.compiler_lock import global_compiler_lock
from numba.core.targetconfig import ConfigStack


@contextmanager
def quick_compiler() -> Generator[None, None, None]:
    """Save two fifths of Numba's time, 3.5 s for the kernels of boot; other threads that compile wait meanwhile.

    Functions without wrappers are linked, but not made machine code: LLVM does that to the one that is called
    from outside and has the others in it. Numba would do it to each of them, and again in each caller.
    """
    with global_compiler_lock:
        for place, method in _QUICK.items():
            setattr(*place, method)
        try:
            yield
        finally:
            for place, method in _NUMBAS.items():
                setattr(*place, method)


def _is_bare() -> bool:
    """Whether the current function has no wrappers, which makes it a kernel's."""
    flags = ConfigStack().top_or_none()
    return flags is not None and flags.no_cpython_wrapper and flags.no_cfunc_wrapper


def _only_linked(self: JITCodeLibrary) -> None:
    """Link a library; optimise it and make it executable only if it is not one of a kernel's."""
    if not _is_bare():
        _NUMBAS[JITCodeLibrary, "finalize"](self)
        return
    self._raise_if_finalized()
    for library in dict.fromkeys(self._linking_libraries):
        self._reload_init.update(library._reload_init)
        self._final_module.link_in(library._get_module_for_linking(), preserve=True)
    self._finalize_dynamic_globals()
    self._finalized = vars(self)["_only_linked"] = True


def _linked_in(self: JITCodeLibrary) -> ModuleRef:
    """Return the module to link into a caller; nothing else uses that of a kernel's function, so it need not be copied."""
    self._ensure_finalized()
    if not hasattr(self, "_only_linked"):
        return _NUMBAS[JITCodeLibrary, "_get_module_for_linking"](self)
    for function in self._final_module.functions:
        if not function.is_declaration and function.linkage.name == "external":
            function.linkage = "linkonce_odr"
    return self._final_module


def _set_no_env(self: JITCPUCodegen, name: str, env: object) -> None:
    """Tell compiled code of no environment, which kernels do not need."""


_QUICK: dict[tuple[type, str], Callable] = {
    (JITCodeLibrary, "finalize"): _only_linked, (JITCodeLibrary, "_get_module_for_linking"): _linked_in,
    (JITCPUCodegen, "set_env"): _set_no_env,
}
_NUMBAS = {place: getattr(*place) for place in _QUICK}
