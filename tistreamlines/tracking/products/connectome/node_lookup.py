"""The nodes of ends in any number of parcellations, which share what they can.

Parcellations on one grid, with one rule, are looked at together: the nearest voxel that has a node in any of them is
that of each one which has a node there. Only an end whose voxel has none in a parcellation is looked for in it alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ....aliases import Array
from ....linker.records import Arguments
from ....space.batch import Batch
from .parcellation import RADIAL, REVERSE, Parcellation

POINT_WORDS = 3


@dataclass(frozen=True, eq=False)
class Ends:
    """The two ends of streamlines.

    Parameters
    ----------
    words : (n, 6) int32, the bits of both points; rows may have further words.
    full : (n,) whether a streamline has points; None if all have.
    """

    words: Array
    full: Array | None = None

    @classmethod
    def of(cls, batch: Batch) -> Ends:
        """Return the ends of the streamlines of a batch."""
        full = batch.lengths > 0
        points = batch.points[np.stack([batch.offsets[:-1][full], batch.offsets[1:][full] - 1], 1)]
        words = points.view(np.int32).reshape(-1, 2 * POINT_WORDS)
        if full.all():
            return cls(words)
        whole = np.zeros((len(batch), words.shape[1]), np.int32)
        whole[full] = words
        return cls(whole, full)

    @classmethod
    def join(cls, parts: Sequence[Ends]) -> Ends:
        """Return the ends of several ones."""
        words = np.concatenate([part.words for part in parts])
        if all(part.full is None for part in parts):
            return cls(words)
        full = [np.ones(len(part.words), bool) if part.full is None else part.full for part in parts]
        return cls(words, np.concatenate(full))


class NodeLookup:
    """Finds the nodes of ends in some parcellations.

    Parameters
    ----------
    parcellations : any number; all have the same rule and radius.
    """

    def __init__(self, parcellations: Sequence[Parcellation]) -> None:
        self._parcellations = tuple(parcellations)
        self.needs_points = any(parcellation.rule == REVERSE for parcellation in parcellations)
        self._volumes: dict[int, Arguments] = {}
        self._grids: list[_Grid] = []
        self._grid_of: list[int] = []
        if not self.needs_points:
            self._group()

    def _group(self) -> None:
        grids: dict[tuple[bytes, tuple[int, ...]], list[Parcellation]] = {}
        keys = [(each.space.affine.tobytes(), each.space.shape) for each in self._parcellations]
        for key, parcellation in zip(keys, self._parcellations, strict=True):
            grids.setdefault(key, []).append(parcellation)
        self._grids = [_Grid(together) for together in grids.values()]
        order = {key: number for number, key in enumerate(grids)}
        self._grid_of = [order[key] for key in keys]
        self._columns = [
            self._grids[number].column(each) for number, each in zip(self._grid_of, self._parcellations, strict=True)
        ]
        self._has_holes = [
            each.rule == RADIAL and not column[1:].all()
            for each, column in zip(self._parcellations, self._columns, strict=True)
        ]

    def rows(self, ends: Ends) -> list[Array | None]:
        """Return for each grid the row of the voxel of both ends, (n, 2), 0 for none; None if nothing shares them."""
        return [grid.rows(ends) if self._grid_of.count(number) > 1 else None for number, grid in enumerate(self._grids)]

    def nodes(self, place: int, ends: Ends, rows: Sequence[Array | None]) -> Array:
        """Return the nodes of both ends in the parcellation at a place, (n, 2) int32; 0 for none."""
        number, column = self._grid_of[place], self._columns[place]
        row = rows[number]
        if row is None:
            row = self._grids[number].rows(ends)
        nodes = column[row].astype(np.int32)
        parcellation = self._parcellations[place]
        if self._has_holes[place]:
            alone = np.flatnonzero(((nodes == 0) & (row > 0)).any(axis=1))
            nodes[alone] = parcellation.of_words(ends.words[alone], self._volume(place))
        return nodes

    def along(self, batch: Batch) -> list[Array]:
        """Return the nodes of both ends of the streamlines of a batch, (n, 2), in each parcellation."""
        if self.needs_points:  # which looks at other points than the ends
            return [each.along(batch, self._volume(place)) for place, each in enumerate(self._parcellations)]
        return self.all_nodes(Ends.of(batch))

    def all_nodes(self, ends: Ends) -> list[Array]:
        """Return the nodes of both ends in each parcellation, (n, 2) int32."""
        rows = self.rows(ends)
        return [self.nodes(place, ends, rows) for place in range(len(self._parcellations))]

    def _volume(self, place: int) -> Arguments:
        """Return the volume of a parcellation, which keeps what was looked for."""
        if place not in self._volumes:
            parcellation = self._parcellations[place]
            self._volumes[place] = parcellation.volume(parcellation.voxels, parcellation.voxel_nodes)
        return self._volumes[place]

    def forget(self, place: int) -> None:
        """Give the memory of a parcellation's volume back."""
        self._volumes.pop(place, None)


class _Grid:
    """The voxels that have a node in any of several parcellations on one grid; each has a row, from 1 on."""

    def __init__(self, parcellations: Sequence[Parcellation]) -> None:
        self._first = parcellations[0]
        present = np.zeros(math.prod(self._first.space.shape), bool)
        for parcellation in parcellations:
            present[parcellation.voxels] = True
        voxels = np.flatnonzero(present)
        self._count, self._volume = len(voxels), self._first.volume(voxels, np.arange(1, len(voxels) + 1))

    def column(self, parcellation: Parcellation) -> Array:
        """Return the node of each row in a parcellation, 0 for none."""
        column = np.zeros(self._count + 1, parcellation.voxel_nodes.dtype)
        column[np.asarray(self._volume["parcels_nodes"])[parcellation.voxels]] = parcellation.voxel_nodes
        return column

    def rows(self, ends: Ends) -> Array:
        """Return the row of the voxel of both ends of streamlines, (n, 2)."""
        rows = self._first.of_words(ends.words, self._volume)
        if ends.full is not None:
            rows[~ends.full] = 0
        return rows
