"""GPUs: faces compiled by Taichi for CUDA, Vulkan and Metal.

A team is 32 threads of a block, whose shared memory it uses; where a warp or a subgroup has 32 threads, it is one.
The guard that stops a compiler from fusing or reordering is an exclusive or with a zero that only the caller knows to
be one.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import DeviceError
from ..kernels import lang
from ._numba import load
from ._taichi_block import entry_text, lay_out
from ._taichi_team import BARRIERS, COLLECT, HEADER, OPERATIONS, team_kind
from .devices import Device, vulkan_index
from .link import INTS, REALS, Face, link

if TYPE_CHECKING:
    from ..models import Prepared

TEAMS = 4096  # in flight at once: what fills the largest GPUs, and Taichi's 131,072 threads of a Vulkan dispatch


def _u32(text: str) -> str:
    return f"ti.u32({text})" if text.isdigit() else f"ti.cast({text}, ti.u32)"


def _logic(left: str, symbol: str, right: str) -> str:
    # Taichi would make a bitwise operation of bools, which SPIR-V does not have
    return f"((ti.cast({left}, ti.i32) {symbol} ti.cast({right}, ti.i32)) != 0)"


def _each(target: str, count: str) -> list[str]:
    return [
        f"for _turn_{target} in range(({count} + 31) // 32):",
        f"    {target} = _turn_{target} * 32 + _lane",
        f"    if {target} < {count}:",
    ]


def _spell(barrier: str) -> dict[str, Any]:
    return {
        "real": lambda x: f"ti.cast({x}, ti.f32)",
        "i32": lambda x: f"ti.cast({x}, ti.i32)",
        "u32": _u32,
        "umulhi": lambda a, b: f"ti.cast((ti.cast({a}, ti.u64) * ti.cast({b}, ti.u64)) >> ti.u64(32), ti.u32)",
        "floor": lambda x: f"ti.floor({x})",
        "bits": lambda x: f"ti.bit_cast({x}, ti.i32)",
        "from_bits": lambda x: f"ti.bit_cast({x}, ti.f32)",
        "absolute": lambda x: f"ti.abs({x})",
        "minimum": lambda a, b: f"ti.min({a}, {b})",
        "maximum": lambda a, b: f"ti.max({a}, {b})",
        "where": lambda c, a, b: f"ti.select({c}, {a}, {b})",
        "lane": lambda: "_lane",
        "lanes": lambda x: x,
        "at": lambda array, start: f"{array}[{start} + _lane]",
        "put": lambda array, start, value: f"{array}[{start} + _lane] = {value}",
        "take": lambda array, index: f"{array}[{index}]",
        "spread": lambda array, start, pattern, table: f"{array}[{start} + {table}]",
        "collect": lambda items, count, marks, limit: f"_collect({items}, {count}, {marks}, {limit}, _pool, _lane)",
        "team_min": lambda x: f"_team_min({x}, _pool, _lane)",
        "team_max": lambda x: f"_team_max({x}, _pool, _lane)",
        "barrier": lambda: barrier,
        "vec3": lambda *a: f"ti.Vector([{', '.join(a)}], dt=ti.f32)",
        "words": lambda *a: f"ti.Vector([{', '.join(a)}], dt=ti.u32)",
    }


def face(arch: str, exact: bool, subgroup: int | None = None) -> Face:
    """Taichi's spelling for an arch; ``subgroup`` is the device's, where it is known."""
    return Face(
        name=f"{arch}{'' if exact else 'fast'}",
        header=HEADER + OPERATIONS[team_kind(arch, subgroup)] + COLLECT,
        decorator="@ti.func",
        spell=_spell(BARRIERS[team_kind(arch, subgroup)]),
        literal=repr,
        logic=_logic,
        hidden=("_zero", "_lane", "_pool: ti.template()"),
        guard=(lambda text: f"_guard({text}, _zero)") if exact else None,
        each=_each,
        unroll=lambda n: f"ti.static(range({n}))",
        parameter=lambda name, kind: f"{name}: ti.template()" if kind in (REALS, INTS) else name,
    )


@contextmanager
def float_environment_kept() -> Iterator[None]:
    """Undo what Taichi does to the calling thread as it starts: numpy would flush denormals, in later threads as well."""
    library = ctypes.util.find_library("m")
    if library is None:
        yield
        return
    held, maths = ctypes.create_string_buffer(256), ctypes.CDLL(library)
    maths.fegetenv(held)
    try:
        yield
    finally:
        maths.fesetenv(held)


def start_taichi(device: Device, exact: bool, profile: bool = False) -> Any:
    """Initialise Taichi for a device, or say why it cannot be.

    Taichi is global to a process: a second device in one process takes the place of the first.
    """
    if device.arch == "vulkan":
        os.environ.setdefault("TI_VISIBLE_DEVICE", str(vulkan_index(device)))
    os.environ.setdefault("ENABLE_TAICHI_HEADER_PRINT", "0")
    import taichi as ti

    ti.set_logging_level(ti.ERROR)
    arch = getattr(ti, device.arch)
    # for whoever tunes kernels: more of ti.init's options, as JSON
    options = {"kernel_profiler": profile} | json.loads(os.environ.get("TISTREAMLINES_TAICHI", "{}"))
    common = {"enable_fallback": False, "log_level": ti.ERROR, "default_fp": ti.f32}
    try:
        with float_environment_kept():
            ti.init(arch=arch, fast_math=not exact, **common, **options)
    except RuntimeError as error:
        raise DeviceError(f"{device.arch}: Taichi cannot start on {device.name}: {error}") from error
    if ti.cfg.arch != arch:
        raise DeviceError(f"TI_ARCH in the environment makes Taichi run on {ti.cfg.arch}, not {device.arch}: unset it")
    return ti


class TaichiProgram:
    """Kernels linked for a GPU; arrays live on it."""

    def __init__(
        self, device: Device, roots: list[lang.Twin], prepared: Prepared, *, exact: bool, profile: bool = False
    ) -> None:
        self.ti = start_taichi(device, exact, profile)
        self.profile = profile
        linked = link(roots, face(device.arch, exact, device.subgroup), prepared.fill)
        self.block = lay_out(device, prepared)
        self.signatures = {r.__name__: linked.signatures[r.__name__] for r in roots}
        self.scratch = prepared.scratch
        text = linked.text
        for name, signature in self.signatures.items():
            text += "\n\n" + entry_text(name, signature, prepared, self.block)
        self.module = load(text, fresh=True)
        self._queue = self._make(np.dtype(np.int32), 1)
        self._gathered_size = 0

    def _make(self, dtype: np.dtype, size: int) -> Any:
        return self.ti.ndarray(self.ti.f32 if dtype.kind == "f" else self.ti.i32, size)

    def array(self, values: np.ndarray) -> Any:
        """An array on the device that holds these values."""
        dtype = np.dtype(np.float32 if values.dtype.kind == "f" else np.int32)
        array = self._make(dtype, values.size)
        array.from_numpy(np.ascontiguousarray(values, dtype))
        return array

    def empty(self, size: int, kind: str) -> Any:
        """An array on the device, to be filled by kernels."""
        return self._make(np.dtype(np.float32 if kind == REALS else np.int32), size)

    def upload(self, array: Any, values: np.ndarray) -> Any:
        """Copy values to the front of an array."""
        dtype = np.float32 if values.dtype.kind == "f" else np.int32
        copy = self.module.upload_reals if dtype is np.float32 else self.module.upload_ints
        copy(len(values), np.ascontiguousarray(values, dtype), array)
        return array

    def host(self, array: Any, count: int) -> np.ndarray:
        """The first ``count`` elements of an int32 array, in the host's memory."""
        out = np.empty(count, np.int32)
        if count:
            self.module.download_ints(count, array, out)  # waits for the device
        return out

    def sync(self) -> None:
        """Wait for the device."""
        self.ti.sync()

    def run(self, name: str, count: int, values: dict[str, Any]) -> None:
        """Launch kernel ``name`` for items 0 to ``count`` - 1 with arguments by name; it may still run on return."""
        if count:
            arguments = [values[n] for n, _ in self.signatures[name] if n != "item" and n not in self.scratch]
            self._queue.fill(0)
            # whole blocks only
            teams = -(-min(count, TEAMS) // self.block.teams) * self.block.teams
            getattr(self.module, f"run_{name}")(count, teams, 0, self._queue, *arguments)

    def kernel_seconds(self) -> float:
        """Seconds in kernels since the last call, where profiling is on, else 0."""
        if not self.profile:
            return 0.0
        seconds = self.ti.profiler.get_kernel_profiler_total_time()
        self.ti.profiler.clear_kernel_profiler_info()
        return seconds

    def gather(self, name: str, count: int, values: dict[str, Any], out: np.ndarray, most: int) -> None:
        """Run a kernel whose int32 array ``out``, of at most so many elements, is wanted on the host."""
        if len(out) > self._gathered_size:
            self._gathered_size = min(int(1.25 * len(out)), most)
            self._gathered = None  # its memory is free before it is needed again
            self._gathered = self.empty(self._gathered_size, INTS)
        self.run(name, count, values | {"out": self._gathered})
        self.module.download_ints(len(out), self._gathered, out)  # waits for the device
