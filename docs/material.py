"""Small files with the names that the pages use, made of the demo's phantom: a series, tissues, labels, FODs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
from scipy.spatial import ConvexHull

ROOT = Path(__file__).resolve().parents[1]
BRAIN = ROOT.parent / "shared" / "data" / "sherbrooke_1p8mm"  # a series of nlsam_data, which is not in the repository
SERIES = {"dwi.nii.gz", "dwi.bval", "dwi.bvec", "mask.nii.gz"}
SAMPLES = 20  # of bedpostX
BIDS = "sub-01_ses-a_space-T1w_desc-preproc_dwi.nii.gz"


def tistreamlines(*arguments: object, folder: Path) -> None:
    """Run the program in a folder."""
    subprocess.run([sys.executable, "-m", "tistreamlines", *map(str, arguments), "-q"], cwd=folder, check=True)


def mrtrix(command: str, folder: Path) -> None:
    """Run a program of MRtrix3 in a folder."""
    subprocess.run([*command.split(), "-quiet", "-force"], cwd=folder, check=True)


def make_series(folder: Path) -> None:
    """The series, mask and tissue fractions of the demo, under all their names."""
    from tistreamlines.phantom.phantom import make_phantom, save_phantom

    save_phantom(make_phantom(), folder)
    copies = {
        "mask.nii.gz": ("brain_mask.nii.gz",), "dwi.nii.gz": (BIDS,),
        "pve_wm.nii.gz": ("wm.nii.gz", "T1_pve_2.nii.gz", "T1.nii.gz"),
        "pve_gm.nii.gz": ("gm.nii.gz", "T1_pve_1.nii.gz"),
        "pve_csf.nii.gz": ("csf.nii.gz", "T1_pve_0.nii.gz"),
        "nodes.nii.gz": ("desikan.nii.gz", "schaefer.nii.gz", "labels.nii.gz"),
    }
    for name, others in copies.items():
        for other in others:
            shutil.copy(folder / name, folder / other)


def make_maps(folder: Path) -> None:
    """FA and MD, and samples of the tensor's main direction as bedpostX writes them."""
    from dipy.core.gradients import gradient_table
    from dipy.reconst.dti import TensorModel

    series, mask = nib.load(folder / "dwi.nii.gz"), nib.load(folder / "mask.nii.gz")
    table = gradient_table(np.loadtxt(folder / "dwi.bval"), bvecs=np.loadtxt(folder / "dwi.bvec"))
    fit = TensorModel(table).fit(series.get_fdata(), mask=np.asarray(mask.dataobj) > 0)
    for name, values in (("FA", np.nan_to_num(fit.fa)), ("MD", fit.md)):
        _save(folder / f"{name}.nii.gz", values, mask.affine)
    shutil.copy(folder / "FA.nii.gz", folder / "fa.nii.gz")
    samples = folder / "subject.bedpostX"
    samples.mkdir()
    direction = fit.evecs[..., 0] + np.random.default_rng(0).normal(0, 0.1, (SAMPLES, *mask.shape, 3))
    direction = np.moveaxis(direction / np.linalg.norm(direction, axis=-1, keepdims=True), 0, 3)
    angles = np.arccos(direction[..., 2]), np.arctan2(direction[..., 1], direction[..., 0])
    fraction = np.repeat(np.nan_to_num(fit.fa)[..., None], SAMPLES, axis=-1)
    for role, values in zip(("th", "ph", "f"), (*angles, fraction), strict=True):
        _save(samples / f"merged_{role}1samples.nii.gz", values, mask.affine)
    shutil.copy(folder / "mask.nii.gz", samples / "nodif_brain_mask.nii.gz")


def make_regions(folder: Path) -> None:
    """Masks of the ends of bundles and of planes, labels of FreeSurfer, and balls as surfaces."""
    from tistreamlines.phantom.phantom import spread_directions

    nodes, mask = nib.load(folder / "nodes.nii.gz"), nib.load(folder / "mask.nii.gz")
    labels, inside = np.asarray(nodes.dataobj), np.asarray(mask.dataobj) > 0
    x, _, z = np.indices(labels.shape)
    tract = {name: number for number, name in map(str.split, (folder / "nodes.tsv").read_text().splitlines()[1:])}
    ends = [int(number) for name, number in tract.items() if "cst" in name.lower() or "cortico" in name.lower()]
    low, high = sorted(ends[:2] or [1, 2], key=lambda label: z[labels == label].mean())
    thalamus = np.zeros(labels.shape, bool)
    thalamus[tuple(np.argwhere(labels == low)[:4].T)] = True
    regions = {
        "thalamus": thalamus, "cortex": labels == high, "left_precentral": labels == high, "brainstem": labels == low,
        "motor": labels == high, "sensory": labels == low, "prefrontal": ~np.isin(labels, [0, low, high]),
        "midline": inside & (x == x[inside].min()), "brain_3mm": inside, "T1_all_fast_firstseg": 10 * thalamus,
    }
    for name, values in regions.items():
        _save(folder / f"{name}.nii.gz", values.astype(np.uint8), nodes.affine)
    tissues = np.stack([np.asarray(nib.load(folder / f"pve_{name}.nii.gz").dataobj) for name in ("wm", "gm", "csf")])
    left = x < labels.shape[0] / 2
    kinds = [np.where(left, 2, 41), np.where(left, 3, 42), np.full(x.shape, 4)]
    segmentation = np.choose(tissues.argmax(axis=0), kinds)
    segmentation = np.where(tissues.max(axis=0) > 0, np.where(thalamus, 10, segmentation), 0)
    nib.save(nib.MGHImage(segmentation.astype(np.int32), nodes.affine), folder / "aparc+aseg.mgz")
    directions = spread_directions(300)
    directions = np.concatenate([directions, -directions])
    triangles = ConvexHull(directions).simplices
    turned = np.linalg.det(directions[triangles]) < 0
    triangles[turned] = triangles[turned][:, ::-1]
    centre = nib.affines.apply_affine(mask.affine, np.argwhere(inside).mean(axis=0))
    for name, side in (("lh.white", -15), ("rh.white", 15)):
        geometry = {
            "head": [2, 0, 20], "valid": "1  # volume info valid", "filename": "orig.mgz", "volume": [256, 256, 256],
            "voxelsize": [1.0, 1, 1], "xras": [-1.0, 0, 0], "yras": [0.0, 0, -1], "zras": [0.0, 1, 0],
            "cras": centre,
        }
        nib.freesurfer.write_geometry(folder / name, directions * 20 + [side, 0, 0], triangles, None, geometry)


