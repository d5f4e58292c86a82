"""Comparison of benchmark results with earlier ones: runs that are slower, give different results, or now fail."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tistreamlines.aliases import Json
from tistreamlines.benchmarks import SCHEMA

SAME = ("case", "dg", "model", "target", "nseeds", "exact")  # two runs are compared if these are equal
LEAST_SECONDS = 0.005  # shorter times are not compared
FIGURES = {"streamlines": 0.01, "mean_points": 0.02}  # accepted relative difference
CORRELATION = 0.02
LOST = ("failed", "timeout")


@dataclass(frozen=True)
class Finding:
    """One difference; ``str`` gives a line of text.

    Parameters
    ----------
    kind : 'slower', 'other bits', 'archs differ', 'other figures' or 'lost'
    where : str
        Case, direction getter and target, and other settings that distinguish the run.
    what : str
        Description of the difference.
    """

    kind: str
    where: str
    what: str

    def __str__(self) -> str:
        """Describe the difference in one line."""
        return f"{self.where}: {self.what}"


def compare(new: Json, *earlier: Json, slower: float = 1.25) -> list[Finding]:
    """Compare each run of new results with the same run of earlier ones.

    Of several earlier runs, one with the same device, threads and chunk size is preferred, then the newest. Times are
    compared only on the same computer: equal CPU, cores and threads, and the same device for the target; for a peer all
    devices must be equal. Bits are compared for exact runs, on any computer.

    Parameters
    ----------
    new, earlier : dict
        Results of schema 1; without earlier ones, only the archs of the new results are compared with each other.
    slower : float
        Ratio of times from which a run is slower, if the difference also exceeds the spread of the repeats.

    Returns
    -------
    list of Finding
        In the order of the new runs; differences between archs of the new results come last.
    """
    runs = new.get("runs") or []
    before: dict[tuple, list[tuple[Json, Json]]] = {}
    for results in earlier:
        for run in results.get("runs") or []:
            if run.get("status") == "ok":
                before.setdefault(_key(run), []).append((results, run))
    findings: list[Finding] = []
    for run in runs:
        if alike := before.get(_key(run)):
            old, other = max(alike, key=lambda pair, run=run: _likeness(new, run, *pair))
            timed = _same("threads", run, other) and _same_device(new, old, run, other)
            findings += _beside(run, other, _name(run, runs), slower if timed else None)
    return findings + list(_archs_apart(runs))


def _likeness(new: Json, run: Json, old: Json, other: Json) -> tuple:
    """Rank an earlier run by device, threads and chunk size, on which times depend, and by date."""
    alike = _same_device(new, old, run, other), _same("threads", run, other), _same("chunk_size", run, other)
    return *alike, str(old.get("created", ""))


def committed(folder: Path | str, names: str = "*.json") -> list[Json]:
    """Return the results of schema 1 in a folder.

    Parameters
    ----------
    folder : Path or str
        Folder of JSON files; other files and subfolders are ignored.
    names : str
        Pattern of the file names.
    """
    all_results = []
    for path in sorted(Path(folder).glob(names)):
        try:
            results = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(results, dict) and results.get("schema") == SCHEMA:
            all_results.append(results)
    return all_results


def _key(run: Json) -> tuple:
    return tuple(run.get(name) for name in SAME)


def _same(name: str, run: Json, other: Json) -> bool:
    return run.get(name) == other.get(name)


def _same_device(new: Json, old: Json, run: Json, other: Json) -> bool:
    """Whether two runs were on the same computer, and with the same device or the same number of them."""

    def machine(results: Json) -> tuple:
        described = results.get("machine") or {}
        devices = [(device["arch"], device["name"]) for device in described.get("devices") or []]
        target = [device for device in devices if device[0] == run.get("target")]
        return described.get("cpu"), described.get("cores"), target or devices

    return machine(new) == machine(old) and _same("devices", run, other)


def _name(run: Json, runs: list[Json], first: tuple[str, ...] = ("case", "dg", "target")) -> str:
    """Name a run by its first fields, and by settings that distinguish it from runs with the same ones."""
    beside = [other for other in runs if all(other.get(name) == run.get(name) for name in first)]
    words = [str(run.get(name)) for name in first]
    more = {
        "model": run.get("model"), "nseeds": f"{run.get('nseeds')} seeds",
        "exact": {True: "exact", False: "fast"}.get(run.get("exact", "")),
    }
    words += [word for name, word in more.items() if word and any(o.get(name) != run.get(name) for o in beside)]
    return " ".join(words)


def _beside(run: Json, other: Json, where: str, slower: float | None) -> Iterator[Finding]:
    """Yield the differences between a run and an earlier successful one; compare times only if ``slower`` is given."""
    if run.get("status") in LOST:
        reason = f" ({run['reason']})" if run.get("reason") else ""
        yield Finding("lost", where, f"{run['status']}{reason}, was ok")
    if run.get("status") != "ok":
        return
    if slower is not None:
        yield from _slower(run, other, where, slower)
    if _bits(run) and _bits(other) and _bits(run) != _bits(other):
        yield Finding("other bits", where, f"other bits, sha256 {_bits(run)[:8]}, was {_bits(other)[:8]}")
    yield from _other_figures(run, other, where)


# ---------------------------------------------------------------------------------------------------------- times
def _slower(run: Json, other: Json, where: str, factor: float) -> Iterator[Finding]:
    earlier = _times(other)
    for name, now in _times(run).items():
        then = earlier.get(name, math.inf)
        noise = max(_spread(run) * now, _spread(other) * then)
        # a time that was too short to compare may have grown
        if now > factor * max(then, LEAST_SECONDS) and now - then > noise:
            ratio = f" ({now / then:.2g} times)" if then > 0 else ""
            yield Finding("slower", where, f"{name} {_text(now)}, was {_text(then)}{ratio}")


def _times(run: Json) -> dict[str, float]:
    """Return the times that are compared, in seconds by name: tracking, its stages, preparing and writing."""
    seconds = run.get("seconds") or {}
    known = {name: seconds.get(name) for name in ("track", "prepare", "write")}
    stages = {name: value for name, value in (seconds.get("stages") or {}).items() if name not in ("compile", *known)}
    return {name: float(value) for name, value in (known | stages).items() if isinstance(value, (int, float))}


def _spread(run: Json) -> float:
    """Return the range of the tracking times relative to the median; it is also used for the other times."""
    seconds = run.get("seconds") or {}
    repeats = [value for value in seconds.get("repeats") or [] if value is not None]
    if not repeats or not seconds.get("track"):
        return 0.0
    return (max(repeats) - min(repeats)) / seconds["track"]


def _text(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 0.1 else f"{1000 * seconds:.3g} ms"


# ------------------------------------------------------------------------------------------------ what comes out
def _bits(run: Json) -> str:
    """Return the hash of an exact run, else ''."""
    return str(run.get("sha256") or "") if run.get("exact") else ""


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.5g}"


def _other_figures(run: Json, other: Json, where: str) -> Iterator[Finding]:
    for name, share in FIGURES.items():
        now, then = run.get(name), other.get(name)
        if now is not None and then is not None and abs(now - then) > share * abs(then):
            change = f" ({100 * (now / then - 1):+.1f} %)" if then else ""
            what = f"{name.replace('_', ' ')} {_number(now)}, was {_number(then)}{change}"
            yield Finding("other figures", where, what)
    now, then = ((r.get("density_correlation") or {}).get("dipy") for r in (run, other))
    if now is not None and then is not None and abs(now - then) > CORRELATION:
        yield Finding("other figures", where, f"density correlation with dipy {now:.3f}, was {then:.3f}")


def _archs_apart(runs: list[Json]) -> Iterator[Finding]:
    """Exact runs of one problem whose bits are not the same on all archs."""
    problems: dict[tuple, list[Json]] = {}
    for run in runs:
        if run.get("status") == "ok" and _bits(run):
            problems.setdefault(tuple(run.get(name) for name in SAME if name != "target"), []).append(run)
    for same in problems.values():
        archs: dict[str, list[str]] = {}
        for run in same:
            archs.setdefault(_bits(run), []).append(run["target"])
        if len(archs) > 1:
            first, *others = (" and ".join(names) for names in archs.values())
            where = _name(same[0], [run for run in runs if _bits(run)], ("case", "dg"))
            what = f"bits of {first} differ from those of {', from those of '.join(others)}"
            yield Finding("archs differ", where, what)
