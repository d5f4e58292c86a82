"""A room of its own for each try: a copy of the inputs, the program run there, and what is wrong with what it left."""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from .material import PATHS, in_this_process, track

LIMIT, COMPILING = 30.0, 150.0  # seconds after which a run hangs; the second for those that compile
MEMORY = 6 << 30  # bytes of addresses: a damaged header may ask for all that there is
FAILED, WRONG_USE = 1, 2
NEVER_SAID = ("Traceback", "unexpected", "Exception ignored", "Fatal Python error")
FALLBACK = "tmp/tistreamlines-"  # kernels are kept there where there is no other cache
MESSAGES = ("Note: ", "Warning: ")  # lines that a run may print whatever becomes of it
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def nothing() -> None:
    """Prepare nothing."""


@dataclass(frozen=True)
class Started:
    """A run that goes on."""

    process: int
    files: tuple[Path, Path]  # what it prints
    before: dict[str, str]
    deadline: float


@dataclass(frozen=True)
class Outcome:
    """What a run left.

    Attributes
    ----------
    code : exit code; minus the signal that ended it; None if it had to be killed since it hung.
    out, err : what it printed.
    changed : files of the room that are new or other than before.
    """

    code: int | None
    out: str
    err: str
    changed: list[str]


@dataclass
class Room:
    """A folder with ``in``, ``out`` and ``tmp``; the program runs in ``in``.

    Parameters
    ----------
    folder : a new folder.
    material : what `material.make` made.
    """

    folder: Path
    material: Path
    did: list[str] = field(default_factory=list)  # what was done, for the report

    def __post_init__(self) -> None:
        shutil.copytree(self.material / "in", self.inputs)
        for name in ("out", "tmp"):
            (self.folder / name).mkdir()
        self.cache = self.material / "cache"
        self.clean = json.loads((self.material / "clean.json").read_text())

    @property
    def inputs(self) -> Path:
        return self.folder / "in"

    @property
    def out(self) -> Path:
        return self.folder / "out"

    def copy(self, name: str) -> Path:
        """Copy ``cache`` or ``tables`` into the room; kernels are taken from the copy then."""
        copy = shutil.copytree(self.material / name, self.folder / name)  # with times, by which Numba knows files
        if name == "cache":
            self.cache = copy
        return copy

    def start(
        self, program: list[str] | Callable[[], object], *, env: Mapping[str, str | None] | None = None,
        setup: Callable[[], object] = nothing, real: tuple[str, ...] | None = None, limit: float = LIMIT,
    ) -> Started:
        """Fork, and run the program there, or a function.

        Parameters
        ----------
        program : arguments of the command line, or what to call.
        env : what is set in the environment; None takes a name away.
        setup : called in the new process before the program.
        real : if given, Python is started anew, with these words before it.
        limit : seconds until it is killed.
        """
        files = self._print_files()
        before = self._files()
        if isinstance(program, list):
            self.did.append("tistreamlines " + " ".join(program))
        changes = {"XDG_CACHE_HOME": str(self.cache), "TMPDIR": str(self.folder / "tmp"), **(env or {})}
        sys.stdout.flush()
        process = os.fork()
        if process:
            return Started(process, files, before, time.monotonic() + limit)
        code = 99
        try:
            self._enter(files, changes)
            if real is None:
                code = _call(program, setup)
            else:
                setup()
                command = [*real, sys.executable, "-m", "tistreamlines", *program]  # type: ignore[misc]
                os.execvp(command[0], command)
        finally:
            os._exit(code)

    def finish(self, started: Started) -> Outcome:
        """Wait for a run to end."""
        code: int | None = None
        try:
            while time.monotonic() < started.deadline:
                ended, status = os.waitpid(started.process, os.WNOHANG)
                if ended:
                    code = os.waitstatus_to_exitcode(status)
                    break
                time.sleep(0.005)
        finally:
            if code is None:
                os.killpg(started.process, signal.SIGKILL)
                os.waitpid(started.process, 0)
        out, err = (path.read_text(errors="replace") for path in started.files)
        after = self._files()
        return Outcome(code, out, err, sorted(name for name in after if after[name] != started.before.get(name)))

    def run(self, program: list[str] | Callable[[], object], **how: Any) -> Outcome:
        """Run to the end; see `start`."""
        return self.finish(self.start(program, **how))

    def track(self, run: str, *more: str, **how: Any) -> Outcome:
        """Run one of the clean runs with more options, into ``out/a.trx``."""
        return self.run([*track(run, "../out/a.trx"), *more], **how)

    def digest(self, name: str = "a.trx") -> str:
        """Hash of an output, empty if there is none."""
        path = self.out / name
        return sha256(path.read_bytes()).hexdigest() if path.is_file() else ""

    def faults(
        self, outcome: Outcome, run: str | None = None, *, codes: tuple[int, ...] = (0, FAILED, WRONG_USE),
        name: str = "a.trx",
    ) -> list[str]:
        """Judge a run.

        Parameters
        ----------
        outcome : what it left.
        run : the clean run whose result is the only right one; None if another result may be right.
        codes : exit codes that are right.
        name : its output.
        """
        if outcome.code is None:
            return ["hangs"]
        faults = [f"exit code {outcome.code}"] if outcome.code not in codes else []
        faults += spoken(outcome)
        if outcome.code:
            left = outcome.changed
        else:
            left = [path for path in outcome.changed if path.startswith("tmp") or ".part" in path]
            if run is not None and self.digest(name) != self.clean[run]["sha256"]:
                faults.append("another result in silence")
            faults += unbalanced((self.out / name).with_suffix(".json"))
        return faults + [f"left {path}" for path in left if not path.startswith(FALLBACK)][:3]

    def _print_files(self) -> tuple[Path, Path]:
        number = len(list(self.folder.glob("*.stdout")))
        files = self.folder / f"{number}.stdout", self.folder / f"{number}.stderr"
        for path in files:
            path.touch()
        return files

    def _files(self) -> dict[str, str]:
        """Each file of the room but the caches, and a hash of it; folders have none."""
        files = {}
        for part in ("in", "out", "tmp"):
            for path in (self.folder / part).rglob("*"):
                name = str(path.relative_to(self.folder)).encode(errors="replace").decode()
                with suppress(FileNotFoundError):  # of another run, which goes on
                    files[name] = sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        return files

    def _enter(self, files: tuple[Path, Path], changes: Mapping[str, str | None]) -> None:
        """Make the new process one as a shell would have started it."""
        os.setsid()
        for number in SIGNALS:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        for number, path in enumerate((os.devnull, *files)):
            os.dup2(os.open(path, os.O_RDWR), number)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        os.chdir(self.inputs)
        os.environ["PYTHONPATH"] = PATHS
        for name, value in changes.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        tempfile.tempdir = None


