"""The nodes of ends in any number of parcellations, which share what they can.

Parcellations on one grid, with one rule, are looked at together: the nearest voxel that has a node in any of them is
that of each one which has a node there. Only an end whose voxel has none in a parcellation is looked for in it alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ....aliases import Array
from ....backends.numba.cache import Function, text_of
from ....devices.threads import in_threads
from ....linker.records import Arguments
from ....space.batch import Batch
from .parcellation import RADIAL, REVERSE, Parcellation

POINT_WORDS = 3
_text = text_of(Path(__file__).with_name("edges_kernels.py"))
_mark_voxels, _number_columns = Function(_text, "mark_voxels"), Function(_text, "number_columns")
_nodes_of_rows = Function(_text, "nodes_of_rows")


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

    def at(self, places: Array) -> Ends:
        """Return those of some streamlines."""
        return Ends(np.take(self.words, places, axis=0), None if self.full is None else self.full[places])

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
        grids: dict[tuple[bytes, tuple[int, ...]], list[int]] = {}
        for place, each in enumerate(self._parcellations):
            grids.setdefault((each.space.affine.tobytes(), each.space.shape), []).append(place)
        order = {place: number for number, places in enumerate(grids.values()) for place in places}
        self._grid_of = [order[place] for place in range(len(order))]
        taken = [each.take_voxels() for each in self._parcellations]
        self._grids = [
            _Grid(self._parcellations[places[0]], [taken[place][0] for place in places]) for places in grids.values()
        ]
        self._columns = in_threads(
            lambda place: self._grids[self._grid_of[place]].column(*taken[place]), range(len(taken)), None
        )
        self._has_holes = [
            each.rule == RADIAL and len(voxels) < len(self._grids[number].voxels)
            for number, each, (voxels, _) in zip(self._grid_of, self._parcellations, taken, strict=True)
        ]

    @property
    def needs_ends(self) -> bool:
        """Whether :meth:`nodes` looks at ends, beside their rows."""
        return any(self._has_holes) or any(self._grid_of.count(number) == 1 for number in range(len(self._grids)))

    def rows(self, ends: Ends) -> list[Array | None]:
        """Return for each grid the row of the voxel of both ends, (n, 2), 0 for none; None if nothing shares them."""
        return [grid.rows(ends) if self._grid_of.count(number) > 1 else None for number, grid in enumerate(self._grids)]

    def nodes(self, place: int, ends: Ends, rows: Sequence[Array | None]) -> Array:
        """Return the nodes of both ends in the parcellation at a place, (n, 2) int32; 0 for none."""
        number, column = self._grid_of[place], self._columns[place]
        row = rows[number]
        if row is None:
            row = self._grids[number].rows(ends)
        nodes, state = np.empty((len(row), 2), np.int32), np.zeros(1, np.int64)
        most = nodes.size if self._has_holes[place] else 0
        places, lacking = np.empty(most, np.int64), np.zeros((most, POINT_WORDS), np.int32)
        _nodes_of_rows(row, column, np.ascontiguousarray(ends.words), nodes, places, lacking, state)
        if count := int(state[0]):
            pairs = lacking[: count + count % 2].reshape(-1, 2 * POINT_WORDS)
            found = self._parcellations[place].of_words(pairs, self._volume(place))
            nodes.ravel()[places[:count]] = found.ravel()[:count]
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
            if self.needs_points:
                voxels, nodes = parcellation.voxels, parcellation.voxel_nodes
            else:
                voxels, nodes = self._grids[self._grid_of[place]].voxels, self._columns[place][1:]
            self._volumes[place] = parcellation.volume(voxels, nodes)
        return self._volumes[place]

    def forget(self, place: int) -> None:
        """Give the memory of a parcellation's volume back."""
        self._volumes.pop(place, None)


class _Grid:
    """The voxels that have a node in any of several parcellations on one grid; each has a row, from 1 on.

    Parameters
    ----------
    first : one of the parcellations.
    voxels : those that have a node, of each parcellation.
    """

    def __init__(self, first: Parcellation, voxels: Sequence[Array]) -> None:
        present, self._first = np.zeros(math.prod(first.space.shape), np.uint8), first
        in_threads(lambda each: _mark_voxels(each, present), voxels, None)
        self.voxels = np.flatnonzero(present).astype(np.int32)
        self._volume = first.volume(self.voxels, np.arange(1, len(self.voxels) + 1))

    def column(self, voxels: Array, nodes: Array) -> Array:
        """Return the node of each row in a parcellation that has nodes in these voxels; 0 for none."""
        column = np.zeros(len(self.voxels) + 1, nodes.dtype)
        _number_columns(self._volume["parcels_nodes"], voxels, nodes, column)
        return column

    def rows(self, ends: Ends) -> Array:
        """Return the row of the voxel of both ends of streamlines, (n, 2)."""
        rows = self._first.of_words(ends.words, self._volume)
        if ends.full is not None:
            rows[~ends.full] = 0
        return rows
