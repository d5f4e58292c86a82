"""A device whose kernels run as late as they may, and whose copies come as early as they may."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tistreamlines.backends.numba.program import NumbaProgram
from tistreamlines.devices import Device, choose
from tistreamlines.linker.parts import Source
from tistreamlines.linker.transfer import Transfer
from tistreamlines.tracking.growth import growth as growth_module
from tistreamlines.tracking.growth import memory as memory_module


class Queued(NumbaProgram):
    """Kernels wait in a queue until the host waits for one of them.

    Parameters
    ----------
    source : what is linked.
    copies_beside : whether copies wait for the kernels launched before them alone, as with CUDA, or for all.

    Attributes
    ----------
    soon : whether kernels have run when the host looks whether they have.
    calls : names of kernels as they are launched, 'submitted' where the device has to begin with them, and 'copied'
        where a part of the codes is copied.
    waiting, most : parts of the codes that wait to be copied, and the most that ever did.
    """

    soon = False

    def __init__(self, source: Source, copies_beside: bool = True) -> None:
        super().__init__(source)
        self.copies_beside = copies_beside
        self._queue: list[tuple[str, int, dict[str, Any]]] = []
        self._done = self._launched = self.waiting = self.most = 0
        self.calls: list[str] = []

    def run(self, name: str, count: int, values: dict[str, Any]) -> None:
        """Queue a kernel."""
        self._queue.append((name, count, values))
        self._launched += 1
        self.calls.append(name)

    def _run_until(self, number: int) -> None:
        while self._done < number:
            self._done += 1
            super().run(*self._queue.pop(0))

    def submit(self) -> None:
        """Note that the device has to begin."""
        self.calls.append("submitted")

    def sync(self) -> None:
        """Run all kernels."""
        self._run_until(self._launched)

    def upload(self, array: np.ndarray, values: np.ndarray, *, beside: bool = False) -> np.ndarray:
        """Copy now what is copied beside kernels."""
        if not (beside and self.copies_beside):
            self.sync()
        return super().upload(array, values)

    def host(self, array: np.ndarray, count: int) -> np.ndarray:
        """Copy what all kernels leave."""
        self.sync()
        return super().host(array, count)

    def later(self, array: np.ndarray, count: int) -> Transfer[np.ndarray]:
        """Run the kernels launched so far, and no others, when the values are needed."""
        if not self.copies_beside:
            return super().later(array, count)
        launched, called = self._launched, []

        def finish() -> np.ndarray:
            assert not called
            called.append(1)
            self._run_until(launched)
            return array[:count].copy()

        def is_there() -> bool:
            if self.soon:
                self._run_until(launched)
            return self._done >= launched

        return Transfer(finish, is_there)

    def gather(self, name: str, count: int, values: dict[str, Any], out: np.ndarray, most: int) -> Any:
        """Let what a kernel writes be copied later."""
        if not self.copies_beside:
            super().gather(name, count, values, out, most)
            return self.sync()
        held = np.empty_like(out)
        self.run(name, count, values | {"out": held})
        copied = self.later(held, len(held))
        self.waiting += 1
        self.most = max(self.most, self.waiting)

        def finish() -> None:
            out[:] = copied.wait()
            self.calls.append("copied")
            self.waiting -= 1

        return finish


def queued_device(monkeypatch: pytest.MonkeyPatch, copies_beside: bool = True) -> Device:
    """Let engines for the device that is returned use such programs."""
    monkeypatch.setattr(growth_module, "open_program", lambda device, source, **_: Queued(source, copies_beside))
    monkeypatch.setattr(memory_module, "free_memory", lambda _: 2**34)
    return replace(choose("cpu"), arch="vulkan", software=False)
