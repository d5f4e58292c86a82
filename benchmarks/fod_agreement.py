"""How far FODs of several tissues and their normalisation are from those of MRtrix3's dwi2fod and mtnormalise.

    python benchmarks/fod_agreement.py DWI MASK WM GM|- CSF|- [--every 3] [--directions 12,20,30] [--out FILE]

DWI is an image of MRtrix3 with its gradients, and WM, GM, CSF are responses for both. ``--every`` takes a part of the
voxels of the mask, and ``--directions`` so many volumes of a series of one shell, spread over the sphere, at order 8.
Then dwi2fod also runs with ``-neg_lambda 1e-13``, with which its constraints hardly give way.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from records import write_record

import tistreamlines as ts
from tistreamlines.fit.normalise import normalise_tissues
from tistreamlines.io.images import open_image, read_array
from tistreamlines.io.maps import map_content
from tistreamlines.io.nifti import open_dwi

FIRM = ("-neg_lambda", "1e-13")


def read(path: Path) -> np.ndarray:
    return np.asarray(read_array(*open_image(path)))


def spread(dwi: Path, count: int) -> list[int]:
    """Return the volumes of b = 0 and so many others: each is the farthest from those before."""
    gtab = open_dwi(dwi, None, None).gradients.result()
    weighted = np.flatnonzero(~gtab.b0s_mask)
    chosen = [weighted[0]]
    while len(chosen) < count:
        chosen.append(weighted[np.abs(gtab.bvecs[weighted] @ gtab.bvecs[chosen].T).max(axis=1).argmin()])
    return sorted([*np.flatnonzero(gtab.b0s_mask), *chosen])


def differences(ours: np.ndarray, theirs: np.ndarray) -> dict[str, float]:
    """Mean difference over the mean, greatest difference, and correlation."""
    apart = np.abs(ours.astype(np.float64) - theirs)
    return {
        "mean_difference": float(apart.mean() / np.abs(theirs).mean()), "greatest_difference": float(apart.max()),
        "r": float(np.corrcoef(ours.ravel(), theirs.ravel())[0, 1]),
    }


def compare(dwi: Path, mask: Path, responses: dict[str, Path], orders: Sequence[int], folder: Path, *firm: str) -> dict:
    """Compare the FODs of a series, and the normalisation of those of dwi2fod."""
    def call(*words: object) -> None:
        subprocess.run([*map(str, words), "-quiet", "-force"], check=True)

    names = {name: folder / f"{name}.mif" for name in responses}
    inside = read(mask) > 0
    lmax = ",".join(map(str, orders))
    options = {f"response_{name}": path for name, path in responses.items()}
    fit = ts.fit_fods(dwi, mask=inside, normalise=False, model="msmt", lmax=lmax, **options).fit
    pairs = [word for name, path in responses.items() for word in (path, names[name])]
    call("dwi2fod", "msmt_csd", dwi, *pairs, "-mask", mask, "-lmax", lmax, *firm)
    theirs = {name: read(path).reshape(*inside.shape, -1) for name, path in names.items()}
    result = {"voxels": int(inside.sum()), "lmax": lmax, "dwi2fod": [*firm]}
    for name, values in theirs.items():
        result[name] = differences(fit.coefficients[name][inside], values[inside])
    if len(theirs) > 1 and not firm:
        normal = {name: folder / f"{name}_normal.mif" for name in theirs}
        pairs = [word for name, path in names.items() for word in (path, normal[name])]
        call("mtnormalise", *pairs, "-mask", mask)
        known = normalise_tissues({name: values[..., 0] for name, values in theirs.items()}, inside)
        apart = [
            np.abs(known.apply(values, name) - read(normal[name]).reshape(values.shape)).max()
            for name, values in theirs.items()
        ]
        result["mtnormalise_greatest_difference"] = float(max(apart))
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dwi", type=Path)
    parser.add_argument("mask", type=Path)
    for name in ("wm", "gm", "csf"):
        parser.add_argument(name)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--directions", type=lambda text: [*map(int, text.split(","))], default=[])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    responses = {name: Path(path) for name in ("wm", "gm", "csf") if (path := getattr(options, name)) != "-"}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        inside, space = read(options.mask) > 0, open_dwi(options.dwi, None, None).space
        part = inside & (np.cumsum(inside).reshape(inside.shape) % options.every == 0)
        mask = folder / "mask.mif"
        mask.write_bytes(map_content(".mif", part.astype(np.uint8), space))
        columns = np.loadtxt(responses["wm"], ndmin=2).shape[1]
        orders = [min(2 * columns - 2, 8), *[0] * (len(responses) - 1)]
        results = [compare(options.dwi, mask, responses, orders, folder)]
        for count in options.directions:
            volumes = ",".join(map(str, spread(options.dwi, count)))
            few = folder / "few.mif"
            subprocess.run(["mrconvert", options.dwi, few, "-coord", "3", volumes, "-quiet", "-force"], check=True)
            for firm in ((), FIRM):
                row = compare(few, mask, responses, orders, folder, *firm)
                results.append({"directions": count} | row)
    for row in results:
        print(row)
    if options.out:
        write_record(options.out, data=options.dwi.parent.name, every=options.every, results=results)


if __name__ == "__main__":
    main()
