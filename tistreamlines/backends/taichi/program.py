"""Programs for GPUs, and those that Taichi or a fork of it compiles and runs, for CUDA, HIP, Vulkan and Metal."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ...devices import Device
from ...errors import DeviceError
from ...linker.parts import Source
from ...linker.records import INTS, REALS
from ...linker.transfer import Transfer
from ..program import OnDevice, Program
from .linking import linked_for
from .runtime import Ndarray, start
from .team import TRANSFERS

# Archs whose drivers get launches late: Taichi gathers them until it has to wait for one of them, or until another one comes so
# many seconds after the first.
LATE_ARCHS, LATE_SECONDS = ("vulkan", "metal"), 0.002
TEAMS = 4096  # running at once: enough for the largest GPUs, and 131,072 threads, Taichi's limit for Vulkan


class GpuProgram(Program[OnDevice]):
    """Kernels linked for a GPU; arrays live on it.

    Parameters
    ----------
    device : where to run.
    source : what is linked.
    exact : do not reorder arithmetic.
    kind : the form of a team, None for the form that suits the reported subgroup size.
    queued : teams may take items from a queue; if False, each has a fixed share.

    Attributes
    ----------
    bits : of a real.
    """

    bits = 32

    def __init__(
        self, device: Device, source: Source, *, exact: bool, kind: str | None = None, queued: bool = True
    ) -> None:
        self.device, self.scratch, self.exact = device, source.scratch, exact
        text, self.signatures, self.block = linked_for(
            device, source, exact, kind, queued, self.is_guarded(device), self.bits
        )
        self._spare: list[tuple[OnDevice, int]] = []  # arrays in which kernels gather, and their sizes
        self._load(text)
        self._queue = self.empty(1, INTS)

    @staticmethod
    def is_guarded(device: Device) -> bool:
        """Whether the text itself has to keep compilers from reordering."""
        return True

    def _load(self, text: str) -> None:
        """Load the module of this text."""
        raise NotImplementedError

    def array(self, values: np.ndarray) -> OnDevice:
        """Return an array on the device that holds these values."""
        return self.upload(self.empty(values.size, REALS if values.dtype.kind == "f" else INTS), values)

    def run(self, name: str, count: int, values: Mapping[str, object]) -> None:
        """Launch a kernel for items 0 to ``count`` - 1, with arguments by flat name; it may still run on return."""
        if count:
            teams = -(-min(count, TEAMS) // self.block.teams) * self.block.teams  # whole blocks only
            taken = [(kind, values[n]) for n, kind in self.signatures[name] if n != "item" and n not in self.scratch]
            self._launch(name, teams, [("int", count), ("int", teams), ("int", 0), (INTS, self._queue), *taken])

    def _launch(self, name: str, teams: int, arguments: Sequence[tuple[str, object]]) -> None:
        """Launch a kernel with arguments, each with its kind, in so many teams."""
        raise NotImplementedError

    def _copy_later(self, array: OnDevice, out: np.ndarray) -> Callable[[], None] | None:
        """Return what copies an array to the host as kernels launched so far leave it; None if it was copied at once."""
        raise NotImplementedError

    def words(self, size: int) -> np.ndarray:
        """Return memory of the host; see :meth:`..program.Program.words`."""
        return np.empty(size, np.int32)

    def gather(
        self, name: str, count: int, values: Mapping[str, object], out: np.ndarray, most: int
    ) -> Callable[[], None] | None:
        """Run a kernel and copy what it writes to the int32 array ``out``, of at most ``most`` elements, to the host.

        See :meth:`..program.Program.gather`.
        """
        array, size = self._spare.pop() if self._spare else (None, 0)
        if array is None or len(out) > size:
            array, size = None, min(int(1.25 * len(out)), most)  # frees its memory before the new allocation
            array = self.empty(size, INTS)
        self.run(name, count, {**values, "out": array})
        copy = self._copy_later(array, out)
        if copy is None:
            self._spare.append((array, size))
            return None

        def finish() -> None:
            copy()
            self._spare.append((array, size))

        return finish


class TaichiProgram(GpuProgram[Ndarray]):
    """A program of which Taichi's runtime drives the device."""

    copies_beside = False

    def _load(self, text: str) -> None:
        self.runtime = start(self.device, self)
        self.ti = self.runtime.ti
        self.module, self._transfers = (self.runtime.module(part, self.exact) for part in (text, TRANSFERS))

    def empty(self, size: int, kind: str) -> Ndarray:
        """Return an array of ``kind`` for kernels to fill."""
        with self.runtime.turn(self.exact):
            return self.runtime.array(self._real() if kind == REALS else self.ti.i32, size)

    def _real(self) -> object:
        """Return Taichi's type of a real."""
        return self.ti.f64 if self.bits == 64 else self.ti.f32

    def upload(self, array: Ndarray, values: np.ndarray, *, beside: bool = False) -> Ndarray:
        """Copy values to the front of an array, and return it; see :meth:`..program.Program.upload`."""
        if len(values):
            held = np.ascontiguousarray(values, f"float{self.bits}" if values.dtype.kind == "f" else np.int32)
            with self.runtime.turn(self.exact):
                self._transfers.copy(len(held), held, array)
        return array

    def _copy_later(self, array: Ndarray, out: np.ndarray) -> None:
        """Copy an array at once."""
        with self.runtime.turn(self.exact):
            self._transfers.copy(len(out), array, out)
            if self.device.arch == "vulkan":
                # Taichi ignores it if the device is lost while it copies; then the next launch ends the process
                self._queue.fill(0)
                self.ti.sync()

    def host(self, array: Ndarray, count: int) -> np.ndarray:
        """Wait for the device; return a copy of the first ``count`` elements of an int32 array."""
        out = np.empty(count, np.int32)
        if count:
            self._copy_later(array, out)
        return out

    def later(self, array: Ndarray, count: int) -> Transfer[np.ndarray]:
        """See :meth:`..program.Program.later`."""
        out = self.host(array, count)
        return Transfer(lambda: out)

    def sync(self) -> None:
        """Wait for the device."""
        with self.runtime.turn(self.exact):
            self.ti.sync()

    def _launch(self, name: str, teams: int, arguments: Sequence[tuple[str, object]]) -> None:
        with self.runtime.turn(self.exact):
            self._queue.fill(0)
            self.runtime.launch(self.module, f"run_{name}", [value for _, value in arguments])

    def submit(self) -> None:
        """See :meth:`..program.Program.submit`."""
        if self.device.arch in LATE_ARCHS:
            time.sleep(LATE_SECONDS)
            with self.runtime.turn(self.exact):
                self._queue.fill(0)


class WideProgram(TaichiProgram):
    """A program with reals of 64 bits; each team is a block, whose lanes exchange values in shared memory."""

    bits = 64

    def __init__(self, device: Device, source: Source, *, exact: bool) -> None:
        if device.lack:
            raise DeviceError(f"{device.arch}: {device.lack}, which this computation needs: use the CPU")
        super().__init__(device, source, exact=exact, kind="block")
