"""What a device can do at most: bytes copied and multiply-adds done a second, by kernels in the trackers' own language.

The copy reads and writes arrays larger than the caches.  The arithmetic is chains of ``a = a + f * b`` as the trackers'
running sums are: exact, so that on a GPU each product is guarded (an instruction more) and nothing is fused, neither
there nor on a CPU.  A device's data sheet, which counts fused multiply-adds, promises two to three times as much.
"""

# names of the kernel language are annotations here
# pyright: reportInvalidTypeForm=false, reportGeneralTypeIssues=false

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from tistreamlines.aliases import Array, Json
from tistreamlines.backends import open_program
from tistreamlines.backends.program import Program
from tistreamlines.devices import Device, free_memory
from tistreamlines.errors import DeviceError
from tistreamlines.linker.lang import *
from tistreamlines.linker.parts import Source

BLOCKS = 128  # of 32 reals, copied by a team at a time: 16 kB
ITEM = 32 * BLOCKS
MASK = 0x3FFFFF  # sums of BLOCKS numbers below this fit an int32
CHAINS = 65536  # teams' worth of chains a launch: many to each team in flight, so that all end together
STEPS = 8
LEAST_TURNS, MOST_TURNS = 16, 4096  # sums stay whole numbers below 2**24: exact in float32
SERIES = 5
LAUNCH_SECONDS = 0.01


@func
def number_reals(item: i32, first: i32, out: Reals):
    """Number the reals from ``first`` on, beginning again at MASK."""
    for block in range(BLOCKS):
        c = (item * BLOCKS + block) * 32
        put(out, c, real((lane() + (c + first)) & MASK))


