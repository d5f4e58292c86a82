"""Processes of the benchmark: one for each run, and one for the limits of each device."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterable, Mapping

from .. import helpers
from ..aliases import Json
from .targets import Target
from .worker import Request


def run_process(request: Request, time_limit: float) -> tuple[str, str]:
    """Run a worker.

    Parameters
    ----------
    request : Request
    time_limit : float
        Seconds after which it is stopped.

    Returns
    -------
    status, reason : str
        ``reason`` is the last line of its output if it failed, else "".
    """
    return run_module(["tistreamlines.benchmarks.worker", str(request.save())], time_limit)


def run_module(module: list[str], time_limit: float, environment: Mapping[str, str] | None = None) -> tuple[str, str]:
    """Run a module with its arguments; return status and reason as :func:`run_process` does."""
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


def device_limits(targets: Iterable[Target], time_limit: float, report: Callable[[str], object]) -> Json:
    """Measure the peak rates of each arch, each in its own process.

    Parameters
    ----------
    targets : iterable of Target
        Peers are skipped.
    time_limit : float
        Seconds for each.
    report : callable
        Called with a description of each measurement before it starts.

    Returns
    -------
    dict
        The limits by arch, or the reason why they could not be measured.
    """
    limits = {}
    for target in targets:
        if target.kind != "arch" or target.missing():
            continue
        report(f"limits of {target.name}")
        try:
            done = ended(["tistreamlines.benchmarks.worker", target.name], time_limit)
        except subprocess.TimeoutExpired:
            limits[target.name] = {"reason": f"stopped after {time_limit:g} s"}
        else:
            line = last_line(done.stderr if done.returncode else done.stdout)
            limits[target.name] = {"reason": line} if done.returncode else json.loads(line)
    return limits
