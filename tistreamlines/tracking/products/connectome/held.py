"""Streamlines that wait to be added to connectomes: for their weights, or since their order matters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from ....aliases import Array
from .matrix import weighted_columns
from .node_lookup import Ends, NodeLookup

BLOCK = 1 << 18  # streamlines that are added at a time


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

    def greatest(self) -> Array:
        """Return the greatest sizes of the columns that are summed with weights, (3 + maps,)."""
        return np.abs(weighted_columns(self.lengths, self.samples)).max(axis=0, initial=0)

    def weighted(self, units: Array) -> Held:
        """Return streamlines whose samples are what is summed with weights; ``units`` are weights times units."""
        whole = np.rint(units * weighted_columns(self.lengths, self.samples)).astype(np.int64)
        return replace(self, samples=whole)


def join_blocks(held: Sequence[Held]) -> list[Held]:
    """Join streamlines in their order, in blocks; threads are slow with small arrays."""
    blocks = np.cumsum([len(part.lengths) for part in held]) // BLOCK
    begins = [0, *(np.flatnonzero(np.diff(blocks)) + 1).tolist(), len(held)]
    return [held[a] if b == a + 1 else Held.join(held[a:b]) for a, b in pairwise(begins) if b > a]


class Block:
    """Streamlines that are added to each connectome in turn.

    Parameters
    ----------
    held : the streamlines.
    lookup : finds their nodes.
    amounts : what is added, see :func:`.matrix.amounts_of`.
    """

    def __init__(self, held: Held, lookup: NodeLookup, amounts: Mapping[int, Array]) -> None:
        self._ends, self._lookup, self.numbers, self.amounts = held.ends, lookup, held.numbers, amounts
        self._rows = lookup.rows(held.ends) if isinstance(held.ends, Ends) else []

    def nodes(self, place: int) -> Array:
        """Return the nodes of both ends in the parcellation at a place, (n, 2); 0 for none."""
        if isinstance(self._ends, Ends):
            return self._lookup.nodes(place, self._ends, self._rows)
        return self._ends[place]
