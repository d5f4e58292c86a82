"""Soft parcellations: nodes among which ends of streamlines are shared, in proportion to their probabilities."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ....aliases import Array
from ....backends.numba.cache import Function, text_of
from ....io.segmentations import Probabilities

UNITS = 2.0**30  # of a streamline
AT_ONCE = 1 << 18  # shares that are held, more if a streamline alone has as many
_share_sums = Function(text_of(Path(__file__).with_name("shares_kernels.py")), "share_sums")


@dataclass(frozen=True, eq=False)
class Shares:
    """Distributions over nodes: one for each voxel that has a node, from 1 on; distribution 0 has no node.

    Only probabilities above 0 are there.

    Parameters
    ----------
    starts : (distributions + 1,) int64
        The first entry of each distribution, and the number of all entries.
    rows : (entries,) int32
        Nodes, from 0 on.
    parts : (entries,) float32
        Their probabilities, which sum to at most 1 in each distribution.
    """

    starts: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int32]
    parts: npt.NDArray[np.float32]

    def volumes(self, nodes: int) -> npt.NDArray[np.float64]:
        """Return the number of voxels of each node, each counted as its probability."""
        whole = np.zeros(nodes, np.int64)
        np.add.at(whole, self.rows, np.rint(self.parts.astype(np.float64) * UNITS).astype(np.int64))
        return whole / UNITS

    def of_edges(self, ends: Array, sums: Array, nodes: int) -> Iterator[tuple[Array, Array, Array]]:
        """Share sums of streamlines among edges, whose order is that of :func:`.matrix.nodes_of`.

        Parameters
        ----------
        ends : (n, 2), the distributions of both ends.
        sums : (n, columns) int64.
        nodes : number of nodes.

        Yields
        ------
        The edges, the streamlines by their places, and the shares of their sums, of some streamlines. The last edge
        receives what remains of a streamline.
        """
        sizes = np.diff(self.starts)[ends].prod(axis=1) + 1
        borders = np.searchsorted(np.cumsum(sizes), np.arange(AT_ONCE, sizes.sum(), AT_ONCE))
        for part in np.split(np.arange(len(ends)), np.unique(borders[borders > 0])):
            count = int(sizes[part].sum())
            edges, shared = np.empty(count, np.int64), np.empty((count, sums.shape[1]), np.int64)
            of_part = np.ascontiguousarray(ends[part], np.int64), nodes, np.ascontiguousarray(sums[part])
            _share_sums(self.starts, self.rows, self.parts, *of_part, edges, shared)
            yield edges, np.repeat(part, sizes[part]), shared


def shares_of(probabilities: Probabilities, row: Array) -> tuple[Shares, npt.NDArray[np.int32]]:
    """Return the distributions of an image, and that of each voxel.

    Parameters
    ----------
    probabilities : those of each volume. They are divided by their sum where that is above 1.
    row : (volumes + 1,), the row of each volume's node from 1 on, 0 for none; volumes count from 1 on.
    """
    counts = np.zeros(len(probabilities.sums), np.int64)
    volumes = [*zip(row[1:].tolist(), probabilities.voxels, probabilities.values, strict=True)]
    volumes = [(node - 1, voxels, values) for node, voxels, values in volumes if node]
    for _, voxels, _ in volumes:
        counts[voxels] += 1
    present = np.flatnonzero(counts)
    starts = np.concatenate([[0, 0], np.cumsum(counts[present])])
    next_entry = np.zeros(len(counts), np.int64)
    next_entry[present] = starts[1:-1]
    rows, parts = np.empty(starts[-1], np.int32), np.empty(starts[-1], np.float32)
    for node, voxels, values in volumes:
        entries = next_entry[voxels]
        rows[entries], parts[entries] = node, values / np.maximum(probabilities.sums[voxels], 1)
        next_entry[voxels] += 1
    which = np.zeros(len(counts), np.int32)
    which[present] = np.arange(1, len(present) + 1)
    return Shares(starts, rows, parts), which
