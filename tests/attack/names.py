"""Names of files that are too long, odd, or no text, wherever a command takes one."""

from __future__ import annotations

import os
import random
import shutil

from .material import LABELS, LINES
from .room import COMPILING, Room, number_up_to

LETTERS = ("\udcff", "\udc80", "é", "e\u0301", "☃", "\U0001f9e0", " ", "\n", "\t", "\x1b[31m", "%s", "{}", "[bold]",
           "'", '"', "\\", "*", "$HOME", "&lt;", "</script>", "-", ".", "~", "\u202e")
LENGTHS = (1, 3, 60, 200, 230, 245, 251, 255, 256, 300, 5000)
GRID = ("--density-grid", "stop.nii.gz")


def odd(rng: random.Random, room: Room) -> list[str]:
    """Give one odd name to an input or an output."""
    name = "".join(rng.choice(LETTERS) for _ in range(number_up_to(rng, 4))) * rng.choice((1, 1, 1, 40, 90))
    name = rng.choice((name, "x" * rng.choice(LENGTHS), "y/" * rng.choice((3, 300, 3000)) + name))
    place, suffix = rng.choice((("tractogram", ".trx"), ("labels", ".nii.gz"), ("matrix", ".csv"), ("ends", ".nii.gz"),
                                ("report", ".html"), ("page", ".html"), ("fixels", "")))
    names = {"tractogram": LINES, "labels": LABELS, "matrix": "../out/c.csv", "ends": "../out/e.nii.gz",
             "report": "../out/r.html", "page": "../out/v.html", "fixels": "../out/f"}
    name_of_file = name + suffix
    if place in ("tractogram", "labels"):
        try:
            shutil.copy(room.inputs / names[place], room.inputs / name_of_file)
        except (OSError, ValueError):
            room.did.append("no such file")
        names[place] = name_of_file
    else:
        names[place] = f"../out/{name_of_file}"
    room.did.append(f"{place} {name_of_file!r}")
    if place == "page":
        program = ["view", "--", names["tractogram"]]
        program[1:1] = ["-o", names["page"]]
    elif place == "fixels":
        program = ["fixels", "--sh-basis", "tournier07", "--", "mask.nii", names["fixels"]]
    else:
        program = ["map", "--connectome", names["labels"], names["matrix"], "--ends", names["ends"], *GRID]
        program += ["--report", names["report"]] if place == "report" else []
        program += ["--", names["tractogram"]]
    if any("\0" in word for word in program):
        return []
    return room.faults(room.run([os.fsdecode(os.fsencode(word)) for word in program], limit=COMPILING), name="none")
