"""The fixels of samples of fibres: one for each fibre of a voxel, with its mean volume fraction as density."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ...aliases import Array
from ...io.samples import Samples
from ...kernels.weights.visits import NO_LOBE
from ...space.geodesic import half_sphere
from ...space.sphere import padded

LEAST = 0.05  # mean volume fraction of a fibre that counts, as for FSL's images of dyads
TOGETHER = 1 << 12  # voxels whose fibres are compared with all directions at once


def sticks(samples: Samples, inside: npt.NDArray[np.bool_]) -> tuple[Array, Array, Array, Array]:
    """Return fixels of some voxels.

    The direction of a fibre is the principal one of the mean dyadic tensor of its samples, as in FSL (Jbabdi et al.
    2010). A direction of the half sphere belongs to the fibre of the voxel that is nearest to it.

    Parameters
    ----------
    samples : Samples
        Directions are along the voxel axes.
    inside : (x, y, z) bool
        Voxels of the samples' mask.

    Returns
    -------
    counts : (voxels,) int32
        Fixels of each voxel.
    fibres : (n,) float64
        Mean volume fraction of each.
    directions : (n, 3) float32
        Unit vectors along the scanner's axes.
    words : (voxels, 321) int32
        The fixel of each direction of :func:`.geodesic.half_sphere`, four to a word.
    """
    rows = np.flatnonzero(inside[samples.mask])
    half = half_sphere()[0]
    width = padded(len(half), 4)
    lobes = np.full((len(rows), width), NO_LOBE, np.uint8)
    counts, fibres, directions = np.zeros(len(rows), np.int32), [np.zeros(0)], [np.zeros((0, 3), np.float32)]
    for first in range(0, len(rows), TOGETHER):
        block = slice(first, first + TOGETHER)
        means, along = _mean_fibres(samples.values[rows[block]].astype(float))
        along = along @ samples.space.axes.T
        along /= np.linalg.norm(along, axis=-1, keepdims=True)
        kept = means >= LEAST
        counts[block] = kept.sum(axis=1)
        fibres.append(means[kept])
        directions.append(along[kept].astype(np.float32))
        cosines = np.where(kept[:, None], np.abs(np.einsum("dx,vfx->vdf", half, along)), -1.0)
        # numbers of the fibres that are kept
        numbers = np.take_along_axis(np.cumsum(kept, axis=1) - 1, cosines.argmax(axis=2), axis=1)
        lobes[block, : len(half)] = np.where(counts[block, None] > 0, numbers, NO_LOBE)
    return counts, np.concatenate(fibres), np.concatenate(directions), lobes.view(np.int32)


def _mean_fibres(values: Array) -> tuple[Array, Array]:
    """Return the mean fraction, (v, fibres), and the principal direction, (v, fibres, 3), of (v, n, fibres, 4)."""
    dyads = np.einsum("vnfx,vnfy->vfxy", values[..., :3], values[..., :3])
    return values[..., 3].mean(axis=1), np.linalg.eigh(dyads)[1][..., -1]
