"""Memory of blocks on their way to a file."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..aliases import Array


class SpareMemory:
    """Memory that is used again, since a fresh page takes longer to get than to fill; for any threads."""

    def __init__(self) -> None:
        self._spare: list[Array] = []

    def take(self, count: int, kind: npt.DTypeLike) -> Array:
        """Return an array of so many items."""
        size = count * np.dtype(kind).itemsize
        try:
            memory = self._spare.pop()
        except IndexError:
            memory = np.empty(size, np.uint8)
        if len(memory) < size:
            memory = np.empty(size, np.uint8)
        return memory[:size].view(kind)

    def give_back(self, array: Array) -> None:
        """Use the memory of an array that was taken for another one."""
        assert isinstance(array.base, np.ndarray)
        self._spare.append(array.base)
