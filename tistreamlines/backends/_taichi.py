"""GPUs: faces compiled by Taichi for CUDA, Vulkan and Metal.

A team is 32 threads of a block, whose shared memory it uses; where a warp or a subgroup has 32 threads, it is one.  The guard that stops a compiler from
fusing or reordering is an exclusive or with a zero that only the caller knows to be one.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import DeviceError
from ..kernels import lang
from ._numba import load
from .devices import Device, vulkan_index
from .link import INTS, REALS, Face, link

if TYPE_CHECKING:
    from ..models import Prepared

HEADER = '''"""Made by tistreamlines from its kernel language; see tistreamlines/backends/link.py."""
import warnings

import taichi as ti

warnings.filterwarnings("ignore", ".*Calling non-taichi function .*Slice", SyntaxWarning)
SharedArray = ti.simt.block.SharedArray


class Slice(SharedArray):
    """A team's part of an array that the block's teams share out among them."""

    def __init__(self, whole, start):
        self.whole, self.start, self.shape, self.dtype = whole, start, whole.shape, whole.dtype

    def subscript(self, *indices):
        return self.whole.subscript(self.start + indices[0])


REALS = ti.types.ndarray(dtype=ti.f32, ndim=1)
INTS = ti.types.ndarray(dtype=ti.i32, ndim=1)


@ti.func
def _guard(x, zero):
    return ti.bit_cast(ti.bit_cast(x, ti.i32) ^ zero, ti.f32)


@ti.kernel
def upload_reals(n: ti.i32, values: ti.types.ndarray(dtype=ti.f32, ndim=1), out: REALS):
    for i in range(n):
        out[i] = values[i]


@ti.kernel
def upload_ints(n: ti.i32, values: ti.types.ndarray(dtype=ti.i32, ndim=1), out: INTS):
    for i in range(n):
        out[i] = values[i]


@ti.kernel
def download_ints(n: ti.i32, values: INTS, out: ti.types.ndarray(dtype=ti.i32, ndim=1)):
    for i in range(n):
        out[i] = values[i]

'''

# Team operations.  Least and greatest do not round, sums of whole numbers do not either: any order gives the same bits.
SHARED_OPERATIONS = '''
@ti.func
def _team_min(x, _pool: ti.template(), _lane):
    ti.simt.block.sync()
    _pool[_lane] = x
    ti.simt.block.sync()
    r = _pool[0]
    for l in range(1, 32):
        r = ti.min(r, _pool[l])
    return r


@ti.func
def _team_max(x, _pool: ti.template(), _lane):
    return -_team_min(-x, _pool, _lane)


@ti.func
def _team_scan(n, _pool: ti.template(), _lane):
    ti.simt.block.sync()
    _pool[_lane] = ti.cast(n, ti.f32)
    ti.simt.block.sync()
    r = 0.0
    for l in range(_lane + 1):
        r = r + _pool[l]
    return ti.cast(r, ti.i32)

'''
WARP_OPERATIONS = '''
@ti.func
def _team_min(x, _pool: ti.template(), _lane):
    r = x
    for o in ti.static((16, 8, 4, 2, 1)):
        r = ti.min(r, ti.bit_cast(ti.simt.warp.shfl_xor_i32(ti.u32(0xFFFFFFFF), ti.bit_cast(r, ti.i32), o), ti.f32))
    return r


@ti.func
def _team_max(x, _pool: ti.template(), _lane):
    r = x
    for o in ti.static((16, 8, 4, 2, 1)):
        r = ti.max(r, ti.bit_cast(ti.simt.warp.shfl_xor_i32(ti.u32(0xFFFFFFFF), ti.bit_cast(r, ti.i32), o), ti.f32))
    return r


@ti.func
def _team_scan(n, _pool: ti.template(), _lane):
    r = n
    for o in ti.static((1, 2, 4, 8, 16)):
        below = ti.simt.warp.shfl_up_i32(ti.u32(0xFFFFFFFF), r, o)
        if _lane >= o:
            r = r + below
    return r

'''
SUBGROUP_OPERATIONS = '''
@ti.func
def _subgroup_barrier():
    ti.simt.block.mem_sync()
    ti.simt.subgroup.barrier()
    ti.simt.block.mem_sync()


@ti.func
def _team_min(x, _pool: ti.template(), _lane):
    return ti.simt.subgroup.reduce_min(x)


@ti.func
def _team_max(x, _pool: ti.template(), _lane):
    return ti.simt.subgroup.reduce_max(x)


@ti.func
def _team_scan(n, _pool: ti.template(), _lane):
    return ti.simt.subgroup.inclusive_add(n)

'''
# An atomic counter would do the same, but Vulkan orders all memory around one, and the caches with it.
COLLECT = '''
@ti.func
def _collect(items: ti.template(), count: ti.template(), marks, limit, _pool: ti.template(), _lane):
    found = 0
    rest = marks
    while rest != 0:
        rest = rest & (rest - 1)
        found += 1
    end = _team_scan(found, _pool, _lane)
    if _lane == 31:
        count[0] = ti.min(end, limit)
    place = end - found
    rest = marks
    while rest != 0:
        lowest = rest & (0 - rest)
        bit = (ti.bit_cast(ti.cast(lowest, ti.f32), ti.i32) >> 23) - 127
        if place < limit:
            items[place] = ti.cast(_lane + 32 * bit, ti.f32)
        place += 1
        rest = rest ^ lowest

'''
TEAMS = 4096  # in flight at once: what fills the largest GPUs, and Taichi's 131,072 threads of a Vulkan dispatch
SHARED_BYTES = 48 * 1024  # what a block may have on every GPU that is not Apple's


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


BARRIERS = {
    "warp": "ti.simt.warp.sync(ti.u32(0xFFFFFFFF))",
    # Taichi's subgroup barrier orders no memory; the memory barrier beside it does
    "subgroup": "_subgroup_barrier()",
    "block": "ti.simt.block.sync()",
}
OPERATIONS = {"warp": WARP_OPERATIONS, "subgroup": SUBGROUP_OPERATIONS, "block": SHARED_OPERATIONS}


def team_kind(arch: str, subgroup: int | None) -> str:
    """What a team is: a warp, a subgroup of 32, or, where subgroups have another size, a whole block."""
    if arch == "cuda":
        return "warp"
    return "subgroup" if arch == "vulkan" and subgroup == 32 else "block"


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


TYPES = {REALS: "REALS", INTS: "INTS", "real": "ti.f32", "int": "ti.i32", "word": "ti.u32"}


@dataclass(frozen=True)
class Block:
    """How teams lie in a block: their number, and the tables that they share in its memory."""

    kind: str
    teams: int
    tables: tuple[str, ...]
    queued: bool

    @property
    def barrier(self) -> str:
        return BARRIERS[self.kind]


def lay_out(device: Device, prepared: Prepared) -> Block:
    """Choose the teams of a block: where a barrier of one team will do, several, that share the largest tables.

    On an H200 eight teams and their tables in shared memory make CUDA 12 % and Vulkan 10 % faster; NVIDIA's Vulkan
    driver reads other arrays past the first cache (5 TB/s however small the array, where CUDA reads 15).
    Mesa's software Vulkan loses threads at an atomic operation in a loop, so there nothing is queued.
    """
    kind = team_kind(device.arch, device.subgroup)
    if kind == "block":
        return Block(kind, 1, (), not device.software)
    team = sum(4 * size for name, (_, size) in prepared.scratch.items() if name not in prepared.shares) + 16
    for teams in (8, 4, 2):
        room = SHARED_BYTES - teams * team
        tables: tuple[str, ...] = ()
        for name in prepared.tables:
            if 4 * prepared.arrays[name].size <= room:
                tables, room = (*tables, name), room - 4 * prepared.arrays[name].size
        if tables:
            return Block(kind, teams, tables, True)
    return Block(kind, 1, (), True)


def _memory_lines(used: list[str], prepared: Prepared, block: Block) -> list[str]:
    """Declare the team memory, a slice of the block's for each team."""
    lines = []
    for name in used:
        kind, size = prepared.scratch[name]
        if name in prepared.shares:
            lines.append(f"{name} = {prepared.shares[name]}")
        elif block.teams == 1:
            lines.append(f"{name} = SharedArray(({size},), ti.{'i32' if kind == INTS else 'f32'})")
        else:
            lines += [
                f"_all_{name} = SharedArray(({size * block.teams},), ti.{'i32' if kind == INTS else 'f32'})",
                f"{name} = Slice(_all_{name}, _team * {size})",
            ]
    return lines


