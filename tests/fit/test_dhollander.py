"""Responses without a T1 image: true tissues, what responses must not depend on, and MRtrix3's dwi2response."""

from __future__ import annotations

import shutil
import subprocess

import nibabel as nib
import numpy as np
import pytest
from csd_data import CROP, needs_crop
from dipy.core.gradients import gradient_table
from three_tissues import ACROSS, ALONG, GREY, S0, WATER, head

from tistreamlines.errors import DeviceError, InputError
from tistreamlines.fit import dhollander, single_fibres
from tistreamlines.fit.dhollander import TissueRules, estimate_responses
from tistreamlines.fit.iterations import iterated_axes, iterated_fa
from tistreamlines.space.harmonics import sampling_matrix, spiral

needs_mrtrix = pytest.mark.skipif(not shutil.which("dwi2response"), reason="MRtrix3 is not installed")
B0 = 50.0


@pytest.fixture(scope="module")
def scan():
    return head(32)


@pytest.fixture(scope="module")
def estimate(scan):
    return estimate_responses(scan.data, scan.gtab, scan.mask)


def reordered(gtab, order, turn=None):
    bvecs = gtab.bvecs[order] if turn is None else gtab.bvecs[order] @ turn.T
    return gradient_table(gtab.bvals[order], bvecs=bvecs, b0_threshold=gtab.b0_threshold)


def dice(a, b):
    return 2 * np.count_nonzero(a & b) / (a.sum() + b.sum())


def white_matter(bval):
    """The zonal coefficients of degrees 0 and 2 over that of b = 0, by Gauss's quadrature."""
    cosine, weight = np.polynomial.legendre.leggauss(30)
    signal = weight * np.exp(-bval * (ACROSS + (ALONG - ACROSS) * cosine**2))
    return signal.sum() / 2, np.sqrt(5) / 2 * (signal * (1.5 * cosine**2 - 0.5)).sum()


class TestTruth:
    def test_voxels_are_of_their_tissue(self, scan, estimate):
        for name, voxels in estimate.selections.items():
            assert scan.fractions[name][voxels].mean() > 0.98
            assert not (voxels & ~estimate.refined[name]).any()
        for step in (estimate.crude, estimate.refined, estimate.selections):
            assert np.sum([*step.values()], axis=0).max() == 1
        assert [*estimate.bvals] == [0, 700, 1200, 2800]

    def test_responses_are_those_of_the_tissues(self, estimate):
        """The field of the coil scales all rows of a tissue; Rician noise raises low signals."""
        b = estimate.bvals
        for name, diffusivity in (("gm", GREY), ("csf", WATER)):
            rows = estimate.responses[name][:, 0]
            assert estimate.responses[name].shape == (4, 1)
            assert rows[:3] / rows[0] == pytest.approx(np.exp(-b * diffusivity)[:3], abs=0.02)
            assert rows[0] == pytest.approx(S0[name] * np.sqrt(4 * np.pi), rel=0.3)
        rows = estimate.responses["wm"]
        for row, bval in zip(rows[1:], b[1:], strict=True):
            assert row[:2] / rows[0, 0] == pytest.approx(white_matter(bval), abs=0.02)

    def test_fa_and_axis_of_a_tensor(self, scan):
        axes = np.random.default_rng(0).normal(size=(50, 3))
        axes /= np.linalg.norm(axes, axis=1, keepdims=True)
        squares = (axes @ scan.gtab.bvecs.T) ** 2
        signals = np.exp(-scan.gtab.bvals * (ACROSS + (ALONG - ACROSS) * squares))
        fa, directions = iterated_fa(signals, scan.gtab, np.arange(50)), iterated_axes(signals, scan.gtab)
        expected = (ALONG - ACROSS) / np.sqrt(ALONG**2 + 2 * ACROSS**2)
        assert fa == pytest.approx(np.full(50, expected), rel=1e-6)
        assert np.abs(np.sum(directions * axes, axis=1)).min() > 1 - 1e-9


    def test_few_directions_are_enough(self):
        """They do not determine FODs of order 6, with which single fibres are selected."""
        scan = head(28, shells={0.0: 2, 1000.0: 20})
        estimate = estimate_responses(scan.data, scan.gtab, scan.mask)
        for name, voxels in estimate.selections.items():
            assert scan.fractions[name][voxels].mean() > 0.96
        rows = estimate.responses["wm"]
        assert rows[1, :2] / rows[0, 0] == pytest.approx(white_matter(1000), abs=0.03)


