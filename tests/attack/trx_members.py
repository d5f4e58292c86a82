"""TRX files of other programs: members of odd types and sizes, in archives and folders of odd forms."""

from __future__ import annotations

import json
import random
import zipfile
from collections.abc import Callable
from typing import Any

from .material import LABELS, LINES
from .products import DONE, MATRIX, OTHER, REFUSED, SAME, judged
from .room import Room

Members = dict[str, bytes]
POSITIONS, OFFSETS = "positions.3.float32", "offsets.uint32"
ODD = ("object", "complex64", "bool", "int32", "U3", "S4", "V12", "M8[s]", "f4", ">f4", "float128", "csv", "")


def _typed(name: str) -> Callable[[random.Random, Members, Any], None]:
    """A member whose name says another type."""

    def changed(rng: random.Random, held: Members, header: Any) -> None:
        del header
        stem, content = name.rpartition(".")[0], held.pop(name)
        held[f"{stem}.{rng.choice(ODD)}"] = content

    return changed


def _twice(rng: random.Random, held: Members, header: Any) -> None:
    del header
    name = rng.choice(sorted(name for name in held if name.count(".") > 1 or name.startswith("dps")))
    stem, _, kind = name.rpartition(".")
    held[f"{stem}.{rng.choice(sorted({'float16', 'uint8', 'float64'} - {kind}))}"] = held[name]


def _offset(place: int, value: int) -> Callable[[random.Random, Members, Any], None]:
    """An offset of a value, counted from the first or the last one."""

    def changed(rng: random.Random, held: Members, header: Any) -> None:
        import numpy as np

        del rng, header
        values = np.frombuffer(held[OFFSETS], "<u4").astype("i8")
        values[place] += value
        held[OFFSETS] = values.astype("<u4").tobytes()

    return changed


def _header(**fields: Any) -> Callable[[random.Random, Members, Any], None]:
    def changed(rng: random.Random, held: Members, header: Any) -> None:
        del held
        for name, values in fields.items():
            header[name] = rng.choice(values)

    return changed


def _added(name: str, size: int) -> Callable[[random.Random, Members, Any], None]:
    def changed(rng: random.Random, held: Members, header: Any) -> None:
        del header
        held[name] = rng.randbytes(size)

    return changed


def _endless(rng: random.Random, held: Members, header: Any) -> None:
    """Leave out the end of the offsets, as some programs do."""
    del rng, header
    held[OFFSETS] = held[OFFSETS][:-4]


MATRICES = (
    [[0.0] * 4] * 4, [[float("nan")] * 4] * 4, [[1.0] * 4] * 4, [[1.0] * 3] * 3, [], "eye", None, [[1e400] * 4] * 4,
)
# what is changed -> whether it is still the same tractogram
CHANGES: dict[str, tuple[Callable[[random.Random, Members, Any], None], bool]] = {
    "nothing": (lambda rng, held, header: None, True),
    "offsets without their end": (_endless, True),
    "files that are no arrays": (_added("notes.txt", 9), True),
    "values of points": (_added("dps/a.json", 9), True),
    "positions of another type": (_typed(POSITIONS), False), "offsets of another type": (_typed(OFFSETS), False),
    "seeds of another type": (_typed("dps/seeds.3.float32"), False), "one array twice": (_twice, False),
    "a first offset inside": (_offset(0, 1), False), "a last offset inside": (_offset(-1, -1), False),
    "an offset beyond": (_offset(5, 1 << 30), False), "a last offset beyond": (_offset(-1, 1), False),
    "another affine": (_header(VOXEL_TO_RASMM=MATRICES), False),
    "other sides": (_header(DIMENSIONS=([0, 1, 1], [1, -5, 1], [1, 1], [1, 1, 70000], "abc", None)), False),
    "other counts": (_header(NB_STREAMLINES=(0, 1, -1, 10**9, 1e300, None, "4", True)), False),
    "other points": (_header(NB_VERTICES=(0, 1, -1, 10**15, 2.5, [3])), False),
    "values of other length": (_added("dps/a.float32", 7), False),
    "a group beyond": (_added("groups/a.uint32", 8), False),
    "values of objects": (_added("dpv/a.object", 80), False),
    "a group of reals": (_added("groups/a.float32", 8), False),
}


def foreign(rng: random.Random, room: Room) -> list[str]:
    """Change a .trx as other programs might write it, and store it in one of the forms of the format."""
    with zipfile.ZipFile(room.inputs / LINES) as file:
        held = {name: file.read(name) for name in file.namelist()}
    name, header = rng.choice(sorted(CHANGES)), json.loads(held.pop("header.json"))
    change, same = CHANGES[name]
    change(rng, held, header)
    form = rng.choice(("stored", "deflated", "folder", "below", "./"))
    held["header.json"] = json.dumps(header).encode()
    path = room.inputs / ("odd" if form == "folder" else "odd.trx")
    below = {"below": "brain.trx/", "./": "./"}.get(form, "")
    with zipfile.ZipFile(path.with_suffix(".trx"), "w", zipfile.ZIP_DEFLATED if form == "deflated" else 0) as file:
        for array, content in held.items():
            file.writestr(below + array, content)
    if form == "folder":
        with zipfile.ZipFile(path.with_suffix(".trx")) as file:
            file.extractall(path)
    room.did.append(f"{name}, {form}")
    outcome = room.run(["map", path.name, "--connectome", LABELS, f"../out/{MATRIX}"])
    return judged(room, outcome, DONE if same else REFUSED, SAME if same else OTHER)
