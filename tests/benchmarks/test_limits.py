"""What a device can do: the two kernels compute what they should, rates make sense, and counts are those of kernels."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from commands import python
from dialects import DIALECTS, ints, reals, run
from linked import Linked
from places import ROOT
from suite import limits
from synthetic import boot_case
from tables import prepare_det, prepare_prob, prepare_ptt

from tistreamlines.backends.numba import program as _numba
from tistreamlines.devices import ARCHS, choose
from tistreamlines.errors import DeviceError
from tistreamlines.kernels.getters.ptt import data_support
from tistreamlines.kernels.orientation.amplitudes import harmonic
from tistreamlines.linker import interpreted as _python
from tistreamlines.linker.parts import Part, Source
from tistreamlines.tracking.parts import Layout
from tistreamlines.tracking.tables.inputs import KernelTables

SIDE = 5
MEASURED = f"""
import json, sys
sys.path.append({str(ROOT / "benchmarks")!r})
from tistreamlines.devices import choose
from suite.limits import measure_limits
print(json.dumps(measure_limits(choose(sys.argv[1]), 0.05)))
"""


def tables(prepare: Any, source: str, count: int, **options: Any) -> KernelTables:
    values = np.random.default_rng(0).random((SIDE, SIDE, SIDE, count), np.float32)
    stop_map = np.ones(values.shape[:3], np.float32)
    return prepare(source, values, stop_map, 0.5, np.full((1, 3), 2.0), **options)


# -------------------------------------------------------------------------------------------------------- kernels
@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_copy_copies(dialect):
    items, size = 3, 3 * limits.ITEM
    values = np.random.default_rng(1).random(size).astype(np.float32)
    assert np.array_equal(run(dialect, limits.copy_reals, items, {"source": values, "out": reals(size)})["out"], values)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_numbers_have_known_sums(dialect):
    items, first = 3, 7
    numbered = run(dialect, limits.number_reals, items, {"first": first, "out": reals(items * limits.ITEM)})["out"]
    assert np.array_equal(numbered, np.arange(first, first + items * limits.ITEM))
    values = {"values": numbered - first, "out": ints(32 * items)}
    sums = run(dialect, limits.sum_reals, items, values)["out"]
    assert np.array_equal(sums.reshape(items, 32), limits.numbered_sums(items))


def test_numbers_begin_again():
    assert np.array_equal(limits.numbered_sums(1027)[1024:], limits.numbered_sums(3))
    count = (limits.MASK + 1) // limits.ITEM + 1
    numbered = run("numba32", limits.number_reals, count, {"first": 0, "out": reals(count * limits.ITEM)})["out"]
    assert np.array_equal(numbered, np.arange(count * limits.ITEM) % (limits.MASK + 1))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_chain_has_a_known_end(dialect):
    for turns in (0, 1, 5):
        values = {"turns": turns, "unity": 1.0, "nought": 0.0, "out": ints(64)}
        out = run(dialect, limits.multiply_add, 2, values)["out"].reshape(2, 32)
        assert np.array_equal(out, np.tile(limits.chain_sums(turns), (2, 1)))


def test_the_chains_factors_all_count():
    """The compiled chain with other factors is the interpreted one: none of its products has been dropped."""
    ends = [
        run(dialect, limits.multiply_add, 1, {"turns": 3, "unity": 0.75, "nought": -0.5, "out": ints(32)})["out"]
        for dialect in DIALECTS
    ]
    assert np.ptp(ends[0]) > 3
    assert all(np.abs(end - ends[0]).max() <= 1 for end in ends)


def test_the_longest_chain_is_exact():
    assert limits.chain_sums(limits.MOST_TURNS).max() < 2**24
    values = {"turns": limits.MOST_TURNS, "unity": 1.0, "nought": 0.0, "out": ints(32)}
    assert np.array_equal(run("numba32", limits.multiply_add, 1, values)["out"], limits.chain_sums(limits.MOST_TURNS))


# ---------------------------------------------------------------------------------------------------------- rates
def assert_sensible(measured: dict[str, Any], arch: str) -> None:
    assert measured["device"] == choose(arch).name
    assert set(measured) == {"device", "bytes_per_second", "multiply_adds_per_second"}
    most = {"bytes_per_second": 2e12 if arch == "cpu" else 5e13, "multiply_adds_per_second": 1e14}
    for name, greatest in most.items():
        assert math.isfinite(measured[name])
        assert 1e6 < measured[name] < greatest


def test_the_cpus_limits():
    assert_sensible(limits.measure_limits(choose("cpu"), 0.05), "cpu")


@pytest.mark.nightly
@pytest.mark.parametrize("arch", [arch for arch in ARCHS if arch != "cpu"])
def test_a_gpus_limits(arch):
    """In a process of its own, since Taichi is global to one."""
    try:
        choose(arch)
    except DeviceError as error:
        pytest.skip(str(error))
    done = python("-c", MEASURED, arch)
    assert done.returncode == 0, done.stderr[-3000:]
    assert_sensible(json.loads(done.stdout.splitlines()[-1]), arch)


@pytest.mark.parametrize(("dropped", "named"), [("copy_reals", "the copy"), ("multiply_add", "the chain")])
def test_work_that_was_not_done_is_noticed(monkeypatch, dropped, named):
    whole = _numba.NumbaProgram.run
    kept = lambda self, name, *rest: name == dropped or whole(self, name, *rest)  # noqa: E731
    monkeypatch.setattr(_numba.NumbaProgram, "run", kept)
    with pytest.raises(DeviceError, match=f"cpu: .* values of {named} wrong"):
        limits.measure_limits(choose("cpu"), 0.01)


def test_a_single_wrong_value_is_noticed(monkeypatch):
    whole = _numba.NumbaProgram.host

    def one_off(self: Any, array: np.ndarray, count: int) -> np.ndarray:
        values = whole(self, array, count)
        values[count // 2] += 1
        return values

    monkeypatch.setattr(_numba.NumbaProgram, "host", one_off)
    with pytest.raises(DeviceError, match="gets 1 of"):
        limits.measure_limits(choose("cpu"), 0.01)


@pytest.mark.parametrize(
    ("changes", "free", "size"),
    [
        ({"cores": 2}, 2**36, 2**28),
        ({"cores": 32}, 2**36, 2**29),
        ({"cores": 192}, 2**40, 2**30),
        ({"cores": 2}, 2**28, 2**26),
        ({"arch": "cuda"}, 2**36, 2**30),
        ({"arch": "cuda"}, 2**31, 2**29),
        ({"arch": "vulkan", "software": True, "cores": None}, 2**36, 2**26),
        ({"arch": "metal", "memory_bytes": 2**33}, None, 2**30),
        ({"arch": "metal", "memory_bytes": None}, None, 2**28),
    ],
)
def test_arrays_exceed_the_caches_and_fit_the_memory(monkeypatch, changes, free, size):
    monkeypatch.setattr(limits, "free_memory", lambda device: free)
    assert limits._copied_items(replace(choose("cpu"), **changes)) * limits.ITEM * 4 == size


# --------------------------------------------------------------------------------------------------------- counts
class Counted:
    """A real that counts the products, sums and differences made with it."""

    done = 0

    def __init__(self, value: float) -> None:
        self.value = float(value)

    def __float__(self) -> float:
        return self.value

    def __int__(self) -> int:
        return int(self.value)

    def __abs__(self) -> Counted:
        return Counted(abs(self.value))

    def _with(self, other: Any, name: str) -> Any:
        if isinstance(other, np.ndarray):
            return NotImplemented  # numpy then goes through it
        Counted.done += name in OPERATIONS
        value = getattr(self.value, name)(float(other))
        return Counted(value) if name in OPERATIONS else value


OPERATIONS = ("__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__")
for word in (*OPERATIONS, "__lt__", "__le__", "__gt__", "__ge__"):
    setattr(Counted, word, lambda self, other, word=word: self._with(other, word))


def lane_values(value: float) -> np.ndarray:
    return np.array([Counted(value) for _ in range(32)], object)


def operations_a_lane(kernel: Any, parts: Sequence[Part], values: dict[str, Any]) -> float:
    """Products, sums and differences of reals that a lane makes in a kernel function, interpreted."""
    program, Counted.done = _python.InterpretedProgram(Source([kernel], parts)), 0
    getattr(program.module, kernel.__name__)(*(values[name] for name, _ in program.signatures[kernel.__name__]))
    return Counted.done / 32


@pytest.mark.parametrize("half_order", [1, 2, 4, 6])
def test_harmonics_take_about_two_operations_a_coefficient(half_order):
    coefficients = (half_order + 1) * (2 * half_order + 1)
    values = {"c": np.ones(coefficients), "first": 0} | {axis: lane_values(0.5) for axis in "xyz"}
    done = operations_a_lane(harmonic, [Linked(half_order=half_order)], values)
    assert 2 * coefficients <= done <= 1.11 * 2 * coefficients


@pytest.mark.parametrize("parts", [1, 2])
def test_a_probe_takes_as_many_operations_as_are_counted(parts):
    prepared = tables(prepare_ptt, "pmf", 181, sphere="small")
    frame = {name: tuple(lane_values(x) for x in v) for name, v in zip("tnb", np.eye(3), strict=True)}
    values = frame | {"p": tuple(lane_values(x) for x in (2.1, 2.2, 2.3)), "last": lane_values(0.0)}
    values |= {"bends": tuple(lane_values(x) for x in (0.1, 0.2, 0.0)), "ends": np.array([Counted(0.0)] * 192, object)}
    getter = replace(prepared.getter, parts=parts)
    layout = Layout.of(getter, prepared.rule)
    done = operations_a_lane(data_support, layout.parts, prepared.arrays | prepared.scalars | values)
    # what no segment changes, 18 operations of the curvatures, is done once by compilers
    assert done == pytest.approx(getter.count_step()[1] / 32 + 18 * getter.segments, rel=0.01)


def test_counts_of_a_step():
    """Order 4 has 15 coefficients, order 8 has 45; spheres have 362 (384 with padding) and 181 (192) vertices."""
    case = boot_case()  # 64 signals, and a chunk for the 15 coefficients and the rest
    assert case.getter.count_step() == (8 * 4 * 96, 16 * 96 + 64 * (30 + 30) + 384 * 30)
    # at 20 degrees, a cone has at most 32 vertices; of samples, the end of the row is read besides these
    harmonics = (8 * 4 * 64, 16 * 64 + 32 * 90)
    sampled = (8 * 4 * 64, 16 * 64)
    for prepare in (prepare_prob, prepare_det):
        assert tables(prepare, "sh", 45).getter.count_step() == harmonics
        assert tables(prepare, "pmf", 181, sphere="small").getter.count_step() == sampled
    probes = tables(prepare_ptt, "pmf", 181, sphere="small").getter
    assert probes.count_step() == (32 * 3 * 8 * 4, 32 * (6 * 86 + 3 * (18 + 34)))
    assert replace(probes, parts=1).count_step() == (32 * 6 * 8 * 4, 32 * 6 * (86 + 18 + 34))
    lines = tables(prepare_ptt, "pmf", 181, sphere="small", probe_count=3, probe_quality=4)
    assert lines.getter.count_step() == (32 * 2 * 3 * 8 * 4, 32 * (3 * 86 + 2 * (18 + 3 * 34)))


def test_shares_of_the_limits():
    measured = {"device": "a GPU", "bytes_per_second": 1e12, "multiply_adds_per_second": 2e12}
    fast = {"points_per_second": 1e8}
    assert limits.shares(fast, measured, 2000.0, 8000.0) == pytest.approx({"bytes": 0.2, "operations": 0.2})
    assert limits.shares(fast, measured, None, 8000.0) == {"bytes": None, "operations": pytest.approx(0.2)}
    for unknown in ((fast, None, 1.0, 1.0), (fast, measured, None, None), ({}, measured, 1.0, 1.0)):
        assert limits.shares(*unknown) is None
    assert limits.shares({"points_per_second": None}, measured, 1.0, 1.0) is None
    assert limits.shares({**fast, "device": "a GPU"}, measured, 2000.0, 8000.0)
    assert limits.shares({**fast, "device": "another GPU"}, measured, 2000.0, 8000.0) is None