class TestParts:
    def test_upper_part_correlates_best(self):
        rng = np.random.default_rng(0)
        values, voxels = np.concatenate([rng.normal(0, 1, 300), rng.normal(4, 1.5, 80)]), np.ones(380, bool)
        voxels[::7] = False
        chosen = values[voxels]
        best = max(np.sort(chosen)[1:], key=lambda cut: np.corrcoef(chosen, chosen >= cut)[0, 1])
        assert (dhollander._upper(values, voxels) == (voxels & (values >= best))).all()
        assert not dhollander._upper(np.ones(380), voxels).any()

    @pytest.mark.parametrize("order", [2, 6])
    def test_peaks(self, order):
        """Of order 2, a peak is the greatest eigenvalue of a quadratic form."""
        rng = np.random.default_rng(1)
        count = (order + 1) * (order + 2) // 2
        functions = rng.normal(0, 0.1, (40, count)) + np.eye(count)[0]
        peaks = single_fibres._peaks(functions, None)
        directions = spiral(np.pi * (1 + np.sqrt(5)) * (np.arange(40000) + 0.5))
        samples = functions @ sampling_matrix(directions, order, "tournier07").T
        assert (peaks >= samples.max(axis=1) - 1e-9).all()
        assert peaks == pytest.approx(samples.max(axis=1), rel=1e-3)
        if order == 2:
            x, y, z = directions.T
            forms = np.linalg.lstsq(
                np.stack([x * x, y * y, z * z, 2 * x * y, 2 * x * z, 2 * y * z], axis=1), samples.T, rcond=None
            )[0]
            squares = forms[[0, 3, 4, 3, 1, 5, 4, 5, 2]].T.reshape(-1, 3, 3)
            assert peaks == pytest.approx(np.linalg.eigvalsh(squares)[:, -1], rel=1e-9)


class TestInvariance:
    def test_order_of_volumes(self, scan, estimate):
        order = np.random.default_rng(5).permutation(len(scan.gtab.bvals))
        again = estimate_responses(scan.data[..., order], reordered(scan.gtab, order), scan.mask)
        for name, response in estimate.responses.items():
            assert (again.selections[name] == estimate.selections[name]).all()
            assert again.responses[name] == pytest.approx(response, abs=1e-6 * response[0, 0])

    def test_order_of_voxels(self, scan, estimate):
        again = estimate_responses(scan.data[::-1, :, ::-1], scan.gtab, scan.mask[::-1, :, ::-1])
        for name, response in estimate.responses.items():
            assert (again.selections[name][::-1, :, ::-1] == estimate.selections[name]).all()
            assert again.responses[name] == pytest.approx(response, abs=1e-6 * response[0, 0])

    def test_frame_of_the_gradients(self, scan, estimate):
        """FODs are not negative along fixed directions, so a few other voxels of white matter rank highest.

        Their mean differs by the field of the coil.
        """
        turned = reordered(scan.gtab, np.arange(len(scan.gtab.bvals)), np.diag([-1.0, 1, -1]))
        again = estimate_responses(scan.data, turned, scan.mask)
        for name, response in estimate.responses.items():
            assert again.responses[name] == pytest.approx(response, abs=0.04 * response[0, 0])
        assert (again.refined["wm"] == estimate.refined["wm"]).all()

    def test_threads_and_progress(self, scan, estimate):
        shares = []
        again = estimate_responses(scan.data, scan.gtab, scan.mask, threads=1, progress=shares.append)
        for name, response in estimate.responses.items():
            assert again.responses[name].tobytes() == response.tobytes()
        assert shares == sorted(shares)
        assert shares[-1] == 1

    def test_scale_of_the_signal(self, scan, estimate):
        again = estimate_responses(4 * scan.data, scan.gtab, scan.mask)
        for name, response in estimate.responses.items():
            assert (again.selections[name] == estimate.selections[name]).all()
            assert again.responses[name] == pytest.approx(4 * response, rel=1e-5)

    def test_a_little_noise_changes_little(self, scan, estimate):
        """It moves voxels over medians and thresholds of the method, but the mean of a tissue hangs little on these."""
        noise = np.random.default_rng(6).normal(0, 1e-3 * scan.data[scan.mask].mean(), scan.data.shape)
        again = estimate_responses((scan.data + noise).astype(np.float32), scan.gtab, scan.mask)
        for name, response in estimate.responses.items():
            assert again.responses[name] == pytest.approx(response, abs=0.03 * response[0, 0])


