"""Runs that take a fraction of a second: deterministic, along the peaks of a file."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np

import tistreamlines as ts
from tistreamlines.io.sidecar import checksum

SHAPE, SEEDS = (16, 18, 14), 120


def write_inputs(folder: Path) -> dict[str, Any]:
    """Write peaks along y, a stop map and seeds; return the options of a run."""
    rng = np.random.default_rng(0)
    affine = np.diag([2.0, 2.0, 2.0, 1.0])
    peaks = np.zeros((*SHAPE, 3), np.float32)
    peaks[...] = rng.normal([0, 1, 0], 0.05, (*SHAPE, 3))
    inside = np.pad(np.ones([size - 4 for size in SHAPE], np.float32), 2)
    for name, values in (("peaks", peaks), ("stop", inside)):
        nib.Nifti1Image(values, affine).to_filename(folder / f"{name}.nii.gz")
    voxels = rng.permutation(np.argwhere(inside))[:SEEDS]
    np.save(folder / "seeds.npy", nib.affines.apply_affine(affine, voxels))
    files = {"peaks": "peaks.nii.gz", "stop_map": "stop.nii.gz", "seeds": "seeds.npy"}
    named = {name: str(folder / file) for name, file in files.items()}
    return {**named, "dg": "det", "peaks_frame": "voxel", "arch": "cpu", "threads": 1}


def words_of(options: dict[str, Any]) -> list[str]:
    """Words of the command line for the options of :func:`write_inputs`, without arch and threads."""
    named = {name: value for name, value in options.items() if name not in ("arch", "threads")}
    return [word for name, value in named.items() for word in (f"--{name.replace('_', '-')}", value)]


def write_parts(folder: Path, options: dict[str, Any], count: int = 3, **more: Any) -> list[Path]:
    """Track the parts of a run."""
    paths = [folder / f"part{number}.trx" for number in range(1, count + 1)]
    for number, path in enumerate(paths, 1):
        ts.track(output=path, **options | more, part=f"{number}/{count}")
    return paths


def change(path: Path, place: tuple[str, ...], value: Any, *, renewed: bool) -> None:
    """Write another value in a record, and perhaps the checksum that belongs to it."""
    content = json.loads(path.read_text())
    inner = content
    for name in place[:-1]:
        inner = inner[name]
    inner[place[-1]] = value
    if renewed:
        content["checksum"] = checksum(content)
    path.write_text(json.dumps(content))


@contextmanager
def soon(seconds: int = 20) -> Generator[None, None, None]:
    """Raise TimeoutError in what hangs."""
    if sys.platform == "win32":
        yield
        return

    def late(*_: object) -> None:
        raise TimeoutError("hangs")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
