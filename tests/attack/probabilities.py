"""Parcellations of probabilities that are odd, damaged or no probabilities."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from .material import LABELS
from .products import DONE, OTHER, REFUSED, SAME, mapped
from .room import Room

FIRST = 5, 6, 7, 0  # the place of a value


def _set(value: float) -> Callable[[Any], None]:
    """Give one voxel of a volume a value."""

    def change(values: Any) -> None:
        values[FIRST] = value

    return change


def _scale(factor: float) -> Callable[[Any], None]:
    """Multiply all values."""

    def change(values: Any) -> None:
        values *= factor

    return change


# change of the probabilities 0 and 1 of the labels -> what becomes of it
CHANGES: dict[str, tuple[Callable[[Any], None], tuple[int, ...], str | None]] = {
    "of 0 and 1": (_scale(1), DONE, SAME),
    "rounding below 0 and above 1": (_scale(1 + 5e-4), DONE, SAME),
    "small": (_scale(1e-30), DONE, OTHER),
    "a node without a voxel": (lambda values: values[..., 2].fill(0), DONE, OTHER),
    "sums above 1": (lambda values: values.fill(0.9), DONE, OTHER),
    "nothing": (_scale(0), REFUSED, OTHER),
    "percentages": (_scale(100), REFUSED, OTHER),
    "negative": (_set(-0.5), REFUSED, OTHER),
    "NaN": (_set(float("nan")), REFUSED, OTHER),
    "infinite": (_set(float("inf")), REFUSED, OTHER),
}


def soft_parcellations(rng: random.Random, room: Room) -> list[str]:
    """Give probabilities that are odd, or none."""
    import nibabel as nib
    import numpy as np

    name, suffix = rng.choice(sorted(CHANGES)), rng.choice((".nii", ".nii.gz"))
    room.did.append(f"{name}{suffix}")
    change, codes, run = CHANGES[name]
    labels = nib.load(room.inputs / LABELS)
    known = np.asarray(labels.dataobj)
    values = (known[..., None] == np.arange(1, known.max() + 1)).astype(np.float32)
    change(values)
    nib.save(nib.Nifti1Image(values, labels.affine), room.inputs / f"soft{suffix}")
    return mapped(room, f"soft{suffix}", codes=codes, run=run)
