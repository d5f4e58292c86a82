"""Kernels that Taichi compiles ahead of time and in a process of its own, and the cache of them.

What is cached runs without Taichi, whose import and front end would take longer than to track 100,000 seeds.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

from ...devices import Device, alone, choose
from ...devices.compilers import compiler_for
from ...errors import DeviceError
from ...helpers import answers, calling, may_start, tell_event
from ...linker.store import folder, read_sealed, write_sealed
from .here import compile_beside_kernels, compile_here
from .memory import Compiled


def compiled(device: Device, text: str, exact: bool) -> dict[str, Compiled]:
    """Return the compiled kernels of a module of Taichi's, by their names.

    Raises
    ------
    DeviceError
        If Taichi cannot compile it.
    """
    place, compiler = folder(), compiler_for(device.arch)
    causes = [text, str(exact), compiler.name, compiler.version, device.capability, _source()]
    name = f"{device.arch}-{hashlib.sha256(json.dumps(causes).encode()).hexdigest()[:24]}.json"
    begun = time.perf_counter()
    kernels = None if place is None else read_sealed(place / name)
    if kernels is None:
        if may_start():
            kernels = _compiled_elsewhere(device, text, exact)
        else:
            kernels = json.dumps(compile_beside_kernels(device, text, exact)).encode()
        if place is not None:
            write_sealed(place / name, kernels)
        tell_event(f"{device.arch}: kernels compiled by Taichi{' in a process of its own' * may_start()}", begun)
    else:
        tell_event(f"{device.arch}: kernels from the cache")
    return json.loads(kernels)


@cache
def _source() -> str:
    room = Path(__file__).parents[1]
    folders = (room / part for part in ("cuda", "driven", "taichi", "vulkan"))
    sources = [path.read_bytes() for folder in folders for path in sorted(folder.glob("*.py"))]
    return hashlib.sha256(b"".join(sources)).hexdigest()


def _compiled_elsewhere(device: Device, text: str, exact: bool) -> bytes:
    asked = json.dumps([device.arch, text, exact]).encode()
    done = subprocess.run(calling(__name__), env=alone(device), input=asked, capture_output=True, check=False)
    if done.returncode or not done.stdout:
        said = (done.stderr.decode(errors="replace").strip().splitlines() or ["no message"])[-1]
        raise DeviceError(f"{device.arch}: kernels cannot be compiled for {device.name}: {said}")
    return done.stdout


def main() -> None:
    """Compile the module that standard input gives, with Taichi."""
    output = answers()
    arch, text, exact = json.load(sys.stdin)
    kernels = json.dumps(compile_here(choose(arch), text, exact)).encode()
    with output:
        output.write(kernels)
