"""From the inputs to a run that is ready to track."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack, suppress
from dataclasses import replace
from queue import SimpleQueue
from threading import Thread

import numpy as np

from ..backends import before_threads, import_beside, take_compiler, warm_up
from ..backends import notes as notes_of_compilers
from ..options.option_groups import refuse_peak_options
from ..options.parameters import Parameters
from ..space.batch import Space
from ..tracking.growth.settings import Settings
from ..tracking.products.content import Content, rounding_mm
from ..tracking.registry import PRODUCTS
from ..tracking.selection.criteria import Criteria
from ..workers.session import Session
from .inputs import Series
from .log import Log, Watcher
from .plan import Plan, make_plan
from .products import all_or_nothing, asked, gathered_of, products_of
from .run import Run, threads_explained
from .seeds import Region, seeds_of
from .setup import devices_of, selection_of, session_on, settings_on
from .tables import Shapes, make_tables
from .tables_process import process_for


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
        for device in devices:
            watcher.device(device)
        selection, parcellations = selection_of(parameters, log), len(parameters.connectome or ())
        content = Content(parameters, parameters.threads, log.note, parcellations)
        session = unless_started.enter_context(session_on(devices, parameters, log.note))
        make = other.make_tables if other is not None and devices[0].on_gpu else make_tables
        with Precompiling(parameters, selection, session, only_products=only_products) as precompiling:
            plan = make_plan(series, parameters, log, precompiling.compile, make)
            _tell(plan, parameters, selection, log)
            log.begin("compile")
            precompiling.join()
            products = products_of(parameters, plan.space, parameters.step_mm(plan.space.voxel_sizes))
            if products.follows or parameters.seed_dynamic is not None:
                log.begin("fixels")
                plan.seeds.prepare(watcher.fixels)
                products.follow(plan.followed, watcher.fixels)
            log.begin("compile")
            plan.seeds.points(0, 1)
            log.tell([], plan.seeds.doubts)
            filters = selection.filters(plan.space)
            settings = _settings(plan, parameters)
            products.watch_weighing(watcher.weighing)
            content.groups_of, content.late = products.groups, products.per_streamline
            # later seeds may need the points of streamlines
            on_device = only_products and plan.seeds.round_from(0) is None
            collectors = products.collectors(plan.space, settings) if on_device else []
            engine = session.open(plan.prepared, plan.space, settings, filters, collectors, points=not collectors)
        unless_started.pop_all()  # the processes of the session end with the run
    log.tell(notes_of_compilers(), [])
    gathered = gathered_of(parameters, plan.space, parameters.step_mm(plan.space.voxel_sizes))
    return Run(series, parameters, devices, log, plan, engine, products, content, gathered=gathered)


def _tell(plan: Plan, parameters: Parameters, selection: Criteria, log: Log) -> None:
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


class Precompiling:
    """The compilation of the kernels of a run, in a ``with`` block; the process keeps the compiled code.

    Parameters
    ----------
    parameters : all options.
    selection : of the run.
    session : compiles the kernels, in this process or in others, which start the device by themselves.
    only_products : neither a tractogram nor streamlines in memory.
    """

    def __init__(
        self, parameters: Parameters, selection: Criteria, session: Session, *, only_products: bool = False
    ) -> None:
        self._parameters, self._selection, self._session = parameters, selection, session
        self._only_products = only_products
        self._given: SimpleQueue[Shapes | None] = SimpleQueue()
        self._thread = Thread(target=self._compile, name="compile")

    def __enter__(self) -> Precompiling:
        """Start the compiler and the device."""
        before_threads(self._session.devices[0].arch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Let the thread end."""
        self._given.put(None)

    def compile(self, shapes: Shapes) -> None:
        """Start to compile for tables and a grid of a few voxels, which ``shapes`` returns when they are known."""
        if not self._session.devices[0].interprets:
            self._given.put(shapes)

    def join(self) -> None:
        """Wait for the end of the compilation."""
        self._given.put(None)
        self._thread.join()

    def _compile(self) -> None:
        with suppress(Exception):  # it occurs again in the run itself
            if self._session.here:
                warm_up(self._session.devices[0], exact=self._parameters.exact)
            if all(getattr(self._parameters, name) is None for name in ("seeds", "seed_surface", "seed_dynamic")):
                voxel = Region(np.zeros((1, 3), np.int32), np.ones(1, np.float32), np.eye(4))
                seeds_of(self._parameters, Space(np.eye(4), (1, 1, 1)), voxel).points(0, 1)
            if shapes := self._given.get():
                prepared, space = shapes()
                settings = settings_on(space.voxel_sizes, self._parameters)
                collectors = []
                if self._only_products:
                    rows = [PRODUCTS[name].collector for name in asked(self._parameters)]
                    collectors = all_or_nothing(row and row(self._parameters, space, settings) for row in rows)
                filters = self._selection.filters()
                self._session.open(prepared, space, settings, filters, collectors, points=not collectors)
