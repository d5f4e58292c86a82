"""Lobes of orientation functions: a plain watershed, peaks of an optimiser, and the same bits on every device."""

import math

import numpy as np
import pytest
from commands import assert_same_bits
from fods import random_fods
from scipy.optimize import minimize

from tistreamlines.devices import ARCHS, choose
from tistreamlines.errors import InputError
from tistreamlines.fit import lobes as module
from tistreamlines.fit.lobes import Thresholds, find_lobes
from tistreamlines.kernels.fixels.watershed import LobeScratch
from tistreamlines.space.geodesic import half_sphere, quadrature_weights
from tistreamlines.space.harmonics import count_of, sampling_matrix, to_descoteaux
from tistreamlines.space.sphere import Ball

BASIS = "tournier07"
NO_LOBE = 127
RULES = {
    "defaults": Thresholds(), "all": Thresholds(0), "integral": Thresholds(0, 0.05), "merged": Thresholds(0.05, 0, 0.6),
    "all merged": Thresholds(0.05, 0, 0),
}


def lobes_of(functions, thresholds, basis=BASIS, arch="cpu", **more):
    return find_lobes(functions, basis, thresholds, choose(arch), **more)


def near_to(edges, count):
    """Sets of the neighbours of each direction."""
    near = [set() for _ in range(count)]
    for a, b in edges.tolist():
        near[a].add(b)
        near[b].add(a)
    return near


class Lobe:
    """Its directions, and the sum of these on the side of the sum so far."""

    def __init__(self, i, directions, shares):
        self.numbers, self.sum, self.integral = [i], shares[i] * directions[i], shares[i]
        self.directions, self.shares = directions, shares

    def add(self, i):
        side = 1 if self.sum @ self.directions[i] > 0 else -1
        self.numbers.append(i)
        self.sum = self.sum + side * self.shares[i] * self.directions[i]
        self.integral += self.shares[i]

    def take(self, other):
        self.numbers += other.numbers
        self.sum = self.sum + (1 if self.sum @ other.sum > 0 else -1) * other.sum
        self.integral += other.integral


def watershed(coefficients, ratio):
    """Lobes of one function, as ``fod2fixel`` finds them, one direction after the other."""
    directions, edges = half_sphere()
    near, lobes, waiting = near_to(edges, len(directions)), [], []
    amplitudes = sampling_matrix(directions, 8, BASIS) @ coefficients.astype(float)
    shares = quadrature_weights() * amplitudes
    if amplitudes.max() < -amplitudes.min():
        return []
    for i in np.argsort(-amplitudes, kind="stable"):
        if amplitudes[i] <= 0:
            break
        touched = [lobe for lobe in lobes if near[i] & set(lobe.numbers)]
        if len(touched) > 1 and amplitudes[i] > ratio * amplitudes[touched[-1].numbers[0]]:
            for other in touched[1:]:
                waiting = [(j, touched[0] if lobe is other else lobe) for j, lobe in waiting]
                lobes.remove(other)
                touched[0].take(other)
            touched = touched[:1]
        if len(touched) > 1:
            waiting.append((i, touched[0]))
        elif touched:
            touched[0].add(i)
        else:
            lobes.append(Lobe(i, directions, shares))
    for i, lobe in waiting:
        lobe.add(i)
    return lobes


@pytest.mark.parametrize("ratio", [1.0, 0.6, 0.0])
def test_lobes_are_those_of_a_plain_watershed(ratio):
    functions, _ = random_fods(20, seed=3)
    functions[::9] *= -1
    lobes = lobes_of(functions, Thresholds(0, 0, ratio), table=True)
    assert not lobes.counts[::9].any()
    alone = lobes_of(functions, Thresholds(0, 0, ratio), table=True, dilate=False).table
    first, apart = 0, 0
    for function, count, table, undilated in zip(functions, lobes.counts, lobes.table, alone, strict=True):
        expected = watershed(function, ratio)
        assert count == len(expected)
        numbers = slice(first, first + count)
        integrals = [lobe.integral for lobe in expected]
        np.testing.assert_allclose(lobes.integrals[numbers], integrals, rtol=1e-4, atol=1e-6)
        for number, lobe in enumerate(expected):
            assert (table[lobe.numbers] == number).all()
            assert set(np.flatnonzero(undilated == number)) == set(lobe.numbers)
            cosine = abs(lobes.means[first + number] @ lobe.sum) / np.linalg.norm(lobe.sum)
            apart += cosine < math.cos(math.radians(0.1))
        first += count
    # a direction at a right angle to the mean may be on either side, by rounding
    assert apart <= 0.01 * len(lobes.integrals)


