"""Time the whole of a subject: from a series of three shells and five tissues to streamlines, weights and matrices.

    python benchmarks/subject.py FOLDER [--select 10M] [--atlases 4] [--arch cuda] [--repeat 1] [--json FILE] [OPTIONS]

FOLDER gets the series of ``hcp_series.py``, its tissues as ``5tt.nii.gz``, and parcellations of its grey matter into
84, 200, 400 and 1,000 nodes and so on, each around points drawn at random. Files that are there stay as they are. The
command is ``track --preset qsirecon-msmt-act`` with all other OPTIONS. The script prints its seconds, its stages, and
the greatest memory of all its processes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nibabel as nib
import numpy as np
from hcp_series import SIDE_MM, write_series
from records import write_record
from scipy.spatial import cKDTree

from tistreamlines.devices import usable_cores
from tistreamlines.phantom.phantom import Head, affine_of

NODES = (84, 200, 400, 1000)
PRESET = "qsirecon-msmt-act"


def write_tissues(folder: Path, head: Head, affine: np.ndarray) -> None:
    """Write the five tissues; what has no bundle has the signal of grey matter, so it is deep grey matter."""
    white = head.tissues["wm"]
    bundles = np.minimum(np.sum(head.fractions, axis=0) * head.mask, white)
    parts = [head.tissues["gm"], white - bundles, bundles, head.tissues["csf"], np.zeros_like(white)]
    nib.save(nib.Nifti1Image(np.stack(parts, axis=-1), affine), folder / "5tt.nii.gz")


def write_atlas(path: Path, head: Head, affine: np.ndarray, nodes: int, seed: int) -> None:
    """Write a parcellation: each voxel of grey matter has the label of the nearest of so many points of it."""
    grey = np.argwhere(head.tissues["gm"] > 0)
    rng, labels = np.random.default_rng(seed), np.zeros(head.mask.shape, np.int16)
    labels[tuple(grey.T)] = 1 + cKDTree(grey[rng.choice(len(grey), nodes, replace=False)]).query(grey)[1]
    nib.save(nib.Nifti1Image(labels, affine), path)


def write_subject(folder: Path, shape: tuple[int, int, int], atlases: int) -> list[Path]:
    """Write what is not there; return the atlases."""
    if not (folder / "dwi.nii").exists():
        write_series(folder, shape)
    paths = [folder / f"atlas{number}_{NODES[number % len(NODES)]}.nii.gz" for number in range(atlases)]
    if all(path.exists() for path in [folder / "5tt.nii.gz", *paths]):
        return paths
    shape = nib.Nifti1Image.from_filename(folder / "dwi.nii").shape[:3]
    head, affine = Head.of(shape), affine_of(shape, SIDE_MM / shape[0])
    write_tissues(folder, head, affine)
    missing = [(number, path) for number, path in enumerate(paths) if not path.exists()]
    with ThreadPoolExecutor(usable_cores()) as pool:
        for written in [
            pool.submit(write_atlas, path, head, affine, NODES[number % len(NODES)], number) for number, path in missing
        ]:
            written.result()
    return paths


def resident(process: int) -> float:
    """Return the memory of a process and its children, GB."""
    pages, total = os.sysconf("SC_PAGE_SIZE"), 0.0
    for number in [process, *children(process)]:
        try:
            total += int(Path(f"/proc/{number}/statm").read_text().split()[1]) * pages / 1e9
        except (OSError, IndexError):
            continue
    return total


def children(process: int) -> list[int]:
    """Return the processes that a process and its children have started."""
    try:
        lists = [path.read_text().split() for path in Path(f"/proc/{process}/task").glob("*/children")]
    except OSError:
        return []
    return [number for row in lists for child in row for number in (int(child), *children(int(child)))]


def timed(command: list[str]) -> tuple[float, float]:
    """Run a command; return its seconds and greatest memory in GB."""
    begun, most = time.perf_counter(), 0.0
    with subprocess.Popen(command) as running:
        while running.poll() is None:
            most = max(most, resident(running.pid))
            time.sleep(0.1)
    if running.returncode:
        raise SystemExit(running.returncode)
    return time.perf_counter() - begun, most


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--shape", type=int, nargs=3, default=(145, 174, 145))
    parser.add_argument("--select", default="10M")
    parser.add_argument("--atlases", type=int, default=4)
    parser.add_argument("--arch", default="cuda")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options, more = parser.parse_known_args()
    folder, rows = options.folder, []
    atlases = write_subject(folder, tuple(options.shape), options.atlases)
    command = [
        sys.executable, "-m", "tistreamlines", "track", folder / "dwi.nii", folder / "dwi.bval", folder / "dwi.bvec",
        "--mask", folder / "mask.nii.gz", "--preset", PRESET, "--act", folder / "5tt.nii.gz", "--arch", options.arch,
        "--select", options.select, "--force", "-o", folder / "out.trx",
    ]
    for atlas in atlases:
        command += ["--connectome", atlas, folder / f"{atlas.name.removesuffix('.nii.gz')}.csv"]
    for _ in range(options.repeat):
        # a run that replaces a large file also waits for seconds until the system has given its memory back
        (folder / "out.trx").unlink(missing_ok=True)
        seconds, memory = timed([*map(str, command), *more])
        result = json.loads((folder / "out.json").read_text())["result"]
        rows.append({"seconds": round(seconds, 2), "memory_gb": round(memory, 2), "stages": result["seconds"]})
        print(json.dumps(rows[-1]), flush=True)
    if options.json:
        write_record(options.json, rows=rows, select=options.select, atlases=len(atlases), arch=options.arch)


if __name__ == "__main__":
    main()
