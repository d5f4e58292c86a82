"""The voxels that streamlines pass, listed for the host, with what of each segment lies in each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ...aliases import Array
from ...kernels.products.density import count_points
from ...space.batch import Batch
from ..growth.ordering import exclusive_sum
from .density import MapGrid
from .point_kernels import listing, program_of


@dataclass(frozen=True)
class Passage:
    """What some streamlines of a batch pass: a row for each voxel of each streamline.

    Parameters
    ----------
    voxel : (v,) number of the voxel.
    streamline : (v,) number of the streamline among those of the batch.
    amounts : (v, shares) what of the amounts of its segments lies in the voxel.
    """

    voxel: Array
    streamline: Array
    amounts: Array


def no_amounts(points: Array, offsets: Array) -> Array:
    """Return nothing for the segment that begins at each point, (p, 0) int32."""
    return np.zeros((len(points), 0), np.int32)


def passages(
    grid: MapGrid, batch: Batch, shares: int = 0, spans: Callable[[Array, Array], Array] = no_amounts
) -> Iterator[Passage]:
    """Yield the voxels that the streamlines of a batch pass, for as many at a time as can be listed.

    Parameters
    ----------
    grid : its voxels.
    batch : streamlines, in RASmm.
    shares : amounts of a segment that are shared among its voxels.
    spans : returns these amounts, (p, shares) int32, from points and offsets.
    """
    program, first = program_of(count_points, part=listing(shares)), 0
    for values, most in grid.listed(batch, slice(0, len(batch))):
        count, visited, slot = len(values["slot"]), np.empty(most, np.int32), values["slot"]
        listed = np.zeros(count, np.int32)
        amounts = np.empty((len(visited), shares), np.int32)
        passage = {
            "listed": listed, "here": np.empty(count, np.int32), "shared": np.zeros(count * shares, np.int32),
            "spans": spans(values["points"].reshape(-1, 3), values["offsets"]).ravel(), "amounts": amounts.ravel(),
        }
        arrays = {"visited": visited} | {f"passage_{name}": array for name, array in passage.items()}
        program.run("count_points", count, grid.values | values | arrays)
        streamline = np.repeat(np.arange(count), listed)
        row = np.arange(len(streamline)) + np.repeat(slot - exclusive_sum(listed), listed)
        yield Passage(visited[row], first + streamline, amounts[row])
        first += count
