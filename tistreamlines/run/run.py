"""A run: its seeds become batches of streamlines, which are counted, kept, mapped or written, and recorded."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..aliases import Json
from ..backends import compiler_told
from ..devices import Device, name_of
from ..errors import DeviceError, python_names
from ..io.drafts import all_or_none
from ..io.numbers import SUFFIX as NUMBERS
from ..option import flag, part_of
from ..options.parameters import Parameters
from ..space.batch import Batch
from ..tracking.engine.engine import Engine
from ..tracking.engine.kernels import KernelParts
from ..tracking.registry import METHODS
from . import bids, ends
from .log import Log
from .plan import Plan
from .products import record_path
from .record import inputs_of, record
from .result import PICTURED, TrackResult
from .saving import Receiver
from .series import Series

if TYPE_CHECKING:
    from ..workers.several import Several

SEEDS_AT_ONCE = 1 << 20  # bounds the memory of the seeds
NUMBER_OF_SEEDS = ("seeds", "seed_grid", "seeds_per_voxel", "seeds_per_vertex")  # options that decide on it


@dataclass
class Run:
    """A run that is ready to track: batches of its seeds, their counts, and what becomes of the streamlines.

    Parameters
    ----------
    series : ``dwi``, ``bvals`` and ``bvecs``, or nothing.
    parameters : all options.
    devices : where streamlines are computed.
    log : stages, notes and warnings.
    plan : tables and seeds.
    engine : grows the streamlines.
    receiver : what becomes of the streamlines.
    kernels : what the kernels of the engine are made of.
    sample : an even sample of the streamlines so far, which notebooks draw.
    """

    series: Series
    parameters: Parameters
    devices: list[Device]
    log: Log
    plan: Plan
    engine: Engine | Several
    receiver: Receiver
    kernels: KernelParts
    sample: list[Batch] = field(default_factory=list)

    def batches(self) -> Generator[Batch, None, None]:
        """Track all seeds, and count the streamlines."""
        with threads_explained(self.parameters), closing(self.tracked(self.seed_range)) as tracked:
            yield from self.count(tracked)
        self._progress()
        self.warn()

    def tracked(self, seeds: range) -> Generator[Batch, None, None]:
        """Track some of the seeds; end where enough streamlines are selected."""
        self.log.begin("track")
        limit, begun = self.parameters.time_limit, time.perf_counter()

        def enough() -> bool:
            return limit is not None and time.perf_counter() - begun >= limit

        source, more = self.plan.seeds, len(seeds) > SEEDS_AT_ONCE or self.plan.seeds.round_from(0) is not None
        if isinstance(self.engine, Engine):  # other processes have engines of their own
            source.code_with(self.engine.codes)
        track = self.engine.track_all(self._blocks(seeds), most=self.left, enough=enough, more=more)
        with closing(track) as grown:  # type: ignore[type-var]
            for batch in grown:
                source.heed(batch, self.engine.seeds_done)
                self._progress()
                yield batch

    def _blocks(self, seeds: range) -> Generator[tuple[Any, int, Any] | None, None, None]:
        """Compute seeds and directions, with the number of the first; several devices take all of them in slices.

        None stands for seeds that depend on streamlines to come, or that are still being drawn.
        """
        source, first = self.plan.seeds, seeds.start
        if len(self.devices) > 1 and source.round_from(0) is None:
            from ..workers.several import Sliced

            yield Sliced(source.points, first, len(seeds)), first, Sliced(source.directions, first, len(seeds))
            return
        while first < seeds.stop:
            while not source.advance(first, tracked := self.engine.seeds_done):
                if tracked >= first:
                    raise RuntimeError(f"all seeds before number {first} were tracked, but no others are drawn")
                yield None
            if isinstance(self.engine, Engine) and self.engine.at_work and not source.is_drawn(first):
                yield None  # so that the device gets its other work
            count = min(source.round_from(first) or SEEDS_AT_ONCE, seeds.stop - first)
            yield np.asarray(source.points(first, count)), first, source.directions(first, count)
            first += count

    @property
    def left(self) -> int | None:
        """Number of streamlines to select that are still missing; None without a selection."""
        select = self.parameters.select
        return None if select is None else select - self.engine.statistics.streamlines

    @property
    def done(self) -> tuple[int, int]:
        """Seeds and streamlines that are there, those of an earlier run that goes on included."""
        return self.engine.statistics.seeds, self.engine.statistics.streamlines

    def _progress(self) -> None:
        """Tell how many of the seeds, or of the selected streamlines, are there."""
        (seeds, count), select = self.done, self.parameters.select
        self.log.watcher.progress(*((seeds, len(self.seed_range)) if select is None else (count, select)), count)

    def warn(self) -> None:
        """Say why there are fewer seeds or streamlines than the user wants, and the hint of nearly all ends."""
        (seeds, count), all_seeds = self.done, len(self.seed_range)
        select, limit, summary = self.parameters.select, self.parameters.time_limit, self.receiver.summary()
        if limit is not None and seeds < all_seeds and count != select:
            self.log.warn(
                f"--time-limit {limit:g}: {seeds:,} of {all_seeds:,} seeds were tracked; how many depends on the device"
            )
        if not count and seeds:
            part = "" if self.parameters.part is None else f"--part {self.parameters.part}: "
            self.log.warn(part + ends.nothing(seeds, summary["dropped"], summary["stop_reasons"]))
        elif select is not None and count < select:
            asked = [name for name in NUMBER_OF_SEEDS if getattr(self.parameters, name) is not None]
            more = "max_seeds" if seeds == self.parameters.max_seeds or not asked else asked[0]
            self.log.warn(
                f"--select {select}: {count:,} streamlines were accepted from all {seeds:,} seeds: give more seeds "
                f"({flag(more)}), seeds nearer to the regions, larger regions or a wider --max-angle"
            )
        if doubt := ends.doubt(self.engine.statistics.stop_reasons, self.parameters, self.receiver.step_mm):
            self.log.warn(doubt)

    def count(self, batches: Iterable[Batch]) -> Generator[Batch, None, None]:
        """Count the streamlines of batches, and sample those of every so many seeds."""
        select = self.parameters.select
        every = -(-(len(self.seed_range) if select is None else select) // PICTURED)
        for batch in self.receiver.count(batches):
            if batch.has_points:
                before = self.receiver.counts.streamlines - len(batch)
                places = range(-before % every, len(batch), every)  # mostly few or none
                if select is None:
                    places = np.flatnonzero(batch.seed_number % every == 0)
                if len(places):
                    self.sample.append(batch if len(places) == len(batch) else batch[np.asarray(places)])
            yield batch

    @property
    def seed_range(self) -> range:
        """Numbers of the seeds: all of them, at most as many as are allowed, or those of a part."""
        count = min(self.plan.seeds.count, self.parameters.max_seeds or self.plan.seeds.count)
        number, parts = part_of(self.parameters.part or "1/1")
        return range(count * (number - 1) // parts, count * number // parts)

    def collect(self, *, keeps: bool) -> TrackResult:
        """Track all seeds, keep the streamlines in memory if asked to, and write the products and the records.

        If that fails, no file stays that lacks the others.
        """
        with closing(self.contents() if keeps else self.batches()) as batches:
            kept = tuple(batch for batch in batches if keeps)
        products = self.receiver.products
        if not products.paths:
            return self._reported(self.result(None, kept))
        self._weigh()
        beside = record_path(None, products.paths)
        with all_or_none([path for path in (*products.files, beside) if path is not None]):
            self.receiver.write_tissues()
            products.write(force=self.receiver.force)
            self.log.tell([], self.receiver.doubts)
            result = self.result(None, kept)
            record = self.receiver.write_record(None, result.record)
        return self._reported(result, record)

    def contents(self) -> Generator[Batch, None, None]:
        """Track all seeds, and make of the streamlines what a tractogram would hold."""
        with closing(self.batches()) as batches:
            for batch in batches:
                yield self.receiver.content.of(batch, self.receiver.products.groups)
        self.log.tell([], self.receiver.content.doubts)

    def save(self, output: Path, pieces: Iterable[Batch] | None = None, drafts: Path | None = None) -> TrackResult:
        """Write all streamlines, and the records.

        Parameters
        ----------
        output : the tractogram.
        pieces : the streamlines, if they were tracked before; else all seeds are tracked.
        drafts : folder in which the tractogram is written until it is complete.
        """

        def batches() -> Generator[Batch, None, None]:
            yield from self.batches() if pieces is None else self.count(pieces)
            self._weigh()

        def finished() -> None:
            self.log.tell([], self.receiver.doubts)
            self.log.begin("place")

        with (
            threads_explained(self.parameters), closing(batches()) as tracked,
            self.receiver.saved(output, tracked, lambda: self.record(self.receiver.summary()), finished, drafts),
        ):
            result = self.result(output, ())
            recipe = {}
            if output.suffix.lower() == NUMBERS:
                from .recipe import recipe_of

                recipe = recipe_of(self.parameters, self.plan, self.kernels, output)
            record = self.receiver.write_record(output, result.record | recipe)
        return self._reported(result, record)

    def _weigh(self) -> None:
        """Weigh the streamlines if options say so, and begin to write."""
        if self.receiver.products.weighs:
            self.log.begin("weigh")
            self.receiver.products.per_streamline()
        self.log.begin("write")

    def _reported(self, result: TrackResult, record: Json | None = None) -> TrackResult:
        """Write the page about a result, if an option names it; ``record`` is that of its files. Return the result."""
        if self.receiver.gathered is not None:
            from .reporting import report

            self.log.begin("report")
            background, prepared = self.plan.tables.background, self.plan.prepared
            report(
                self.receiver, result.path, record or result.record, result.notes, background, self.engine, prepared
            )
        return result

    def result(self, path: Path | None, batches: tuple[Batch, ...]) -> TrackResult:
        """Sum up the run."""
        counted = self.receiver.summary()
        result = TrackResult(
            arch=self.devices[0].arch,
            device=name_of(self.devices),
            n_streamlines=counted.pop("streamlines"),
            **counted,
            seconds=self.log.durations(),
            path=path,
            parameters=self.parameters,
            notes=tuple(map(python_names, self.log.notes)),
            warnings=tuple(map(python_names, self.log.warnings)),
            space=self.plan.space,
            batches=batches,
            sample=Batch.concatenate(self.sample),
            products=self.receiver.products.values,
            record={},
        )
        return replace(result, record=self.record(result.as_dict()))

    def record(self, stats: Mapping[str, object]) -> Json:
        """Gather what is written beside the tractogram."""
        parameters, plan = self.parameters, self.plan
        inputs = inputs_of({**parameters.inputs(), **self.series}, plan.hashes)
        devices = [device.as_dict() for device in self.devices]
        content = record(parameters, self.receiver.step_mm, inputs, devices[0], stats)
        content |= {"frames": plan.tables.frames, "chosen": plan.tables.chosen, "warnings": self.log.warnings}
        content |= {"devices": devices} if len(devices) > 1 else {}
        content |= compiler_told(self.devices[0]) | self.receiver.content.details
        if parameters.bids_out is not None:
            content |= bids.metadata(parameters, self.series["dwi"], plan.space, self.receiver.step_mm)
        if parameters.part is not None:
            seeds, (number, parts) = self.seed_range, part_of(parameters.part)
            content["part"] = {
                "number": number, "of": parts, "first_seed": seeds.start, "seeds": len(seeds),
                "downsample": parameters.parts,  # which a part has no need of, since it has all points
            }
        followed = METHODS[parameters.dg].low_order
        content["parameters"] |= {name: value for name, value in plan.tables.chosen.items() if name in followed}
        return content


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
