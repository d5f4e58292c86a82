"""Kernels that Taichi compiles for Vulkan."""

from __future__ import annotations

import base64
import json
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...aliases import Json
from ..driven.memory import Compiled, Task
from .gpu import PLACES
from .spirv import completed

if TYPE_CHECKING:
    from taichi import aot

    from ..taichi.runtime import Runtime

SPIRV_VERSION = 0x10500
BOUND = {(2, PLACES[0]), (1, PLACES[1])}  # Taichi's kinds of buffers that ``gpu`` binds, and where


@lru_cache(1)
def _module(runtime: Runtime) -> aot.Module:
    """Return the one module that Taichi compiles ahead of time as long as it runs. It needs what :func:`.gpu.able` asks for."""
    able = ["physical_storage_buffer", "subgroup_basic", "subgroup_arithmetic", "int64"]
    capabilities = [f"spirv_version={SPIRV_VERSION}", *(f"spirv_has_{name}" for name in able)]
    return runtime.ti.aot.Module(runtime.ti.vulkan, caps=capabilities)


def compile_kernel(runtime: Runtime, text: str, exact: bool, name: str) -> Compiled:
    """Compile a kernel of a module by ``ti.aot``. The code is SPIR-V."""
    module = _module(runtime)
    with runtime.kernel(text, exact, name) as (kernel, arguments), tempfile.TemporaryDirectory() as folder:
        module.add_kernel(kernel, template_args={n: value for n, value in arguments.items() if not np.isscalar(value)})
        module.save(folder)
        place = Path(folder)
        listed = json.loads((place / "metadata.json").read_text())["kernels"]
        # those of earlier texts may have the same name; the files are the last one's
        last = next(kernel for kernel in reversed(listed) if kernel["name"] == name)
        places = [_place(argument) for argument in last["ctx_attribs"]["args_type_"]["content"]["elements_"]]
        return Compiled(tasks=[_task(task, place, exact) for task in last["tasks_attribs"]], places=places, bytes=0)


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
