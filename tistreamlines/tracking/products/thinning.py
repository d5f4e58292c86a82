"""Every n-th point of streamlines."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...kernels.products.thinning import find_seed, thin
from ...space.batch import Batch
from .point_kernels import points_of, program_of


def downsampled(batch: Batch, every: int) -> Batch:
    """Return streamlines of every n-th point, counted from the seed, and of both ends, as MRtrix3's Downsampler does.

    Parameters
    ----------
    batch : Batch
        Streamlines with the seed among their points, but for rounding.
    every : int
        Which points are kept: 1 keeps all.

    Returns
    -------
    Batch
        The streamlines, without values at each of their points.
    """
    if not len(batch):
        return batch
    program = program_of(find_seed, thin)
    seed = np.zeros(len(batch), np.int32)
    values = points_of(batch) | {"seed": seed}
    program.run("find_seed", len(batch), values | {"seeds": np.ascontiguousarray(batch.seeds).ravel()})
    halves = np.stack([seed, batch.lengths - 1 - seed])
    kept = 1 + (halves // every + (halves % every > 0)).sum(axis=0)
    offsets = np.concatenate([[0], np.cumsum(kept)])
    out = np.empty(3 * int(offsets[-1]), np.float32)
    program.run("thin", len(batch), values | {"every": every, "places": offsets.astype(np.int32), "out": out})
    return replace(batch, points=out.reshape(-1, 3), offsets=offsets, data_per_point={})
