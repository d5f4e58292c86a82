"""The text of a report, from the record of a run: tables of descriptions and values; and the names of its files."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..aliases import Json
from ..errors import ParameterError
from ..kernels.stop_reasons import Stop, Verdict
from ..option import flag
from ..options.definitions import defaults, input_names, kind, options
from ..options.parameters import Parameters
from ..tracking.references import OF_OPTIONS, REFERENCES
from ..tracking.registry import METHODS, PRODUCTS, STOPPING_RULES, citations, default_method
from ..tracking.sources import SOURCES

Record = Mapping[str, Any]
SERIES = ("dwi", "bvals", "bvecs")
SUFFIXES = (".html", ".htm")
HABITS = ("force", "report")  # options that say nothing of the run itself


def files_of(page: Path) -> dict[str, Path]:
    """Return the files of a report: the ``page``, the ``picture`` and the ``numbers`` for MultiQC."""
    return {
        "page": page, "picture": page.with_name(f"{page.stem}_mqc.png"),
        "numbers": page.with_name(f"{page.stem}_stats.json"),
    }


def is_tracked(record: Record) -> bool:
    """Whether the run has tracked; else it has read a tractogram, of which less is known."""
    return "dg" in record["parameters"]


def title(record: Record, output: str | None) -> str:
    """Return the file that a page is about: the tractogram, or without one the first product."""
    read = record["inputs"].get("tractogram")
    known = output if read is None else str(read["path"])
    return known or next(iter(outputs(record, None)), "streamlines in memory")


def changed_options(record: Record) -> Json:
    """Return the options whose values are not the defaults of the direction getter, the model and the stopping rule."""
    parameters = record["parameters"]
    if not is_tracked(record):
        usual = defaults()
        return {name: value for name, value in parameters.items() if value != usual[name]}
    named = ("dg", "model", "stopping", "like", "sh_basis", "sphere", "asymmetric", "max_length", *SOURCES)
    chosen = {name: parameters[name] for name in named if parameters.get(name) is not None}
    usual = {**_usual(json.dumps(chosen), tuple(options()))}
    source = next((name for name in SOURCES if parameters.get(name)), "model")
    usual |= dict.fromkeys((*SOURCES, "sh_basis", "like")) | {"sphere": "default", "asymmetric": False}
    usual |= {"dg": default_method(source), "stopping": METHODS[parameters["dg"]].defaults.get("stopping", "threshold")}
    usual["max_length"] = METHODS[parameters["dg"]].defaults.get("max_length")
    usual["model"] = METHODS[parameters["dg"]].defaults.get("model") if source == "model" else None
    return {
        name: value for name, value in parameters.items()
        if name in options() and value is not None and value != usual.get(name)
    }


@lru_cache(maxsize=8)
def _usual(chosen: str, names: tuple[str, ...]) -> Json:
    """Return the values of all options by name where only these were chosen, a JSON object; ``names`` are those there
    are."""
    del names
    try:
        return Parameters(**json.loads(chosen)).as_dict()
    except (ParameterError, TypeError):  # of another version
        return {}


def command(record: Record, output: str | None) -> str:
    """Return the command of the command line with which the run can be repeated."""
    words, inputs = ["tistreamlines", "track" if is_tracked(record) else "map"], record["inputs"]
    words += [str(inputs[name]["path"]) for name in (*SERIES, "tractogram") if name in inputs]
    words += [] if output is None else ["-o", output]
    for name, value in changed_options(record).items():
        if name in HABITS and is_tracked(record):  # a page may be all that is made of a tractogram
            continue
        if kind(name) == "flag":
            words.append(flag(name if value else options()[name].off or name))
            continue
        for entry in value if isinstance(value, list | tuple) else [value]:
            items = entry if isinstance(entry, list | tuple) else [entry]
            words += [flag(name), *map(_digits, items)]
    words += ["--image", str(inputs["image"]["path"])] if "image" in inputs else []
    return shlex.join(words)


def _digits(item: object) -> str:
    """Return a value as the command line takes it, with all digits of a number."""
    return f"{item:g}" if isinstance(item, float) and float(f"{item:g}") == item else str(item)


def headline(record: Record) -> dict[str, str]:
    """Return the main numbers, by description."""
    result = record["result"]
    streamlines = {"streamlines": f"{result['streamlines']:,}"}
    lengths = {"mean length": f"{result['mean_mm']:.1f} mm", "median length": f"{result['median_mm']:.1f} mm"}
    if not is_tracked(record):
        return {**streamlines, **lengths, "points": f"{result['points']:,}"}
    dropped = sum(result["dropped"].values())
    grown = result["streamlines"] + dropped
    return {
        **streamlines,
        "seeds": f"{result['seeds']:,}",
        "dropped": f"{dropped / max(grown, 1):.1%}",
        **lengths,
        "tracking": f"{result['seconds'].get('track', 0.0):.3g} s",
    }


def method(record: Record) -> dict[str, str]:
    """Say how the run has tracked, and where."""
    parameters, result, versions = record["parameters"], record["result"], record["versions"]
    texts = (f"{name} {version}" for name, version in versions.items() if version != "not installed")
    made_with = {"versions": ", ".join(texts)}
    if not is_tracked(record):
        return {"device": f"{record['device']['arch']}: {record['device']['name']}", **made_with}
    row, rule = METHODS[parameters["dg"]], STOPPING_RULES[parameters["stopping"]]
    sources = (f"{flag(name)} {parameters[name]}" for name in SOURCES if parameters.get(name))
    followed = next(sources, parameters.get("model") or "")
    return {
        "direction getter": f"{row.title} ({parameters['dg']})",
        "model or orientations": str(followed).upper() if followed == parameters.get("model") else str(followed),
        "stopping rule": f"{parameters['stopping']}: {rule.title}",
        "step size": f"{record['step_mm']:.4g} mm",
        "device": f"{result['arch']}: {result['device']}",
        "seconds": ", ".join(f"{name} {value:.3g}" for name, value in result["seconds"].items() if value),
        **made_with,
        "source": str(record["source"]),
    }


def reasons(kinds: Iterable[Stop] | Iterable[Verdict], counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """Return the texts of reasons and their counts, by name in lower case, the most first."""
    rows = [(reason.text, counts.get(reason.name.lower(), 0)) for reason in kinds]
    return sorted((row for row in rows if row[1]), key=lambda row: -row[1])


def inputs(record: Record) -> list[tuple[str, str, str]]:
    """Return the name, the path and the SHA-256 of each input."""
    known = (*input_names(), "image")
    return [
        (name.upper() if name in SERIES else flag(name.split()[0]) if name.split()[0] in known else name,
         str(file["path"]), str(file["sha256"]))
        for name, file in record["inputs"].items()
    ]


def outputs(record: Record, output: str | None) -> list[str]:
    """Return the files that the run has written."""
    products = [record[name] for name in PRODUCTS if name in record]
    files = [file for product in products for file in ([product] if "path" in product else product.get("files", []))]
    return [*([] if output is None else [output]), *(str(file["path"]) for file in files)]


def references(record: Record) -> list[str]:
    """Return the references of the method, if streamlines were tracked, and of all that was used besides."""
    parameters = record["parameters"]
    tracked = citations(parameters["dg"], parameters.get("model")) if is_tracked(record) else []
    others = {REFERENCES[paper] for option, paper in OF_OPTIONS.items() if parameters.get(option) is not None}
    return tracked + sorted(others)
