"""Series, responses and folders that are damaged or odd, of which ``tistreamlines fod`` makes FODs."""

from __future__ import annotations

import random

from .damage import damage
from .room import COMPILING, Room

# of white matter and fluid, for the shells of the small head
RESPONSES = {"wm.txt": "1000 0 0\n600 -200 40\n", "csf.txt": "4000\n200\n"}
ODD = (
    "", "nan 0\n1 0\n", "0 0\n0 0\n", "-5\n-3\n", "1e30 0\n1e30 1e30\n", "1000 0 0\n", "4000\n200\n10\n", "1 2\n3\n",
    "# Shells: 0,700\n1000 0\n600 -200\n", "words\n", "1000 200\n600 200\n", "1000 0\n-600 -200\n", "4000\n\n200\n",
    "1000 0\ninf -200\n", "0 0\n600 -200\n",
)
B_VALUES = (5, 10, 11, 50, 51, 350, 1e5, -1, float("nan"))  # of a volume
OPTIONS = (
    (), ("--lmax", "4"), ("--lmax", "2,2"), ("--lmax", "13"), ("--lmax", "12"), ("--lmax", "8,2"),
    ("--no-normalise",), ("--format", "nii.gz"),
    ("--sh-basis", "descoteaux07"), ("--sh-basis", "tournier07_legacy", "--format", "nii.gz"), ("--shells", "1000"),
    ("--shells", "5"), ("--report", "../out/r.html"), ("--report", "../out/f/r.html"), ("--threads", "3"), ("--force",),
)
INPUTS = ("dwi.nii.gz", "dwi.nii", "dwi.mif", "mask.nii", "wm.txt", "csf.txt")


def inputs(rng: random.Random, room: Room) -> list[str]:
    """Damage an input or give an odd response, with any options, perhaps into a folder that has files."""
    for name, text in RESPONSES.items():
        (room.inputs / name).write_text(text)
    if (chance := rng.random()) < 0.3:
        name, text = rng.choice(sorted(RESPONSES)), rng.choice(ODD)
        (room.inputs / name).write_text(text)
        room.did.append(f"{text!r} in {name}")
    elif chance < 0.6:
        name = rng.choice((_odd_gradients, _odd_mask))(rng, room)
    else:
        name = rng.choice(INPUTS)
        room.did.append(f"{damage(rng, room.inputs / name)} {name}")
    series = name if name.startswith("dwi") else "dwi.nii"
    model = ("--model", "csd") if rng.random() < 0.4 else ("--response-wm", "wm.txt", "--response-csf", "csf.txt")
    options = [word for more in rng.sample(OPTIONS, 2) for word in more]
    if (chance := rng.random()) < 0.2:
        (room.out / "f").mkdir()
        (room.out / "f" / "notes.txt").write_text("not of FODs")
    elif chance < 0.3:
        (room.out / "f").symlink_to(rng.choice(("g", "f", "missing/g")))
        room.did.append(f"-o is a link to {(room.out / 'f').readlink()}")
    room.did.append(" ".join((*model, *options)))
    outcome = room.run(["fod", series, "-o", "../out/f", "--mask", "mask.nii", *model, *options], limit=COMPILING)
    return room.faults(outcome, name="f/none") + (_invalid(room) if outcome.code == 0 else [])


def _odd_gradients(rng: random.Random, room: Room) -> str:
    """Give a few volumes an odd b-value, scatter all, or take a direction away; return the name of the file."""
    bvals = (room.inputs / "dwi.bval").read_text().split()
    if (way := rng.randrange(3)) == 0:
        changed = {rng.randrange(len(bvals)): rng.choice(B_VALUES) for _ in range(rng.choice((1, 1, 2, 9)))}
        room.did.append(f"b-values {changed}")
        bvals = [str(changed.get(number, bval)) for number, bval in enumerate(bvals)]
    elif way == 1:
        reach = rng.choice((10, 100, 1000))
        room.did.append(f"b-values scattered by {reach}")
        bvals = [str(max(float(bval) + rng.uniform(-reach, reach), 0)) for bval in bvals]
    (room.inputs / "dwi.bval").write_text(" ".join(bvals) + "\n")
    if way == 2:
        rows = [line.split() for line in (room.inputs / "dwi.bvec").read_text().splitlines() if line.strip()]
        volume = rng.randrange(len(rows[0]))
        for row in rows:
            row[volume] = "0"
        room.did.append(f"no direction of volume {volume}")
        (room.inputs / "dwi.bvec").write_text("".join(" ".join(row) + "\n" for row in rows))
    return "dwi.nii"


def _odd_mask(rng: random.Random, room: Room) -> str:
    """Leave few voxels in the mask, or move it; return its name."""
    import nibabel as nib
    import numpy as np

    image = nib.load(room.inputs / "mask.nii")
    values, affine = np.array(image.dataobj), image.affine.copy()
    if rng.random() < 0.7:
        left = rng.choice((0, 1, 10, 30))
        values.reshape(-1)[np.flatnonzero(values)[left:]] = 0
        room.did.append(f"{left} voxels in the mask")
    else:
        affine[:3, 3] += rng.choice((1, 20, 1000))
        room.did.append("the mask lies elsewhere")
    nib.Nifti1Image(values, affine).to_filename(room.inputs / "mask.nii")
    return "mask.nii"


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
