"""What a benchmark runs, and the images that it makes or reads for that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..phantom.phantom import Phantom
from .cases import SWEEPS, Case, Method, Sweep
from .problem import save_problem
from .targets import Target


@dataclass(frozen=True)
class Schedule:
    """What to benchmark.

    Parameters
    ----------
    cases, methods, targets : all of the first two with those of the third that have them.
    nseeds, threads, repeat : of each run.
    time_limit : seconds a run may take; what takes longer is stopped.
    seconds : a run's repeats stop after so many.
    paths, mask : the user's own series, for the case that has neither phantom nor download.
    sweeps : made with every target that can vary it.
    """

    cases: Sequence[Case]
    methods: Sequence[Method]
    targets: Sequence[Target]
    nseeds: int
    threads: int | None = None
    repeat: int = 3
    time_limit: float = 600.0
    seconds: float = 20.0
    paths: tuple[str, ...] = ()
    mask: str | None = None
    sweeps: Sequence[Sweep] = ()


class Folders:
    """Problems of a case, by how many times its voxels along each axis; each is made when first asked for."""

    def __init__(self, root: Path, case: Case, schedule: Schedule) -> None:
        self.root, self.case, self.schedule = root, case, schedule
        self._made: dict[float, tuple[Path, Phantom | None]] = {}

    def at(self, factor: float) -> tuple[Path, Phantom | None]:
        """Folder, and the phantom if the case is one."""
        if factor not in self._made:
            folder = self.root / f"{factor:g}"
            folder.mkdir()
            followed = {method.order for method in self.schedule.methods if method.model == "csd"}
            if followed and factor == 1 and SWEEPS["order"] in self.schedule.sweeps:
                followed |= set(SWEEPS["order"].values)
            case = self.case if factor == 1 else self.case.scaled(factor)
            found = save_problem(case, folder, paths=self.schedule.paths, mask=self.schedule.mask, orders=followed)
            self._made[factor] = folder, found
        return self._made[factor]
