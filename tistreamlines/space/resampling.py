"""Values of an image at the voxels of another grid."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..aliases import Array
from .batch import Space


def resample_image(
    values: Array, grid: Space, space: Space, *, nearest: bool
) -> tuple[Array, npt.NDArray[np.bool_]]:
    """Return the values of an image at the centres of the voxels of another grid.

    Parameters
    ----------
    values : (x, y, z) or (x, y, z, n)
        The image.
    grid : Space
        Its grid, which may be rotated or sheared.
    space : Space
        The other grid.
    nearest : bool
        Whether the nearest voxel counts, as for masks and labels. Otherwise values are interpolated trilinearly, in
        float32.

    Returns
    -------
    values : (i, j, k) or (i, j, k, n)
        0 outside the image.
    inside : (i, j, k) bool
        Whether a centre lies in the image, which reaches half a voxel beyond its outermost centres.
    """
    from scipy.ndimage import map_coordinates

    kind = values.dtype if nearest else np.dtype(np.float32)
    channels = np.asarray(values, np.uint8 if kind.kind == "b" else kind).reshape(*grid.shape, -1)
    result = np.zeros((*space.shape, channels.shape[3]), channels.dtype)
    inside = np.zeros(space.shape, bool)
    to_grid = np.linalg.solve(grid.affine, space.affine)
    most = np.array(grid.shape)[:, None, None]
    for plane in range(space.shape[0]):  # few coordinates at a time
        voxels = np.stack(np.broadcast_arrays(plane, *np.ogrid[: space.shape[1], : space.shape[2]])).astype(float)
        places = np.tensordot(to_grid[:3, :3], voxels, 1) + to_grid[:3, 3, None, None]
        inside[plane] = ((places >= -0.5) & (places < most - 0.5)).all(axis=0)
        at = places[:, inside[plane]]
        for channel in range(channels.shape[3] if at.size else 0):
            result[plane, inside[plane], channel] = map_coordinates(
                channels[..., channel], at, channels.dtype, order=0 if nearest else 1, mode="nearest"
            )
    return result.astype(kind, copy=False).reshape(*space.shape, *values.shape[3:]), inside
