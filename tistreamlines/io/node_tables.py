"""Lookup tables of parcellations: labels and names, as FreeSurfer, MRtrix3, FSL, ITK-SNAP and BIDS write them."""

from __future__ import annotations

import csv
import shlex
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from ..errors import InputError
from .images import existing, reading


def read_nodes(path: str | Path) -> dict[int, str]:
    """Return the names of the nodes of a lookup table by label, in its order; label 0 is left out.

    Parameters
    ----------
    path : str or Path
        A table of FreeSurfer or MRtrix3 (label, one or two names, perhaps colours), of ITK-SNAP, of BIDS (.tsv with the
        columns ``index`` and ``name``), or of FSL (.xml). An atlas of FSL whose type is not 'Label' has images in which
        labels begin with 1, though the table begins with 0.

    Raises
    ------
    InputError
        If the file cannot be read, or has no label, one twice, one below 0, or one of more than 31 bits.
    """
    path = existing(path)
    with reading(path):
        suffix = path.suffix.lower()
        rows = list((_xml if suffix == ".xml" else _bids if suffix == ".tsv" else _text)(path))
    found: dict[int, str] = {}
    for label, name in rows:
        if label in found:
            raise InputError(f"{path}: label {label} is there twice; leave one of them out")
        if not 0 <= label < 2**31:
            raise InputError(f"{path}: label {label} is below 0 or beyond 2^31 - 1; give labels from 1 on")
        found[label] = name
    found.pop(0, None)
    if not found:
        raise InputError(f"{path}: has no label and name; give a table of FreeSurfer, MRtrix3, FSL or BIDS")
    return found


def _xml(path: Path) -> Iterator[tuple[int, str]]:
    root = ElementTree.parse(path).getroot()
    begins = 0 if (root.findtext("header/type") or "").strip().lower() == "label" else 1
    for one in root.iter("label"):
        yield int(one.attrib["index"]) + begins, (one.text or "").strip()


def _bids(path: Path) -> Iterator[tuple[int, str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        table = csv.DictReader(file, delimiter="\t")
        if not {"index", "name"} <= set(table.fieldnames or ()):
            raise InputError(f"{path}: has no columns 'index' and 'name', which a table of BIDS has; add them")
        for row in table:
            yield int(row["index"]), row["name"]


def _text(path: Path) -> Iterator[tuple[int, str]]:
    """Read lines of words: the label is the first whole number, the name the last word that is none."""
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").splitlines(), 1):
        lexer = shlex.shlex(line, posix=True)
        lexer.whitespace_split, lexer.quotes = True, '"'  # names may have an apostrophe
        words = list(lexer)
        if not words:
            continue
        whole = [word for word in words if word.isdigit()]
        names = [word for word in words if not _is_number(word)]
        if not whole or not names:
            raise InputError(f"{path}: line {number} has no label and name: {line.strip()[:60]!r}; correct it")
        yield int(whole[0]), names[-1]


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
