"""Random lines on a grid that is rotated and sheared, the voxels that they pass, and products that are made of them."""

from __future__ import annotations

import nibabel as nib
import numpy as np
from streamlines import batch_of, pieces

from tistreamlines.options.parameters import Parameters
from tistreamlines.space.batch import Batch, Space
from tistreamlines.tracking.registry import PRODUCTS

TURNED = Space(np.array([[0.8, -0.9, 0.1, 3], [0.6, 1.1, 0, -2], [0.2, 0.3, 2, 1], [0, 0, 0, 1.0]]), (6, 5, 7))


def saved(path, voxels, affine):
    nib.save(nib.Nifti1Image(np.asarray(voxels, np.uint8), affine), path)
    return str(path)


def product_of(name, batches, **options):
    """What a product makes of batches, without files."""
    chosen = Parameters(**options)
    row = PRODUCTS[name]
    product = row.make(chosen, TURNED, 1.0, 2)
    assert product.paths == row.files(chosen)
    for batch in batches:
        product.add(batch)
    product.write(force=False)
    return product


def seeded(lines, seeds):
    batch = batch_of(lines)
    return Batch(
        batch.points, batch.offsets, seeds, batch.seed_number, batch.direction_number, batch.stop_reasons
    )


def numbered(inside):
    """The number of each voxel of a mask by its coordinates, x running fastest."""
    order = [(x, y, z) for z, y, x in np.argwhere(inside.transpose(2, 1, 0)).tolist()]
    return {voxel: number for number, voxel in enumerate(order)}


def lines_on(space):
    """Random lines, the voxels that each passes, its seed and the voxel of that."""
    rng = np.random.default_rng(1)
    lines = [space.to_ras(rng.uniform(-1, 7, (rng.integers(2, 6), 3))).astype(np.float32) for _ in range(90)]
    passed = [{voxel for voxel, _ in pieces(line.astype(float), space)} for line in lines]
    seeds = np.array([line[len(line) // 2] for line in lines])
    return lines, passed, seeds, [tuple(voxel) for voxel in np.rint(space.to_voxel(seeds)).astype(int).tolist()]
