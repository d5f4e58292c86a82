"""The trackers by cuslines' names, each on its arch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from tistreamlines.backends.devices import choose
from tistreamlines.cuslines import tracker as api
from tistreamlines.errors import ParameterError

if TYPE_CHECKING:
    from dipy.io.stateful_tractogram import StatefulTractogram

BACKENDS = {"cuda": "cuda", "metal": "metal", "vulkan": "webgpu", "cpu": None}  # cuslines' words for the archs


class Tracker(api.Tracker):
    """cuslines' tracker on the arch that is found; arguments as for :class:`tistreamlines.Tracker`."""

    ARCH = "auto"

    def __init__(self, *arguments: Any, **options: Any) -> None:
        arch = options.setdefault("arch", self.ARCH)
        if self.ARCH not in ("auto", arch):
            name = type(self).__name__
            raise ParameterError(f"arch is {arch!r}, but a {name} runs on {self.ARCH}: use Tracker for another")
        super().__init__(*arguments, **options)

    def generate_sft(self, seeds: npt.ArrayLike, ref_img: Any = None) -> StatefulTractogram:
        """Track, and hold all streamlines in memory, in voxels (centre of voxel = integer)."""
        held = super().generate_sft(seeds, ref_img)
        held.to_vox()
        return held


class GPUTracker(Tracker):
    """On a GPU of NVIDIA's."""

    ARCH = "cuda"


class MetalGPUTracker(Tracker):
    """On a Mac's GPU."""

    ARCH = "metal"


class WebGPUTracker(Tracker):
    """On a GPU of any maker's, with Vulkan."""

    ARCH = "vulkan"


class CPUTracker(Tracker):
    """On all cores."""

    ARCH = "cpu"


def backend() -> str | None:
    """Return cuslines' word for the arch that is found: 'cuda', 'metal', 'webgpu', or None for a CPU."""
    return BACKENDS[choose("auto").arch]
