"""The process that compiles for another one; see :mod:`.elsewhere`."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue

from ...helpers import answers
from .cache import Function, Kind

Job = tuple[int, Path, str, str, tuple[Kind, ...]]


def main(idle: float) -> None:
    """Compile until the process that asks for it ends, or has asked for nothing for so many seconds."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it ends with the other process
    output = answers()
    jobs: SimpleQueue[Job] = SimpleQueue()
    threading.Thread(target=_receive, args=(jobs,), daemon=True).start()
    telling = threading.Lock()

    def tell(number: int, written: Callable[[], object]) -> None:
        with suppress(Exception):  # it occurs again in the process that waits
            written()
        with telling:
            output.write(b"%d\n" % number)
            output.flush()

    with suppress(Empty):
        while True:
            number, path, text, name, kinds = jobs.get(timeout=idle)
            threading.Thread(target=tell, args=(number, _compiled(path, text, name, kinds)), daemon=True).start()
    os._exit(0)


def _receive(jobs: SimpleQueue[Job]) -> None:
    """Take jobs, and end the process when none can come any more, even while it compiles."""
    with suppress(EOFError, pickle.UnpicklingError, OSError):
        while True:
            jobs.put(pickle.load(sys.stdin.buffer))
    os._exit(0)


def _compiled(path: Path, text: str, name: str, kinds: tuple[Kind, ...]) -> Callable[[], object]:
    """Compile a function up to LLVM's part; return what waits for that and writes the file."""
    try:
        return Function(text, name).written(path, kinds)
    except Exception:  # it occurs again in the process that waits
        return lambda: None
