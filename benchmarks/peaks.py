"""Measure how streamlines that follow peaks compare with those that follow the orientation functions themselves.

    python benchmarks/peaks.py FODS PEAKS FA SEEDS [--series FOLDER] [--nseeds N] [--out FILE]

FODS and PEAKS are those of MRtrix3's ``dwi2fod`` and ``sh2peaks``, FA is the stop map (0.1), SEEDS a mask. With
--series, a folder with dwi.nii.gz, dwi.bval, dwi.bvec and mask.nii.gz, DIPY's ``peaks_from_model`` of its CSD is
measured too. The ways to use peaks are lobes of several widths, of which 0 is the nearest vertex alone, a single
vertex with a greatest angle of 45 degrees, and the closest peak. Beside them are DIPY's LocalTracking from the same
peaks (which averages the directions of neighbouring voxels) and from the FODs, and MRtrix3's FACT and SD_STREAM, if
tckgen is installed. "no direction" is the share of halves that ended since no direction lay within the angle; peers do
not tell it. "agreement" is the correlation of the density of points with that of --sh with det.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
from records import write_record

import tistreamlines as ts
from tistreamlines.fit.models import BASIS
from tistreamlines.space.harmonics import to_descoteaux, turn_coefficients
from tistreamlines.space.sphere import closest_vertices

WIDTHS = (0, 5, 10, 15, 20, 25)
ANGLE, THRESHOLD, STEP_VOX, PEAKS = 20.0, 0.1, 0.5, 5
Lines = Iterable[np.ndarray]


class Data:
    """The images and the seeds of a comparison."""

    def __init__(self, options: argparse.Namespace) -> None:
        """Read the stop map, and draw seeds in the mask."""
        self.options, image = options, nib.load(options.fa)
        self.fa, self.affine = np.nan_to_num(image.get_fdata()), image.affine
        self.sides = np.linalg.norm(self.affine[:3, :3], axis=0)
        self.axes, self.step = self.affine[:3, :3] / self.sides, STEP_VOX * float(self.sides.min())
        rng, voxels = np.random.default_rng(0), np.argwhere(nib.load(options.seeds).get_fdata() > 0)
        places = voxels[rng.integers(len(voxels), size=options.nseeds)] + rng.uniform(-0.5, 0.5, (options.nseeds, 3))
        self.points = nib.affines.apply_affine(self.affine, places)
        self.reference: np.ndarray | None = None

    def density(self, lines: Lines) -> np.ndarray:
        """Count the points in each voxel."""
        points = np.concatenate(list(lines))
        voxels = np.rint(nib.affines.apply_affine(np.linalg.inv(self.affine), points)).astype(int)
        voxels = voxels[((voxels >= 0) & (voxels < self.fa.shape)).all(axis=1)]
        return np.bincount(np.ravel_multi_index(tuple(voxels.T), self.fa.shape), minlength=self.fa.size).astype(float)

    def row(self, way: str, lines: Lines, no_direction: float | None = None) -> dict[str, Any]:
        """Sum up streamlines of at least two points; the first ones are those that the others are compared with."""
        kept = [line for line in lines if len(line) > 1]
        lengths, density = [(len(line) - 1) * self.step for line in kept], self.density(kept)
        self.reference = density if self.reference is None else self.reference
        row = {} if no_direction is None else {"no_direction": round(no_direction, 3)}
        return {
            "way": way, "streamlines": len(kept), "mean_mm": round(float(np.mean(lengths)), 1),
            "median_mm": round(float(np.median(lengths)), 1), **row,
            "agreement": round(float(np.corrcoef(density, self.reference)[0, 1]), 3),
        }

    def ours(self, way: str, **options: Any) -> dict[str, Any]:
        """Track with this package."""
        common = {"stop_map": self.options.fa, "stop_threshold": THRESHOLD, "step_size": self.step, "arch": "cpu"}
        result = ts.track(**common, seeds=self.points, like="dipy", **options)
        ends = result.stop_reasons
        return self.row(way, result.to_sft().streamlines, ends["no_direction"] / sum(ends.values()))


def ours(data: Data, peaks: Path | Any, frame: str) -> Iterator[dict[str, Any]]:
    """Follow peaks in several ways."""
    followed = {"peaks": peaks, "peaks_frame": frame}
    for dg in ("det", "prob"):
        for width in WIDTHS:
            yield data.ours(f"{dg}, width {width}", dg=dg, peak_width=width, **followed)
    yield data.ours("det, width 0, 45 degrees", dg="det", peak_width=0, max_angle=45, **followed)
    yield data.ours("det, width 0, closest peak", dg="det", peak_width=0, det_rule="closest", **followed)


def local_tracking(data: Data, getter: Any) -> Lines:
    """Track with DIPY."""
    from dipy.tracking.local_tracking import LocalTracking
    from dipy.tracking.stopping_criterion import ThresholdStoppingCriterion

    stop = ThresholdStoppingCriterion(data.fa, THRESHOLD)
    return LocalTracking(getter, stop, data.points, data.affine, data.step, random_seed=1)


def dipy_from_peaks(data: Data, arrows: np.ndarray, angle: float) -> Lines:
    """Track with DIPY from peaks (x, y, z, k, 3) along the voxel axes."""
    from dipy.data import get_sphere
    from dipy.direction.peaks import PeaksAndMetrics

    pam, sphere = PeaksAndMetrics(), get_sphere(name="repulsion724")
    amplitudes = np.linalg.norm(arrows, axis=-1)
    pam.sphere, pam.peak_values, pam.ang_thr = sphere, amplitudes, angle
    pam.qa_thr = 1e-6  # each peak counts
    nearest = closest_vertices(arrows.reshape(-1, 3).astype(float), sphere.vertices, symmetric=False)
    pam.peak_indices = np.where(amplitudes > 0, nearest.reshape(amplitudes.shape), -1).astype(np.int32)
    return local_tracking(data, pam)


def dipy_from_fods(data: Data) -> Lines:
    """Track with DIPY's deterministic getter from the FODs."""
    from dipy.data import default_sphere
    from dipy.direction import DeterministicMaximumDirectionGetter

    fods = np.nan_to_num(nib.load(data.options.fods).get_fdata())
    values = turn_coefficients(to_descoteaux(fods, "tournier07"), data.axes, BASIS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        getter = DeterministicMaximumDirectionGetter.from_shcoeff(values, ANGLE, default_sphere, basis_type=None)
    return local_tracking(data, getter)


def tckgen(data: Data, algorithm: str, source: Path) -> Lines:
    """Track with MRtrix3, which places its own seeds in the same mask."""
    with tempfile.TemporaryDirectory() as folder:
        mask, out = Path(folder, "mask.nii"), Path(folder, "out.tck")
        nib.save(nib.Nifti1Image((data.fa > THRESHOLD).astype(np.uint8), data.affine), mask)
        command = [
            "tckgen", source, out, "-algorithm", algorithm, "-seed_image", data.options.seeds, "-mask", mask, "-seeds",
            data.options.nseeds, "-select", 0, "-step", data.step, "-angle", ANGLE, "-minlength", 0, "-quiet",
            *(("-downsample", 1) if algorithm == "FACT" else ()),
        ]
        subprocess.run(list(map(str, command)), check=True)
        return list(nib.streamlines.load(out).streamlines)


def along_voxel_axes(data: Data) -> np.ndarray:
    """Return the peaks of MRtrix3, which are along the scanner axes, (x, y, z, k, 3)."""
    values = np.nan_to_num(nib.load(data.options.peaks).get_fdata())
    return values.reshape(*values.shape[:3], -1, 3) @ data.axes


def dipy_peaks(folder: Path) -> np.ndarray:
    """Return the peaks of DIPY's CSD, (x, y, z, k, 3)."""
    from dipy.core.gradients import gradient_table
    from dipy.data import default_sphere
    from dipy.direction import peaks_from_model
    from dipy.reconst.csdeconv import ConstrainedSphericalDeconvModel, auto_response_ssst

    data = nib.load(folder / "dwi.nii.gz").get_fdata()
    gtab = gradient_table(str(folder / "dwi.bval"), bvecs=str(folder / "dwi.bvec"))
    response, _ = auto_response_ssst(gtab, data, roi_radii=10, fa_thr=0.7)
    mask = nib.load(folder / "mask.nii.gz").get_fdata() > 0
    model = ConstrainedSphericalDeconvModel(gtab, response, sh_order_max=8)
    pam = peaks_from_model(model, data, default_sphere, 0.5, 25, mask=mask, npeaks=PEAKS)
    return pam.peak_dirs * (pam.peak_values / pam.peak_values.max())[..., None]


def rows(data: Data) -> Iterator[dict[str, Any]]:
    """Measure each way."""
    options = data.options
    fods = {"sh": options.fods, "sh_basis": "tournier07"}
    for dg in ("det", "prob"):
        yield {"of": "FODs"} | data.ours(f"{dg}", dg=dg, **fods)
    yield {"of": "FODs"} | data.row("DIPY, deterministic", dipy_from_fods(data))
    known = {"sh2peaks": along_voxel_axes(data)}
    if options.series is not None:
        known["peaks_from_model"] = dipy_peaks(options.series)
    for name, arrows in known.items():
        image = nib.Nifti1Image(arrows.reshape(*arrows.shape[:3], -1).astype(np.float32), data.affine)
        for row in ours(data, image, "voxel"):
            yield {"of": name} | row
        for angle in (ANGLE, 60.0):
            yield {"of": name} | data.row(f"DIPY, {angle:g} degrees", dipy_from_peaks(data, arrows, angle))
    if shutil.which("tckgen"):
        yield {"of": "FODs"} | data.row("MRtrix3, SD_STREAM", tckgen(data, "SD_STREAM", options.fods))
        yield {"of": "sh2peaks"} | data.row("MRtrix3, FACT", tckgen(data, "FACT", options.peaks))


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("fods", "peaks", "fa", "seeds"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--series", type=Path)
    parser.add_argument("--nseeds", type=int, default=5000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    table = []
    for row in rows(Data(options)):
        table.append(row)
        sys.stdout.write(f"{json.dumps(row)}\n")
        sys.stdout.flush()
    if options.out is not None:
        write_record(options.out, nseeds=options.nseeds, rows=table)


if __name__ == "__main__":
    main()
