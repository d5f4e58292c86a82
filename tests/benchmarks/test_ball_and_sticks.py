"""Samples drawn from signals of known fibres, written, and read again."""

from argparse import Namespace

import numpy as np
import pytest
from ball_and_sticks import degrees, draw, dyads, write
from dipy.core.gradients import gradient_table
from dipy.sims.voxel import sticks_and_ball
from sample_files import POSITIVE, mirrored

from tistreamlines.io.nifti import Dwi
from tistreamlines.io.samples import load_samples, sample_files
from tistreamlines.phantom.phantom import spread_directions
from tistreamlines.space.batch import Space

SHAPE = (3, 2, 2)


AFFINES = [POSITIVE, mirrored(POSITIVE, SHAPE[0])]


def test_files_hold_the_samples(tmp_path):
    """Directions and fractions come back, of images of either handedness."""
    mask, rng = np.ones(SHAPE, bool), np.random.default_rng(0)
    samples = rng.normal(size=(mask.sum(), 5, 2, 4)).astype(np.float32)
    samples[..., :3] /= np.linalg.norm(samples[..., :3], axis=-1, keepdims=True)
    samples[..., 3] = rng.uniform(0.1, 0.5, samples.shape[:3])
    for number, affine in enumerate(AFFINES):
        folder = tmp_path / str(number)
        write(folder, samples, mask, Space(affine, SHAPE))
        assert np.allclose(load_samples(sample_files(folder)).values, samples, atol=1e-6)


@pytest.mark.nightly
@pytest.mark.parametrize("affine", AFFINES, ids=["positive", "negative"])
def test_known_fibres(tmp_path, affine):
    """Of two sticks of 55 % and 30 %, directions and fractions come back in scanner space.

    Nightly, since the chains are compiled anew in each process.
    """
    space = Space(affine, SHAPE)
    axes = np.array([[0.8, 0.6, 0], [-0.3, 0.5, 0.81]])
    axes /= np.linalg.norm(axes, axis=1, keepdims=True)  # scanner space
    turned = axes @ space.axes
    bvecs = np.concatenate([np.zeros((4, 3)), spread_directions(60)])
    gtab = gradient_table(np.repeat([0, 1500], [4, 60]), bvecs=bvecs)
    sticks = [angles(v) for v in turned]
    signal, _ = sticks_and_ball(gtab, d=0.0015, S0=100, angles=sticks, fractions=[55, 30], snr=None)
    noise = np.random.default_rng(0).normal(size=(*SHAPE, len(signal)))
    dwi = Dwi((signal + noise).astype(np.float32), space, gtab, tmp_path)
    mask = np.ones(SHAPE, bool)
    drawn, _ = draw(dwi, mask, Namespace(fibres=2, samples=20, burn=200, every=5))
    write(tmp_path, drawn, mask, space)
    samples = load_samples(sample_files(tmp_path))
    assert np.allclose(samples.values, drawn, atol=1e-6)
    assert np.median(degrees(dyads(samples.values) @ space.axes.T, axes), axis=0).max() < 3
    assert np.allclose(np.median(samples.values[..., 3], axis=(0, 1)), [0.55, 0.3], atol=0.03)


def angles(v):
    """Polar angle and azimuth, as DIPY's simulation takes them, degrees."""
    return np.degrees([np.arccos(v[2]), np.arctan2(v[1], v[0])])
