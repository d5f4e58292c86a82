"""Seeds that wait for their initial directions, those whose directions are known, and those whose streamlines grow."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...aliases import Array
from ...linker.coming import Coming
from ...linker.records import Arguments
from .chunk import Chunk, enlisted
from .ordering import exclusive_sum_in_order

Coded = tuple[Array, int, Array | None]  # (n, 3) seeds, number of the first, and (n,) codes of given directions


def split(block: Coded, count: int) -> tuple[Coded, Coded]:
    """Return the first ``count`` seeds of a block, and the others."""
    seeds, first, codes = block
    ahead, behind = (None, None) if codes is None else (codes[:count], codes[count:])
    return (seeds[:count], first, ahead), (seeds[count:], first + count, behind)


@dataclass(frozen=True)
class Started:
    """Seeds whose initial directions are on the device, so that their streamlines can be launched.

    Parameters
    ----------
    block : the seeds, the number of the first one, and codes of given directions.
    counts : (n,) int32, the directions of each seed.
    arguments : the kernels' arguments that belong to these seeds, by flat name.
    order : returns the order of the seeds in which neighbours follow each other.
    """

    block: Coded
    counts: Array
    arguments: Arguments
    order: Callable[[], Array]

    @cached_property
    def slot(self) -> Array:
        """Number of each seed's first streamline on the device, (n,) int32.

        There, streamlines of neighbouring seeds follow each other, since they read the same voxels.
        """
        return exclusive_sum_in_order(self.counts, self.order())

    def chunk(self) -> Chunk:
        """Return the streamlines, without steps and stop reasons."""
        seeds, first_seed, _ = self.block
        return Chunk(first_seed, seeds, *enlisted(self.counts, self.slot), np.zeros((0, 2, 2), np.int32))


@dataclass(frozen=True)
class Starting:
    """Seeds whose initial directions the device is looking for."""

    block: Coded
    coming: Coming[Started]


@dataclass(frozen=True)
class Launched:
    """Streamlines that grow on the device.

    Parameters
    ----------
    block : their seeds, see :class:`Started`.
    count : how many there are.
    listed : returns the streamlines, without steps and stop reasons.
    arguments : the kernels' arguments that belong to them, by flat name.
    steps : steps that have been launched.
    """

    block: Coded
    count: int
    listed: Callable[[], Chunk]
    arguments: Arguments
    steps: int


class Waiting:
    """Seeds that wait for their initial directions, in blocks; a chunk has seeds of one block.

    Parameters
    ----------
    blocks : seeds, numbers of the first ones, and given directions.
    coded : turns such a block into one with codes of directions.
    more : whether blocks may follow the first one.
    """

    def __init__(
        self, blocks: Iterator[Coded], coded: Callable[[Array, int, Array | None], Coded], more: bool = True
    ) -> None:
        self._blocks, self._coded, self._more = blocks, coded, more
        self._here: deque[Coded] = deque()

    def next(self, count: int) -> Coded | None:
        """Return the next seeds, at most so many of them; None if there are none."""
        if not self.ahead:
            return None
        ahead, behind = split(self._here.popleft(), count)
        self.put_back(behind)
        return ahead

    @property
    def ahead(self) -> int:
        """How many seeds are left of the first block; 0 if no block is left."""
        while not self._here and (block := next(self._blocks, None)) is not None:
            self.put_back(self._coded(*block))
        return len(self._here[0][0]) if self._here else 0

    @property
    def left(self) -> int:
        """How many seeds are left of all blocks; 0 if that is not known."""
        return 0 if self._more else self.ahead

    def put_back(self, block: Coded) -> None:
        """Let seeds wait before all others."""
        if len(block[0]):
            self._here.appendleft(block)
