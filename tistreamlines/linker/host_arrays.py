"""Programs whose arrays are numpy's."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..aliases import Array
from .lang import LANES
from .records import REALS
from .transfer import Transfer

LINE_BYTES = 64  # of a cache line


def align(array: Array) -> Array:
    """Return an array without its first elements, such that it begins with a cache line."""
    return array[-array.ctypes.data % LINE_BYTES // array.itemsize :]


def padded(values: Array, rows: int, width: int) -> Array:
    """Pad a matrix with zeros to (rows, width), float64."""
    out = np.zeros((rows, width))
    out[: values.shape[0], : values.shape[1]] = values
    return out


def flattened(values: Array, extra: int = 0) -> Array:
    """Return flat values from a cache line on, float64, and zeros after them."""
    out = align(np.zeros(values.size + extra + LINE_BYTES // 8))
    out[: values.size] = values.ravel()
    return out[: values.size + extra]


def in_chunks(values: Array) -> Array:
    """Return a matrix (rows, columns) in chunks of 32 columns, the rows of each one after the other, float64."""
    rows, columns = values.shape
    whole = padded(values, rows, -(-columns // LANES) * LANES)
    return flattened(whole.reshape(rows, -1, LANES).swapaxes(0, 1))


class HostArrays:
    """Common parts of programs that run on the host; see ``backends.program.Program`` for each method.

    Parameters
    ----------
    bits : of a real, 32 or 64.
    """

    copies_beside: bool = False

    def __init__(self, bits: int) -> None:
        self.real = np.dtype(f"float{bits}")

    def array(self, values: Array) -> Array:
        """Return an array that kernels can take."""
        return np.ascontiguousarray(values, self.real if values.dtype.kind == "f" else np.int32)

    def empty(self, size: int, kind: str) -> Array:
        """Return an array of ``kind`` for kernels to fill."""
        return np.zeros(max(size, 1), self.dtype(kind))

    def dtype(self, kind: str) -> np.dtype:
        """Return the type of the elements of arrays of ``kind``."""
        return self.real if kind == REALS else np.dtype(np.int32)

    def upload(self, array: Array, values: Array, *, beside: bool = False) -> Array:
        """Copy values to the front of an array."""
        array[: len(values)] = values
        return array

    def host(self, array: Array, count: int) -> Array:
        """Return a copy of the first ``count`` elements."""
        return array[:count].copy()

    def later(self, array: Array, count: int) -> Transfer[Array]:
        """Copy the first ``count`` elements as they are now."""
        values = self.host(array, count)
        return Transfer(lambda: values)

    def words(self, size: int) -> Array:
        """Return memory for gathered values."""
        return np.empty(size, np.int32)

    def sync(self) -> None:
        """Wait for the device, which is the host itself."""

    def submit(self) -> None:
        """Do nothing: what is launched has run."""

    def drop(self) -> None:
        """Do nothing: what is launched has run."""

    def gather(self, name: str, count: int, values: Mapping[str, object], out: Array, most: int) -> None:
        """Run a kernel that fills the int32 array ``out``."""
        self.run(name, count, {**values, "out": out})

    def run(self, name: str, count: int, values: Mapping[str, object]) -> None:
        """Run a kernel."""
        raise NotImplementedError
