"""Kernels that Taichi compiles for Vulkan."""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...aliases import Json
from ..driven.memory import Compiled, Task
from .gpu import PLACES
from .spirv import completed

if TYPE_CHECKING:
    from ..taichi.runtime import Runtime

SPIRV_VERSION = 0x10500
BOUND = {(2, PLACES[0]), (1, PLACES[1])}  # Taichi's kinds of buffers that ``gpu`` binds, and where


def compiler(runtime: Runtime, text: str, exact: bool) -> Callable[[str], Compiled]:
    """Return what compiles the kernels of a module by ``ti.aot``, by their names. The code is SPIR-V.

    It needs what :func:`.gpu.able` asks for.
    """
    ti = runtime.ti
    able = ["physical_storage_buffer", "subgroup_basic", "subgroup_arithmetic", "int64"]
    kept = ti.aot.Module(ti.vulkan, caps=[f"spirv_version={SPIRV_VERSION}", *(f"spirv_has_{name}" for name in able)])

    def compile_kernel(name: str) -> Compiled:
        with runtime.kernel(text, exact, name) as (kernel, taken), tempfile.TemporaryDirectory() as place:
            kept.add_kernel(kernel, template_args={n: value for n, value in taken.items() if not np.isscalar(value)})
            kept.save(place)
            metadata = json.loads((Path(place) / "metadata.json").read_text())
            (listed,) = [kernel for kernel in metadata["kernels"] if kernel["name"] == name]
            return _kernel(listed, Path(place), exact)

    return compile_kernel


def _kernel(kernel: Json, place: Path, exact: bool) -> Compiled:
    places = [_place(argument) for argument in kernel["ctx_attribs"]["args_type_"]["content"]["elements_"]]
    return Compiled(tasks=[_task(task, place, exact) for task in kernel["tasks_attribs"]], places=places, bytes=0)


def _place(argument: Json) -> int:
    """Return where a number is, or the address of an array; the array's length, which comes before it, is not read."""
    fields = {field["name"]: field["offset"] for field in argument["type"]["content"].get("elements_", [])}
    return argument["offset"] + fields.get("data_ptr", 0)


def _task(task: Json, place: Path, exact: bool) -> Task:
    bound = {(bind["buffer"]["type"], bind["binding"]) for bind in task["buffer_binds"]}
    if not bound <= BOUND:
        raise RuntimeError(f"Taichi binds other buffers than are known: {sorted(bound - BOUND)}")
    threads, total = task["advisory_num_threads_per_group"], task["advisory_total_num_threads"]
    code = completed((place / f"{task['name']}.spv").read_bytes(), exact)
    return Task(name="main", code=base64.b64encode(code).decode(), threads=threads, groups=-(-total // threads))
