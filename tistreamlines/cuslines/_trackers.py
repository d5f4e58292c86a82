"""The trackers with cuslines' names, one for each arch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy.typing as npt

from tistreamlines.aliases import StatefulTractogram
from tistreamlines.cuslines import tracker as api
from tistreamlines.cuslines.arrays import Reference
from tistreamlines.devices import choose
from tistreamlines.errors import ParameterError

# cuslines' names of the archs; it reaches an AMD GPU through WebGPU
BACKENDS = {"cuda": "cuda", "metal": "metal", "amdgpu": "webgpu", "vulkan": "webgpu", "cpu": None}


class Tracker(api.Tracker):
    """Track streamlines from seeds, as cuslines' ``Tracker``: ``generate_sft`` returns voxel coordinates.

    Parameters
    ----------
    dg, dataf, stop_map, stop_threshold, sphere_vertices, sphere_edges : as for :class:`.tracker.Tracker`
        Direction getter, data, stop map and sphere; all other arguments are the same, too.

    Raises
    ------
    InputError, ParameterError, DeviceError
        As for :class:`.tracker.Tracker`.

    Examples
    --------
    >>> import nibabel as nib
    >>> import numpy as np
    >>> from dipy.data import default_sphere
    >>> from tistreamlines.cuslines import ProbDirectionGetter, Tracker
    >>> odf = np.tile(default_sphere.vertices[:, 0] ** 20, (20, 5, 5, 1))  # fibres along x
    >>> image = nib.Nifti1Image(np.ones((20, 5, 5)), np.diag([2, 2, 2, 1]))
    >>> with Tracker(
    ...     ProbDirectionGetter(), odf, image.get_fdata(), 0.2, default_sphere.vertices, default_sphere.edges,
    ...     max_angle=np.radians(30), arch="cpu",
    ... ) as tracker:
    ...     sft = tracker.generate_sft([[10, 2, 2]], image)
    >>> len(sft), sft.space.value
    (1, 'vox')
    """

    def __post_init__(self) -> None:
        default = type(self).arch
        if default not in ("auto", self.arch):
            name = type(self).__name__
            raise ParameterError(f"arch is {self.arch!r}, but a {name} runs on {default}: use Tracker for other archs")
        super().__post_init__()

    def generate_sft(self, seeds: npt.ArrayLike, ref_img: Reference | None = None) -> StatefulTractogram:
        """Track and return all streamlines in memory.

        Parameters
        ----------
        seeds, ref_img : as for :meth:`.tracker.Tracker.generate_sft`
            Seeds in voxel coordinates, and the image whose grid the data have.

        Returns
        -------
        StatefulTractogram
            Streamlines in voxel coordinates (centre of voxel = integer), with the same data.

        Raises
        ------
        InputError
            As for :meth:`.tracker.Tracker.generate_sft`.
        """
        tractogram = super().generate_sft(seeds, ref_img)
        tractogram.to_vox()
        return tractogram


@dataclass(eq=False, repr=False)
class GPUTracker(Tracker):
    """A tracker on an NVIDIA GPU."""

    arch: Literal["cuda"] = field(default="cuda", kw_only=True)


@dataclass(eq=False, repr=False)
class MetalGPUTracker(Tracker):
    """A tracker on the GPU of a Mac."""

    arch: Literal["metal"] = field(default="metal", kw_only=True)


@dataclass(eq=False, repr=False)
class WebGPUTracker(Tracker):
    """A tracker on any GPU with Vulkan."""

    arch: Literal["vulkan"] = field(default="vulkan", kw_only=True)


@dataclass(eq=False, repr=False)
class CPUTracker(Tracker):
    """A tracker on the CPU, with all cores by default."""

    arch: Literal["cpu"] = field(default="cpu", kw_only=True)


def backend() -> str | None:
    """Return cuslines' name of the arch that 'auto' chooses: 'cuda', 'metal', 'webgpu', or None for the CPU."""
    return BACKENDS[choose("auto").arch]
