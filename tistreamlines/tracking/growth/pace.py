"""How many steps a launch may take: desktop systems reset a GPU whose kernel runs too long."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

AHEAD, MOST_AHEAD = 4, 8  # launches that are queued before the first of them is waited for: at least, and at most
LEFT = 8  # the steps are assumed to take at least one eighth of a launch, or of the time that they may take


class Pace:
    """Predicts the duration of launches from earlier ones.

    A launch takes ``overhead + steps * (latency + halves / rate)`` seconds: a few halves take as long as many, very
    many have to wait for free multiprocessors.  The overhead is the duration of an idle launch, mostly spent in
    software.  Each other launch gives a lower bound of the rate and an upper bound of the latency.  The device may be
    idle while the caller works on the last batches, so this time is left out if a launch seems slower than predicted.

    Parameters
    ----------
    seconds : how long the steps of a launch may take.
    clock : returns the time in seconds.

    Attributes
    ----------
    taken : steps of all halves of the last chunk so far.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.perf_counter) -> None:
        self.seconds, self._clock = seconds, clock
        self._rate, self._latency, self._overhead = 0.0, float("inf"), 0.0
        self._queued = self._begun = self._ended = self._away = self._expected = 0.0
        self.taken = self._deepest = 0
        self._absence, self._usual, self._number = 0.0, float("inf"), 0

    def steps(self, growing: int, seconds: float | None = None) -> int:
        """Return how many steps ``growing`` halves may take in a launch, or in so many seconds.

        It is 1 before the first measurement.
        """
        return max(1, int((seconds or self.seconds) / self._step(growing))) if self._rate else 1

    def halves(self) -> int | None:
        """Return how many halves can take a step in a launch; None before the first measurement."""
        return int(self.seconds * self._rate) if self._rate else None

    def ahead(self) -> int:
        """Return how many launches to queue at the start of a chunk, for which the device needs no answer of the host.

        They give it work while the caller is away, for as long as the caller was at the start of the last chunk. To
        wait for a launch takes longer than one that finds nothing to do.
        """
        return min(MOST_AHEAD, max(AHEAD, 1 + int(self._absence / self._usual)))

    def _step(self, growing: int) -> float:
        return self._latency + growing / self._rate

    @contextmanager
    def idle(self) -> Generator[None, None, None]:
        """Measure a launch in which no half takes a step."""
        begun = self._clock()
        yield
        seconds = self._clock() - begun
        self._overhead = min(self._overhead or seconds, seconds)

    def queue(self) -> None:
        """Note that a chunk's first launch is queued, which begins when the launches of the last chunk have ended."""
        self._queued = self._clock()

    def begin(self, growing: int, steps: int, *, anew: bool = False) -> None:
        """Note the start of a launch; ``anew`` if it is the first of the chunk that was queued."""
        self._number = 0 if anew else self._number + 1
        if anew:
            self.taken = self._deepest = 0
        self._begun, self._away = max(self._queued, self._ended) if anew else self._clock(), 0.0
        self._expected = steps * self._step(growing) if self._rate else float("inf")

    @contextmanager
    def away(self) -> Generator[None, None, None]:
        """Measure the time that the caller takes, during which the device may or may not be busy."""
        begun = self._clock()
        try:
            yield
        finally:
            self._away += self._clock() - begun

    def end(self, taken: int, deepest: int) -> None:
        """Note the end of a launch; ``taken``: steps of all halves so far, ``deepest``: of the half with most steps."""
        self._ended = self._clock()
        whole = max(self._ended - self._begun, 1e-9)
        self._overhead = min(self._overhead, whole)
        if self._number == 0 and self._away:
            self._absence = self._away
        elif self._number == 1:
            self._usual = whole
        # the overhead varies, so what is left after subtracting it may be too little
        seconds = max(whole - self._overhead, min(whole, self.seconds) / LEFT)
        slower = (seconds - self._away) / self._expected
        if slower > 1:
            self._rate, self._latency = self._rate / slower, self._latency * slower
        self._rate = max(self._rate, (taken - self.taken) / seconds)
        self._latency = min(self._latency, seconds / max(deepest - self._deepest, 1))
        self.taken, self._deepest = taken, deepest
