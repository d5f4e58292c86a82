"""Numba in a process of its own, which compiles while this one reads and fits.

Numba holds Python's lock while it compiles, and its import needs the lock for half a second. In one process, the imports of
DIPY and the fits would wait for it. The process writes machine code to the cache of compiled code, where this one finds it.
"""

from __future__ import annotations

import atexit
import itertools
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Hashable, Iterable
from contextlib import suppress
from pathlib import Path

from ...devices import usable_cores
from ...helpers import helper, may_start, tell_event

MOST = 2  # processes, of which each needs a core besides one for LLVM
IDLE = 300  # seconds without work after which such a process ends
WORKER = """
from tistreamlines.backends.numba.compiling import main
main(float(sys.argv[1]))
"""


class TupleKind(tuple["Kind", ...]):
    """The kinds of the items of a tuple."""


Kind = tuple[str, str, int] | TupleKind  # the type of a number, 'number' or 'array', and the number of axes
Kinds = Iterable[Kind]
_processes: dict[Hashable, list[_Process]] = {}
_starting = threading.Lock()


def settings() -> tuple[tuple[str, str], ...]:
    """Return the environment's settings of Numba, on which machine code depends."""
    return tuple(sorted(item for item in os.environ.items() if item[0].startswith("NUMBA_")))


def compile_elsewhere(path: Path, text: str, name: str, kinds: Kinds) -> Callable[[], object] | None:
    """Let another process compile a function of a module and write it to a file.

    Parameters
    ----------
    path, text, name, kinds : see :class:`.cache.Function`.

    Returns
    -------
    callable or None
        Waits until that is done or has failed; None if there is no such process, as on a single core.
    """
    count = min(usable_cores() // 2, MOST)
    if count < 1 or not sys.executable or not may_start():
        return None
    key = os.getpid(), path.parent, settings()
    with _starting:
        processes = _processes[key] = [process for process in _processes.get(key, ()) if process.works]
        with suppress(OSError):  # the system allows no further process
            while len(processes) < count:
                processes.append(_Process())
        chosen = min(processes, key=lambda process: process.characters, default=None)
        return None if chosen is None else chosen.send(path, text, name, kinds)


class _Process:
    """The process, and what it has been asked for.

    Attributes
    ----------
    works : whether it takes further functions.
    characters : of the modules that it has to compile.
    """

    def __init__(self) -> None:
        self._process = subprocess.Popen(helper(WORKER, str(IDLE)), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        tell_event(f"starts process {self._process.pid}, in which Numba compiles")
        self._lock, self._numbers = threading.Lock(), itertools.count()
        self._waiting: dict[int, tuple[threading.Event, int]] = {}
        self.works, self.characters = True, 0
        self._thread = threading.Thread(target=self._listen, name="compiler", daemon=True)
        self._thread.start()
        atexit.register(self._end)

    def send(self, path: Path, text: str, name: str, kinds: Kinds) -> Callable[[], object] | None:
        """Ask for a function."""
        assert self._process.stdin is not None
        with self._lock, suppress(OSError):
            if self.works:
                number, done = next(self._numbers), threading.Event()
                self._waiting[number] = done, len(text)
                self.characters += len(text)
                pickle.dump((number, path, text, name, kinds), self._process.stdin)
                self._process.stdin.flush()
                return done.wait
        return None

    def _listen(self) -> None:
        """Hear what is done, until the process ends."""
        with suppress(BrokenPipeError), self._process:  # closes the pipes and waits
            assert self._process.stdout is not None
            for line in self._process.stdout:
                with self._lock:
                    done, size = self._waiting.pop(int(line))
                    self.characters -= size
                done.set()
            with self._lock:
                self.works = False
        tell_event(f"process {self._process.pid}, in which Numba compiles, has ended")
        for done, _ in self._waiting.values():
            done.set()

    def _end(self) -> None:
        self._process.kill()
        self._thread.join()
