"""Segmentations and tissue fractions that are damaged or odd, of which ``tistreamlines 5tt`` makes an image."""

from __future__ import annotations

import random

from .damage import damage
from .room import Room

IMAGE, SUBJECT = "5tt.nii.gz", "subject"
ODD = (-1e30, -1.0, -1e-4, 0.4, 1.0001, 7.0, 165.0, 14_176.0, 2.0**31, 1e30, float("nan"), float("inf"))
FRACTIONS = ("pve_wm.nii", "pve_gm.nii", "pve_csf.nii")


def inputs(rng: random.Random, room: Room) -> list[str]:
    """Damage a segmentation or a map, or set a voxel to a value that nobody should give."""
    files = ("aseg.mgz", "aseg.mgh", "aseg.nii", *FRACTIONS, "sgm.nii")
    name = rng.choice(files)
    value = rng.choice((None, *ODD))
    _write(room, name, value)
    if value is None:
        room.did.append(f"{damage(rng, room.inputs / name)} {name}")
    else:
        room.did.append(f"{value} in {name}")
    maps = [word for file in FRACTIONS for word in (f"--{file[:-4].replace('_', '-')}", file)]
    words = [name] if name.startswith("aseg") else [*maps, "--sgm", "sgm.nii"]
    more = [flag for flag in ("--crop", "--sgm-amyg-hipp") if rng.random() < 0.3]
    outcome = room.run(["5tt", *words, "-o", f"../out/{IMAGE}", *more])
    return room.faults(outcome, name=IMAGE) + (_invalid(room) if outcome.code == 0 else [])


def subject(rng: random.Random, room: Room) -> list[str]:
    """Damage a file of a subject's folder, take it away, or put another one in its place."""
    files = _write_subject(room)
    name = rng.choice(files)
    path, way = room.inputs / SUBJECT / name, rng.random()
    if way < 0.2:
        path.unlink()
        room.did.append(f"no {name}")
    elif way < 0.4:
        other = rng.choice(files)
        path.write_bytes((room.inputs / SUBJECT / other).read_bytes())
        room.did.append(f"{other} as {name}")
    else:
        room.did.append(f"{damage(rng, path)} {name}")
    if rng.random() < 0.3:
        return room.faults(room.run([*_TRACK, "--act", SUBJECT]))
    more = [flag for flag in ("--crop", "--white-stem", "--voxel-size=3.1") if rng.random() < 0.3]
    outcome = room.run(["5tt", SUBJECT, "-o", f"../out/{IMAGE}", *more])
    return room.faults(outcome, name=IMAGE) + (_invalid(room) if outcome.code == 0 else [])


_TRACK = (
    "track", "--sh", f"{SUBJECT}/fod.nii", "--sh-basis", "tournier07", "--dg", "ifod2", "--seed-gmwmi", "act",
    "--nseeds", "20", "--arch", "cpu", "-o", "../out/a.trx",
)


def _write_subject(room: Room) -> list[str]:
    """Write a subject's folder, in which hemispheres are boxes, and FODs; return the folder's files."""
    import nibabel as nib
    import numpy as np

    folder, affine = room.inputs / SUBJECT, np.diag([2.0, 2, 2, 1])
    for name in ("mri", "surf"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    labels = np.zeros((32, 32, 32), np.int32)
    labels[3:29, 3:29, 3:29], labels[5:14, 5:27, 5:27], labels[18:27, 5:27, 5:27] = 24, 2, 41
    labels[14:18, 12:20, 4:20], labels[8:12, 10:16, 10:16], labels[13:19, 4:9, 6:11] = 16, 10, 15
    nib.MGHImage(labels, affine).to_filename(folder / "mri" / "aparc+aseg.mgz")
    nib.MGHImage((labels > 0).astype(np.uint8), affine).to_filename(folder / "mri" / "brainmask.mgz")
    corners = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)])
    faces = np.array([[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]])
    triangles = np.concatenate([faces[:, [0, 1, 2]], faces[:, [0, 2, 3]]])
    for side, left in (("lh", 9.0), ("rh", 35.0)):
        for kind, wider in (("white", 0), ("pial", 3)):
            vertices = corners * (np.array([18, 44, 44]) + 2 * wider) + np.array([left, 9, 9]) - wider - 32
            nib.freesurfer.write_geometry(folder / "surf" / f"{side}.{kind}", vertices, triangles)
    fod = np.zeros((16, 16, 16, 15), np.float32)
    fod[..., 0] = 1.0
    nib.save(nib.Nifti1Image(fod, np.diag([4.0, 4, 4, 1])), folder / "fod.nii")
    return [str(path.relative_to(folder)) for path in sorted(folder.glob("*/*"))]


def _write(room: Room, odd: str, value: float | None) -> None:
    """Write a segmentation in three formats, and subcortical grey matter, with an odd value in a voxel of one file."""
    import nibabel as nib
    import numpy as np

    white = nib.load(room.inputs / FRACTIONS[0])
    labels = np.where(np.asarray(white.dataobj) > 0.5, 2, 0).astype(np.int32)
    labels[5:9, 6:9] = 10
    for name in ("aseg.mgz", "aseg.mgh", "aseg.nii", "sgm.nii"):
        kind = nib.Nifti1Image if name.endswith(".nii") else nib.MGHImage
        kind(labels, white.affine).to_filename(room.inputs / name)
    if value is not None:
        values = np.array(nib.load(room.inputs / odd).dataobj, np.float32)  # a copy: the file is written anew
        values[6, 7, 8] = value
        kind = nib.MGHImage if odd.endswith((".mgz", ".mgh")) else nib.Nifti1Image
        kind(values, white.affine).to_filename(room.inputs / odd)


def _invalid(room: Room) -> list[str]:
    """What is wrong with the image that was written; read without threads, which the next fork would lose."""
    import nibabel as nib
    import numpy as np

    values = np.asarray(nib.load(room.out / IMAGE).dataobj)
    sums = values.sum(axis=-1)
    fractions = values.shape[3:] == (5,) and values.min() >= 0 and values.max() <= 1
    valid = fractions and (np.minimum(sums, np.abs(sums - 1)) < 1e-3).all() and sums.any()
    return [] if valid else ["writes no five-tissue-type image"]
