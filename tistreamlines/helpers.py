"""Processes that help a run: they import what the run would, and nothing from the current folder."""

from __future__ import annotations

import sys
from pathlib import Path

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


def helper(code: str, *arguments: str) -> list[str]:
    """Return the command of a process that runs ``code``, which finds the arguments in ``sys.argv[1:]``."""
    flags = {"-E": sys.flags.ignore_environment, "-s": sys.flags.no_user_site}
    paths = dict.fromkeys([*filter(None, sys.path), PACKAGES])
    chosen = (flag for flag, on in flags.items() if on)
    return [sys.executable, *chosen, "-c", START + code, *paths, "--", *arguments]


def module(name: str, *arguments: str) -> list[str]:
    """Return the command of a process that runs a module, as ``python -m`` does."""
    return helper(MODULE, name, *arguments)
