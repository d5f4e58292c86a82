"""Points of streamlines that grow on the CPU: the host reads codes before those of another chunk take their places."""

from __future__ import annotations

import time

import numpy as np
import pytest
from crossings import crossing, same
from distributions import CIRCLE_SEEDS, whole

from tistreamlines.devices import choose
from tistreamlines.space.batch import Space
from tistreamlines.tracking.engine.engine import Engine
from tistreamlines.tracking.growth.settings import Settings
from tistreamlines.tracking.products.points.points import PointsOnHost
from tistreamlines.tracking.products.points.unpacking import Unpacker

SEEDS = np.tile(CIRCLE_SEEDS, (3, 1))


def engine(chunk_size: int | None = None) -> Engine:
    settings = Settings(0.5, max_steps=12, chunk_size=chunk_size, threads=2)
    return Engine(crossing(), Space(np.eye(4), (24, 24, 5)), choose("cpu"), settings)


def test_no_chunk_takes_the_place_of_codes_that_are_still_to_be_read(monkeypatch):
    """The arrays of a chunk are those of the one before the last."""
    expected, cut, batch = whole(engine().track(SEEDS)), engine(chunk_size=6), Unpacker.batch
    assert isinstance(cut.points, PointsOnHost)

    def slow(self: Unpacker, *arguments):  # type: ignore[no-untyped-def]
        time.sleep(0.02)
        return batch(self, *arguments)

    monkeypatch.setattr(Unpacker, "batch", slow)
    assert same(whole(cut.track(SEEDS)), expected)


def test_an_error_of_a_thread_that_lays_points_out_is_raised_and_leaves_nothing(monkeypatch):
    expected, cut, batch, left = whole(engine().track(SEEDS)), engine(chunk_size=6), Unpacker.batch, [3]

    def failing(self: Unpacker, *arguments):  # type: ignore[no-untyped-def]
        left[0] -= 1
        if left[0] == 0:
            raise MemoryError("none for points")
        return batch(self, *arguments)

    monkeypatch.setattr(Unpacker, "batch", failing)
    with pytest.raises(MemoryError, match="none for points"):
        whole(cut.track(SEEDS))
    assert same(whole(cut.track(SEEDS)), expected)


def test_tracking_that_was_left_can_begin_anew():
    """Kernels that nobody waits for any more may still run."""
    expected, cut = whole(engine().track(SEEDS)), engine(chunk_size=6)
    for taken in (1, 2, 5):
        batches = cut.track(SEEDS)
        for _ in range(taken):
            next(batches)
        batches.close()
        assert same(whole(cut.track(SEEDS)), expected)
