"""What matrices and maps cost while tracking, beside tracking alone and beside a .tck that MRtrix3's programs read.

    python benchmarks/products.py FOLDER NSEEDS --out FILE [--arch ARCH] [--devices LIST] [--dg DG] [--turns N]
        [--only NAME,NAME] [--peers]

FOLDER contains dwi.nii.gz, dwi.bval, dwi.bvec and mask.nii.gz. Parcellations of 84 and 1,000 nodes are made of the
shell of the mask. Each run is a process of its own, whose greatest memory is told; fits and kernels come from the cache
of a first turn, which is left out. ``alone`` takes the streamlines in batches and keeps none. With --peers, the last
run writes a .tck, of which tck2connectome and tckmap make the same, and tckgen tracks as many seeds in a FOD image.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
from records import write_record
from scipy.ndimage import distance_transform_edt
from scipy.spatial import cKDTree

import tistreamlines as ts
from tistreamlines.io.sidecar import sha256
from tistreamlines.space.batch import Space

NODES = (84, 1000)
SHELL = 6  # voxels from the border of the mask, which have nodes
VOXEL = 1.0  # mm, of the density
WANTED = {
    "alone": (), "ends": ("ends",), "density": ("density",), "84": (84,), "1000": (1000,), "matrices": NODES,
    "all": (*NODES, "density"), "tck": ("tck",),
}


def make_labels(mask: Path, nodes: int, to: Path) -> None:
    """Write a parcellation: each voxel of the shell has the number of the nearest of some of them."""
    image = nib.load(mask)
    inside = image.get_fdata() > 0
    shell = np.argwhere(inside & (distance_transform_edt(inside) <= SHELL))
    centres = shell[np.random.default_rng(nodes).choice(len(shell), nodes, replace=False)]
    labels = np.zeros(inside.shape, np.int32)
    labels[tuple(shell.T)] = cKDTree(centres).query(shell)[1] + 1
    nib.save(nib.Nifti1Image(labels, image.affine), to)


def products(wanted: tuple[Any, ...], to: Path) -> dict[str, Any]:
    """Return the options of what is made."""
    options: dict[str, Any] = {}
    numbers = [number for number in wanted if isinstance(number, int)]
    if numbers:
        options["connectome"] = [(to / f"labels{number}.nii.gz", to / f"made{number}.csv") for number in numbers]
    if "density" in wanted:
        options |= {"density": to / "density.nii.gz", "density_voxel": VOXEL}
    if "ends" in wanted:
        options["ends"] = to / "ends.nii.gz"
    return options


def run(name: str, folder: Path, to: Path, options: dict[str, Any], queue: Any) -> None:
    """Track, and tell seconds, memory and the sums of the files."""
    series = [folder / file for file in ("dwi.nii.gz", "dwi.bval", "dwi.bvec")]
    begun, row, files = time.perf_counter(), {}, []
    if name == "alone":
        row["streamlines"] = sum(map(len, ts.stream(*series, **options)))
    else:
        wanted = products(WANTED[name], to)
        output = to / "tracks.tck" if name == "tck" else None
        result = ts.track(*series, output, force=True, keep_streamlines=False, **options, **wanted)
        row = {"streamlines": result.n_streamlines, "track_seconds": result.seconds["track"]}
        files = [wanted[product] for product in ("density", "ends") if product in wanted]
        for _, path in wanted.get("connectome", ()):
            files += [path, path.with_name(path.stem + "_error.csv")]
    row["seconds"] = round(time.perf_counter() - begun, 3)
    row["memory_bytes"] = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    queue.put(row | {"sha256": {Path(path).name: sha256(path)[:12] for path in files}})


def in_process(*words: Any) -> dict[str, Any]:
    """Run in a new process; return what it told."""
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=run, args=(*words, queue))
    process.start()
    row = queue.get()
    process.join()
    return row


def make_fod(folder: Path, to: Path) -> None:
    """Write the FOD image of tckgen, from gradients along the voxel axes, as DIPY reads them."""
    image, bvecs = nib.load(folder / "dwi.nii.gz"), np.loadtxt(folder / "dwi.bvec")
    flip = -1 if Space(image.affine, image.shape[:3]).fsl_flips_x else 1
    np.savetxt(to / "fsl.bvec", (bvecs if len(bvecs) == 3 else bvecs.T) * [[flip], [1], [1]])
    series = ["-fslgrad", to / "fsl.bvec", folder / "dwi.bval", "-mask", folder / "mask.nii.gz", "-quiet", "-force"]
    for words in (["dwi2response", "tournier", folder / "dwi.nii.gz", to / "response.txt"],
                  ["dwi2fod", "csd", folder / "dwi.nii.gz", to / "response.txt", to / "fod.mif"]):
        subprocess.run([*words, *series], check=True)


def peers(to: Path, mask: Path, nseeds: int) -> list[dict[str, Any]]:
    """Time the programs of MRtrix3: on our .tck, and tckgen."""
    seeds = ["-seed_image", mask, "-mask", mask, "-seeds", nseeds, "-select", 0]
    commands: list[list[Any]] = [
        *(["tckgen", "-algorithm", kind, "fod.mif", f"{kind}.tck", *seeds] for kind in ("iFOD1", "iFOD2")),
        *(["tck2connectome", "tracks.tck", f"labels{n}.nii.gz", f"peer{n}.csv", "-symmetric"] for n in NODES),
        ["tckmap", "tracks.tck", "peer.nii.gz", "-vox", f"{VOXEL:g}"],
    ]
    out = []
    for command in commands:
        begun = time.perf_counter()
        subprocess.run([*map(str, command), "-quiet", "-force"], check=True, cwd=to)
        name = " ".join(map(str, command)).replace(str(mask), mask.name)
        out.append({"name": name, "seconds": round(time.perf_counter() - begun, 3)})
    return out


def main() -> None:
    """Run all in turns."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("nseeds", type=int)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--arch", default="cpu")
    parser.add_argument("--devices")
    parser.add_argument("--dg", default="prob")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--only", default="alone,ends,density,84,1000,matrices,all,tck")
    parser.add_argument("--peers", action="store_true")
    arguments = parser.parse_args()
    runs = []
    with tempfile.TemporaryDirectory() as work:
        to, mask = Path(work), arguments.folder.resolve() / "mask.nii.gz"
        if arguments.peers:
            make_fod(arguments.folder, to)
        for nodes in NODES:
            make_labels(mask, nodes, to / f"labels{nodes}.nii.gz")
        options: dict[str, Any] = {"mask": mask, "nseeds": arguments.nseeds, "dg": arguments.dg}
        options |= {"arch": arguments.arch, "devices": arguments.devices, "cache_dir": to / "cache"}
        for turn in range(-1, arguments.turns):
            warm = {"nseeds": min(arguments.nseeds, 10_000)} if turn < 0 else {}
            for name in arguments.only.split(","):
                row = in_process(name, arguments.folder, to, options | warm)
                print(turn, name, row, flush=True)
                if turn >= 0:
                    runs.append({"turn": turn, "name": name} | row)
            if arguments.peers and turn >= 0:
                for row in peers(to, mask, arguments.nseeds):
                    print(turn, row, flush=True)
                    runs.append({"turn": turn} | row)
    write_record(arguments.out, runs=runs)


if __name__ == "__main__":
    main()
