"""What a run tells while it goes: its stages and their seconds, choices made for the user, and warnings."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Clock:
    """Seconds by stage, and what the user was told; the callables are told of each stage, of choices made for the user,
    of the share fitted, and of what may be wrong."""

    report: Callable[[str], None] = lambda _: None
    tell: Callable[[str], None] = lambda _: None
    progress: Callable[[float], None] = lambda _: None
    alarm: Callable[[str], None] = lambda _: None
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(("load", "prepare", "compile"), 0.0))
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        """Tell of a choice made for the user."""
        self.notes.append(text)
        self.tell(text)

    def warn(self, text: str) -> None:
        """Tell that the result may be wrong."""
        self.warnings.append(text)
        self.alarm(text)

    @contextmanager
    def stage(self, name: str) -> Generator[None, None, None]:
        """Time a block as part of a stage."""
        self.report(name)
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - begun