def test_a_fibre_is_one_lobe_whose_integral_is_its_weight():
    """At order 8, a lobe along any direction holds nearly all of what is positive."""
    axes = np.random.default_rng(5).normal(size=(50, 3))
    axes /= np.linalg.norm(axes, axis=1, keepdims=True)
    functions = 0.7 * sampling_matrix(axes, 8, BASIS).astype(np.float32)
    lobes = lobes_of(functions, Thresholds(0.3))
    assert (lobes.counts == 1).all()
    assert np.abs((lobes.means * axes).sum(axis=1)).min() > math.cos(math.radians(0.1))
    assert np.abs((lobes.peaks * axes).sum(axis=1)).min() > math.cos(math.radians(0.1))
    highest = 0.7 * sum((2 * degree + 1) / (4 * math.pi) for degree in range(0, 9, 2))
    np.testing.assert_allclose(lobes.amplitudes, highest, rtol=2e-6)
    # the integral of the same lobe along z, where the function depends on the height alone, up to its first zero
    heights = np.linspace(0, 1, 10_001)
    zonal = sampling_matrix(np.stack([np.sqrt(1 - heights**2), 0 * heights, heights], axis=1), 8, BASIS)
    profile = 0.7 * zonal @ sampling_matrix(np.array([[0.0, 0, 1]]), 8, BASIS)[0]
    positive = np.flatnonzero(profile <= 0).max() + 1
    expected = 4 * math.pi * np.trapezoid(profile[positive:], heights[positive:])
    np.testing.assert_allclose(lobes.integrals, expected, rtol=0.01)


@pytest.mark.nightly
def test_peaks_are_those_of_an_optimiser():
    functions, _ = random_fods(8, seed=8)
    lobes = lobes_of(functions, Thresholds(0.15))
    owner, lost = np.repeat(np.arange(8), lobes.counts), 0
    for function, peak, amplitude in zip(functions[owner], lobes.peaks, lobes.amplitudes, strict=True):

        def lowered(v, function=function):
            return -float(sampling_matrix((v / np.linalg.norm(v))[None], 8, BASIS)[0] @ function)

        best = minimize(lowered, peak.astype(float), method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-10})
        cosine = abs(peak @ best.x) / np.linalg.norm(best.x)
        if cosine > math.cos(math.radians(3)):
            assert abs(best.fun + amplitude) < 1e-5
            assert cosine > math.cos(math.radians(0.1))
        else:  # it left the lobe, and so the peak is the direction with which that begins
            lost += 1
            assert np.abs(half_sphere()[0] @ peak).max() > 1 - 1e-6
    assert lost <= 0.1 * len(lobes.peaks)


def test_the_table_gives_each_direction_a_lobe_that_it_touches():
    functions, _ = random_fods(20, seed=2)
    lobes = lobes_of(functions, Thresholds(0.2), table=True)
    unlimited = lobes_of(functions, Thresholds(0), table=True)
    assert lobes.counts.min() > 0
    assert (lobes.table < lobes.counts[:, None]).all()
    near = near_to(half_sphere()[1], 1281)
    for table, before in zip(lobes.table, unlimited.table, strict=True):
        # the highest lobes have the same numbers with and without a threshold
        assert (table[before == 0] == 0).all()
        for lobe in range(table.max() + 1):
            there = set(np.flatnonzero(table == lobe).tolist())
            reached, edge = set(), [min(there)]
            while edge:
                reached.add(edge[-1])
                edge.extend((near[edge.pop()] & there) - reached)
            assert reached == there


