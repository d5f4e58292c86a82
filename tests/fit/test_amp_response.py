"""Responses from signals and axes: those of known tensors, what the constraints do, and MRtrix3's amp2response."""

from __future__ import annotations

import shutil
import subprocess

import nibabel as nib
import numpy as np
import pytest
from dipy.core.gradients import gradient_table
from scipy.special import eval_legendre

from tistreamlines.errors import InputError
from tistreamlines.fit.amp_response import amp2response
from tistreamlines.space.harmonics import spiral, zonal_harmonics, zonal_slopes

needs_mrtrix = pytest.mark.skipif(not shutil.which("amp2response"), reason="MRtrix3 is not installed")
ALONG, ACROSS, S0 = 1.7e-3, 0.3e-3, 900.0


@pytest.fixture(scope="module")
def gtab():
    """Shells of 2, 40 and 60 volumes in a random order."""
    bvals = np.repeat([0.0, 1000.0, 2500.0], [2, 40, 60])
    turn = np.pi * (1 + np.sqrt(5)) * (np.arange(60) + 0.5)
    bvecs = np.concatenate([np.zeros((2, 3)), spiral(turn[:40]), spiral(turn)])
    order = np.random.default_rng(0).permutation(len(bvals))
    return gradient_table(bvals[order], bvecs=bvecs[order])


@pytest.fixture(scope="module")
def axes():
    drawn = np.random.default_rng(1).normal(size=(70, 3))
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


def signals_of(gtab, axes, noise=0.0):
    squares = (axes @ gtab.bvecs.T) ** 2
    clean = S0 * np.exp(-gtab.bvals * (ACROSS + (ALONG - ACROSS) * squares))
    return clean + np.random.default_rng(2).normal(0, noise, clean.shape) if noise else clean


def zonal_of_tensor(b):
    """Zonal coefficients of the degrees 0 to 10 of the signal, by Gauss's quadrature."""
    cosine, weight = np.polynomial.legendre.leggauss(40)
    signal = S0 * np.exp(-b * (ACROSS + (ALONG - ACROSS) * cosine**2))
    return [
        2 * np.pi * (weight * signal) @ (np.sqrt((2 * n + 1) / (4 * np.pi)) * eval_legendre(n, cosine))
        for n in range(0, 11, 2)
    ]


class TestTruth:
    def test_response_of_a_tensor(self, gtab, axes):
        response = amp2response(signals_of(gtab, axes), axes, gtab)
        assert response.shape == (3, 6)
        assert response[0] == pytest.approx([S0 * np.sqrt(4 * np.pi), 0, 0, 0, 0, 0])
        for row, b in zip(response[1:], (1000, 2500), strict=True):
            assert row == pytest.approx(zonal_of_tensor(b), abs=2e-4 * row[0])

    def test_lengths_and_signs_of_axes_do_not_matter(self, gtab, axes):
        signals = signals_of(gtab, axes, 20)
        scales = np.random.default_rng(3).choice([-2.5, 0.1], (len(axes), 1))
        assert amp2response(signals, scales * axes, gtab) == pytest.approx(amp2response(signals, axes, gtab), rel=1e-9)

    def test_orders(self, gtab, axes):
        response = amp2response(signals_of(gtab, axes), axes, gtab, [0, 4, 8])
        assert response.shape == (3, 5)
        assert not response[1, 3:].any()
        assert response[2].all()

    def test_isotropic_needs_no_axes(self, gtab, axes):
        signals = signals_of(gtab, axes, 20)
        response = amp2response(signals, 0 * axes, gtab, [0, 0, 0])
        means = [signals[:, gtab.bvals == b].mean() for b in (0, 1000, 2500)]
        assert response[:, 0] == pytest.approx(np.array(means) * np.sqrt(4 * np.pi))

    def test_slopes_are_derivatives(self):
        angles, step = np.radians([3.0, 40.0, 77.0]), 1e-6
        ends = [zonal_harmonics(np.cos(angles + sign * step), 6) for sign in (1, -1)]
        assert zonal_slopes(angles, 6) == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=1e-7)


class TestConstraints:
    def test_signal_never_falls_from_the_axis_and_is_never_negative(self, gtab, axes):
        response = amp2response(signals_of(gtab, axes, 400), axes, gtab)
        profile = zonal_harmonics(np.cos(np.radians(np.arange(91))), 6) @ response[1:].T
        assert profile.min() > -1e-6
        assert np.diff(profile, axis=0).min() > -1e-6 * profile.max()

    def test_signal_that_falls_from_the_axis_becomes_its_mean(self, gtab, axes):
        """No increasing function is nearer to a decreasing one than the mean is."""
        signals = signals_of(gtab, axes)
        response = amp2response(S0 - signals, axes, gtab, [0, 10, 10])
        for row, b in zip(response[1:], (1000, 2500), strict=True):
            mean = (S0 - signals)[:, gtab.bvals == b].mean()
            assert row == pytest.approx([mean * np.sqrt(4 * np.pi), 0, 0, 0, 0, 0], abs=1e-6 * mean)

    def test_negative_signals_become_zero(self, gtab, axes):
        assert amp2response(-signals_of(gtab, axes), axes, gtab)[1:] == pytest.approx(np.zeros((2, 6)), abs=1e-6)


def test_errors_of_one_line(gtab, axes):
    signals = signals_of(gtab, axes)
    for arguments, words in (
        ((signals[:, 1:], axes, gtab), "give each voxel a row"),
        ((signals[:0], axes[:0], gtab), "no voxel"),
        ((signals * np.nan, axes, gtab), "not finite"),
        ((signals, 0 * axes, gtab), "an axis is 0"),
        ((signals, axes, gtab, [0, 8]), "2 orders are not those of 3 shells"),
        ((signals, axes, gtab, [0, 8, 7]), "order of a response is 7"),
        ((signals, axes, gtab, [2, 8, 8]), "b = 0 have no directions"),
        ((signals[:1], axes[:1], gtab, [0, 10, 140]), "do not determine a response of order 140"),
    ):
        with pytest.raises(InputError, match=words) as error:
            amp2response(*arguments)
        assert "\n" not in str(error.value)


@needs_mrtrix
@pytest.mark.parametrize("noise", [0.0, 60.0, 400.0])
def test_same_as_mrtrix(gtab, axes, noise, tmp_path):
    signals = signals_of(gtab, axes, noise).astype(np.float32)
    affine = np.diag([-2.0, 2, 2, 1])  # with which FSL's directions are those of the image's axes
    for name, values in (("dwi", signals), ("axes", axes), ("mask", np.ones(len(axes)))):
        image = values.reshape(len(axes), 1, 1, *values.shape[1:]).astype(np.float32)
        nib.save(nib.Nifti1Image(image, affine), tmp_path / f"{name}.nii")
    turned = axes * [-1, 1, 1]  # to scanner coordinates
    nib.save(nib.Nifti1Image(turned[:, None, None].astype(np.float32), affine), tmp_path / "axes.nii")
    np.savetxt(tmp_path / "bvecs", gtab.bvecs.T)
    np.savetxt(tmp_path / "bvals", gtab.bvals[None])
    command = "mrconvert dwi.nii dwi.mif -fslgrad bvecs bvals -quiet"
    subprocess.run(command.split(), cwd=tmp_path, check=True)
    command = "amp2response dwi.mif mask.nii axes.nii response.txt -quiet"
    subprocess.run(command.split(), cwd=tmp_path, check=True)
    expected = np.loadtxt(tmp_path / "response.txt")
    response = amp2response(signals, axes.astype(np.float32), gtab)
    assert np.abs(response - expected).max() < 1e-5 * expected.max()
