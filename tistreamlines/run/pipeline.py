"""A run: from the inputs to the engine, and from its batches to a result."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..backends import import_beside, notes
from ..devices import Device, choose
from ..engine.engine import Engine
from ..engine.filters import ValidEnds
from ..engine.settings import Settings, steps_within
from ..errors import DeviceError, python_names
from ..io import sidecar
from ..io.tractogram import Batch
from ..io.writer_thread import WriterThread
from .ahead import Ahead
from .apart import process_for
from .counts import Counts
from .inputs import Series
from .log import Log, Watcher
from .parameters import Parameters
from .plan import Plan, make_plan
from .record import record, stop_reasons
from .result import PICTURED, TrackResult
from .tables import make_tables

SEEDS_AT_ONCE = 1 << 20  # bounds the memory of the seeds


@dataclass
class Run:
    """A run that is ready to track.

    Parameters
    ----------
    series : ``dwi``, ``bvals`` and ``bvecs``, or nothing.
    parameters : all options.
    device : where streamlines are computed.
    log : stages, notes and warnings.
    plan : tables and seeds.
    engine : grows the streamlines.
    begun : ``time.perf_counter()`` when the run began.
    counts, sample : of the streamlines so far; the sample is drawn in notebooks.
    """

    series: Series
    parameters: Parameters
    device: Device
    log: Log
    plan: Plan
    engine: Engine
    begun: float
    counts: Counts = field(default_factory=Counts)
    sample: list[Batch] = field(default_factory=list)

    def batches(self) -> Generator[Batch, None, None]:
        """Track all seeds, and count the streamlines."""
        seeds, tally = self.plan.seeds, self.engine.tally
        self.log.watcher.stage("track")
        self.log.seconds |= {"track": 0.0, "kernels": 0.0}
        for first in range(0, seeds.count, SEEDS_AT_ONCE):
            count = min(SEEDS_AT_ONCE, seeds.count - first)
            block = np.asarray(seeds.points(first, count)), first, seeds.directions(first, count)
            with _threads_explained(self.parameters), closing(self.engine.track(*block)) as grown:  # type: ignore[type-var]
                for batch in grown:
                    self._count(batch)
                    self.log.watcher.progress(tally.seeds, seeds.count, self.counts.streamlines)
                    yield batch
            for name in ("track", "kernels"):
                self.log.seconds[name] += tally.seconds[name]
        self.log.watcher.progress(seeds.count, seeds.count, self.counts.streamlines)

    def _count(self, batch: Batch) -> None:
        """Count the streamlines of a batch, and sample those of every so many seeds."""
        self.counts.add(batch)
        every = -(-self.plan.seeds.count // PICTURED)
        self.sample.append(batch[np.flatnonzero(batch.seed_number % every == 0)])

    def collect(self) -> TrackResult:
        """Track all seeds and keep the streamlines in memory."""
        with closing(self.batches()) as batches:
            return self._result(None, tuple(batches), 0.0)

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
            self.log.watcher.stage("place")
        result = self._result(output, (), writer.seconds)
        sidecar.write_json(sidecar.sidecar_path(output), self._record(result), force=force)
        if self.parameters.json_stats is not None:
            sidecar.write_json(self.parameters.json_stats, result.as_dict(), force=force)
        return result

    @property
    def step_mm(self) -> float:
        """Step size in mm."""
        return self.parameters.step_mm(self.plan.space.voxel_sizes)

    def _result(self, path: Path | None, batches: tuple[Batch, ...], write_seconds: float) -> TrackResult:
        """Sum up the run."""
        seconds = self.log.seconds | {"write": write_seconds, "total": time.perf_counter() - self.begun}
        return TrackResult(
            arch=self.device.arch,
            device=self.device.name,
            seeds=self.plan.seeds.count,
            **self.counts.summary(self.step_mm),
            stop_reasons=stop_reasons(self.engine.tally.stop_reasons),
            seconds={name: round(value, 4) for name, value in seconds.items()},
            path=path,
            parameters=self.parameters,
            notes=_in_python(self.log.notes),
            warnings=_in_python(self.log.warnings),
            space=self.plan.space,
            batches=batches,
            sample=Batch.concatenate(self.sample),
        )

    def _record(self, result: TrackResult) -> dict[str, Any]:
        """Gather what is written beside the tractogram."""
        paths = {name: self.series.get(name, getattr(self.parameters, name, None)) for name in self.plan.hashes}
        inputs = {name: {"path": str(paths[name]), "sha256": digest} for name, digest in self.plan.hashes.items()}
        told = {"frames": self.plan.frames, "warnings": self.log.warnings}
        return record(self.parameters, self.step_mm, inputs, self.device.as_dict(), result.as_dict()) | told


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
        import_beside(parameters.arch)
        device = choose(parameters.arch)
        watcher.device(device)
        log = Log(watcher)

        def settings(voxel_sizes: npt.NDArray[np.float64]) -> Settings:
            step_mm = parameters.step_mm(voxel_sizes)
            steps = steps_within(step_mm, parameters.min_length, parameters.max_length)
            return settings_of(parameters, step_mm, *steps)

        on_gpu = other is not None and device.arch != "cpu" and not device.software
        make = other.make_tables if other is not None and on_gpu else make_tables
        with Ahead(parameters, device, settings) as ahead:
            plan = make_plan(series, parameters, log, ahead.compile, make)
            if plan.prepared.fill["CARRIED"] and not parameters.exact:
                log.note(f"--fast changes nothing with --dg {parameters.dg}, which is always exact")
            with log.stage("compile"):
                ahead.join()
                plan.seeds.points(0, 1)
                kept = (ValidEnds(),) if parameters.keep == "valid-ends" else ()
                engine = Engine(plan.prepared, plan.space, device, settings(plan.space.voxel_sizes), kept)
    for note in notes():
        log.note(note)
    return Run(series, parameters, device, log, plan, engine, begun)


def settings_of(parameters: Parameters, step_mm: float, fewest: int, most: int | None) -> Settings:
    """Return the options of growth and of the device in the engine's units; the bounds of length are in steps."""
    return Settings(
        step_mm=step_mm,
        max_steps=parameters.max_steps,
        fewest_steps=fewest,
        most_steps=most,
        rng_seed=parameters.rng_seed,
        exact=parameters.exact,
        threads=parameters.threads,
        chunk_size=parameters.chunk_size,
        memory_limit=None if parameters.memory_limit is None else int(parameters.memory_limit * 1e9),
    )
