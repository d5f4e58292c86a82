"""Handling of Ctrl-C, termination and hang-up: no half-written file remains, and the exit code tells the signal.

The first signal raises an exception in the main thread, which removes files and ends child processes as it unwinds. A
compiler that calls back into Python may discard the exception; then it is raised again at the next step of the run.
While the main thread is inside a library, Python cannot raise it; then another thread ends the process after one
second, or at once after a second signal.

This module imports little, so that signals are handled from the start.
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
_kept: list[object] = []  # handlers that Python does not know
_ending = threading.Lock()  # held while the process ends, or while its end is being prevented
_too_late = False  # whether signals no longer end the run


def handle(command: Callable[[], object]) -> None:
    """Call the command; after a signal, end the process with exit code 128 + the signal's number.

    A signal that the parent process ignores, as nohup does with SIGHUP, stays ignored.
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
    except SystemExit as end:
        _leave(end.code)
        raise
    finally:
        if _received and not _too_late:
            _end(_received[0])
        _too_late = True


def _leave(code: object) -> None:
    """End the process without what Python does at its end, which takes half a second after a run."""
    global _too_late
    if not isinstance(code, int) or _received or sys.getprofile() or sys.gettrace():
        return
    _too_late = True
    with suppress(OSError):
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:  # as one is that was closed when Python started
                stream.flush()
        if code == 0 and "tistreamlines.backends.taichi.runtime" in sys.modules:
            from ..backends.taichi.runtime import close

            close()
        os._exit(code)


def check() -> None:
    """Raise SystemExit if a signal has been received."""
    if _received:
        # unwinds like an error, so that files half written are removed
        sys.exit(128 + _received[0])


def hold(on: bool) -> None:
    """Keep signals from ending the run while output files are renamed, which is brief; ``on=False`` ends this."""
    global _too_late
    with _ending:
        _too_late = False
        check()
        _too_late = on


def linger() -> None:
    """Let this process live on after a signal, while processes end that it has started."""
    global _too_late
    with _ending:
        _too_late = True


def explain_aborts() -> None:
    """Let an abort end the process as an error does: where Vulkan loses the device, Taichi aborts.

    Python calls its own handlers only after a signal's return, which is too late then.
    """
    import ctypes

    handler, setter = ctypes.CFUNCTYPE(None, ctypes.c_int)(lambda _: _aborted()), ctypes.pythonapi.PyOS_setsig
    setter.argtypes, setter.restype = [ctypes.c_int, ctypes.c_void_p], ctypes.c_void_p
    _kept.append(handler)
    setter(signal.SIGABRT, handler)


def _aborted() -> None:
    if _too_late:  # the output is complete, and the device was lost while it was closed
        os._exit(0)
    from ..backends.faults import ADVICE
    from ..io.drafts import discard

    discard()
    os.write(2, f"Error: the device was lost while it computed, and Taichi has ended the process: {ADVICE}\n".encode())
    os._exit(1)


def _receive(number: int, _: FrameType | None) -> None:
    _received.append(number)
    if len(_received) == 1 and not _too_late:
        sys.unraisablehook = lambda _: None  # no traceback for an exception that a library discards
        check()


def _ignore() -> None:
    """Ignore signals after the run: at exit Python restores the default handlers, which would change the exit code."""
    for number in _heeded:
        signal.signal(number, signal.SIG_IGN)


def _occupy_standard_streams() -> None:
    """Open the null device instead of closed standard streams, so that libraries cannot print into our files."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)


def _start_watch() -> None:
    import socket

    ear, mouth = socket.socketpair()
    mouth.setblocking(False)
    signal.set_wakeup_fd(mouth.detach(), warn_on_full_buffer=False)
    with suppress(RuntimeError):  # the system starts no thread, which the command tells of
        threading.Thread(target=_watch, args=(ear,), name="signals", daemon=True).start()


def _watch(ear: socket.socket) -> None:
    """Wait for a signal, then for a second one or for PATIENCE seconds, and end the process."""
    while True:
        ear.settimeout(None)
        number = ear.recv(1)[0]
        ear.settimeout(PATIENCE)
        with suppress(TimeoutError):
            ear.recv(1)
        _end(number)


def _end(number: int) -> None:
    """Remove half-written files and end the process, unless output files are being renamed."""
    with _ending:
        if _too_late:
            return
        try:
            from ..io.drafts import discard

            discard()
            os.write(2, b"Interrupted\n")
        finally:
            os._exit(128 + number)
