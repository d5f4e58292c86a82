"""The tables and seeds of a run: made of its inputs, or of an earlier run, from the cache or a live run's memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from ..aliases import Array, Json
from ..io.cache import Cache, Results
from ..options.definitions import input_names, is_word, names_affecting
from ..options.parameters import Parameters
from ..space.batch import Space
from ..tracking.growth.settings import Settings
from ..tracking.registry import METHODS, STOPPING_RULES
from ..tracking.seeding.seeds import Seeds
from ..tracking.tables.inputs import KernelTables
from ..tracking.weights.fods import Fods
from ..tracking.weights.options import are_followed
from .hashes import doubts_of_places, hashing, inputs_of_tables
from .inputs import Headers, Inputs, open_headers, read, read_places
from .log import Log
from .memory import Memory, once
from .seeds import Region, seeds_of
from .series import Series
from .setup import settings_on
from .spec import Spec, describe
from .tables import Preparation, Tables, region_of

MAPS_OF_PLACES = ("seed_mask", "seed_image")
# options that name places of seeds; tables in memory do not depend on them
PLACES = ("seeds", "seed_sphere", *MAPS_OF_PLACES)
# options on which tables depend, but not what is read of the inputs
LATE = frozenset((
    "max_angle", "step_size", "stop_threshold", "fa_threshold", "cutoff", "power", "samples", "trials", "pmf_threshold",
    "relative_peak_threshold", "min_separation_angle", "max_directions", "backtrack", "crop_at_gmwmi",
    "a region of seeds",
))
Describe = Callable[[], Spec]


@dataclass(frozen=True, eq=False)
class Plan:
    """The tables and the seeds of a run.

    Attributes
    ----------
    tables : what is made of the inputs.
    seeds : the seeds.
    followed : the FODs, or the samples of fibres, that streamlines follow, if an option asks for them.
    settings : lengths in steps, and how streamlines are grown.
    hashes : sha256 of each input, by the name of its argument or option.
    """

    tables: Tables
    seeds: Seeds
    followed: Fods | None
    settings: Settings
    hashes: dict[str, str]

    @property
    def prepared(self) -> KernelTables:
        """Tables of the method and the stopping rule."""
        return self.tables.prepared

    @property
    def space(self) -> Space:
        """Grid of the series or the orientations."""
        return self.tables.space


def make_plan(
    series: Series, parameters: Parameters, log: Log, precompile: Callable[[Describe], object] = lambda _: None,
    memory: Memory | None = None,
) -> Plan:
    """Read the inputs and prepare tables and seeds, or read the tables from the cache.

    Parameters
    ----------
    series : paths or arrays of ``dwi``, ``bvals`` and ``bvecs``, not pipes; empty if :func:`needs_series` finds no need
        of them.
    parameters : all options.
    log : receives the stages ``load``, ``fit`` and ``prepare``, notes and warnings.
    precompile : called when the headers are open, with a function that describes the run.
    memory : what earlier runs of this process have made; then the cache on disk is not used.
    """
    return _Planning(series, parameters, log, memory).plan(precompile)


class _Planning:
    """The making of a plan, see :func:`make_plan`.

    Attributes
    ----------
    cache : where tables and fits are kept, if anywhere.
    sources : inputs that tables are made of, besides the series.
    causes : all that tables depend on, if there is a cache.
    hashes : waits for the hashes of these inputs, by name; ``hashes_of_others`` for those of the others.
    """

    def __init__(self, series: Series, parameters: Parameters, log: Log, memory: Memory | None) -> None:
        self.series, self.parameters, self.log, self.memory = series, parameters, log, memory
        self.cache: Results | None = memory
        if memory is None and parameters.cache_dir is not None:
            self.cache = Cache(parameters.cache_dir, log.watcher.note, parameters.shared_cache)
        log.begin("load")
        self.sources = inputs_of_tables(parameters)
        others = {name: source for name, source in parameters.inputs().items() if name not in self.sources}
        known = {} if memory is None else memory.hashes
        self.hashes = hashing({**series, **self.sources}, known)
        self.hashes_of_others = hashing(others, known)
        # the maker of the tables checks their inputs; those that live runs keep have no places of seeds
        files = {str(source) for source in (*series.values(), *self.sources.values())}
        elsewhere = {name: source for name, source in others.items() if str(source) not in files}
        for name in MAPS_OF_PLACES:
            if name in self.sources and memory is not None:
                elsewhere[name] = self.sources.pop(name)
        log.tell([], doubts_of_places(elsewhere))
        self.causes = _causes(parameters, self.hashes(), anywhere=memory is not None) if self.cache else {}

    def plan(self, precompile: Callable[[Describe], object]) -> Plan:
        """Return the plan, with tables of a run before if there are some."""
        return self._known() or self._make(precompile)

    @property
    def _cache_of_tables(self) -> Results | None:
        """The cache, unless options want what streamlines follow, which tables do not have."""
        return None if are_followed(self.parameters) else self.cache

    def _known(self) -> Plan | None:
        """Return a plan with tables of a run before, if there are some."""
        kept = None if (cache := self._cache_of_tables) is None else cache.load("tables", self.causes, _unpacked)
        if kept is None:
            return None
        tables, *messages = kept
        settings = settings_on(tables.space, self.parameters)
        self.log.tell(*messages)
        region = self._region_apart(tables.space) or tables.region
        return self._plan(tables, seeds_of(self.parameters, tables.space, region, settings.step_mm), None, settings)

    def _make(self, precompile: Callable[[Describe], object]) -> Plan:
        """Read the inputs, and return a plan with tables made of them, which the cache keeps."""
        parameters, log, mark = self.parameters, self.log, self.log.mark()
        headers = open_headers(self.series, parameters, log)
        precompile(partial(describe, parameters, headers))
        inputs = self._read(headers)
        settings = settings_on(inputs.space, parameters)
        log.tell([], doubts_of_places({**self.series, **self.sources}))
        early = log.since(mark)
        region = self._region_apart(inputs.space)  # whose messages do not follow from the tables
        mark = log.mark()
        preparation = Preparation(inputs, parameters, log, self.cache, self.causes)
        tables, seeds, followed = preparation.make(settings.step_mm, region, anywhere=self.memory is not None)
        if (cache := self._cache_of_tables) is not None:
            log.begin("prepare")
            arrays, values = tables.packed()
            notes, warnings = (first + last for first, last in zip(early, log.since(mark), strict=True))
            cache.store("tables", self.causes, arrays, values | {"notes": notes, "warnings": warnings})
            if self.memory is not None and (kept := self.memory.load("tables", self.causes, _unpacked)) is not None:
                tables = kept[0]  # the object that later runs have, too, so that they can have its engine
        return self._plan(tables, seeds, followed, settings)

    def _plan(self, tables: Tables, seeds: Seeds, followed: Fods | None, settings: Settings) -> Plan:
        if self.memory is not None:
            seeds.reach()  # which raises an error if places of seeds lie outside the image
        return Plan(tables, seeds, followed, settings, {**self.hashes(), **self.hashes_of_others()})

    def _read(self, headers: Headers) -> Inputs:
        """Read the inputs, or take those of the run before, with their notes and warnings."""
        early = {name: cause for name, cause in self.causes.items() if name.removesuffix(" given") not in LATE}
        apart = self.memory is not None
        make = partial(read, headers, self.series, self.parameters, self.log, places_apart=apart)
        return once(self.memory, "inputs", early, self.log, make)

    def _region_apart(self, space: Space) -> Region | None:
        """Return the voxels of a mask or a map of seeds, if there is a memory, whose tables and inputs have none."""
        given = [name for name in MAPS_OF_PLACES if getattr(self.parameters, name) is not None]
        if self.memory is None or not given:
            return None
        files = {name: (self.hashes()[name], str(getattr(self.parameters, name))) for name in given}
        causes = space.shape, space.affine.tobytes(), files

        def make() -> Region:
            seeded, grid = read_places(self.parameters, space, self.log)
            assert seeded is not None
            return region_of(seeded, grid)

        return self.memory.once("region", causes, self.log, make)


def _unpacked(arrays: Mapping[str, Array], values: Json) -> tuple[Tables, list[str], list[str]]:
    """Return tables, and the notes and warnings of the run that made them."""
    return Tables.unpacked(arrays, values), values["notes"], values["warnings"]


def _causes(parameters: Parameters, hashes: Mapping[str, str], *, anywhere: bool) -> Json:
    """Return what tables depend on: the hashes of inputs, and options; with ``anywhere``, not on places of seeds."""
    inputs = (*input_names(), *parameters.inputs())
    affecting = names_affecting("tables") - set(inputs)
    # a word in the place of a file has no content that is hashed
    options = {name: value for name, value in parameters.as_dict().items() if name in affecting or is_word(name, value)}
    causes = {**hashes, **options}
    # a default may follow from the order of the fit
    causes |= {f"{name} given": parameters.gives(name) for name in METHODS[parameters.dg].low_order}
    if METHODS[parameters.dg].step_in_tables or STOPPING_RULES[parameters.stopping].step_in_tables or parameters.pft:
        causes["step_size"] = parameters.step_size
    if anywhere:
        causes = {name: cause for name, cause in causes.items() if name not in PLACES}
        causes["a region of seeds"] = all(getattr(parameters, name) is None for name in PLACES)
    return causes
