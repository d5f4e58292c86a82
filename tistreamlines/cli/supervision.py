"""Processes of a cohort: one for each subject, some at a time, of which one tracks while others read, fit or write."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Lock
from typing import BinaryIO

from ..aliases import Json
from ..helpers import module
from ..io.regular import open_regular
from ..run.finished import FinishedRun, difference_from, finished_run, unfinished_run
from . import interrupts
from .cohort import PROGRAM, Subject, command_line
from .track import TURNS

DONE, BEFORE, FAILED, LEFT = "done", "done before", "failed", "not started"
WITH_DEVICE = ("compile", "track")  # stages that follow once a run has its turn, and the device is its own
SECONDS = 0.2  # between looks at processes
PATIENCE = 20.0  # seconds for a process to end by itself
ERROR = "Error: "


@dataclass(frozen=True)
class Outcome:
    """The end of a subject: one of the states above, and what there is to say of it."""

    state: str
    streamlines: int | None = None
    seconds: float | None = None
    message: str = ""


class Supervisor:
    """Runs the commands of subjects.

    Parameters
    ----------
    jobs : subjects at a time.
    fail_fast : whether no subject begins after one has failed.
    tell : receives a subject and each of its messages (see :mod:`.turns`).
    """

    def __init__(self, jobs: int, *, fail_fast: bool, tell: Callable[[Subject, Json], object]) -> None:
        self._jobs, self._fail_fast, self._tell = jobs, fail_fast, tell
        self._turn, self._starting = Lock(), Lock()
        self._processes, self._ends = set[subprocess.Popen[bytes]](), False
        self._ended = SimpleQueue[tuple[Subject, Outcome]]()

    def run(self, subjects: Sequence[Subject], ended: Callable[[Subject, Outcome], object]) -> None:
        """Run the commands in the order of the subjects; hand out each of them with its end, in the caller's thread.

        If that is interrupted, all processes end, too.
        """
        with ThreadPoolExecutor(self._jobs) as pool:
            try:
                for subject in subjects:
                    pool.submit(self._carry_out, subject)
                for _ in subjects:
                    ended(*self._next_end())
            except BaseException:
                interrupts.linger()
                self._end()
                raise

    def _end(self) -> None:
        """End all processes: they do so where their standard input is closed."""
        with self._starting:
            self._ends = True
            processes = [*self._processes]
        last = time.monotonic() + PATIENCE
        for process in processes:
            _close(process)
        for process in processes:
            try:
                process.wait(max(last - time.monotonic(), 0))
            except subprocess.TimeoutExpired:
                process.kill()

    def _next_end(self) -> tuple[Subject, Outcome]:
        """Wait for the end of a subject; Ctrl-C interrupts that."""
        while True:
            with suppress(Empty):
                return self._ended.get(timeout=SECONDS)

    def _carry_out(self, subject: Subject) -> None:
        """Run the command of a subject, unless its files are there already; whatever happens is its outcome."""
        try:
            outcome = Outcome(LEFT) if self._ends else _before(subject) or self._timed(subject)
        except OSError as error:
            name = error.filename or subject.log
            outcome = Outcome(FAILED, message=f"{name}: cannot be used ({error.strerror or error})")
        except Exception as error:
            outcome = Outcome(FAILED, message=str(error) or type(error).__name__)
        if self._fail_fast and outcome.state == FAILED:
            self._ends = True
        self._ended.put((subject, outcome))

    def _timed(self, subject: Subject) -> Outcome:
        """Run the command of a subject; note how long it takes."""
        begun = time.perf_counter()
        return replace(self._process(subject), seconds=time.perf_counter() - begun)

    def _process(self, subject: Subject) -> Outcome:
        """Run the command of a subject in a process, whose messages go to its log."""
        for place in subject.outputs.places:
            place.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(open_regular(subject.log, os.O_RDWR | os.O_CREAT | os.O_APPEND, links=False), "r+b") as log:
            log.write(f"$ {command_line(subject.words)}\n".encode(errors="surrogateescape"))
            log.flush()
            begun = log.seek(0, os.SEEK_END)
            with self._starting:
                if self._ends:
                    return Outcome(LEFT)
                process = subprocess.Popen(
                    module(PROGRAM, *subject.words), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                    env=os.environ | {TURNS: "1"},
                )
                self._processes.add(process)
            try:
                self._follow(process, subject)
                code = process.wait()
            finally:
                _close(process)
                self._processes.discard(process)
            run = finished_run(subject.outputs) if code == 0 else None
            return Outcome(FAILED, message=_fault(code, log, begun)) if run is None else _done(DONE, run)

    def _follow(self, process: subprocess.Popen[bytes], subject: Subject) -> None:
        """Pass the messages of a process on until it ends, and let it track when its turn comes."""
        assert process.stdin is not None
        assert process.stdout is not None
        has_turn = False
        try:
            for line in process.stdout:
                message = _message(line)
                self._tell(subject, message)
                if message.get("stage") == "wait":
                    has_turn = self._take_turn(process)
                    with suppress(OSError, ValueError):  # it has ended
                        process.stdin.write(b"\n")
                        process.stdin.flush()
                elif has_turn and message.get("stage", WITH_DEVICE[0]) not in WITH_DEVICE:
                    self._turn.release()
                    has_turn = False
        finally:
            if has_turn:
                self._turn.release()

    def _take_turn(self, process: subprocess.Popen[bytes]) -> bool:
        """Wait until no other process tracks; return False if this one ends before."""
        while not self._turn.acquire(timeout=SECONDS):
            if process.poll() is not None:
                return False
        return True


def _message(line: bytes) -> Json:
    """Return a message of a run; an empty one if a library has printed something."""
    with suppress(ValueError):
        if isinstance(message := json.loads(line), dict):
            return message
    return {}


def _before(subject: Subject) -> Outcome | None:
    """Return the outcome of a subject whose files are there; None if its command has to run."""
    if subject.parameters.force:
        return None
    if (run := finished_run(subject.outputs)) is None:
        fault = unfinished_run(subject.outputs, subject.parameters)
        return Outcome(FAILED, message=fault) if fault else None
    assert subject.outputs.record is not None
    place: Path = subject.outputs.tractogram or subject.outputs.main[0]
    if differs := difference_from(run, subject.series, subject.parameters, subject.outputs.record):
        return Outcome(FAILED, message=f"{place}: is of another command ({differs}); remove it, or add --force")
    return _done(BEFORE, run)


def _done(state: str, run: FinishedRun) -> Outcome:
    """Return the outcome of a subject from its record."""
    notes = [f"{count} {'warning' if count == 1 else 'warnings'} in its log" for count in [len(run.warnings)] if count]
    notes += [] if run.is_of_this_version else ["tracked with another version"]
    return Outcome(state, run.result.n_streamlines, message=", ".join(notes))


def _fault(code: int, log: BinaryIO, begun: int) -> str:
    """Return why a command has failed: the last error in its log, or how it has ended."""
    log.seek(begun)
    lines = [line for line in log.read().decode(errors="replace").splitlines() if line.strip()]
    for line in reversed(lines):
        if line.startswith(ERROR):
            return line.removeprefix(ERROR)
    if code < 0:
        names = {known.value: known.name for known in signal.Signals}
        return f"it was ended by {names.get(-code, f'signal {-code}')}"
    return f"it has ended with code {code}" + (f": {lines[-1]}" if lines else "")


def _close(process: subprocess.Popen[bytes]) -> None:
    """Close the standard input of a process, which then ends."""
    with suppress(OSError):
        if process.stdin is not None:
            process.stdin.close()
