"""What a run tells while it goes on: its stages and their seconds, choices made for the user, and warnings."""

from __future__ import annotations

import time
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ..backends.devices import Device
from ..errors import python_names


class Watcher:
    """Is told of a run as it goes on; override what you need: ``warn`` gives a Python warning, the rest nothing."""

    def stage(self, name: str) -> None:
        """Note that a stage begins: load, prepare, fit, compile, track, write, or place, where files are named."""

    def device(self, device: Device) -> None:
        """Note where the run will take place."""

    def note(self, text: str) -> None:
        """Note a choice made for the user."""

    def warn(self, text: str) -> None:
        """Note that the result may be wrong, and what to do."""
        warnings.warn(python_names(text), stacklevel=2)

    def fitted(self, share: float) -> None:
        """Note the share of voxels in which the model is fitted, 0 to 1."""

    def progress(self, seeds: int, of: int, streamlines: int) -> None:
        """Note how many seeds are done, of how many, and the streamlines they gave."""


@dataclass
class Log:
    """Seconds of each stage, notes and warnings of a run; the watcher is told of each as it comes."""

    watcher: Watcher = field(default_factory=Watcher)
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(("load", "prepare", "compile"), 0.0))
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        """Tell of a choice made for the user."""
        self.notes.append(text)
        self.watcher.note(text)

    def warn(self, text: str) -> None:
        """Tell that the result may be wrong."""
        self.warnings.append(text)
        self.watcher.warn(text)

    @contextmanager
    def stage(self, name: str) -> Generator[None, None, None]:
        """Time a block as part of a stage."""
        self.watcher.stage(name)
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - begun
