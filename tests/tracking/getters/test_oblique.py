"""iFOD1 and iFOD2 on an oblique grid that is stored in LAS order, which MRtrix3 makes of FODs and tissues."""

import shutil
import subprocess

import nibabel as nib
import numpy as np
import pytest
from fod_kernels import SHAPE, crossing
from nights import at_night
from scipy.spatial.transform import Rotation

import tistreamlines as ts

AFFINE = np.diag([2.0, 2.0, 2.0, 1.0])
POLE = np.array([1.0, 2.0, -1.5]) / np.linalg.norm([1.0, 2.0, -1.5])
SEEDS = 6000


@pytest.fixture(scope="module")
def grids(tmp_path_factory):
    """The images of bent fibres that cross, in cortex: as they are, and turned by 25 degrees and flipped.

    MRtrix3's FODs are along the scanner's axes, so those of the turned image are reoriented; of another, they are not.
    """
    if shutil.which("mrtransform") is None:
        pytest.skip("MRtrix3 is not installed")
    folder, turn = tmp_path_factory.mktemp("grids"), np.eye(4)
    turn[:3, :3] = Rotation.from_rotvec(np.radians(25) * POLE).as_matrix()
    np.savetxt(folder / "turn.txt", turn)
    fod = crossing()
    white = fod.any(axis=-1) & np.pad(np.ones(np.array(SHAPE) - 2, bool), 1)
    tissues = np.stack([~white, 0 * white, white, 0 * white, 0 * white], axis=-1)
    for name, values in (("fod", fod), ("5tt", tissues), ("mask", white)):
        nib.save(nib.Nifti1Image(np.asarray(values, np.float32), AFFINE), folder / f"{name}.nii")

    def call(*words):
        subprocess.run([*words, "-quiet"], cwd=folder, check=True)

    for name, kind, more in (
        ("fod", "turned", ["-reorient_fod", "yes"]), ("fod", "wrong", ["-reorient_fod", "no"]), ("5tt", "turned", []),
        ("mask", "turned", []),
    ):
        call("mrtransform", f"{name}.nii", "-linear", "turn.txt", *more, f"{kind}-{name}.mif")
        strides = "-1,2,3" if name == "mask" else "-1,2,3,4"
        call("mrconvert", f"{kind}-{name}.mif", "-strides", strides, f"{kind}-{name}.nii")
    for name in ("5tt", "mask"):
        shutil.copy(folder / f"turned-{name}.nii", folder / f"wrong-{name}.nii")
    return folder


def density(folder, kind, dg, more, number=0):
    """How many streamlines pass through each voxel, in the order of the first grid."""
    fod, tissues, mask = (folder / f"{kind}{name}.nii" for name in ("fod", "5tt", "mask"))
    ends = {"act": tissues} if more == "act" else {"stop_mask": mask}
    to = folder / f"{kind}{dg}-{more}-{number}.nii"
    ts.track(sh=fod, sh_basis="tournier07", dg=dg, seed_mask=mask, **ends, nseeds=SEEDS, arch="cpu", density=to,
             seed_seed=number, rng_seed=number)
    values = nib.load(to).get_fdata()
    return values[::-1] if kind else values


@pytest.mark.parametrize(("dg", "more"), [("ifod1", "act"), *at_night(("ifod2", "mask"))])
def test_the_same_streamlines_but_for_chance(grids, dg, more):
    assert "".join(nib.aff2axcodes(nib.load(grids / "turned-fod.nii").affine)) == "LAS"
    first, again, turned, wrong = (
        density(grids, kind, dg, more, number)
        for kind, number in (("", 0), ("", 1), ("turned-", 2), ("wrong-", 3))
    )
    repeated, alike, mistaken = (np.corrcoef(first.ravel(), each.ravel())[0, 1] for each in (again, turned, wrong))
    assert min(repeated, alike) >= 0.98
    assert alike > repeated - 0.005
    assert mistaken < 0.95
