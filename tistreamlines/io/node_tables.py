"""Lookup tables of parcellations: labels and names, as FreeSurfer, MRtrix3, FSL, ITK-SNAP and BIDS write them."""

from __future__ import annotations

import csv
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from ..errors import InputError
from .images import existing_path, reading
from .tables import name_of_cell

LONGEST, WIDEST = 1 << 23, 1 << 16  # bytes of a table, and letters of a line of words
_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?")


def read_nodes(path: str | Path) -> dict[int, str]:
    """Return the names of the nodes of a lookup table by label, in its order; label 0 is left out.

    Parameters
    ----------
    path : str or Path
        A table of FreeSurfer or MRtrix3 (label, one or two names, perhaps colours), of ITK-SNAP, of BIDS (.tsv with the
        columns ``index`` and ``name``, or ``label`` as in AtlasPack), or of FSL (.xml). An atlas of FSL whose type is
        not 'Label' has images in which labels begin with 1, though the table begins with 0.

    Raises
    ------
    InputError
        If the file cannot be read or is far larger than a table, or if it has no label, one below 0, or one of more
        than 31 bits; of BIDS and FSL, also if it has one twice.
    """
    path = existing_path(path)
    if (size := path.stat().st_size) > LONGEST:
        raise InputError(f"{path}: has {size:,} bytes, which is no table of labels and names; give one")
    with reading(path):
        suffix = path.suffix.lower()
        rows = list((_xml if suffix == ".xml" else _bids if suffix == ".tsv" else _text)(path))
    names: dict[int, str] = {}
    for label, name in rows:
        if label in names:
            raise InputError(f"{path}: label {label} is there twice; leave one of them out")
        if not 0 <= label < 2**31:
            raise InputError(f"{path}: label {label} is below 0 or beyond 2^31 - 1; give labels from 1 on")
        names[label] = " ".join(name.split())  # on one line, which tables of XML need not have
    names.pop(0, None)
    if not names:
        raise InputError(f"{path}: has no label and name; give a table of FreeSurfer, MRtrix3, FSL or BIDS")
    return names


def _xml(path: Path) -> Iterator[tuple[int, str]]:
    """Read the labels of an atlas of FSL: the ``value`` of voxels, or what the type makes of the ``index``."""
    root = ElementTree.parse(path).getroot()
    kind = (root.findtext("header/type") or "").strip().lower()
    for node in root.iter("label"):
        if not kind and "value" not in node.attrib:
            raise InputError(f"{path}: has no <type> in its header, which says whether labels begin at 0 or 1; add it")
        label = node.attrib.get("value", int(node.attrib["index"]) + (kind != "label"))
        yield int(label), (node.text or "").strip()


def _bids(path: Path) -> Iterator[tuple[int, str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        table = csv.DictReader(file, delimiter="\t")
        columns = table.fieldnames or ()
        named = next((column for column in ("name", "label") if column in columns), None)
        if named is None or "index" not in columns:
            raise InputError(f"{path}: has no columns 'index' and 'name', which a table of BIDS has; add them")
        for row in table:
            yield int(row["index"]), name_of_cell(row[named] or "")


def _words(line: str) -> list[str]:
    """Return the words of a line without a comment; quotes hold several together."""
    if not any(letter in line for letter in '"\\#'):
        return [word for word in re.split(r"[ \t\r\n]+", line) if word]
    lexer = shlex.shlex(line, posix=True)  # slow: a microsecond a letter
    lexer.whitespace_split, lexer.quotes = True, '"'  # names may have an apostrophe
    return list(lexer)


def _text(path: Path) -> Iterator[tuple[int, str]]:
    """Read lines of words: the label is the first whole number, the name all words that are no numbers.

    Of two of these, a short and a long name, the long one is the name. Of a label with several names, such as that of
    the thalamus in tables for MRtrix3's labelconvert, it is the first.
    """
    names_of_labels: dict[int, list[str]] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").splitlines(), 1):
        if len(line) > WIDEST:
            raise InputError(f"{path}: line {number} has {len(line):,} letters; correct it")
        if not (words := _words(line)):
            continue
        whole = [word for word in words if word.isdecimal()]
        names = [word for word in words if not _NUMBER.fullmatch(word)]
        if not whole or not names:
            raise InputError(f"{path}: line {number} has no label and name: {line.strip()[:60]!r}; correct it")
        names_of_labels.setdefault(int(whole[0]), names)
    long_names = {names[-1] for names in names_of_labels.values()}
    both = {len(names) for names in names_of_labels.values()} == {2} and len(long_names) == len(names_of_labels)
    for label, names in names_of_labels.items():
        yield label, names[-1] if both else " ".join(names)
