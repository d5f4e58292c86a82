"""Devices give the CPU's bits: every getter, rule, recovery, kind of region and product of the registry, once.

Each device has one process, which makes all runs with few seeds in a small image (``small_world.py``): lavapipe,
SwiftShader (by day BY_DAY alone), and each GPU that is here. Points, seeds, ends, stop reasons, counts and all files
but the record are those of the CPU to the last bit. So they are on the CPU in other chunks and with other threads. If
the registry has a getter, a rule, or a product of devices that no run has, ``test_runs_cover_the_registry`` fails. The
tests of a feature can thus keep to the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from commands import in_own_process
from nights import at_night
from places import LAVAPIPE, SWIFTSHADER
from registry_runs import TOYS, Options, track_options
from small_world import write_world

import tistreamlines as ts
from tistreamlines.devices import ARCHS, choose, host
from tistreamlines.devices.compilers import COMPILERS, VARIABLE
from tistreamlines.errors import DeviceError
from tistreamlines.tracking.parts import Recovery
from tistreamlines.tracking.registry import METHODS, PRODUCTS, STOPPING_RULES

Arrays = dict[str, np.ndarray]
LIMITS: Options = {"nseeds": 8, "max_steps": 40, "min_length": 0}
OTHERWISE: Options = {"threads": 1, "chunk_size": 3}
FORKS = [name for name in COMPILERS if name != "taichi"]
BY_DAY = ("fact",)
AT_NIGHT = (  # runs whose parts others have, too
    "boot like DIPY", "det", "det to the closest, ordered regions", "ptt, particles in act, regions",
    "ptt of the paper", "ptt, products", "sd_stream, products", "sd_stream, truncated, dynamic seeds",
    "a getter and a rule of others",
)


@dataclass(frozen=True)
class Setup:
    """A device: its arch, or its driver in software and words of its name; its variables; and which runs it has."""

    arch: str = "vulkan"
    driver: Path | None = None
    words: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    runs: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    marks: tuple[pytest.MarkDecorator, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its runs."""
        return self.runs or tuple(name for name in NAMES if name not in self.without)

    @property
    def compiler(self) -> str:
        """The name of the compiler."""
        return self.variables.get(VARIABLE, "taichi")


def of_bits(bits: int, *names: str) -> Setup:
    """Lavapipe with vectors, and so subgroups, of another size."""
    return Setup("vulkan", LAVAPIPE, f"{bits} bits", {"LP_NATIVE_VECTOR_WIDTH": str(bits)}, names)


DEVICES = {
    "lavapipe": Setup(driver=LAVAPIPE, words="llvmpipe", without=AT_NIGHT),
    "lavapipe, rest": Setup(driver=LAVAPIPE, words="llvmpipe", runs=AT_NIGHT, marks=(pytest.mark.nightly,)),
    # compiles longest: by day the getter of the smallest kernel
    "SwiftShader": Setup("vulkan", SWIFTSHADER, "SwiftShader", runs=BY_DAY),
    "SwiftShader, all": Setup("vulkan", SWIFTSHADER, "SwiftShader", marks=(pytest.mark.nightly,)),
    "lavapipe of 128 bits": of_bits(128, "det"), "lavapipe of 512 bits": of_bits(512, "prob of samples, regions"),
    # a fork compiles for minutes; test_compilers.py has a run of each by day
    **{fork: Setup("vulkan", LAVAPIPE, "llvmpipe", {VARIABLE: fork}, marks=(pytest.mark.nightly,)) for fork in FORKS},
    **{arch: Setup(arch) for arch in ARCHS if arch != "cpu"},
}


def tracked(arch: str, options: Options) -> Arrays:
    """Track; return what the streamlines are."""
    result = ts.track(arch=arch, **LIMITS | options)
    assert result.points > 40
    counts = {"counts": np.array([f"{reason} {count}" for reason, count in result.stop_reasons.items()])}
    if "density" in options:
        return counts
    batch = ts.Batch.concatenate(result.batches)
    names = ("points", "offsets", "seeds", "seed_number", "direction_number", "stop_reasons")
    return counts | {name: np.asarray(getattr(batch, name)) for name in names}


def mapped(arch: str, world: Path, out: Path) -> Arrays:
    """Make maps, a matrix and weights of a tractogram that is there."""
    fod, labels, act = (world / f"{name}.nii.gz" for name in ("few_fods", "labels", "act"))
    ts.map_tractogram(
        world / "lines.tck", arch=arch, density=out / "density.nii", ends=out / "ends.nii", density_grid=labels,
        connectome=(labels, out / "nodes.csv"), connectome_measure="mean-length", sift2=(fod, out / "weights.txt"),
        sift2_basis="tournier07", sift2_act=act,
    )
    return {}


def runs(arch: str, world: Path, out: Path, **others: Any) -> dict[str, Callable[[], Arrays]]:
    """Return what makes each run on an arch, by its name."""
    rows = {name: lambda row=row: tracked(arch, row | others) for name, row in track_options(world, out).items()}
    return rows | ({} if others else {"map": lambda: mapped(arch, world, out)})


