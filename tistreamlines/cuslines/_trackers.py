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
    """A :class:`.tracker.Tracker` whose `generate_sft` returns voxel coordinates, as in cuslines."""

    def __post_init__(self) -> None:
        default = type(self).arch
        if default not in ("auto", self.arch):
            name = type(self).__name__
            raise ParameterError(f"arch is {self.arch!r}, but a {name} runs on {default}: use Tracker for other archs")
        super().__post_init__()

    def generate_sft(self, seeds: npt.ArrayLike, ref_img: Reference | None = None) -> StatefulTractogram:
        """Track and return all streamlines in voxel coordinates (centre of voxel = integer)."""
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
