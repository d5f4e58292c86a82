"""Compilers (Numba, Taichi) and devices; only this room imports a compiler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..engine.settings import Settings
    from ..kernels.lang import Twin
    from ..methods.boot import Prepared
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
        from .numba.program import Program

        return Program(roots, prepared.fill, prepared.scratch, fast=not settings.exact, threads=settings.threads)
    from .taichi.program import TaichiProgram
    from .taichi.trial import open_checked

    kind = open_checked(device, settings.exact, settings.profile)
    return TaichiProgram(device, roots, prepared, exact=settings.exact, profile=settings.profile, kind=kind)


def notes() -> list[str]:
    """What compiling met that the user should know and has not been told; a process has one such note at most."""
    from ..linker.store import notes

    return notes()


def set_leaving(number: int) -> None:
    """Let a signal end the process at once with exit code 128 + number, even while a library keeps Python from running.

    ``signal.signal`` undoes it.
    """
    from . import leave as _leave

    _leave.set_leaving(number)


def shares_memory(device: Device) -> bool:
    """Whether the lanes of a team meet in the block's shared memory, since the driver's subgroups are not of 32."""
    from .taichi.team import team_kind

    return device.arch == "vulkan" and team_kind(device.arch, device.subgroup) == "block"


def try_device(device: Device) -> dict[str, Any]:
    """Run the small kernel that a GPU is tried with, in a process of its own.

    Returns
    -------
    dict
        kind : what a team of 32 threads is; lied : whether that is not what the driver's word makes it.
        faults : what the device gets wrong, or why it did not come so far; empty if it passes.
    """
    from .taichi.trial import in_own_process

    return in_own_process(device)
