"""Code written for cuslines: only the import of Tracker and BootDirectionGetter changes.

It runs on a small phantom, without arguments, and writes to a temporary folder.
"""

import tempfile
from math import radians
from pathlib import Path

import nibabel as nib
import numpy as np
from dipy.core.gradients import gradient_table
from dipy.core.sphere import HemiSphere
from dipy.data import get_sphere
from dipy.io.streamline import load_tractogram, save_tractogram
from dipy.reconst.dti import TensorModel
from dipy.tracking.utils import seeds_from_mask
from trx.trx_file_memmap import save as save_trx

# In place of "from cuslines import ...". For code that you cannot change, set
# sys.modules["cuslines"] = tistreamlines.cuslines
from tistreamlines.cuslines import BootDirectionGetter, Tracker
from tistreamlines.phantom.phantom import make_phantom


def main():
    phantom = make_phantom((30, 36, 28), voxel_mm=5.0, n_b0=2, n_dirs=32)
    image = nib.Nifti1Image(phantom.data, phantom.affine)
    gtab = gradient_table(phantom.bvals, bvecs=phantom.bvecs)
    fa = np.nan_to_num(TensorModel(gtab).fit(phantom.data, mask=phantom.mask).fa)

    # Seeds in white matter, in voxel coordinates: the affine is the identity.
    seeds = seeds_from_mask(phantom.mask & (fa > 0.3), np.eye(4), density=1)[::4]
    sphere = HemiSphere.from_sphere(get_sphere(name="repulsion724"))
    dg = BootDirectionGetter.from_dipy_opdt(gtab, sphere, sh_order_max=4)
    dg.angular_weight = 0.0  # values above 0 favour directions close to that of the last step

    with Tracker(
        dg, phantom.data, fa, 0.1, sphere.vertices, sphere.edges, max_angle=radians(60), step_size=0.5
    ) as tracker:
        sft = tracker.generate_sft(seeds, image)  # in memory
        trx = tracker.generate_trx(seeds, image)  # in a file: for millions of streamlines

    with tempfile.TemporaryDirectory() as name:
        for suffix in ("trk", "tck"):
            save_tractogram(sft, str(Path(name) / f"brain.{suffix}"))
        save_trx(trx, str(Path(name) / "brain.trx"))
        trx.close()
        again = load_tractogram(str(Path(name) / "brain.trk"), "same")
        print(f"{len(again)} streamlines from {len(seeds)} seeds")
        print("per streamline:", ", ".join(again.data_per_streamline.keys()))


if __name__ == "__main__":
    main()
