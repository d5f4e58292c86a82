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


@pytest.mark.parametrize("affine", [POSITIVE, mirrored(POSITIVE, SHAPE[0])], ids=["positive", "negative"])
def test_known_fibres(tmp_path, affine):
    """Of two sticks of 55 % and 30 %, directions and fractions come back in scanner space."""
    space = Space(affine, SHAPE)
    axes = np.array([[0.8, 0.6, 0], [-0.3, 0.5, 0.81]])
    axes /= np.linalg.norm(axes, axis=1, keepdims=True)  # scanner space
    own = axes @ space.axes
    bvecs = np.concatenate([np.zeros((4, 3)), spread_directions(60)])
    gtab = gradient_table(np.repeat([0, 1500], [4, 60]), bvecs=bvecs)
    signal, _ = sticks_and_ball(gtab, d=0.0015, S0=100, angles=[angles(v) for v in own], fractions=[55, 30], snr=None)
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
