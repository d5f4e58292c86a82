"""A cohort: a table with a row for each subject, and the command of each, a template with the cells of that row."""

from __future__ import annotations

import csv
import io
import os
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from ..errors import InputError, ParameterError, TrackingError
from ..io.images import existing_path
from ..io.regular import read_regular
from ..io.tables import SEPARATORS
from ..options.parameters import Parameters
from ..run import bids
from ..run.outputs import Outputs
from ..run.products import with_weights
from .options import options_of
from .track import check_use
from .track import track as track_command

PROGRAM, TRACK = "tistreamlines", "track"
PLACE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")
EMPTY = ("", "n/a")  # cells without a value; the second is that of BIDS
SERIES = ("dwi", "bvals", "bvecs")
BARRED = {"dry_run": "--dry-run", "citations": "--citations"}


@dataclass(frozen=True)
class Row:
    """A row of a table: the number of its line, and its cells by the heading of their column."""

    line: int
    cells: Mapping[str, str]

    @property
    def name(self) -> str:
        """The first cell, which names the subject."""
        return next(iter(self.cells.values()))


@dataclass(frozen=True, eq=False)
class Subject:
    """A subject, and its command.

    Attributes
    ----------
    row : its row of the table.
    words : of the command, from ``track`` on.
    series : paths of ``dwi``, ``bvals`` and ``bvecs``, as far as the command names them.
    parameters : all options.
    outputs : the files that the command writes.
    """

    row: Row
    words: tuple[str, ...]
    series: Mapping[str, str]
    parameters: Parameters
    outputs: Outputs

    @property
    def name(self) -> str:
        """The first cell of its row."""
        return self.row.name

    @property
    def log(self) -> Path:
        """The file for all that the command prints, beside its first output."""
        first = self.outputs.main[-1] if self.outputs.tractogram is None else self.outputs.tractogram
        return first.with_name(f"{first.name}.log")


def read_subjects(table: Path, template: Sequence[str]) -> list[Subject]:
    """Return the subjects of a table.

    Parameters
    ----------
    table : .tsv or .csv, with headings in the first line.
    template : words of a command, in which ``{heading}`` stands for the cell of that column, and ``{{`` for a brace.

    Raises
    ------
    InputError
        If the table cannot be read, or lacks a cell that the command needs.
    ParameterError
        If the command has a column that is missing, if its options are wrong, or if two rows have a file in common.
    """
    words = template[1:] if template[:1] == (PROGRAM,) else template
    if not words:
        raise ParameterError("the command is missing: give -- track and its options after the table")
    if words[0] != TRACK:
        raise ParameterError(f"the command after -- is {words[0]!r}: give {TRACK} and its options")
    subjects, writers = list[Subject](), dict[Path, Row]()
    for row in read_rows(table):
        filled = tuple(_filled(word, row, table) for word in words)
        try:
            subject = _subject(row, filled)
        except (click.UsageError, TrackingError) as error:
            message = error.format_message() if isinstance(error, click.UsageError) else error.on_command_line
            raise ParameterError(f"{table}, line {row.line} ({row.name}): {message}") from error
        for path in (*subject.outputs.places, subject.log):
            other = writers.setdefault(path, row)
            if other is not row:
                name = f"{{{next(iter(row.cells))}}}.trx"
                raise ParameterError(
                    f"{table}: lines {other.line} and {row.line} ({other.name}, {row.name}) both write {path}: name it "
                    f"with columns that tell subjects apart, as in -o {name}"
                )
        subjects.append(subject)
    return subjects


def command_line(words: Sequence[str]) -> str:
    """Return the command of a subject as a shell reads it."""
    if os.name == "nt":
        return subprocess.list2cmdline([PROGRAM, *words])
    return shlex.join([PROGRAM, *words])


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a table, each with a cell for each heading."""
    separator = SEPARATORS.get(path.suffix.lower())
    if separator is None:
        raise InputError(f"{path}: unknown suffix {path.suffix!r}; give a table that ends with {', '.join(SEPARATORS)}")
    lines = list(_lines(path, separator))
    if len(lines) < 2:
        raise InputError(f"{path}: has no subjects: give a line of headings, and a line for each subject")
    (_, headings), *rows = lines
    if twice := {name for name in headings if headings.count(name) > 1}:
        raise InputError(f"{path}: has two columns {min(twice)!r}; rename one of them")
    for line, cells in rows:
        if len(cells) != len(headings):
            raise InputError(f"{path}, line {line}: has {len(cells)} cells, and the table {len(headings)} columns")
    return [Row(line, dict(zip(headings, cells, strict=True))) for line, cells in rows]


def _lines(path: Path, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Return the cells of each line that has some, with its number; tabs have no quotes, as in BIDS."""
    try:
        text = read_regular(existing_path(path)).decode("utf-8-sig")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check the path") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not in UTF-8 (byte {error.start + 1}); save it as text in UTF-8") from error
    if "\0" in text:
        raise InputError(f"{path}: has a NUL, which no text has; save it as text in UTF-8")
    quoting = csv.QUOTE_NONE if separator == "\t" else csv.QUOTE_MINIMAL
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, quoting=quoting)
    try:
        for cells in reader:
            if any(map(str.strip, cells)):
                yield reader.line_num, [cell.strip() for cell in cells]
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num}: cannot be read ({error})") from error


def _filled(word: str, row: Row, table: Path) -> str:
    """Return a word of the template with the cells of a row."""

    def cell(place: re.Match[str]) -> str:
        name = place[1]
        if name is None:
            return place[0][0]
        if name not in row.cells:
            raise ParameterError(f"{{{name}}} is no column of {table}, which has {', '.join(row.cells)}")
        if row.cells[name] in EMPTY:
            raise InputError(
                f"{table}, line {row.line} ({row.name}): has no value in the column {name}, which the command needs"
            )
        return row.cells[name]

    return PLACE.sub(cell, word)


def _subject(row: Row, words: tuple[str, ...]) -> Subject:
    """Read the options of a command as the command itself does."""
    with track_command.make_context(f"{PROGRAM} {TRACK}", list(words[1:])) as context:
        check_use(context)
        for name, option in BARRED.items():
            if context.params[name]:
                raise ParameterError(f"{option} cannot be among the options of {TRACK} here: leave it out")
        named, chosen = context.params["output"], Parameters.given(options_of(context))
        series: dict[str, str] = dict(zip(SERIES, context.params["series"], strict=False))
    output = None if named is None else Path(named)
    if chosen.bids_out is not None:
        output, chosen = bids.named(series.get("dwi"), output, chosen)
    chosen = with_weights(chosen, output)
    return Subject(row, words, series, chosen, Outputs.of(output, chosen))
