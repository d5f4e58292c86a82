"""Test of a device: a small kernel that runs before any other when the device is opened.

A driver may report subgroups of 32 threads but run 8 or 16 of them together, and Taichi cannot request a size.  If the
operations of teams fail the test, teams exchange values in shared memory instead.  Kernels need only normal float32
numbers: those below 2**-126 may be kept or, as on CUDA, flushed to 0.

The kernel tests minima, maxima, scans and votes of teams, exchange through shared memory while teams take different
branches, products and sums whose results change if a compiler fuses or reorders them, high words of products, and small
numbers.

A device that passes is not tested again until it, its driver, Taichi or this package's way to compile changes.
"""

from __future__ import annotations

import hashlib
import threading
from concurrent.futures import wait
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ...aliases import Json
from ...devices import Device, alone, choose
from ...devices.compilers import compiler_for
from ...errors import DeviceError
from ...linker.lang import *
from ...linker.parts import Source
from ...linker.store import folder, read, write
from ..compile_process import CompileProcess
from ..driven.ahead import COMPILING, hash_of, kernels_of
from ..driven.program import DrivenProgram, WideDrivenProgram, able, drives, opened
from .linking import linked_for
from .program import TaichiProgram, WideProgram
from .runtime import start
from .team import team_kind

Reals32 = npt.NDArray[np.float32]
SECONDS = 300  # time limit of the test: drivers may hang
TEAMS, TURNS, ROW, VOTES = 60, 3, 32, 40  # a block of 20 teams, three times
SMALLEST = np.float32(2.0**-126)
TEAMWORK, ORDER, SMALL, WORDS = "teams of 32 threads", "the order of operations", "small numbers", "products of words"


@func
def trial(
    item: i32, a: Reals, b: Reals, tiny: Reals, out: Ints, integers: Ints, room: Reals, listed: Reals, counted: Ints
):
    """Compute what a device must do correctly, each row of 32 results on its own (see :func:`_expected`)."""
    x = at(a, 32 * item)
    y = at(b, 32 * item)
    put(out, 160 * item, bits(x * x + y))
    z = x
    for turn in range(8):
        z = (z * x + 0.7) * 0.6 - real(turn) * (0.1 * x)
    put(out, 160 * item + 32, bits(z))
    put(out, 160 * item + 64, bits(at(tiny, 0) * at(tiny, 32)))
    low = 4.0
    high = 0.0
    value = 0.0
    votes = 0
    lasts = 0
    below = x * 0.0
    for turn in range(1 + item % TURNS):  # teams of a block go different ways
        put(room, 0, x + real(turn))
        barrier()
        x = take(room, (5 * lane() + turn) & 31)
        barrier()
        low = low - team_min(where(lane() == item % 32, x - 4.0, x))
        high = high + team_max(where(lane() == (item + turn) % 32, x + 4.0, x))
        value = value + team_value(x, (item + turn) % 32)
        below = below + raised(x, 4)
        begun = lane() >= (item + turn) % VOTES  # there may be no such lane
        votes = 128 * votes + 64 * team_any(begun) + team_first(begun)
        lasts = 64 * lasts + team_last(lane() < (item + turn) % VOTES) + 1
    put(out, 160 * item + 96, bits(where(lane() == 0, low, where(lane() == 1, high, where(lane() == 2, value, where(lane() < 16, below, x))))))
    collect(listed, counted, i32(x * 64.0) & 7, 64)
    barrier()
    put(out, 160 * item + 128, bits(at(listed, 0)))
    put(integers, 64 * item, where(lane() == 0, counted[0], where(lane() == 1, votes, where(lane() == 2, lasts, 0))))
    word = u32(bits(y)) * u32(0x9E3779B1)
    high_word = umulhi(word, u32(0xD2511F53))
    put(integers, 64 * item + 32, i32(high_word >> u32(1)))


SOURCE = Source([trial], scratch={"room": ("reals", 32), "listed": ("reals", 64), "counted": ("ints", 1)})


@dataclass(frozen=True)
class TrialVerdict:
    """Result of the test: what a team is, whether that differs from the driver's report, and what is computed wrongly."""

    kind: str
    lied: bool
    faults: tuple[str, ...]


_verdicts: dict[tuple[str, int, str, str], TrialVerdict] = {}
_judging = threading.Lock()


def program_class(device: Device) -> type[DrivenProgram] | type[TaichiProgram]:
    """Return the class of a device's programs."""
    return DrivenProgram if drives(device.arch) and able(device) else TaichiProgram


def wide_class(device: Device) -> type[WideDrivenProgram] | type[WideProgram]:
    """Return the class of a device's programs with reals of 64 bits."""
    return WideDrivenProgram if device.arch == "cuda" and drives(device.arch) else WideProgram


def open_checked(device: Device, exact: bool) -> str:
    """Open a device, with Taichi or without it, and test it; return what a team is (see ``team.team_kind``).

    Raises
    ------
    DeviceError
        If the device fails the test.
    """
    verdict = judged(device)
    if program_class(device) is TaichiProgram:
        start(device)
    else:
        opened(device)
    if faults := [f for f in verdict.faults if exact or f != ORDER]:
        way_out = "use another arch" if faults != [ORDER] else "use --fast, or another arch"
        raise DeviceError(
            f"{device.arch}: {device.name} ({device.driver}) computes wrong results in a test of "
            f"{', '.join(faults)}: {way_out}"
        )
    return verdict.kind


