"""Names of runs whose settings differ, as in results that were put together from several commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tistreamlines.aliases import Json
from tistreamlines.benchmarks.tables import count, groups

# text for a setting, which all runs of a table share or in which they differ
_SETTINGS: dict[str, Callable[[object], str]] = {
    "model": lambda model: f"model {model}",
    "nseeds": lambda seeds: f"{count(seeds)} seeds",
    "threads": lambda threads: f"{threads} thread{'s' if threads != 1 else ''}",
    "devices": lambda devices: f"{devices} devices",
    "exact": lambda exact: "exact mode" if exact else "not in exact mode",
    "chunk_size": lambda seeds: f"chunks of {count(seeds)} seeds",
}


def labelled(results: Json) -> Json:
    """Return results whose runs have a ``label`` that tells them from others of the same case and method."""
    runs = [{**run, "label": _label(run, group)} for group in groups(results).values() for run in group]
    return results | {"runs": runs}


def usual_settings(runs: Sequence[Json]) -> str:
    """Return the settings of the runs whose label does not name others."""
    return ", ".join(_SETTINGS[key](value) for key, value in _usual(runs).items() if key != "chunk_size")


def _usual(runs: Sequence[Json]) -> Json:
    """Return the most frequent value of each setting; of several, the first."""
    settings = {key: [run[key] for run in runs if run.get(key) is not None] for key in _SETTINGS}
    return {key: max(dict.fromkeys(values), key=values.count) for key, values in settings.items() if values}


def _label(run: Json, runs: Sequence[Json]) -> str:
    """Name a run by its target, and by settings that differ from the most frequent ones."""
    same = [other for other in runs if other["target"] == run["target"]]
    # chunk sizes depend on the device, so they only distinguish runs of the same target
    usual = _usual(runs) | {"chunk_size": _usual(same).get("chunk_size")}
    words = [word(run[key]) for key, word in _SETTINGS.items() if run.get(key) not in (None, usual.get(key))]
    return f"{run['target']} ({', '.join(words)})" if words else str(run["target"])
