"""The progress of a cohort: a line for each subject that runs, and one for all of them."""

from __future__ import annotations

from collections import Counter
from threading import Lock
from typing import Self

from rich import progress as bars
from rich.console import Console

from ..aliases import Json
from ..run.progress import STAGES
from .cohort import Subject
from .supervision import DONE, FAILED, LEFT, Outcome

LONG = 1e9  # seconds: the speed is that of all subjects so far


class Board:
    """Bars in a terminal, and lines about subjects that have ended, on standard error.

    Parameters
    ----------
    total : number of subjects.
    quiet : show only failures.
    """

    def __init__(self, total: int, *, quiet: bool) -> None:
        self._quiet, self._console = quiet, Console(stderr=True, highlight=False)
        text = bars.TextColumn
        self._bars = bars.Progress(
            text("{task.description}", markup=False), bars.BarColumn(), bars.TaskProgressColumn(),
            text("{task.fields[note]}", markup=False), text("time left"), bars.TimeRemainingColumn(), text("elapsed"),
            bars.TimeElapsedColumn(), console=self._console, transient=True, speed_estimate_period=LONG,
            disable=quiet or not self._console.is_terminal,
        )
        self._all = self._bars.add_task("All subjects", total=total, note="")
        self._total, self._states = total, Counter[str]()
        self._tasks, self._adding = dict[Subject, bars.TaskID](), Lock()

    def __enter__(self) -> Self:
        """Show the bars."""
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the bars."""
        if not self._bars.disable:
            self._bars.stop()

    def tell(self, subject: Subject, message: Json) -> None:
        """Show a message of a run."""
        number = self._task_of(subject)
        if (share := message.get("share")) is not None:
            self._bars.update(number, total=1, completed=share)
        if (stage := message.get("stage")) is not None:
            task = next(task for task in self._bars.tasks if task.id == number)
            task.total, task.completed, task.finished_time = None, 0, None  # as in the bar of a run
            self._bars.update(number, note="Waiting for the device" if stage == "wait" else STAGES.get(stage, stage))

    def _task_of(self, subject: Subject) -> bars.TaskID:
        with self._adding:
            if subject not in self._tasks:
                self._tasks[subject] = self._bars.add_task(subject.name, total=None, note="")
            return self._tasks[subject]

    def end(self, subject: Subject, outcome: Outcome) -> None:
        """Count a subject, and say how it has ended."""
        if (task := self._tasks.pop(subject, None)) is not None:
            self._bars.remove_task(task)
        self._states[outcome.state] += 1
        counts = ", ".join(f"{count} {state}" for state, count in self._states.items())
        self._bars.update(self._all, advance=1, note=counts)
        if outcome.state == FAILED:
            text = f"Error: {subject.name}: {outcome.message}"
        elif self._quiet or outcome.state == LEFT:
            return
        else:
            notes = f"; {outcome.message}" if outcome.message else ""
            time = f", {outcome.seconds:.1f} s" if outcome.state == DONE else f", {outcome.state}"
            text = f"{subject.name}: {outcome.streamlines:,} streamlines{time}{notes}"
        self._console.print(text, soft_wrap=True, markup=False)

    @property
    def complete(self) -> int:
        """Subjects whose files are there."""
        return self._states.total() - self._states[FAILED] - self._states[LEFT]
