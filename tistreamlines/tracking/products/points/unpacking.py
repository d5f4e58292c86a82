"""From codes to points: the host's part of the work on a chunk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from threading import local
from typing import TYPE_CHECKING

import numpy as np

from ....aliases import Array
from ....kernels.products.points import PointBuffers, unpack
from ....linker.lang import LANES
from ....linker.records import REALS, Arguments, spread
from ....space.batch import Batch, Space
from ...growth.chunk import Chunk
from ...parts import Getter, Layout, Rule
from ...tables.inputs import KernelTables
from ..grid import affine_of
from .thinning import downsample_batch, process_memory

if TYPE_CHECKING:
    from ....backends.numba.program import NumbaProgram

WHOLE = 31  # bits of a code that has a word of its own: codes are no negative numbers
NONE = np.zeros(1, np.int32)  # instead of an array that is not read


@dataclass
class PackedStreamlines:
    """Accepted streamlines, copied to the host as codes.

    Parameters
    ----------
    chunk : the streamlines.
    words, slot : codes, several to a word, and the first word of each half; or see :class:`.points.PointsOnHost`.
    offsets : (m + 1,) the number of points before each streamline, and of all.
    """

    chunk: Chunk
    words: Array
    slot: Array
    offsets: Array

    def parts(self, count: int) -> list[PackedStreamlines]:
        """Split into at most ``count`` parts of about as many points, which share the words."""
        first, last = self.offsets[[0, -1]].tolist()
        ends = np.searchsorted(self.offsets, [first + (last - first) * k // count for k in range(1, count)])
        return [
            PackedStreamlines(
                self.chunk.select(slice(a, b)), self.words, self.slot[2 * a : 2 * b], self.offsets[a : b + 1],
            )
            for a, b in piece_bounds(ends, len(self.chunk.seed))
        ]


def piece_bounds(ends: Array, count: int) -> list[tuple[int, int]]:
    """Return the first number of each piece of so many and the first one after it; there is one piece, though empty."""
    return list(pairwise(sorted({0, *ends.tolist(), count}))) or [(0, 0)]


def in_teams(lengths: Array) -> Array:
    """Sort halves by side and length, and repeat the last one of each side to fill its team: (LANES * teams,)."""
    sides = []
    for side in range(2):
        order = np.argsort(lengths[:, side])
        sides.append(np.pad(order, (0, -len(order) % LANES), "edge") * 2 + side)
    return np.concatenate(sides)


def open_unpacker(getter: Getter, rule: Rule, packed: bool = True) -> NumbaProgram:
    """Link the kernel of :class:`Unpacker`."""
    from ....backends.numba.program import NumbaProgram

    getter = getter if packed else replace(getter, code_bits=WHOLE)
    abreast = getter.laid_out_abreast
    source = Layout.of(getter, rule, paged=int(not packed), abreast=int(abreast)).source([unpack])
    if abreast and getter.carried:
        carried = {"scratch_carried": (REALS, LANES * getter.carried)}  # of 32 halves
        source = replace(source, scratch={**source.scratch, **carried})
    return NumbaProgram(source, threads=1)


class Unpacker:
    """Computes points from codes with the kernels' own steps, always on the CPU.

    Parameters
    ----------
    prepared : the method's tables.
    space : the image's space.
    packed : True if several codes share a word, False if they are where the kernels of a CPU have written them.
    every : of the points of a streamline, every n-th from its seed and both ends are kept.

    Attributes
    ----------
    memory : returns 3 * p float32 for the points of a batch, by their number p and that of its streamlines.
    """

    def __init__(self, prepared: KernelTables, space: Space, packed: bool = True, every: int = 1) -> None:
        self.space, self.every = space, every
        self._scratch = local()
        self.memory: Callable[[int, int], Array] = process_memory
        self.abreast = prepared.getter.laid_out_abreast
        self.program = open_unpacker(prepared.getter, prepared.rule, packed)
        read = {name for name, _ in self.program.signatures["unpack"]}
        tables = {name: self.program.array(a) for name, a in prepared.arrays.items() if name in read}
        self.values: Arguments = spread("affine", affine_of(space.affine)) | tables | prepared.scalars

    def batch(self, grown: PackedStreamlines, rules: Arguments) -> Batch:
        """Return a batch of streamlines in RASmm; several threads may call this at once.

        Parameters
        ----------
        grown : the streamlines as codes.
        rules : :class:`....kernels.halves.Rules` by flat name.
        """
        chunk = grown.chunk
        facts, begins = chunk.facts(self.space)
        points, count = int(facts[0][-1]), len(begins)
        out = self._all_points(points) if count and self.every > 1 else self.memory(points, count)
        if count:
            lengths = chunk.state[..., 0]
            order = in_teams(lengths).astype(np.int32) if self.abreast else NONE
            initial, first, cropped = (chunk.besides.get(name, NONE) for name in ("initial", "first", "cropped"))
            laid = PointBuffers(
                seed=chunk.seed, branch=chunk.branch, initial=initial, first=first, point=chunk.seeds.ravel(),
                offset=begins, slot=grown.slot, state=chunk.state.ravel(), cropped=cropped.ravel(), order=order,
            )
            values = self.values | rules | spread("laid", laid)
            values |= {"rules_first_seed": chunk.first_seed, "words": grown.words, "out": out}
            self.program.run("unpack", len(order) // LANES if self.abreast else 2 * count, values)
        return downsample_batch(Batch(out.reshape(-1, 3), *facts), self.every, self.memory)

    def _all_points(self, count: int) -> Array:
        """Return memory of this thread for points that do not stay, since fresh memory costs more than to thin them."""
        kept = getattr(self._scratch, "points", None)
        if kept is None or len(kept) < 3 * count:
            kept = self._scratch.points = process_memory(count + count // 4, 0)
        return kept[: 3 * count]
