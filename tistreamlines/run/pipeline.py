"""The order of a run: describe it, compile beside, read, prepare, track, write."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future, wait
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np

from ..backends import before_threads, take_compiler, warm_up
from ..backends import notes as notes_of_compilers
from ..devices.threads import readers_awaited, single_blas, thread_pool
from ..io.gradients import drain
from ..options.option_groups import refuse_peak_options
from ..options.parameters import Parameters
from ..space.batch import Space
from ..tracking.engine.engine import Engine
from ..tracking.engine.kernels import KernelParts
from ..tracking.products.files import Maker
from ..tracking.products.points.content import Content, rounding_mm
from ..tracking.selection.criteria import Criteria, thin_regions
from ..tracking.selection.regions import ROLES
from ..tracking.weights.options import are_followed
from ..workers.session import Session
from . import bids
from .hashes import hashing
from .log import Log, Watcher
from .memory import Memory, once
from .needs import limits_at_mask
from .plan import Describe, Plan, make_plan
from .products import products_of
from .result import TrackResult
from .run import Run, threads_explained
from .saving import Receiver
from .seeds import Region, seeds_of
from .series import Series
from .setup import devices_of, selection_of, session_on
from .spec import parts_of


def carry_out(run: Run, output: Path | None, *, keeps: bool) -> TrackResult:
    """Track all seeds, and write the files that options name; ``keeps``: without an output, streamlines are kept in
    memory."""
    if output is None:
        return run.collect(keeps=keeps or not run.receiver.products.paths)
    if run.parameters.resume:
        from .resume import save_resumable  # which imports more than other runs need

        result = save_resumable(run, output)
    else:
        result = run.save(output)
    if run.parameters.bids_out is not None:
        bids.complete(run.parameters, run.receiver.products.paths)
    return result


@readers_awaited()
def start(
    series: Series, parameters: Parameters, watcher: Watcher, *, makers: Mapping[str, Maker | None],
    without_points: bool = False, notes: Iterable[str] = (), memory: Memory | None = None,
) -> Run:
    """Describe the run, compile its kernels while the inputs are read, and prepare all that tracks.

    Parameters
    ----------
    series : paths or arrays of ``dwi``, ``bvals`` and ``bvecs``; empty if none is needed.
    parameters : all options.
    watcher : receives stages, notes and warnings.
    makers : what makes products whose inputs were read, see :func:`.products.makers_of`.
    without_points : whether points may stay on the device, as neither a tractogram nor memory takes them.
    notes : choices that were made for the user before this.
    memory : what earlier runs of this process have made.
    """
    log = Log(watcher)
    log.tell(notes, ())
    take_compiler(parameters.compiler)
    with threads_explained(parameters), ExitStack() as unless_started:
        devices = devices_of(parameters)
        for device in devices:
            watcher.device(device)
        selection = _selection(parameters, log, memory)
        content = Content(parameters, parameters.threads, log.note, len(parameters.connectome or ()))
        session = unless_started.enter_context(session_on(devices, parameters, log.note))
        before_threads(devices[0].arch)
        beside = thread_pool("compile", 2)
        opened = beside.submit(warm_up, devices[0], exact=parameters.exact) if session.here else None
        begun = [] if memory is not None and memory.knows("engine") else [beside.submit(_place_seed, parameters)]
        if are_followed(parameters):
            thread_pool("directions", 1).submit(_make_directions)

        def compile_beside(describe: Describe) -> None:
            if not devices[0].interprets:
                begun.append(beside.submit(_compile, opened, describe, selection, session, without_points))

        series = {name: path if name == "dwi" else drain(path) for name, path in series.items()}
        with single_blas():  # whose last digits depend on the number of its threads
            plan = make_plan(series, parameters, log, compile_beside, memory)
        _tell(plan, parameters, selection, log)
        log.begin("compile")
        wait(begun)  # an error occurs again below
        products = products_of(parameters, plan.space, plan.settings.step_mm, makers)
        if products.follows or parameters.seed_dynamic is not None:
            log.begin("fixels")
            plan.seeds.prepare(watcher.fixels)
            products.follow(plan.followed, watcher.fixels, plan.seeds)
        log.begin("compile")
        plan.seeds.points(0, 1)
        log.tell([], plan.seeds.doubts)
        products.watch_weighing(watcher.weighing)
        causes, settings = (plan.tables, selection), plan.settings
        filters = once(memory, "filters", causes, log, lambda: selection.filters(plan.space))
        if plan.seeds.directed:  # directions of seeds say which sense they have
            refuse_peak_options(parameters)
            settings = replace(settings, directed=True, either_sense=plan.seeds.either_sense)
        if content.every == parameters.parts and not (products.inner_points or parameters.report or parameters.resume):
            settings = replace(settings, every=content.every)
        # later seeds may need the points of streamlines
        without_points = without_points and plan.seeds.round_from(0) is None
        collectors, points = products.collectors(plan.space, settings, without_points=without_points)
        log.await_device()  # of which the engine measures the free memory and the pace
        engine = once(
            memory if session.here else None, "engine", (causes, settings, devices, points, parameters.compiler), log,
            lambda: session.open(plan.prepared, plan.space, settings, filters, collectors, points=points),
        )
        if memory is not None and isinstance(engine, Engine):
            engine.begin(log.note)
        unless_started.pop_all()  # the processes of the session end with the run
    log.tell(notes_of_compilers(), [])
    receiver = Receiver(parameters, plan.space, settings.step_mm, products, content, engine.statistics)
    kernels = KernelParts(plan.prepared.getter, plan.prepared.rule, settings, filters)
    return Run(series, parameters, devices, log, plan, engine, receiver, kernels)


def _selection(parameters: Parameters, log: Log, memory: Memory | None) -> Criteria:
    """Read the regions of interest, unless the run before had the same ones."""
    if memory is None:
        return selection_of(parameters, log)
    files = {name: file for name, file in parameters.inputs().items() if name.split()[0] in (*ROLES, "mask")}
    places = [[str(value) for value in getattr(parameters, name) or ()] for name in ROLES]
    mask = limits_at_mask(parameters)
    causes = places, hashing(files, memory.hashes)(), mask, parameters.stop_when_included, parameters.keep
    return memory.once("selection", causes, log, lambda: selection_of(parameters, log))


def _place_seed(parameters: Parameters) -> None:
    """Compile what places seeds, by placing one."""
    if all(getattr(parameters, name) is None for name in ("seeds", "seed_surface", "seed_dynamic")):
        voxel = Region(np.zeros((1, 3), np.int32), np.ones(1, np.float32), np.eye(4))
        seeds_of(parameters, Space(np.eye(4), (1, 1, 1)), voxel, 1.0).points(0, 1)


def _make_directions() -> None:
    from ..tracking.weights.fixels import make_directions  # which imports more than other runs need

    make_directions()


def _compile(
    opened: Future[None] | None, describe: Describe, selection: Criteria, session: Session, without_points: bool
) -> None:
    """Compile the kernels of a run when the device is open; the process keeps them."""
    parts = parts_of(describe(), selection, without_points=without_points)
    wait([] if opened is None else [opened])
    if parts is not None:
        session.compile(parts)


def _tell(plan: Plan, parameters: Parameters, selection: Criteria, log: Log) -> None:
    """Say what an option does not change, what it changes, and what looks wrong about steps and regions."""
    from .ends import doubts_of_steps

    if parameters.points == "float16":
        log.note(f"--points float16: points are rounded by up to {rounding_mm(plan.space):.2g} mm along each axis")
    carried = plan.prepared.getter.carried
    if carried and not parameters.exact:
        log.note(f"--fast changes nothing with --dg {parameters.dg}, which is always exact")
    step_mm = plan.settings.step_mm
    log.tell([], doubts_of_steps(parameters, step_mm, plan.space.voxel_sizes, vertices=not carried))
    log.tell([], thin_regions(selection.regions, step_mm))
