"""Renew the generated parts of the documents from the code, the examples and the results: python docs/generate.py.

It also writes the stub of ``stub.py``.

A part lies between ``<!-- generated: NAME -->`` and ``<!-- /generated: NAME -->``. A test,
``tests/repository/test_documents.py``, compares the committed parts with what this script makes.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import click

sys.path.insert(0, str(Path(__file__).resolve().parent))  # the tests import this file
from equivalents import ALIKE, DIPY_NAMES
from measured import (
    SCAN,
    changed_defaults,
    fastest_commands,
    files_to_file,
    parity,
    speed,
    table,
    truth,
    tutorial_again,
    tutorial_map,
    tutorial_printed,
)

from tistreamlines import dipy
from tistreamlines.cli.hints import HINTS
from tistreamlines.cli.main import COMMANDS, cli
from tistreamlines.cli.options import explanation
from tistreamlines.devices import Device
from tistreamlines.dipy.keywords import MORE
from tistreamlines.io.trk import PROPERTIES
from tistreamlines.io.trx import MEMBERS, POINTS
from tistreamlines.kernels.stop_reasons import DROPPED, Stop
from tistreamlines.option import flag
from tistreamlines.options.definitions import kind, options
from tistreamlines.options.objects import TABLES, class_name, row_options
from tistreamlines.options.parameters import Parameters
from tistreamlines.run import record as records
from tistreamlines.run.record import record
from tistreamlines.run.result import TrackResult
from tistreamlines.space.batch import Batch
from tistreamlines.tracking.references import REFERENCES
from tistreamlines.tracking.registry import METHODS
from tistreamlines.tracking.sources import describe_inputs

ROOT = Path(__file__).resolve().parents[1]
PART = re.compile(r"<!-- generated: ([a-z-]+) -->\n.*?<!-- /generated: \1 -->", re.DOTALL)


def _plain(text: str) -> str:
    """Keep Markdown from reading marks in a cell: bars, asterisks and brackets."""
    return re.sub(r"([|*<>\[\]])", r"\\\1", " ".join(text.split()))


def _prose(text: str) -> str:
    """Write the text of a help for a cell, with options as code."""
    return re.sub(r"(?<![\w-])--[a-z][a-z0-9-]*", r"`\g<0>`", _plain(text))


def _value(name: str, option: Any) -> str:
    """What an option takes: its words, or its unit."""
    if kind(name) == "flag":
        return f"flag; `{flag(option.off)}` turns it off" if option.off else "flag"
    return ", ".join(f"`{word}`" for word in option.choices) or _plain(option.unit)


def track_options() -> str:
    """The options of ``tistreamlines track``, a table for each group."""
    groups: dict[str, list[list[str]]] = {}
    for name, option in options().items():
        text, _, notes = explanation(name, option).partition("  [")
        row = [f"`{flag(name)}`", _value(name, option), _prose(text), _prose(notes.removesuffix("]"))]
        groups.setdefault(option.group, []).append(row)
    head = ("Option", "Value or unit", "Meaning", "Range and default")
    return "\n\n".join(f"### {group}\n\n{table(head, rows)}" for group, rows in groups.items())


def command_options() -> str:
    """The options of each command, without those that it shares with tracking."""
    shared, parts = {(flag(name), explanation(name, option)) for name, option in options().items()}, []
    with click.Context(cli) as context:
        for name in COMMANDS:
            command = cli.get_command(context, name)
            shown = [option for option in command.params if isinstance(option, click.Option) and not option.hidden]
            shown = [option for option in shown if (option.opts[0], option.help) not in shared]
            records = [option.get_help_record(click.Context(command)) for option in shown]
            rows = [("`" + record[0].replace("|", ", ") + "`", _prose(record[1])) for record in records]
            parts.append(f"### tistreamlines {name}\n\n{COMMANDS[name]}\n\n{table(('Option', 'Meaning'), rows)}")
    return "\n\n".join(parts)


def getters() -> str:
    """The direction getters of ``--dg``."""
    head = ("`--dg`", "what it is", "needs", "models", "use it when", "references")
    rows = (
        [f"`{name}`", row.title, describe_inputs(row.follows), ", ".join(row.models) or "none", row.use,
         ", ".join(row.references)]
        for name, row in METHODS.items()
    )
    return table(head, rows)


def objects() -> str:
    """The objects of the rows of the registries, and the keywords that they take."""
    rows = []
    for option, table_of in TABLES.items():
        for name in table_of:
            names = ", ".join(f"`{argument.name}`" for argument in row_options(option, name))
            shown = class_name(option, name)
            rows.append((f"[`{shown}`](#tistreamlines.{shown})", f'`{option}="{name}"`', names))
    return table(("Object", "stands for", "and takes"), rows)


def object_docstrings() -> str:
    """The docstrings of these objects, which the site shows."""
    names = (class_name(option, name) for option, table_of in TABLES.items() for name in table_of)
    return "\n\n".join(f"::: tistreamlines.{name}\n    options:\n      heading_level: 4" for name in names)


def dipy_defaults() -> str:
    """The keywords of each function of DIPY, with their defaults."""
    rows = []
    for name in (name for name in dipy.__all__ if name.endswith("racking")):
        arguments = inspect.signature(getattr(dipy, name)).parameters.values()
        dipys = (row for row in arguments if row.kind is row.KEYWORD_ONLY and row.name not in MORE)
        keywords = (f"`{row.name}={row.default!r}`" for row in dipys)
        rows.append((f"`{name}`", ", ".join(keywords)))
    return table(("Function", "Keywords"), rows)


def references() -> str:
    """All references of the getters, the models and what every run uses."""
    return "\n".join(f"- {reference}" for reference in REFERENCES.values())


def stop_reasons() -> str:
    """Why a half of a streamline ended, whether its last point is kept, and whether it is a valid end."""
    rows = (
        [str(int(stop)), f"`{stop.name}`", stop.text, "yes" if stop.keeps_last_point else "no",
         "yes" if stop.valid else "no"]
        for stop in Stop if stop is not Stop.GROWING
    )
    return table(("Number", "Name", "Reason", "Last point is kept", "Valid end"), rows)


def dropped() -> str:
    """Why streamlines are dropped."""
    return table(("Name", "Reason"), ([f"`{verdict.name.lower()}`", verdict.text] for verdict in DROPPED))


def _described(kind: type, section: str) -> list[tuple[list[str], str, str]]:
    """Names, type and text of each entry in a section of a docstring in NumPy's style."""
    text = inspect.getdoc(kind) or ""
    body = re.split(rf"^{section}\n-+\n", text, flags=re.MULTILINE)[1]
    body = re.split(r"^\w+\n-+\n", body, flags=re.MULTILINE)[0]
    fields = re.findall(r"^(\w[\w, ]*) : (.+)\n((?:(?:    .*)?\n?)*)", body, flags=re.MULTILINE)
    return [(names.split(", "), sort, " ".join(words.replace("``", "`").split())) for names, sort, words in fields]


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def trx_members() -> str:
    """What a .trx file holds of each streamline, and which properties a .trk file has."""
    texts = {name: text for names, _, text in _described(Batch, "Parameters") for name in names}
    rows = [(f"`{POINTS}`", "points of the file", texts["points"])]
    for name, member in MEMBERS.items():
        numbers = f"`{name}`, {PROPERTIES[name]} number{'s' if PROPERTIES[name] > 1 else ''}"
        text = re.sub(r": see `kernels.*", ", as numbers of the table below.", texts[name])
        rows.append((f"`{member}`", numbers, text))
    return table(("In .trx", "In .trk", "Meaning"), rows)


