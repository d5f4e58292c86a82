"""The tracking of a run: its seeds become batches of streamlines, which are counted."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..devices import Device
from ..errors import DeviceError
from ..option import part_of
from ..options.parameters import Parameters
from ..space.batch import Batch
from ..tracking.engine.engine import Engine
from ..tracking.growth.statistics import Statistics
from ..tracking.products.content import Content
from .counts import Counts
from .inputs import Series
from .log import Log
from .plan import Plan
from .products import Products
from .record import dropped, stop_reasons
from .result import PICTURED

if TYPE_CHECKING:
    from ..report.gathered import Gathered
    from ..workers.several import Several

SEEDS_AT_ONCE = 1 << 20  # bounds the memory of the seeds


@dataclass
class Tracking:
    """The tracking of a run: batches of its seeds, and their counts.

    Parameters
    ----------
    series : ``dwi``, ``bvals`` and ``bvecs``, or nothing.
    parameters : all options.
    devices : where streamlines are computed.
    log : stages, notes and warnings.
    plan : tables and seeds.
    engine : grows the streamlines.
    products : what is made of the streamlines besides a tractogram.
    content : what the tractogram holds of them.
    counts, sample : of the streamlines so far; the sample is drawn in notebooks.
    kept : counts of an earlier run that goes on.
    gathered : what a report shows of the streamlines, if one is asked for.
    kernel_seconds : for how long a GPU has computed.
    """

    series: Series
    parameters: Parameters
    devices: list[Device]
    log: Log
    plan: Plan
    engine: Engine | Several
    products: Products
    content: Content
    counts: Counts = field(default_factory=Counts)
    sample: list[Batch] = field(default_factory=list)
    kept: Statistics = field(default_factory=Statistics)
    gathered: Gathered | None = None
    kernel_seconds: float = 0.0

    def __post_init__(self) -> None:
        self.force = self.parameters.force  # whether existing files are replaced

    def batches(self) -> Generator[Batch, None, None]:
        """Track all seeds, and count the streamlines."""
        yield from self.tracked(self.seed_range)
        self._progress()
        self.warn()

    def tracked(self, seeds: range) -> Generator[Batch, None, None]:
        """Track some of the seeds, and count the streamlines; end where enough are selected."""
        statistics = self.engine.statistics
        self.log.begin("track")
        enough = self._late()
        for block in self._blocks(seeds):
            if self.left == 0 or enough():
                break
            track = self.engine.track(*block, most=self.left, enough=enough)
            with threads_explained(self.parameters), closing(track) as grown:  # type: ignore[type-var]
                for batch in grown:
                    self.count(batch)
                    self._progress()
                    yield batch
            self.kernel_seconds += statistics.seconds["kernels"]

    def _blocks(self, seeds: range) -> Generator[tuple[Any, int, Any], None, None]:
        """Compute seeds and directions, with the number of the first; several devices take all of them in slices."""
        source, first = self.plan.seeds, seeds.start
        if len(self.devices) > 1 and source.round_from(0) is None:
            from ..workers.sliced import Sliced

            directions = Sliced(source.directions, first, len(seeds)) if source.directed else None
            yield Sliced(source.points, first, len(seeds)), first, directions
            return
        while first < seeds.stop:
            count = min(source.round_from(first) or SEEDS_AT_ONCE, seeds.stop - first)
            yield np.asarray(source.points(first, count)), first, source.directions(first, count)
            first += count

    @property
    def left(self) -> int | None:
        """Number of streamlines to select that are still missing; None without a selection."""
        select = self.parameters.select
        return None if select is None else select - self.kept.streamlines - self.counts.streamlines

    @property
    def done(self) -> tuple[int, int]:
        """Seeds and streamlines that are there, those of an earlier run that goes on included."""
        return self.kept.seeds + self.engine.statistics.seeds, self.kept.streamlines + self.counts.streamlines

    def _late(self) -> Callable[[], bool]:
        """Return a function that tells whether the time limit has passed."""
        limit, begun = self.parameters.time_limit, time.perf_counter()
        return lambda: limit is not None and time.perf_counter() - begun >= limit

    def _progress(self) -> None:
        """Tell how many of the seeds, or of the selected streamlines, are there."""
        (seeds, count), select = self.done, self.parameters.select
        self.log.watcher.progress(*((seeds, len(self.seed_range)) if select is None else (count, select)), count)

    def warn(self) -> None:
        """Say why there are fewer seeds or streamlines than the user asked for, and what nearly all ends hint at."""
        (seeds, count), all_seeds = self.done, len(self.seed_range)
        select, limit = self.parameters.select, self.parameters.time_limit
        from . import ends

        if limit is not None and seeds < all_seeds and count != select:
            self.log.warn(
                f"--time-limit {limit:g}: {seeds:,} of {all_seeds:,} seeds were tracked; how many depends on the device"
            )
        if not count and seeds:
            part = "" if self.parameters.part is None else f"--part {self.parameters.part}: "
            self.log.warn(part + ends.nothing(seeds, self.dropped, stop_reasons(self.stop_reasons)))
        elif select is not None and count < select:
            self.log.warn(
                f"--select {select}: {count:,} streamlines were accepted from all {seeds:,} seeds: give more seeds "
                "(--max-seeds), seeds nearer to the regions, larger regions or a wider --max-angle"
            )
        if doubt := ends.doubt(self.stop_reasons, self.parameters, self.step_mm):
            self.log.warn(doubt)

    @property
    def stop_reasons(self) -> npt.NDArray[np.int64]:
        """Halves that ended for each reason, those of an earlier run that goes on included."""
        return self.engine.statistics.stop_reasons + self.kept.stop_reasons

    @property
    def dropped(self) -> dict[str, int]:
        """Streamlines that were dropped for each reason, those of an earlier run that goes on included."""
        return dropped(self.engine.statistics.verdicts + self.kept.verdicts)

    def count(self, batch: Batch) -> None:
        """Count the streamlines of a batch, and sample those of every so many seeds."""
        select, before = self.parameters.select, self.counts.streamlines
        self.counts.add(batch)
        self.products.add(batch)
        if not batch.has_points:
            return
        self.plan.seeds.heed(batch)
        if self.gathered is not None:
            self.gathered.add(batch)
        every = -(-(len(self.seed_range) if select is None else select) // PICTURED)
        numbers = batch.seed_number if select is None else before + np.arange(len(batch))
        self.sample.append(batch[np.flatnonzero(numbers % every == 0)])

    @property
    def seed_range(self) -> range:
        """Numbers of the seeds: all of them, at most as many as are allowed, or those of a part."""
        count = min(self.plan.seeds.count, self.parameters.max_seeds or self.plan.seeds.count)
        number, parts = part_of(self.parameters.part or "1/1")
        return range(count * (number - 1) // parts, count * number // parts)

    @property
    def step_mm(self) -> float:
        """Step size in mm."""
        return self.parameters.step_mm(self.plan.space.voxel_sizes)


@contextmanager
def threads_explained(parameters: Parameters) -> Generator[None, None, None]:
    """Raise a DeviceError that names the option where the system starts no more threads."""
    try:
        yield
    except RuntimeError as error:
        if "start new thread" not in str(error):
            raise
        asked = "one for each core" if parameters.threads is None else f"--threads {parameters.threads}"
        raise DeviceError(f"the system does not start so many threads, {asked}: give fewer with --threads") from error
