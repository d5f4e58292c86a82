"""Processes of the benchmark, each of which ends in time with all that it has started."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping

from .. import helpers


def run_module(module: list[str], time_limit: float, environment: Mapping[str, str] | None = None) -> tuple[str, str]:
    """Run a module with its arguments.

    Parameters
    ----------
    module : list of str
        Its name and its arguments.
    time_limit : float
        Seconds after which it is stopped.
    environment : mapping, optional
        Its environment; by default this process's.

    Returns
    -------
    status, reason : str
        ``reason`` is the last line of its output if it failed, else "".
    """
    try:
        done = ended(module, time_limit, environment)
    except subprocess.TimeoutExpired as late:
        return "timeout", f"stopped after {time_limit:g} s. {last_line(str(late.stderr))}".strip()
    if done.returncode == 0:
        return "ok", ""
    ending = f"signal {-done.returncode}" if done.returncode < 0 else f"exit code {done.returncode}"
    return "failed", f"{last_line(done.stderr) or last_line(done.stdout)} ({ending})".strip()


def ended(
    module: list[str], time_limit: float, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a module; after the time limit, kill it and all its child processes.

    Raises
    ------
    subprocess.TimeoutExpired
        With its output, if it took longer than ``time_limit`` seconds.
    """
    command, pipe = helpers.module(*module), subprocess.PIPE
    with subprocess.Popen(
        command, stdout=pipe, stderr=pipe, text=True, errors="replace", start_new_session=True, env=environment
    ) as process:
        try:
            output = process.communicate(timeout=time_limit)
        except BaseException as error:
            if hasattr(os, "killpg"):  # not on Windows
                os.killpg(process.pid, signal.SIGKILL)
            process.kill()
            output = process.communicate()
            if isinstance(error, subprocess.TimeoutExpired):
                raise subprocess.TimeoutExpired(command, time_limit, *output) from None
            raise
    return subprocess.CompletedProcess(command, process.returncode, *output)


def last_line(text: str) -> str:
    """Return the last line that is not empty, at most 300 characters of it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""
