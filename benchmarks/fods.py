"""Time of multi-shell multi-tissue CSD, of ours and of MRtrix3's dwi2fod, and how far their coefficients differ.

    python benchmarks/fods.py [--arch cpu] [--shape 40 48 36] [--voxels 4000] [--mrtrix] [--same 2000] [--json FILE]

The series is a generated head of three shells with 288 volumes, or many of them side by side if there are to be more
voxels than it has. Times are of the second fit, after compilation. With ``--mrtrix``, dwi2fod fits the same voxels with
the same responses and two threads. Where other work shares the cores, compare the CPU seconds. With ``--same``, the CPU
fits the first voxels, too, and the bits are compared.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import nibabel
import numpy as np
from dipy.core.gradients import gradient_table
from records import write_record

from tistreamlines.fit.msmt import TissueFit, fit_msmt
from tistreamlines.phantom.phantom import Phantom
from tistreamlines.phantom.shells import make_shells

# of dwi2response dhollander, of such a series
RESPONSES = {
    "wm": np.array([
        [1055.16, 0, 0, 0, 0], [550.81, -223.96, 48.48, -7.88, -0.19], [353.4, -226, 92.03, -27.06, 6],
        [267.42, -194.7, 109.7, -44.76, 12.9],
    ]),
    "gm": np.array([[1215.23], [497.94], [207.04], [92.08]]), "csf": np.array([[4246.64], [215.53], [42.41], [41.46]]),
}


def mrtrix(phantom: Phantom, mask: np.ndarray) -> tuple[np.ndarray, float, float]:
    """Return the coefficients (m, 47) of dwi2fod, and its seconds: wall clock, and CPU."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name, values in (("dwi", phantom.data), ("mask", mask.astype(np.uint8))):
            nibabel.save(nibabel.Nifti1Image(values, np.eye(4)), root / f"{name}.nii")
        np.savetxt(root / "grad.b", np.column_stack([phantom.bvecs, phantom.bvals]), "%.10f")
        command = ["dwi2fod", "msmt_csd", "dwi.nii", "-grad", "grad.b", "-mask", "mask.nii", "-nthreads", "2", "-quiet"]
        for name, response in RESPONSES.items():
            np.savetxt(root / f"{name}.txt", response)
            command += [f"{name}.txt", f"{name}.nii"]
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime, time.perf_counter()
        subprocess.run(command, cwd=root, check=True)
        wall, cpu = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
        images = [nibabel.Nifti1Image.from_filename(root / f"{name}.nii").get_fdata() for name in RESPONSES]
    return np.concatenate([image.reshape(*mask.shape, -1)[mask] for image in images], axis=1), wall, cpu


def stacked(fit: TissueFit, mask: np.ndarray) -> np.ndarray:
    """Return the coefficients of all tissues (m, 47)."""
    return np.concatenate([values[mask] for values in fit.coefficients.values()], axis=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", default="cpu")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--shape", type=int, nargs=3, default=(40, 48, 36))
    parser.add_argument("--voxels", type=int, default=4000, help="at most so many, in the middle of the head")
    parser.add_argument("--mrtrix", action="store_true")
    parser.add_argument("--same", type=int, default=0, help="voxels that the CPU fits, too")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    phantom = make_shells(tuple(options.shape), 140 / options.shape[0])
    heads = -(-options.voxels // np.count_nonzero(phantom.mask))
    phantom = replace(phantom, data=np.tile(phantom.data, (heads, 1, 1, 1)), mask=np.tile(phantom.mask, (heads, 1, 1)))
    inside = np.flatnonzero(phantom.mask)
    first = max(len(inside) - options.voxels, 0) // 2

    def part(count: int) -> np.ndarray:
        mask = np.zeros(phantom.mask.size, bool)
        mask[inside[first : first + count]] = True
        return mask.reshape(phantom.mask.shape)

    gtab, mask = gradient_table(phantom.bvals, bvecs=phantom.bvecs), part(options.voxels)
    for _ in range(2):
        start, before = time.perf_counter(), time.process_time()
        fit = fit_msmt(phantom.data, gtab, mask, RESPONSES, threads=options.threads, arch=options.arch)
        wall, cpu = time.perf_counter() - start, time.process_time() - before
    count = int(mask.sum())
    result = {
        "arch": options.arch, "voxels": count, "volumes": len(phantom.bvals), "seconds": wall, "cpu_seconds": cpu,
        "microseconds_a_voxel": 1e6 * wall / count, "failed": int(fit.failed.sum()),
    }
    if options.same:
        same = part(options.same)
        there = stacked(fit_msmt(phantom.data, gtab, same, RESPONSES), same)
        result["other_bits"] = int((there.view(np.int32) != stacked(fit, same).view(np.int32)).any(axis=1).sum())
    if options.mrtrix:
        theirs, wall_there, cpu_there = mrtrix(phantom, mask)
        ours = stacked(fit, mask)
        shares = np.abs(ours - theirs).sum(axis=1) / np.abs(theirs).sum(axis=1)
        result |= {
            "dwi2fod_seconds": wall_there, "dwi2fod_cpu_seconds": cpu_there, "times_faster": wall_there / wall,
            "times_less_cpu": cpu_there / cpu, "mean_difference": float(shares.mean()),
            "greatest_difference": float(shares.max()),
            "correlation": float(np.corrcoef(ours[:, :45].ravel(), theirs[:, :45].ravel())[0, 1]),
        }
    print(json.dumps(result, indent=1))
    if options.json:
        write_record(options.json, results=[result])


if __name__ == "__main__":
    main()
