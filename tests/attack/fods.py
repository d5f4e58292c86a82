"""FODs and folders that are damaged or odd, of which ``tistreamlines fixels`` finds fixels."""

from __future__ import annotations

import random

from .damage import damage
from .room import COMPILING, Room

ODD = (-1e30, -1.0, 0.0, 1e-30, 50.0, 3e38, float("nan"), float("inf"))
OPTIONS = (
    (), ("--fmls-no-thresholds",), ("--fmls-peak-value", "1e30"), ("--fmls-peak-value", "-1"), ("--maxnum", "1"),
    ("--maxnum", "0"), ("--fmls-integral", "nan"), ("--mask", "mask.nii"), ("--sh-frame", "voxel"), ("--format", "nii"),
    ("--sh-basis", "descoteaux07"),
)


def inputs(rng: random.Random, room: Room) -> list[str]:
    """Damage an image of FODs, or set a coefficient to a value that nobody should give."""
    name, value = rng.choice(("fod.nii", "fod.nii.gz")), rng.choice((None, *ODD))
    _write(room, name, value, rng.random() < 0.5)
    if value is None:
        room.did.append(f"{damage(rng, room.inputs / name)} {name}")
    else:
        room.did.append(f"{value} in {name}")
    options = rng.choice(OPTIONS)
    basis = () if "--sh-basis" in options else ("--sh-basis", "tournier07")
    if rng.random() < 0.2:
        (room.out / "fixels").mkdir()
        (room.out / "fixels" / "notes.txt").write_text("not of fixels")
    outcome = room.run(["fixels", name, "../out/fixels", *basis, *options], limit=COMPILING)
    return room.faults(outcome, name="fixels/index.mif") + (_invalid(room) if outcome.code == 0 else [])


def _write(room: Room, name: str, value: float | None, first: bool) -> None:
    """Write FODs of order 2 along the first axis, with an odd value in a voxel."""
    import nibabel as nib
    import numpy as np

    affine = nib.load(room.inputs / "mask.nii").affine
    values = np.zeros((*nib.load(room.inputs / "mask.nii").shape, 6), np.float32)
    values[4:9, 5:9, 5:9] = (0.3, 0, 0, -0.15, 0, 0.25)
    if value is not None:
        values[6, 7, 8, 0 if first else 3] = value
    nib.Nifti1Image(values, affine).to_filename(room.inputs / name)


def _invalid(room: Room) -> list[str]:
    """What is wrong with the fixels that were written; read without threads, which the next fork would lose."""
    import nibabel as nib
    import numpy as np

    if not (path := room.out / "fixels" / "index.nii").exists():
        there = {file.name for file in (room.out / "fixels").iterdir()}
        return [] if {"index.mif", "directions.mif", "afd.mif"} <= there else ["lacks images"]
    index = np.asarray(nib.load(path).dataobj).reshape(-1, 2)
    directions = np.asarray(nib.load(path.with_name("directions.nii")).dataobj)[..., 0]
    lengths = np.linalg.norm(directions, axis=1)
    valid = index[:, 0].sum() == len(directions) and np.abs(lengths - 1).max() < 1e-4
    return [] if valid else ["writes no fixels"]
