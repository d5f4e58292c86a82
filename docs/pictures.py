"""Draw the pictures of the pages on stopping, on regions, on how tracking works and on the viewer, from the phantom.

    python docs/pictures.py

The phantom is that of the demo. The picture of the viewer needs chromium; without it, the picture stays as it is.
"""

from __future__ import annotations

import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

import tistreamlines as ts
from tistreamlines.io.picture import png
from tistreamlines.io.tractograms import groups_of_tractogram, stored_batches
from tistreamlines.phantom.phantom import make_phantom, save_phantom
from tistreamlines.viewer.extras import ExtraMaker
from tistreamlines.viewer.niivue import page_of
from tistreamlines.viewer.scene import scene_of

IMAGES, SUPPORT = Path(__file__).parent / "images", Path(__file__).parents[1] / "tests" / "support"
VIEWED = (1200, 1140)  # pixels of the picture of the viewer
# spheres on the left corticospinal tract of the phantom, in the brainstem and below the cortex, and beside it (RASmm)
STEM, TOP, BESIDE = (-10, -13, -45, 12), (-25, -9, 45, 20), (-60, -9, 30, 22)


def draw_one(result: ts.TrackResult, background: Any, affine: Any) -> None:
    """Draw the streamline that leaves a coronal plane least: its seed, its halves, and why they ended."""
    batch = ts.Batch.concatenate(result.batches)
    long = [i for i in range(len(batch)) if 60 < len(batch[i]) < 90]
    chosen = min(long, key=lambda i: float(np.ptp(batch[i][:, 1])))
    line, seed = batch[chosen], batch.seeds[chosen]
    at = int(np.linalg.norm(line - seed, axis=1).argmin())
    reasons = [ts.Stop(number).name for number in batch.stop_reasons[chosen]]
    figure = Figure(figsize=(9, 6.5))
    axes = figure.subplots()
    index = round(float((np.linalg.inv(affine) @ [*seed, 1])[1]))
    start, side = affine[:3, 3], np.diag(affine)[:3]
    low, high = start - side / 2, start + side * (np.array(background.shape) - 0.5)
    extent = (low[0], high[0], low[2], high[2])
    axes.imshow(background[:, index].T, origin="lower", cmap="Greys", vmax=2.5, extent=extent)
    for part, colour, name in ((line[: at + 1], "#d1495b", "backward half"), (line[at:], "#00798c", "forward half")):
        axes.plot(part[:, 0], part[:, 2], ".-", color=colour, ms=5, lw=1, label=name)
    axes.plot(seed[0], seed[2], "o", color="#edae49", mec="black", ms=9, label="seed")
    for point, reason in zip(line[[0, -1]], reasons, strict=True):
        axes.annotate(reason, (point[0], point[2]), (8, 8), textcoords="offset points", fontsize=9)
    middle, reach = (line.min(axis=0) + line.max(axis=0)) / 2, np.ptp(line, axis=0).max() / 2 + 12
    axes.set(xlim=(middle[0] - 1.4 * reach, middle[0] + 1.4 * reach), ylim=(middle[2] - reach, middle[2] + reach))
    axes.set(xlabel="x (mm)", ylabel="z (mm)")
    axes.legend(loc="upper right")
    figure.tight_layout()
    figure.savefig(IMAGES / "one-streamline.png", dpi=75)


def draw_viewer(folder: Path) -> None:
    """Take a picture of the page of ``view``: groups, and a ring of which an edge is chosen."""
    sys.path.insert(0, str(SUPPORT))
    from browser import CHROMIUM, Page

    if CHROMIUM is None:
        return
    nodes = {"connectome": (folder / "nodes.nii.gz", folder / "node.csv"), "connectome_nodes": folder / "nodes.tsv"}
    series = [folder / name for name in ("dwi.nii.gz", "dwi.bval", "dwi.bvec")]
    named: dict[str, Any] = {"output": folder / "demo.trx", "nseeds": 20_000, "groups": True, **nodes}
    ts.track(*series, mask=folder / "mask.nii.gz", **named)
    scene = scene_of("demo.trx", partial(stored_batches, folder / "demo.trx"), folder / "dwi.nii.gz", ExtraMaker(
        "demo.trx", groups=partial(groups_of_tractogram, folder / "demo.trx"), labels=str(folder / "nodes.nii.gz"),
        nodes={"connectome_nodes": [str(folder / "nodes.tsv")]},
    ))
    (folder / "page.html").write_bytes(page_of(scene))
    with Page(folder / "profile", *VIEWED) as page:
        page.dark("light")
        page.open((folder / "page.html").as_uri())
        page.until("document.body?.dataset.ready")
        page.value(
            "(() => { const colour = document.querySelector('[name=colour]'); colour.value = 'group';"
            "colour.dispatchEvent(new Event('input', {bubbles: true}));"
            "document.getElementById('as-ring').click(); })()"
        )
        page.picture(folder / "page.png")
    picture = Image.open(folder / "page.png").convert("RGB").resize([2 * side // 3 for side in VIEWED], Image.LANCZOS)
    picture.quantize(192, Image.Quantize.MAXCOVERAGE).save(IMAGES / "viewer.png", optimize=True)


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
            (IMAGES / f"{name}.png").write_bytes(png(batch.points, batch.offsets, **head))
        result = ts.track(*series, mask=Path(folder) / "mask.nii.gz", dg="det", nseeds=2000, max_directions=1)
        draw_one(result, phantom.tissues["wm"], phantom.affine)
        draw_viewer(Path(folder))


if __name__ == "__main__":
    main()
