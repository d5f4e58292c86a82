"""The tables and seeds of a run: from its inputs, or from a run before, by the cache or the memory of live runs."""

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
    sources = inputs_of_tables(parameters)
    later = {name: source for name, source in parameters.inputs().items() if name not in sources}
    cache: Results | None = memory
    if memory is None and parameters.cache_dir is not None:
        cache = Cache(parameters.cache_dir, log.watcher.note, parameters.shared_cache)
    cache_of_tables = None if are_followed(parameters) else cache  # which does not have what is followed
    log.begin("load")

    known_files = {} if memory is None else memory.hashes
    hashes, hashes_of_later = (hashing(files, known_files) for files in ({**series, **sources}, later))
    # the maker of the tables checks their inputs
    known = {str(source) for source in (*series.values(), *sources.values())}
    elsewhere = {name: source for name, source in later.items() if str(source) not in known}
    places = {name: sources.pop(name) for name in MAPS_OF_PLACES if name in sources and memory is not None}
    log.tell([], doubts_of_places(elsewhere | places))
    begin = log.mark()  # messages from here on follow from the tables, but for those of a region apart
    causes = _causes(parameters, hashes(), anywhere=memory is not None) if cache else {}
    kept = None if cache_of_tables is None else cache_of_tables.load("tables", causes, _unpacked)
    if kept is not None:
        tables, *messages = kept
        settings = settings_on(tables.space, parameters)
        log.tell(*messages)
        region = _region_apart(parameters, tables.space, hashes, log, memory) or tables.region
        seeds, followed = seeds_of(parameters, tables.space, region, settings.step_mm), None
    else:
        headers = open_headers(series, parameters, log)
        precompile(partial(describe, parameters, headers))
        inputs = _read(headers, series, parameters, log, causes, memory)
        settings = settings_on(inputs.space, parameters)
        log.tell([], doubts_of_places({**series, **sources}))
        early = log.since(begin)
        region = _region_apart(parameters, inputs.space, hashes, log, memory)
        begin = log.mark()
        preparation = Preparation(inputs, parameters, log, cache, causes)
        tables, seeds, followed = preparation.make(settings.step_mm, region, anywhere=memory is not None)
        if cache_of_tables is not None:
            log.begin("prepare")
            arrays, values = tables.packed()
            notes, warnings = (first + last for first, last in zip(early, log.since(begin), strict=True))
            cache_of_tables.store("tables", causes, arrays, values | {"notes": notes, "warnings": warnings})
            if memory is not None and (kept := memory.load("tables", causes, _unpacked)) is not None:
                tables = kept[0]  # the object that later runs have, too, so that they can have its engine
    if memory is not None:
        seeds.reach()  # which raises an error if places of seeds lie outside the image
    return Plan(tables, seeds, followed, settings, {**hashes(), **hashes_of_later()})


def _read(
    headers: Headers, series: Series, parameters: Parameters, log: Log, causes: Json, memory: Memory | None
) -> Inputs:
    """Read the inputs, or take those of the run before, with their notes and warnings."""
    early = {name: cause for name, cause in causes.items() if name.removesuffix(" given") not in LATE}
    apart = memory is not None
    return once(memory, "inputs", early, log, lambda: read(headers, series, parameters, log, places_apart=apart))


def _region_apart(
    parameters: Parameters, space: Space, hashes: Callable[[], Mapping[str, str]], log: Log, memory: Memory | None
) -> Region | None:
    """Return the voxels of a mask or a map of seeds, if there is a memory, whose tables and inputs have none."""
    given = [name for name in MAPS_OF_PLACES if getattr(parameters, name) is not None]
    if memory is None or not given:
        return None
    files = {name: (hashes()[name], str(getattr(parameters, name))) for name in given}
    causes = space.shape, space.affine.tobytes(), files

    def make() -> Region:
        seeded, grid = read_places(parameters, space, log)
        assert seeded is not None
        return region_of(seeded, grid)

    return memory.once("region", causes, log, make)


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