def result_fields() -> str:
    """The numbers of a run: in Python, in the record and in the file of --json-stats."""
    keys, rows = records.keys_of(records.Result), []
    for names, sort, text in _described(TrackResult, "Attributes"):
        fields = [name for name in names if name in keys]
        rows.append((_names(names), _names(keys[name] for name in fields) or "–", sort, _plain(text)))
    return table(("In Python", "In JSON", "Type", "Meaning"), rows)


# what the record says, beside the fields that docstrings describe
RECORD = {
    "made_by": "`tistreamlines`, by which the program knows its own records.",
    "versions": "Versions of tistreamlines, Python, the system and the libraries that can affect results.",
    "source": "SHA-256 of the package's source.",
    "device": "The device, or the first of several; its fields are below.",
    "devices": "All devices, if there were several.",
    "inputs": "Path and SHA-256 of each input file, by the name of the argument or option. Of a folder, `+` joins the "
    "hashes of its files; `files` lists those of a subject's folder.",
    "parameters": "All options by name, defaults included; `null` if an option does not apply or is left to the data.",
    "step_mm": "Step size in mm.",
    "stop_threshold": "Threshold of the stop map; `null` with the other stopping rules.",
    "stop_reason_codes": "Meaning of the numbers in `stop_reasons` of the tractogram.",
    "result": "The numbers of the run: the fields of the table above that have a name in JSON.",
    "frames": "Axes that were chosen for gradients and orientations: `frame`, `decided_by` (`option`, `grid`, "
    "`coherence` or `default`), and the fibre `coherence` with each candidate.",
    "chosen": "What the data decided: the shells in `b` and those of them that `models` and `fa` are fitted to, the "
    "order of the harmonics, and for CSD the response and the weight of its constraint.",
    "five_tissues": "With `--save-5tt`: `path` and `sha256` of the image.",
    "warnings": "Warnings of the run.",
    "part": "With `--part`: `number` and `of`, the part's `first_seed` and its number of `seeds`.",
    "piece": "Only in the pieces that `--resume` keeps: the `first_seed` of the piece and its number of `seeds`.",
    "compiler": "On a GPU: the compiler of the kernels and its version.",
    "density": "With `--density`: `path` and `sha256` of the map, its `shape`, `affine` and `kind`.",
    "ends": "With `--ends`: `path` and `sha256` of the map, its `shape` and `affine`.",
    "connectome": "With `--connectome`: for each of the `matrices`, its `labels`, the numbers of its `nodes`, of the "
    "`streamlines` and of those with an end without a node (`unassigned`); and the `files`, each with its measure.",
    "seed_matrix": "With `--seed-matrix`: for each of the `matrices`, the masks of its `rows` and `columns`, its "
    "`shape`, the number of `pairs` with streamlines, of the `streamlines` that are long enough and of those that are "
    "`counted` in a pair; and the `files`.",
    "seeds_to_targets": "With `--seeds-to-targets`: for each of the `matrices`, the mask of its `seeds`, the file of "
    "each of its `targets` by name, its `shape`, the numbers of all `streamlines`, of those that begin in a seed voxel "
    "(`seeded`) and of these, those that reach a target (`counted`); and the `files`.",
    "voxel_matrix": "With `--voxel-matrix`: the same as for `--seed-matrix`.",
    "rejected": "With `--rejected`: `path` and `sha256` of the map, its `shape` and `affine`, and for each of its "
    "`volumes` the `name`, the `reason` in words and the number of `streamlines`.",
    "waytotal": "With `--waytotal`: `path` and `sha256` of the file, and the number of `streamlines`.",
    "samples": "With `--sample`: the map of each name.",
    "sample_table": "With `--sample-table`: `path` and `sha256` of the table, and the `maps` by name.",
    "tractogram": "`format` of the tractogram; of a .trx file also `contents`, a hash of what it holds, and its number "
    "of `points`, which are fewer than those that were tracked with `--endpoints-only`, `--compress` or "
    "`--downsample`.",
    "StreamlineSeeding": "With `--bids-out`: this field and those below that begin with `Streamline` are BEP046's "
    "(`docs/bids.md`).",
    "checksum": "SHA-256 of the rest of the record. `tistreamlines join` and `--resume` refuse an edited record.",
}


