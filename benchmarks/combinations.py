"""Hashes of the streamlines of each direction getter with each stopping rule and recovery, to compare two versions.

    python benchmarks/combinations.py ../shared/data/sherbrooke_crop --arch cpu --out now.json
    PYTHONPATH=OTHER python benchmarks/combinations.py ../shared/data/sherbrooke_crop --arch cpu --against now.json

The folder holds dwi.nii.gz, dwi.bval, dwi.bvec and mask.nii.gz; OTHER holds the package of another version. Tissues are
made up: smooth pockets of grey matter and of fluid, which streamlines reach after a few steps. With 2,000 seeds a CPU
takes two minutes; a Vulkan device in software needs as long for 12 seeds.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
from scipy.ndimage import gaussian_filter

import tistreamlines as ts

GETTERS = ("boot", "prob", "det", "ptt", "ifod1", "ifod2", "sd_stream")
DRAWING = ("prob", "ptt", "ifod1", "ifod2")  # backtracking needs steps that draw random numbers
ALONG_VERTICES = ("boot", "prob", "det", "ptt")  # those that particle filtering can follow
VARIANTS: dict[str, dict[str, Any]] = {
    "det closest": {"dg": "det", "det_rule": "closest"}, "prob of samples": {"dg": "prob", "pmf_rows": "sampled"},
    "ptt of the paper": {"dg": "ptt", "probe_rule": "paper"}, "det one way": {"dg": "det", "one_way": True},
    "prob truncated": {"dg": "prob", "max_length": 20, "too_long": "truncate"},
}


def make_tissues(image: Any, folder: Path) -> dict[str, str]:
    """Write shares of white matter, grey matter and fluid, and five tissues with a block of deep grey matter."""
    noise = gaussian_filter(np.random.default_rng(1).normal(size=image.shape[:3]), 1.2)
    grey, fluid = noise < np.quantile(noise, 0.15), noise > np.quantile(noise, 0.9)
    white, grey, fluid = (gaussian_filter(kind.astype(float), 0.5) for kind in (~(grey | fluid), grey, fluid))
    five = np.stack([grey, 0 * grey, white, fluid, 0 * grey], axis=-1)
    deep = tuple(slice(size // 2 - 3, size // 2 + 3) for size in image.shape[:2])
    five[(*deep, slice(None), 1)] = 9 * five[(*deep, slice(None), 0)] + 9 * five[(*deep, slice(None), 2)]
    values = {"pve_wm": white, "pve_gm": grey, "pve_csf": fluid, "act": five}
    whole = white + grey + fluid
    paths = {name: folder / f"{name}.nii.gz" for name in values}
    for name, path in paths.items():
        shares = values[name] / (values[name].sum(axis=-1, keepdims=True) if name == "act" else whole)
        nib.save(nib.Nifti1Image(shares.astype(np.float32), image.affine), path)
    return {name: str(path) for name, path in paths.items()}


def combinations(tissues: dict[str, str]) -> dict[str, dict[str, Any]]:
    """Return the options of each combination, by its name."""
    shares, five = {name: path for name, path in tissues.items() if name != "act"}, {"act": tissues["act"]}
    rows: dict[str, dict[str, Any]] = {f"{dg}": {"dg": dg} for dg in GETTERS}
    rows |= {f"{dg} like dipy": {"dg": dg, "like": "dipy"} for dg in GETTERS}
    for rule in ("act", "cmc"):
        rows |= {f"{dg} {rule}": {"dg": dg, "stopping": rule, **shares} for dg in GETTERS}
        rows |= {f"{dg} {rule} pft": {"dg": dg, "stopping": rule, "pft": True, **shares} for dg in ALONG_VERTICES}
    rows |= {f"{dg} act5": {"dg": dg, **five} for dg in GETTERS}
    rows |= {f"{dg} act5 backtrack": {"dg": dg, "backtrack": True, "crop_at_gmwmi": True, **five} for dg in DRAWING}
    cuts = ("entry", "exit", "minimum", "random", "roulette")
    return rows | {f"ifod2 act5 {cut}": {"dg": "ifod2", "sgm_truncation": cut, **five} for cut in cuts} | VARIANTS


def hashed(result: ts.TrackResult) -> list[Any]:
    """Return the numbers of streamlines and of points, and the hash of all points."""
    batch = ts.Batch.concatenate(result.batches)
    content = np.ascontiguousarray(batch.points).tobytes() + np.ascontiguousarray(batch.offsets, np.int64).tobytes()
    return [len(batch), len(batch.points), hashlib.sha256(content).hexdigest()]


def main() -> int:
    """Track all combinations; the exit code is 1 if a hash differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--arch", default="cpu")
    parser.add_argument("--nseeds", type=int, default=2000)
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--against", type=Path, help="JSON file of another version to compare with")
    options = parser.parse_args()
    series = [options.folder / name for name in ("dwi.nii.gz", "dwi.bval", "dwi.bvec")]
    rows: dict[str, list[Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        tissues = make_tissues(nib.load(series[0]), Path(folder))
        for name, chosen in combinations(tissues).items():
            common = {"mask": options.folder / "mask.nii.gz", "nseeds": options.nseeds, "arch": options.arch}
            rows[name] = hashed(ts.track(*series, **common, **chosen))
            print(f"{name:22} {rows[name][0]:6} {rows[name][1]:8} {rows[name][2][:16]}", flush=True)
    if options.out is not None:
        options.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    others = rows if options.against is None else json.loads(options.against.read_text(encoding="utf-8"))
    different = [name for name in rows if rows[name] != others.get(name)]
    print(f"{len(rows) - len(different)} of {len(rows)} the same", *different, sep="\n")
    return int(bool(different))


if __name__ == "__main__":
    raise SystemExit(main())
