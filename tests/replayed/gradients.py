"""Reports on gradients: norms, missing and odd rows, shells, and the axes that b-vectors lie along."""

from __future__ import annotations

import shutil
import subprocess

import nibabel as nib
import numpy as np
import pytest
from dipy.core.gradients import gradient_table

import tistreamlines as ts

from .scene import Scene, head, plain


def short_vectors(scene: Scene) -> None:
    """b-vectors whose norms are off by rounding are of unit length."""
    exact = plain(scene.tracked(scene.series()))
    assert exact
    rounded = np.round(head().bvecs, 3)
    assert abs(np.linalg.norm(rounded, axis=1) - 1).max() > 1e-5
    assert len(scene.tracked(scene.series(bvecs=rounded))) == pytest.approx(len(exact), abs=8)


def vectors_with_amplitudes(scene: Scene) -> None:
    """Norms below one are amplitudes of the gradient, or an error: never ignored in silence."""
    bvecs = head().bvecs.copy()
    bvecs[2::2] *= np.sqrt(0.5)
    outcome = scene.run("track", *scene.series(bvecs=bvecs), "-o", scene / "out.tck")
    assert any(word in outcome.err for word in ("norm", "length", "unit")), outcome


def one_direction(scene: Scene) -> None:
    data = head().data[..., :3]
    arguments = scene.series(head().bvals[:3], head().bvecs[:3], data)
    scene.refused("track", *arguments, "-o", scene / "out.tck", words=["direction"])


def only_b0s(scene: Scene) -> None:
    data = np.repeat(head().data[..., :1], 2, axis=-1)
    arguments = scene.series([0, 0], np.zeros((2, 3)), data)
    scene.refused("track", *arguments, "-o", scene / "out.tck", words=["dwi.bval", "b-value"])


def b0s_with_a_b_value(scene: Scene) -> None:
    """Volumes of b = 60 are b0s where the gradient table of DIPY says so."""
    bvals = np.where(head().bvals < 50, 60.0, head().bvals)
    chosen = {"affine": head().affine, "mask": head().mask, "nseeds": 60, "arch": "cpu"}
    table = gradient_table(bvals, bvecs=head().bvecs, b0_threshold=70)
    assert len(ts.track(head().data, gtab=table, **chosen))
    scene.refused("track", *scene.series(bvals), "-o", scene / "out.tck", words=["b0"])


def b0s_of_b_5(scene: Scene) -> None:
    """HCP writes b0s as b = 5, with vectors of some direction."""
    exact = scene.tracked(scene.series())
    bvals, bvecs = head().bvals.copy(), head().bvecs.copy()
    bvals[bvals < 50], bvecs[bvals < 50] = 5, [1, 0, 0]
    assert len(scene.tracked(scene.series(bvals, bvecs))) == pytest.approx(len(exact), rel=0.3)


def vectors_of_nan(scene: Scene) -> None:
    """eddy writes NaN as the vectors of b0s."""
    exact = plain(scene.tracked(scene.series()))
    bvecs = head().bvecs.copy()
    bvecs[head().bvals < 50] = np.nan
    assert plain(scene.tracked(scene.series(bvecs=bvecs))) == exact
    bvecs[-1] = np.nan
    scene.refused("track", *scene.series(bvecs=bvecs), "-o", scene / "out.tck", "--force", words=["dwi.bvec", "nan"])


def too_few_vectors(scene: Scene) -> None:
    arguments = scene.series(bvecs=head().bvecs[:-1])
    scene.refused("track", *arguments, "-o", scene / "out.tck", words=["33", "34"])


def a_small_shell(scene: Scene) -> None:
    """Three volumes of b = 200 are no shell to fit a model to, and no reason to fail."""
    data = np.concatenate([head().data, head().data[..., :3]], axis=-1)
    bvals = np.concatenate([head().bvals, [200, 200, 200]])
    bvecs = np.concatenate([head().bvecs, np.eye(3)])
    assert len(scene.tracked(scene.series(bvals, bvecs, data)))


