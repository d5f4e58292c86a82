"""The interface of a program: the same for every compiler and every device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from ..aliases import Array
from ..linker.records import Arguments
from ..linker.transfer import Transfer

OnDevice = TypeVar("OnDevice")  # an array there


class Program(Protocol[OnDevice]):
    """Kernels that have been linked for a device, and arrays on it.

    Attributes
    ----------
    signatures : of each kernel, the flat names and kinds of its arguments.
    copies_beside : whether what has come can be copied while later kernels run.
    """

    signatures: dict[str, list[tuple[str, str]]]
    copies_beside: bool

    def array(self, values: Array) -> OnDevice:
        """Return an array on the device that holds these values: float32 or int32."""
        ...

    def empty(self, size: int, kind: str) -> OnDevice:
        """Return an array of ``kind``, 'reals' or 'ints', of zeros, for kernels to fill."""
        ...

    def upload(self, array: OnDevice, values: Array, *, beside: bool = False) -> OnDevice:
        """Copy values to the front of an array, and return it.

        If no kernel that may still run uses the array, they may be copied ``beside`` these kernels, without waiting.
        """
        ...

    def host(self, array: OnDevice, count: int) -> npt.NDArray[np.int32]:
        """Wait for the device; return a copy of the first ``count`` elements of an int32 array."""
        ...

    def later(self, array: OnDevice, count: int) -> Transfer[npt.NDArray[np.int32]]:
        """Let the first elements of an int32 array be copied as kernels launched so far leave it.

        No later kernel may write to the array before the copy was waited for. Where the device cannot run other kernels
        meanwhile, it is copied at once.
        """
        ...

    def run(self, name: str, count: int, values: Mapping[str, object]) -> None:
        """Launch a kernel for items 0 to ``count`` - 1, with arguments by flat name; it may still run on return."""

    def submit(self) -> None:
        """Let the device begin with the launched kernels, if it still waits for more."""

    def drop(self) -> None:
        """Stop kernels for which nobody waits any more, where that is possible."""

    def words(self, size: int) -> npt.NDArray[np.int32]:
        """Return memory of the host to which the device copies soonest: an array of int32, without values."""
        ...

    def gather(
        self, name: str, count: int, values: Mapping[str, object], out: npt.NDArray[np.int32], most: int
    ) -> Callable[[], None] | None:
        """Run a kernel and copy what it writes to the int32 array ``out``, of at most ``most`` elements, to the host.

        Where the device can run other kernels meanwhile, a function is returned that waits for the copy.
        """
        ...

    def sync(self) -> None:
        """Wait for the device."""


def on_device(program: Program, values: Arguments) -> Arguments:
    """Return arguments whose arrays of the host are copied to the device; numbers stay as they are."""
    return {name: program.array(value) if isinstance(value, np.ndarray) else value for name, value in values.items()}
