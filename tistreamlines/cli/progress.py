"""Progress of a run, notes and warnings on the terminal."""

from __future__ import annotations

import os
import time

from ..devices import Device
from ..helpers import EVENTS, tell_event
from ..run.progress import STAGES, Bar
from . import interrupts


class Display(Bar):
    """A progress bar, notes and warnings on standard error.

    Parameters
    ----------
    quiet : bool
        Show only warnings.
    verbose : int
        1: also print a line where each stage begins and ends, and a line a minute where no bar is possible. 2: instead
        of the bar, also what each process does, and in the end the seconds of all stages.
    """

    def __init__(self, *, quiet: bool = False, verbose: int = 0) -> None:
        if verbose > 1 and not quiet:
            os.environ[EVENTS] = "1"  # helpers heed it, too
        super().__init__(quiet=quiet, lines=verbose > 0)
        self._verbose, self._seconds = verbose, dict[str, float]()

    def __enter__(self) -> Display:
        """Show the bar."""
        super().__enter__()
        tell_event("begins")
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the bar."""
        self._end_stage()
        super().__exit__(*_)
        if self._verbose > 1:
            self._say(f"Stages: {', '.join(f'{name} {seconds:.2f} s' for name, seconds in self._seconds.items())}")

    def stage(self, name: str) -> None:
        """Show the stage."""
        begins = name != self._stage
        if (self._stage, name) != ("place", "report"):  # it stays too late to end the run
            interrupts.hold(name in ("place", "report"))
        if begins:
            self._end_stage()
        super().stage(name)
        if begins:
            self._say(STAGES.get(name, name))

    def _end_stage(self) -> None:
        """Say for how long the stage has taken."""
        if self._stage:
            name, seconds = STAGES.get(self._stage, self._stage).partition(",")[0], time.perf_counter() - self._begun
            self._seconds[name] = self._seconds.get(name, 0) + seconds
            self._say(f"{name}: {seconds:.1f} s")

    def device(self, device: Device) -> None:
        """Show the device."""
        if not device.on_host:
            interrupts.explain_aborts()
        self._say(f"Device: {device.arch}, {device.name}, {device.driver}")

    def note(self, text: str) -> None:
        """Show a note about an automatic choice, unless quiet."""
        if not self._quiet:
            self.print(f"Note: {text}")

    def warn(self, text: str) -> None:
        """Show a warning, even if quiet."""
        self.print(f"Warning: {text}")

    def fitted(self, share: float) -> None:
        """Show the share of voxels that are fitted, or whose fixels are found."""
        interrupts.check()
        super().fitted(share)

    def progress(self, seeds: int, of: int, streamlines: int) -> None:
        """Show the finished seeds and the streamlines per second."""
        interrupts.check()
        super().progress(seeds, of, streamlines)

    def weighing(self, iteration: int, densities: float, coefficients: float) -> None:
        """Show an iteration of SIFT2."""
        super().weighing(iteration, densities, coefficients)
        self._say(self._description)

    def sifting(self, iteration: int, streamlines: int, cost: float) -> None:
        """Show an iteration of SIFT."""
        interrupts.check()
        super().sifting(iteration, streamlines, cost)

    def _say(self, text: str) -> None:
        if self._verbose and not self._quiet:
            self.print(text)
