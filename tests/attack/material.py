"""What every try begins with: small inputs, compiled kernels, kept tables, and what the runs give if nothing is wrong.

Run as a program with a folder, in a process of its own, since whoever forks the tries has not imported anything yet.
"""

from __future__ import annotations

import gzip
import json
import os
import runpy
import shutil
import sys
import time
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PATHS = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))  # of this package, and of all it needs
# a series and a fitted model; directions from a file, whose kernels compile fastest
RUNS = {
    "boot": ["dwi.nii.gz", "dwi.bval", "dwi.bvec", "--mask", "mask.nii.gz", "--nseeds", "40"],
    "det": [
        "--dg", "det", "--peaks", "peaks.nii.gz", "--peaks-frame", "voxel", "--stop-map", "stop.nii.gz",
        "--seeds", "seeds.npy",
    ],
}
SHAPE, VOXEL_MM, SEEDS = (18, 22, 17), 8.0, 40
LABELS, LINES = "labels.nii.gz", "lines.trx"  # a parcellation, and the streamlines of the run "det"
MAP = ["map", LINES, "--connectome", LABELS]  # before the name of the matrix
TARGETS = ["front.nii.gz", "back.nii.gz"]  # masks that overlap
SEEDED = ["map", LINES, "--seeds-to-targets", "mask.nii.gz"]  # before the name of the table, and the targets
MIF, MIF_OFFSET = ("dwi", "mask", "peaks", "stop"), 4096  # images that are also there as .mif, and where values begin


def track(run: str, output: str) -> list[str]:
    """Arguments of a run, from the folder of the inputs."""
    return ["track", *RUNS[run], "--arch", "cpu", "-o", output]


def targets_of(*names: str) -> list[str]:
    """Arguments that name targets."""
    return [word for name in names for word in ("--targets", name)]


def in_this_process(arguments: list[str]) -> object:
    """Run the program as ``python -m tistreamlines`` does; return what it exits with."""
    from tistreamlines.cli import interrupts

    interrupts._leave = lambda code: None  # which ends the process at once
    sys.argv = ["tistreamlines", *arguments]
    try:
        runpy.run_module("tistreamlines", run_name="__main__")
    except SystemExit as done:
        return done.code
    return 0


