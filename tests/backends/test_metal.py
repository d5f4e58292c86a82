"""The Metal path as far as it shows without a Mac.

Taichi's Metal runtime takes SPIR-V, made with the capabilities below, and lets SPIRV-Cross turn it into Metal's shading
language.  Both are done here for every kernel that the engine runs, from the text that it links for Metal.  What stays
untried is Apple's own compiler and hardware.  Taichi makes SPIR-V only where a Vulkan device is, so one is needed.
"""

from __future__ import annotations

import inspect
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from commands import importing, python
from nights import at_night
from synthetic import boot_case

from tistreamlines.backends.taichi.linking import team_bytes
from tistreamlines.devices import Device, choose
from tistreamlines.errors import DeviceError
from tistreamlines.tracking.tables.inputs import KernelTables

# taichi/rhi/metal/metal_device.mm at 1.7.4: MSL 2.3 and what every Apple GPU from family 3 on has; never float64
CAPABILITIES = [
    "spirv_version=66304", "spirv_has_int8", "spirv_has_int16", "spirv_has_float16", "spirv_has_int64",
    "spirv_has_subgroup_basic", "spirv_has_subgroup_vote", "spirv_has_subgroup_ballot", "spirv_has_subgroup_arithmetic",
]
MOST_BUFFERS = 24  # Metal has 31 slots; Taichi wants some for itself and one more for each view of a buffer
MOST_MEMORY = 16 << 10  # bytes of a block's shared memory that every device has
CASES: dict[str, dict[str, Any]] = {
    "a kernel": {},  # by day
    "opdt": {},
    "large": {"n": 150, "order": 8, "sphere": "full", "angular_weight": 0.5, "boot_rule": "cuslines"},
}
ENGINE_KERNELS = ("start", "enlist", "advance", "pack")
TOOLS = ("spirv-val", "spirv-dis", "spirv-as", "spirv-cross")


def engine_kernels(case: str) -> tuple[str, ...]:
    """The kernels of the engine that a case has."""
    return ("start",) if case == "a kernel" else ENGINE_KERNELS


def save_spirv(case: str, folder: str) -> None:
    """Link the engine's kernels for Metal and save them as SPIR-V; Taichi is global, so in a process of its own."""
    import taichi as ti

    from tistreamlines.backends.taichi import program as _taichi
    from tistreamlines.backends.taichi import runtime as _taichi_runtime
    from tistreamlines.devices.compilers import COMPILERS
    from tistreamlines.kernels import growth, streamlines
    from tistreamlines.kernels.products.points import pack

    ti.init(arch=ti.vulkan, log_level=ti.ERROR, offline_cache=False)
    mac = Device("metal", 0, "GPU", "", None, False, True, "", subgroup=32)
    _taichi.start = lambda *_: _taichi_runtime.Runtime(COMPILERS["taichi"], ti, mac)
    known = vars(growth) | vars(streamlines) | {"pack": pack}
    roots = [known[name] for name in engine_kernels(case)]
    program = _taichi.TaichiProgram(mac, boot_case(**CASES[case]).source(roots), exact=True)
    kernels, reals = vars(program._transfers) | vars(program.module), type(program.module.REALS)
    arrays = {ti.f32: ti.ndarray(ti.f32, 64), ti.i32: ti.ndarray(ti.i32, 64)}
    saved = ti.aot.Module(ti.vulkan, caps=CAPABILITIES)
    for name in sorted([*(f"run_{name}" for name in engine_kernels(case)), "copy"]):
        parameters = inspect.signature(kernels[name]).parameters
        notes = {n: p.annotation for n, p in parameters.items() if isinstance(p.annotation, reals)}
        saved.add_kernel(kernels[name], template_args={n: arrays[note.dtype or ti.i32] for n, note in notes.items()})
    saved.save(folder)


