"""Faults of devices that tests plant in kernels, in this process and in workers."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import count

import pytest
from places import SUPPORT

from tistreamlines.backends.faults import explained
from tistreamlines.backends.numba.program import NumbaProgram
from tistreamlines.backends.taichi.program import GpuProgram
from tistreamlines.helpers import helper, module_command
from tistreamlines.workers import remote

MESSAGES = {"memory": "CUDA_ERROR_OUT_OF_MEMORY (planted)", "lost": "CUDA_ERROR_LAUNCH_FAILED (planted)"}
CODE = """
import sys
sys.path.insert(0, {place!r})
from planted import plant
plant(setattr, **{fault!r})
sys.path.remove({place!r})
from {name} import main
sys.exit(main(*sys.argv[1:]))
"""


def plant(setting: Callable[..., object], at: str, number: int, how: str, always: bool = False) -> None:
    """Let a launch of a kernel fail.

    Parameters
    ----------
    setting : sets an attribute, as ``monkeypatch.setattr`` does.
    at : name of the kernel.
    number : of the launch in this process, from 1.
    how : 'memory', 'lost' or 'exit'.
    always : later launches fail, too; so do those of a worker that is started anew.
    """
    numbers = count(1)

    def point(name: str) -> None:
        if name == at and ((turn := next(numbers)) == number or (always and turn > number)):
            if how == "exit":
                os._exit(70)
            with explained():
                raise RuntimeError(MESSAGES[how])

    for owner, method in ((NumbaProgram, "share"), (GpuProgram, "run")):
        launch = getattr(owner, method)

        def launched(self, name, *others, launch=launch):
            point(name)
            return launch(self, name, *others)

        setting(owner, method, launched)


def plant_in_workers(monkeypatch: pytest.MonkeyPatch, worker: int | None = None, **fault: object) -> None:
    """Let launches fail in a worker, or in all of them; ``fault`` has the arguments of :func:`plant`."""
    start, workers = remote.Remote.start, []

    def code_of(name: str, *arguments: str) -> list[str]:
        return helper(CODE.format(place=str(SUPPORT), fault=fault, name=name), *arguments)

    def started(begun: remote.Remote) -> None:
        if begun not in workers:
            workers.append(begun)
        meant = worker in (None, workers.index(begun)) and (not begun.losses or fault.get("always"))
        monkeypatch.setattr(remote, "module_command", code_of if meant else module_command)
        start(begun)

    monkeypatch.setattr(remote.Remote, "start", started)
