"""Kernels that Taichi has compiled: what is kept of them, and how a device runs them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypedDict

from .memory import Buffer

Arguments = Sequence[tuple[str, object]]  # in order: format characters of :mod:`struct`, and numbers or addresses


class Task(TypedDict):
    """A task of a kernel: its code, PTX or SPIR-V in base 64, and how many threads run it.

    ``threads`` are those of a group, ``groups`` the most of a launch (0 for CUDA), ``name`` that of the code's entry.
    """

    name: str
    code: str
    threads: int
    groups: int


class Compiled(TypedDict):
    """A kernel: its tasks, the place of each argument in bytes, and (for CUDA) the bytes of all arguments."""

    tasks: list[Task]
    places: list[int]
    bytes: int


class Kernel(Protocol):
    """A kernel whose code a device has."""

    def launch(self, queue: Buffer, teams: int, arguments: Arguments) -> None:
        """Let the device run the kernel; the caller holds the device's lock."""
