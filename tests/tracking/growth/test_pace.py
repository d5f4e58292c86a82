"""Launches: how long they are predicted to take, and that no device is given more than it can do in time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from crossings import crossing, same
from distributions import CIRCLE_SEEDS, whole

from tistreamlines.backends.numba import program as _numba
from tistreamlines.devices import Device, choose
from tistreamlines.linker.parts import Source
from tistreamlines.space.batch import Space
from tistreamlines.tracking.engine.engine import Engine
from tistreamlines.tracking.growth import growth as growth_module
from tistreamlines.tracking.growth import memory as memory_module
from tistreamlines.tracking.growth.pace import AHEAD, MOST_AHEAD, Pace
from tistreamlines.tracking.growth.settings import Settings


class Clock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Simulated:
    """A device of some throughput (steps of halves a second), latency of a step and overhead of a launch.

    It tells how long the steps of its launches took.
    """

    def __init__(self, rate: float, latency: float, overhead: float = 1e-3) -> None:
        self.rate, self.latency, self.overhead, self.clock = rate, latency, overhead, Clock()
        self.pace, self.launches = Pace(0.4, self.clock), []
        with self.pace.idle():
            self.clock.now += overhead
        self.pace.queue()

    def chunk(self, lengths: np.ndarray, away: float = 0.0) -> None:
        """Grow halves of these numbers of steps; ``away``: seconds that a caller has the last batches."""
        done = 0
        while (lengths > done).any():
            growing = int((lengths > done).sum())
            steps = self.pace.steps(growing)
            self.pace.begin(growing, steps, anew=done == 0)
            took = 0.0
            for step in range(done, min(done + steps, int(lengths.max()))):
                took += self.latency + int((lengths > step).sum()) / self.rate
            begun = self.clock.now
            if away and done == 0:
                with self.pace.away():
                    self.clock.now += away
            self.clock.now = max(self.clock.now, begun + took + self.overhead)
            done += steps
            self.launches.append(took)
            self.pace.end(int(np.minimum(lengths, done).sum()), int(min(lengths.max(), done)))


def lengths(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).geometric(1 / 60, count).clip(1, 500)


@pytest.mark.parametrize(
    ("rate", "latency", "overhead"),
    [(1e8, 4e-5, 1e-3), (1e6, 3e-4, 1e-4), (4e4, 1e-3, 1e-3), (1e3, 5e-3, 1e-3), (4e4, 2e-4, 0.35), (4e4, 2e-4, 2.0)],
)
def test_launches_are_short_on_any_device(rate, latency, overhead):
    """Also where a launch takes long for nothing, as lavapipe's does on a busy machine."""
    device = Simulated(rate, latency, overhead)
    for count in (3, 24, 200):  # as the engine warms up
        device.chunk(lengths(count))
    most = device.pace.halves()
    assert most is not None
    assert most <= 0.41 * rate  # so many can take one step
    for seed in range(4):
        device.chunk(lengths(min(300_000, most), seed), away=30.0 * seed)
    assert max(device.launches) <= 0.41 + latency
    # and no more of them than need be
    steps = sum(lengths(min(300_000, most), 3))
    last = device.launches[-40:]
    device.launches.clear()
    device.chunk(lengths(min(300_000, most), 3))
    assert len(device.launches) <= 4 + steps / rate / 0.1, last


def test_a_callers_time_is_not_the_devices():
    device = Simulated(1e6, 1e-5)
    device.chunk(lengths(2000))
    before = device.pace.steps(100_000)
    for _ in range(5):
        device.chunk(lengths(2000), away=600.0)
    assert device.pace.steps(100_000) == before


def test_a_device_has_work_while_the_caller_is_away():
    """Some launches are always queued, more if the caller was away for long at the start of the last chunk, but few."""
    device = Simulated(1e6, 1e-5)
    assert device.pace.ahead() == AHEAD  # for all that is known
    for seed, (away, expected) in enumerate([(0.0, AHEAD), (1.0, AHEAD), (60.0, MOST_AHEAD), (0.1, AHEAD)]):
        device.chunk(lengths(20_000, seed), away=away)
        assert device.pace.ahead() == expected


def test_a_device_that_slows_down_is_given_less():
    device = Simulated(1e6, 1e-5)
    device.chunk(lengths(20_000))
    device.rate = 1e5  # another process takes its share
    device.launches.clear()
    for _ in range(3):
        device.chunk(lengths(20_000), away=0.01)
    assert max(device.launches[3:]) < 0.5


def test_a_slow_gpu_gets_chunks_that_a_launch_can_serve(monkeypatch):
    """A step costs a millisecond of a made-up clock: 400 of them are what a launch may take."""
    many, settings = np.tile(CIRCLE_SEEDS, (200, 1)), Settings(0.5, max_steps=40)
    space, clock, launches = Space(np.eye(4), (24, 24, 5)), Clock(), []
    expected = whole(Engine(crossing(), space, choose("cpu"), settings).track(many))

    class Slow(_numba.NumbaProgram):
        def run(self, name: str, count: int, values: dict[str, Any]) -> None:
            if name == "advance":
                taken = values["halves_state"][: 2 * values["stride"] * count : 2]
                before = int(taken.sum())
                super().run(name, count, values)
                count = int(taken.sum()) - before
            else:
                super().run(name, count, values)
            if name in ("advance", "start"):
                clock.now += 1e-3 * count
                launches.append(1e-3 * count)

    def opened(device: Device, source: Source, **_: Any) -> Any:
        return Slow(source)

    monkeypatch.setattr(growth_module, "open_program", opened)
    monkeypatch.setattr(memory_module, "free_memory", lambda _: 2**34)
    monkeypatch.setattr(growth_module, "Pace", lambda seconds: Pace(seconds, clock))
    gpu = replace(choose("cpu"), arch="vulkan")
    used = Engine(crossing(), space, gpu, settings)
    batches = []
    for batch in used.track(many):
        clock.now += 100.0  # the caller takes its time
        batches.append(batch)
    assert same(whole(batches), expected)
    assert len(batches) > 2
    assert max(launches) <= 0.4
    assert len(launches) < 3 * sum(launches) / 0.4 + 3 * len(batches) + 12  # and no more of them than need be
