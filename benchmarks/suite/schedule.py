"""What the suite runs: more than the benchmark of the package, and the folders with its data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tistreamlines.benchmarks.cases import Case
from tistreamlines.benchmarks.problem import save_problem
from tistreamlines.benchmarks.suite import Schedule
from tistreamlines.errors import InputError
from tistreamlines.phantom.phantom import Phantom

# what the caches hold when a whole command starts
KINDS = {
    "cold": "no compiled kernels in the caches",
    "warm": "compiled kernels in the caches",
    "cached": "compiled kernels, fits and tables in the caches (--cache-dir)",
}
STANFORD = "stanford"


@dataclass(frozen=True)
class Sweep:
    """A setting that is varied while all others stay the same; each value is a run.

    Parameters
    ----------
    name, unit : str
        Name on the command line, and unit of the reported values.
    values : tuple
        Values in increasing order.
    """

    name: str
    unit: str
    values: tuple[Any, ...]


SWEEPS = {
    sweep.name: sweep
    for sweep in (
        Sweep("seeds", "seeds", (1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000)),
        Sweep("chunk", "seeds in a chunk", (64, 256, 1024, 4096, 16_384, 65_536)),
        Sweep("threads", "threads", (1, 2, 4, 8, 16, 32, 64)),
        Sweep("sphere", "vertices", ("small", "default", "full")),
        Sweep("order", "order of harmonics", (2, 4, 6, 8)),
        Sweep("voxels", "voxels of the image", (0.5, 0.7, 1.0, 1.4)),  # factors along each axis, for phantoms
    )
}


@dataclass(frozen=True)
class FullSchedule(Schedule):
    """What the suite runs.

    Parameters
    ----------
    sweeps : sequence of Sweep
        Sweeps for every target that supports them.
    whole : sequence of str
        Kinds of :data:`KINDS`: only whole commands are timed, from files to a tractogram.
    """

    worker: str = "suite.worker"
    sweeps: Sequence[Sweep] = ()
    whole: Sequence[str] = ()


class Folders:
    """Folders with the data of a case at several resolutions; each is created when it is first needed."""

    def __init__(self, root: Path, case: Case, schedule: FullSchedule) -> None:
        self.root, self.case, self.schedule = root, case, schedule
        self._made: dict[float, tuple[Path, Phantom | None]] = {}

    def at(self, factor: float) -> tuple[Path, Phantom | None]:
        """Return the folder for ``factor`` times the voxels along each axis, and the phantom if the case is one."""
        if factor not in self._made:
            folder, orders = self.root / f"{factor:g}", self.schedule.orders
            folder.mkdir()
            if orders and factor == 1 and SWEEPS["order"] in self.schedule.sweeps:
                orders |= set(SWEEPS["order"].values)
            case = self.case if factor == 1 else scaled(self.case, factor)
            self._made[factor] = folder, save_problem(case, folder, orders)
        return self._made[factor]


def scaled(case: Case, factor: float) -> Case:
    """Return the same phantom with ``factor`` times the voxels along each axis."""
    phantom = case.phantom or {}
    shape = tuple(round(factor * side) for side in phantom["shape"])
    return replace(case, phantom=phantom | {"shape": shape, "voxel_mm": phantom["voxel_mm"] / factor})


def stanford() -> Case:
    """Return the case of DIPY's Stanford HARDI, and download it if necessary.

    Raises
    ------
    InputError
        If the download fails.
    """
    from dipy.data import get_fnames
    from dipy.data.fetcher import FetcherError

    try:
        paths = tuple(map(str, get_fnames(name="stanford_hardi")))
    except (FetcherError, OSError) as error:
        raise InputError(f"stanford: DIPY cannot download it ({error}): try again, or name other cases") from error
    return Case(STANFORD, "DIPY's Stanford HARDI, 81 x 106 x 76 voxels of 2 mm, 150 directions", paths=paths)
