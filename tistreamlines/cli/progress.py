"""Progress of a run, notes and warnings on the terminal."""

from __future__ import annotations

import time
from typing import Any

from rich import progress as bars
from rich.console import Console

from ..devices import Device
from ..run.log import Watcher
from . import interrupts

STAGES = {
    "load": "Reading",
    "prepare": "Preparing",
    "fit": "Fitting the model",
    "compile": "Compiling",
    "track": "Tracking",
    "map": "Reading the streamlines",
    "write": "Finishing the file",
    "place": "Renaming the output files",
    "report": "Writing the report",
}


class Display(Watcher):
    """A progress bar, notes and warnings on standard error.

    Parameters
    ----------
    quiet : bool
        Show only warnings.
    verbose : bool
        Also print a line for each stage.
    """

    def __init__(self, *, quiet: bool = False, verbose: bool = False) -> None:
        self._console = Console(stderr=True, quiet=quiet, highlight=False)
        self._verbose = verbose
        self._tracking = 0.0
        self._stage, self._gpu = "", False
        text = bars.TextColumn
        self._bar = bars.Progress(
            text("{task.description}"), bars.BarColumn(), bars.TaskProgressColumn(), text("{task.fields[rate]}"),
            text("time left"), bars.TimeRemainingColumn(), text("elapsed"), bars.TimeElapsedColumn(),
            console=self._console, transient=True, disable=quiet or not self._console.is_terminal,
        )  # fmt: skip
        self._task: bars.TaskID = self._bar.add_task("Starting", total=None, rate="")

    def __enter__(self) -> Display:
        """Show the bar."""
        self._bar.start()
        self._console.show_cursor(True)  # a signal may end the process before the cursor is restored
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the bar."""
        if not self._bar.disable:  # else rich prints an empty line, up to version 14.2
            self._bar.stop()

    def stage(self, name: str) -> None:
        """Show the stage."""
        if (self._stage, name) != ("place", "report"):  # it stays too late to end the run
            interrupts.hold(name in ("place", "report"))
        # no file is open yet, and Taichi, which compiles in both stages, does not return to Python until it has done so
        interrupts.end_at_once(name in ("load", "compile") and self._gpu)
        if name == "track":
            self._tracking = time.perf_counter()
        if name != self._stage:
            if self._stage == "fit":
                self._empty()
            self._stage = name
            self._bar.update(self._task, description=STAGES.get(name, name))
            self._say(STAGES.get(name, name))

    def _empty(self) -> None:
        """Replace the full bar by one without a percentage, and keep the elapsed time."""
        begun = next(task.start_time for task in self._bar.tasks if task.id == self._task)
        self._bar.remove_task(self._task)
        self._task = self._bar.add_task("", total=None, rate="")
        self._bar.tasks[-1].start_time = begun

    def device(self, device: Device) -> None:
        """Show the device."""
        self._gpu = not device.on_host
        if self._gpu:
            interrupts.explain_aborts()
        self._say(f"Device: {device.arch}, {device.name}, {device.driver}")

    def note(self, text: str) -> None:
        """Show a note about an automatic choice, unless quiet."""
        self._console.print(f"Note: {text}", soft_wrap=True, markup=False)

    def warn(self, text: str) -> None:
        """Show a warning, even if quiet."""
        console = Console(stderr=True, highlight=False) if self._console.quiet else self._console
        console.print(f"Warning: {text}", soft_wrap=True, markup=False)

    def fitted(self, share: float) -> None:
        """Show the fraction of voxels that are fitted."""
        interrupts.check()
        self._bar.update(self._task, completed=share, total=1)

    def progress(self, seeds: int, of: int, streamlines: int) -> None:
        """Show the finished seeds and the streamlines per second."""
        interrupts.check()
        rate = streamlines / max(time.perf_counter() - self._tracking, 1e-6)
        self._bar.update(self._task, completed=seeds, total=of, rate=f"{rate:,.0f} streamlines/s")

    def weighing(self, iteration: int, densities: float, coefficients: float) -> None:
        """Show an iteration of SIFT2."""
        costs = f"cost of densities {densities:.2%}, of coefficients {coefficients:.2%} of the first"
        told = f"SIFT2, iteration {iteration}: {costs}"
        self._bar.update(self._task, description=told)
        self._say(told)

    def _say(self, text: Any) -> None:
        if self._verbose:
            self._console.print(text, soft_wrap=True, markup=False)
