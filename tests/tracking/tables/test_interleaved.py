"""Rows of cubes of voxels that lie interleaved: lanes read of them what they read of rows one after the other."""

from __future__ import annotations

import numpy as np
import pytest
from dialects import DIALECTS, reals, run

from tistreamlines.kernels.interpolate import STOP_CHANNEL, Volume
from tistreamlines.kernels.lanes import interpolate_stop, interpolated
from tistreamlines.linker.lang import Ints, Reals, at, barrier, func, i32, lanes, put, vec3
from tistreamlines.linker.records import spread
from tistreamlines.tracking.tables.rows import CUBE, WASTE, build_volume, interleave

SHAPE, WIDTH = (7, 6, 9), 64  # odd sides end within a cube
CONSTANTS = {"ROW_CHUNKS": WIDTH // 32, "STOP_CHANNEL": WIDTH - 2, "STOP_CHANNELS": 2}


@func
def read(item: i32, volume: Volume, row: Reals, points: Reals, channels: Ints, out: Reals):
    """A number of each lane's own at its own point, and the stopping rule's two at the first lane's."""
    c = 96 * item
    p = vec3(at(points, c), at(points, c + 32), at(points, c + 64))
    put(out, 64 * item, interpolated(volume, p, at(channels, 32 * item)))
    interpolate_stop(volume, vec3(points[c], points[c + 32], points[c + 64]), row)
    barrier()
    put(out, 64 * item + 32, lanes(row[STOP_CHANNEL] + 10.0 * row[STOP_CHANNEL + 1]))


def volume_of(keep: np.ndarray) -> Volume:
    """Rows of random numbers of the voxels that are kept."""
    rng = np.random.default_rng(0)

    def fill(values, rows):
        rows[:, : WIDTH - 2] = values

    data = rng.normal(100, 30, (*keep.shape, WIDTH - 2)).astype(np.float32)
    return build_volume(data, keep, WIDTH, fill, rng.random((*keep.shape, 2), np.float32))


def some_voxels() -> np.ndarray:
    keep = np.random.default_rng(1).random(SHAPE) < 0.9
    keep[:2, :2, :2] = False  # a whole cube
    return keep


@pytest.mark.parametrize("dialect", DIALECTS)
def test_lanes_read_the_same_bits(dialect):
    plain = volume_of(some_voxels())
    cubes = interleave(plain, WIDTH)
    rng, count = np.random.default_rng(2), 40
    points = rng.uniform(-0.5, np.array(SHAPE) - 0.5, (count, 32, 3)).astype(np.float32).astype(float)
    values = {"points": points.transpose(0, 2, 1).ravel(), "channels": rng.integers(0, WIDTH, 32 * count, np.int32)}
    read_of = [
        run(dialect, read, count, values | spread("volume", volume) | {"out": reals(64 * count)},
            CONSTANTS | {"INTERLEAVED": together}, {"row": ("reals", WIDTH)})["out"]
        for volume, together in ((plain, 1), (cubes, CUBE))
    ]
    assert len(np.unique(read_of[0])) > count
    assert np.array_equal(*read_of)


def test_each_voxel_has_its_row():
    keep = some_voxels()
    plain = vars(volume_of(keep))
    cubes = vars(interleave(volume_of(keep), WIDTH))
    for voxel, kept in enumerate(keep.ravel()):
        start = cubes["index"][voxel]
        row = plain["rows"][32 * plain["index"][voxel] :][:WIDTH]
        assert np.array_equal(cubes["rows"][start::CUBE][:WIDTH], row)
        assert row.any() == kept == (start > 0)
    starts = cubes["index"].reshape(SHAPE)
    assert starts[2, 2, 2] // (CUBE * WIDTH) == starts[3, 3, 3] // (CUBE * WIDTH)  # of one cube


def test_a_few_voxels_lie_as_those_of_an_image_do():
    """Kernels are compiled before the rows are known, and serve those that lie interleaved."""
    assert interleave(volume_of(np.ones((1, 1, 1), bool)), WIDTH) is not None


def test_scattered_voxels_stay_one_after_the_other():
    keep = np.zeros((20, 20, 20), bool)
    keep[::2, ::2, ::2] = True
    assert interleave(volume_of(keep), WIDTH) is None
    keep[:] = True
    size = vars(interleave(volume_of(keep), WIDTH))["rows"].size
    assert size <= WASTE * vars(volume_of(keep))["rows"].size
