"""Regions of a parcellation by name, and the edges that streamlines make among them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from ..errors import InputError, ParameterError
from ..io.images import AnyPath, FileState, label_in, state_of
from ..option import TableLike
from ..space.batch import Batch
from ..tracking.products.connectome.node_lookup import NodeLookup
from ..tracking.products.connectome.parcellation import RADIAL, RADIUS, Parcellation

MOST_EDGES = 300  # of an answer
Edge = tuple[str | None, str | None, int]


class Parcels:
    """The regions of a parcellation. If its files are written anew, the next use of them reads them again.

    Parameters
    ----------
    image : str or Path
        An image of labels.
    table : str or Path, optional
        Lookup table with the names of the labels, as for ``connectome_nodes``.

    Attributes
    ----------
    names : tuple of str
        Of the regions that have voxels. Where regions have the same name, each has its label behind it.
    readings : int
        How often the files were read.

    Raises
    ------
    InputError
        If one of the files cannot be read, or if the image has no labels.
    """

    def __init__(self, image: AnyPath, table: TableLike | None = None) -> None:
        if label_in(image)[1] is not None:
            raise InputError(f"{image}: is one label; give the image of all of them")
        self._image, self._table, self.readings = image, table, 0
        self._state: tuple[tuple[FileState, ...], ...] = ()
        self._refresh()

    def _refresh(self) -> None:
        """Read the files, unless they are those that were read; raise InputError if that cannot be done."""
        state = tuple(state_of(file) for file in (self._image, self._table) if file is not None)
        if state == self._state:
            return
        parcellation = Parcellation(self._image, self._table, RADIAL, RADIUS)
        if parcellation.shares is not None:
            raise InputError(f"{self._image}: has probabilities; give an image of labels, whose regions are masks")
        self._lookup = NodeLookup([parcellation])
        self._names = _unlike(parcellation.names, parcellation.nodes)
        rows = zip(self._names, parcellation.nodes, parcellation.volumes, strict=True)
        self._regions = {name: f"{self._image}:{label}" for name, label, voxels in rows if voxels}
        self.names = tuple(self._regions)
        self._state, self.readings = state, self.readings + 1

    def region(self, name: object) -> str:
        """Return a region as options name it; raise ParameterError if there is none of that name."""
        self._refresh()
        if not isinstance(name, str) or name not in self._regions:
            raise ParameterError(f"{str(name)[:80]!r} is no region of the parcellation: give one of its names")
        return self._regions[name]

    def edges(self, batch: Batch) -> list[Edge]:
        """Return the nodes of both ends and the number of streamlines of each edge, the largest first.

        An end that has no node within 4 mm, as in a connectome, has None.
        """
        self._refresh()
        if not len(batch):
            return []
        nodes = np.sort(self._lookup.along(batch)[0], axis=1)
        pairs, counts = np.unique(nodes, axis=0, return_counts=True)
        named, order = (None, *self._names), np.argsort(-counts, kind="stable")[:MOST_EDGES]
        return [
            (named[first], named[second], int(count))
            for (first, second), count in zip(pairs[order], counts[order], strict=True)
        ]


def _unlike(names: Iterable[str], labels: Iterable[int]) -> list[str]:
    """Return names of which no two are equal."""
    known = [*names]
    often = Counter(known)
    return [f"{name} ({label})" if often[name] > 1 else name for name, label in zip(known, labels, strict=True)]
