"""A bundle whose values, groups and ends are known, and the files that a page shows with it."""

from __future__ import annotations

from pathlib import Path

import nibabel as nib
import numpy as np

from tistreamlines.io.tractograms import batch_of
from tistreamlines.io.writer import TractogramWriter
from tistreamlines.space.batch import Batch, Groups, Space

LINES, POINTS, SPACE = 300, 60, Space(np.diag([2.0, 2.0, 2.0, 1.0]), (20, 20, 20))
NAMES = ("low", "high")


def bundle() -> Batch:
    """Bent streamlines from left to right, some of them in two groups; values are coordinates and numbers."""
    x = np.linspace(2, 36, POINTS)
    lines = [np.column_stack([x, np.full(POINTS, 4 + 30 * i / LINES), 10 + 6 * np.sin(x / 6)]) for i in range(LINES)]
    plain = batch_of(np.concatenate(lines).astype(np.float32), np.full(LINES, POINTS))
    numbers = np.arange(LINES)
    groups = np.where(numbers < 100, 1, np.where(numbers >= 250, 2, 0))
    return Batch(
        *(getattr(plain, name) for name in ("points", "offsets", "seeds", "seed_number", "direction_number")),
        plain.stop_reasons, data_per_point={"depth": plain.points[:, 2]},
        data_per_streamline={"number": numbers, "narrow": 100000.1 + 1.7 * numbers / (LINES - 1)},
        groups=(Groups(NAMES, groups[:, None]),),
    )


def write_files(folder: Path) -> Path:
    """Write the bundle as .trx and .trk, a map of x and one far away, parcellations of both ends, and weights."""
    whole = bundle()
    for suffix in ("trx", "trk"):
        with TractogramWriter(folder / f"bundle.{suffix}", SPACE) as writer:
            writer.write(whole if suffix == "trx" else Batch(**vars(whole) | {"groups": ()}))
    x = 2.0 * np.indices(SPACE.shape, np.float32)[0]
    far = SPACE.affine.copy()
    far[:3, 3] = 500
    labels = np.zeros(SPACE.shape, np.int16)
    labels[:3], labels[16:, :10], labels[16:, 10:] = 1, 2, 3
    probabilities = np.stack([labels == label for label in (1, 2, 3)], axis=-1).astype(np.float32) / 2
    for name, values, affine in (
        ("x", x, SPACE.affine), ("far", x, far), ("labels", labels, SPACE.affine), ("soft", probabilities, SPACE.affine)
    ):
        nib.save(nib.Nifti1Image(values, affine), folder / f"{name}.nii.gz")
    np.savetxt(folder / "weights.txt", np.arange(LINES) / 10)
    np.savetxt(folder / "few.txt", np.ones(7))
    return folder
