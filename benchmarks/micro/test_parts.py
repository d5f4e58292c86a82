"""Micro-benchmarks of the kernels' parts, to find what a commit has slowed; the tests leave them out.

    pip install ".[bench]"
    pytest benchmarks/micro -n 0 -k cpu --benchmark-autosave
    pytest benchmarks/micro -n 0 -k cpu --benchmark-compare --benchmark-compare-fail=median:20%

In place of cpu: vulkan or cuda.  What is compared is kept in ``.benchmarks``, by machine; only figures of one quiet
machine compare.  Each part runs for many teams, as in tracking.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from tistreamlines.backends import open_program
from tistreamlines.benchmarks.cases import CASES, METHODS
from tistreamlines.benchmarks.problem import Problem, save_problem
from tistreamlines.benchmarks.targets import TARGETS, tables_for
from tistreamlines.devices import ARCHS, choose
from tistreamlines.kernels.getters.boot import BootScratch
from tistreamlines.kernels.interpolate import ROW_CHUNKS, Volume, interpolate_row
from tistreamlines.kernels.streamlines import start
from tistreamlines.linker.lang import Ints, Reals, at, func, i32, lane, lanes, put, real, u32, vec3
from tistreamlines.linker.rng import philox
from tistreamlines.tracking.engine.engine import Engine
from tistreamlines.tracking.growth.chunk import exclusive_sum, z_order
from tistreamlines.tracking.growth.settings import Settings

SEEDS = 1000


@func
def draw(item: i32, out: Ints):
    """Philox words of a team."""
    total = lanes(u32(0))
    for n in range(64):
        total = total ^ philox(lanes(u32(item)), lanes(u32(n)), lanes(u32(0)), u32(lane()), u32(1), u32(2))[0]
    put(out, 32 * item, i32(total))


@func
def interpolate(item: i32, points: Reals, volume: Volume, scratch: BootScratch, out: Reals):
    """Rows along a line of sixteen places, a quarter of a voxel apart."""
    total = lanes(0.0)
    for n in range(16):
        p = vec3(points[3 * item] + 0.25 * real(n), points[3 * item + 1], points[3 * item + 2])
        interpolate_row(volume, p, scratch.row)
        for c in range(ROW_CHUNKS):
            total = total + at(scratch.row, 32 * c)
    put(out, 32 * item, total)


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """The small phantom's problem."""
    path = tmp_path_factory.mktemp("problem")
    save_problem(CASES["demo"], path)
    return path


@pytest.fixture(params=[arch for arch in reversed(ARCHS) if not TARGETS[arch].missing()])
def device(request):
    """Each device that is here; Taichi knows one at a time."""
    return choose(request.param)


@pytest.fixture
def parts(folder, device):
    """What runs a part on the device and waits for it."""
    problem = Problem(folder, METHODS["boot"], SEEDS)
    prepared = tables_for(problem)
    program = open_program(device, prepared.source([draw, interpolate, start]))
    values = prepared.scalars | {name: program.array(array) for name, array in prepared.arrays.items()}
    points = program.array(np.clip(problem.seeds, 0, np.array(problem.mask.shape) - 4).ravel())
    values |= {"points": points, "seeds_points": points, "seeds_counts": program.empty(SEEDS, "ints")}
    values |= {"out": program.empty(32 * SEEDS, "reals"), "words": program.empty(32 * SEEDS, "ints")}
    values["seeds_peaks"] = program.empty(SEEDS * prepared.getter.most_directions, "ints")

    def run(name: str, **changes: str) -> None:
        program.run(name, SEEDS, values | {key: values[value] for key, value in changes.items()})
        program.sync()

    run("start")
    run("draw", out="words")
    run("interpolate")
    return run


def test_philox(benchmark, parts):
    benchmark(parts, "draw", out="words")


def test_interpolation(benchmark, parts):
    benchmark(parts, "interpolate")


def test_initial_directions_of_boot(benchmark, parts):
    benchmark(parts, "start")


@pytest.fixture(params=METHODS)
def engine(request, folder, device):
    """An engine of each method, its seeds, and the packed chunks of a run."""
    problem = Problem(folder, METHODS[request.param], SEEDS)
    settings = Settings(problem.step_mm, max_steps=problem.method.max_steps)
    opened, chunks = Engine(tables_for(problem), problem.space, device, settings), []
    lay_out = opened.points.unpacker.batch

    def noted(grown, rules):
        chunks.append(grown)
        return lay_out(grown, rules)

    opened.points.unpacker.batch = noted
    assert sum(map(len, opened.track(problem.seeds))) > SEEDS / 2
    opened.points.unpacker.batch = lay_out
    content = {"seeds": problem.seeds, "chunks": list(chunks), "rules": opened.growth.rules}
    return SimpleNamespace(track=opened.track, lay_out=lay_out, **content)


def test_tracking(benchmark, engine):
    benchmark(lambda: sum(len(batch.points) for batch in engine.track(engine.seeds)))


def test_laying_out_points(benchmark, engine):
    benchmark(lambda: [engine.lay_out(grown, engine.rules) for grown in engine.chunks])


def test_exclusive_sum(benchmark):
    counts = np.random.default_rng(0).integers(0, 4, 1_000_000).astype(np.int32)
    benchmark(exclusive_sum, counts)


def test_order_of_neighbours(benchmark):
    points = np.random.default_rng(0).uniform(0, 100, (100_000, 3)).astype(np.float32)
    benchmark(z_order, points)