def judged(device: Device, afresh: bool = False) -> TrialVerdict:
    """Test the device, once in this process, and ``afresh`` even if it has passed in an earlier one."""
    reported = team_kind(device.arch, device.subgroup)
    key = (device.arch, device.index, reported, compiler_for(device.arch).name)
    with _judging:
        if key not in _verdicts:
            passed = _passed(device)
            known = b"" if afresh or passed is None else read(passed) or b""
            if (kept := known.decode(errors="replace")) in (reported, "block"):  # else the file is damaged
                _verdicts[key] = TrialVerdict(kept, kept != reported, ())
                return _verdicts[key]
            faults = _faults(device, reported)
            kind = reported
            if TEAMWORK in faults and reported != "block":
                kind, faults = "block", _faults(device, "block")
            _verdicts[key] = TrialVerdict(kind, kind != reported, faults)
            if passed is not None and not faults:
                write(passed, kind.encode())
        return _verdicts[key]


def open_beside(device: Device, exact: bool) -> None:
    """Open a device and test it, in a thread if another process compiles for it; errors occur again in :func:`open_checked`."""

    def work() -> None:
        with suppress(Exception):
            open_checked(device, exact)

    if program_class(device) is TaichiProgram:
        open_checked(device, exact)
    else:
        threading.Thread(target=work, name="trial").start()


def begin_beside(device: Device, source: Source, exact: bool) -> None:
    """Begin to compile kernels while a thread tests the device, which most likely has the teams that it reports."""
    if _judging.locked() and program_class(device) is DrivenProgram:
        text, signatures, _ = linked_for(device, source, exact, None, True, DrivenProgram.is_guarded(device))
        kernels_of(device, text, signatures, exact)


def _passed(device: Device) -> Path | None:
    """Return the file that says what a team is on a device that has passed; None if nothing can be kept."""
    if (place := folder()) is None:
        return None
    compiler = compiler_for(device.arch)
    causes = [repr(device), compiler.name, compiler.version, hash_of(*COMPILING, "linker/*.py")]
    return place / f"device-{hashlib.sha256(' '.join(causes).encode()).hexdigest()[:24]}.txt"


def _faults(device: Device, kind: str) -> tuple[str, ...]:
    """Names of the parts of the test that a device fails, with teams of a kind."""
    # no queue: if teams do not work, a lane could read an undefined number from it, and write anywhere
    program = program_class(device)(device, SOURCE, exact=True, kind=kind, queued=False)
    return _compared(*_computed(program))


def _computed(program: Program) -> tuple[Reals32, npt.NDArray[np.int32]]:
    """Results of a program, a row of 32 for each."""
    values = {name: program.array(array) for name, array in zip(("a", "b", "tiny"), _inputs(), strict=True)}
    sizes = {"out": TEAMS * 5 * ROW, "integers": TEAMS * 2 * ROW}
    values |= {name: program.empty(size, "ints") for name, size in sizes.items()}
    program.run("trial", TEAMS, values)
    reals, integers = (program.host(values[name], size) for name, size in sizes.items())
    return reals.view(np.float32).reshape(TEAMS, 5, ROW), integers.reshape(TEAMS, 2, ROW)


def _inputs() -> tuple[Reals32, Reals32, Reals32]:
    """Numbers from 1 to 2; the negative of their rounded squares; small numbers and factors."""
    a = np.random.default_rng(10).uniform(1, 2, TEAMS * ROW).astype(np.float32)
    tiny = np.repeat(np.float32([SMALLEST, 1]), ROW)
    tiny[ROW:] = np.float32(2.0) ** (np.arange(ROW) - 8)
    return a, -(a * a), tiny


def _expected() -> tuple[Reals32, npt.NDArray[np.int32]]:
    """Correct results: those of Python."""
    from ...linker.interpreted import InterpretedProgram  # which a device that has passed does without

    return _computed(InterpretedProgram(SOURCE, bits=32))


def _compared(out: Reals32, integers: npt.NDArray[np.int32]) -> tuple[str, ...]:
    """Names of the parts that differ."""
    good, whole = _expected()
    same = (out.view(np.int32) == good.view(np.int32)).all(axis=(0, 2))
    small = (np.abs(good[:, 2]) < SMALLEST) & (out[:, 2] == 0) | (out[:, 2] == good[:, 2])
    right = {
        TEAMWORK: same[3] and same[4] and (integers[:, 0] == whole[:, 0]).all(),
        ORDER: same[0] and same[1],
        SMALL: small.all(),
        WORDS: (integers[:, 1] == whole[:, 1]).all(),
    }
    return tuple(name for name, good in right.items() if not good)


def try_device(device: Device) -> Json:
    """Test a device in another process; return the verdict as a dictionary, with the reason as a fault if there is none."""
    process = CompileProcess(alone(device))
    asked = process.ask(judge_afresh, device.arch)
    wait([asked], SECONDS)
    stopped, code = not asked.done(), process.end()
    if (error := asked.exception()) is None:
        return asked.result()
    ended = f"exit code {code}: {error}" if isinstance(error, EOFError) else str(error)
    return {"kind": "", "lied": False, "faults": [f"stopped after {SECONDS} s" if stopped else ended]}


def judge_afresh(arch: str) -> Json:
    """Test the first device of an arch, for :func:`try_device`."""
    return asdict(judged(choose(arch), afresh=True))
