"""Lookup tables of parcellations that are damaged, odd or of another parcellation."""

from __future__ import annotations

import random

from .material import LABELS
from .products import DONE, EITHER, OTHER, REFUSED, SAME, mapped
from .room import Room

TABLE = "1 one\n2 two\n3 three\n4 four\n5 five\n6 six\n"
# text of a table -> what becomes of it
TABLES: dict[str, tuple[str | bytes, str, tuple[int, ...], str | None]] = {
    "plain": (TABLE, ".txt", DONE, SAME),
    "with CRLF, a mark and spaces": ("\ufeff" + TABLE.replace("\n", "  \r\n").replace(" ", "\t"), ".txt", DONE, SAME),
    "with comments": ("# No. Name\n\n0 Unknown 0 0 0 0\n" + TABLE, ".txt", DONE, SAME),
    "quotes of names": (TABLE.replace("two", '"two of\'s"'), ".txt", DONE, SAME),
    "some nodes only": ("3 three\n1 one\n", ".txt", DONE, OTHER),
    "nodes without voxels": (TABLE + "99 none\n1000000000 far\n", ".txt", DONE, OTHER),
    "other nodes": ("77 none\n", ".txt", REFUSED, OTHER),
    "a label twice, as in tables for labelconvert": (TABLE + "2 again\n", ".txt", DONE, SAME),
    "a label below 0": ("index\tname\n-2\tbelow\n1\tone\n", ".tsv", REFUSED, OTHER),
    "a label of 19 digits": (TABLE + "9" * 18 + " far\n", ".txt", EITHER, OTHER),
    "a label of 30 digits": (TABLE + "9" * 30 + " far\n", ".txt", REFUSED, OTHER),
    "a label of 5,000 digits": (TABLE + "9" * 5000 + " far\n", ".txt", REFUSED, OTHER),
    "other digits": ("² two\n", ".txt", REFUSED, OTHER),
    "30,000 nodes": ("\n".join(f"{k} n{k}" for k in range(1, 30_001)), ".txt", REFUSED, OTHER),
    "no names": ("1\n2\n3\n", ".txt", REFUSED, OTHER),
    "no labels": ("one\ntwo\n", ".txt", REFUSED, OTHER),
    "empty": ("", ".txt", REFUSED, OTHER),
    "Latin-1": (TABLE.replace("two", "zwölf").encode("latin-1"), ".txt", REFUSED, OTHER),
    "UTF-16": (TABLE.encode("utf-16"), ".txt", REFUSED, OTHER),
    "bytes": (bytes(range(256)) * 3, ".txt", REFUSED, OTHER),
    "an open quote": (TABLE + '7 "seven\n', ".txt", REFUSED, OTHER),
    "names with breaks": ('index\tname\n1\t"o\nn\te"\n2\ttwo\n', ".tsv", DONE, OTHER),
    "other columns": ("label\tname\n1\tone\n", ".tsv", REFUSED, OTHER),
    "words for numbers": ("index\tname\none\tone\n", ".tsv", REFUSED, OTHER),
    "a fraction": ("index\tname\n1.5\tone\n", ".tsv", REFUSED, OTHER),
    "missing cells": ("index\tname\n1\n2\ttwo\n", ".tsv", EITHER, OTHER),
    "empty cells": ("index\tname\n\tone\n", ".tsv", REFUSED, OTHER),
    "a wide cell": ("index\tname\n1\t" + "x" * 200_000 + "\n", ".tsv", EITHER, OTHER),
    "a header alone": ("index\tname\n", ".tsv", REFUSED, OTHER),
    "XML that is cut": ('<atlas><data><label index="1">one</label>', ".xml", REFUSED, OTHER),
    "XML without numbers": ("<atlas><data><label>one</label></data></atlas>", ".xml", REFUSED, OTHER),
    "other XML": ("<svg></svg>", ".xml", REFUSED, OTHER),
    "XML that grows": (
        '<!DOCTYPE a [<!ENTITY x0 "grows grows">' + "".join(
            f'<!ENTITY x{k + 1} "{f"&x{k};" * 10}">' for k in range(12)
        ) + ']><atlas><data><label index="1">&x12;</label></data></atlas>', ".xml", REFUSED, OTHER,
    ),
}


def lookup_tables(rng: random.Random, room: Room) -> list[str]:
    """Give a table of nodes that is damaged, odd or of another parcellation."""
    name = rng.choice(sorted(TABLES))
    content, suffix, codes, run = TABLES[name]
    room.did.append(name)
    table = room.inputs / f"odd{suffix}"
    table.write_bytes(content if isinstance(content, bytes) else content.encode())
    return mapped(room, LABELS, "--connectome-nodes", table.name, codes=codes, run=run)
