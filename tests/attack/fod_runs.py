"""Series, responses and folders that are damaged or odd, of which ``tistreamlines fod`` makes FODs."""

from __future__ import annotations

import random

from .damage import damage
from .room import COMPILING, Room

# of white matter and fluid, for the shells of the small head
RESPONSES = {"wm.txt": "1000 0 0\n600 -200 40\n", "csf.txt": "4000\n200\n"}
ODD = (
    "", "nan 0\n1 0\n", "0 0\n0 0\n", "-5\n-3\n", "1e30 0\n1e30 1e30\n", "1000 0 0\n", "4000\n200\n10\n", "1 2\n3\n",
    "# Shells: 0,700\n1000 0\n600 -200\n", "words\n",
)
OPTIONS = (
    (), ("--lmax", "4"), ("--lmax", "2,2"), ("--lmax", "13"), ("--no-normalise",), ("--format", "nii.gz"),
    ("--sh-basis", "descoteaux07"), ("--sh-basis", "tournier07_legacy", "--format", "nii.gz"), ("--shells", "1000"),
    ("--shells", "5"), ("--report", "../out/r.html"), ("--report", "../out/f/r.html"), ("--threads", "3"), ("--force",),
)
INPUTS = ("dwi.nii.gz", "dwi.nii", "dwi.mif", "mask.nii", "wm.txt", "csf.txt")


def inputs(rng: random.Random, room: Room) -> list[str]:
    """Damage an input or give an odd response, with any options, perhaps into a folder that has files."""
    for name, text in RESPONSES.items():
        (room.inputs / name).write_text(text)
    if rng.random() < 0.3:
        name, text = rng.choice(sorted(RESPONSES)), rng.choice(ODD)
        (room.inputs / name).write_text(text)
        room.did.append(f"{text!r} in {name}")
    else:
        name = rng.choice(INPUTS)
        room.did.append(f"{damage(rng, room.inputs / name)} {name}")
    series = name if name.startswith("dwi") else "dwi.nii"
    model = ("--model", "csd") if rng.random() < 0.4 else ("--response-wm", "wm.txt", "--response-csf", "csf.txt")
    options = [word for more in rng.sample(OPTIONS, 2) for word in more]
    if rng.random() < 0.2:
        (room.out / "f").mkdir()
        (room.out / "f" / "notes.txt").write_text("not of FODs")
    room.did.append(" ".join((*model, *options)))
    outcome = room.run(["fod", series, "-o", "../out/f", "--mask", "mask.nii", *model, *options], limit=COMPILING)
    return room.faults(outcome, name="f/none") + (_invalid(room) if outcome.code == 0 else [])


def _invalid(room: Room) -> list[str]:
    """What is wrong with the FODs that were written; read without threads, which the next fork would lose."""
    import numpy as np

    from tistreamlines.io.images import open_image, read_array

    there = {path.name for path in (room.out / "f").iterdir()}
    name = next((f"wmfod.{suffix}" for suffix in ("mif", "nii.gz") if f"wmfod.{suffix}" in there), None)
    if name is None or not {"fod.json", "response_wm.txt"} <= there:
        return ["lacks files"]
    finite = np.isfinite(read_array(*open_image(room.out / "f" / name))).all()
    return [] if finite else ["writes FODs that are not finite"]
