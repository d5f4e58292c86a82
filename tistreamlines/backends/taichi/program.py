"""Programs for GPUs, compiled by Taichi or a fork of it for CUDA, HIP, Vulkan and Metal.

A team is a warp or a subgroup if these have 32 threads, else a block of 32 threads that exchange values in shared memory.
Reals are guarded against fusing and reordering with an argument that is always 0, which compilers cannot know. It is
combined with them by a bitwise or; on some archs, it is subtracted from products as a real number, and what a sum begins
with is multiplied by a 1 that is made of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from ...devices import Device
from ...linker.coming import Coming
from ...linker.dialect import Dialect
from ...linker.once import link_once
from ...linker.records import INTS, REALS
from ...linker.source import Source
from ..faults import point
from ..gathering import Gathering
from .block import Block, entry_text, lay_out
from .internals import Ndarray
from .runtime import start
from .team import BARRIERS, HALVES, HEADER, SLICES, TRANSFERS, operations, team_kind

# Archs whose compilers make one operation of a product and a zero that is subtracted from it, and of a sum and a one by which
# its first term is multiplied. That rounds once, and thus as the product or the sum does. Others may change the order of what
# is added.
FUSES = ("cuda",)
# Archs whose drivers get launches late: Taichi gathers them until it has to wait for one of them, or until another one comes so
# many seconds after the first.
LATE_ARCHS, LATE_SECONDS = ("vulkan", "metal"), 0.002
OF_TEAMS = ("collect", "raised", "team_any", "team_first", "team_last", "team_max", "team_min", "team_value")  # words that ``team.py`` defines
TEAMS = 4096  # running at once: enough for the largest GPUs, and 131,072 threads, Taichi's limit for Vulkan


def _u32(text: str) -> str:
    return f"ti.u32({text})" if text.isdigit() else f"ti.cast({text}, ti.u32)"


def _logic(left: str, symbol: str, right: str) -> str:
    # Taichi would make a bitwise operation on bools, which SPIR-V lacks
    return f"((ti.cast({left}, ti.i32) {symbol} ti.cast({right}, ti.i32)) != 0)"


def _each(target: str, count: str) -> list[str]:
    return [
        f"for _turn_{target} in range(({count} + 31) // 32):",
        f"    {target} = _turn_{target} * 32 + _lane",
        f"    if {target} < {count}:",
    ]


def _of_team(name: str) -> Callable[..., str]:
    return lambda *texts: f"_{name}({', '.join(texts)}, _pool, _lane)"


def _high_word(a: str, b: str) -> str:
    return f"ti.cast((ti.cast({a}, ti.u64) * ti.cast({b}, ti.u64)) >> ti.u64(32), ti.u32)"


SPELL = {
    "real": "ti.cast({}, ti.f32)", "i32": "ti.cast({}, ti.i32)", "floor": "ti.floor({})", "bits": "ti.bit_cast({}, ti.i32)",
    "from_bits": "ti.bit_cast({}, ti.f32)", "absolute": "ti.abs({})", "minimum": "ti.min({}, {})",
    "maximum": "ti.max({}, {})", "where": "ti.select({}, {}, {})", "lane": "_lane", "lanes": "{}", "at": "{}[{} + _lane]",
    "prefetch": "pass", "put": "{}[{} + _lane] = {}", "add": "ti.atomic_add({}[{}], {})", "take": "{}[{}]",
    "spread": "{0}[{1} + {3}]",
}


def _spell(barrier: str, int64: bool) -> dict[str, Callable[..., str]]:
    return {
        **{name: text.format for name, text in SPELL.items()},
        **{name: _of_team(name) for name in OF_TEAMS},
        "u32": _u32,
        "umulhi": _high_word if int64 else lambda a, b: f"_high_word({a}, {b})",
        "barrier": lambda: barrier,
        "vec3": lambda *a: f"ti.Vector([{', '.join(a)}], dt=ti.f32)",
        "words": lambda *a: f"ti.Vector([{', '.join(a)}], dt=ti.u32)",
    }


def _guarded(left: str, symbol: str, right: str) -> str:
    """Guard a product or a sum against fusing and reordering; see ARCHITECTURE.md."""
    return f"_guard({left} {symbol} {right}, _zero)"


def _fused(left: str, symbol: str, right: str) -> str:
    """The same where both guards cost nothing."""
    return f"({left} * {right} - _nil)" if symbol == "*" else f"({left} * _one {symbol} {right})"


def dialect(
    arch: str, exact: bool, kind: str | None = None, int64: bool = True, guarded: bool = True
) -> Dialect:
    """Return Taichi's spelling for an arch.

    ``kind`` says what a team is (see :func:`team_kind`), None for what works everywhere; ``int64``: whether the device has
    64-bit integers; ``guarded``: whether the text itself has to keep compilers from reordering.
    """
    kind = kind or team_kind(arch, None)
    return Dialect(
        name=f"{arch}{'' if exact else 'fast'}{'' if guarded else 'marked'}",
        header=HEADER + ("" if int64 else HALVES) + operations(kind),
        decorator="@ti.func",
        spell=_spell(BARRIERS[kind], int64),
        literal=repr,
        logic=_logic,
        hidden=("_zero", "_nil", "_one", "_lane", "_pool: ti.template()"),
        guard=(_fused if arch in FUSES else _guarded) if exact and guarded else None,
        each=_each,
        unroll=lambda n: f"ti.static(range({n}))",
        # lavapipe loses values of threads around such a loop in a long kernel, such as that of ifod1 with backtracking
        roll=lambda n: f"range({n})" if kind == "block" else f"range({n} + _zero)",
        parameter=lambda name, kind: f"{name}: ti.template()" if kind in (REALS, INTS) else name,
    )


def linked_for(
    device: Device, source: Source, exact: bool, kind: str | None, queued: bool, *, guarded: bool = True,
    sliced: bool = True,
) -> tuple[str, dict[str, list[tuple[str, str]]], Block]:
    """Return the text of a module of Taichi's, the signatures of its kernels, and its blocks.

    Parameters are those of :class:`TaichiProgram` and :func:`dialect`; ``sliced``: see :class:`.internals.Internals`.
    """
    kind = kind or team_kind(device.arch, device.subgroup)
    linked = link_once(source.roots, dialect(device.arch, exact, kind, device.int64, guarded), source.filling)
    block = lay_out(device, source, kind, sliced)
    block = replace(block, queued=block.queued and queued)
    # the longest first, whose compilation a driver can then begin first
    names = sorted((root.__name__ for root in source.roots), key=lambda name: -len(linked.text_for(name)))
    signatures = {name: linked.signatures[name] for name in names}
    text = linked.text + (SLICES if block.sliced else "")
    for name, signature in signatures.items():
        text += "\n\n" + entry_text(name, signature, source, block)
    return text, signatures, block


class TaichiProgram(Gathering[Ndarray]):
    """Kernels linked for a GPU; arrays live on it.

    Parameters
    ----------
    device : where to run.
    source : what is linked.
    exact : do not reorder arithmetic.
    profile : measure the time in kernels.
    kind : what a team is, None for what suits the subgroup size that the device reports.
    queued : teams may take items from a queue; if False, each has a fixed share.
    """

    copies_beside = False

    def __init__(
        self, device: Device, source: Source, *, exact: bool, profile: bool = False, kind: str | None = None,
        queued: bool = True,
    ) -> None:
        super().__init__()
        self.runtime, self.exact, self.profile = start(device, profile, self), exact, profile
        self.ti, self.scratch = self.runtime.ti, source.scratch
        sliced = self.runtime.parts.sliced
        text, self.signatures, self.block = linked_for(device, source, exact, kind, queued, sliced=sliced)
        self.module, self._transfers = self.runtime.module(text, exact), self.runtime.module(TRANSFERS, exact)
        self._queue = self.empty(1, INTS)

    def array(self, values: np.ndarray) -> Ndarray:
        """Return an array on the device that holds these values."""
        kind = REALS if values.dtype.kind == "f" else INTS
        array = self.upload(self.empty(values.size, kind), values)
        self.sync()  # else lavapipe crashes under the profiler
        return array

    def empty(self, size: int, kind: str) -> Ndarray:
        """Return an array of ``kind`` for kernels to fill."""
        point("allocate")
        with self.runtime.turn(self.exact):
            return self.runtime.array(self.ti.f32 if kind == REALS else self.ti.i32, size)

    def upload(self, array: Ndarray, values: np.ndarray, *, beside: bool = False) -> Ndarray:
        """Copy values to the front of an array, and return it; see :meth:`..program.Program.upload`."""
        reals = values.dtype.kind == "f"
        if len(values):
            copy = self._transfers.upload_reals if reals else self._transfers.upload_ints
            with self.runtime.turn(self.exact):
                copy(len(values), np.ascontiguousarray(values, np.float32 if reals else np.int32), array)
        return array

    def _download(self, array: Ndarray, out: np.ndarray) -> None:
        with self.runtime.turn(self.exact):
            self._transfers.download_ints(len(out), array, out)
            if self.runtime.device.arch == "vulkan":
                # Taichi ignores it if the device is lost while it copies; then the next launch ends the process
                self._queue.fill(0)
                self.ti.sync()

    def host(self, array: Ndarray, count: int) -> np.ndarray:
        """Wait for the device; return a copy of the first ``count`` elements of an int32 array."""
        out = np.empty(count, np.int32)
        if count:
            self._download(array, out)
        return out

    def later(self, array: Ndarray, count: int) -> Coming[np.ndarray]:
        """See :meth:`..program.Program.later`."""
        out = self.host(array, count)
        return Coming(lambda: out)

    def _copy_later(self, array: Ndarray, out: np.ndarray) -> None:
        """Copy an array at once."""
        self._download(array, out)

    def sync(self) -> None:
        """Wait for the device."""
        with self.runtime.turn(self.exact):
            self.ti.sync()

    def run(self, name: str, count: int, values: Mapping[str, object]) -> None:
        """Launch a kernel for items 0 to ``count`` - 1, with arguments by flat name; it may still run on return."""
        if count:
            point(name)
            arguments = [values[n] for n, _ in self.signatures[name] if n != "item" and n not in self.scratch]
            # whole blocks only
            teams = -(-min(count, TEAMS) // self.block.teams) * self.block.teams
            with self.runtime.turn(self.exact):
                self._queue.fill(0)
                self.runtime.launch(self.module, f"run_{name}", [count, teams, 0, self._queue, *arguments])

    def submit(self) -> None:
        """See :meth:`..program.Program.submit`."""
        if self.runtime.device.arch in LATE_ARCHS:
            time.sleep(LATE_SECONDS)
            with self.runtime.turn(self.exact):
                self.runtime.launch(self._transfers, "clear", [0, self._queue])

    def kernel_seconds(self) -> float:
        """Return the seconds in kernels since the last call; 0 without profiling."""
        if not self.profile:
            return 0.0
        with self.runtime.turn(self.exact):
            seconds = self.ti.profiler.get_kernel_profiler_total_time()
            self.ti.profiler.clear_kernel_profiler_info()
        return seconds
