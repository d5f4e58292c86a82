"""Messages of a run while it goes on: stages and their durations, notes and warnings."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field

from ..devices import Device
from ..errors import python_names

STAGES = ("load", "prepare", "compile", "track")  # those of every run


class Watcher:
    """Receives the messages of a run; override the methods you need.

    By default ``warn`` issues a Python warning, and the other methods do nothing.

    Examples
    --------
    >>> import numpy as np
    >>> import tistreamlines as ts
    >>> class Stages(ts.Watcher):
    ...     def stage(self, name):
    ...         if name == "track":
    ...             print("tracking begins")
    >>> peaks = np.zeros((20, 5, 5, 3))
    >>> peaks[..., 0] = 1  # along x
    >>> result = ts.track(
    ...     peaks=peaks, stop_map=np.ones((20, 5, 5)), affine=np.eye(4), seeds=[[10, 2, 2]], dg="det", arch="cpu",
    ...     watcher=Stages(),
    ... )
    tracking begins
    """

    def stage(self, name: str) -> None:
        """Receive the stage that begins.

        Parameters
        ----------
        name : str
            One of load, prepare, fit, compile, fixels (those of SIFT2 and of dynamic seeds are found), track, map (a
            tractogram is read), weigh (SIFT2), select (SIFT), write, place (the files get their names) and report; of
            ``fit_fods`` also responses (which are estimated) and normalise.
        """

    def device(self, device: Device) -> None:
        """Receive the device that the run uses.

        Parameters
        ----------
        device : Device
            The device on which the run takes place.
        """

    def await_device(self) -> None:
        """Wait until the device is free, if others use it, too: the run is ready to track."""

    def note(self, text: str) -> None:
        """Receive a choice that was made for the user.

        Parameters
        ----------
        text : str
            The choice, in one line.
        """

    def warn(self, text: str) -> None:
        """Receive a warning that the result may be wrong, and what to do about it.

        Parameters
        ----------
        text : str
            The possible mistake and advice, in one line.
        """
        warnings.warn(python_names(text), stacklevel=2)

    def fitted(self, share: float) -> None:
        """Receive the fraction of voxels in which the model is fitted so far, 0 to 1.

        Parameters
        ----------
        share : float
            Share of the voxels in which the model is fitted, 0 to 1.
        """

    def fixels(self, share: float) -> None:
        """Receive the fraction of voxels whose fixels are found so far, 0 to 1.

        Parameters
        ----------
        share : float
            Share of the voxels whose fixels are found, 0 to 1.
        """

    def progress(self, seeds: int, of: int, streamlines: int) -> None:
        """Receive the progress of tracking.

        Parameters
        ----------
        seeds : int
            Seeds that are finished.
        of : int
            All seeds.
        streamlines : int
            Streamlines so far.
        """

    def weighing(self, iteration: int, densities: float, coefficients: float) -> None:
        """Receive the progress of SIFT2; other threads may call this.

        Parameters
        ----------
        iteration : int
            Number of the iteration that has ended.
        densities, coefficients : float
            Costs of the densities and of the coefficients, as shares of the first cost.
        """

    def sifting(self, iteration: int, streamlines: int, cost: float) -> None:
        """Receive the progress of SIFT.

        Parameters
        ----------
        iteration : int
            Number of the iteration that has ended.
        streamlines : int
            Streamlines that are left.
        cost : float
            Cost of the densities, as a share of the first one.
        """


@dataclass
class Log:
    """Collects the duration of each stage, notes and warnings of a run, and passes them on to the watcher.

    A stage lasts until the next one begins, and the first is ``load``. So the durations add up to the time since the
    log was made, without the time for which the run has waited for the device.
    """

    watcher: Watcher = field(default_factory=Watcher)
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STAGES, 0.0))
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    _stage: str = STAGES[0]
    _since: float = field(default_factory=time.perf_counter)

    def note(self, text: str) -> None:
        """Record a choice that was made for the user, unless a warning has said the same."""
        if text not in self.warnings:
            self.notes.append(text)
            self.watcher.note(text)

    def warn(self, text: str) -> None:
        """Record a warning that the result may be wrong."""
        self.warnings.append(text)
        self.watcher.warn(text)

    def tell(self, notes: Iterable[str], warnings: Iterable[str]) -> None:
        """Record several choices and warnings."""
        for text in notes:
            self.note(text)
        for text in warnings:
            self.warn(text)

    def mark(self) -> tuple[int, int]:
        """Return a mark behind the messages so far, for :meth:`since`."""
        return len(self.notes), len(self.warnings)

    def since(self, mark: tuple[int, int]) -> tuple[list[str], list[str]]:
        """Return the choices and the warnings that came after a mark."""
        return self.notes[mark[0] :], self.warnings[mark[1] :]

    def begin(self, name: str) -> None:
        """Begin a stage."""
        self._count()
        self._stage = name
        self.watcher.stage(name)

    def await_device(self) -> None:
        """Wait until the watcher says that the device is free."""
        self._count()
        self.watcher.await_device()
        self._since = time.perf_counter()

    def durations(self) -> dict[str, float]:
        """Return the seconds of each stage so far, and ``total``, their sum."""
        self._count()
        rounded = {name: round(value, 4) for name, value in self.seconds.items()}
        return rounded | {"total": round(sum(rounded.values()), 4)}

    def _count(self) -> None:
        """Add the time since the last call to the stage that goes on."""
        since, self._since = self._since, time.perf_counter()
        self.seconds[self._stage] = self.seconds.get(self._stage, 0.0) + self._since - since
