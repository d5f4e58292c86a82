"""Runs that were finished before, and commands that would write the same files."""

import nibabel as nib
import numpy as np
from synthetic import gradients, signals

import tistreamlines as ts
from tistreamlines.options.parameters import Parameters
from tistreamlines.run.finished import difference_from, finished_run
from tistreamlines.run.outputs import Outputs


def test_a_default_that_follows_from_the_fit_is_no_difference(tmp_path):
    """Twenty directions have harmonics of order 4, with which prob has another greatest angle."""
    gtab, output = gradients(20), tmp_path / "a.trx"
    data = np.broadcast_to(signals(gtab, np.array([1.0, 0, 0])), (6, 5, 5, len(gtab.bvals)))
    nib.save(nib.Nifti1Image(np.float32(data), np.eye(4)), tmp_path / "dwi.nii")
    np.savetxt(tmp_path / "bvals", gtab.bvals[None])
    np.savetxt(tmp_path / "bvecs", gtab.bvecs.T)
    paths = [str(tmp_path / name) for name in ("dwi.nii", "bvals", "bvecs")]
    options = {"dg": "prob", "nseeds": 5, "arch": "cpu", "min_length": 0.0}
    ts.track(*paths, output, **options)
    run = finished_run(Outputs(output))
    series = dict(zip(("dwi", "bvals", "bvecs"), paths, strict=True))

    def difference(**more):
        return difference_from(run, series, Parameters.given(options | more), tmp_path / "a.json")

    assert run.parameters["max_angle"] == 30
    assert difference() == ""
    assert difference(max_angle=30.0) == ""
    assert difference(max_angle=25.0) == "--max-angle was 30.0, not 25.0"
    assert difference(nseeds=6) == "--nseeds was 5, not 6"
