"""The schedule of a benchmark, and the folders with its data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..phantom.phantom import Phantom
from .cases import SWEEPS, Case, Sweep, TimedMethod
from .problem import save_problem
from .targets import Target


@dataclass(frozen=True)
class Schedule:
    """What a benchmark runs: every case with every method, for each target that supports the method.

    Parameters
    ----------
    cases, methods, targets : sequences of Case, Method and Target
    nseeds, threads, repeat : int
        Number of seeds, threads and timed repeats of each run.
    devices : str
        GPUs that share the seeds, for the archs whose devices have numbers.
    time_limit : float
        Seconds after which a run is stopped.
    seconds : float
        Seconds after which a run is not repeated again.
    paths, mask : tuple of str, and str
        Files of the user's series, for a case that is neither a phantom nor downloaded.
    sweeps : sequence of Sweep
        Sweeps for every target that supports them.
    whole : sequence of str
        Kinds of :data:`.cases.KINDS`: only whole commands are timed, from files to a tractogram.
    """

    cases: Sequence[Case]
    methods: Sequence[TimedMethod]
    targets: Sequence[Target]
    nseeds: int
    threads: int | None = None
    repeat: int = 3
    time_limit: float = 600.0
    seconds: float = 20.0
    paths: tuple[str, ...] = ()
    mask: str | None = None
    sweeps: Sequence[Sweep] = ()
    whole: Sequence[str] = ()
    devices: str | None = None


class Folders:
    """Folders with the data of a case at several resolutions; each is created when it is first needed."""

    def __init__(self, root: Path, case: Case, schedule: Schedule) -> None:
        self.root, self.case, self.schedule = root, case, schedule
        self._made: dict[float, tuple[Path, Phantom | None]] = {}

    def at(self, factor: float) -> tuple[Path, Phantom | None]:
        """Return the folder for ``factor`` times the voxels along each axis, and the phantom if the case is one."""
        if factor not in self._made:
            folder = self.root / f"{factor:g}"
            folder.mkdir()
            followed = {method.order for method in self.schedule.methods if method.needs_csd}
            if followed and factor == 1 and SWEEPS["order"] in self.schedule.sweeps:
                followed |= set(SWEEPS["order"].values)
            case = self.case if factor == 1 else self.case.scaled(factor)
            found = save_problem(case, folder, paths=self.schedule.paths, mask=self.schedule.mask, orders=followed)
            self._made[factor] = folder, found
        return self._made[factor]