@func
def copy_reals(item: i32, source: Reals, out: Reals):
    """Copy BLOCKS blocks of 32 reals, eight at a time: reads that do not wait for one another."""
    for turn in range(BLOCKS // 8):
        place = (item * BLOCKS + turn * 8) * 32
        a = at(source, place)
        b = at(source, place + 32)
        c = at(source, place + 64)
        d = at(source, place + 96)
        e = at(source, place + 128)
        f = at(source, place + 160)
        g = at(source, place + 192)
        h = at(source, place + 224)
        put(out, place, a)
        put(out, place + 32, b)
        put(out, place + 64, c)
        put(out, place + 96, d)
        put(out, place + 128, e)
        put(out, place + 160, f)
        put(out, place + 192, g)
        put(out, place + 224, h)


@func
def sum_reals(item: i32, values: Reals, out: Ints):
    """Each lane's sum over BLOCKS blocks of whole numbers."""
    total = lanes(0)
    for block in range(BLOCKS):
        total = total + i32(at(values, (item * BLOCKS + block) * 32))
    put(out, 32 * item, total)


@func
def multiply_add(item: i32, turns: i32, unity: real, nought: real, out: Ints):
    """Four running sums a lane, each fed by the next, the last by the first: STEPS multiply-adds of each a turn.

    No compiler knows the factors, which are 1 and 0: so a and c grow evenly by b and d.
    """
    a = real(lane() & 7)
    b = real((lane() & 3) + 1)
    c = real((lane() >> 2) & 7)
    d = real(((lane() >> 3) & 3) + 2)
    for _ in range(turns):
        for _ in unrolled(STEPS):
            a = a + unity * b
            b = b + nought * c
            c = c + unity * d
            d = d + nought * a
    put(out, 32 * item, i32((a + b) + (c + d)))


def numbered_sums(items: int) -> Array:
    """What ``sum_reals`` finds in numbers from 0 on, (items, 32) int32."""
    period = np.arange(MASK + 1, dtype=np.int32).reshape(-1, BLOCKS, 32).sum(axis=1, dtype=np.int32)
    return period[np.arange(items) % len(period)]


def chain_sums(turns: int) -> Array:
    """What ``multiply_add`` leaves in each lane, (32,) int32."""
    n = np.arange(32, dtype=np.int32)
    a, b, c, d = n & 7, (n & 3) + 1, (n >> 2) & 7, ((n >> 3) & 3) + 2
    return a + b + c + d + STEPS * turns * (b + d)


def _copied_items(device: Device) -> int:
    """Items of the copy: each of two arrays exceeds the caches and fits a quarter of the memory."""
    most = 2**26 if device.software else 2**30
    if device.on_host:
        # the caches of a server grow with its cores
        most = min(most, max(2**28, 2**24 * (device.cores or 1)))
    free = free_memory(device) or (device.memory_bytes or 2**31) // 2
    return max(min(most, free // 4) // (4 * ITEM), 1)


def _least_seconds(launch: Callable[[], None], sync: Callable[[], None], seconds: float) -> float:
    """Seconds of a launch at best: several series of launches, each with one wait for the device at its end."""
    _timed(launch, sync, 1)  # compiles
    best = _timed(launch, sync, 1)
    count, begun = max(1, int(seconds / SERIES / best)), time.perf_counter()
    for _ in range(SERIES):
        best = min(best, _timed(launch, sync, count) / count)
        if time.perf_counter() - begun > 2 * seconds:
            break
    return best


def _timed(launch: Callable[[], None], sync: Callable[[], None], count: int) -> float:
    begun = time.perf_counter()
    for _ in range(count):
        launch()
    sync()
    return time.perf_counter() - begun


def _check(values: Array, expected: Array, what: str, device: Device) -> None:
    """Refuse to report a rate of work that was not done."""
    wrong = np.count_nonzero(values.reshape(expected.shape) != expected)
    if wrong:
        share = f"{wrong} of {expected.size} values of {what}"
        raise DeviceError(f"{device.arch}: {device.name} gets {share} wrong: see tistreamlines verify")


def _copy_rate(program: Program, device: Device, seconds: float) -> float:
    """Bytes read and written a second."""
    items = _copied_items(device)
    source, out = program.empty(items * ITEM, "reals"), program.empty(items * ITEM, "reals")
    sums = program.empty(32 * items, "ints")
    # on a CPU each thread touches its own part first, which puts it in the memory close to it
    program.run("number_reals", items, {"first": 0, "out": source})
    program.run("number_reals", items, {"first": 1, "out": out})
    values = {"source": source, "out": out}
    best = _least_seconds(lambda: program.run("copy_reals", items, values), program.sync, seconds)
    program.run("sum_reals", items, {"values": out, "out": sums})
    _check(program.host(sums, 32 * items), numbered_sums(items), "the copy", device)
    return 8 * items * ITEM / best


def _chain_rate(program: Program, device: Device, seconds: float) -> float:
    """Multiply-adds a second."""
    values = {"turns": LEAST_TURNS, "unity": 1.0, "nought": 0.0, "out": program.empty(32 * CHAINS, "ints")}

    def launch() -> None:
        program.run("multiply_add", CHAINS, values)

    _timed(launch, program.sync, 1)
    while values["turns"] < MOST_TURNS and _timed(launch, program.sync, 1) < LAUNCH_SECONDS:
        values["turns"] *= 4
    best = _least_seconds(launch, program.sync, seconds)
    expected = np.tile(chain_sums(values["turns"]), (CHAINS, 1))
    _check(program.host(values["out"], 32 * CHAINS), expected, "the chain", device)
    return 4 * STEPS * values["turns"] * 32 * CHAINS / best


def measure_limits(device: Device, seconds: float = 0.5, threads: int | None = None) -> Json:
    """Measure what a device can do at most, exact as trackers run, and check what it has computed.

    Taichi is global to a process: measure a GPU before another program is opened on one, or in a process of its own.

    Parameters
    ----------
    device : one of :func:`tistreamlines.devices.list_devices`.
    seconds : for each of the two, besides compiling and checking.
    threads : of a CPU, None for all.

    Returns
    -------
    dict
        device : its name.
        bytes_per_second : read and written by a copy.  What a CPU reads of a line before it writes it is not counted.
        multiply_adds_per_second : products with their sums; each counts as two operations elsewhere.

    Raises
    ------
    DeviceError
        If the device cannot start or computes wrong results.
    """
    program = open_program(device, Source([number_reals, copy_reals, sum_reals, multiply_add]), threads=threads)
    return {
        "device": device.name,
        "bytes_per_second": _copy_rate(program, device, seconds),
        "multiply_adds_per_second": _chain_rate(program, device, seconds),
    }


def shares(
    run: Json, limits: Json | None, bytes_a_point: float | None, operations_a_point: float | None
) -> dict[str, float | None] | None:
    """Set what a run has done beside what its device can do: ``limit_share`` of the results.

    Parameters
    ----------
    run : a run of the results, of which ``points_per_second`` is looked at, and ``device`` if it has one.
    limits : from :func:`measure_limits`; those of another device than the run's say nothing. None if unknown.
    bytes_a_point, operations_a_point : from ``count_step`` of the method's row; None if unknown.

    Returns
    -------
    dict or None
        Shares by ``bytes`` and ``operations``, each None if unknown; None if both are.
    """
    rate = run.get("points_per_second")
    if not rate or not limits or "reason" in limits or (bytes_a_point is None and operations_a_point is None):
        return None
    if run.get("device", limits["device"]) != limits["device"]:
        return None
    greatest = {"bytes": limits["bytes_per_second"], "operations": 2 * limits["multiply_adds_per_second"]}
    done = {"bytes": bytes_a_point, "operations": operations_a_point}
    return {name: None if count is None else count * rate / greatest[name] for name, count in done.items()}
