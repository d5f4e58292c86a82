"""The first steps of a chunk are taken while the host is at work on the last one: no array is used twice at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from crossings import crossing, same
from distributions import CIRCLE_SEEDS, circle, fibres, whole
from queued import Queued, queued_device
from tables import prepare_ptt
from toy_filters import Below, EvenSeeds

from tistreamlines.devices import choose
from tistreamlines.errors import DeviceMemoryError
from tistreamlines.space.batch import Space
from tistreamlines.tracking.engine.engine import Engine
from tistreamlines.tracking.growth import memory
from tistreamlines.tracking.growth.memory import PARTS_AHEAD
from tistreamlines.tracking.growth.settings import Settings
from tistreamlines.tracking.products.density import density
from tistreamlines.tracking.products.density.density import DeviceDensity, DeviceEnds

SPACE = Space(np.eye(4), (24, 24, 5))
SEEDS = np.tile(CIRCLE_SEEDS, (3, 1))


def engine(device: Any = None, prepared: Any = None, chunk_size: int | None = 12, **options: Any) -> Engine:
    settings = Settings(0.5, max_steps=12, chunk_size=chunk_size)
    return Engine(prepared or crossing(), SPACE, device or choose("cpu"), settings, **options)


@pytest.fixture(scope="module")
def plain() -> Any:
    return whole(engine().track(SEEDS))


def noted(used: Engine) -> list[str]:
    """Begin to note what the engine's device has to do."""
    program = used.growth.program
    assert isinstance(program, Queued)
    program.calls.clear()
    return program.calls


