"""Folders of fixels that are damaged or odd, by which streamlines are weighed or selected."""

from __future__ import annotations

import random

from .damage import damage
from .material import LINES
from .room import COMPILING, Room

NUMBERS = (-1.0, 0.0, 1e-30, 1e30, 1e38, float("nan"), float("inf"), 0.5, 2.0**31, 2.0**32)
OPTIONS: dict[str, tuple[tuple[str, ...], ...]] = {
    "map": ((), ("--linear",), ("--no-dilate-lut",), ("--remove-untracked",), ("--fd-thresh", "0.5"), ("--basis", "x")),
    "sift": (
        (), ("--number", "5"), ("--number", "0"), ("--ratio", "1"), ("--mu", "1e-30"), ("--mu", "nan"),
        ("--fd-thresh", "2"), ("--no-dilate-lut", "--make-null-lobes"), ("--remove-untracked",),
        ("--csv", "../out/c.csv"),
    ),
}


def inputs(rng: random.Random, room: Room) -> list[str]:
    """Damage an image of a folder, remove or add one, or set a value that nobody should give."""
    _write(room)
    folder, name = room.inputs / "fixels", rng.choice(("index", "directions", "fd"))
    how = rng.choice(("nothing", "damage", "damage", "value", "value", "remove", "add"))
    path = folder / f"{name}.nii"
    if how == "damage":
        room.did.append(f"{damage(rng, path)} {name}")
    elif how == "value":
        room.did.append(f"{_set(rng, path)} in {name}")
    elif how == "remove":
        path.unlink()
    elif how == "add":
        (folder / rng.choice(("index.mif", "afd.nii", "notes.txt", "other.nii.gz"))).write_bytes(rng.randbytes(100))
    command = rng.choice(sorted(OPTIONS))
    fixels = rng.choice(("fixels", "fixels", "fixels/fd.nii"))
    files = ["--sift2", fixels, "../out/w.txt"] if command == "map" else [fixels, "-o", "../out/s.tck"]
    call = [command, LINES, *files, *rng.choice(OPTIONS[command]), "--threads", "1"]
    outcome = room.run(call, limit=COMPILING)
    faults = room.faults(outcome, name="w.txt")
    return faults + (_invalid(room, command) if outcome.code == 0 else [])


def _write(room: Room) -> None:
    """Write two fixels in each voxel of the mask, as NIfTI."""
    import nibabel as nib
    import numpy as np

    mask = nib.load(room.inputs / "mask.nii")
    counts = 2 * (np.asarray(mask.dataobj) > 0)
    index = np.stack([counts, np.cumsum(counts).reshape(counts.shape) - counts], axis=3).astype(np.int32)
    directions = np.tile(np.float32([[1, 0, 0], [0, 1, 0]]), (counts.sum() // 2, 1))
    densities = np.linspace(0.1, 1, counts.sum(), dtype=np.float32)
    (room.inputs / "fixels").mkdir()
    images = {"index": index, "directions": directions[..., None], "fd": densities[:, None, None]}
    for name, values in images.items():
        affine = mask.affine if name == "index" else np.eye(4)
        nib.Nifti2Image(values, affine).to_filename(room.inputs / "fixels" / f"{name}.nii")


def _set(rng: random.Random, path: object) -> float:
    """Set a number of an image."""
    import nibabel as nib
    import numpy as np

    image = nib.load(path)
    values, number = np.array(image.dataobj, np.float32), rng.choice(NUMBERS)
    values.flat[rng.randrange(values.size)] = number
    nib.Nifti2Image(values, image.affine).to_filename(path)
    return number


def _invalid(room: Room, command: str) -> list[str]:
    """What is wrong with the weights or the streamlines that were written."""
    import numpy as np

    if command == "sift":
        return [] if (room.out / "s.tck").stat().st_size > 1024 else ["writes no streamlines"]
    weights = np.loadtxt(room.out / "w.txt")
    return [] if np.isfinite(weights).all() and (weights >= 0).all() else ["writes odd weights"]
