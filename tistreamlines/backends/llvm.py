"""Machine code that LLVM loads or makes, without Numba."""

from __future__ import annotations

from typing import Any

from ..errors import DeviceError

try:
    from llvmlite import binding
except OSError as error:  # its library, of 100 MB, cannot be mapped
    raise DeviceError(
        f"LLVM cannot be loaded ({str(error).partition('. ')[0]}): raise the limit of memory (ulimit -v), or install "
        "llvmlite anew"
    ) from error

_held: list[Any] = []  # code is freed with its engine


def load_object(code: bytes, symbol: str) -> int:
    """Load an object file, whose code must refer to no other; return the address of a function."""
    engine = _engine("")
    held = binding.ObjectFileRef.from_data(code)
    engine.add_object_file(held)
    engine.finalize_object()
    _held.append((engine, held, code))
    return engine.get_function_address(symbol)


def assemble(text: str, symbol: str) -> int:
    """Compile LLVM's assembly language; return the address of a function."""
    engine = _engine(text)
    engine.finalize_object()
    _held.append(engine)
    return engine.get_function_address(symbol)


def processor() -> tuple[str, ...]:
    """Return what machine code depends on: the platform, the processor, and its features."""
    names = binding.get_process_triple(), binding.get_host_cpu_name()
    return *names, binding.get_host_cpu_features().flatten()


def _engine(text: str) -> Any:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_triple(binding.get_process_triple()).create_target_machine(codemodel="jitdefault")
    return binding.create_mcjit_compiler(binding.parse_assembly(text), machine)
