"""How much each voxel counts in the comparison of streamlines with fibres: the processing mask of SIFT."""

from __future__ import annotations

import numpy as np

from ...aliases import Array
from ...backends import open_program
from ...backends.program import on_device
from ...devices import Device
from ...errors import InputError
from ...io.images import AnyPath, Tell
from ...io.nifti import load_map
from ...kernels.weights.tissue_shares import COUNTED, POINTS, Shares, count_tissues
from ...linker.lang import LANES
from ...linker.parts import Source
from ...linker.records import INTS, spread
from ...space.batch import Space
from ..stopping.segmentation import TissueFiles, read_tissues
from ..tables.inputs import MapCount, MapImage

TOGETHER = 2**15  # voxels in a launch
SAME = 1e-4  # difference of affines of one grid, mm


def read_grid_mask(path: AnyPath, space: Space, warn: Tell) -> Array:
    """Read a processing mask on the grid of the fixels, (x, y, z) float.

    Raises
    ------
    InputError
        If it is missing or damaged, has another grid, a value below 0, or none above.
    """
    values = load_map(path, space, warn)
    if (values < 0).any():
        raise InputError(f"{path}: has values below 0; give how much each voxel counts")
    if not values.any():
        raise InputError(f"{path}: is 0 everywhere; give how much each voxel counts")
    return values.astype(float)


def tissue_mask(
    source: AnyPath | TissueFiles, space: Space, inside: Array, device: Device, threads: int | None, warn: Tell
) -> tuple[Array, Array]:
    """Return the squared share of white matter in each voxel, and that by which grey matter lowers fibre densities.

    Shares are those of a thousand points of a voxel, as in MRtrix3, unless the tissues lie on its grid.

    Parameters
    ----------
    source : path-like or TissueFiles
        Five-tissue-type (5TT) image, or what it is made of.
    space : Space
        Grid of the fixels.
    inside : (x, y, z) bool
        Voxels with a function.
    device, threads : Device, int
        The device that finds them.
    warn : callable
        Receives a warning about fractions that do not sum to 1.

    Returns
    -------
    mask, scale : (x, y, z) float

    Raises
    ------
    InputError
        If the image is missing or damaged, or has no white matter where functions are.
    """
    values, grid = read_tissues(source, warn)
    if values.shape[:3] == inside.shape and np.abs(grid.affine - space.affine).max() < SAME:
        shares = np.where(inside[..., None], values[..., :3], 0.0).astype(float)
    else:
        shares = np.zeros((*inside.shape, 3))
        tissues = MapImage(values, np.linalg.inv(grid.affine) @ space.affine)
        shares[inside] = _count_tissues(tissues, np.argwhere(inside), device, threads)
    mask = shares[..., 2] ** 2
    if not mask.any():
        raise InputError(f"{source}: has no white matter where the FODs are: are both of one subject, in one space?")
    return mask, 1.0 - shares[..., 0] - 0.5 * shares[..., 1]


def _count_tissues(tissues: MapImage, voxels: Array, device: Device, threads: int | None) -> Array:
    """Return the shares of cortical and subcortical grey and of white matter, (n, 3); 0 where half is unknown."""
    program = open_program(device, Source([count_tissues], [MapCount(maps=tissues.count)]), threads=threads)
    tables = on_device(program, {f"tissues_{name}": array for name, array in tissues.fields().items()})
    blocks = []
    for first in range(0, len(voxels), TOGETHER):
        block = voxels[first : first + TOGETHER].astype(np.int32)
        size = COUNTED * LANES * len(block)
        shares = Shares(voxels=program.array(block.ravel()), counts=program.empty(size, INTS))
        program.run(count_tissues.__name__, len(block), tables | spread("shares", shares))
        blocks.append(program.host(shares.counts, size).reshape(-1, COUNTED, LANES).sum(axis=2))
    counts = np.concatenate(blocks)
    known = counts[:, 3:]
    return np.where(known > POINTS // 2, counts[:, :3] / np.maximum(known, 1), 0.0)
