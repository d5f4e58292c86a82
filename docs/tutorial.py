"""Run the tutorial on a series, and draw its pictures.

    python docs/tutorial.py dwi.nii.gz dwi.bval dwi.bvec mask.nii.gz

The mask is made if it is not there. The spheres are those of the 1.8 mm brain of nlsam_data (St-Jean et al. 2016). Then
the commands of the page are run as they are written, and what they print is kept for it.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from contextlib import redirect_stdout
from hashlib import sha256
from io import StringIO
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
from matplotlib.figure import Figure
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parent))  # the tests import this file
from commands import Step, run, steps

import tistreamlines as ts
from tistreamlines.io.picture import png

PAGE = "docs/tutorial.md"
IMAGES = Path(__file__).parent / "images"
RESULT = Path(__file__).parents[1] / "benchmarks" / "results" / "two-cores-tutorial.json"
SEED, PONS, TOP = (-20, 13, 123, 8), (-8, 8, 80, 8), (-22, 8, 155, 14)
NOT = [(2, 25, 138, 10), (12, 8, 80, 10), (-22, -8, 75, 10)]
WIDTH = 1000  # pixels of the picture in README
PAPER, INK = "#08080b", "#e8e8ec"


def make_mask(dwi, bvals, path):
    from dipy.segment.mask import median_otsu

    image = nib.load(dwi)
    b0s = np.flatnonzero(np.loadtxt(bvals) <= 50)
    _, mask = median_otsu(image.get_fdata(dtype=np.float32), vol_idx=b0s, median_radius=4, numpass=4)
    nib.save(nib.Nifti1Image(mask.astype(np.uint8), image.affine), path)


def colours_of_fa(dwi, bvals, bvecs, mask):
    from dipy.core.gradients import gradient_table
    from dipy.io.gradients import read_bvals_bvecs
    from dipy.reconst.dti import TensorModel, color_fa

    data = nib.load(dwi).get_fdata(dtype=np.float32)
    values, vectors = read_bvals_bvecs(bvals, bvecs)
    fit = TensorModel(gradient_table(values, bvecs=vectors)).fit(data, mask=nib.load(mask).get_fdata() > 0)
    fa = np.nan_to_num(fit.fa)
    return fa, color_fa(fa, fit.evecs)


def track_the_bundle(dwi, bvals, bvecs, mask):
    seed, pons, top = (-20, 13, 123, 8), (-8, 8, 80, 8), (-22, 8, 155, 14)
    callosum, other_side, cerebellum = (2, 25, 138, 10), (12, 8, 80, 10), (-22, -8, 75, 10)
    result = ts.track(
        dwi, bvals, bvecs, mask=mask, dg="prob", cache_dir="cache",
        seed_sphere=[seed], include=[pons, top], exclude=[callosum, other_side, cerebellum], select=1000,
    )
    print(result)
    result.save("cst_python.tck")
    return result


def look_at(result):
    from dipy.tracking.streamline import length

    mm = length(result.streamlines)  # nibabel's ArraySequence, points in RASmm
    print(f"{len(result)} streamlines of {mm.min():.0f} to {mm.max():.0f} mm; the first has {len(result[0])} points")
    reasons = result.to_sft().data_per_streamline["stop_reasons"]  # of the backward and of the forward half
    outside = (reasons == ts.Stop.OUTSIDE_IMAGE).any(axis=1)
    print(f"{outside.mean():.0%} of them left the image")


def look_at_the_map(path):
    image = nib.load(path)
    counts = image.get_fdata()
    voxel = abs(np.linalg.det(image.affine[:3, :3]))  # mm^3
    print(f"at most {counts.max():.0f} streamlines in a voxel")
    print(f"at least 10 streamlines in {np.sum(counts >= 10) * voxel / 1000:.1f} cm3")


def draw_slices(path: Path, title: str, affine: Any, at: Any, layers: list[Any], spheres: Any = ()) -> None:
    """Draw a coronal, a sagittal and an axial slice through a point, RASmm, of images whose axes are nearly RAS."""
    figure = Figure(figsize=(16, 5.6), facecolor=PAPER)
    start, side = affine[:3, 3], np.diag(affine)[:3]
    views = ((1, 0, 2, "coronal, y"), (0, 1, 2, "sagittal, x"), (2, 0, 1, "axial, z"))
    bounds = ((-75, 75), (-75, 110), (52, 190))
    frames = figure.subplots(1, 3, width_ratios=[150, 185, 150])
    for axes, (through, across, up, name) in zip(frames, views, strict=True):
        index = round(float((np.linalg.inv(affine) @ [*at, 1])[through]))
        for values, options in layers:
            low, high = start - side / 2, start + side * (np.array(values.shape[:3]) - 0.5)
            extent = (low[across], high[across], low[up], high[up])
            axes.imshow(np.swapaxes(np.take(values, index, through), 0, 1), origin="lower", extent=extent, **options)
        for (*centre, radius), colour in spheres:
            if (rest := radius**2 - (centre[through] - at[through]) ** 2) > 0:
                turn = np.linspace(0, 2 * np.pi, 60)
                circle = np.sqrt(rest) * np.array([np.cos(turn), np.sin(turn)])
                axes.plot(centre[across] + circle[0], centre[up] + circle[1], color=colour, lw=2)
        axes.set(xlim=bounds[across], ylim=bounds[up], facecolor=PAPER)
        axes.set_title(f"{name} = {at[through]:.0f} mm", color=INK, loc="left")
        axes.set_xlabel(f"{'xyz'[across]} (mm)", color=INK)
        axes.set_ylabel(f"{'xyz'[up]} (mm)", color=INK)
        axes.tick_params(colors=INK)
    figure.suptitle(title, color=INK, x=0.05, ha="left", fontsize=15)
    figure.subplots_adjust(left=0.05, right=0.99, bottom=0.1, top=0.86, wspace=0.15)
    figure.savefig(path, dpi=55)


def picture_of(result: ts.TrackResult, path: Path, title: str, mask: Any) -> None:
    """Draw streamlines in three views."""
    offsets = np.concatenate([[0], np.cumsum([len(line) for line in result])])
    options = {"mask": mask.get_fdata() > 0, "affine": mask.affine, "dpi": 60, "max_streamlines": 1000}
    path.write_bytes(png(result.streamlines.get_data(), offsets, title=title, **options))


def agreement(result: Any, other: Any) -> dict[str, float]:
    """Compare two density maps."""
    inside = result >= 10, other >= 10
    return {
        "correlation": round(float(np.corrcoef(result.ravel(), other.ravel())[0, 1]), 4),
        "dice_of_voxels_with_10": round(float(2 * np.sum(inside[0] & inside[1]) / np.sum(inside)), 4),
    }


def shrink(picture: Path, path: Path) -> None:
    """Write a picture that is as wide as a page, in few colours."""
    with Image.open(picture) as image:
        size = (WIDTH, round(image.height * WIDTH / image.width))
        image.convert("RGB").resize(size, Image.Resampling.LANCZOS).quantize(128).save(path, optimize=True)


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    return sha256(path.read_bytes()).hexdigest()


def written_by(step: Step) -> str:
    """Name of the tractogram or map that a command writes, without its suffix."""
    words = step.command.split()
    return Path(words[words.index("-o" if "-o" in words else "--density") + 1]).stem


def run_the_page(files: dict[str, str], folder: Path, wanted: frozenset[str] = frozenset()) -> dict[str, str]:
    """Run the page's commands as they are written; return what each prints, by the name of what it writes.

    Parameters
    ----------
    files : dict of str to str
        The reader's files by their names on the page.
    folder : Path
        Where the commands run, empty.
    wanted : frozenset of str
        Names of what is written; by default all of them.
    """
    for name, path in files.items():
        (folder / name).symlink_to(Path(path).absolute())
    printed: dict[str, str] = {}
    for step in steps(PAGE):
        if step.command.startswith("cd "):
            folder /= step.command.removeprefix("cd ")
        elif not wanted or not step.command.startswith("tistreamlines track") or written_by(step) in wanted:
            code, text = run(step, folder)
            if code:
                raise RuntimeError(f"{step.command}: {text}")
            printed[written_by(step) if "track" in step.command else "demo"] = text.strip()
    return printed


def main(dwi: str, bvals: str, bvecs: str, mask: str) -> None:
    """Track and draw, and keep the numbers."""
    if not Path(mask).exists():
        make_mask(dwi, bvals, mask)
    series, image = (dwi, bvals, bvecs), nib.load(mask)
    fa, colours = colours_of_fa(*series, mask)
    spheres = [(SEED, "#ffd33d"), (PONS, "#4de3ff"), (TOP, "#4de3ff"), *((region, "#ff6b81") for region in NOT)]
    title = "FA coloured by direction; seeds yellow, include regions cyan, exclude regions red"
    layers = [(np.clip(1.6 * colours, 0, 1), {})]
    draw_slices(IMAGES / "tutorial-regions.png", title, image.affine, (-18, 10, 80), layers, spheres)
    with tempfile.TemporaryDirectory() as folder:
        options: dict[str, Any] = {"mask": mask, "dg": "prob", "cache_dir": Path(folder) / "cache"}
        regions: dict[str, Any] = {"seed_sphere": [SEED], "include": [PONS, TOP], "select": 1000}
        again = {"exclude": NOT, "rng_seed": 1, "seed_seed": 1}
        ways = {"brain": {"nseeds": 20_000}, "first": {"exclude": NOT[:2]}, "bundle": {"exclude": NOT}, "again": again}
        runs = {}
        for name, chosen in ways.items():
            chosen |= {} if name == "brain" else {**regions, "density": Path(folder) / f"{name}.nii.gz"}
            runs[name] = ts.track(*series, Path(folder) / f"{name}.trx", **options, **chosen)
        for name, title in {"brain": "whole brain", "first": "two exclude regions", "bundle": "three"}.items():
            title = f"{len(runs[name]):,} streamlines, {title}{' exclude regions' if title == 'three' else ''}"
            picture_of(runs[name], IMAGES / f"tutorial-{name}.png", title, image)
    counts = np.asarray(runs["bundle"].density)
    share = np.where(counts >= 10, counts / 1000, np.nan)
    layers = [(fa, {"cmap": "gray", "vmax": 0.9}), (share, {"cmap": "autumn", "vmin": 0, "vmax": 0.3})]
    title = "Voxels that at least 10 of the 1,000 streamlines pass: the more, the yellower; FA in grey"
    draw_slices(IMAGES / "tutorial-density.png", title, image.affine, (-20, 13, 123), layers)
    files = dict(zip(("dwi.nii.gz", "dwi.bval", "dwi.bvec", "mask.nii.gz"), (*series, mask), strict=True))
    with tempfile.TemporaryDirectory() as folder:
        printed = run_the_page(files, Path(folder))
        back = Path.cwd()
        os.chdir(folder)
        with redirect_stdout(StringIO()) as lines:
            look_at(track_the_bundle(*files))
        os.chdir(back)
        printed["python"] = lines.getvalue().strip()
        shrink(Path(folder) / "tistreamlines-demo" / "streamlines.png", IMAGES / "demo.png")
        record = json.loads((Path(folder) / "tistreamlines-demo" / "streamlines.json").read_text(encoding="utf-8"))
    numbers = {
        "command": "python docs/tutorial.py dwi.nii.gz dwi.bval dwi.bvec mask.nii.gz",
        "data": "the series of 1.8 mm of nlsam_data", "device": runs["brain"].device,
        "versions": runs["brain"].record["versions"], "runs": {name: run.as_dict() for name, run in runs.items()},
        "density": {"most": int(counts.max()), "voxels_with_10": int(np.sum(counts >= 10))},
        "two_seeds": agreement(counts, np.asarray(runs["again"].density)), "printed": printed,
        "cubic_centimetres": round(float(np.sum(counts >= 10) * abs(np.linalg.det(image.affine[:3, :3])) / 1000), 1),
        "demo": record["result"], "pictures": {path.name: digest(path) for path in (IMAGES / "demo.png",)},
    }
    RESULT.write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
