"""Machine code that LLVM loads or makes, without Numba."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import DeviceError

try:
    from llvmlite import binding
    from llvmlite.binding import ModuleRef, TargetMachine
except OSError as error:  # its library, of 100 MB, cannot be mapped
    raise DeviceError(
        f"LLVM cannot be loaded ({str(error).partition('. ')[0]}): raise the limit of memory (ulimit -v), or install "
        "llvmlite anew"
    ) from error

OF_C = ("sqrt",)  # functions that every process has
_loaded: list[object] = []  # code is freed with its engine
Options = Mapping[str, bool | int | str]  # of LLVM, by name


def machine_code(bitcode: bytes, target: Options, first: Options, second: Options) -> bytes:
    """Optimise a module, and return its object file, which refers to no other.

    Parameters
    ----------
    bitcode : the module.
    target : of ``Target.create_target_machine``: processor, features, level of optimisation.
    first : attributes of llvmlite's ``PipelineTuningOptions`` for the pipeline by which functions are inlined.
    second : the same for the pipeline that then optimises the module.

    Raises
    ------
    TypeError
        If the module calls functions that are not in it.
    """
    with binding.create_context() as context, binding.parse_bitcode(bitcode, context) as module:
        with _machine(**target) as machine:
            _optimise(module, machine, first, ("loop_rotate", "instruction_combine", "jump_threading"))
            _optimise(module, machine, second)
            called = [function.name for function in module.functions if function.is_declaration]
            if missing := [name for name in called if not name.startswith("llvm.") and name not in OF_C]:
                raise TypeError(f"a kernel calls {', '.join(missing)}, which its object file does not contain")
            return machine.emit_object(module)


def _optimise(module: ModuleRef, machine: TargetMachine, options: Options, passes: Sequence[str] = ()) -> None:
    tuning = binding.create_pipeline_tuning_options()
    for name, value in options.items():
        setattr(tuning, name, value)
    with binding.create_pass_builder(machine, tuning) as builder, builder.getModulePassManager() as manager:
        for name in passes:
            getattr(manager, f"add_{name}_pass")()
        manager.run(module, builder)


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
