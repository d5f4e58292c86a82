"""The only place that knows compilers and devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..kernels.lang import Twin
    from ..models import Prepared
    from ..settings import Settings
    from .devices import Device


def open_program(device: Device, roots: list[Twin], prepared: Prepared, settings: Settings) -> Any:
    """Link kernels and make them callable on a device.

    Parameters
    ----------
    device : one of :func:`tistreamlines.backends.devices.list_devices`.
    roots : kernels to be run by name.
    prepared : constants, holes and team memory of the method.
    settings : exact or fast, CPU threads, profiling.
    """
    if device.arch == "cpu":
        from ._numba import Program

        return Program(roots, prepared.fill, prepared.scratch, fast=not settings.exact, threads=settings.threads)
    from ._taichi import TaichiProgram

    return TaichiProgram(device, roots, prepared, exact=settings.exact, profile=settings.profile)
