"""Kernels that Taichi compiles for Vulkan, ahead of time and in a process of its own, and the cache of them.

What is cached runs without Taichi, whose import and front end would take longer than to track 100,000 seeds.
"""

from __future__ import annotations

import base64
import hashlib
import inspect
import json
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from ...devices import Device, alone, choose
from ...devices.compilers import compiler_for
from ...errors import DeviceError
from ...helpers import answers, helper
from ...linker.store import folder, read_sealed, write_sealed
from .gpu import PLACES
from .spirv import completed

SPIRV_VERSION = 0x10500
BOUND = {(2, PLACES[0]), (1, PLACES[1])}  # Taichi's kinds of buffers that ``gpu`` binds, and where
WORKER = """
from tistreamlines.backends.vulkan.compiling import main
main()
"""
Compiled = dict[str, Any]  # of each kernel, by its name: what it takes, and its tasks


def compiled(device: Device, text: str, exact: bool) -> Compiled:
    """Return the compiled kernels of a module of Taichi's.

    They need what :func:`.gpu.able` asks for.

    Returns
    -------
    dict
        By the kernel's name: ``places``, bytes before each argument, and ``tasks``, each with its ``code`` (SPIR-V), the
        ``threads`` of a group, and the ``groups``.

    Raises
    ------
    DeviceError
        If Taichi cannot compile it.
    """
    place, compiler = folder(), compiler_for(device.arch)
    causes = [text, str(exact), compiler.name, compiler.version, _source()]
    name = f"vulkan-{hashlib.sha256(json.dumps(causes).encode()).hexdigest()[:24]}.json"
    made = None if place is None else read_sealed(place / name)
    if made is None:
        made = _compiled_elsewhere(device, text, exact)
        if place is not None:
            write_sealed(place / name, made)
    return json.loads(made)


@cache
def _source() -> str:
    own = [path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py"))]
    return hashlib.sha256(b"".join(own)).hexdigest()


def _compiled_elsewhere(device: Device, text: str, exact: bool) -> bytes:
    done = subprocess.run(
        helper(WORKER), env=alone(device), input=json.dumps([text, exact]).encode(), capture_output=True, check=False
    )
    if done.returncode or not done.stdout:
        said = (done.stderr.decode(errors="replace").strip().splitlines() or ["no message"])[-1]
        raise DeviceError(f"{device.arch}: kernels cannot be compiled for {device.name}: {said}")
    return done.stdout


def main() -> None:
    """Compile the module that standard input gives."""
    output = answers()
    text, exact = json.load(sys.stdin)
    made = json.dumps(_made(choose("vulkan"), text, exact)).encode()
    with output:
        output.write(made)


def _made(device: Device, text: str, exact: bool) -> Compiled:
    from ..taichi.front_end import quick_front_end
    from ..taichi.runtime import start

    runtime = start(device)
    ti, module = runtime.ti, runtime.module(text, exact)
    able = ["physical_storage_buffer", "subgroup_basic", "subgroup_arithmetic", "int64"]
    kept = ti.aot.Module(ti.vulkan, caps=[f"spirv_version={SPIRV_VERSION}", *(f"spirv_has_{name}" for name in able)])
    arrays = {ti.f32: ti.ndarray(ti.f32, 1), ti.i32: ti.ndarray(ti.i32, 1)}
    with runtime.turn(exact), quick_front_end(runtime.compiler), tempfile.TemporaryDirectory() as place:
        for name in [name for name in vars(module) if name.startswith("run_")]:
            kernel = getattr(module, name)
            kinds = {n: p.annotation for n, p in inspect.signature(kernel).parameters.items()}
            taken = {n: arrays[kind.dtype] for n, kind in kinds.items() if isinstance(kind, ti.types.ndarray)}
            kept.add_kernel(kernel, template_args=taken)
        kept.save(place)
        told = json.loads((Path(place) / "metadata.json").read_text())
        return {one["name"]: _kernel(one, Path(place), exact) for one in told["kernels"]}


def _kernel(told: dict[str, Any], place: Path, exact: bool) -> dict[str, Any]:
    return {
        "places": [_place(one) for one in told["ctx_attribs"]["args_type_"]["content"]["elements_"]],
        "tasks": [_task(one, place, exact) for one in told["tasks_attribs"]],
    }


def _place(argument: dict[str, Any]) -> int:
    """Return where a number is, or the address of an array; the array's length, which comes before it, is not read."""
    fields = {one["name"]: one["offset"] for one in argument["type"]["content"].get("elements_", [])}
    return argument["offset"] + fields.get("data_ptr", 0)


def _task(told: dict[str, Any], place: Path, exact: bool) -> dict[str, Any]:
    bound = {(bind["buffer"]["type"], bind["binding"]) for bind in told["buffer_binds"]}
    if not bound <= BOUND:
        raise RuntimeError(f"Taichi binds other buffers than are known: {sorted(bound - BOUND)}")
    threads, total = told["advisory_num_threads_per_group"], told["advisory_total_num_threads"]
    code = completed((place / f"{told['name']}.spv").read_bytes(), exact)
    return {"groups": -(-total // threads), "threads": threads, "code": base64.b64encode(code).decode()}