def make_inputs(folder: Path) -> None:
    """Write a small head, and peaks along y with seeds and a stop map on its grid; each image packed and plain."""
    import nibabel as nib
    import numpy as np

    from tistreamlines.phantom.phantom import make_phantom, save_phantom

    phantom = make_phantom(SHAPE, voxel_mm=VOXEL_MM, n_b0=2, n_dirs=32)
    folder.mkdir(parents=True)
    save_phantom(phantom, folder)
    rng = np.random.default_rng(0)
    peaks = np.zeros((*SHAPE, 6), np.float32)
    peaks[..., :3] = rng.normal([0, 1, 0], 0.05, (*SHAPE, 3))
    for name, values in (("peaks", peaks), ("stop", phantom.mask.astype(np.float32))):
        nib.Nifti1Image(values, phantom.affine).to_filename(folder / f"{name}.nii.gz")
    for packed in folder.glob("*.nii.gz"):
        nib.load(packed).to_filename(packed.with_suffix(""))
    bvecs, bvals = (np.loadtxt(folder / f"dwi.{name}") for name in ("bvec", "bval"))
    for name in MIF:
        image = nib.load(folder / f"{name}.nii")
        content = as_mif(np.asarray(image.dataobj), phantom.affine, np.column_stack([bvecs.T, bvals]), name == "dwi")
        (folder / f"{name}.mif").write_bytes(content)
        (folder / f"{name}.mif.gz").write_bytes(gzip.compress(content, 1))
    y = np.indices(SHAPE)[1]
    labels = (1 + y // 4).astype(np.int16)  # 6 slabs across the streamlines
    labels[:2] = 0
    nib.Nifti1Image(labels, phantom.affine).to_filename(folder / LABELS)
    for name, inside in zip(TARGETS, (y < 10, y > 8), strict=True):
        nib.Nifti1Image(inside.astype(np.uint8), phantom.affine).to_filename(folder / name)
    (folder / "nodes.tsv").write_text("index\tname\n" + "".join(f"{k}\tslab {k}\n" for k in range(1, 7)))
    voxels = rng.permutation(np.argwhere(phantom.mask))[:SEEDS]
    seeds = nib.affines.apply_affine(phantom.affine, voxels)
    np.save(folder / "seeds.npy", seeds)
    np.savetxt(folder / "seeds.txt", seeds, fmt="%.17g")


def as_mif(values: Any, affine: Any, scheme: Any, series: bool) -> bytes:
    """Return the content of an image of MRtrix3, with its values from byte MIF_OFFSET on."""
    import numpy as np

    sides = np.linalg.norm(affine[:3, :3], axis=0)
    rows = np.column_stack([affine[:3, :3] / sides, affine[:3, 3]])
    lines = [
        "mrtrix image", f"dim: {','.join(map(str, values.shape))}", f"vox: {','.join(map(str, [*sides, 1.0]))}",
        f"layout: {','.join(f'+{axis}' for axis in range(values.ndim))}", "datatype: Float32LE",
        *(f"transform: {','.join(map(str, row))}" for row in rows), f"file: . {MIF_OFFSET}",
        *(f"dw_scheme: {','.join(map(str, row))}" for row in scheme if series), "END", "",
    ]
    return "\n".join(lines).encode().ljust(MIF_OFFSET, b"\0") + values.astype("<f4").tobytes(order="F")


def make(folder: Path) -> None:
    """Fill a folder: ``in``, ``cache`` (kernels), ``tables``, ``out``, and ``clean.json`` (hash and seconds by run)."""
    make_inputs(folder / "in")
    for name in ("cache", "tables", "out"):
        (folder / name).mkdir()
    os.chdir(folder / "in")
    for run in RUNS:
        code = in_this_process([*track(run, f"../out/{run}.trx"), "--cache-dir", "../tables"])
        if code:
            raise SystemExit(f"the clean run {run} ended with {code}")
    shutil.copy(folder / "out" / "det.trx", folder / "in" / LINES)
    maps = ["--density", "../out/map.nii.gz", "--ends", "../out/map-ends.nii.gz"]
    if in_this_process([*MAP, "../out/map.csv", *maps]):
        raise SystemExit("the clean matrix is not there")
    if in_this_process([*SEEDED, "../out/targets.csv", *targets_of(*TARGETS)]):
        raise SystemExit("the clean table of targets is not there")
    _copy_kernels(folder / "cache")
    tables = {name: (folder / "out" / f"{name}.csv").read_bytes() for name in ("map", "targets")}
    clean: dict[str, Any] = {name: {"sha256": sha256(content).hexdigest()} for name, content in tables.items()}
    os.environ |= {"XDG_CACHE_HOME": str(folder / "cache"), "PYTHONPATH": PATHS}
    for run in RUNS:
        begun = time.perf_counter()
        again = folder / "out" / f"{run}-again.trx"
        os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-m", "tistreamlines", *track(run, str(again)), "-q"])
        digests = {sha256(path.read_bytes()).hexdigest() for path in (again, folder / "out" / f"{run}.trx")}
        if len(digests) > 1:
            raise SystemExit(f"two clean runs of {run} differ")
        clean[run] = {"sha256": digests.pop(), "seconds": time.perf_counter() - begun}
    (folder / "clean.json").write_text(json.dumps(clean))


def _copy_kernels(cache: Path) -> None:
    """Take the kernels that this process has loaded out of the user's cache, so that they need not be compiled anew."""
    loaded = [(name, module) for name, module in sys.modules.items() if name.startswith("tistreamlines_")]
    with suppress(OSError):  # whatever is not found is compiled by the next run
        for name, module in loaded:
            home = Path(module.__file__ or "").parent
            base = next(parent for parent in home.parents if parent.name == "tistreamlines").parent
            for path in home.rglob(f"{name}*"):
                target = cache / path.relative_to(base)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, target)  # with its time, by which Numba knows it


if __name__ == "__main__":
    make(Path(sys.argv[1]))
