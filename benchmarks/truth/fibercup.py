"""The FiberCup, a phantom of acrylic fibres whose bundles are known, and the scores of tractograms of it.

Its bundles lie in a plane. Where they end was read by eye from the pictures of ``wm_mask.nii.gz``, at the middle of the
border of each of its twelve branches. Which ends are joined was read by eye from a picture of streamlines;
DIPY's and MRtrix3's streamlines join all seven pairs.

References
----------
Fillard, Descoteaux, Goh, Gouttard, Jeurissen, Malcolm, Ramirez-Manzanares, Reisert, Sakaie, Tensaouti, Yo, Mangin,
Poupon. Quantitative evaluation of 10 tractography algorithms on a realistic diffusion MR phantom. NeuroImage 56, 2011.
doi:10.1016/j.neuroimage.2011.01.032

Poupon, Rieul, Kezele, Perrin, Poupon, Mangin. New diffusion phantoms dedicated to the study and validation of
high-angular-resolution diffusion imaging (HARDI) models. Magn Reson Med 60, 2008. doi:10.1002/mrm.21789
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from tistreamlines.fit.coherence import coherence, field_of

from .known import Array, Mask, random_points, write_series
from .scores import Lines, connections, nearest_ends, outer_points

# first and second voxel axis of the files, which have 64 x 64 x 3 voxels of 3 mm
ENDS = {
    "top left": (22, 49.5), "top right": (38.5, 49.5), "short left": (16, 46), "short right": (45, 46),
    "left": (10.5, 39), "right": (48.5, 39.5), "oblique right": (50.5, 36), "lower right": (52.5, 22.5),
    "bottom left": (23, 7.5), "bottom right": (39.5, 7.5), "upper hook": (9, 23.5), "lower hook": (11, 17),
}
BUNDLES = (
    ("left", "right"), ("top left", "top right"), ("short left", "bottom right"), ("short right", "bottom left"),
    ("oblique right", "bottom left"), ("lower right", "bottom left"), ("upper hook", "lower hook"),
)
REACH = 3.0  # voxels from a streamline's end to the end of a bundle that it has reached, in the plane
FA = 0.1  # of white matter


class FiberCup:
    """The averaged acquisition of 3 mm and b = 1500 s/mm2.

    Parameters
    ----------
    folder : Path
        With ``acq-averaged_b-1500.nii.gz``, ``b1500.bval``, ``dirs64.bvec`` and ``wm_mask.nii.gz``.
    seed : int
        Of the points where streamlines begin.
    """

    options: ClassVar[dict[str, Any]] = {"fa_response": FA}
    response_fa = FA
    erosions = 0

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.seed = folder, seed
        image = _turned(folder / "wm_mask.nii.gz")
        self.affine = np.asarray(image.affine, np.float64)
        self.white: Mask = np.asarray(image.dataobj) > 0
        self.voxel_mm = float(np.linalg.norm(self.affine[:3, 0]))

    @property
    def mask(self) -> Mask:
        """Voxels of fibres (x, y, z); the others have noise alone."""
        return self.white

    @property
    def about(self) -> dict[str, Any]:
        """What a row of scores says of it."""
        bvals = self._gradients[0]
        weighted = {"bval": float(bvals.max()), "directions": int((bvals > 0).sum()), "voxel_mm": self.voxel_mm}
        return {"geometry": "fibercup", **weighted, "seed": self.seed}

    @cached_property
    def _gradients(self) -> tuple[Array, Array]:
        """b-values (n,) and gradients (n, 3), which are along the axes of the files, those of RAS."""
        return np.loadtxt(self.folder / "b1500.bval"), np.loadtxt(self.folder / "dirs64.bvec").T

    def save(self, folder: Path) -> None:
        """Write the files of :func:`.known.write_series`, 0 outside the fibres."""
        image = _turned(self.folder / "acq-averaged_b-1500.nii.gz")
        data = np.where(self.white[..., None], image.get_fdata(dtype=np.float32), np.float32(0))
        write_series(folder, data, *self._gradients, self.affine, self.mask, self.white)

    def seeds(self, count: int) -> npt.NDArray[np.float32]:
        """Return random points (count, 3), mm, in the fibres."""
        return random_points(self.white, self.affine, count, self.seed)

    def score(self, lines: Lines) -> dict[str, float]:
        """Score streamlines (m, 3), mm, by the ends that they reach (:func:`.scores.connections`)."""
        lines = [line for line in lines if len(line) > 1]
        places = [self.voxel_mm * np.array([end]) for end in ENDS.values()]
        in_plane = outer_points(lines)[..., :2].reshape(-1, 2)
        ends = nearest_ends(in_plane, places, REACH * self.voxel_mm).reshape(-1, 2)
        names = list(ENDS)
        return connections(lines, ends, [(names.index(first), names.index(second)) for first, second in BUNDLES])

    def peak_scores(self, peaks: Array) -> dict[str, float]:
        """Score the greatest peak of each voxel of (x, y, z, k, 3), RAS.

        coherence is the mean of squared cosines between it and those that a short path along it meets
        (:func:`tistreamlines.fit.coherence.coherence`), 1 if all are parallel.
        """
        first = (peaks[..., 0, :] * np.sign(np.diag(self.affine)[:3]))[self.white]
        there = np.asarray(first.any(axis=-1), np.float32)
        field = field_of(self.white, first, there, np.full(3, self.voxel_mm))
        return {"coherence": float(coherence(field).mean())}


def _turned(path: Path) -> Any:
    """Return an image of RAS axes with the first one turned round, so that FSL's gradients are along the voxel axes."""
    import nibabel as nib

    image: Any = nib.load(path)
    return image.as_reoriented(np.array([[0, -1], [1, 1], [2, 1]]))
