"""Tracking from files to streamlines: the one entry of the command line and of Python."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..backends import notes
from ..backends.devices import Device, choose
from ..engine.engine import Engine
from ..engine.settings import Settings, steps_within
from ..errors import DeviceError, ParameterError
from ..io import sidecar
from ..io.tractogram import Batch
from .counts import Counts
from .log import Log, Watcher
from .outputs import check_outputs
from .parameters import Parameters
from .plan import Plan, make_plan, needs_series
from .record import record, stop_reasons
from .writer_thread import WriterThread

PathLike = str | Path
SEEDS_AT_ONCE = 1 << 20  # bounds the memory that seeds take, however many there are


@dataclass
class _Run:
    """A run: what it works on, and what is known of it so far."""

    series: dict[str, PathLike]
    parameters: Parameters
    device: Device
    log: Log
    plan: Plan
    engine: Engine
    begun: float
    counts: Counts = field(default_factory=Counts)

    def batches(self) -> Iterator[Batch]:
        """Track all seeds; count what comes."""
        seeds, tally = self.plan.seeds, self.engine.tally
        self.log.watcher.stage("track")
        self.log.seconds |= {"track": 0.0, "kernels": 0.0}
        for first in range(0, seeds.count, SEEDS_AT_ONCE):
            block = np.asarray(seeds.points(first, min(SEEDS_AT_ONCE, seeds.count - first)))
            with _threads(self.parameters), closing(self.engine.track(block, first)) as grown:  # type: ignore[type-var]
                for batch in grown:
                    self.counts.add(batch)
                    self.log.watcher.progress(tally.seeds, seeds.count, self.counts.streamlines)
                    yield batch
            for name in ("track", "kernels"):
                self.log.seconds[name] += tally.seconds[name]
        self.log.watcher.progress(seeds.count, seeds.count, self.counts.streamlines)

    def stats(self, write_seconds: float) -> dict[str, Any]:
        """Sum the run up; the content of --json-stats."""
        seconds = self.log.seconds | {"write": write_seconds, "total": time.perf_counter() - self.begun}
        return {
            "arch": self.device.arch,
            "device": self.device.name,
            "seeds": self.plan.seeds.count,
            **self.counts.summary(self.step_mm),
            "stop_reasons": stop_reasons(self.engine.tally.stop_reasons),
            "seconds": {name: round(value, 4) for name, value in seconds.items()},
        }

    @property
    def step_mm(self) -> float:
        return self.parameters.step_mm(self.plan.space.voxel_sizes)

    def record(self, stats: Mapping[str, Any]) -> dict[str, Any]:
        """Gather the sidecar's content."""
        paths = {name: self.series.get(name, getattr(self.parameters, name, None)) for name in self.plan.hashes}
        inputs = {name: {"path": str(paths[name]), "sha256": digest} for name, digest in self.plan.hashes.items()}
        told = {"frames": self.plan.frames, "warnings": self.log.warnings}
        return record(self.parameters, self.step_mm, inputs, self.device.as_dict(), stats) | told


def track(
    dwi: PathLike | None = None, bvals: PathLike | None = None, bvecs: PathLike | None = None,
    output: PathLike | None = None, *, watcher: Watcher | None = None, **parameters: Any,
) -> Any:  # fmt: skip
    """Track streamlines through a diffusion series.

    Parameters
    ----------
    dwi : str or Path, optional
        NIfTI file of the 4-D series. It, bvals and bvecs may be left out where orientations come from a file, as with
        ``sh``, a ``stop_map`` is given, and ``seed_mask`` or ``seeds``.
    bvals, bvecs : str or Path, optional
        FSL gradient files; a volume of at most b=50 s/mm2 counts as a b0.
    output : str or Path, optional
        Tractogram to write, ending in .trx, .trk or .tck; its record goes beside it as .json.
    watcher : Watcher, optional
        Is told of stages and progress.
    **parameters
        The options of `tistreamlines track` with underscores, as ``nseeds=5000, max_angle=45``; see
        :class:`tistreamlines.run.parameters.Parameters`.

    Returns
    -------
    dict or iterator of Batch
        With an output, counts, lengths, stop reasons and seconds. Without, the streamlines, batch by batch: tracking
        goes on as they are taken.

    Raises
    ------
    TrackingError
        If an input, an option, the device or the output does not do.
    """
    chosen = Parameters.given(parameters)
    target = None if output is None else Path(output)
    if target is None and chosen.json_stats is not None:
        raise ParameterError("json_stats needs an output")
    given = {"dwi": dwi, "bvals": bvals, "bvecs": bvecs}
    series = {name: path for name, path in given.items() if path is not None}
    if series and len(series) < len(given):
        raise ParameterError("DWI, BVALS and BVECS belong together: give all three of them, or none")
    if not series and needs_series(chosen):
        raise ParameterError(needs_series(chosen))
    check_outputs(target, chosen, series.values())
    with _threads(chosen):
        run = _start(series, chosen, watcher or Watcher())
        return run.batches() if target is None else _save(run, target)


@contextmanager
def _threads(parameters: Parameters) -> Generator[None, None, None]:
    """Say what to do where the system starts no more threads."""
    try:
        yield
    except RuntimeError as error:
        if "start new thread" not in str(error):
            raise
        asked = "one for each core" if parameters.threads is None else f"--threads {parameters.threads}"
        raise DeviceError(f"the system does not start so many threads, {asked}: give fewer with --threads") from error


def _start(series: dict[str, PathLike], parameters: Parameters, watcher: Watcher) -> _Run:
    """Do all that comes before the first seed."""
    begun = time.perf_counter()
    device = choose(parameters.arch)
    watcher.device(device)
    log = Log(watcher)
    plan = make_plan(series, parameters, log)
    step_mm = parameters.step_mm(plan.space.voxel_sizes)
    fewest, most = steps_within(step_mm, parameters.min_length, parameters.max_length)
    settings = Settings(
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
    if plan.prepared.fill["CARRIED"] and not parameters.exact:
        log.note(f"--fast changes nothing with --dg {parameters.dg}, which is always exact")
    with log.stage("compile"):
        plan.seeds.points(0, 1)
        engine = Engine(plan.prepared, plan.space, device, settings)
    for note in notes():
        log.note(note)
    return _Run(series, parameters, device, log, plan, engine, begun)


def _save(run: _Run, output: Path) -> dict[str, Any]:
    """Write the streamlines and the records; return the counts."""
    force = run.parameters.force
    with WriterThread(output, run.plan.space, force=force, step_mm=run.step_mm) as writer:
        with closing(run.batches()) as batches:  # type: ignore[type-var]
            for batch in batches:
                writer.put(batch)
        run.log.watcher.stage("write")
        writer.finish()
        run.log.watcher.stage("place")
    stats = run.stats(writer.seconds)
    sidecar.write_json(sidecar.sidecar_path(output), run.record(stats), force=force)
    if run.parameters.json_stats is not None:
        sidecar.write_json(run.parameters.json_stats, stats, force=force)
    return stats
