"""Machine code that LLVM loads, without Numba."""

from __future__ import annotations

from typing import Any

from ..errors import DeviceError

try:
    from llvmlite import binding
    from llvmlite.binding import TargetMachine
except OSError as error:  # its library, of 100 MB, cannot be mapped
    raise DeviceError(
        f"LLVM cannot be loaded ({str(error).partition('. ')[0]}): raise the limit of memory (ulimit -v), or install "
        "llvmlite anew"
    ) from error

_loaded: list[object] = []  # code is freed with its engine


def load_object(code: bytes, symbol: str) -> int:
    """Load an object file, whose code must refer to no other; return the address of a function."""
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), _machine(codemodel="jitdefault"))
    objects = binding.ObjectFileRef.from_data(code)
    engine.add_object_file(objects)
    engine.finalize_object()
    _loaded.append((engine, objects, code))
    return engine.get_function_address(symbol)


def processor() -> tuple[str, ...]:
    """Return what machine code depends on: the platform, the processor, and its features."""
    names = binding.get_process_triple(), binding.get_host_cpu_name()
    return *names, binding.get_host_cpu_features().flatten()


def _machine(**options: Any) -> TargetMachine:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding.Target.from_triple(binding.get_process_triple()).create_target_machine(**options)
