"""Sizes: what fits a device, launches, 32 bits and a user's limit, and that no bit depends on how a run is cut."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from typing import Any
from unittest import mock

import numba
import numpy as np
import pytest
from crossings import crossing, same
from dipy.data import get_sphere
from distributions import CIRCLE_SEEDS, circle, fibres, whole
from distributions import tracked as tracked_prob
from linked import layout_along_vertices
from peak_tables import tables as peak_tables
from ptt_lines import tracked as tracked_ptt
from queued import queued_device
from tables import prepare_prob

import tistreamlines as ts
from tistreamlines.backends.numba import program as _numba
from tistreamlines.devices import Device, choose, usable_cores
from tistreamlines.errors import DeviceError
from tistreamlines.linker.parts import Source
from tistreamlines.space.batch import Batch, Space
from tistreamlines.space.sphere import MOST_VERTICES, sphere_tables
from tistreamlines.tracking.engine.engine import Engine
from tistreamlines.tracking.growth import growth as growth_module
from tistreamlines.tracking.growth import memory as memory_module
from tistreamlines.tracking.growth.memory import (
    ACCEPTED,
    CHUNK_POINTS,
    HALF_SETS,
    LAST_POINTS,
    LAST_SEEDS,
    MOST_ELEMENTS,
    MOST_SEEDS,
    PART_WORDS,
    PARTS_AHEAD,
    SEED_SETS,
    USUAL_SEEDS,
    Capacity,
    capacity_for,
    total,
)
from tistreamlines.tracking.growth.settings import Settings
from tistreamlines.tracking.parts import Layout
from tistreamlines.tracking.seeding.seeds import Draw, RandomSeeds
from tistreamlines.tracking.tables.rows import build_volume

SEEDS = np.tile(CIRCLE_SEEDS, (10, 1))
BOOT = layout_along_vertices(most_directions=14)
PTT = layout_along_vertices(most_directions=14, carried=10, code_bits=8)
MOST = layout_along_vertices(most_directions=992, code_bits=11)
LAYOUTS = [BOOT, PTT, MOST]


def engine(device: Device | None = None, **settings: Any) -> Engine:
    chosen = Settings(0.5, **{"max_steps": 40} | settings)
    return Engine(crossing(), Space(np.eye(4), (24, 24, 5)), device or choose("cpu"), chosen)


# ------------------------------------------------------------------------------------------------- the arithmetic
def taken(capacity: Capacity, layout: Layout, max_steps: int, packs: bool) -> int:
    """Bytes of all arrays of as many chunks as are on a device at the same time."""
    seed, streamline = layout.of_seed(), layout.of_streamline(max_steps)
    sets = dict.fromkeys(seed, SEED_SETS) | dict.fromkeys(streamline, HALF_SETS) | {"packed": int(packs)}
    return 4 * sum(sets.get(name, 1) * count for name, (_, count) in capacity.elements.items())


@pytest.mark.parametrize("layout", LAYOUTS, ids=["boot", "ptt", "most directions"])
def test_no_count_of_an_h200_exceeds_its_bits(layout):
    """With 139 GiB free, 10,000 steps and 100,000 seeds Taichi was asked for 2,800,520,000 codes."""
    for case in product((1, 500, 10_000), (None, 3, 100_000, 1_000_000), (None, 2 * 10**9), (False, True)):
        check_counts(layout, *case)


def check_counts(layout: Layout, max_steps: int, asked: int | None, limit: int | None, packs: bool) -> None:
    tables = 10**9
    free = None if limit else 139 * 2**30
    capacity = capacity_for(layout, max_steps, tables, asked=asked, limit=limit, free=free, packs=packs)
    assert max(count for _, count in capacity.elements.values()) <= MOST_ELEMENTS
    assert 4 * MOST_ELEMENTS < 2**31  # bytes
    halves = 2 * capacity.streamlines
    assert max(halves * max_steps + max_steps, (3 + layout.getter.carried) * halves, 2 * halves + 1) < 2**31
    assert capacity.seeds * layout.getter.most_directions < 2**31
    assert capacity.streamlines >= max(capacity.seeds, layout.getter.most_directions)
    words = -(-max_steps // (32 // layout.getter.code_bits))
    assert capacity.elements["packed"][1] >= capacity.words + 2 * words
    assert taken(capacity, layout, max_steps, packs) + tables <= (limit or 139 * 2**30)
    assert capacity.seeds <= (asked or MOST_SEEDS)
    if limit is None and max_steps == 500 and layout is BOOT:
        assert capacity.seeds == min(asked or MOST_SEEDS, 536_870)  # as before there were bounds
        assert capacity.words == PART_WORDS


@pytest.mark.parametrize("layout", LAYOUTS, ids=["boot", "ptt", "most directions"])
def test_a_limit_holds_to_the_byte_or_is_refused(layout):
    for limit, packs in product(np.geomspace(8e5, 1e10, 30).astype(int).tolist(), (False, True)):
        check_limit(layout, limit, packs)


def check_limit(layout: Layout, limit: int, packs: bool) -> None:
    tables = 500_000
    seed, streamline = layout.of_seed(), layout.of_streamline(100)
    try:
        capacity = capacity_for(layout, 100, tables, limit=limit, packs=packs)
    except ts.ParameterError as error:
        a_streamline = HALF_SETS * total(streamline) + total(ACCEPTED)
        least = 4 * (SEED_SETS * total(seed) + layout.getter.most_directions * a_streamline)
        assert limit < tables + 1.2 * least
        assert "memory_limit" in str(error)
        assert f"{tables / 1e9:.4g}" in str(error)
        enough = float(str(error).split("give ")[1].split()[0])
        assert capacity_for(layout, 100, tables, limit=int(enough * 1e9), packs=packs).seeds >= 1
        return
    words = capacity.elements["packed"][1]
    on_the_way = 4 * max(3 * capacity.seeds, 4 * capacity.streamlines, PARTS_AHEAD * words * packs)
    assert tables + taken(capacity, layout, 100, packs) + on_the_way <= limit


# ------------------------------------------------------------------------------------------------- runs that are cut
class Counted:
    """Bytes of a program's arrays that are alive, and the most that ever were."""

    def __init__(self) -> None:
        self.alive = self.most = 0
        self._within = False  # one way of making an array may take another

    def watch(self, program: Any) -> Any:
        program.array, program.empty = self._counting(program.array), self._counting(program.empty)
        return program

    def _counting(self, make: Any) -> Any:
        def counted(*arguments: Any) -> Any:
            within, self._within = self._within, True
            array = make(*arguments)
            self._within = within
            if within:
                return array
            size = 4 * int(np.prod(array.shape))
            self.alive += size
            self.most = max(self.most, self.alive)
            weakref.finalize(array, self._gone, size)
            return array

        return counted

    def _gone(self, size: int) -> None:
        self.alive -= size