def test_a_function_without_lobes_has_no_number_in_the_table():
    functions, _ = random_fods(3)
    functions[1] *= 1e-3
    lobes = lobes_of(functions, Thresholds(), table=True)
    assert lobes.counts[1] == 0
    assert (lobes.table[1] == NO_LOBE).all()
    assert (lobes.table[[0, 2]] < NO_LOBE).all()


def test_bases_agree():
    """The same functions, since to_descoteaux changes signs and places alone."""
    functions, _ = random_fods(10, seed=4)
    there = lobes_of(functions, Thresholds())
    here = lobes_of(to_descoteaux(functions, BASIS), Thresholds(), "descoteaux07_legacy")
    for name in ("counts", "means", "integrals", "amplitudes"):
        np.testing.assert_array_equal(getattr(there, name), getattr(here, name))


def test_results_do_not_depend_on_how_many_are_searched_at_a_time(monkeypatch):
    functions, _ = random_fods(50, seed=6)
    whole = lobes_of(functions, RULES["all"], table=True)
    monkeypatch.setattr(module, "VOXELS", 7)
    monkeypatch.setattr(module, "SLOTS", 1)
    parts = lobes_of(functions, RULES["all"], table=True)
    for name, values in vars(whole).items():
        np.testing.assert_array_equal(values, getattr(parts, name), err_msg=name)


def test_functions_without_a_peak_are_left_out_and_nothing_changes(monkeypatch):
    functions, _ = random_fods(40, seed=7)
    functions *= np.geomspace(0.001, 1, len(functions), dtype=np.float32)[:, None]
    quick, kept = lobes_of(functions, Thresholds(), table=True), []
    real = module._may_peak
    monkeypatch.setattr(module, "_may_peak", lambda *given: kept.append(real(*given)) or np.ones(len(kept[0]), bool))
    whole = lobes_of(functions, Thresholds(), table=True)
    assert 0 < kept[0].sum() < len(functions)
    assert (quick.counts == 0).sum() > 5
    for name, values in vars(whole).items():
        np.testing.assert_array_equal(getattr(quick, name), values)
    np.testing.assert_array_equal(quick.table, whole.table)
    assert (quick.table[quick.counts == 0] == NO_LOBE).all()


def test_functions_that_all_have_no_peak_have_no_lobes():
    lobes = lobes_of(np.full((3, 15), 1e-3, np.float32), Thresholds(), table=True)
    assert not lobes.counts.any()
    assert (lobes.table == NO_LOBE).all()
    assert lobes.means.shape == (0, 3)


def test_too_many_lobes_are_an_error(monkeypatch):
    functions, _ = random_fods(5)
    monkeypatch.setattr(module, "LOBES", 2)
    with pytest.raises(InputError, match="more than 2 lobes"):
        lobes_of(functions, RULES["all"])


@pytest.mark.parametrize("order", [2, 8, 12, 16])
def test_team_memory_fits_every_gpu(order):
    """Of which each has 16 KiB for a block, 256 bytes of them for a team's own operations."""
    ball = Ball(vertex_chunks=41, neighbours=6, around_bits=15, code_bits=12)
    rows = -(-count_of(order) // 32)
    search = module.LobeSearch(
        ball=ball, half_order=order // 2, row_chunks=rows, lobes=module.LOBES, merges=1, table=1, dilates=1
    )
    assert 4 * sum(LobeScratch.sizes(search).values()) + 256 <= 16 << 10


def compute(arch):
    """Lobes by rules that are as different as can be, at two orders.

    More searches in one process are not tried: lavapipe crashes in about one in fifty of them.
    """
    arrays = {}
    for order, count, rule in ((8, 12, "merged"), (4, 6, "integral")):
        functions, _ = random_fods(count, order, seed=9)
        lobes = lobes_of(functions, RULES[rule], table=True, arch=arch)
        arrays |= {f"{order} {rule} {name}": values for name, values in vars(lobes).items()}
    return arrays


@pytest.mark.parametrize("arch", [arch for arch in ARCHS if choose("cpu").arch != arch])
def test_devices_give_the_cpus_bits(arch, tmp_path):
    assert_same_bits(__file__, arch, tmp_path, compute("cpu"))
