"""What the host does for each streamline of a chunk, beside NumPy; and the seeds that wait."""

from dataclasses import replace

import numpy as np
import pytest

from tistreamlines.kernels.stop_reasons import Stop
from tistreamlines.space.batch import Space
from tistreamlines.tracking.engine.engine import FEWEST_SELECTED, SPARE, seeds_for
from tistreamlines.tracking.growth.chunk import (
    Chunk,
    DirectedSeeds,
    SeedQueue,
    enlist_halves,
    exclusive_sum,
    exclusive_sum_in_order,
    tally_halves,
    z_order,
)
from tistreamlines.tracking.products.points.unpacking import piece_bounds

RNG = np.random.default_rng(5)
AFFINE = np.array([[-1.7, 0.2, 0.1, 80.3], [0.3, 1.9, 0.0, -91.0], [0.0, -0.4, 2.1, 13.7], [0, 0, 0, 1]])


@pytest.fixture(params=[0, 1, 400])
def chunk(request):
    """Seeds with 0 to 3 streamlines, whose halves have some steps or none."""
    counts = RNG.integers(0, 4, request.param).astype(np.int32)
    seeds = RNG.uniform(0, 60, (len(counts), 3)).astype(np.float32)
    begun = DirectedSeeds((seeds, 70, None), counts, {}, lambda: z_order(seeds)).chunk()
    state = np.zeros((len(begun.seed), 2, 2), np.int32)
    state[..., 0] = RNG.integers(0, 200, state.shape[:2])
    state[..., 1] = RNG.integers(0, len(Stop), state.shape[:2])
    return Chunk(70, seeds, begun.seed, begun.branch, begun.number, state, {"verdict": begun.seed})


def test_streamlines_are_numbered(chunk):
    counts = np.bincount(chunk.seed, minlength=len(chunk.seeds)).astype(np.int32)
    np.testing.assert_array_equal(chunk.seed, np.repeat(np.arange(len(counts)), counts))
    np.testing.assert_array_equal(chunk.branch, np.arange(len(chunk.seed)) - exclusive_sum(counts)[chunk.seed])
    np.testing.assert_array_equal(np.sort(chunk.number), np.arange(len(chunk.seed)))
    order = z_order(chunk.seeds)
    slot = exclusive_sum_in_order(counts, order)
    np.testing.assert_array_equal(slot[order], exclusive_sum(counts[order]))
    np.testing.assert_array_equal(enlist_halves(counts, slot)[2], slot[chunk.seed] + chunk.branch)


def test_halves_are_counted(chunk):
    steps, most, ends = tally_halves(chunk.state)
    assert steps == chunk.state[..., 0].sum()
    assert most == chunk.state[..., 0].max(initial=0)
    for side in range(2):
        np.testing.assert_array_equal(ends[side], np.bincount(chunk.state[:, side, 1], minlength=len(Stop)))


@pytest.mark.parametrize("codes", [1, 3])
def test_places_of_words_and_points(chunk, codes):
    slot, offset = chunk.places(codes)
    np.testing.assert_array_equal(np.diff(slot), -(-chunk.state[..., 0].ravel() // codes))
    np.testing.assert_array_equal(np.diff(offset), chunk.steps + 1)
    assert slot[0] == offset[0] == 0


def test_what_a_batch_says(chunk):
    space = Space(AFFINE, (60, 60, 60))
    (offsets, seeds, numbers, directions, reasons), begins = chunk.facts(space)
    np.testing.assert_array_equal(np.diff(offsets), chunk.steps + 1)
    np.testing.assert_array_equal(begins, offsets[:-1])
    np.testing.assert_array_equal(seeds, space.to_ras(chunk.seeds[chunk.seed]).astype(np.float32))
    np.testing.assert_array_equal(numbers, 70 + chunk.seed)
    np.testing.assert_array_equal(directions, chunk.branch)
    np.testing.assert_array_equal(reasons, chunk.state[:, ::-1, 1])


@pytest.mark.parametrize("places", [slice(3, 9), np.array([5, 2, 2, 11])])
def test_some_of_its_streamlines(places):
    counts = np.full(6, 2, np.int32)
    cropped = RNG.integers(0, 9, (12, 2))
    seeds = DirectedSeeds((np.zeros((6, 3), np.float32), 0, None), counts, {}, lambda: np.arange(6, dtype=np.int32))
    chunk = seeds.chunk()
    chunk = replace(chunk, state=np.arange(48).reshape(12, 2, 2), besides={"cropped": cropped})
    part = chunk.select(places)
    for name in ("seed", "branch", "number", "state"):
        np.testing.assert_array_equal(getattr(part, name), getattr(chunk, name)[places])
    np.testing.assert_array_equal(part.besides["cropped"], cropped[places])


def test_a_chunk_without_streamlines_is_a_batch():
    """Workers tell their counts with the last batch of each chunk."""
    assert piece_bounds(np.array([], int), 0) == [(0, 0)]
    assert piece_bounds(np.array([0, 0, 4]), 4) == [(0, 4)]
    assert piece_bounds(np.array([2, 3]), 7) == [(0, 2), (2, 3), (3, 7)]


# ------------------------------------------------------------------------------------------------------ seeds that wait
def block(count, first, codes=False):
    numbers = np.arange(first, first + count)
    return np.repeat(numbers, 3).reshape(-1, 3).astype(np.float32), first, numbers.astype(np.int32) if codes else None


@pytest.mark.parametrize("codes", [False, True])
def test_seeds_come_in_their_order_and_from_one_block_at_a_time(codes):
    asked = [block(5, 0, codes), block(0, 5, codes), block(3, 5, codes)]
    waiting = SeedQueue(iter(asked), lambda *seeds: seeds)
    sizes, numbers = [], []
    while (seeds := waiting.next(2)) is not None:
        points, first, directions = seeds
        sizes.append(len(points))
        numbers += points[:, 0].tolist()
        assert first == points[0, 0]
        assert (directions is not None) == codes
        if codes:
            np.testing.assert_array_equal(directions, points[:, 0])
    assert sizes == [2, 2, 1, 2, 1]
    assert numbers == list(range(8))
    assert waiting.next(2) is None


def test_seeds_that_are_put_back_come_first():
    waiting = SeedQueue(iter([block(4, 0), block(4, 4)]), lambda *seeds: seeds)
    first, second = waiting.next(3), waiting.next(3)
    assert (len(second[0]), waiting.ahead) == (1, 4)
    for seeds in (second, first):
        waiting.put_back(seeds)
    assert (waiting.ahead, waiting.left) == (3, 0)
    assert SeedQueue(iter([block(4, 0)]), lambda *seeds: seeds, more=False).left == 4
    assert [waiting.next(9)[1] for _ in range(3)] == [0, 3, 4]
    assert waiting.next(9) is None


def test_seeds_of_a_selection_are_about_as_many_as_it_takes():
    assert seeds_for(2**62, 0, 0) > 2**40  # all streamlines
    assert seeds_for(100, 0, 0) == FEWEST_SELECTED
    assert seeds_for(100_000, 0, 0) == SPARE * 100_000
    assert seeds_for(10_000, 100, 5_000) == SPARE * 10_000 * 50
    assert seeds_for(10_000, 0, 5_000) > 2**40  # none accepted so far
    assert seeds_for(100_000, 0, 0, growing=40_000) == SPARE * 100_000 - 40_000
    assert seeds_for(100_000, 0, 0, growing=124_999) == FEWEST_SELECTED
    assert seeds_for(100_000, 0, 0, growing=125_000) == 0  # those that grow are likely to be enough
