"""Ctrl-C and termination, so that neither is lost.

A signal that arrives while a compiler calls back into Python raises its exception there, and the compiler drops it.
So each signal is noted too, and raised again at the next step of the run.
"""

from __future__ import annotations

import signal
import sys
from types import FrameType

_received: list[int] = []


def install() -> None:
    """Handle SIGINT and SIGTERM; one that the parent process has had ignored stays ignored."""
    _received.clear()
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _receive)


def check() -> None:
    """Raise for a signal that has come, if it came at all."""
    if _received:
        _raise(_received[-1])


def _receive(number: int, _: FrameType | None) -> None:
    _received.append(number)
    _raise(number)


def _raise(number: int) -> None:
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    # unwinds like an error, so that files half written are removed
    sys.exit(128 + number)
