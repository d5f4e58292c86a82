"""GPUs that are driven without Taichi's runtime: Taichi compiles in a process of its own, and what it has compiled runs here."""

from __future__ import annotations

from contextlib import suppress

from ...devices.compilers import compiler_for
from ...errors import DeviceError
from ..tried import is_tried

ARCHS = ("cuda", "vulkan")


def drives(arch: str) -> bool:
    """Whether programs for an arch run without the runtime of its compiler.

    They need what versions of Taichi that were tried tell of compiled kernels, so forks of it run these themselves.
    """
    with suppress(DeviceError):  # it occurs again when the device is started
        return arch in ARCHS and compiler_for(arch).name == "taichi" and is_tried("taichi")
    return False
