"""The records of streamlines and of their space."""

import nibabel as nib
import numpy as np
import pytest

from tistreamlines.space.batch import Batch, Space


def fields():
    return {
        "points": np.arange(12.0).reshape(4, 3),
        "offsets": [0, 3, 4],
        "seeds": np.zeros((2, 3)),
        "seed_number": [5, 6],
        "direction_number": [0, 1],
        "stop_reasons": [[1, 2], [3, 4]],
    }


def test_batch():
    batch = Batch(**fields())
    assert len(batch) == 2
    assert batch.lengths.tolist() == [3, 1]
    types = {name: str(getattr(batch, name).dtype) for name in fields()}
    assert list(types.values()) == ["float32", "int64", "float32", "uint32", "uint16", "uint8"]


def test_batch_copies_nothing_of_the_right_type():
    points = np.zeros((4, 3), np.float32)
    assert Batch(**fields() | {"points": points}).points is points


@pytest.mark.parametrize("offsets", [[1, 4], [0, 3, 2], []])
def test_batch_of_impossible_offsets(offsets):
    with pytest.raises(ValueError, match="offsets"):
        Batch(**fields() | {"offsets": offsets})


@pytest.mark.parametrize("name", ["points", "seeds", "seed_number", "direction_number", "stop_reasons"])
def test_batch_of_other_shapes(name):
    with pytest.raises(ValueError, match=name):
        Batch(**fields() | {name: fields()[name][:1]})


@pytest.mark.parametrize(
    "linear", [np.diag([-1.5, 2, 3]), [[0, 0, 2], [-1.5, 0, 0], [0, 3, 0]], [[1.2, -1.6, 0], [1.6, 1.2, 0], [0, 0, 3]]]
)
def test_space(linear):
    space = Space(nib.affines.from_matvec(linear, [-90, 60.5, 33.25]), (40, 50, 60))
    voxels = np.random.default_rng(0).uniform(-1, 50, (20, 3))
    assert np.allclose(space.to_ras(voxels), nib.affines.apply_affine(space.affine, voxels))
    assert np.allclose(space.to_voxel(space.to_ras(voxels)), voxels)
    assert np.allclose(space.voxel_sizes, nib.affines.voxel_sizes(space.affine))


def test_space_of_other_shape():
    with pytest.raises(ValueError, match="affine"):
        Space(np.eye(3), (4, 5, 6))
