"""A quicker compilation by Numba, for kernels of a hundred functions that only each other call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING

from numba.core import errors, utils
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
from numba.core.compiler_lock import global_compiler_lock
from numba.core.target_extension import get_local_target
from numba.core.targetconfig import ConfigStack
from numba.core.types.functions import BaseFunction, _unlit_non_poison  # pyright: ignore[reportAttributeAccessIssue]

if TYPE_CHECKING:
    from llvmlite.binding import ModuleRef
    from numba.core.types import Type
    from numba.core.typing.context import BaseContext
    from numba.core.typing.templates import AbstractTemplate, Signature

    Types = tuple[Type, ...]


@contextmanager
def quick_compiler() -> Iterator[None]:
    """Save two fifths of Numba's time; other threads that compile wait meanwhile.

    Functions without wrappers are linked, but neither optimised nor made machine code: :func:`..llvm.machine_code` does that
    to the one that is called from outside and has the others in it. Numba would do it to each of them, and again in each
    caller. To find the type of an operation it tries a dozen rules, and formats a message for each that does not fit. It
    also replaces the process's handling of warnings for a moment at each operation, in which warnings of other threads
    would be lost.
    """
    with global_compiler_lock:
        for owner, ours in _QUICK.items():
            for name, method in ours.items():
                setattr(owner, name, method)
        try:
            yield
        finally:
            for (owner, name), method in _NUMBAS.items():
                setattr(owner, name, method)


def _is_bare() -> bool:
    """Whether the function that is compiled has no wrappers, and so is one of a kernel's."""
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


def _optimize_functions(self: JITCodeLibrary, module: ModuleRef) -> None:
    """Optimise the functions of a module by themselves, unless their caller will be optimised as a whole."""
    module.data_layout = self._codegen._data_layout
    if not _is_bare():
        _NUMBAS[JITCodeLibrary, "_optimize_functions"](self, module)


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


def _typed_quietly(self: BaseFunction, context: BaseContext, args: Types, kws: dict[str, Type]) -> Signature:
    """Return the signature of a call, first by the rule that gave it for these types before; errors come from Numba."""
    known = vars(self).setdefault("_found", {})
    for rule, literal in known.get(args) or _rules(self, context):
        typed = args if literal else tuple(map(_unlit_non_poison, args))
        template = rule(context)
        with suppress(errors.NumbaError):
            signature = template.apply(typed, kws)
            if signature is not None:
                known[args] = [(rule, literal)]
                vars(self)["_impl_keys"][signature.args] = template.get_impl_key(signature)
                return signature
    return _NUMBAS[BaseFunction, "get_call_type"](self, context, args, kws)


def _rules(function: BaseFunction, context: BaseContext) -> Iterator[tuple[type[AbstractTemplate], bool]]:
    """Yield the rules of a function's types in Numba's order, and whether they are asked for literal types."""
    for rule in utils.order_by_target_specificity(get_local_target(context), function.templates, fnkey=function.key[0]):
        for literal in (True, False) if rule.prefer_literal else (False, True):
            yield rule, literal


def _no_warnings(self: object, filename: str | None = None, lineno: int | None = None) -> nullcontext[None]:
    """Stand in for the collection of warnings about a line: kernels give cause for none."""
    return nullcontext()


_QUICK: dict[type, dict[str, Callable]] = {
    JITCodeLibrary: {
        "finalize": _only_linked, "_optimize_functions": _optimize_functions, "_get_module_for_linking": _linked_in,
    },
    JITCPUCodegen: {"set_env": _set_no_env},
    BaseFunction: {"get_call_type": _typed_quietly},
    vars(errors)["WarningsFixer"]: {"catch_warnings": _no_warnings},
}
_NUMBAS = {(owner, name): getattr(owner, name) for owner, ours in _QUICK.items() for name in ours}
