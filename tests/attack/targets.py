"""Targets of seeds that nobody should give, and names that clash, for a tractogram that is there."""

from __future__ import annotations

import random
import resource
from functools import partial
from typing import Any

from .material import LABELS, SEEDED, TARGETS, targets_of
from .products import DONE, EITHER, PARCELLATIONS, REFUSED, save
from .room import Room

TABLE = "t.csv"
REFUSED_MASKS = (  # of the images that are no parcellations, those that are no masks either
    "a voxel of inf", "no label", "none above 0", "complex", "colours", "two volumes", "a slice",
    "an affine of two axes", "an affine with NaN",
)
DONE_MASKS = ("sheared", "far away", "a volume of it", "halves", "a single label", "stored with a slope")
# the table, the targets and what is beside them -> exit codes
NAMES: dict[str, tuple[str, list[str], tuple[int, ...]]] = {
    "as they are": (TABLE, targets_of(*TARGETS), DONE),
    "in tabs": ("t.tsv", targets_of(*TARGETS), DONE),
    "FSL's name": ("matrix_seeds_to_all_targets", targets_of(*TARGETS), DONE),
    "no target": (TABLE, [], REFUSED),
    "a target twice": (TABLE, targets_of(TARGETS[0], TARGETS[0]), REFUSED),
    "a target by another path": (TABLE, targets_of(TARGETS[0], f"../in/{TARGETS[0]}"), REFUSED),
    "the seeds as target": (TABLE, targets_of("mask.nii.gz"), DONE),
    "a target in another format": (TABLE, targets_of("mask.mif.gz"), DONE),
    "two formats of a target": (TABLE, targets_of("mask.nii", "mask.mif"), REFUSED),
    "an unknown suffix": ("t.npz", targets_of(*TARGETS), REFUSED),
    "a missing folder": ("none/t.csv", targets_of(*TARGETS), REFUSED),
    "a folder": ("", targets_of(*TARGETS), REFUSED),
    "a list of targets": (TABLE, targets_of("nodes.tsv"), REFUSED),
    "the table twice": (TABLE, [*SEEDED[2:], f"../out/{TABLE}", *targets_of(*TARGETS)], REFUSED),
    "two tables in a folder": (TABLE, [*SEEDED[2:], "../out/u.csv", *targets_of(*TARGETS)], REFUSED),
    "a map of another": (TABLE, ["--density", "../out/seeds_to_front.nii.gz", *targets_of(*TARGETS)], REFUSED),
    "the coordinates of another": (
        "fdt", [*targets_of(*TARGETS), "--voxel-matrix", "mask.nii.gz", "../out/fdt.npz"], REFUSED,
    ),
    "a long name": (f"{'x' * 240}.csv", targets_of(*TARGETS), REFUSED),
}


def masks_and_names(rng: random.Random, room: Room) -> list[str]:
    """Give images that are no masks as targets or seeds, names that clash, or a disk that is full."""
    how = rng.choice(("image", "image", "name", "name", "full"))
    if how == "name":
        name = rng.choice(sorted(NAMES))
        table, more, codes = NAMES[name]
        room.did.append(name)
        same = "targets" if name == "as they are" else None
        return _seeded(room, SEEDED, table, more, codes, same)
    if how == "full":
        return _full(rng, room)
    name = rng.choice(sorted(PARCELLATIONS))
    room.did.append(name)
    _image(name, room)
    codes = REFUSED if name in REFUSED_MASKS else DONE if name in DONE_MASKS else EITHER
    if rng.random() < 0.3:
        return _seeded(room, [*SEEDED[:-1], "other.nii.gz"], TABLE, targets_of(*TARGETS), codes)
    return _seeded(room, SEEDED, TABLE, targets_of(TARGETS[0], "other.nii.gz"), codes)


def _image(name: str, room: Room) -> None:
    """Write an image that may be no mask."""
    import nibabel as nib
    import numpy as np

    image = nib.load(room.inputs / LABELS)
    save(PARCELLATIONS[name][0](np.asarray(image.dataobj), image.affine), room.inputs / "other.nii.gz")


def _seeded(
    room: Room, command: list[str], table: str, more: list[str], codes: tuple[int, ...], run: str | None = None,
    **how: Any,
) -> list[str]:
    """Count, and judge what is left: all files, or none."""
    outcome = room.run([*command, f"../out/{table}", *more], **how)
    faults = room.faults(outcome, run if outcome.code == 0 else None, codes=codes, name=table)
    left = sorted(path.name for path in room.out.iterdir())
    return faults + ([f"left {left}"] if outcome.code and left else [])


def _full(rng: random.Random, room: Room) -> list[str]:
    """Let the disk be full at some moment."""
    size = rng.randrange(200, 20_000)
    room.did.append(f"RLIMIT_FSIZE {size}")
    limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (size, size))
    return _seeded(room, SEEDED, TABLE, targets_of(*TARGETS), EITHER, setup=limit)
