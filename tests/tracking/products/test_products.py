"""What an engine makes of accepted streamlines besides their points, and who accepts them, with toys of both."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from crossings import crossing, same
from distributions import CIRCLE_SEEDS, whole
from toy_filters import Below, EvenSeeds

from tistreamlines.devices import choose
from tistreamlines.kernels.halves import Halves
from tistreamlines.kernels.stop_reasons import Verdict
from tistreamlines.linker.lang import Ints, func, i32
from tistreamlines.space.batch import Space
from tistreamlines.tracking.engine.engine import Engine
from tistreamlines.tracking.growth.growth import Chunk, Growth
from tistreamlines.tracking.growth.settings import Settings
from tistreamlines.tracking.products.collector import Collector

SEEDS = np.tile(CIRCLE_SEEDS, (3, 1))


@func
def add_steps(item: i32, taken: Ints, halves: Halves, sums: Ints):
    """Put the steps of streamline ``taken[item]`` beside those of earlier chunks."""
    streamline = taken[item]
    sums[item] = halves.state[4 * streamline] + halves.state[4 * streamline + 2]


class Steps(Collector):
    """A product: the steps of all accepted streamlines, added up on the device's side."""

    roots = (add_steps,)
    waits = True
    bytes = 0

    def __init__(self) -> None:
        self.total = self.chunks = 0

    def compile(self, growth: Growth) -> None:
        """Nothing is left of it."""
        self._steps(growth, np.zeros(1, np.int32))

    def collect(self, growth: Growth, accepted: Chunk) -> None:
        """Add a chunk."""
        self.last = int(self._steps(growth, accepted.number).sum())
        self.total += self.last
        self.chunks += 1

    def undo(self, growth: Growth) -> None:
        """Take the last chunk back."""
        self.total, self.chunks = self.total - self.last, self.chunks - 1

    def take(self, growth: Growth) -> None:
        """All is here already."""

    def merge(self, delta: None) -> None:
        """Nothing comes from elsewhere."""

    @staticmethod
    def _steps(growth: Growth, numbers: np.ndarray) -> np.ndarray:
        program, sums = growth.program, growth.program.empty(len(numbers), "ints")
        program.run("add_steps", len(numbers), growth.values | {"taken": program.array(numbers), "sums": sums})
        return growth.fetch(sums, len(numbers))


def engine(**options: Any) -> Engine:
    settings = Settings(0.5, max_steps=12, chunk_size=options.pop("chunk_size", None))
    return Engine(crossing(), Space(np.eye(4), (24, 24, 5)), choose("cpu"), settings, **options)


@pytest.fixture(scope="module")
def plain() -> Any:
    return whole(engine().track(SEEDS))


@pytest.mark.parametrize("chunk_size", [None, 7])
def test_a_product_sees_every_accepted_streamline_once(plain, chunk_size):
    product = Steps()
    used = engine(products=[product], chunk_size=chunk_size)
    assert product.total == product.chunks == 0
    batch = whole(used.track(SEEDS))
    assert same(batch, plain)
    assert product.total == len(batch.points) - len(batch)
    assert product.chunks == (1 if chunk_size is None else -(-len(SEEDS) // chunk_size))


def test_a_filter_decides_what_products_see(plain):
    product = Steps()
    used = engine(filters=[EvenSeeds()], products=[product], chunk_size=7)
    batch = whole(used.track(SEEDS))
    even = plain.seed_number % 2 == 0
    assert 0 < even.sum() < len(even)
    assert np.array_equal(batch.seed_number, plain.seed_number[even])
    assert np.array_equal(batch.lengths, plain.lengths[even])
    assert product.total == len(batch.points) - len(batch)
    assert used.statistics.stop_reasons.sum() == 2 * len(plain)  # those that no filter has accepted are counted too
    assert used.statistics.verdicts[Verdict.TOO_LONG] == (~even).sum()
    assert used.statistics.verdicts[Verdict.ACCEPTED] == even.sum()


def test_a_filter_that_ends_streamlines_early_accepts_what_it_would_at_their_end(plain):
    x = np.median(plain.points[:, 0])
    lines = np.split(plain.points, plain.offsets[1:-1])
    below = np.array([line[:, 0].max() <= x for line in lines])
    used = engine(filters=[Below(float(x))])
    batch = whole(used.track(SEEDS))
    assert 0 < below.sum() < len(below)
    assert np.array_equal(batch.seed_number, plain.seed_number[below])
    assert np.array_equal(batch.lengths, plain.lengths[below])