@contextmanager
def counted() -> Iterator[Counted]:
    """Count what engines made in the block allocate on their device."""
    counting, real = Counted(), growth_module.open_program
    with mock.patch.object(growth_module, "open_program", lambda *a, **k: counting.watch(real(*a, **k))):
        yield counting


def cut_runs(device: Device) -> Iterator[tuple[str, Engine, Counted, int]]:
    """Engines whose chunks are cut by small arrays, and by a limit where seeds have more directions than guessed."""
    tables = 4 * sum(array.size for array in crossing().arrays.values())
    with counted() as counting, mock.patch.object(memory_module, "MOST_ELEMENTS", 2 * 40 * 50):
        yield "small arrays", engine(device), counting, 2**60
    limit = tables + 60_000
    for guess in (1, 4) if device.on_host else (1,):
        with counted() as counting, mock.patch.object(memory_module, "DIRECTIONS", guess):
            yield f"limit, {guess} guessed", engine(device, memory_limit=limit), counting, limit
    if device.on_host:
        with counted() as counting:
            yield "limit and chunk", engine(device, memory_limit=limit, chunk_size=30), counting, limit


@pytest.mark.parametrize("kind", ["host", "device"])
def test_cutting_a_run_changes_no_bit_and_keeps_the_limit(kind, monkeypatch):
    """On the CPU, also as on a device that has memory and a queue of its own."""
    expected = whole(engine().track(SEEDS, first_seed=5))
    device = choose("cpu") if kind == "host" else queued_device(monkeypatch)
    for name, cut, counting, limit in cut_runs(device):
        batches = list(cut.track(SEEDS, first_seed=5))
        assert len(batches) > 2, name
        assert sum(map(len, batches)) > 1.9 * len(SEEDS)
        assert 0 < counting.most <= limit, (name, counting.most, limit)
        assert same(whole(batches), expected), name


def test_buffers_of_a_run_without_a_limit_are_no_larger_than_its_streamlines():
    with counted() as counting:
        long = engine(max_steps=10_000)
        batch = whole(long.track(SEEDS))
    assert counting.most < long.growth.prepared.arrays["volume_rows"].nbytes + 4 * 2 * 10_000 * len(batch) * 1.5 + 2**20


def test_tables_beyond_the_limit_are_refused():
    with pytest.raises(ts.ParameterError, match=r"memory_limit is 0\.0001 GB, but the tables .*: give .* or more"):
        engine(memory_limit=100_000)


