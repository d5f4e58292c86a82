"""From the inputs to a run that is ready to track."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from ..backends import import_beside, take_compiler
from ..backends import notes as notes_of_compilers
from ..options.option_groups import refuse_peak_options
from ..options.parameters import Parameters
from ..tracking.growth.settings import Settings
from ..tracking.products.content import rounding_mm
from ..tracking.selection.selection import Selection
from .inputs import Series
from .log import Log, Watcher
from .plan import Plan, make_plan
from .precompiling import Precompiling
from .products import products_of
from .run import Run
from .setup import content_of, devices_of, selection_of, session_on, settings_on
from .tables import make_tables
from .tables_process import process_for
from .tracking import threads_explained

if TYPE_CHECKING:
    from ..report.gathered import Gathered


def start(
    series: Series, parameters: Parameters, watcher: Watcher, *, only_products: bool = False, notes: Iterable[str] = (),
) -> Run:
    """Read the inputs, prepare the tables and compile the kernels.

    Parameters
    ----------
    series : paths or arrays of ``dwi``, ``bvals`` and ``bvecs``; empty if none is needed.
    parameters : all options.
    watcher : is told of stages, notes and warnings.
    notes : choices that were made for the user before this.
    only_products : neither a tractogram nor streamlines in memory, so points may stay on the device.
    """
    log = Log(watcher)
    log.tell(notes, ())
    take_compiler(parameters.compiler)
    with threads_explained(parameters), process_for(series, parameters) as other, ExitStack() as unless_started:
        if parameters.devices is None and not parameters.resume:
            import_beside(parameters.arch)
        devices = devices_of(parameters)
        for one in devices:
            watcher.device(one)
        selection, content = selection_of(parameters, log), content_of(parameters, log)
        session = unless_started.enter_context(session_on(devices, parameters, log.note))
        make = other.make_tables if other is not None and devices[0].on_gpu else make_tables
        with Precompiling(parameters, selection, session, only_products=only_products) as precompiling:
            plan = make_plan(series, parameters, log, precompiling.compile, make)
            _tell(plan, parameters, selection, log)
            with log.stage("compile"):
                precompiling.join()
                products = products_of(parameters, plan.space, parameters.step_mm(plan.space.voxel_sizes))
            if products.follows or parameters.seed_dynamic is not None:
                log.begin("fixels")
                plan.seeds.prepare(watcher.fixels)
                products.follow(plan.followed, watcher.fixels)
            with log.stage("compile"):
                plan.seeds.points(0, 1)
                for doubt in plan.seeds.doubts:
                    log.warn(doubt)
                filters = selection.filters(plan.space)
                settings = _settings(plan, parameters)
                products.watch_weighing(watcher.weighing)
                content.groups_of, content.late = products.groups, products.per_streamline
                # later seeds may need the points of streamlines
                on_device = only_products and plan.seeds.round_from(0) is None
                made = products.collectors(plan.space, settings) if on_device else []
                engine = session.open(plan.prepared, plan.space, settings, filters, made, points=not made)
        unless_started.pop_all()  # the processes of the session end with the run
    for note in notes_of_compilers():
        log.note(note)
    gathered = _gathered(plan, parameters)
    return Run(series, parameters, devices, log, plan, engine, products, content, gathered=gathered)


def _gathered(plan: Plan, parameters: Parameters) -> Gathered | None:
    """Return what a report keeps of the streamlines, if one is asked for."""
    if parameters.report is None:
        return None
    from ..report.gathered import Gathered

    return Gathered(plan.space, parameters.step_mm(plan.space.voxel_sizes), parameters.threads)


def _tell(plan: Plan, parameters: Parameters, selection: Selection, log: Log) -> None:
    """Say what an option does not change, what it changes, and what looks wrong about steps and regions."""
    from ..tracking.selection.thin import thin_regions
    from .ends import doubts_of_steps

    if parameters.points == "float16":
        log.note(f"--points float16: points are rounded by up to {rounding_mm(plan.space):.2g} mm along each axis")
    carried, sides = plan.prepared.getter.carried, plan.space.voxel_sizes
    if carried and not parameters.exact:
        log.note(f"--fast changes nothing with --dg {parameters.dg}, which is always exact")
    log.tell([], doubts_of_steps(parameters, sides, vertices=not carried))
    log.tell([], thin_regions(selection.regions, parameters.step_mm(sides)))


def _settings(plan: Plan, parameters: Parameters) -> Settings:
    """Return the settings of the engine for the grid and the seeds; directions of seeds say which sense they have."""
    settings = settings_on(plan.space.voxel_sizes, parameters)
    if not plan.seeds.directed:
        return settings
    refuse_peak_options(parameters)
    return replace(settings, directed=True, either_sense=plan.seeds.either_sense)
