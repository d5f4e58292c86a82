"""Compilers (Numba, Taichi); only this room imports a compiler."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from ..devices import ON_HOST, Device
from ..devices.compilers import compilers_for as compilers_for
from ..devices.compilers import take_compiler as take_compiler
from ..errors import DeviceError
from ..linker.store import notes as notes

if TYPE_CHECKING:
    from ..linker.parts import Source
    from .program import Program


def open_program(
    device: Device, source: Source, *, exact: bool = True, threads: int | None = None,
    queued: Mapping[str, str] | None = None, bits: int = 32,
) -> Program:
    """Link kernels and make them callable on a device.

    Parameters
    ----------
    device : one of :func:`tistreamlines.devices.list_devices`.
    source : kernels, and what they are linked with.
    exact : same bits on every device; if False, the compiler may reorder arithmetic.
    threads : CPU threads, None for all.
    queued : names of kernels that run while the caller goes on, as all do on other devices than the CPU, and of queues:
        there, kernels of one queue run one after the other.
    bits : of a real, 32 or 64, which are not for trackers on a GPU.

    Raises
    ------
    DeviceError
        If the device cannot start or computes wrong results.
    """
    if device.interprets:
        from ..linker.interpreted import InterpretedProgram

        return InterpretedProgram(source, bits=bits)
    if device.on_host:
        from .numba.program import NumbaProgram, QueuedProgram

        if queued:
            return QueuedProgram(source, fast=not exact, threads=threads, queued=queued)
        return NumbaProgram(source, bits=bits, fast=not exact, threads=threads)
    from .taichi.trial import begin_beside, open_checked, program_class

    if bits == 64:
        from .taichi.trial import wide_class

        open_checked(device, exact)
        return wide_class(device)(device, source, exact=exact)
    begin_beside(device, source, exact)
    return program_class(device)(device, source, exact=exact, kind=open_checked(device, exact))


def fits_soon(device: Device) -> bool:
    """Whether a GPU begins with reals of 64 bits at once; another one waits seconds for the runtime of its compiler."""
    if device.on_host or device.lack:
        return False
    from .driven.program import WideDrivenProgram
    from .taichi.trial import wide_class

    return wide_class(device) is WideDrivenProgram


def before_threads(arch: str) -> None:
    """Do what has to be done before a thread starts that opens a device of an arch."""
    if arch not in ON_HOST:
        from ..devices.compilers import compiler_for
        from .taichi.starting import settle_environment

        with suppress(DeviceError):  # it occurs again when the device is started
            settle_environment(compiler_for(arch))


def warm_up(device: Device, *, exact: bool = True) -> None:
    """Open a GPU, or start the compiler for it, and test it, which :func:`open_program` else does; or begin with that."""
    if not device.on_host:
        from .taichi.trial import open_beside

        open_beside(device, exact)
    from .numba import program as program


def compiler_told(device: Device) -> dict[str, str]:
    """Return name and version of a GPU's compiler, for the record; nothing on the CPU."""
    if device.on_host:
        return {}
    from ..devices.compilers import compiler_for

    compiler = compiler_for(device.arch)
    return {"compiler": f"{compiler.package} {compiler.version}"}


def shares_memory(device: Device) -> bool:
    """Whether a team's lanes exchange values in shared memory, since the driver's subgroups do not have 32 threads."""
    from .taichi.team import team_kind

    return device.arch == "vulkan" and team_kind(device.arch, device.subgroup) == "block"