def tool(*arguments: object, stdin: str | None = None) -> str:
    """What a command prints; its errors fail the test."""
    done = subprocess.run([str(a) for a in arguments], input=stdin, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{arguments[0]}: {done.stderr[:500]}"
    return done.stdout


@dataclass(frozen=True)
class Task:
    """A task of a kernel: its SPIR-V, and that in Metal's shading language, translated as Taichi does it."""

    path: Path

    @property
    def kernel(self) -> str:
        """The kernel's name."""
        return re.sub(r"_c\d+_\d+_\d+_t\d+$", "", self.path.stem)

    @cached_property
    def metal(self) -> str:
        """Metal's text."""
        return tool("spirv-cross", "--msl", "--msl-version", "20300", "--msl-decoration-binding", self.path)


@pytest.fixture(scope="module", params=["a kernel", *at_night("opdt", "large")])
def tasks(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Task]:
    """The tasks of kernels: by day, those of the first one and of the one that copies."""
    absent = [name for name in TOOLS if shutil.which(name) is None]
    if absent:
        pytest.skip(f"no {', '.join(absent)} (Debian: spirv-tools, spirv-cross)")
    try:
        choose("vulkan")
    except DeviceError as error:
        pytest.skip(f"Taichi makes SPIR-V only beside a Vulkan device: {error}")
    folder = tmp_path_factory.mktemp(request.param)
    code = "test_metal.save_spirv(*sys.argv[1:])"
    done = python("-c", importing(__file__) + code, request.param, folder, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return [Task(path) for path in sorted(folder.glob("*.spv"))]


def buffers(text: str) -> int:
    """Buffer slots that a task takes: the highest one and all below."""
    return 1 + max(int(slot) for slot in re.findall(r"\[\[buffer\((\d+)\)\]\]", text))


def shared_bytes(text: str) -> int:
    """Memory that a block's threads share."""
    widths = {"float": 4, "int": 4, "uint": 4}
    pattern = r"^\s*threadgroup (?:spvUnsafeArray<(\w+), (\d+)> \w+|(\w+) \w+\[(\d+)\]);"
    return sum(widths[a or b] * int(n or m) for a, n, b, m in re.findall(pattern, text, re.MULTILINE))


def test_spirv_of_every_kernel_is_valid(request, tasks):
    """What Taichi makes of subgroup operations would be none, and their order is the driver's."""
    names = engine_kernels(request.node.callspec.params["tasks"])
    assert {task.kernel for task in tasks} == {*(f"run_{name}" for name in names), "copy"}
    for task in tasks:
        tool("spirv-val", "--target-env", "vulkan1.1", task.path)
        assert "GroupNonUniform" not in tool("spirv-dis", task.path)


def test_translates_to_metal_within_its_limits(request, tasks):
    most: dict[str, tuple[int, int]] = {}
    for task in tasks:
        text = task.metal
        assert "kernel void main0(" in text
        assert text.count("threadgroup ") == 0 or shared_bytes(text) > 0
        assert not re.search(r"\bdouble\b", text)  # Metal has none
        before = most.get(task.kernel, (0, 0))
        most[task.kernel] = max(before[0], buffers(text)), max(before[1], shared_bytes(text))
    for name, (slots, size) in most.items():
        print(f"{name}: {slots} buffers, {size} shared bytes")  # -rP shows it
        assert slots <= MOST_BUFFERS, f"{name} takes {slots} buffers"
        assert size <= MOST_MEMORY, f"{name} shares {size} bytes"
    case = request.node.callspec.params["tasks"]
    source, longest = boot_case(**CASES[case]).source([]), f"run_{engine_kernels(case)[-2:][0]}"
    assert most[longest][1] == team_bytes(source, source.scratch) + 4 * 32  # and what reductions need


def test_only_the_generator_takes_64_bits(tasks):
    """umulhi is a product of 64-bit words: Apple family 3 (A9) and later have them, so every Mac with Metal 3 does."""
    for task in tasks:
        lines = [line for line in task.metal.splitlines() if re.search(r"\bu?long\b", line)]
        assert all("ulong(" in line for line in lines)
        assert bool(lines) == (task.kernel == "run_advance" and task.path.stem.endswith("t01"))


@pytest.mark.parametrize(("sphere", "order", "signals"), [("small", 2, 96), ("default", 4, 150), ("full", 12, 288)])
def test_team_memory_fits_every_gpu(sphere, order, signals):
    prepared: KernelTables = boot_case(n=signals, order=order, sphere=sphere)
    sizes = [size for name, (_, size) in prepared.scratch.items() if name not in prepared.getter.shares]
    assert 4 * (sum(sizes) + 64) <= MOST_MEMORY  # 64: what teams need for their own operations
