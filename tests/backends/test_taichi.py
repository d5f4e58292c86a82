"""The dialects that Taichi compiles against the CPU's, bit for bit.

Taichi is global to a process, so each arch has a process of its own, which saves what it computed.  An arch without a
device is skipped.  Taichi's own CPU arch, x64, takes the same text, but only functions of scalars: a team's lanes meet
at a block's barrier, which x64 lacks.  It is tried nightly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import in_own_process
from dialects import ints, reals
from dialects import run as run_on_cpu
from interpolate_kernels import sample
from lang_kernels import OFFSETS, OTHER, REAL, below, float_bits, lanewise, scalars, shares, sums, votes, whole
from linked import Linkable, Linked, parts_of
from maths_kernels import divide_all, log_all, random_floats, square_root_all
from nights import at_night
from rng_kernels import KNOWN, lane_words, scalar_words, uniforms, words
from synthetic import boot_case, gradients, noisy_crossing
from tables import prepare_boot

from tistreamlines.backends.taichi import program as _taichi
from tistreamlines.backends.taichi.linking import TYPES, dialect
from tistreamlines.backends.taichi.team import team_kind
from tistreamlines.devices import ARCHS, Device, choose
from tistreamlines.errors import DeviceError
from tistreamlines.kernels.getters.boot import COEFFICIENTS, Boot, BootScratch, fit_drawn
from tistreamlines.kernels.interpolate import Volume, inside, interpolate_row
from tistreamlines.kernels.orientation.peaks import dot
from tistreamlines.linker.lang import Ints, Reals, barrier, func, i32, real, u32, vec3
from tistreamlines.linker.link import link
from tistreamlines.linker.parts import Source
from tistreamlines.linker.store import load
from tistreamlines.space.batch import Batch, Space
from tistreamlines.tracking.engine.engine import Engine
from tistreamlines.tracking.growth.settings import Settings
from tistreamlines.tracking.tables.inputs import KernelTables

Case = tuple[Any, int, dict[str, Any]]  # kernel, number of items, arguments
CONSTANTS, SCRATCH = {"pattern": OFFSETS, "row_chunks": 2}, {"row": ("reals", 64)}
GPUS = [arch for arch in ARCHS if arch != "cpu"]
SHAPE, SIDES, STEP_MM, SEEDS = (7, 7, 7), np.array([2.0, 1.5, 2.5]), 0.9, 20


# ---------------------------------------------------------------------------------------------- what is computed
@func
def dots(item: i32, a: Reals, b: Reals, out: Reals):
    """Scalar products of vectors."""
    p = vec3(a[3 * item], a[3 * item + 1], a[3 * item + 2])
    out[item] = dot(p, vec3(b[3 * item], b[3 * item + 1], b[3 * item + 2]))


@func
def insides(item: i32, volume: Volume, points: Reals, out: Ints):
    """Whether points are inside the image."""
    out[item] = inside(volume.shape, vec3(points[3 * item], points[3 * item + 1], points[3 * item + 2]))


@func
def horner(item: i32, a: Reals, out: Reals):
    """A chain of products and sums, which compilers like to fuse."""
    x = a[item]
    y = x
    for turn in range(20):
        y = (y * x + 0.7) * 0.6 - real(turn) * (0.1 * x)
    out[item] = y


@func
def refit(item: i32, volume: Volume, method: Boot, scratch: BootScratch, points: Reals, key: Ints, out: Reals):
    """Coefficients drawn with counter ``item``."""
    interpolate_row(volume, vec3(points[3 * item], points[3 * item + 1], points[3 * item + 2]), scratch.row)
    barrier()
    fit_drawn(method, scratch, u32(item), u32(1), u32(2), u32(0), key)
    for j in range(COEFFICIENTS):
        out[item * COEFFICIENTS + j] = scratch.coefficients[j]


def scalar_cases() -> dict[str, Case]:
    """Kernels that need no team."""
    rng = np.random.default_rng(0)
    n = 3000
    a, b = random_floats(n, 1), np.random.default_rng(2).permutation(random_floats(n, 3))
    normal = np.abs(np.log2(a.astype(float) / b)) < 125
    near = rng.uniform(0.5, 2, n).astype(np.float32)
    sides = rng.integers(-(2**31), 2**31, (2, 50)).astype(np.int32)
    points = rng.uniform(-1, 6, (n, 3)).astype(np.float32)
    points[:7, 0] = np.float32([-0.5, np.nextafter(np.float32(-0.5), -1), 4.5, np.nextafter(4.5, 0), 0, -0.0, 4])
    volume = {"volume_index": ints(1), "volume_rows": reals(64), "volume_shape": np.array([5, 5, 5])}
    known = {
        f"philox {k}": (scalar_words, 1, {"counter": words(counter), "key": words(key), "out": ints(8)})
        for k, (counter, key, _) in enumerate(KNOWN)
    }
    return known | {
        "divide": (divide_all, int(normal.sum()), {"a": a[normal], "b": b[normal], "out": reals(int(normal.sum()))}),
        "square_root": (square_root_all, n, {"a": a, "out": reals(n)}),
        "log": (log_all, n, {"a": a, "out": reals(n)}),
        "log near 1": (log_all, n, {"a": near, "out": reals(n)}),
        "uniform": (uniforms, 50, {"counter": sides[0], "out": reals(50)}),
        "dot": (dots, n, {"a": points.ravel(), "b": near.repeat(3), "out": reals(n)}),
        "horner": (horner, n, {"a": near, "out": reals(n)}),
        "inside": (insides, n, volume | {"points": points.ravel(), "out": ints(n)}),
        "scalars": (scalars, 8, {"a": REAL, "b": OTHER, "out": reals(64)}),
        "whole": (whole, 50, {"a": sides[0], "b": sides[1], "out": ints(600)}),
        "bits": (float_bits, n - 1, {"a": a, "out": ints(n), "back": reals(n)}),
    }


# in no lane, in each alone, and in all
HOLDS = np.concatenate([np.zeros((1, 32)), np.eye(32), np.ones((7, 32))]).astype(np.int32)


def team_cases() -> dict[str, Case]:
    """Kernels whose 32 lanes differ or meet."""
    rng = np.random.default_rng(1)
    a, index = rng.normal(size=96).astype(np.float32), rng.integers(0, 96, 64).astype(np.int32)
    many = rng.normal(size=1280).astype(np.float32)
    index[:32] = OFFSETS  # a spread's table holds its pattern
    points = rng.uniform(-0.5, 4.4, (200, 3)).astype(np.float32)
    volume = {
        "volume_index": (2 * rng.permutation(125)).astype(np.int32), "volume_shape": np.array([5, 5, 5]),
        "volume_rows": rng.normal(100, 30, 125 * 64).astype(np.float32),
    }
    counter, key, _ = KNOWN[2]
    return {
        "lanewise": (lanewise, 2, {"a": a, "index": index, "out": reals(512), "picked": ints(64), "counter": ints(1)}),
        "shares": (shares, 1, {"out": ints(46)}),
        "votes": (votes, 40, {"a": many, "holds": HOLDS.ravel(), "out": reals(280)}),
        "below": (below, 40, {"a": many, "out": reals(40 * 160)}),
        "sums": (sums, 200, {"index": rng.integers(0, 15, 200).astype(np.int32), "out": ints(16)}),
        "philox of lanes": (lane_words, 1, {"counter": words(counter), "key": words(key), "out": ints(256)}),
        "interpolate": (sample, 200, volume | {"points": points.ravel(), "found": ints(200), "out": reals(200 * 64)}),
    }


def refit_case(model: str) -> tuple[KernelTables, Case]:
    """Coefficients of the model fitted to redrawn signals."""
    prepared = boot_case(model=model)
    points = np.random.default_rng(3).uniform(-0.5, 2.4, 150).astype(np.float32)
    values = {"points": points, "key": np.array([11, -12]), "out": reals(50 * prepared.getter.coefficients)}
    return prepared, (refit, 50, prepared.arrays | prepared.scalars | values)


def bare(roots: list[Any]) -> Source:
    """Kernels that have no method."""
    return Source(roots, [Linked(*parts_of(boot_case()), **CONSTANTS)], SCRATCH)


def arrays_of(case: Case) -> list[str]:
    return [name for name, value in case[2].items() if isinstance(value, np.ndarray)]


def engine_output(arch: str, exact: bool = True) -> dict[str, np.ndarray]:
    """Points and lengths of streamlines of a noisy crossing with a hole in the stop map, in voxels of unequal sides."""
    gtab = gradients(32)  # as many as the phantom of verify has, whose kernels serve
    data = noisy_crossing(gtab, SHAPE, snr=12.0)
    stop_map = np.ones(SHAPE, np.float32)
    stop_map[5, 2:5, 2:5] = 0
    seeds = np.random.default_rng(1).uniform(0.5, 5.5, (SEEDS, 3)).astype(np.float32)
    prepared = prepare_boot(data, gtab, stop_map, 0.5, seeds.astype(float))
    settings, space = Settings(STEP_MM, max_steps=40, exact=exact), Space(np.diag([*SIDES, 1.0]), SHAPE)
    batch = Batch.concatenate(list(Engine(prepared, space, choose(arch), settings).track(seeds)))
    return {"points": batch.points, "lengths": np.diff(batch.offsets)}


# ------------------------------------------------------------------------------- what runs in a process of its own
class PlainProgram:
    """Scalar kernels on Taichi's x64: the text of a GPU's dialect under a plain loop over the items."""

    def __init__(self, cases: dict[str, Case]) -> None:
        import taichi as ti

        ti.init(arch=ti.x64, fast_math=False, log_level=ti.ERROR, enable_fallback=False)
        linked = link([kernel for kernel, *_ in cases.values()], dialect("x64", exact=True), {})
        names = {kernel.__name__ for kernel, *_ in cases.values()}
        self.signatures = {name: linked.signatures[name] for name in names}
        entries = [self._entry(name, signature) for name, signature in self.signatures.items()]
        self.ti, self.module = ti, load("\n\n".join([linked.text, *entries]))

    @staticmethod
    def _entry(name: str, signature: list[tuple[str, str]]) -> str:
        outer = "".join(f", {n}: {TYPES[kind]}" for n, kind in signature if n != "item")
        inner = ", ".join(n for n, _ in signature)
        return (
            f"@ti.kernel\ndef run_{name}(count: ti.i32, _zero: ti.i32{outer}):\n    for item in range(count):\n"
            "        _pool = ti.Vector([0.0])\n"
            "        _nil, _one = ti.bit_cast(_zero, ti.f32), ti.bit_cast(_zero + 0x3F800000, ti.f32)\n"
            f"        {name}(_zero, _nil, _one, 0, _pool, {inner})\n"
        )

    def array(self, values: np.ndarray) -> Any:
        array = self.ti.ndarray(self.ti.f32 if values.dtype.kind == "f" else self.ti.i32, values.size)
        array.from_numpy(values.astype(np.float32 if values.dtype.kind == "f" else np.int32))
        return array

    def run(self, name: str, count: int, values: dict[str, Any]) -> None:
        getattr(self.module, f"run_{name}")(count, 0, *(values[n] for n, _ in self.signatures[name] if n != "item"))


def outcomes(program: Any, cases: dict[str, Case]) -> Iterator[tuple[str, np.ndarray]]:
    """What each case leaves in its arrays."""
    for name, case in cases.items():
        kernel, count, values = case
        held = {k: program.array(v.ravel()) if isinstance(v, np.ndarray) else v for k, v in values.items()}
        program.run(kernel.__name__, count, held)
        yield from ((f"{name}: {k}", held[k].to_numpy()) for k in arrays_of(case))


def kernels_on_gpu(
    device: Device, cases: dict[str, Case], linked: Callable[[list[Any]], Source], kind: str | None = None
) -> dict[str, np.ndarray]:
    roots = list({kernel.__name__: kernel for kernel, *_ in cases.values()}.values())
    return dict(outcomes(_taichi.TaichiProgram(device, linked(roots), exact=True, kind=kind), cases))


def compute_kernels(arch: str) -> dict[str, np.ndarray]:
    """All kernel cases on an arch; those of teams also as on a GPU whose teams meet in memory."""
    if arch == "x64":
        return dict(outcomes(PlainProgram(scalar_cases()), scalar_cases()))
    device = choose(arch)
    done = kernels_on_gpu(device, scalar_cases() | team_cases(), bare)
    in_memory = team_kind(device.arch, device.subgroup) == "block"  # as on devices in software
    shared = {} if in_memory else kernels_on_gpu(device, team_cases(), bare, kind="block")
    for model in ("opdt", "csa"):
        prepared, case = refit_case(model)
        done |= kernels_on_gpu(device, {f"refit {model}": case}, prepared.source)
    return done | {f"shared {name}": value for name, value in shared.items()}


def compute_fast(arch: str) -> dict[str, np.ndarray]:
    """Streamlines of an engine that need not be exact."""
    return engine_output(arch, exact=False)


def save(what: str, arch: str, path: str) -> None:
    """Compute and save, for :func:`computed`."""
    np.savez(path, **{"kernels": compute_kernels, "fast": compute_fast}[what](arch))


def computed(what: str, arch: str, folder: Path) -> dict[str, np.ndarray]:
    """What an arch computes, or a skip that says why it is not here."""
    if arch != "x64":
        try:
            choose(arch)
        except DeviceError as error:
            pytest.skip(str(error))
    in_own_process(__file__, "save", what, arch, folder / "results.npz")
    with np.load(folder / "results.npz") as stored:
        return dict(stored)


# ------------------------------------------------------------------------------------------------------ kernels
@pytest.fixture(scope="module", params=[*GPUS, *at_night("x64")])
def kernels(request, tmp_path_factory) -> tuple[str, dict[str, np.ndarray]]:
    return request.param, computed("kernels", request.param, tmp_path_factory.mktemp(request.param))


def assert_cpus_bits(
    case: Case, got: dict[str, np.ndarray], name: str, linked: Linkable = None, scratch: Any = None
) -> None:
    """Compare the bits of every array with what the CPU's dialect leaves in it; the order of a list is free."""
    kernel, count, values = case
    expected = run_on_cpu("numba32", kernel, count, values, linked, scratch)
    for array in arrays_of(case):
        mine, other = got[f"{name}: {array}"], expected[array]
        if array == "picked":
            mine, other = np.sort(mine), np.sort(other)
        assert mine.dtype == other.dtype
        if name != "scalars":  # lavapipe makes -0.25, cut to a whole number, -0
            mine, other = mine.view(np.int32), other.view(np.int32)
        parted = np.flatnonzero(mine != other)
        assert not len(parted), f"{name}: {array} parts at {parted[:10]}: {mine[parted[:5]]}, not {other[parted[:5]]}"