@pytest.mark.parametrize("words", [15, 2**22])
def test_the_next_chunk_grows_while_one_is_copied(plain, words, monkeypatch):
    """All of a chunk that has one part; if there are many parts, the last ones."""
    monkeypatch.setattr(memory, "PART_WORDS", words)
    used, chunks = engine(queued_device(monkeypatch)), -(-len(SEEDS) // 12)
    calls = noted(used)
    assert same(whole(used.track(SEEDS)), plain)
    assert used.growth.program.waiting == 0
    begun = [calls[:place].count("enlist") for place in range(len(calls))]
    at = {name: [begun[place] for place, call in enumerate(calls) if call == name] for name in ("copied", "pack")}
    if words > 15:
        assert at["pack"] == at["copied"] == [*range(2, chunks + 1), chunks]
    else:
        assert used.growth.program.most == PARTS_AHEAD
        assert set(np.diff(at["copied"])) == {0, 1} and at["copied"][0] == 2
        assert at["copied"].count(chunks) > PARTS_AHEAD
    # the device begins with the first steps of a chunk, and goes on with it, before the host is at work on the last one
    submitted = [place for place, name in enumerate(calls) if name == "submitted"]
    assert [begun[place] for place in submitted] == np.repeat(range(2, chunks + 1), 2).tolist()
    assert all(calls[place - 1] == "advance" for place in submitted)
    # a chunk's last launch comes after the last one has been packed
    for place in np.flatnonzero(np.array(calls) == "enlist")[1:]:
        following = calls[place:]
        assert following.index("pack") < len(following) - following[::-1].index("advance") - 1


@pytest.mark.parametrize("copies_beside", [True, False])
@pytest.mark.parametrize("more", [{}, {"most": 31}])
@pytest.mark.parametrize("kind", ["plain", "regions", "even", "frames"])
def test_streamlines_are_the_same(kind, more, copies_beside, monkeypatch):
    """Also where the verdicts of regions, and the initial directions of a getter that carries frames, come back."""
    x = float(SEEDS[:, 0].max()) - 1
    options: dict[str, Any] = {}
    if kind == "frames":
        values = fibres(circle())
        known = np.argwhere(np.ones(values.shape[:3]) > 0).astype(float)
        stop_map = np.ones(values.shape[:3], np.float32)
        angles = {"max_angle": 15.0, "min_separation_angle": 45.0}
        options["prepared"] = prepare_ptt("sh", values, stop_map, 0.5, known, pmf_threshold=0.05, **angles)
    filters = {"regions": lambda: [Below(x)], "even": lambda: [EvenSeeds()]}.get(kind, list)
    expected = engine(filters=filters(), **options)
    batch = whole(expected.track(SEEDS, first_seed=3, **more))
    used = engine(queued_device(monkeypatch, copies_beside), filters=filters(), **options)
    assert same(whole(used.track(SEEDS, first_seed=3, **more)), batch)
    assert len(batch) > 20
    np.testing.assert_array_equal(used.statistics.counts, expected.statistics.counts)


def test_a_device_that_has_come_to_the_end_is_not_kept_waiting(plain, monkeypatch):
    """While batches of a chunk are left, the next one goes on, but no further one; seeds count with their batches."""
    monkeypatch.setattr(memory, "PART_WORDS", 15)
    monkeypatch.setattr(Queued, "soon", True)
    used = engine(queued_device(monkeypatch))
    batches, counted, left = [], [], []
    for batch in used.track(SEEDS):
        batches.append(batch)
        left.append(used.points.chunks)
        if used.points.ended:
            counted.append(used.statistics.seeds)
    assert same(whole(batches), plain)
    assert counted == [*range(12, len(SEEDS), 12), len(SEEDS)]
    assert max(left) == 2  # after one that ended and before one that is left
    assert used.statistics.seeds == len(SEEDS)


@pytest.mark.parametrize("points", [True, False])
@pytest.mark.parametrize(("chunk_size", "soon"), [(7, False), (7, True), (50, False)])
def test_products_are_the_same(plain, points, chunk_size, soon, monkeypatch):
    """Those of the device, several at once, whose arrays hold one chunk after the other."""
    monkeypatch.setattr(density, "PART_WORDS", 40)
    monkeypatch.setattr(Queued, "soon", soon)
    totals = []
    for opened in (lambda: choose("cpu"), lambda: queued_device(monkeypatch)):
        device = opened()
        products = [kind(SPACE, SPACE, 0.5, 24) for kind in (DeviceDensity, DeviceEnds)]
        batches = list(engine(device, chunk_size=chunk_size, products=products, points=points).track(SEEDS))
        assert sum(map(len, batches)) == len(plain)
        assert not points or same(whole(batches), plain)
        totals.append([product.total for product in products])
    assert totals[0][0].max() > 5
    np.testing.assert_array_equal(*totals)


@pytest.mark.parametrize("soon", [False, True])
@pytest.mark.parametrize("kernel", ["enlist", "advance", "start", "pack"])
def test_no_seed_is_lost_where_the_device_has_no_memory(plain, kernel, soon, monkeypatch):
    """Those of a chunk that grows, of the next one that is launched, and of the one after it."""
    monkeypatch.setattr(Queued, "soon", soon)
    monkeypatch.setattr(memory, "FEWEST_SEEDS", 1)
    seeds = np.tile(SEEDS, (4, 1))
    expected = whole(engine().track(seeds))
    device, run = queued_device(monkeypatch), Queued.run
    for number in (1, 2, 3, 5, 8):
        notes: list[str] = []
        used = engine(device, chunk_size=30, note=notes.append)
        left = [number]

        def failing(self: Queued, name: str, count: int, values: dict[str, Any], left: list[int] = left) -> None:
            left[0] -= name == kernel
            if name == kernel and left[0] == 0:
                raise DeviceMemoryError("no memory")
            run(self, name, count, values)

        monkeypatch.setattr(Queued, "run", failing)
        assert same(whole(used.track(seeds)), expected)
        monkeypatch.setattr(Queued, "run", run)
        assert used.statistics.seeds == len(seeds)
        assert len(notes) == (left[0] <= 0)


def test_codes_that_nobody_waits_for_are_forgotten(plain, monkeypatch):
    used = engine(queued_device(monkeypatch))
    batches = used.track(SEEDS)
    next(batches)
    batches.close()
    assert same(whole(used.track(SEEDS)), plain)


def test_nothing_more_is_launched_when_enough_have_come(monkeypatch):
    """Of the next chunk, only what was launched before that was known."""
    used = engine(queued_device(monkeypatch), chunk_size=12)
    calls = noted(used)
    assert len(whole(used.track(SEEDS, most=5))) == 5
    assert calls.count("enlist") == 1
    assert calls[-1] == "copied" and calls[-2] == "pack"
