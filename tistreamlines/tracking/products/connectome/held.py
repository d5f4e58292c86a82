"""Streamlines that wait to be added to connectomes: for their weights, or since their order matters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ....aliases import Array
from ....backends.numba.cache import Function, text_of
from .matrix import BLOCKS, Edges, amounts_of, weighted_columns
from .node_lookup import Ends, NodeLookup

AT_ONCE = 1 << 18  # streamlines that are added at a time, or more
_number_cubes = Function(text_of(Path(__file__).with_name("edges_kernels.py")), "number_cubes")


@dataclass(frozen=True, eq=False)
class Held:
    """Streamlines: their ends and amounts.

    Parameters
    ----------
    ends : their ends, or the nodes of these in each parcellation, (n, 2).
    lengths : (n,) in 2^-16 mm.
    numbers : (n,) of their seeds.
    samples : (n, maps) int64, what is sampled along each of them, in units, or None.
    """

    ends: Ends | list[Array]
    lengths: Array
    numbers: Array
    samples: Array | None

    @classmethod
    def join(cls, parts: Sequence[Held]) -> Held:
        """Return the streamlines of several ones."""
        lengths, numbers = (np.concatenate([getattr(part, name) for part in parts]) for name in ("lengths", "numbers"))
        ends = Ends.join([part.ends for part in parts if isinstance(part.ends, Ends)]) if isinstance(
            parts[0].ends, Ends
        ) else [np.concatenate(rows) for rows in zip(*(part.ends for part in parts), strict=True)]
        samples = [part.samples for part in parts if part.samples is not None]
        return cls(ends, lengths, numbers, np.concatenate(samples) if samples else None)

    def at(self, places: Array) -> Held:
        """Return some of the streamlines."""
        ends = self.ends.at(places) if isinstance(self.ends, Ends) else [nodes[places] for nodes in self.ends]
        samples = None if self.samples is None else self.samples[places]
        return Held(ends, self.lengths[places], self.numbers[places], samples)

    def greatest(self) -> Array:
        """Return the greatest sizes of the columns that are summed with weights, (3 + maps,)."""
        return np.abs(weighted_columns(self.lengths, self.samples)).max(axis=0, initial=0)

    def weighted(self, units: Array) -> Held:
        """Return streamlines whose samples are what is summed with weights; ``units`` are weights times units."""
        whole = np.rint(units * weighted_columns(self.lengths, self.samples)).astype(np.int64)
        return replace(self, samples=whole)


class Block:
    """Streamlines that are added to each connectome in turn: all those of some blocks of seeds, block by block.

    Within a block of seeds, streamlines between the same places follow each other, so that all connectomes find the
    sums of an edge in the processor's cache.

    Parameters
    ----------
    whole : all streamlines.
    places : those of the block among them, in the order of the blocks of seeds.
    lookup : finds their nodes.

    Attributes
    ----------
    held : the streamlines, with weights once :meth:`weigh` was called.
    places : those of ``held`` among all streamlines.
    blocks : their blocks of seeds.
    amounts : what is added of them, once :meth:`measure` was called.
    """

    def __init__(self, whole: Held, places: Array, lookup: NodeLookup) -> None:
        self.blocks, self._lookup = blocks_of(whole.numbers[places]), lookup
        self.amounts: Mapping[int, Array] = {}
        if isinstance(whole.ends, Ends):
            keys = np.empty(len(places), np.int64)
            _number_cubes(np.take(whole.ends.words, places, axis=0).view(np.float32), self.blocks, keys)
            places = places[np.argsort(keys)]
        self.places, self.held = places, whole.at(places)
        if isinstance(self.held.ends, Ends):
            self._rows = lookup.rows(self.held.ends)
            if not lookup.needs_ends:
                self.held = replace(self.held, ends=self.held.ends.at(places[:0]))

    def weigh(self, weights: Array, units: Array) -> None:
        """Weigh the streamlines, where there are weights of all, (n,)."""
        self.held = self.held.weighted(weights[self.places, None] * units)

    def measure(self, connectomes: Sequence[Edges]) -> None:
        """Compute what is added to connectomes, in whose place lengths and samples are not kept."""
        if not self.amounts:
            self.amounts = amounts_of(connectomes, self.held.lengths, self.held.samples)
            self.held = replace(self.held, lengths=np.empty(0, np.int32), samples=None)

    def nodes(self, place: int) -> Array:
        """Return the nodes of both ends in the parcellation at a place, (n, 2); 0 for none."""
        if isinstance(self.held.ends, Ends):
            return self._lookup.nodes(place, self.held.ends, self._rows)
        return self.held.ends[place]


def blocks_of(numbers: Array) -> npt.NDArray[np.uint8]:
    """Return the blocks of seeds of some numbers."""
    return (numbers & (BLOCKS - 1)).astype(np.uint8)


def in_blocks(whole: Held) -> list[Array]:
    """Return the places of streamlines in the order of their blocks of seeds, in parts that have all of some blocks."""
    blocks = blocks_of(whole.numbers)
    ends = np.cumsum(np.bincount(blocks, minlength=BLOCKS))
    cuts = ends[np.flatnonzero(np.diff(ends // AT_ONCE))]
    return [part for part in np.split(np.argsort(blocks, kind="stable"), cuts) if len(part)]
