"""Commands in this process and in others, what they leave, and functions of a test's file in a process of their own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from places import SUPPORT

from tistreamlines.devices import choose
from tistreamlines.errors import DeviceError


@dataclass(frozen=True)
class Outcome:
    """What a command left: exit code and what it printed."""

    code: int
    out: str
    err: str


Command = Callable[..., Outcome]


def one_line(outcome, code, *words):
    assert outcome.code == code, outcome
    assert outcome.err.startswith("Error: ")
    assert outcome.err.count("\n") == 1
    for word in words:
        assert word in outcome.err


def python(*arguments: object, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """Run Python in a process of its own."""
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)


def importing(file: str) -> str:
    """The Python that imports a test's file in another process, where the file finds what several tests share."""
    folders = [str(Path(file).parent), str(SUPPORT)]
    return f"import sys; sys.path[:0] = {folders!r}; import {Path(file).stem}; "


def in_own_process(file: str, call: str, *arguments: object) -> str:
    """Call a function of a test's file in a process of its own; return what it prints."""
    code = f"{Path(file).stem}.{call}(*sys.argv[1:])"
    done = python("-c", importing(file) + code, *arguments, timeout=500)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def assert_same_bits(file: str, arch: str, folder: Path, expected: dict[str, np.ndarray]) -> None:
    """Assert that a test module's ``compute`` gives these arrays on an arch, bit for bit."""
    arrays = computed(file, arch, folder)
    assert arrays.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_array_equal(arrays[name].view(np.uint8), values.view(np.uint8), err_msg=name)


def computed(file: str, arch: str, folder: Path) -> dict[str, np.ndarray]:
    """What a test module's ``compute`` gives on an arch, in a process of its own, since Taichi is global to one."""
    try:
        choose(arch)
    except DeviceError as error:
        pytest.skip(str(error))
    code = f"import numpy; numpy.savez(sys.argv[2], **{Path(file).stem}.compute(sys.argv[1]))"
    done = python("-c", importing(file) + code, arch, folder / "out.npz", timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    with np.load(folder / "out.npz") as stored:
        return dict(stored)