@pytest.mark.parametrize("name", scalar_cases())
def test_scalar_kernels_give_the_cpus_bits(kernels, name):
    assert_cpus_bits(scalar_cases()[name], kernels[1], name)


@pytest.mark.parametrize("shared", ["", "shared "])
@pytest.mark.parametrize("name", team_cases())
def test_team_kernels_give_the_cpus_bits(kernels, name, shared):
    arch, got = kernels
    if arch == "x64":
        pytest.skip("Taichi's x64 has no barrier of a block")
    got = {k.removeprefix(shared): v for k, v in got.items() if k.startswith(shared)}
    if not got:
        pytest.skip("teams of this device meet in memory in any case")
    assert_cpus_bits(team_cases()[name], got, name, CONSTANTS, SCRATCH)


@pytest.mark.parametrize("model", ["opdt", "csa"])
def test_redrawn_fits_give_the_cpus_bits(kernels, model):
    arch, got = kernels
    if arch == "x64":
        pytest.skip("Taichi's x64 has no barrier of a block")
    prepared, case = refit_case(model)
    assert_cpus_bits(case, got, f"refit {model}", prepared, prepared.scratch)
    assert np.ptp(got[f"refit {model}: out"].reshape(50, -1), axis=0).max() > 0


@pytest.mark.parametrize("known", range(len(KNOWN)))
def test_known_random_words(kernels, known):
    out = kernels[1][f"philox {known}: out"].astype(np.int64)
    assert (out[0::2] << 16 | out[1::2]).tolist() == words(KNOWN[known][2]).view(np.uint32).tolist()


# --------------------------------------------------------------------------------------------------------------- fast
@pytest.mark.nightly
@pytest.mark.parametrize("arch", GPUS)
def test_fast_tracks_much_the_same(arch, tmp_path):
    """At night: ``test_conformance.py`` compares the bits of exact runs, which nearly all runs are, by day."""
    fast, expected = computed("fast", arch, tmp_path), engine_output("cpu")
    points, lengths = fast["points"], fast["lengths"]
    assert abs(len(lengths) - len(expected["lengths"])) <= 0.1 * len(expected["lengths"])
    assert abs(lengths.mean() - expected["lengths"].mean()) < 0.2 * expected["lengths"].mean()
    assert np.isfinite(points).all()
    assert (points >= -0.5 * SIDES).all()
    assert (points <= (np.array(SHAPE) - 0.5) * SIDES).all()