def record_fields() -> str:
    """The fields of the record beside a tractogram."""
    known = {*record(Parameters(), 1.0, {}, {}, {}), *records.keys_of(records.RunRecord).values()} - {"content"}
    if missing := known - RECORD.keys():
        raise KeyError(f"RECORD lacks {sorted(missing)}")
    return table(("Field", "Meaning"), ((f"`{name}`", text) for name, text in RECORD.items()))


def device_fields() -> str:
    """The fields of a device in the record."""
    rows = ((_names(names), sort, _plain(text)) for names, sort, text in _described(Device, "Attributes"))
    return table(("Field", "Type", "Meaning"), rows)


def source(path: str, function: str = "") -> str:
    """A file of the repository, or one function of it, as a block of code."""
    text = (ROOT / path).read_text(encoding="utf-8").strip()
    if function:
        (definition,) = (node for node in ast.parse(text).body if getattr(node, "name", "") == function)
        text = "\n".join(text.splitlines()[definition.lineno - 1 : definition.end_lineno]).replace("", "")
    return f"```python\n{text}\n```"


def _in_code(text: str) -> str:
    """Set the options that a text names in code, with their values."""

    def code(match: re.Match[str]) -> str:
        known = options().get(match[1].removeprefix("--").replace("-", "_"))
        values = {"FILE", "NUMBER", *(known.choices if known else ())}
        taken = match[2].strip() in values or match[2].strip().replace(".", "").isdigit()
        return f"`{match[1]}{match[2]}`" if taken else f"`{match[1]}`{match[2]}"

    return re.sub(r"(?<![\w-])(--?[a-z][a-z-]*(?:_[a-z]+)*)( [\w.-]*\w|)", code, text)


