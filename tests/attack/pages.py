"""Values, groups and weights of tractograms that nobody should give, of which ``view`` makes a page."""

from __future__ import annotations

import json
import random
import re
import struct
import zipfile
from base64 import b64decode
from pathlib import Path
from typing import Any

from .material import LABELS, LINES
from .products import EITHER
from .room import Room, number_up_to
from .tractograms import lines_of, write

NAMES = ("a", "</script><b>", "x" * 150, "fa (map)", "ä\u2028", "a.b", "%40", "\\", "'\"", " ")
KINDS = {"float32": 4, "float16": 2, "float64": 8, "int8": 1, "uint64": 8, "bit": 1, "object": 8, "U3": 12}
IMAGES = ("stop.nii.gz", LABELS, "none.nii.gz", "dwi.nii.gz", "dwi.bvec")


def values(rng: random.Random, room: Room) -> list[str]:
    """Add members of odd names, types, sizes and values to a .trx, or change the fields of values of a .trk."""
    path = room.inputs / rng.choice(("odd.trx", "odd.trk"))
    if path.suffix == ".trx":
        _add_members(rng, room, path.name)
    else:
        _write_trk(rng, room, path)
    more: list[str] = []
    for option, words in (("--map", IMAGES), ("--connectome", IMAGES), ("--group", NAMES), ("--weights", ("w.txt",))):
        if rng.random() < 0.15:
            more += [option, rng.choice(words)]
    lines = len(lines_of(room))
    count = rng.choice((1, lines, lines, lines))
    (room.inputs / "w.txt").write_text("\n".join(f"{10 ** rng.uniform(-3, 3):.9g}" for _ in range(count)))
    outcome = room.run(["view", path.name, *more, "-o", "../out/v.html"])
    faults = room.faults(outcome, codes=EITHER, name="v.html")
    return faults if outcome.code else faults + _wrong(room)


def _write_trk(rng: random.Random, room: Room, path: Path) -> None:
    """Write a .trk with two numbers of each point and of each streamline, of odd names or counts."""
    import numpy as np

    kinds, values = (0, 0x7FC00000, 0x7F800000, 0x3F800000), lines_of(room)  # 0, NaN, infinity, 1
    write(path, values, "f4")
    content = bytearray(path.read_bytes())
    for place, count in ((36, 2), (238, 2)):
        content[place : place + 2] = struct.pack("<h", count if rng.random() < 0.9 else number_up_to(rng, 12))
        for name in range(2):
            several = b"a\0" + str(rng.randrange(9)).encode()
            text = rng.choice((rng.choice(NAMES).encode("utf-8")[:20], rng.randbytes(20), several, b""))
            content[place + 2 + 20 * name : place + 22 + 20 * name] = text.ljust(20, b"\0")
            room.did.append(f"{text!r} at {place}")
    words = np.frombuffer(bytes(content[1000:]), "<i4")
    records, first = [], 0
    for line in values:
        points = words[first + 1 : first + 1 + 3 * len(line)].reshape(-1, 3)
        more = np.array([[rng.choice(kinds) for _ in range(2)] for _ in range(len(line) + 1)], "<i4")
        records.append(np.concatenate([[len(line)], np.hstack([points, more[1:]]).ravel(), more[0]]).astype("<i4"))
        first += 1 + points.size
    path.write_bytes(bytes(content[:1000]) + np.concatenate(records).tobytes())


def _add_members(rng: random.Random, room: Room, name: str) -> None:
    """Write the tractogram of the material with more members."""
    with zipfile.ZipFile(room.inputs / LINES) as file:
        held = {member: file.read(member) for member in file.namelist()}
    header = json.loads(held["header.json"])
    rows = {"dps": header["NB_STREAMLINES"], "dpv": header["NB_VERTICES"], "groups": rng.randrange(9)}
    for _ in range(rng.randrange(1, 5)):
        folder, kind = rng.choice(sorted(rows)), rng.choice(sorted(KINDS))
        kind = "uint8" if folder == "groups" else kind
        columns = rng.choice(("", "", ".3"))
        size = rows[folder] * KINDS.get(kind, 1) * (3 if columns else 1) + (rng.random() < 0.1)
        content = rng.choice((rng.randbytes(size), b"\xff" * size, bytes(size)))
        held[f"{folder}/{rng.choice(NAMES)}{columns}.{kind}"] = content
        room.did.append(f"{folder} of {columns}{kind}, {size} bytes")
    with zipfile.ZipFile(room.inputs / name, "w") as file:
        for member, content in held.items():
            file.writestr(member, content)


def _wrong(room: Room) -> list[str]:
    """What is wrong with a page: its parts are those that its script reads, and no name ends an element."""
    page = (room.out / "v.html").read_text(encoding="utf-8")
    parts: dict[str, Any] = dict(re.findall(r'<script type="[a-z]+/[a-z]+" id="([\w-]+)">([^<]*)</script>', page))
    facts = json.loads(parts["facts"])
    blocks = {name: len(b64decode(text)) for name, text in parts.items() if name != "facts"}
    faults = ["a name is an element of the page"] if "<b>" in page else []
    for place, each in enumerate(facts["values"]):
        low, high = each["window"]
        faults += [] if low < high else [f"{each['name']} has a window from {low} to {high}"]
        if not each["ofPoints"] and blocks[f"values-{place}"] != 4 * facts["shown"]:
            faults.append(f"{each['name']} has another number of values than there are streamlines")
    beyond = [group["name"] for group in facts["groups"] if max(group["places"], default=0) >= facts["shown"]]
    return faults + [f"{name} has a streamline that is not there" for name in beyond]
