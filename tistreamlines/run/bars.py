"""The progress of a run as a bar, in a terminal or in a notebook."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich import progress as bars
from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    from IPython.display import DisplayHandle
    from rich.table import Table


class PictureOfProgress:
    """A bar on standard error, or in a notebook, which shows it anew at each :meth:`refresh`.

    Attributes
    ----------
    console : rich.console.Console
        Where lines are printed, above the bar.
    in_notebook : bool
        Whether a notebook shows it.
    is_possible : bool
        Whether there is a notebook or a terminal that shows it.
    """

    def __init__(self) -> None:
        self.console = Console(stderr=True, highlight=False, emoji=False, force_jupyter=False)
        self.in_notebook = Console().is_jupyter
        self.is_possible = self.in_notebook or self.console.is_terminal
        text = bars.TextColumn
        self._bar = bars.Progress(
            text("{task.description}"), _Seconds(), bars.BarColumn(), bars.TaskProgressColumn(),
            text("{task.fields[rate]}"), text("time left"), bars.TimeRemainingColumn(), text("elapsed"),
            bars.TimeElapsedColumn(), console=self.console, transient=True, disable=self.in_notebook,
        )
        self._number = self._bar.add_task("Starting", total=None, rate="", begun=time.perf_counter())
        self._shown: DisplayHandle | None = None

    def begin(self) -> None:
        """Show the bar."""
        self._bar.start()
        if self.in_notebook:
            from IPython.display import display

            self._shown = display(self._table(), display_id=True)
        else:
            self.console.show_cursor(True)  # a signal may end the process before the cursor is restored

    def end(self) -> None:
        """Remove the bar; that of a notebook stays as it is."""
        self.refresh()
        if not self.in_notebook:  # else rich prints an empty line, up to version 14.2
            self._bar.stop()

    def refresh(self) -> None:
        """Show the bar of a notebook as it is now."""
        if self._shown is not None:
            self._shown.update(self._table())

    def stage(self, description: str) -> None:
        """Begin a stage, with an empty bar."""
        task = self.task  # rich has no call that removes the percentage and keeps the elapsed time
        task.total, task.completed, task.finished_time = None, 0, None
        self._bar.update(self._number, description=description, rate="", begun=time.perf_counter())

    def update(self, description: str, share: float | None, rate: str) -> None:
        """Show what a stage does, which share of it is done, and how fast."""
        total, completed = (None, None) if share is None else (1, share)
        self._bar.update(self._number, description=description, total=total, completed=completed, rate=rate)

    @property
    def task(self) -> bars.Task:
        """The only task of the bar."""
        (task,) = self._bar.tasks
        return task

    def _table(self) -> Table:
        return self._bar.make_tasks_table(self._bar.tasks)


class _Seconds(bars.ProgressColumn):
    """The seconds of the stage."""

    def render(self, task: bars.Task) -> Text:
        """Return them as text."""
        return Text(f"{time.perf_counter() - task.fields['begun']:.0f} s")
