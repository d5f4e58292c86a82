"""Kernels of the CPU that run while the caller goes on: each waits for those that use its arrays, and for no others."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest

from tistreamlines.backends.numba.program import QueuedProgram
from tistreamlines.linker.lang import Ints, func, i32
from tistreamlines.linker.parts import Source
from tistreamlines.linker.records import INTS

COUNT = 1000
SOON = 0.05  # seconds in which a kernel that does not wait has long begun


@func
def fill_with(item: i32, value: i32, table: Ints, out: Ints):
    """Write a value, and what a table holds."""
    out[item] = value + table[item]


@func
def double(item: i32, source: Ints, out: Ints):
    """Write twice the source."""
    out[item] = 2 * source[item]


@func
def negate(item: i32, source: Ints, out: Ints):
    """Write the source with the other sign."""
    out[item] = -source[item]


@func
def copy_now(item: i32, source: Ints, out: Ints):
    """Write the source."""
    out[item] = source[item]


class Gated(QueuedProgram):
    """Kernels begin when their gate is open, and note their names."""

    def __init__(self, threads: int) -> None:
        kernels = [fill_with, double, negate, copy_now]
        super().__init__(Source(kernels), threads=threads, queued={"fill_with": "a", "double": "a", "negate": "b"})
        self.gates = {kernel.__name__: threading.Event() for kernel in kernels}
        self.gates["copy_now"].set()
        self.begun: list[str] = []
        self.table = self.array(np.arange(COUNT, dtype=np.int32))

    def share(
        self, name: str, count: int, values: dict[str, Any], following: np.ndarray
    ) -> tuple[Callable[[], None], int]:
        """Wait for the gate before each share."""
        share, threads = super().share(name, count, values, following)

        def gated() -> None:
            self.begun.append(name)
            assert self.gates[name].wait(30)
            share()

        return gated, threads

    def fill(self, value: int, out: np.ndarray) -> None:
        """Launch the kernel that writes a value."""
        self.run("fill_with", COUNT, {"value": value, "table": self.table, "out": out})

    def open(self) -> None:
        """Let all kernels begin."""
        for gate in self.gates.values():
            gate.set()


@pytest.fixture(params=[1, 2, 3])
def program(request: Any) -> Any:
    gated = Gated(request.param)
    yield gated
    gated.open()


def test_the_caller_goes_on_and_a_copy_waits(program):
    out = program.empty(COUNT, INTS)
    program.fill(5, out)
    coming = program.later(out, COUNT)
    assert not coming.is_there() and not out.any()
    program.open()
    np.testing.assert_array_equal(coming.wait(), 5 + np.arange(COUNT))
    assert coming.is_there()
    program.fill(6, out)
    np.testing.assert_array_equal(program.host(out, 3), [6, 7, 8])
    program.fill(7, out)
    program.sync()
    assert out[0] == 7


def test_kernels_that_share_an_array_take_turns_and_others_do_not(program):
    first, second, apart = (program.empty(COUNT, INTS) for _ in range(3))
    program.gates["double"].set()
    program.gates["negate"].set()
    program.fill(1, first)
    program.run("double", COUNT, {"source": first, "out": second})
    program.run("negate", COUNT, {"source": program.table, "out": apart})  # the table is also read by the first
    np.testing.assert_array_equal(program.host(apart, COUNT), -np.arange(COUNT))
    assert not first.any() and not second.any()
    program.open()
    np.testing.assert_array_equal(program.host(second, COUNT), 2 + 2 * np.arange(COUNT))


def test_what_is_not_queued_runs_when_its_arrays_are_done(program):
    first, second = (program.empty(COUNT, INTS) for _ in range(2))
    program.fill(1, first)
    threading.Timer(SOON, program.open).start()
    program.run("copy_now", COUNT, {"source": first, "out": second})
    np.testing.assert_array_equal(second, 1 + np.arange(COUNT))


def test_uploads_wait_for_kernels_that_use_the_array(program):
    out = program.empty(COUNT, INTS)
    program.fill(1, out)
    threading.Timer(SOON, program.open).start()
    program.upload(out, np.full(2, 9, np.int32), beside=True)
    np.testing.assert_array_equal(out[:4], [9, 9, 3, 4])


@pytest.mark.parametrize("cancelled", [False, True])
def test_a_kernel_waits_for_other_readers_of_its_arrays(program, cancelled):
    program.open()
    out, reader = program.empty(COUNT, INTS), Future()
    program.also_read(out, reader)
    program.fill(1, out)
    done, program.begun = program.later(out, 1), []
    threading.Event().wait(SOON)
    assert not done.is_there() and not program.begun and not out.any()
    _ = reader.cancel() if cancelled else reader.set_exception(ValueError("of the reader alone"))
    assert done.wait() == [1]


def test_kernels_that_are_dropped_take_no_further_items(program):
    out = program.empty(COUNT, INTS)
    program.fill(5, out)
    program.drop()
    program.open()
    assert not program.host(out, COUNT).any()
    program.fill(6, out)
    np.testing.assert_array_equal(program.host(out, COUNT), 6 + np.arange(COUNT))


def test_what_a_kernel_raises_is_raised_once(program):
    out, other = (program.empty(COUNT, INTS) for _ in range(2))
    program.open()
    kept, program.gates["fill_with"] = program.gates["fill_with"], None  # type: ignore[assignment]
    program.fill(1, out)
    program.run("double", COUNT, {"source": out, "out": other})
    with pytest.raises(AttributeError):
        program.host(other, 1)
    program.gates["fill_with"] = kept
    program.fill(2, out)
    program.run("double", COUNT, {"source": out, "out": other})
    np.testing.assert_array_equal(program.host(other, 2), [4, 6])