def test_a_device_without_memory_says_what_helps(monkeypatch):
    def full(*_: Any) -> None:
        raise RuntimeError("[cuda_driver.h] out of memory\nand more")

    monkeypatch.setattr(_numba.QueuedProgram, "empty", full)
    with pytest.raises(DeviceError, match=r"has no memory for .* GB of seeds or .*memory_limit") as raised:
        engine()
    assert "\n" not in str(raised.value)


def test_seeds_are_numbered_in_32_bits():
    used = engine()
    last = whole(used.track(SEEDS[:4], first_seed=2**32 - 4))
    assert last.seed_number.max() == 2**32 - 1
    with pytest.raises(ts.ParameterError, match=r"4294967293 to 4294967296.*2\*\*32 - 1"):
        next(used.track(SEEDS[:4], first_seed=2**32 - 3))


# ------------------------------------------------------------------------------------------------- chunks
@pytest.mark.parametrize(
    ("points", "expected"),
    [
        (5, MOST_SEEDS), (CHUNK_POINTS / 250_000, 250_000), (CHUNK_POINTS / 99_000, USUAL_SEEDS), (9000, USUAL_SEEDS),
    ],
)
def test_chunks_of_short_streamlines_have_more_seeds(points, expected):
    """Unless the user has said how many."""
    for asked, most in ((None, expected), (300_000, 300_000)):
        growth = engine(chunk_size=asked).growth
        room = growth.memory
        room.capacity = replace(room.capacity, seeds=asked or MOST_SEEDS, streamlines=10**7)
        assert growth.ready() == (asked or USUAL_SEEDS)  # nothing is known yet
        room.points = points
        assert growth.ready() == most
        least = max(LAST_SEEDS, int(LAST_POINTS / points))
        for ahead in (10**7, 300_000, least + 1, 5):
            share = max(ahead // 2, least) if ahead > 1.5 * least else ahead
            assert min(ahead, growth.ready(ahead)) == min(ahead, asked or min(most, share))


def test_the_last_chunks_are_small_and_all_seeds_are_taken():
    room = engine().growth.memory
    room.capacity = replace(room.capacity, seeds=MOST_SEEDS)
    for points in (float("inf"), 80, 220):
        left, taken = 1_000_000, []
        while left:
            room.points = points if taken else float("inf")
            taken.append(min(left, room.ready(10**7, left)))
            left -= taken[-1]
        assert taken[0] == USUAL_SEEDS
        least = max(LAST_SEEDS, LAST_POINTS / points)
        assert 0.5 * least <= taken[-1] <= 1.5 * least
        assert len(taken) <= 14


def test_points_of_a_seed_are_those_of_the_last_chunk():
    used = engine(chunk_size=20)
    batch = whole(used.track(SEEDS[:20]))
    assert used.growth.memory.points == (len(batch.points) - len(batch)) / 20


def test_a_cpu_counts_by_its_own_rules():
    used = engine()
    used.growth.pace._rate = 1.0  # halves a second: a GPU would get a streamline at a time
    assert len(list(used.track(SEEDS))) == 1


# ------------------------------------------------------------------------------------------------- vertices and voxels
def ball(count: int) -> tuple[np.ndarray, np.ndarray]:
    """A golden spiral's points on half the sphere, each with its nearest ones."""
    from scipy.spatial import KDTree

    k = np.arange(count) + 0.5
    z, turn = 1 - k / count, k * np.pi * (3 - np.sqrt(5))
    side = np.sqrt(1 - z**2)
    vertices = np.stack([side * np.cos(turn), side * np.sin(turn), z], axis=1)
    near = np.asarray(KDTree(vertices).query(vertices, 7)[1])[:, 1:]
    return vertices, np.unique(np.sort(np.stack([np.repeat(np.arange(count), 6), near.ravel()], axis=1)), axis=0)


def test_the_largest_sphere_has_its_peaks_and_draws_and_a_larger_one_is_refused():
    """Vertex numbers beyond 31 chunks of 32 lost bits: of 1,281 vertices 8 of 20 peaks were 45 to 86 degrees off."""
    vertices, edges = ball(MOST_VERTICES)
    picked = np.random.default_rng(0).choice(MOST_VERTICES, 20, replace=False)
    picked[:3] = 0, MOST_VERTICES - 1, 991 - 32
    values = np.maximum((vertices @ vertices[picked].T).T, 0)[:, None, None, :] ** 80
    values = np.repeat(np.repeat(values, 2, axis=1), 2, axis=2).astype(np.float32)
    stop_map = np.ones(values.shape[:3], np.float32)
    seeds = np.stack([np.arange(20), np.zeros(20), np.zeros(20)], axis=1)
    options = {"sphere": (vertices, edges), "max_directions": 1, "pmf_threshold": 0.99}
    prepared = prepare_prob("pmf", values, stop_map, 0.5, seeds, **options)
    used = Engine(prepared, Space(np.eye(4), stop_map.shape), choose("cpu"), Settings(0.05, max_steps=3))
    batch = whole(used.track(seeds))
    assert len(batch) == 20
    ways = batch.points[batch.offsets[1:] - 1] - batch.points[batch.offsets[:-1]]
    cosines = np.abs((ways * vertices[picked]).sum(axis=1)) / np.linalg.norm(ways, axis=1)
    assert cosines.min() > 0.9999
    with pytest.raises(ts.ParameterError, match=r"the sphere has 993 vertices, but the limit is 992.*repulsion724"):
        sphere_tables(*ball(MOST_VERTICES + 1))


def test_a_vertex_without_an_edge_is_named():
    sphere = get_sphere(name="symmetric362")
    with pytest.raises(ts.ParameterError, match="vertex 7 of the sphere has no edge"):
        sphere_tables(sphere.vertices, sphere.edges[(sphere.edges != 7).all(axis=1)])


def test_constants_of_a_sphere_fit_their_words():
    constants, _, _ = peak_tables("full", 0.5, 25.0)
    assert constants.ball.vertex_chunks <= 31  # a bit each
    assert sphere_tables(*ball(MOST_VERTICES))[0].code_bits <= 16


def test_an_image_of_more_voxels_than_a_number_is_refused():
    keep = np.lib.stride_tricks.as_strided(np.zeros(1, bool), (1024, 1024, 1024), (0, 0, 0))
    with (
        mock.patch("tistreamlines.tracking.tables.rows.np.flatnonzero", lambda _: np.zeros(0, int)),
        pytest.raises(ts.InputError, match="1073741824 voxels"),
    ):
        build_volume(np.zeros((1, 1, 1, 1), np.float32), keep, 32, lambda *_: None, np.zeros((1, 1, 1, 1)))


# ------------------------------------------------------------------------------------------------- directions, --fast
def test_directions_beyond_255_have_their_number():
    numbers = np.array([0, 255, 256, 991])
    zeros = np.zeros((4, 3)), np.arange(5), np.zeros((4, 3)), np.zeros(4)
    assert Batch(*zeros, numbers, np.zeros((4, 2))).direction_number.tolist() == numbers.tolist()


@pytest.mark.nightly
def test_ptt_has_one_arithmetic_on_device_and_host():
    """Laid out by other arithmetic than the device's, points drift from where the device was."""
    settings = Settings(0.5, max_steps=200, exact=False)
    values = fibres(circle())
    fast, used = tracked_ptt(values, CIRCLE_SEEDS, settings=settings)
    assert used.settings.exact
    assert same(fast, tracked_ptt(values, CIRCLE_SEEDS)[0])
    assert len(tracked_prob(values, CIRCLE_SEEDS, settings=settings)) == len(CIRCLE_SEEDS)


# ------------------------------------------------------------------------------------------------- threads
@pytest.fixture
def callers_threads() -> Iterator[int]:
    """Numba's threads as a caller has set them: one."""
    before = numba.get_num_threads()
    numba.set_num_threads(1)
    yield 1
    numba.set_num_threads(before)


@pytest.mark.parametrize(("asked", "expected"), [(None, 1), (1, 1), (3, 3)])
def test_a_callers_threads_are_honoured_and_left_alone(callers_threads, monkeypatch, asked, expected):
    real, pools = _numba.thread_pool, []

    def noted(name: str, count: int) -> ThreadPoolExecutor:
        pools.append(count)
        return real(name, count)

    monkeypatch.setattr(_numba, "thread_pool", noted)
    used = engine(threads=asked)
    assert used.growth.program.threads == expected
    cores = asked or usable_cores()
    assert used.points.pool._max_workers == cores
    list(used.track(SEEDS[:9]))
    assert set(pools) == {expected}
    pools.clear()
    RandomSeeds(np.zeros((1, 3), np.int32), Draw(100, 0, asked)).points(0, 100)
    assert set(pools) == ({expected - 1} if expected > 1 else set())  # the thread that calls is one
    assert numba.get_num_threads() == callers_threads


def test_no_more_threads_than_a_job_may_use(monkeypatch):
    monkeypatch.setattr(_numba, "usable_cores", lambda: 1)
    assert _numba.NumbaProgram(Source([])).threads == 1
    assert _numba.NumbaProgram(Source([]), threads=2).threads == 2  # who asks gets
