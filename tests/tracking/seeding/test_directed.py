"""Initial directions near given ones, where the steps of a getter go in any direction."""

import numpy as np
import pytest
from distributions import unit
from peak_kernels import directions_of
from scipy.stats import kstest

import tistreamlines as ts
from tistreamlines.space.harmonics import sampling_matrix
from tistreamlines.tracking.seeding.directed import initial_codes

SHAPE = (9, 8, 7)


def begun(dg, sh, directions, **options):
    """Initial directions, along the voxel axes, at a seed with each of these, and which seeds have one."""
    stream = ts.stream(
        sh=sh, sh_basis="descoteaux07", affine=np.eye(4), stop_mask=np.ones(SHAPE), stopping="binary", dg=dg,
        arch="cpu", seeds=np.hstack([np.tile([4.2, 3.6, 3.3], (len(directions), 1)), directions]), **options,
    )
    run = stream.gi_frame.f_locals["run"]
    points, along = run.plan.seeds.points(0, len(directions)).astype(np.float32), run.plan.seeds.directions(0, 9999)
    growth = run.engine.growth
    chunk = growth.finish(growth.start(points, 0, initial_codes(along, points, run.plan.prepared)).wait())
    initial = np.zeros_like(directions)
    slots = growth.fetch(growth.values["halves_initial"], len(chunk.seed))[chunk.number]
    assert not (slots & 1).any()
    initial[chunk.seed] = directions_of(slots >> 1)
    return initial, np.isin(np.arange(len(directions)), chunk.seed)


@pytest.mark.parametrize("dg", ["ifod1", "ifod2"])
def test_ifod_begins_in_a_cone_around_them(dg):
    """Uniformly, where the FOD is alike in all directions; and where it is not, where it is above the threshold."""
    flat = np.zeros((*SHAPE, 15), np.float32)
    flat[..., 0] = 1
    aims = unit(np.random.default_rng(3).normal(size=(3000, 3)))
    begun_along, seen = begun(dg, flat, aims, max_angle=40.0)
    assert seen.all()
    cosines = (begun_along * aims).sum(axis=1)
    assert kstest((1 - cosines) / (1 - np.cos(np.radians(40))), "uniform").pvalue > 1e-3
    across = unit(np.cross(aims, [0.3, 0.5, 0.8]))
    other = np.cross(aims, across)
    turns = np.arctan2((begun_along * other).sum(axis=1), (begun_along * across).sum(axis=1)) / (2 * np.pi) + 0.5
    assert kstest(turns, "uniform").pvalue > 1e-3
    lobe = flat + 0
    lobe[..., 3] = 2.0  # along z, the axis of the coefficients
    begun_along, seen = begun(dg, lobe, aims, max_angle=20.0, cutoff=0.5)
    assert 0.3 < seen.mean() < 0.9
    assert (sampling_matrix(begun_along[seen], 4, "descoteaux07") @ lobe[0, 0, 0] > 0.5 - 1e-3).all()


def test_sd_stream_climbs_from_them():
    lobe = np.zeros((*SHAPE, 15), np.float32)
    lobe[..., 0], lobe[..., 3] = 1, 2.0
    aims = unit(np.random.default_rng(3).normal([0, 0, 0.5], size=(300, 3)))
    begun_along, seen = begun("sd_stream", lobe, aims)
    assert seen.mean() > 0.9
    np.testing.assert_allclose(begun_along[seen], np.sign(aims[seen, 2:]) * [[0, 0, 1]], atol=2e-2)
