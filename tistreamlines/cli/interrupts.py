"""Ctrl-C, termination and hang-up: at any moment they leave nothing half-written, and an exit code that tells of them.

The first signal raises an exception in the main thread, which removes files and ends processes on its way out. A
compiler that calls back into Python may drop it: then it is raised again at the next step of the run. While the main
thread is away in a library it is not raised at all: then another thread ends the process a little later, as it does at
once after a second signal.

Little is imported here, so that signals are heeded from the start.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from types import FrameType

NAMES = ("SIGINT", "SIGTERM", "SIGHUP")
PATIENCE = 1.0  # seconds for the main thread to end by itself

_heeded: list[int] = []
_received: list[int] = []
_ending = threading.Lock()  # of who ends the process, and of who keeps others from it
_too_late = False  # for a signal to end the run


def heed(command: Callable[[], object]) -> None:
    """Call the command; after a signal, end the process with the exit code 128 and the signal's number.

    A signal that the parent process has had ignored, as nohup does with SIGHUP, stays ignored.
    """
    global _too_late
    for name in NAMES:
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _receive)
            _heeded.append(number)
    atexit.register(_ignore)
    try:
        _occupy_standard_streams()
        _start_watch()
        command()
    finally:
        if _received and not _too_late:
            _end(_received[0])
        _too_late = True


def check() -> None:
    """Raise for a signal that has come, if it came at all."""
    if _received:
        # unwinds like an error, so that files half written are removed
        sys.exit(128 + _received[0])


def hold(on: bool) -> None:
    """Keep signals from ending the run while files get their names, which takes no time; or no longer."""
    global _too_late
    with _ending:
        _too_late = False
        check()
        _too_late = on


def end_at_once(on: bool) -> None:
    """Let signals end the process without Python, for a library that keeps Python from running; or no longer.

    Nothing is removed then, so this is for times when no file is open.
    """
    for number in _heeded:
        if on and sys.platform != "win32":
            from ..backends import set_leaving

            set_leaving(number)
        else:
            signal.signal(number, _receive)


def _receive(number: int, _: FrameType | None) -> None:
    _received.append(number)
    if len(_received) == 1 and not _too_late:
        sys.unraisablehook = lambda _: None  # Python would tell of an exception that is dropped by a traceback
        check()


def _ignore() -> None:
    """Keep the exit code of a run that is done: at its very end Python would leave signals to the system."""
    for number in _heeded:
        signal.signal(number, signal.SIG_IGN)


def _occupy_standard_streams() -> None:
    """Keep files from taking the numbers of streams that the caller has closed, since libraries still print there."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)


def _start_watch() -> None:
    import socket

    ear, mouth = socket.socketpair()
    mouth.setblocking(False)
    signal.set_wakeup_fd(mouth.detach(), warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(ear,), name="signals", daemon=True).start()


def _watch(ear: socket.socket) -> None:
    """Wait for the number of a signal, then for a second one or the end of patience, and end the process."""
    while True:
        ear.settimeout(None)
        number = ear.recv(1)[0]
        ear.settimeout(PATIENCE)
        with suppress(TimeoutError):
            ear.recv(1)
        _end(number)


def _end(number: int) -> None:
    """End the process and leave nothing half-written, unless files are just getting their names."""
    with _ending:
        if _too_late:
            return
        try:
            from ..io.drafts import discard

            discard()
            os.write(2, b"Interrupted\n")
        finally:
            os._exit(128 + number)