class TestErrors:
    @pytest.mark.filterwarnings("ignore:the response of")
    def test_one_line_each(self, scan):
        small = np.zeros_like(scan.mask)
        small[14:18, 14:18, 14:18] = True
        weighted = np.flatnonzero(scan.gtab.bvals > 0)
        flat = np.ones_like(scan.data)
        for arguments, words in (
            ((scan.data, scan.gtab, 0 * scan.mask > 0), "the mask has no voxel"),
            ((scan.data, scan.gtab, small), "nothing of the mask's 64 voxels is left after 3 erosions"),
            ((scan.data[..., weighted], reordered(scan.gtab, weighted), scan.mask), "no volume has a b-value up to 10"),
            ((scan.data[:-1], scan.gtab, scan.mask), "mask is"),
            ((flat, scan.gtab, scan.mask), "falls with the b-value in no voxel"),
            ((scan.data * np.nan, scan.gtab, scan.mask), "falls with the b-value in no voxel"),
            ((scan.data, scan.gtab, scan.mask, TissueRules(fa=1.0)), "no voxel of the eroded mask is white matter"),
            ((scan.data, scan.gtab, scan.mask, TissueRules(fa=0.0)), "all voxels of the eroded mask are white matter"),
        ):
            with pytest.raises(InputError, match=words) as error:
                estimate_responses(*arguments)
            assert "\n" not in str(error.value)

    def test_voxels_without_signal_take_no_part(self, scan, estimate):
        holes = scan.data.copy()
        holes[16, 16, 10], holes[16, 15, 10, 5] = 0, np.nan
        again = estimate_responses(holes, scan.gtab, scan.mask)
        assert estimate.crude["wm"][16, 15:17, 10].all()
        assert not again.crude["wm"][16, 15:17, 10].any()
        for name, response in estimate.responses.items():
            assert again.responses[name] == pytest.approx(response, abs=0.03 * response[0, 0])

    def test_single_fibres_are_fitted_on_the_device(self, scan):
        """Which is missing here, or lacks numbers of 64 bits."""
        with pytest.raises(DeviceError, match="metal"):
            estimate_responses(scan.data, scan.gtab, scan.mask, arch="metal")

    def test_few_voxels_are_told(self, scan):
        with pytest.warns(UserWarning, match=r"the response of wm is that of 1 of \d+ voxels"):
            estimate_responses(scan.data, scan.gtab, scan.mask, TissueRules(wm=1e-3))


@needs_mrtrix
class TestMrtrix:
    def test_phantom(self, scan, tmp_path):
        affine = np.diag([-2.0, 2, 2, 1])  # with which FSL's directions are those of the image's axes
        scanner = reordered(scan.gtab, np.arange(len(scan.gtab.bvals)), np.diag([-1.0, 1, 1]))  # MRtrix3's frame
        estimate = estimate_responses(scan.data, scanner, scan.mask)
        nib.save(nib.Nifti1Image(scan.data, affine), tmp_path / "dwi.nii")
        nib.save(nib.Nifti1Image(scan.mask.astype(np.uint8), affine), tmp_path / "mask.nii")
        np.savetxt(tmp_path / "bvecs", scan.gtab.bvecs.T)
        np.savetxt(tmp_path / "bvals", scan.gtab.bvals[None])
        self.compare(estimate, tmp_path, ["dwi.nii", "-mask", "mask.nii", "-fslgrad", "bvecs", "bvals"])

    @needs_crop
    @pytest.mark.filterwarnings("ignore:the response of gm")
    @pytest.mark.nightly
    @pytest.mark.parametrize("part", [5, 1])
    def test_brain(self, tmp_path, part):
        """Also with 12 directions, which do not determine the FODs that select single fibres. The phantom is by day."""
        image, volumes = nib.load(CROP / "dwi.nii.gz"), slice(part - 1, None, part)
        data, mask = np.asarray(image.dataobj)[..., volumes], np.asarray(nib.load(CROP / "mask.nii.gz").dataobj) > 0
        bvals, bvecs = np.loadtxt(CROP / "dwi.bval")[volumes], np.loadtxt(CROP / "dwi.bvec").T[volumes]
        axes = image.affine[:3, :3] / np.linalg.norm(image.affine[:3, :3], axis=0)
        gtab = gradient_table(bvals, bvecs=bvecs * [-1, 1, 1] @ axes.T, b0_threshold=B0)  # in the scanner's frame
        estimate = estimate_responses(data, gtab, mask)
        nib.save(nib.Nifti1Image(data, image.affine), tmp_path / "dwi.nii")
        np.savetxt(tmp_path / "grad.b", np.column_stack([gtab.bvecs, bvals]))
        self.compare(estimate, tmp_path, ["dwi.nii", "-mask", str(CROP / "mask.nii.gz"), "-grad", "grad.b"])

    def compare(self, estimate, folder, series):
        """Degrees 0 and 2 within 1 %, and nearly the same voxels."""
        command = ["dwi2response", "dhollander", *series, "wm.txt", "gm.txt", "csf.txt", "-voxels", "voxels.nii"]
        subprocess.run([*command, "-quiet", "-nthreads", "2"], cwd=folder, check=True)
        chosen = np.asarray(nib.load(folder / "voxels.nii").dataobj) > 0
        for number, name in enumerate(("csf", "gm", "wm")):
            expected = np.loadtxt(folder / f"{name}.txt", ndmin=2)
            response = estimate.responses[name]
            assert response[:, :2] == pytest.approx(expected[:, :2], rel=0.01)
            assert response == pytest.approx(expected, abs=0.01 * expected[0, 0])
            assert dice(estimate.selections[name], chosen[..., number]) >= 0.95
