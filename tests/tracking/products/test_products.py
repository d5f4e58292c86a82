"""What an engine makes of accepted streamlines besides their points, and who accepts them, with toys of both."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from crossings import crossing, same
from distributions import CIRCLE_SEEDS, whole

from tistreamlines.backends.numba.program import NumbaProgram
from tistreamlines.devices import choose
from tistreamlines.kernels.halves import Halves
from tistreamlines.kernels.selection import bits
from tistreamlines.kernels.selection.regions import EXCLUDE, Demands
from tistreamlines.kernels.verdicts import Verdict
from tistreamlines.linker.lang import Ints, func, i32, real, vec3
from tistreamlines.linker.records import spread
from tistreamlines.linker.source import Source
from tistreamlines.space.batch import Space
from tistreamlines.tracking.engine.engine import Engine
from tistreamlines.tracking.growth import growth as growth_module
from tistreamlines.tracking.growth import memory
from tistreamlines.tracking.growth.growth import Chunk, Growth
from tistreamlines.tracking.growth.memory import PARTS_AHEAD
from tistreamlines.tracking.growth.settings import Settings

SEEDS = np.tile(CIRCLE_SEEDS, (3, 1))


class Later(NumbaProgram):
    """A device that works on the next chunk before codes are copied to the host."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.begun = self.waiting = self.most = 0
        self.copied: list[int] = []  # how many chunks have been launched when a part is copied

    def gather(self, name: str, count: int, values: dict[str, Any], out: np.ndarray, most: int) -> Any:
        held = np.empty_like(out)
        super().gather(name, count, values, held, most)
        self.waiting += 1
        self.most = max(self.most, self.waiting)

        def finish() -> None:
            out[:] = held
            self.copied.append(self.begun)
            self.waiting -= 1

        return finish

    def run(self, name: str, count: int, values: dict[str, Any]) -> None:
        self.begun += name == "enlist"
        super().run(name, count, values)


@func
def add_steps(item: i32, taken: Ints, halves: Halves, sums: Ints):
    """Put the steps of streamline ``taken[item]`` beside those of earlier chunks."""
    streamline = taken[item]
    sums[item] = halves.state[4 * streamline] + halves.state[4 * streamline + 2]


class Steps:
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


class EvenSeeds:
    """A filter that looks at ended streamlines alone."""

    fill: dict[str, Any] = {}  # noqa: RUF012
    values: dict[str, Any] = {}  # noqa: RUF012

    def verdicts(self, chunk: Chunk) -> np.ndarray:
        """Streamlines of seeds with even numbers."""
        return np.where((chunk.first_seed + chunk.seed) % 2 == 0, Verdict.ACCEPTED, Verdict.TOO_LONG)


class Plane(Demands):
    """A plane that no streamline may cross."""

    x: real


@func
def beyond_plane(filter: Plane, p: vec3, word: i32) -> i32:
    """Exclude what comes beyond the plane."""
    found = 0
    if p[0] > filter.x:
        found = EXCLUDE
    return found


class Below:
    """A filter that ends streamlines early where they come beyond a plane."""

    def __init__(self, x: float) -> None:
        self.fill = bits.STAGES | {"Filter": Plane, "bits_at": beyond_plane, "HAS_BITS": 1}
        nothing = {"ordered": 0, "first": 0, "wanted": 0, "limited": 0, "stops": 0, "ends": 0}
        self.values = spread("filter", Plane(x=x, counted=EXCLUDE, **nothing))

    def verdicts(self, chunk: Chunk) -> np.ndarray:
        """Streamlines without such an end."""
        return chunk.verdict


def engine(**options: Any) -> Engine:
    settings = Settings(0.5, max_steps=12, chunk_size=options.pop("chunk_size", None))
    return Engine(crossing(), Space(np.eye(4), (24, 24, 5)), choose("cpu"), settings, **options)


@pytest.fixture(scope="module")
def plain() -> Any:
    return whole(engine().track(SEEDS))


@pytest.mark.parametrize("chunk_size", [None, 7])
def test_a_product_sees_every_accepted_streamline_once(plain, chunk_size):
    product = Steps()
    made = engine(products=[product], chunk_size=chunk_size)
    assert product.total == product.chunks == 0
    batch = whole(made.track(SEEDS))
    assert same(batch, plain)
    assert product.total == len(batch.points) - len(batch)
    assert product.chunks == (1 if chunk_size is None else -(-len(SEEDS) // chunk_size))


def test_a_filter_decides_what_products_see(plain):
    product = Steps()
    made = engine(filters=[EvenSeeds()], products=[product], chunk_size=7)
    batch = whole(made.track(SEEDS))
    even = plain.seed_number % 2 == 0
    assert 0 < even.sum() < len(even)
    assert np.array_equal(batch.seed_number, plain.seed_number[even])
    assert np.array_equal(batch.lengths, plain.lengths[even])
    assert product.total == len(batch.points) - len(batch)
    assert made.statistics.stop_reasons.sum() == 2 * len(plain)  # those that no filter has accepted are counted too
    assert made.statistics.verdicts[Verdict.TOO_LONG] == (~even).sum()
    assert made.statistics.verdicts[Verdict.ACCEPTED] == even.sum()


def test_a_filter_that_ends_streamlines_early_accepts_what_it_would_at_their_end(plain):
    x = np.median(plain.points[:, 0])
    lines = np.split(plain.points, plain.offsets[1:-1])
    below = np.array([line[:, 0].max() <= x for line in lines])
    made = engine(filters=[Below(float(x))])
    batch = whole(made.track(SEEDS))
    assert 0 < below.sum() < len(below)
    assert np.array_equal(batch.seed_number, plain.seed_number[below])
    assert np.array_equal(batch.lengths, plain.lengths[below])


@pytest.mark.parametrize("words", [15, 2**22])
def test_codes_are_copied_while_the_next_chunk_grows(plain, words, monkeypatch):
    """All of a chunk that has one part; if there are many parts, the last ones."""
    monkeypatch.setattr(growth_module, "open_program", lambda device, source, **_: Later(source))
    monkeypatch.setattr(memory, "PART_WORDS", words)
    made = engine(chunk_size=12)
    device, chunks = made.growth.program, -(-len(SEEDS) // 12)
    device.copied.clear()
    device.begun = 0
    assert same(whole(made.track(SEEDS)), plain)
    assert device.waiting == 0
    if words > 15:
        assert device.copied == [*range(2, chunks + 1), chunks]
    else:
        assert device.most == PARTS_AHEAD
        late = np.array(device.copied[1:]) - device.copied[:-1]
        assert late.sum() == chunks - 1 and set(late) == {0, 1}
        assert device.copied.count(1) > 3 and device.copied.count(chunks) > PARTS_AHEAD


def test_codes_that_nobody_waits_for_are_forgotten(plain, monkeypatch):
    monkeypatch.setattr(growth_module, "open_program", lambda device, source, **_: Later(source))
    made = engine(chunk_size=12)
    some = made.track(SEEDS)
    next(some)
    some.close()
    assert same(whole(made.track(SEEDS)), plain)
