"""Signals at any moment: nothing half-written stays, and the next run is as good as ever."""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import cache
from mmap import mmap
from pathlib import Path
from types import FrameType
from typing import Any

from .material import ROOT, track
from .room import COMPILING, Room, spoken

CODES = {signal.SIGINT: (130,), signal.SIGTERM: (143,), signal.SIGHUP: (129,), signal.SIGKILL: ()}
OWN = str(ROOT / "tistreamlines")
KEPT = ("--cache-dir", "../tables")
PIECE = 5  # seeds


class AtCall:
    """Called by the interpreter at each call in the package's own code; at the n-th it sends this process a signal.

    So a try is the same again on any machine. Without a signal the calls are counted.
    """

    def __init__(self, number: int, at: int, before: Callable[[], object] = int) -> None:
        self.number, self.at, self.before = number, at, before
        self.counted = mmap(-1, 8)  # seen by the process that forked this one
        self._calls = 0

    def __call__(self) -> None:
        """Begin to count, in all threads."""
        self.before()
        threading.setprofile(self._called)
        sys.setprofile(self._called)

    def _called(self, frame: FrameType, event: str, argument: Any) -> None:
        if event not in ("call", "c_call") or not frame.f_code.co_filename.startswith(OWN):
            return
        self._calls += 1
        if not self.number:
            self.counted[:] = self._calls.to_bytes(8, "little")
        elif self._calls == self.at:
            os.kill(os.getpid(), self.number)


@cache
def _calls(material: Path, run: str, cold: str, before: Callable[[], object] = int, *more: str) -> int:
    """Count the calls of a whole run."""
    count = AtCall(0, 0, before)
    with tempfile.TemporaryDirectory() as folder:
        room = Room(Path(folder) / "room", material)
        _forget(room, cold)
        room.track(run, *KEPT, *more, setup=count, limit=COMPILING)
    return int.from_bytes(count.counted[:], "little")


def _forget(room: Room, cold: str) -> None:
    """Take kernels of a name from the cache, which a run then compiles."""
    if cold:
        for path in room.copy("cache").rglob(f"*{cold}*"):
            path.unlink()


def at_call(rng: random.Random, room: Room) -> list[str]:
    """Send a signal at a random call of the package's own code."""
    run, cold = rng.choice(("boot", "det")), rng.choice(("", "", "place_seed"))
    number = rng.choice(sorted(CODES))
    calls = _calls(room.material, run, cold)
    at = calls - rng.choice((rng.randrange(calls), rng.randrange(calls // 10)))  # files are written at the end
    _forget(room, cold)
    return _interrupted(room, run, number, f"call {at}", setup=AtCall(number, at))


def at_time(rng: random.Random, room: Room) -> list[str]:
    """Send a signal at a random moment, from outside; the process has imported nothing when it begins."""
    run = rng.choice(("boot", "det"))
    number, seconds = rng.choice(sorted(CODES)), rng.uniform(0, room.clean[run]["seconds"])
    room.copy("cache")
    return _interrupted(room, run, number, f"{seconds:.3f} s", seconds=seconds)


def _interrupted(
    room: Room, run: str, number: int, moment: str, seconds: float | None = None, setup: Callable[[], object] = int
) -> list[str]:
    """Run, interrupt, judge, and run again with the same caches."""
    name = signal.Signals(number).name
    room.did.append(f"{name} at {moment}")
    started = room.start([*track(run, "../out/a.trx"), *KEPT], setup=setup, limit=COMPILING)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(started.process, number)
    outcome = room.finish(started)
    faults = []
    if number != signal.SIGKILL:
        # before the program can say how to handle it, the system ends it: a shell shows the same code
        faults = room.faults(outcome, run, codes=(0, *CODES[number], -number))
        faults += [f"left {path.name} in the folder of tables" for path in (room.folder / "tables").glob(".*")]
    elif outcome.code not in (0, -number):
        faults = [f"exit code {outcome.code}"]
    again = room.run([*track(run, "../out/again.trx"), *KEPT], limit=COMPILING)
    return faults + [f"the next run: {fault}" for fault in room.faults(again, run, name="again.trx")]


def few() -> None:
    """Make the pieces of a run that can go on small."""
    from tistreamlines.run import resume

    resume.FEWEST = resume.MOST = PIECE


def resumed(rng: random.Random, room: Room) -> list[str]:
    """Kill a run that keeps its pieces several times at random calls, and let it go on each time."""
    run = rng.choice(("boot", "det"))
    program, kills = [*track(run, "../out/a.trx"), *KEPT, "--resume"], 0
    calls, faults = _calls(room.material, run, "", few, "--resume"), []
    while not room.digest() and kills < 6:
        kills += 1
        number, at = rng.choice((signal.SIGTERM, signal.SIGKILL)), rng.randrange(calls)
        room.did.append(f"{signal.Signals(number).name} at call {at}")
        outcome = room.run(program, setup=AtCall(number, at, few), limit=COMPILING)
        if number == signal.SIGTERM:
            faults += spoken(outcome)
        if outcome.code not in (0, -number, 128 + number):
            faults.append(f"exit code {outcome.code}")
    if not room.digest() or list(room.out.glob("*.unfinished")):
        faults += room.faults(room.run(program, setup=few, limit=COMPILING), run)
    # a run that is killed once its output is there may leave hidden files, since there is nothing to go on with
    left = sorted(path.name for path in room.out.iterdir() if not path.name.startswith(".") or number == signal.SIGTERM)
    if left != ["a.json", "a.trx"]:
        faults.append(f"left {left}")
    return faults if room.digest() == room.clean[run]["sha256"] else [*faults, "another result"]
