"""From the inputs to the tables and seeds that the engine needs; tables of an earlier run are read from the cache."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..aliases import Array, Json
from ..io.cache import Cache
from ..io.gradients import drained
from ..options.definitions import names_affecting
from ..options.parameters import Parameters, input_names
from ..space.batch import Space
from ..tracking.registry import METHODS, STOPPING_RULES
from ..tracking.seeding.seeds import Seeds
from ..tracking.tables.given import Prepared
from ..tracking.weights.options import are_followed
from .inputs import Series, check_step, doubts_of_places, hashing, inputs_of_tables
from .log import Log
from .seeds import seeds_of
from .tables import Describe, Tables, make_tables


@dataclass(frozen=True, eq=False)
class Plan:
    """The tables and the seeds of a run.

    Attributes
    ----------
    tables : what is made of the inputs.
    seeds : the seeds.
    hashes : sha256 of each input, by the name of its argument or option.
    """

    tables: Tables
    seeds: Seeds
    hashes: dict[str, str]

    @property
    def prepared(self) -> Prepared:
        """Tables of the method and the stopping rule."""
        return self.tables.prepared

    @property
    def space(self) -> Space:
        """Grid of the series or the orientations."""
        return self.tables.space


def make_plan(
    series: Series, parameters: Parameters, log: Log, precompile: Callable[[Describe], object] = lambda _: None
) -> Plan:
    """Read the inputs and prepare the tables, or read the tables from the cache.

    Parameters
    ----------
    series : paths or arrays of ``dwi``, ``bvals`` and ``bvecs``; empty if :func:`needs_series` finds no need of them.
    parameters : all options.
    log : receives the stages ``load``, ``fit`` and ``prepare``, notes and warnings.
    precompile : see :func:`tistreamlines.run.tables.make_tables`.
    """
    sources = inputs_of_tables(parameters)
    later = {name: source for name, source in parameters.inputs().items() if name not in sources}
    folder, shared = parameters.cache_dir, parameters.shared_cache
    cache = Cache(folder, log.watcher.note, shared) if folder is not None else None
    cached = cache is not None and not are_followed(parameters)  # tables that are kept have not what was followed
    log.begin("load")
    series = {name: path if name == "dwi" else drained(path) for name, path in series.items()}
    hashes, hashes_of_later = hashing({**series, **sources}), hashing(later)
    # what the tables are made of is looked at where they are made
    known = {str(source) for source in (*series.values(), *sources.values())}
    log.tell([], doubts_of_places({name: source for name, source in later.items() if str(source) not in known}))
    notes, warnings = len(log.notes), len(log.warnings)  # what does not follow from the tables
    causes = {**hashes(), **_causes(parameters)} if cache else {}
    kept = cache.load("tables", causes, _unpacked) if cache and cached else None
    if kept is None:
        tables = make_tables(series, parameters, hashes() if cache else {}, cache, log, precompile)
        if cache and cached:
            log.begin("prepare")
            arrays, values = tables.packed()
            messages = {"notes": log.notes[notes:], "warnings": log.warnings[warnings:]}
            cache.store("tables", causes, arrays, values | messages)
    else:
        tables, *messages = kept
        check_step(parameters, tables.space)
        log.tell(*messages)
    seeds = seeds_of(parameters, tables.space, tables.region) if tables.seeds is None else tables.seeds
    return Plan(tables, seeds, {**hashes(), **hashes_of_later()})


def _unpacked(arrays: Mapping[str, Array], values: Json) -> tuple[Tables, list[str], list[str]]:
    """Return tables, and the notes and warnings of the run that made them."""
    return Tables.unpacked(arrays, values), values["notes"], values["warnings"]


def _causes(parameters: Parameters) -> Json:
    """Return the options that the tables depend on, besides the inputs, which are identified by their content."""
    inputs = (*input_names(), *parameters.inputs())
    affecting = names_affecting("tables") - set(inputs)
    causes = {name: value for name, value in parameters.as_dict().items() if name in affecting}
    # a default may follow from the order of the fit
    causes |= {f"{name} given": parameters.gives(name) for name in METHODS[parameters.dg].low_order}
    if METHODS[parameters.dg].step_in_tables or STOPPING_RULES[parameters.stopping].step_in_tables or parameters.pft:
        causes["step_size"] = parameters.step_size
    return causes