def unbalanced(record: Path) -> list[str]:
    """What is wrong with the counts of a record: streamlines are written or dropped, and each has two ends."""
    if not record.is_file():
        return []
    result = json.loads(record.read_text()).get("result")
    if result is None:  # of streamlines that were tracked before
        return []
    ends = sum(result["stop_reasons"].values()), sum(result["written_stop_reasons"].values())
    grown = result["streamlines"] + sum(result["dropped"].values())
    return [] if ends == (2 * grown, 2 * result["streamlines"]) else ["counts that do not add up"]


def spoken(outcome: Outcome) -> list[str]:
    """What is wrong with the words of a run: it should say one line if it fails, and nothing if it does not."""
    lines = [line for line in outcome.err.splitlines() if line.strip() and not line.startswith(MESSAGES)]
    said = outcome.err + outcome.out
    faults = [f"says {word!r}: {lines[-1] if lines else ''}" for word in NEVER_SAID if word in said]
    if faults:
        return faults[:1]
    if outcome.code == WRONG_USE and lines and lines[0].startswith("Usage: "):
        lines = lines[-1:]  # click's three lines
    most = 1 if outcome.code else 0
    if len(lines) > most:
        return [f"{len(lines)} lines on stderr: {lines[0]}"]
    if outcome.code in (FAILED, WRONG_USE) and not (lines and lines[0].startswith("Error: ")):
        return ["no line that says Error"]
    return []


def _call(program: list[str] | Callable[[], object], setup: Callable[[], object]) -> int:
    """Run in this process, which ends afterwards; return the exit code."""
    try:
        setup()
        code = in_this_process(program) if isinstance(program, list) else program()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:  # as the interpreter does
        traceback.print_exc()
        sys.stderr.flush()
        code = FAILED
    return code if isinstance(code, int) else FAILED if code else 0


def number_up_to(rng: random.Random, most: int) -> int:
    """A number from 1 to ``most``, small ones more often."""
    return rng.randint(1, rng.randint(1, most))