def results_of(run: Callable[[], Arrays], out: Path) -> Arrays:
    """Make a run; return its streamlines, and its files but the record as bytes."""
    with mock.patch.dict(METHODS, TOYS[0]), mock.patch.dict(STOPPING_RULES, TOYS[1]):
        arrays = run()
    for path in out.iterdir():
        if path.suffix != ".json":
            arrays[path.name] = np.frombuffer(path.read_bytes(), np.uint8)
        path.unlink()
    return arrays


def save(arch: str, world: str, out: str, file: str, *names: str) -> None:
    """Make runs on an arch and save what they give, with the name of the device; in a process of its own."""
    rows = runs(arch, Path(world), Path(out))
    results = {name: results_of(rows[name], Path(out)) for name in names}
    arrays = {f"{name}: {kind}": values for name, row in results.items() for kind, values in row.items()}
    np.savez(file, device=choose(arch).name, **arrays)


# --------------------------------------------------------------------------------------------------------------- tests
@pytest.fixture(scope="module")
def world(tmp_path_factory) -> Path:
    return write_world(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def cpu(world, tmp_path_factory) -> Callable[[str], Arrays]:
    """Return what a run gives on the CPU, by its name; it is made once."""
    out = tmp_path_factory.mktemp("cpu")
    rows = runs("cpu", world, out)
    return cache(lambda name: results_of(rows[name], out))


def skip_without(setup: Setup) -> None:
    """Skip the tests of a device or a compiler that is not here."""
    if not COMPILERS[setup.compiler].installed:
        pytest.skip(f"{setup.compiler} is not installed")
    if setup.words:
        if setup.driver is None or not setup.driver.exists() or host.load("libvulkan.so.1") is None:
            pytest.skip("no such driver (Debian: mesa-vulkan-drivers, chromium-common, libvulkan1)")
        return
    try:
        if choose(setup.arch).software:
            pytest.skip("devices in software are tried by their drivers")
    except DeviceError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def runs_of(world, tmp_path_factory) -> Callable[[str], dict[str, Arrays]]:
    """Return what each run gives on a device, by the name of the device; it makes its runs once."""

    @cache
    def results(device: str) -> dict[str, Arrays]:
        setup, folder = DEVICES[device], tmp_path_factory.mktemp("device")
        (folder / "out").mkdir()
        with pytest.MonkeyPatch.context() as patch:
            if setup.driver is not None:
                for variable in ("VK_DRIVER_FILES", "VK_ICD_FILENAMES"):  # the second is for older loaders
                    patch.setenv(variable, str(setup.driver))
            for variable, value in setup.variables.items():
                patch.setenv(variable, value)
            paths = world, folder / "out", folder / "results.npz"
            in_own_process(__file__, "save", setup.arch, *paths, *setup.names)
        with np.load(folder / "results.npz") as stored:
            arrays = dict(stored)
        assert setup.words in str(arrays.pop("device"))
        rows: dict[str, Arrays] = {}
        for key, values in arrays.items():
            run, _, kind = key.partition(": ")
            rows.setdefault(run, {})[kind] = values
        return rows

    return results


ROWS = tuple(track_options(Path(), Path()))
NAMES = tuple(runs("cpu", Path(), Path()))


def differing(arrays: Arrays, expected: Arrays) -> list[str]:
    """Name the arrays that are not the same to the last bit."""
    assert arrays.keys() == expected.keys()
    return [name for name, values in expected.items() if arrays[name].tobytes() != values.tobytes()]


@pytest.mark.parametrize(
    ("device", "name"),
    [pytest.param(key, name, marks=setup.marks) for key, setup in DEVICES.items() for name in setup.names],
)
def test_devices_give_the_cpus_bits(device, name, runs_of, cpu):
    skip_without(DEVICES[device])
    assert differing(runs_of(device)[name], cpu(name)) == []


@pytest.mark.parametrize("name", [*(name for name in ROWS if name not in AT_NIGHT), *at_night(*AT_NIGHT)])
def test_chunks_and_threads_change_nothing(name, world, cpu, tmp_path):
    otherwise = runs("cpu", world, tmp_path, **OTHERWISE)[name]
    assert differing(results_of(otherwise, tmp_path), cpu(name)) == []


def test_runs_cover_the_registry():
    rows = track_options(Path(), Path()).values()
    assert {row["dg"] for row in rows} == {*METHODS, *TOYS[0]}
    assert {row["stopping"] for row in rows} == {*STOPPING_RULES, *TOYS[1]}
    on_devices = {name for name, product in PRODUCTS.items() if product.collector is not None}
    assert on_devices | {"pft", "backtrack"} <= {name for row in rows for name in row}
    assert {recovery.__name__ for recovery in Recovery.__subclasses__()} == {"ParticleFiltering", "Backtracking"}