def hints(program: str) -> str:
    """The options of another program, and what to write in place of each."""
    rows, dash = [], "-" if program == "tckgen" else "--"
    for hint in HINTS:
        theirs = ", ".join(f"`{dash}{name.replace('-', '_')}`" for name in hint.of(program))
        if theirs:
            rows.append((theirs, _in_code(hint.advice.removeprefix("write "))))
    if program == "tckgen":
        rows.append((", ".join(f"`-{name.replace('-', '_')}`" for name in ALIKE), "the same, with two dashes"))
    return table((f"`{program}`", "tistreamlines"), rows)


def dipy_names() -> str:
    """What DIPY's functions and classes are called here."""
    return table(("DIPY", "tistreamlines"), ((f"`{name}`", _in_code(ours)) for name, ours in DIPY_NAMES.items()))


PARTS = {
    "objects": objects, "object-docstrings": object_docstrings, "track-options": track_options,
    "command-options": command_options, "getters": getters,
    "dipy-defaults": dipy_defaults, "references": references, "trx-members": trx_members,
    "result-fields": result_fields, "record-fields": record_fields, "device-fields": device_fields,
    "stop-reasons": stop_reasons, "dropped": dropped, "speed": speed,
    "files-to-file": files_to_file, "fastest-commands": fastest_commands, "parity": parity,
    "truth": partial(truth, "two-cores-truth.json", "valid_bundles", "mm", "median_mm"),
    "truth-last": partial(truth, "h200-host-truth-last.json", "valid_bundles", "mm", "median_mm"),
    "truth-shells": partial(truth, "two-cores-truth-shells.json", "valid_bundles", "mm", "median_mm"),
    "fibercup": partial(truth, "two-cores-fibercup.json", *SCAN),
    "truth-weight": partial(truth, "h200-host-truth-weight.json", "valid_bundles", "mm", "median_mm", "voxel_mm"),
    "changed-defaults": changed_defaults,
    "hints-tckgen": partial(hints, "tckgen"), "hints-dipy-track": partial(hints, "dipy_track"),
    "names-dipy": dipy_names,
    "method-kernel": partial(source, "tests/support/straightest.py"),
    "rule-kernel": partial(source, "tests/support/fading.py"),
    "host-side": partial(source, "tests/support/toys.py"),
    "tutorial-mask": partial(source, "docs/tutorial.py", "make_mask"),
    "tutorial-colours": partial(source, "docs/tutorial.py", "colours_of_fa"),
    "tutorial-map": partial(source, "docs/tutorial.py", "look_at_the_map"),
    "tutorial-brain-printed": partial(tutorial_printed, "brain"),
    "tutorial-first-printed": partial(tutorial_printed, "first"),
    "tutorial-bundle-printed": partial(tutorial_printed, "cst"),
    "tutorial-python-printed": partial(tutorial_printed, "python"),
    "tutorial-phantom-printed": partial(tutorial_printed, "phantom_cst"),
    "last-lines": partial(tutorial_printed, "brain", 3),
    "tutorial-map-printed": tutorial_map, "tutorial-again": tutorial_again,
    "tutorial-track": partial(source, "docs/tutorial.py", "track_the_bundle"),
    "tutorial-look": partial(source, "docs/tutorial.py", "look_at"),
    "with-dipy": partial(source, "examples/beside_dipy.py", "with_dipy"),
    "with-tistreamlines": partial(source, "examples/beside_dipy.py", "with_tistreamlines"),
}


def renewed(text: str) -> str:
    """Return a document with its generated parts made anew."""

    def part(match: re.Match[str]) -> str:
        name = match[1]
        return f"<!-- generated: {name} -->\n\n{PARTS[name]()}\n\n<!-- /generated: {name} -->"

    return PART.sub(part, text)


def documents() -> list[Path]:
    """Documents that may have generated parts."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


if __name__ == "__main__":
    from stub import STUB, stub

    STUB.write_text(stub(), encoding="utf-8")
    for path in documents():
        path.write_text(renewed(path.read_text(encoding="utf-8")), encoding="utf-8")