def _table_lines(used: list[str], prepared: Prepared, threads: int) -> list[str]:
    """Copy tables to the block's memory, under their own names."""
    lines = []
    for name in used:
        size = prepared.arrays[name].size
        lines += [
            f"_shared_{name} = SharedArray(({size},), ti.f32)",
            f"for _turn in range({-(-size // threads)}):",
            f"    _at = _turn * {threads} + _thread % {threads}",
            f"    if _at < {size}:",
            f"        _shared_{name}[_at] = {name}[_at]",
        ]
    return [*lines, "ti.simt.block.sync()"] if lines else []


def entry_text(name: str, signature: list[tuple[str, str]], prepared: Prepared, block: Block) -> str:
    """A kernel over items: each team draws a number from a queue until none is left.

    Streamlines differ a hundredfold in length; with a fixed share each, the GPU would wait for the unluckiest team.
    """
    names = [n for n, _ in signature]
    outer = [f"{n}: {TYPES[k]}" for n, k in signature if n != "item" and n not in prepared.scratch]
    used = [n for n in names if n in prepared.scratch]
    used.sort(key=lambda n: n in prepared.shares)
    tables = [n for n in names if n in block.tables]
    threads = 32 * block.teams
    inner = ", ".join(["_zero", "_lane", "_pool", *(f"_shared_{n}" if n in tables else n for n in names)])
    draw = [
        "if _lane == 0:",
        "    _ticket[_team] = ti.atomic_add(_queue[0], 1)",
        block.barrier,
        "item = _ticket[_team]",
        block.barrier,
    ]
    body = [
        "_lane = _thread & 31",
        f"_team = (_thread >> 5) % {block.teams}",
        f"_pool = SharedArray(({32 if block.kind == 'block' else 1},), ti.f32)",
        f"_ticket = SharedArray(({block.teams},), ti.i32)",
        *_memory_lines(used, prepared, block),
        *_table_lines(tables, prepared, threads),
        "item = _thread >> 5",
        *(draw if block.queued else []),
        "while item < count:",
        f"    {name}({inner})",
        f"    {block.barrier}",
        *(["    " + line for line in draw] if block.queued else ["    item = item + teams"]),
    ]
    lines = [
        "@ti.kernel",
        f"def run_{name}(count: ti.i32, teams: ti.i32, _zero: ti.i32, _queue: INTS, {', '.join(outer)}):",
        f"    ti.loop_config(block_dim={threads})",
        "    for _thread in range(teams * 32):",
        *["        " + line for line in body],
    ]
    return "\n".join(lines) + "\n"


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
    try:
        ti.init(arch=arch, fast_math=not exact, enable_fallback=False, log_level=ti.ERROR, default_fp=ti.f32, **options)
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
        self._staging = np.empty(0, np.int32)

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
            self.module.download_ints(count, array, out)
            self.sync()
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

    def gather(self, name: str, count: int, size: int, values: dict[str, Any]) -> np.ndarray:
        """Run a kernel whose int32 array ``out`` of ``size`` is wanted on the host: a view that the next call overwrites."""
        if size > len(self._staging):
            self._staging = np.empty(int(1.25 * size), np.int32)
            self._gathered = self.empty(len(self._staging), INTS)
        self.run(name, count, values | {"out": self._gathered})
        self.module.download_ints(size, self._gathered, self._staging[:size])
        self.sync()
        return self._staging[:size]
