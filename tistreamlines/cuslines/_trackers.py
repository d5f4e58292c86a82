"""The trackers with cuslines' names, one for each arch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from tistreamlines.cuslines import tracker as api
from tistreamlines.devices import choose
from tistreamlines.errors import ParameterError

if TYPE_CHECKING:
    from dipy.io.stateful_tractogram import StatefulTractogram

# cuslines' names of the archs; it reaches an AMD GPU through WebGPU
BACKENDS = {"cuda": "cuda", "metal": "metal", "amdgpu": "webgpu", "vulkan": "webgpu", "cpu": None}


class Tracker(api.Tracker):
    """A :class:`.tracker.Tracker` whose `generate_sft` returns voxel coordinates, as in cuslines."""

    ARCH = "auto"

    def __init__(self, *arguments: Any, **options: Any) -> None:
        arch = options.setdefault("arch", self.ARCH)
        if self.ARCH not in ("auto", arch):
            name = type(self).__name__
            raise ParameterError(f"arch is {arch!r}, but a {name} runs on {self.ARCH}: use Tracker for other archs")
        super().__init__(*arguments, **options)

    def generate_sft(self, seeds: npt.ArrayLike, ref_img: Any = None) -> StatefulTractogram:
        """Track and return all streamlines in voxel coordinates (centre of voxel = integer)."""
        tractogram = super().generate_sft(seeds, ref_img)
        tractogram.to_vox()
        return tractogram


class GPUTracker(Tracker):
    """A tracker on an NVIDIA GPU."""

    ARCH = "cuda"


class MetalGPUTracker(Tracker):
    """A tracker on the GPU of a Mac."""

    ARCH = "metal"


class WebGPUTracker(Tracker):
    """A tracker on any GPU with Vulkan."""

    ARCH = "vulkan"


class CPUTracker(Tracker):
    """A tracker on the CPU, with all cores by default."""

    ARCH = "cpu"


def backend() -> str | None:
    """Return cuslines' name of the arch that 'auto' chooses: 'cuda', 'metal', 'webgpu', or None for the CPU."""
    return BACKENDS[choose("auto").arch]
