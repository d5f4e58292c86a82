"""Copies between the host and a device by Taichi's kernels; and when a device begins."""

from __future__ import annotations

import time
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
from commands import computed

from tistreamlines.backends.taichi.program import TaichiProgram
from tistreamlines.devices import choose
from tistreamlines.linker.lang import Ints, func, i32
from tistreamlines.linker.parts import Source


class Runtime:
    """That of a device whose arrays are the host's."""

    def turn(self, exact):
        return nullcontext()


class Kernels:
    """What copies on such a device."""

    @staticmethod
    def copy(n, values, out):
        assert values.dtype == out.dtype
        out[:n] = values[:n]


def test_the_front_of_an_array_is_copied():
    program = object.__new__(TaichiProgram)
    program.device, program.runtime = SimpleNamespace(arch="cuda"), Runtime()
    program.exact, program._transfers = True, Kernels
    for dtype in (np.float32, np.int32):
        array = np.full(9, 7, dtype)
        program.upload(array, np.arange(4, dtype=dtype))
        assert array.tolist() == [0, 1, 2, 3, 7, 7, 7, 7, 7]
    assert program.host(array, 5).tolist() == [0, 1, 2, 3, 7]


@func
def work(item: i32, turns: i32, out: Ints):
    """Take some time."""
    for k in range(turns):
        out[item] = (out[item] * out[item] + k) & 4095


def compute(arch: str) -> dict[str, np.ndarray]:
    """Seconds that a kernel takes, and that are left of it when the device could have begun meanwhile."""
    program = TaichiProgram(choose(arch), Source([work]), exact=True)
    values, whole = {"turns": 1000, "out": program.empty(64, "ints")}, 0.0
    while whole < 0.2:
        values["turns"] *= 2
        begun = time.perf_counter()
        program.run("work", 64, values)
        program.sync()
        whole = time.perf_counter() - begun
    program.run("work", 64, values)
    program.submit()
    time.sleep(3 * whole)
    begun = time.perf_counter()
    program.sync()
    return {"whole": np.array(whole), "left": np.array(time.perf_counter() - begun)}


@pytest.mark.parametrize("arch", ["vulkan", "cuda", "metal"])
def test_a_device_begins_before_it_is_waited_for(arch, tmp_path):
    """Taichi would keep what is launched with Vulkan and Metal until then."""
    seconds = computed(__file__, arch, tmp_path)
    assert seconds["left"] < seconds["whole"] / 2, seconds
