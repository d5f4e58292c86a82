"""A peer from files to a tractogram, as its users run it: ``python -m suite.peer_files JOB``.

JOB is a JSON file: target, method, nseeds, threads, paths (dwi, bvals, bvecs, mask), out and stats. The seconds of the
stages are written to ``stats``. Data are read and fitted with the peer's own programs, DIPY for cuslines, as their
manuals do; only seeds and options are those of the suite.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tistreamlines.aliases import Array, Json
from tistreamlines.benchmarks import targets
from tistreamlines.benchmarks.cases import METHODS, SEED_FA, STOP
from tistreamlines.benchmarks.problem import Problem
from tistreamlines.space.batch import Space

from . import cuslines
from .mrtrix import ALGORITHMS

if TYPE_CHECKING:
    from dipy.core.gradients import GradientTable
    from nibabel.nifti1 import Nifti1Image


@dataclass
class FilesProblem(Problem):
    """A problem that is read from files and fitted by DIPY.

    ``paths`` are dwi, bvals, bvecs and mask. CSD is fitted in the mask or, with ``sparing``, where streamlines grow.
    """

    paths: tuple[str, ...] = ()
    sparing: bool = False

    @cached_property
    def image(self) -> Nifti1Image:
        """The series, a nibabel image."""
        import nibabel

        return nibabel.Nifti1Image.from_filename(self.paths[0])

    @cached_property
    def data(self) -> Array:
        """Signals, (x, y, z, n), of the file's type."""
        return np.asarray(self.image.dataobj)

    @cached_property
    def gtab(self) -> GradientTable:
        """DIPY's gradient table."""
        from dipy.core.gradients import gradient_table
        from dipy.io.gradients import read_bvals_bvecs

        bvals, bvecs = read_bvals_bvecs(*self.paths[1:3])
        return gradient_table(bvals, bvecs=bvecs)

    @cached_property
    def mask(self) -> Array:
        """Brain mask, (x, y, z) bool."""
        from dipy.io.image import load_nifti_data

        return load_nifti_data(self.paths[3]) > 0

    @cached_property
    def space(self) -> Space:
        """The grid."""
        return Space(np.asarray(self.image.affine), self.mask.shape)

    @cached_property
    def fa(self) -> Array:
        """FA by DIPY's TensorModel, (x, y, z) float32."""
        from dipy.reconst.dti import TensorModel

        return TensorModel(self.gtab).fit(self.data, mask=self.mask).fa.astype(np.float32)

    @cached_property
    def csd(self) -> Array:
        """Coefficients of DIPY's CSD, (x, y, z, n)."""
        from dipy.reconst.csdeconv import ConstrainedSphericalDeconvModel, auto_response_ssst

        response, _ = auto_response_ssst(self.gtab, self.data, roi_radii=10, fa_thr=0.7)
        model = ConstrainedSphericalDeconvModel(self.gtab, response, sh_order_max=self.method.order)
        return model.fit(self.data, mask=self.fa >= STOP if self.sparing else self.mask).shm_coeff


class Laps(dict[str, float]):
    """Seconds of each stage; a call ends a stage."""

    def __init__(self) -> None:
        self.begun = time.perf_counter()

    def __call__(self, stage: str) -> None:
        now = time.perf_counter()
        self[stage], self.begun = self.get(stage, 0.0) + now - self.begun, now


def with_python(job: Json, lap: Laps) -> None:
    """Run DIPY or cuslines."""
    peer, _, backend = job["target"].partition("-")
    problem = FilesProblem(
        Path(job["stats"]).parent, METHODS[job["method"]], job["nseeds"], job["threads"], paths=tuple(job["paths"]),
        sparing=peer == "cuslines",  # as its script does
    )
    for names in ("data", "gtab", "mask", "space"), ("fa", "csd") if problem.method.needs_csd else ("fa",):
        for name in names:
            getattr(problem, name)
        lap("fit" if "fa" in names else "load")
    (_cuslines if peer == "cuslines" else _dipy)(problem, backend, job["out"], lap)


def _cuslines(problem: FilesProblem, backend: str, out: str, lap: Laps) -> None:
    """Track with cuslines, as its run_gpu_streamlines.py does."""
    import nibabel
    from trx.trx_file_memmap import save

    tracker = cuslines.open_gpu_tracker(backend, problem, problem.folder)
    lap("prepare")
    tractogram = tracker.generate_trx(problem.seeds, nibabel.Nifti1Image(problem.fa, problem.space.affine))
    lap("track")
    save(tractogram, out)
    lap("write")


def _dipy(problem: FilesProblem, backend: str, out: str, lap: Laps) -> None:
    """Track with DIPY, in threads if ``backend`` says so."""
    from dipy.io.stateful_tractogram import StatefulTractogram
    from dipy.io.streamline import save_tractogram
    from dipy.io.utils import Space as Coordinates
    from nibabel.streamlines.array_sequence import ArraySequence

    getter = targets.dipy_getter(problem)
    lap("prepare")
    if backend == "threads":
        lines = targets.threaded_lines(problem, *targets.initial_directions(problem, getter), 1)
    else:
        lines = targets.local_lines(problem, getter, 1)
    tractogram = StatefulTractogram(ArraySequence(lines), problem.image, Coordinates.RASMM)
    lap("track")
    save_tractogram(tractogram, out, bbox_valid_check=False)
    lap("write")


def with_mrtrix(job: Json, lap: Laps) -> None:
    """Run MRtrix3's commands; tckgen writes while it tracks."""
    dwi, bvals, bvecs, mask = job["paths"]
    method = METHODS[job["method"]]
    threads = ["-nthreads", str(job["threads"])] if job["threads"] else []
    with tempfile.TemporaryDirectory() as folder:

        def run(stage: str, *words: str) -> None:
            command = [*words, *threads, "-quiet"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=folder)
            lap(stage)

        run("load", "mrconvert", dwi, "dwi.mif", "-fslgrad", bvecs, bvals)
        run("fit", "dwi2tensor", "dwi.mif", "tensor.mif", "-mask", mask)
        run("fit", "tensor2metric", "tensor.mif", "-fa", "fa.mif", "-mask", mask)
        run("fit", "mrthreshold", "fa.mif", "white.mif", "-abs", str(SEED_FA))
        run("fit", "mrthreshold", "fa.mif", "live.mif", "-abs", str(STOP))
        run("fit", "dwi2response", "tournier", "dwi.mif", "response.txt", "-mask", mask)
        run("fit", "dwi2fod", "csd", "dwi.mif", "response.txt", "fod.mif", "-mask", mask)
        spacing = subprocess.check_output(["mrinfo", "-spacing", dwi], text=True).split()[:3]
        step = min(map(float, spacing)) / 2
        run("track", "tckgen", "fod.mif", job["out"], "-algorithm", ALGORITHMS[job["target"]][method.dg],
            "-seed_image", "white.mif", "-seeds", str(job["nseeds"]), "-select", "0", "-mask", "live.mif",
            "-step", f"{step:g}", "-angle", f"{method.max_angle:g}", "-minlength", "0",
            "-maxlength", f"{2 * method.max_steps * step:g}")


def main() -> None:
    lap = Laps()
    job = json.loads(Path(sys.argv[1]).read_text())
    run: Callable[..., None] = with_mrtrix if job["target"] in ALGORITHMS else with_python
    run(job, lap)
    Path(job["stats"]).write_text(json.dumps({"seconds": lap}))


if __name__ == "__main__":
    main()
