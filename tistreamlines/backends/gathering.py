"""What kernels of a GPU gather for the host, in arrays that are used again."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ..linker.records import INTS
from .program import OnDevice, Program


class Gathering(Program[OnDevice]):
    """A program that keeps the arrays in which its kernels gather."""

    def __init__(self) -> None:
        self._spare: list[tuple[OnDevice, int]] = []  # arrays, and their sizes

    def _copy_later(self, array: OnDevice, out: np.ndarray) -> Callable[[], None] | None:
        """Return what copies an array to the host as kernels launched so far leave it; None if it was copied at once."""
        raise NotImplementedError

    def words(self, size: int) -> np.ndarray:
        """Return memory of the host; see :meth:`.program.Program.words`."""
        return np.empty(size, np.int32)

    def gather(
        self, name: str, count: int, values: Mapping[str, object], out: np.ndarray, most: int
    ) -> Callable[[], None] | None:
        """Run a kernel and copy what it writes to the int32 array ``out``, of at most ``most`` elements, to the host.

        See :meth:`.program.Program.gather`.
        """
        array, size = self._spare.pop() if self._spare else (None, 0)
        if array is None or len(out) > size:
            array, size = None, min(int(1.25 * len(out)), most)  # frees its memory before the new allocation
            array = self.empty(size, INTS)
        self.run(name, count, {**values, "out": array})
        copy = self._copy_later(array, out)
        if copy is None:
            self._spare.append((array, size))
            return None

        def finish() -> None:
            copy()
            self._spare.append((array, size))

        return finish
