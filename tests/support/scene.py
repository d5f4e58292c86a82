"""What the drop-ins are tested on: the head in memory and on disk."""

from __future__ import annotations

from functools import cached_property

import nibabel as nib
import numpy as np
from dipy.core.gradients import gradient_table
from dipy.core.sphere import HemiSphere
from dipy.data import get_sphere
from dipy.reconst.shm import OpdtModel

import tistreamlines as ts
from tistreamlines.cuslines import tracker as drop_in
from tistreamlines.space.batch import Space

THRESHOLD = 0.3


class Scene:
    """The head in memory and on disk: data, gradients, sphere, stop map, seeds in voxels."""

    def __init__(self, head, folder):
        phantom = head.phantom
        self.head, self.folder, self.data = head, folder, phantom.data
        self.image = nib.load(head.series[0])
        self.gtab = gradient_table(phantom.bvals, bvecs=phantom.bvecs)
        self.sphere = HemiSphere.from_sphere(get_sphere(name="repulsion724"))
        self.stop = np.sum([bundle.membership for bundle in phantom.bundles], axis=0, dtype=np.float32)
        white = np.argwhere(self.stop > 0.5)[::60]
        self.space = space = Space(self.image.affine, self.stop.shape)
        # as they come back from RASmm, so that the files hold the very same seeds
        self.seeds_mm = space.to_ras(white + np.random.default_rng(0).uniform(-0.5, 0.5, white.shape))
        self.seeds = space.to_voxel(self.seeds_mm)
        np.save(folder / "seeds.npy", self.seeds_mm)
        nib.save(nib.Nifti1Image(self.stop, phantom.affine), folder / "stop.nii.gz")

    @cached_property
    def pmf(self):
        """ODFs of DIPY's OPDT at the sphere's vertices, negative ones as 0; also in a file."""
        mask = self.head.phantom.mask
        pmf = np.zeros((*mask.shape, len(self.sphere.vertices)), np.float32)
        pmf[mask] = np.maximum(OpdtModel(self.gtab, sh_order_max=4).fit(self.data[mask]).odf(self.sphere), 0)
        nib.save(nib.Nifti1Image(pmf, self.image.affine), self.folder / "pmf.nii.gz")
        return pmf

    def getter(self, kind="opdt", **options):
        make = getattr(drop_in.BootDirectionGetter, f"from_dipy_{kind}")
        return make(self.gtab, self.sphere, **{"sh_order_max": 4, **options})

    def tracker(self, dg=None, **options):
        data = self.pmf if isinstance(dg, drop_in.ProbDirectionGetter) else self.data
        return drop_in.Tracker(
            dg or self.getter(), data, self.stop, THRESHOLD, self.sphere.vertices, self.sphere.edges,
            **{"arch": "cpu", **options},
        )

    def track(self, **options):
        """Streamlines of ts.stream on the files, with DIPY's defaults, as one batch."""
        series, files = self.head.series, {name: self.folder / name for name in ("seeds.npy", "stop.nii.gz")}
        common = {"stop_map": files["stop.nii.gz"], "stop_threshold": THRESHOLD, "arch": "cpu", "like": "dipy"}
        region = {} if "pmf" in options else {"mask": self.head.mask}  # in which a model would be fitted
        (batch,) = ts.stream(*series, seeds=files["seeds.npy"], **{**region, **common, **options})
        return batch


def same(sft, batch):
    """Whether points, lengths and all that is kept per streamline are equal."""
    per = sft.data_per_streamline
    names = ("seeds", "seed_number", "direction_number", "stop_reasons")
    return (
        np.array_equal(sft.streamlines._data, batch.points)
        and np.array_equal(sft.streamlines._lengths, batch.lengths)
        and all(np.array_equal(np.squeeze(per[name]), getattr(batch, name)) for name in names)
    )
