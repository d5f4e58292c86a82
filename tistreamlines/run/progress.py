"""The progress of a run: a bar in a terminal or in a notebook, a line a minute where neither shows it."""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from ..helpers import tells_events
from .log import Watcher

if TYPE_CHECKING:
    from .bars import PictureOfProgress

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
    """

    def __init__(self, *, quiet: bool = False, lines: bool = True) -> None:
        self._quiet = quiet
        self._picture = None if quiet else _picture()
        self._tracking = self._begun = time.perf_counter()
        self._stage, self._description, self._rate = "", "Starting", ""
        self._share: float | None = None
        self._period = None
        if self._picture is None:
            self._period = MINUTE if lines and not quiet else None
        elif self._picture.in_notebook:
            self._period = REFRESH
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._repeat, name="progress", daemon=True)

    def __enter__(self) -> Self:
        """Show the bar."""
        if self._picture is not None:
            self._picture.begin()
        if self._period is not None:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the bar; that of a notebook stays as it is."""
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join()
        if self._picture is not None:
            self._picture.end()

    def print(self, text: str) -> None:
        """Print a line."""
        if self._picture is not None:
            self._picture.console.print(text, soft_wrap=True, markup=False)
        elif sys.stderr is not None:
            with suppress(ValueError):  # it is closed
                print(text, file=sys.stderr, flush=True)

    def stage(self, name: str) -> None:
        """Show the stage, with an empty bar."""
        if name == "track":
            self._tracking = time.perf_counter()
        if name != self._stage:
            self._stage, self._begun = name, time.perf_counter()
            self._description, self._share, self._rate = STAGES.get(name, name), None, ""
            if self._picture is not None:
                self._picture.stage(self._description)

    def fitted(self, share: float) -> None:
        """Show the share of voxels that are fitted."""
        self._update(share)

    def fixels(self, share: float) -> None:
        """Show the share of voxels whose fixels are found."""
        self.fitted(share)

    def progress(self, seeds: int, of: int, streamlines: int) -> None:
        """Show the finished seeds and the streamlines per second."""
        rate = streamlines / max(time.perf_counter() - self._tracking, 1e-6)
        self._rate = f"{rate:,.0f} streamlines/s"
        self._update(seeds / max(of, 1))

    def weighing(self, iteration: int, densities: float, coefficients: float) -> None:
        """Show an iteration of SIFT2."""
        costs = f"cost of densities {densities:.2%}, of coefficients {coefficients:.2%} of the first"
        self._description = f"SIFT2, iteration {iteration}: {costs}"
        self._update(self._share)

    def sifting(self, iteration: int, streamlines: int, cost: float) -> None:
        """Show an iteration of SIFT."""
        text = f"{streamlines:,} streamlines, cost of densities {cost:.2%} of the first"
        self._description = f"SIFT, iteration {iteration}: {text}"
        self._update(self._share)

    def _update(self, share: float | None) -> None:
        self._share = share
        if self._picture is not None:
            self._picture.update(self._description, share, self._rate)

    def _line(self) -> str:
        """Return what the bar would show."""
        seconds, share = time.perf_counter() - self._begun, self._share
        done = [] if share is None else [f"{share:.0%}"]
        left = [f"{seconds * (1 - share) / share:.0f} s left"] if share else []
        rate = [self._rate] if self._rate else []
        return f"{self._description}: {', '.join([*done, *rate, f'{seconds:.0f} s so far', *left])}"

    def _repeat(self) -> None:
        """Show again and again how far the run is."""
        while not self._ended.wait(self._period):
            if self._picture is None:
                self.print(self._line())
            else:
                self._picture.refresh()


def _picture() -> PictureOfProgress | None:
    """Return a bar, if a notebook or a terminal can show it; rich is imported only then, which takes 20 ms or more."""
    forced = any(os.environ.get(name) for name in ("FORCE_COLOR", "TTY_COMPATIBLE"))  # rich heeds them, too
    with suppress(AttributeError, ValueError):  # of a stream that has no such method, or is closed
        forced = forced or sys.stderr.isatty()
    if not forced and "IPython" not in sys.modules:
        return None
    from .bars import PictureOfProgress

    picture = PictureOfProgress()
    return picture if picture.is_possible and (picture.in_notebook or not tells_events()) else None
