"""The kernel of :mod:`.shares`, which loads a copy of this file, hence the whole name of a module."""

from __future__ import annotations

import numpy as np

from tistreamlines.backends.numba.compiler import compiled


@compiled
def share_sums(starts, rows, parts, ends, nodes, sums, edges, shared):
    """Share the whole numbers of some streamlines, (n, columns), among the edges of a matrix.

    ``starts``, ``rows`` and ``parts`` are as in ``Shares``, ``ends`` the distribution of both ends of each
    streamline. ``edges`` receives the edge of each share, ``shared`` the share; after those of a streamline comes the
    rest, for the edge of streamlines without nodes.
    """
    last = nodes * (nodes + 1) // 2
    place = 0
    for item in range(len(ends)):
        first, other = ends[item, 0], ends[item, 1]
        begun = place
        for a in range(starts[first], starts[first + 1]):
            for b in range(starts[other], starts[other + 1]):
                # exact: the product of two reals of 32 bits
                share = np.float64(parts[a]) * np.float64(parts[b])
                row = np.int64(min(rows[a], rows[b]))
                edges[place] = row * (2 * nodes - row - 1) // 2 + max(rows[a], rows[b])  # see matrix.nodes_of
                for column in range(sums.shape[1]):
                    amount = sums[item, column]
                    if share < 1.0:  # else as many bits as the amount has
                        real = share * amount
                        amount = np.int64(real + 0.5) if real >= 0.0 else np.int64(real - 0.5)
                    shared[place, column] = amount
                place += 1
        edges[place] = last
        for column in range(sums.shape[1]):
            rest = sums[item, column]
            for before in range(begun, place):
                rest -= shared[before, column]
            shared[place, column] = rest
        place += 1
