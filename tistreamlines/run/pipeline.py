"""A run: from the inputs to the engine, and from its batches to a result."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..backends import import_beside, notes
from ..devices import Device, choose, choose_several, name_of
from ..errors import DeviceError, ParameterError, python_names
from ..io import sidecar
from ..io.writer_thread import WriterThread
from ..kernels.stop_reasons import Stop
from ..kernels.verdicts import Verdict
from ..option import part_of
from ..options.option_groups import refuse_peak_options
from ..options.parameters import Parameters
from ..space.batch import Batch, Space
from ..tracking.engine.engine import Engine
from ..tracking.engine.settings import Settings, steps_within
from ..tracking.registry import METHODS
from ..tracking.selection.files import Region, load_region
from ..tracking.selection.filters import Filter, ValidEnds
from ..tracking.selection.options import check_regions
from ..tracking.selection.regions import ROLES, Regions
from .ahead import Ahead
from .apart import process_for
from .counts import Counts
from .density import DensityMap, record_path
from .inputs import Series
from .log import Log, Watcher
from .plan import Plan, make_plan
from .record import dropped, record, stop_reasons, tractogram
from .result import PICTURED, TrackResult
from .tables import make_tables

if TYPE_CHECKING:
    from ..workers.several import Several

SEEDS_AT_ONCE = 1 << 20  # bounds the memory of the seeds
NOWHERE = Space(np.eye(4), (1, 1, 1))


@dataclass
class Run:
    """A run that is ready to track.

    Parameters
    ----------
    series : ``dwi``, ``bvals`` and ``bvecs``, or nothing.
    parameters : all options.
    devices : where streamlines are computed.
    log : stages, notes and warnings.
    plan : tables and seeds.
    engine : grows the streamlines.
    begun : ``time.perf_counter()`` when the run began.
    counts, sample : of the streamlines so far; the sample is drawn in notebooks.
    density : counts the streamlines in each voxel, if a map is written.
    kept, kept_reasons, kept_verdicts : seeds and streamlines, stop reasons and verdicts of an earlier run that goes on.
    """

    series: Series
    parameters: Parameters
    devices: list[Device]
    log: Log
    plan: Plan
    engine: Engine | Several
    begun: float
    counts: Counts = field(default_factory=Counts)
    sample: list[Batch] = field(default_factory=list)
    density: DensityMap | None = None
    kept: tuple[int, int] = (0, 0)
    kept_reasons: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(len(Stop), np.int64))
    kept_verdicts: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(len(Verdict), np.int64))

    def batches(self) -> Generator[Batch, None, None]:
        """Track all seeds, and count the streamlines."""
        yield from self.tracked(self.seed_range)
        self._progress()
        self.warn()

    def tracked(self, seeds: range) -> Generator[Batch, None, None]:
        """Track some of the seeds, and count the streamlines; end where enough are selected."""
        tally = self.engine.tally
        self.log.watcher.stage("track")
        enough = self._late()
        for block in self._blocks(seeds):
            if self.left == 0 or enough():
                break
            track = self.engine.track(*block, most=self.left, enough=enough)
            with _threads_explained(self.parameters), closing(track) as grown:  # type: ignore[type-var]
                for batch in grown:
                    self.count(batch)
                    self._progress()
                    yield batch
            for name in ("track", "kernels"):
                self.log.seconds[name] = self.log.seconds.get(name, 0.0) + tally.seconds[name]

    def _blocks(self, seeds: range) -> Generator[tuple[Any, int, Any], None, None]:
        """Compute seeds and directions, with the number of the first; several devices take all of them in slices."""
        given = self.plan.seeds
        if len(self.devices) > 1:
            from ..workers.several import Sliced

            directed, some = given.directions(0, 1) is not None, (seeds.start, len(seeds))
            directions: Callable[..., Any] = given.directions
            yield Sliced(given.points, *some), seeds.start, Sliced(directions, *some) if directed else None
            return
        for first in range(seeds.start, seeds.stop, SEEDS_AT_ONCE):
            count = min(SEEDS_AT_ONCE, seeds.stop - first)
            yield np.asarray(given.points(first, count)), first, given.directions(first, count)

    @property
    def left(self) -> int | None:
        """Number of streamlines to select that are still missing; None without a selection."""
        select = self.parameters.select
        return None if select is None else select - self.kept[1] - self.counts.streamlines

    @property
    def done(self) -> tuple[int, int]:
        """Seeds and streamlines that are there, those of an earlier run that goes on included."""
        return self.kept[0] + self.engine.tally.seeds, self.kept[1] + self.counts.streamlines

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
        if limit is not None and seeds < all_seeds and count != select:
            self.log.warn(
                f"--time-limit {limit:g}: {seeds:,} of {all_seeds:,} seeds were tracked; how many depends on the device"
            )
        elif select is not None and count < select:
            self.log.warn(
                f"--select {select}: {count:,} streamlines were accepted from all {seeds:,} seeds: give more seeds "
                "(--max-seeds), seeds nearer to the regions, larger regions or a wider --max-angle"
            )
        from . import ends

        if doubt := ends.doubt(self.stop_reasons, self.parameters, self.step_mm):
            self.log.warn(doubt)

    @property
    def stop_reasons(self) -> npt.NDArray[np.int64]:
        """Halves that ended for each reason, those of an earlier run that goes on included."""
        return self.engine.tally.stop_reasons + self.kept_reasons

    def count(self, batch: Batch) -> None:
        """Count the streamlines of a batch, and sample those of every so many seeds."""
        select, before = self.parameters.select, self.counts.streamlines
        self.counts.add(batch)
        if self.density is not None:
            self.density.add(batch)
        every = -(-(len(self.seed_range) if select is None else select) // PICTURED)
        numbers = batch.seed_number if select is None else before + np.arange(len(batch))
        self.sample.append(batch[np.flatnonzero(numbers % every == 0)])

    def collect(self) -> TrackResult:
        """Track all seeds and keep the streamlines in memory."""
        with closing(self.batches()) as batches:
            return self.result(None, tuple(batches), 0.0)

    def map_density(self) -> TrackResult:
        """Track all seeds, and write the density map and the records; keep no streamline."""
        with closing(self.batches()) as batches:
            for _ in batches:
                pass
        self.log.watcher.stage("write")
        self.write_density()
        return self.recorded(self.result(None, (), 0.0))

    def write_density(self, *, force: bool | None = None) -> None:
        """Write the density map, if one is asked for."""
        if self.density is not None:
            self.density.write(force=self.parameters.force if force is None else force)

    def save(self, output: Path) -> TrackResult:
        """Track all seeds, and write the streamlines and the records."""
        force = self.parameters.force
        with (
            _threads_explained(self.parameters),
            WriterThread(output, self.plan.space, force=force, step_mm=self.step_mm) as writer,
        ):
            with closing(self.batches()) as batches:
                for batch in batches:
                    writer.put(batch)
            self.log.watcher.stage("write")
            writer.finish()
            self.write_density()
            self.log.watcher.stage("place")
        return self.recorded(self.result(output, (), writer.seconds))

    def recorded(self, result: TrackResult, *, force: bool | None = None) -> TrackResult:
        """Write the records of a result; return it."""
        force = self.parameters.force if force is None else force
        told = result.record
        if result.path is not None:
            told = told | {"tractogram": tractogram(result.path)}
        if self.density is not None:
            told = told | {"density": self.density.told}
        beside = record_path(result.path, None if self.density is None else self.density.path)
        assert beside is not None
        sidecar.write_record(beside, told, force=force)
        if self.parameters.json_stats is not None:
            sidecar.write_json(self.parameters.json_stats, result.as_dict(), force=force)
        return result

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

    def result(self, path: Path | None, batches: tuple[Batch, ...], write_seconds: float) -> TrackResult:
        """Sum up the run."""
        seconds = {"track": 0.0, "kernels": 0.0} | self.log.seconds
        seconds |= {"write": write_seconds, "total": time.perf_counter() - self.begun}
        counted = self.counts.summary(self.step_mm)
        made = TrackResult(
            arch=self.devices[0].arch,
            device=name_of(self.devices),
            seeds=self.done[0],
            n_streamlines=counted.pop("streamlines"),
            **counted,
            stop_reasons=stop_reasons(self.stop_reasons),
            dropped=dropped(self.engine.tally.verdicts + self.kept_verdicts),
            seconds={name: round(value, 4) for name, value in seconds.items()},
            path=path,
            parameters=self.parameters,
            notes=_in_python(self.log.notes),
            warnings=_in_python(self.log.warnings),
            space=self.plan.space,
            batches=batches,
            sample=Batch.concatenate(self.sample),
            density=None if self.density is None else self.density.counts,
            record={},
        )
        return replace(made, record=self.record(made.as_dict()))

    def record(self, stats: Mapping[str, Any]) -> dict[str, Any]:
        """Gather what is written beside the tractogram."""
        paths = {**self.parameters.inputs(), **self.series}
        inputs = {name: {"path": str(paths[name]), "sha256": digest} for name, digest in self.plan.hashes.items()}
        devices = [device.as_dict() for device in self.devices]
        told: dict[str, Any] = {"frames": self.plan.frames, "chosen": self.plan.chosen, "warnings": self.log.warnings}
        told |= {"devices": devices} if len(devices) > 1 else {}
        if self.parameters.part is not None:
            seeds, (number, parts) = self.seed_range, part_of(self.parameters.part)
            told["part"] = {"number": number, "of": parts, "first_seed": seeds.start, "seeds": len(seeds)}
        made = record(self.parameters, self.step_mm, inputs, devices[0], stats) | told
        followed = METHODS[self.parameters.dg].low_order
        made["parameters"] |= {name: value for name, value in self.plan.chosen.items() if name in followed}
        return made


def _in_python(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(map(python_names, texts))


@contextmanager
def _threads_explained(parameters: Parameters) -> Generator[None, None, None]:
    """Raise a DeviceError that names the option where the system starts no more threads."""
    try:
        yield
    except RuntimeError as error:
        if "start new thread" not in str(error):
            raise
        asked = "one for each core" if parameters.threads is None else f"--threads {parameters.threads}"
        raise DeviceError(f"the system does not start so many threads, {asked}: give fewer with --threads") from error


def start(series: Series, parameters: Parameters, watcher: Watcher) -> Run:
    """Read the inputs, prepare the tables and compile the kernels.

    Parameters
    ----------
    series : paths or arrays of ``dwi``, ``bvals`` and ``bvecs``; empty if none is needed.
    parameters : all options.
    watcher : is told of stages, notes and warnings.
    """
    begun = time.perf_counter()
    with _threads_explained(parameters), process_for(series, parameters) as other:
        if parameters.devices is None and not parameters.resume:
            import_beside(parameters.arch)
        devices = devices_of(parameters)
        device, log = devices[0], Log(watcher)
        for one in devices:
            watcher.device(one)

        def settings(voxel_sizes: npt.NDArray[np.float64]) -> Settings:
            step_mm = parameters.step_mm(voxel_sizes)
            steps = steps_within(step_mm, parameters.min_mm(voxel_sizes), parameters.max_length)
            return settings_of(parameters, step_mm, *steps)

        on_gpu = other is not None and device.arch != "cpu" and not device.software
        make = other.make_tables if other is not None and on_gpu else make_tables
        regions = regions_of(parameters, log)
        several = _several(devices, log.note) if _apart(parameters, devices) else None
        engine_for = several.load if several is not None else engine_on(device, log.note)
        filters = filters_of(parameters, regions)
        with _ended(several), Ahead(parameters, device, settings, filters, engine_for, several is None) as ahead:
            plan = make_plan(series, parameters, log, ahead.compile, make)
            if plan.prepared.fill["CARRIED"] and not parameters.exact:
                log.note(f"--fast changes nothing with --dg {parameters.dg}, which is always exact")
            if not plan.prepared.fill["CARRIED"]:
                _warn_of_straight_lines(parameters, log)
            with log.stage("compile"):
                ahead.join()
                plan.seeds.points(0, 1)
                check_regions(regions, plan.space)
                filters = filters_of(parameters, regions, plan.space)
                chosen = settings(plan.space.voxel_sizes)
                if plan.seeds.directions(0, 1) is not None:
                    refuse_peak_options(parameters)
                    chosen = replace(chosen, either_sense=False)  # the directions say which one
                engine = engine_for(plan.prepared, plan.space, chosen, filters)
    for note in notes():
        log.note(note)
    return Run(series, parameters, devices, log, plan, engine, begun)


def _warn_of_straight_lines(parameters: Parameters, log: Log) -> None:
    from .ends import cannot_bend

    if straight := cannot_bend(parameters):
        log.warn(straight)


def devices_of(parameters: Parameters) -> list[Device]:
    """Return the devices that the options name."""
    if parameters.devices is None:
        return [choose(parameters.arch)]
    return choose_several(parameters.arch, parameters.devices)


def _apart(parameters: Parameters, devices: list[Device]) -> bool:
    """Whether processes of their own track: on several devices, and in runs that are to survive the loss of a GPU."""
    if parameters.resume and devices[0].arch != "cpu" and hasattr(socket, "send_fds"):
        return True
    return parameters.devices is not None and devices != [choose(parameters.arch)]


def _several(devices: list[Device], note: Callable[[str], object]) -> Several:
    from ..workers.several import Several  # imports more than a run on one device needs

    return Several(devices, note)


def engine_on(device: Device, note: Callable[[str], object]) -> Callable[..., Engine]:
    """Return a function that makes an engine in this process."""
    return lambda prepared, space, settings, filters: Engine(prepared, space, device, settings, filters, note=note)


@contextmanager
def _ended(several: Several | None) -> Generator[None, None, None]:
    """End the workers if a run does not start."""
    try:
        yield
    except BaseException:
        if several is not None:
            several.close()
        raise


def regions_of(parameters: Parameters, log: Log) -> dict[str, list[Region]]:
    """Read the regions of interest, by option name."""
    given = {name: getattr(parameters, name) for name in ROLES if getattr(parameters, name)}
    if parameters.stop_when_included and not given.keys() & {"include", "include_ordered"}:
        raise ParameterError("--stop-when-included needs regions: give --include, or --include-ordered and --one-way")
    return {name: [load_region(name, one, log.note, log.warn) for one in several] for name, several in given.items()}


def filters_of(
    parameters: Parameters, regions: Mapping[str, Sequence[Region]], space: Space = NOWHERE
) -> list[Filter]:
    """Return what accepts streamlines, besides their length; without a space, for kernels that are compiled ahead."""
    ends: list[Filter] = [ValidEnds()] if parameters.keep == "valid-ends" else []
    return [*ends, Regions(regions, space, parameters.stop_when_included)] if regions else ends


def settings_of(parameters: Parameters, step_mm: float, fewest: int, most: int | None) -> Settings:
    """Return the options of growth and of the device in the engine's units; the bounds of length are in steps."""
    return Settings(
        step_mm=step_mm,
        max_steps=parameters.max_steps,
        fewest_steps=fewest,
        most_steps=most,
        truncate=parameters.too_long == "truncate",
        one_way=parameters.one_way,
        rng_seed=parameters.rng_seed,
        exact=parameters.exact,
        threads=parameters.threads,
        chunk_size=parameters.chunk_size,
        memory_limit=None if parameters.memory_limit is None else int(parameters.memory_limit * 1e9),
    )
