"""Processes that help a run: they import what the run would, and nothing from the current folder.

Two variables of the environment are for whoever debugs: TISTREAMLINES_ONE_PROCESS=1 lets a run start no process, and
TISTREAMLINES_EVENTS=1, which -vv sets, lets each process print what it does.
"""

from __future__ import annotations

import builtins
import os
import sys
import time
import warnings
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from . import plugins
from .errors import TrackingError

ONE_PROCESS, EVENTS = "TISTREAMLINES_ONE_PROCESS", "TISTREAMLINES_EVENTS"
PACKAGES = str(Path(__file__).parents[1])
# Python puts the current folder first, so nothing may be imported before it is taken away. The folders of the run's
# modules come last, where they cannot hide modules of the standard library.
START = """
import sys
end = sys.argv.index("--")
sys.path = [*filter(None, sys.path), *sys.argv[1:end]]
del sys.argv[1 : end + 1]
"""
MODULE = """
from runpy import run_module
del sys.argv[0]
run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""

# Python's own filters, under which libraries warn their authors of much that no run needs to heed
ONLY_WARNINGS = (
    "default", "ignore::DeprecationWarning", "ignore::PendingDeprecationWarning", "ignore::ImportWarning",
    "ignore::ResourceWarning",
)


def may_start() -> bool:
    """Whether this process may start others."""
    return os.environ.get(ONE_PROCESS, "0") in ("", "0")


def tells_events() -> bool:
    """Whether processes print what they do."""
    return os.environ.get(EVENTS, "0") not in ("", "0")


def tell_event(text: str, begun: float | None = None) -> None:
    """Print an action of this process, if the user wants to see it; ``begun`` is when that began, by
    ``time.perf_counter``."""
    if tells_events():
        now, took = time.time(), "" if begun is None else f": {time.perf_counter() - begun:.2f} s"
        clock = f"{time.strftime('%H:%M:%S', time.localtime(now))}.{int(now % 1 * 1000):03}"
        with suppress(OSError):  # nobody reads it
            os.write(2, f"{clock} process {os.getpid()}: {text}{took}\n".encode())


def are_errors() -> bool:
    """Whether ``python -W error`` or PYTHONWARNINGS has made errors of warnings."""
    return any(option.startswith("error") for option in sys.warnoptions)


def keep_warnings() -> None:
    """Let warnings be no errors in this process."""
    for name in ONLY_WARNINGS if are_errors() else ():
        action, _, category = name.partition("::")
        warnings.simplefilter(action, getattr(builtins, category or "Warning"))  # type: ignore[arg-type]


def helper(code: str, *arguments: str) -> list[str]:
    """Return the command of a process that runs ``code``, which finds the arguments in ``sys.argv[1:]``.

    Raises
    ------
    TrackingError
        If this process may start no other.
    """
    if not may_start():
        raise TrackingError(f"{ONE_PROCESS} is set, but this needs other processes: unset it, or leave --devices out")
    filters = [f"-W{name}" for name in ONLY_WARNINGS if are_errors()]
    flags = {"-E": sys.flags.ignore_environment, "-s": sys.flags.no_user_site}
    paths = dict.fromkeys([*filter(None, sys.path), PACKAGES])
    chosen = (flag for flag, on in flags.items() if on)
    code = START + plugins.code_that_imports() + code
    return [sys.executable, *chosen, *filters, "-c", code, *paths, "--", *arguments]


def module(name: str, *arguments: str) -> list[str]:
    """Return the command of a process that runs a module, as ``python -m`` does."""
    return helper(MODULE, name, *arguments)


def module_command(name: str, *arguments: str) -> list[str]:
    """Return the command of a process that calls ``main`` of a module with texts, and ends with its result."""
    return helper(f"from {name} import main\nsys.exit(main(*sys.argv[1:]))\n", *arguments)


def answers() -> BinaryIO:
    """Return the stream to the process that reads this one's output; libraries then print to standard error."""
    stream = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return stream
