"""Random words against the published answers, and the distributions of what is made of them."""

from __future__ import annotations

import numpy as np
import pytest
from dialects import DIALECTS, ints, reals, run
from rng_kernels import KNOWN, lane_words, scalar_words, uniforms, words
from scipy.stats import chi2
from synthetic import boot_case

from tistreamlines.kernels.getters.boot import PASS, PASSES, SIGNAL_CHUNKS, SPAN, Boot, BootScratch, draw_pass
from tistreamlines.linker.lang import Ints, Reals, barrier, func, i32, lane, lanes, minimum, u32, where
from tistreamlines.linker.rng import philox
from tistreamlines.tracking.seeding import place_seeds as seeding


@func
def draw(item: i32, method: Boot, scratch: BootScratch, row: Reals, width: i32, key: Ints, out: Reals):
    """Draw residuals from a row made for it, and hand out the transformed signals."""
    for i in range(width):
        scratch.row[i] = row[i]
    barrier()
    k0 = u32(key[0])
    k1 = u32(key[1])
    for turn in range(PASSES):
        w = philox(lanes(u32(item)), lanes(u32(1)), lanes(u32(2)), u32(lane() + 32 * (turn // 4)), k0, k1)
        word = where(turn % 4 < 2, where(turn % 4 == 0, w[0], w[1]), where(turn % 4 == 2, w[2], w[3]))
        count = minimum(PASS, SIGNAL_CHUNKS - turn * PASS)
        draw_pass(method, scratch, word, turn * PASS, count)
        barrier()
        for i in range(count * 32):
            place = 2 * (item * SIGNAL_CHUNKS * 32 + turn * PASS * 32 + i)
            out[place] = scratch.transformed[i]
            out[place + 1] = scratch.transformed[SPAN + i]
        barrier()


def chi_square_p(observed: np.ndarray) -> float:
    """Probability of so uneven a count of equally likely cases."""
    expected = observed.sum() / observed.size
    return float(chi2.sf(((observed - expected) ** 2 / expected).sum(), observed.size - 1))


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN)
def test_known_answers(dialect, counter, key, answer):
    out = run(dialect, scalar_words, 1, {"counter": words(counter), "key": words(key), "out": ints(8)})["out"]
    assert (out[0::2].astype(np.int64) << 16 | out[1::2]).tolist() == words(answer).view(np.uint32).tolist()


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN)
def test_known_answers_in_lanes(dialect, counter, key, answer):
    out = run(dialect, lane_words, 1, {"counter": words(counter), "key": words(key), "out": ints(256)})["out"]
    out = out.reshape(4, 2, 32)
    got = out[:, 0].astype(np.int64) << 16 | out[:, 1]
    assert got[:, 0].tolist() == words(answer).view(np.uint32).tolist()
    later = words(counter).copy()
    later[2:3] = (later[2:3].view(np.uint32) + np.uint32(17)).view(np.int32)
    scalar = run(dialect, scalar_words, 1, {"counter": later, "key": words(key), "out": ints(8)})["out"]
    assert got[:, 17].tolist() == (scalar[0::2].astype(np.int64) << 16 | scalar[1::2]).tolist()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_uniform_is_in_the_half_open_interval(dialect):
    counter = np.array([0, 255, 256, 0x7FFFFFFF, -(2**31), -256, -1], np.int32)
    got = run(dialect, uniforms, len(counter), {"counter": counter, "out": reals(len(counter))})["out"]
    assert np.array_equal(got, (counter.view(np.uint32) >> 8) / 2.0**24)
    assert got.max() < 1


def drawn_indices(dialect: str, n: int, items: int) -> np.ndarray:
    """(items, n) numbers of the residuals drawn, read off the transformed signals of a row that tells them apart."""
    prepared = boot_case(n)
    width = prepared.getter.row.row_chunks * 32
    row = np.zeros(width)  # no harmonics: a signal is its residual alone
    row[:n] = np.arange(n) + 2.0
    row[-2] = 1.0
    chunks = prepared.getter.signal_chunks * 32
    values = prepared.arrays | prepared.scalars | {"row": row, "width": width}
    values |= {"key": np.array([3, 4]), "out": reals(2 * items * chunks)}
    out = run(dialect, draw, items, values, prepared, prepared.scratch)["out"].reshape(items, chunks, 2)[:, :n]
    # OPDT's sets of degrees 0 and 2 differ by 1.5 times the attenuation
    signals = (out[..., 1] - out[..., 0]) / 1.5
    assert np.abs(signals - signals.round()).max() < 0.1
    return signals.round().astype(int) - 2


@pytest.fixture(scope="module")
def draws() -> np.ndarray:
    return drawn_indices("numba32", 150, 2500)  # as Python draws, see below


def test_all_residuals_are_equally_likely(draws):
    assert draws.min() == 0
    assert draws.max() == 149
    counts = lambda draws: np.bincount(draws.ravel(), minlength=150)  # noqa: E731
    second = (np.arange(150) // 32) % 2 == 1  # drawn by the remainder of a word's first product
    assert chi_square_p(counts(draws)) > 1e-3
    assert chi_square_p(counts(draws[:, ~second])) > 1e-3
    assert chi_square_p(counts(draws[:, second])) > 1e-3


@pytest.mark.parametrize("lag", [1, 32, 64])
def test_pairs_of_draws_are_independent(draws, lag):
    # lag 32: the two draws of one word; 1: neighbouring lanes; 64: two words of a block
    pairs = draws[:, lag:] // 10 * 15 + draws[:, :-lag] // 10
    if lag == 32:
        pairs = np.concatenate([pairs[:, :32], pairs[:, 64:96]], axis=1)
    assert chi_square_p(np.bincount(pairs.ravel(), minlength=225)) > 1e-3


def test_items_draw_independently(draws):
    pairs = draws[1:] // 10 * 15 + draws[:-1] // 10
    assert chi_square_p(np.bincount(pairs.ravel(), minlength=225)) > 1e-3


def test_every_block_of_draws_is_its_own():
    draws = drawn_indices("python", 290, 300)  # 290 signals need two blocks of eight
    assert chi_square_p(np.bincount(draws.ravel(), minlength=290)) > 1e-3
    assert 0.5 < (draws[:, 256:288] == draws[:, :32]).mean() * 290 < 2


def test_dialects_draw_the_same():
    expected = drawn_indices("python", 64, 40)
    assert np.array_equal(drawn_indices("numba32", 64, 40), expected)


def placed(dialect: str, count: int, first: int, voxels: np.ndarray) -> np.ndarray:
    values = {
        "rules_step_x": 1.0, "rules_step_y": 1.0, "rules_step_z": 1.0, "rules_max_steps": 1,
        "rules_key": np.array([5, 6]), "rules_first_seed": first,
        "voxels": voxels.astype(np.int32), "voxel_count": len(voxels),
        "out": reals(3 * count),
    }
    return run(dialect, seeding.place_seed, count, values)["out"].reshape(-1, 3)


def test_seeds_are_anywhere_in_the_voxels():
    voxels = np.array([(i, 2 * i, 50 - i) for i in range(37)])
    seeds = placed("numba32", 100_000, 0, voxels)
    which = np.rint(seeds[:, 0]).astype(int)
    assert chi_square_p(np.bincount(which, minlength=37)) > 1e-3
    inside = seeds - voxels[np.clip(which, 0, 36)]
    assert inside.min() >= -0.5
    assert inside.max() <= 0.5
    cells = np.clip(np.floor((inside + 0.5) * 6), 0, 5).astype(int)
    assert chi_square_p(np.bincount(cells @ [36, 6, 1], minlength=216)) > 1e-3


def test_a_seed_depends_on_its_number_alone():
    voxels = np.array([(i, 0, 0) for i in range(5)])
    every = placed("numba32", 50, 0, voxels)
    assert np.array_equal(placed("numba32", 10, 30, voxels), every[30:40])
    assert np.allclose(placed("python", 50, 0, voxels), every, rtol=0, atol=1e-6)
