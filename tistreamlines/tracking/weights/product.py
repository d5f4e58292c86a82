"""Weights of the streamlines of a run, as a product."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...devices import Device, choose
from ...io import sidecar
from ...io.drafts import completed
from ...io.tables import write_numbers
from ...space.batch import Batch, Space
from ..growth.settings import bytes_of
from ..products.batch_work import thread_count
from ..products.files import WeightProduct
from ..seeding.seeds import Seeds
from .dynamic_seeds import DynamicSeeds
from .fixels import FixelRules, Fixels, fixels_of
from .fods import Fods, option_fods
from .gathering import VisitGathering
from .options import files, tissues_of
from .sift2 import Iteration, NoVisit, Watch, Weights, sift2
from .visit_list import VisitList
from .visit_memory import WHILE_THEY_COME, VisitMemory
from .visits import ON_GPU, Visitor

POINT, FEWEST = 12, 2**18  # bytes of a point; points that are gathered whatever the limit of memory
FEW = 0.9  # share of streamlines that visit a fixel, below which a user is warned
COLUMNS = (
    "Iteration", "Cost_data", "Cost_reg_tik", "Cost_reg_tv", "Cost_reg", "Cost_total", "Streamlines", "Fixels_excluded",
    "Step_min", "Step_mean", "Step_mean_abs", "Step_var", "Step_max", "Coeff_min", "Coeff_mean", "Coeff_mean_abs",
    "Coeff_var", "Coeff_max", "Coeff_norm",
)


class Sift2Weights(WeightProduct):
    """Finds the visits of streamlines, and weighs these when all have come.

    Parameters
    ----------
    options : Parameters
        Those of :class:`.options.Sift2Options`; also ``arch``, where the work is done, ``memory_limit``, and of a run
        ``act`` and ``parts``.
    space : Space
        Grid of the image that is tracked; that of one voxel if it is not known.
    step_mm : float
        Distance of points, mm.
    threads : int, optional
        CPU threads; by default all cores.
    """

    follows = True
    inner_points = False
    _fixels: Fixels  # these three once it is known what is followed
    _memory: VisitMemory
    _visits: VisitGathering | None = None

    def __init__(self, options: Any, space: Space, step_mm: float, threads: int | None = None) -> None:
        super().__init__(*files(options))
        self._options, self._threads, self._space, self._step_mm = options, threads, space, step_mm
        self._located = max(space.shape) > 1
        self._device: Device = choose(options.arch)
        ((self._fod, _),) = options.sift2
        self.watch: Watch = lambda *_: None
        self._parts: list[VisitList] = []
        self._count = 0
        self._seeds: DynamicSeeds | None = None  # which find the visits
        self.value: Weights | None = None

    def follow(
        self, followed: object, progress: Callable[[float], object] = lambda _: None, seeds: Seeds | None = None
    ) -> None:
        """Find the fixels, before the first streamlines come; ``followed`` are :class:`.followed.Fods`, or None.

        Dynamic seeds may find the visits to the same fixels.
        """
        assert followed is None or isinstance(followed, Fods)
        options, notes = self._options, list[str]()
        fods = option_fods(self._fod, options.sift2_basis, followed, "--sift2", notes.append)
        rules = FixelRules(
            tissues_of(options), options.sift2_proc_mask, options.sift2_fd_scale_gm, not options.sift2_no_dilate_lut,
            options.sift2_make_null_lobes,
        )
        self._fixels = fixels_of(fods, self._device, self._threads, notes.append, rules, progress)
        if self._located:  # before it is tracked for hours
            self._fixels.check_overlap(self._space, str(self._fod))
        table, limit = self._fixels.table, bytes_of(options.memory_limit)
        self._memory = VisitMemory(table.count, self._device, self._threads, limit=limit, beside=self.paths[0])
        together = ON_GPU
        if limit is not None:  # each thread has points, and as many wait
            together = max(limit // (WHILE_THEY_COME * POINT * 2 * thread_count(self._threads)), FEWEST)
        self.doubts += tuple(notes)
        visitor = None
        if isinstance(seeds, DynamicSeeds):
            visitor = seeds.give_visits(self._fixels, self._keep_part)
            self._seeds = None if visitor is None else seeds
        if visitor is None:
            visitor = Visitor(table, self._step_mm, self._device, self._threads, options.parts)
            self._visits = VisitGathering(visitor, self._threads, self._memory.keep)
            self._parts = self._visits.parts
        self._fixels = replace(self._fixels, table=table.without_lobes())
        visitor.together = min(visitor.together, together)
        if limit is None and not self._device.on_host:
            visitor.leave_on_device()

    def add(self, batch: Batch) -> None:
        """Find the visits of streamlines in another thread, once there are enough; wait if many wait for that."""
        self._count += len(batch)
        if self._visits is not None:
            self._visits.add(batch)

    def _keep_part(self, part: VisitList) -> None:
        """Take the visits of some streamlines."""
        self._parts.append(self._memory.keep(part))

    @cached_property
    def _known_weights(self) -> Weights:
        """Weights of the streamlines that have come."""
        if self._seeds is not None:
            self._seeds.finish()
        elif self._visits is not None:
            self._visits.finish()
        weighed = self._fixels, self._parts, self._count, self._device, self._options
        try:
            with closing(self._memory):
                return sift2(*weighed, watch=self.watch, memory=self._memory)
        except NoVisit:
            if not self._located:
                raise
            # FODs and streamlines overlap, so these are few: they are kept, and the user is warned
            return Weights(np.zeros(self._count, np.float32), math.nan, ())

    def weights(self) -> npt.NDArray[np.float64]:
        """Weigh the streamlines; see :class:`..products.files.WeightProduct`."""
        return self._known_weights.weights

    def write(self, *, force: bool) -> None:
        """Weigh the streamlines, and write the files."""
        result = self.value = self._known_weights
        options, (path, *_) = self._options, self.paths
        write_numbers(path, result.weights, force=force, threads=self._threads)
        if options.sift2_coeffs is not None:
            write_numbers(Path(options.sift2_coeffs), result.coefficients, force=force, threads=self._threads)
        if options.sift2_mu is not None:
            write_numbers(Path(options.sift2_mu), [result.mu], force=force)
        if options.sift2_csv is not None:
            _write_table(Path(options.sift2_csv), result.iterations, self._count, force=force)
        iterations = result.iterations
        self.details = {
            "files": [sidecar.file_record(path) for path in self.paths],
            "fod": str(self._fod), "fixels": self._fixels.table.count, "streamlines": self._count,
            "mu": None if np.isnan(result.mu) else result.mu, "iterations": max(len(iterations) - 1, 0),
        }
        known = 0 if np.isnan(result.mu) else self._count
        if iterations:
            first, last = iterations[0], iterations[-1]
            known = first.streamlines
            self.details |= {
                "first_cost": first.data, "data_cost": last.data, "regularisation_cost": last.regularisation,
                "streamlines_above_0": last.streamlines, "explained": [first.explained, last.explained],
                "excess": [first.excess, last.excess],
            }
        if known < FEW * self._count:
            self.doubts += (
                f"{self._fod}: {self._count - known:,} of {self._count:,} streamlines visit no fixel that counts, and "
                "have the weight 1: check that FODs and streamlines lie in one space",
            )


def _write_table(path: Path, iterations: tuple[Iteration, ...], count: int, *, force: bool) -> None:
    """Write a line for each iteration, with the columns of tcksift2."""
    rows = [
        (row.number, row.data, row.tikhonov, row.variation, row.regularisation, row.total, row.streamlines,
         row.excluded, *vars(row.step).values(), *vars(row.coefficients).values(),
         row.coefficients.square * (count - 1))
        for row in iterations
    ]
    with completed(path, force=force) as draft, draft.open("w", encoding="ascii", newline="\n") as file:
        np.savetxt(file, rows, "%.10g", ",", header=",".join(COLUMNS), comments="")
