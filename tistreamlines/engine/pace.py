"""How many steps a launch may take: desktop systems reset a GPU that is long at work."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

LEFT = 8  # the steps of a launch are taken to last this part of it at least, or of what they may


class Pace:
    """Foretells launches from how long the last ones took.

    A launch takes ``overhead + steps * (latency + halves / rate)`` seconds: a few halves are as slow as many, very many
    wait for a place on the device.  The overhead is what an idle launch takes, most of the time in software; each other
    launch shows a rate that the device has at least and a latency that it has at most.  What passes while a caller has
    the last batches may be the device's time or not: where a launch looks slower than foretold, it is left out.

    Parameters
    ----------
    seconds : that the steps of a launch may take.
    clock : returns seconds.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.perf_counter) -> None:
        self.seconds, self._clock = seconds, clock
        self._rate, self._latency, self._overhead = 0.0, float("inf"), 0.0
        self._begun = self._away = self._expected = 0.0
        self._taken = self._deepest = 0

    def steps(self, growing: int) -> int:
        """Steps that so many halves may take in a launch: one, as long as nothing is known."""
        return max(1, int(self.seconds / self._step(growing))) if self._rate else 1

    def halves(self) -> int | None:
        """Halves that can take a step in a launch; None as long as nothing is known."""
        return int(self.seconds * self._rate) if self._rate else None

    def _step(self, growing: int) -> float:
        return self._latency + growing / self._rate

    @contextmanager
    def idle(self) -> Generator[None, None, None]:
        """Time a launch of halves that all stand still."""
        begun = self._clock()
        yield
        seconds = self._clock() - begun
        self._overhead = min(self._overhead or seconds, seconds)

    def begin(self, growing: int, steps: int, *, anew: bool = False) -> None:
        """Note that a launch begins; ``anew``: a chunk's first, whose halves have taken no step yet."""
        if anew:
            self._taken = self._deepest = 0
        self._begun, self._away = self._clock(), 0.0
        self._expected = steps * self._step(growing) if self._rate else float("inf")

    @contextmanager
    def away(self) -> Generator[None, None, None]:
        """Let others work while the device may, or may not, be at work."""
        begun = self._clock()
        try:
            yield
        finally:
            self._away += self._clock() - begun

    def end(self, taken: int, deepest: int) -> None:
        """Note that a launch has ended: steps of all halves by now, and of the one that has most."""
        whole = max(self._clock() - self._begun, 1e-9)
        self._overhead = min(self._overhead, whole)
        # of an overhead that wavers not too much is to be left
        seconds = max(whole - self._overhead, min(whole, self.seconds) / LEFT)
        slower = (seconds - self._away) / self._expected
        if slower > 1:
            self._rate, self._latency = self._rate / slower, self._latency * slower
        self._rate = max(self._rate, (taken - self._taken) / seconds)
        self._latency = min(self._latency, seconds / max(deepest - self._deepest, 1))
        self._taken, self._deepest = taken, deepest
