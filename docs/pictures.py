"""Draw the pictures of the pages on stopping and on regions, from the phantom of the demo.

    python docs/pictures.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import tistreamlines as ts
from tistreamlines.io.picture import draw
from tistreamlines.phantom.phantom import make_phantom, save_phantom

IMAGES = Path(__file__).parent / "images"
# spheres on the left corticospinal tract of the phantom, in the brainstem and below the cortex, and beside it (RASmm)
STEM, TOP, BESIDE = (-10, -13, -45, 12), (-25, -9, 45, 20), (-60, -9, 30, 22)


def main() -> None:
    """Track and draw."""
    phantom = make_phantom()
    with tempfile.TemporaryDirectory() as folder:
        series = save_phantom(phantom, folder)
        tissues = {f"pve_{name}": Path(folder) / f"pve_{name}.nii.gz" for name in phantom.tissues}
        ways: dict[str, tuple[str, dict[str, Any]]] = {
            "act": ("stopping act, valid ends", {"stopping": "act", "keep": "valid-ends", "nseeds": 20_000, **tissues}),
            "regions": (
                "two include spheres and an exclude sphere",
                {"include": [STEM, TOP], "exclude": [BESIDE], "select": 400, "max_seeds": 200_000},
            ),
        }
        for name, (title, options) in ways.items():
            result = ts.track(*series, mask=Path(folder) / "mask.nii.gz", dg="prob", **options)
            batch = ts.Batch.concatenate(result.batches)
            head: dict[str, Any] = {"mask": phantom.mask, "affine": phantom.affine, "dpi": 60, "max_streamlines": 1000}
            head["title"] = f"{len(batch):,} streamlines, {title}"
            draw(batch.points, batch.offsets, IMAGES / f"{name}.png", **head)


if __name__ == "__main__":
    main()
