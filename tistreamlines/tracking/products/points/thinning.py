"""Streamlines of every n-th point, as MRtrix3's Downsampler makes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ....aliases import Array
from ....kernels.products.thinning import find_seed, thin
from ....space.batch import Batch, WholeLengths
from ..batch_work import lengths_of, points_of, program_of


def process_memory(points: int, _: int) -> Array:
    """Return memory of this process for points."""
    return np.empty(3 * points, np.float32)


def downsample_batch(batch: Batch, every: int, memory: Callable[[int, int], Array] = process_memory) -> Batch:
    """Return the streamlines of :func:`thin_batch`, of which is known how long the whole ones are."""
    thinned = thin_batch(batch, every, memory)
    return thinned if thinned is batch else replace(thinned, whole=WholeLengths(batch.lengths, lengths_of(batch)))


def thin_batch(batch: Batch, every: int, memory: Callable[[int, int], Array] = process_memory) -> Batch:
    """Return streamlines of every n-th point, counted from the seed, and of both ends, as MRtrix3's Downsampler does.

    Parameters
    ----------
    batch : Batch
        Streamlines with the seed among their points, but for rounding.
    every : int
        Which points are kept: 1 keeps all.
    memory : callable
        Returns 3 * p float32 for the points, by their number p and that of the streamlines.

    Returns
    -------
    Batch
        The streamlines, without values at each of their points.
    """
    if every == 1 or not len(batch):
        return batch
    program, count = program_of(find_seed, thin), len(batch)
    seed = np.zeros(count, np.int32)
    values = points_of(batch) | {"seed": seed}
    program.run("find_seed", count, values | {"seeds": np.ascontiguousarray(batch.seeds).ravel()})
    halves = np.stack([seed, batch.lengths - 1 - seed])
    kept = 1 + (halves // every + (halves % every > 0)).sum(axis=0)
    offsets = np.concatenate([[0], np.cumsum(kept)])
    out = memory(int(offsets[-1]), count)
    program.run("thin", count, values | {"every": every, "places": offsets.astype(np.int32), "out": out})
    return replace(batch, points=out.reshape(-1, 3), offsets=offsets, data_per_point={})
