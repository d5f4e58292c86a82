"""The progress of a run: a bar in a terminal or in a notebook, a line a minute where neither shows it."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from rich import progress as bars
from rich.console import Console
from rich.text import Text

from ..aliases import Self
from ..helpers import tells_events
from .log import Watcher

if TYPE_CHECKING:
    from IPython.display import DisplayHandle
    from rich.table import Table

STAGES = {
    "load": "Reading",
    "prepare": "Preparing",
    "responses": "Estimating responses",
    "fit": "Fitting the model",
    "normalise": "Normalising the tissues",
    "compile": "Compiling, once for these options",
    "fixels": "Finding fixels",
    "track": "Tracking",
    "map": "Reading the streamlines",
    "weigh": "Weighing the streamlines",
    "select": "Selecting streamlines",
    "write": "Finishing the files",
    "place": "Renaming the output files",
    "report": "Writing the report",
}
REFRESH, MINUTE = 0.5, 60.0  # seconds between two pictures in a notebook, and between two lines


class Bar(Watcher):
    """A progress bar on standard error or in a notebook; use it in a ``with`` block.

    Parameters
    ----------
    quiet : bool
        Show nothing.
    lines : bool
        Print a line a minute where no bar can be shown.

    Attributes
    ----------
    console : rich.console.Console
        Where lines are printed.
    """

    def __init__(self, *, quiet: bool = False, lines: bool = True) -> None:
        self.console = Console(stderr=True, quiet=quiet, highlight=False, force_jupyter=False)
        notebook, terminal = Console().is_jupyter, self.console.is_terminal
        text = bars.TextColumn
        self._bar = bars.Progress(
            text("{task.description}"), _Seconds(), bars.BarColumn(), bars.TaskProgressColumn(),
            text("{task.fields[rate]}"), text("time left"), bars.TimeRemainingColumn(), text("elapsed"),
            bars.TimeElapsedColumn(),
            console=self.console, transient=True, disable=quiet or notebook or not terminal or tells_events(),
        )
        self._tracking = self._begun = time.perf_counter()
        self._stage = ""
        self._task = self._bar.add_task("Starting", total=None, rate="", begun=self._begun)
        self._period = None if quiet or not self._bar.disable else REFRESH if notebook else MINUTE if lines else None
        self._picture: DisplayHandle | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._repeat, name="progress", daemon=True)

    def __enter__(self) -> Self:
        """Show the bar."""
        self._bar.start()
        if self._period == REFRESH:
            from IPython.display import display

            self._picture = display(self._table(), display_id=True)
        if self._period is not None:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the bar; that of a notebook stays as it is."""
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join()
        if self._picture is not None:
            self._picture.update(self._table())
        if not self._bar.disable:  # else rich prints an empty line, up to version 14.2
            self._bar.stop()

    def stage(self, name: str) -> None:
        """Show the stage, with an empty bar."""
        if name == "track":
            self._tracking = time.perf_counter()
        if name != self._stage:
            task = self._state  # rich has no call that removes the percentage and keeps the elapsed time
            task.total, task.completed, task.finished_time = None, 0, None
            self._stage, self._begun = name, time.perf_counter()
            self._bar.update(self._task, description=STAGES.get(name, name), rate="", begun=self._begun)

    def fitted(self, share: float) -> None:
        """Show the share of voxels that are fitted."""
        self._bar.update(self._task, completed=share, total=1)

    def fixels(self, share: float) -> None:
        """Show the share of voxels whose fixels are found."""
        self.fitted(share)

    def progress(self, seeds: int, of: int, streamlines: int) -> None:
        """Show the finished seeds and the streamlines per second."""
        rate = streamlines / max(time.perf_counter() - self._tracking, 1e-6)
        self._bar.update(self._task, completed=seeds, total=of, rate=f"{rate:,.0f} streamlines/s")

    def weighing(self, iteration: int, densities: float, coefficients: float) -> None:
        """Show an iteration of SIFT2."""
        costs = f"cost of densities {densities:.2%}, of coefficients {coefficients:.2%} of the first"
        self._bar.update(self._task, description=f"SIFT2, iteration {iteration}: {costs}")

    def sifting(self, iteration: int, streamlines: int, cost: float) -> None:
        """Show an iteration of SIFT."""
        text = f"{streamlines:,} streamlines, cost of densities {cost:.2%} of the first"
        self._bar.update(self._task, description=f"SIFT, iteration {iteration}: {text}")

    @property
    def _state(self) -> bars.Task:
        (task,) = self._bar.tasks
        return task

    def _table(self) -> Table:
        """Return the bar as a picture for a notebook."""
        return self._bar.make_tasks_table(self._bar.tasks)

    def _line(self) -> str:
        """Return what the bar would show."""
        task = self._state
        share = [] if task.total is None else [f"{task.percentage:.0f}%"]
        left = [] if task.time_remaining is None else [f"{task.time_remaining:.0f} s left"]
        rate = [task.fields["rate"]] if task.fields["rate"] else []
        taken = f"{time.perf_counter() - self._begun:.0f} s so far"
        return f"{task.description}: {', '.join([*share, *rate, taken, *left])}"

    def _repeat(self) -> None:
        """Show again and again how far the run is."""
        while not self._ended.wait(self._period):
            if self._picture is not None:
                self._picture.update(self._table())
            else:
                self.console.print(self._line(), soft_wrap=True, markup=False)


class _Seconds(bars.ProgressColumn):
    """The seconds of the stage."""

    def render(self, task: bars.Task) -> Text:
        """Return them as text."""
        return Text(f"{time.perf_counter() - task.fields['begun']:.0f} s")