def make_tissues(folder: Path) -> None:
    """A five-tissue-type image."""
    names = [word for name in ("wm", "gm", "csf") for word in (f"--pve-{name}", f"pve_{name}.nii.gz")]
    tistreamlines("5tt", *names, "--sgm", "T1_all_fast_firstseg.nii.gz", "-o", "5tt.nii.gz", folder=folder)


def make_mrtrix(folder: Path) -> None:
    """The images of MRtrix3: the series, FODs, FA, masks and tissues."""
    mrtrix("mrconvert dwi.nii.gz -fslgrad dwi.bvec dwi.bval dwi.mif", folder)
    mrtrix("mrconvert mask.nii.gz mask.mif -datatype bit", folder)
    mrtrix("mrconvert 5tt.nii.gz 5tt.mif", folder)
    mrtrix("dwi2tensor dwi.mif -mask mask.mif tensor.mif", folder)
    mrtrix("tensor2metric tensor.mif -fa fa.mif", folder)
    mrtrix("mrthreshold fa.mif -abs 0.3 wm.mif", folder)
    mrtrix("dwi2response tournier dwi.mif response.txt -mask mask.mif -nthreads 2", folder)
    mrtrix("dwi2fod csd dwi.mif response.txt wmfod.mif -mask mask.mif", folder)
    mrtrix("sh2peaks wmfod.mif peaks.mif", folder)


def make_tracks(folder: Path) -> None:
    """Tractograms."""
    series = ("dwi.nii.gz", "dwi.bval", "dwi.bvec", "--mask", "mask.nii.gz", "--nseeds", 2000)
    for name in ("brain.trx", "tracks.tck"):
        tistreamlines("track", *series, "-o", name, folder=folder)
    shutil.copy(folder / "tracks.tck", folder / "brain.tck")
    count = len(nib.streamlines.load(folder / "brain.tck").streamlines)
    np.savetxt(folder / "weights.csv", np.random.default_rng(0).uniform(0.5, 1.5, count), fmt="%.3f")


def make_scripts(folder: Path) -> None:
    """Scripts of the repository that pages call, copied since some write files beside their own."""
    for name in ("benchmarks", "examples", "docs"):
        shutil.copytree(ROOT / name, folder / name)


# files, what they are made from, and their names; a step needs those before it
STEPS: list[tuple[Callable[[Path], None], tuple[str, ...]]] = [
    (make_series, (
        "dwi.nii.gz", "dwi.bval", "dwi.bvec", "mask.nii.gz", "brain_mask.nii.gz", BIDS, "pve_wm.nii.gz",
        "pve_gm.nii.gz", "pve_csf.nii.gz", "wm.nii.gz", "gm.nii.gz", "csf.nii.gz", "T1_pve_0.nii.gz", "T1_pve_1.nii.gz",
        "T1_pve_2.nii.gz", "T1.nii.gz", "desikan.nii.gz", "schaefer.nii.gz", "labels.nii.gz",
    )),
    (make_maps, ("FA.nii.gz", "MD.nii.gz", "fa.nii.gz", "subject.bedpostX")),
    (make_regions, (
        "thalamus.nii.gz", "cortex.nii.gz", "left_precentral.nii.gz", "brainstem.nii.gz", "midline.nii.gz",
        "motor.nii.gz", "sensory.nii.gz", "prefrontal.nii.gz",
        "brain_3mm.nii.gz", "T1_all_fast_firstseg.nii.gz", "aparc+aseg.mgz", "lh.white", "rh.white",
    )),
    (make_tissues, ("5tt.nii.gz",)),
    (make_mrtrix, ("dwi.mif", "mask.mif", "5tt.mif", "fa.mif", "wm.mif", "response.txt", "wmfod.mif", "peaks.mif")),
    (make_tracks, ("brain.trx", "tracks.tck", "brain.tck", "weights.csv")),
    (make_scripts, ("benchmarks", "examples", "docs")),
]
NAMES = {name for _, names in STEPS for name in names}


def make_material(folder: Path, names: Collection[str]) -> None:
    """Make the files of these names, and those that they are made from.

    Parameters
    ----------
    folder : Path
        It is created.
    names : collection of str
        Some of NAMES.
    """
    folder.mkdir(parents=True)
    last = max((number for number, (_, outputs) in enumerate(STEPS) if set(outputs) & set(names)), default=-1)
    for make, outputs in STEPS[: last + 1]:
        if set(outputs) & set(names) or make in (make_series, make_maps, make_regions, make_tissues):
            make(folder)


def _save(path: Path, values: Any, affine: Any) -> None:
    values = values if values.dtype == np.uint8 else values.astype(np.float32)
    nib.save(nib.Nifti1Image(values, affine), path)
