"""What several tests share: a small head to track, and the command line called in this process."""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from commands import Command, Outcome
from nights import leave_to_the_night
from slow import SLOW

from tistreamlines.cli.main import main
from tistreamlines.phantom.phantom import Phantom, make_phantom, save_phantom

# A worker comes to hold gigabytes of compiled kernels, which the collector would look through again and again.
gc.set_threshold(50_000, 20, 50)

# Files that take longest come first, so that the workers end together.  Kernels are compiled once for all tests: those
# that follow each other here, and so run at one time, compile others; verify's first, which most tests share.
FIRST = (
    "cli/verify", "backends/conformance", "tracking/selection/regions", "backends/taichi",
    "tracking/products/device_density", "attack/attack", "tracking/recovery/particles", "benchmarks/suite",
    "tracking/selection/many_regions", "repository/examples", "tracking/getters/asymmetric", "tracking/parity",
    "backends/metal", "tracking/getters/samples", "dipy/dipy", "tracking/stopping/own_grid", "benchmarks/files",
    "tracking/getters/ptt", "cuslines/tracker", "tracking/getters/boot", "tracking/tables/rows",
    "tracking/seeding/seeding", "options/idle", "workers/several", "dipy/more", "backends/lost", "backends/trial",
    "backends/compilers", "benchmarks/truth/quality", "run/cluster", "tracking/growth/sizes", "tracking/convergence",
    "linker/store", "tracking/selection/dropped", "run/samples", "cli/cli", "fit/frames", "tracking/getters/prob",
    "tracking/getters/ptt_lines", "backends/one_taichi", "tracking/getters/det", "tracking/stopping/anatomy",
    "backends/tried", "run/api_objects", "io/mif_runs", "run/estimate", "cli/signals", "plugins", "fit/response",
    "fit/dhollander", "run/fods", "fit/csd_weight", "run/fixels",
)


@cache
def place(path: Path) -> str:
    """Name a file of tests as FIRST does."""
    return path.relative_to(Path(__file__).parent).with_suffix("").as_posix().replace("test_", "")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark slow and nightly tests, before pytest chooses by marks, and bring the files of FIRST to the front."""
    for item in items:
        name = item.nodeid.partition("::")[2].partition("[")[0]
        if isinstance(item, pytest.Function):
            leave_to_the_night(item, place(item.path), name)
        if name in SLOW.get(place(item.path), ()) or item.get_closest_marker("nightly"):
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: FIRST.index(place(item.path)) if place(item.path) in FIRST else len(FIRST))


@dataclass(frozen=True)
class Head:
    """A small phantom on disk."""

    phantom: Phantom
    folder: Path

    @property
    def series(self) -> list[str]:
        """Paths of dwi, bvals, bvecs."""
        return [str(self.folder / name) for name in ("dwi.nii.gz", "dwi.bval", "dwi.bvec")]

    @property
    def mask(self) -> str:
        return str(self.folder / "mask.nii.gz")

    @property
    def cache(self) -> str:
        """A folder for --cache-dir, so that several runs fit once."""
        return str(self.folder / "cache")

    @property
    def options(self) -> dict[str, str]:
        """Options of a run in Python on the CPU: the series, the mask and the cache."""
        series = dict(zip(("dwi", "bvals", "bvecs"), self.series, strict=True))
        return series | {"mask": self.mask, "arch": "cpu", "cache_dir": self.cache}


@pytest.fixture(scope="session")
def head(tmp_path_factory: pytest.TempPathFactory) -> Head:
    """A head of 30 x 36 x 28 voxels of 5 mm, two b0s and 32 directions."""
    folder = tmp_path_factory.mktemp("head")
    phantom = make_phantom((30, 36, 28), voxel_mm=5.0, n_b0=2, n_dirs=32)
    save_phantom(phantom, folder)
    return Head(phantom, folder)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Command:
    """Call the command line in this process."""

    def call(*arguments: object) -> Outcome:
        with pytest.raises(SystemExit) as left:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Outcome(int(left.value.code or 0), captured.out, captured.err)

    return call


@pytest.fixture
def track(run: Command, head: Head) -> Command:
    """Track the head on the CPU: ``track(output, *options)``; several runs fit once."""

    def call(output: object, *options: object) -> Outcome:
        seeds = () if {"--nseeds", "--seeds"} & set(options) else ("--nseeds", 300)
        cache = () if "--cache-dir" in options else ("--cache-dir", head.cache)
        common = ("--mask", head.mask, "--arch", "cpu", "-o", output)
        return run("track", *head.series, *common, *seeds, *cache, *options)

    return call


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that every user may enter, and the folders above it too, as those of pytest are not."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder).resolve()
