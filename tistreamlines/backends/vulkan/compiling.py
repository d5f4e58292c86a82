"""Kernels that Taichi compiles for Vulkan."""

from __future__ import annotations

import base64
import json
import tempfile
from pathlib import Path

import numpy as np

from ...aliases import Json
from ...devices import Device
from ..driven.memory import Compiled, Task
from .gpu import PLACES
from .spirv import completed

SPIRV_VERSION = 0x10500
BOUND = {(2, PLACES[0]), (1, PLACES[1])}  # Taichi's kinds of buffers that ``gpu`` binds, and where


def compiled(device: Device, text: str, exact: bool) -> dict[str, Compiled]:
    """Compile a module by ``ti.aot``; see :func:`..driven.ahead.compiled`. The code is SPIR-V.

    It needs what :func:`.gpu.able` asks for.
    """
    from ..taichi.runtime import start

    runtime = start(device)
    ti = runtime.ti
    able = ["physical_storage_buffer", "subgroup_basic", "subgroup_arithmetic", "int64"]
    kept = ti.aot.Module(ti.vulkan, caps=[f"spirv_version={SPIRV_VERSION}", *(f"spirv_has_{name}" for name in able)])
    with runtime.kernels(text, exact) as kernels, tempfile.TemporaryDirectory() as place:
        for kernel, taken in kernels.values():
            arrays = {name: value for name, value in taken.items() if not np.isscalar(value)}
            kept.add_kernel(kernel, template_args=arrays)
        kept.save(place)
        metadata = json.loads((Path(place) / "metadata.json").read_text())
        return {kernel["name"]: _kernel(kernel, Path(place), exact) for kernel in metadata["kernels"]}


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
    return Task(name=task["name"], code=base64.b64encode(code).decode(), threads=threads, groups=-(-total // threads))