def three_shells(scene: Scene) -> None:
    """The record says to which of several shells the model was fitted."""
    weighted = np.flatnonzero(head().bvals > 50)
    data = np.concatenate([head().data] + [head().data[..., weighted]] * 2, axis=-1)
    bvals = np.concatenate([head().bvals, np.full(len(weighted), 2000), np.full(len(weighted), 3000)])
    bvecs = np.concatenate([head().bvecs] + [head().bvecs[weighted]] * 2)
    scene.track(scene.series(bvals, bvecs, data), output="out.trx")
    assert "3000" in (scene / "out.json").read_text()


def low_b_values(scene: Scene) -> None:
    """Six volumes of b = 100 are not averaged with the b0s."""
    weighted = np.flatnonzero(head().bvals > 50)[:6]
    low = head().data[..., :1].repeat(6, -1) * 0.9
    data = np.concatenate([head().data, low.astype(head().data.dtype)], axis=-1)
    bvals, bvecs = np.concatenate([head().bvals, [100] * 6]), np.concatenate([head().bvecs, head().bvecs[weighted]])
    scene.track(scene.series(bvals, bvecs, data), output="out.trx")
    assert (scene / "out.json").is_file()


def stored_from_right_to_left(scene: Scene) -> None:
    """Voxels stored along -x are the same head: FSL's x component turns with the sign of the determinant."""
    grid = ("--dg", "det", "--seed-mask", scene / "mask.nii", "--seed-grid", 1)
    exact = scene.tracked(scene.series()[:-4], *grid)
    flip = nib.Nifti1Image(head().data[::-1], head().affine @ _mirror(head().data.shape[0]))
    determinant = np.linalg.det(head().affine[:3, :3])
    bvecs = head().bvecs * [-1, 1, 1]
    assert determinant * np.linalg.det(flip.affine[:3, :3]) < 0
    arguments = scene.series(bvecs=bvecs, data=np.ascontiguousarray(flip.dataobj), affine=flip.affine)[:-4]
    scene.image("mask.nii", head().mask[::-1].astype(np.uint8), flip.affine)
    turned = scene.tracked(arguments, *grid)
    assert len(turned) == pytest.approx(len(exact), rel=0.02)
    centre, other = (np.concatenate(list(lines)).mean(axis=0) for lines in (exact, turned))
    assert other == pytest.approx(centre, abs=1.0)


def _mirror(size: int) -> np.ndarray:
    mirror = np.diag([-1.0, 1, 1, 1])
    mirror[0, 3] = size - 1
    return mirror


def gradients_of_mrconvert(scene: Scene) -> None:
    """A .mif has gradients in scanner axes, FSL's files in voxel axes: the streamlines are the same."""
    if shutil.which("mrconvert") is None:
        pytest.skip("MRtrix3 is not installed")
    arguments = scene.series()
    command = ["mrconvert", "-quiet", *arguments[:1], "-fslgrad", arguments[2], arguments[1], scene / "dwi.mif"]
    subprocess.run(list(map(str, command)), check=True)
    exact = scene.tracked(arguments)
    assert len(scene.tracked([scene / "dwi.mif", *arguments[3:]])) == pytest.approx(len(exact), abs=3)


def vectors_along_other_axes(scene: Scene) -> None:
    """b-vectors flipped along y are noticed before anything is tracked."""
    outcome = scene.run("track", *scene.series(bvecs=head().bvecs * [1, -1, 1]), "-o", scene / "out.tck")
    assert "axes" in outcome.err or "flip" in outcome.err, outcome


def no_signal_in_the_mask(scene: Scene) -> None:
    """A mask of another image holds voxels without signal."""
    data = head().data.copy()
    inside = np.argwhere(head().mask)
    data[tuple(inside[::7].T)] = 0
    assert len(scene.tracked(scene.series(data=data)))
