"""Normalisation of tissues: known fields and factors come back, and MRtrix3's mtnormalise computes the same."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from three_tissues import head

from tistreamlines.errors import InputError
from tistreamlines.fit import normalise as module
from tistreamlines.fit.normalise import REFERENCE, normalise_tissues

needs_mrtrix = pytest.mark.skipif(not shutil.which("mtnormalise"), reason="MRtrix3 is not installed")
OBLIQUE = np.array([[1.9, -0.6, 0, -41], [0.6, 1.9, 0.1, 12], [0, -0.1, 2, -7], [0, 0, 0, 1]])
CONVERGED = 1e-3  # what the 15 rounds leave
FACTORS = {"wm": 1.3, "gm": 0.8, "csf": 1 / (1.3 * 0.8)}


@pytest.fixture(scope="module")
def scene():
    """Tissues with a cubic field and factors, but no noise: tissues, mask, field."""
    scan = head(16)
    mask, positions = scan.mask & (sum(scan.fractions.values()) > 0.99), np.indices(scan.mask.shape)
    x, y, z = np.einsum("ij,j...->i...", OBLIQUE[:3, :3], positions) / 30
    field = np.exp(0.3 + 0.2 * x - 0.1 * y * z + 0.05 * x**3).astype(np.float64)
    return {
        name: REFERENCE * values * field / FACTORS[name] for name, values in scan.fractions.items()
    }, mask, field


class TestTruth:
    def test_field_and_factors_come_back(self, scene):
        tissues, mask, field = scene
        fit = normalise_tissues(tissues, mask)
        assert fit.factors == pytest.approx(FACTORS, rel=CONVERGED)
        assert np.abs(fit.field / field - 1).max() < CONVERGED  # outside the mask, too
        assert fit.scale == pytest.approx(np.exp(np.log(field[mask]).mean()), rel=CONVERGED)
        assert (fit.fitted == mask).all()
        total = sum(fit.apply(values, name, balanced=True) for name, values in tissues.items())
        assert np.abs(total[mask] - REFERENCE).max() < CONVERGED

    def test_order_0_is_the_geometric_mean(self, scene):
        tissues, mask, _ = scene
        fit = normalise_tissues({"wm": tissues["wm"] + 0.1}, mask, order=0)
        expected = np.exp(np.log((tissues["wm"] + 0.1)[fit.fitted] / REFERENCE).mean())
        assert fit.factors == {"wm": 1.0}
        assert np.abs(fit.field / expected - 1).max() < 1e-6

    def test_outliers_change_nothing(self, scene):
        tissues, mask, field = scene
        bright = {name: values.copy() for name, values in tissues.items()}
        bright["csf"][8, 8, 6:9] *= 40
        fit = normalise_tissues(bright, mask)
        assert not fit.fitted[8, 8, 6:9].any()
        assert np.abs(fit.field / field - 1).max() < CONVERGED

    def test_voxels_that_are_not_finite_take_no_part(self, scene):
        tissues, mask, field = scene
        holes = {name: values.copy() for name, values in tissues.items()}
        holes["wm"][8, 8, 4], holes["gm"][8, 4, 8] = np.nan, np.inf
        with pytest.warns(UserWarning, match=r"^2 of \d+ voxels of the mask are not finite"):
            fit = normalise_tissues(holes, mask)
        assert np.abs(fit.field / field - 1).max() < CONVERGED

    def test_threads_change_no_bit(self, scene, monkeypatch):
        tissues, mask, _ = scene
        rng = np.random.default_rng(2)
        noisy = {name: values + 0.02 * rng.random(values.shape) for name, values in tissues.items()}
        monkeypatch.setattr(module, "BLOCK", 100)
        fits = [normalise_tissues(noisy, mask, threads=threads) for threads in (1, 3)]
        assert mask.sum() > 1000
        for fit in fits[1:]:
            assert (fit.field == fits[0].field).all()
            assert (fit.fitted == fits[0].fitted).all()
            assert (fit.factors, fit.scale) == (fits[0].factors, fits[0].scale)


class TestQuartiles:
    """They are those of all voxels, though only the voxels near them are sorted."""

    @pytest.mark.parametrize("kind", ["like the sample", "unlike the sample", "a quarter is empty", "equal", "few"])
    def test_ranks(self, kind):
        total = np.exp(np.random.default_rng(0).normal(size=7 if kind == "few" else 20000))
        if kind == "unlike the sample":
            total[:: module.SAMPLED] *= 1e9
        elif kind == "a quarter is empty":
            total[::3] = 0
        elif kind == "equal":
            total[:] = 2
        mask = np.ones((1, 1, len(total)), bool)
        fit = module._Fit(total[None], module._Polynomials(mask, 0), mask, ["wm"], None)
        with np.errstate(divide="ignore"):
            ranked = np.sort(np.log(total))
        assert fit._quartiles(np.ones(1)) == [ranked[int(share * len(total) + 0.5)] for share in (0.25, 0.75)]


class TestErrors:
    def test_one_line_each(self, scene):
        tissues, mask, _ = scene
        few = np.zeros_like(mask)
        few[7:9, 7:12, 10] = True
        share = np.random.default_rng(0).uniform(size=mask.shape)
        opposite = {"wm": 1 + share, "gm": 2 * share}  # the first less half of the second is 1
        for arguments, words in (
            ((tissues | {"gm": 0 * tissues["gm"]}, mask), "gm is 0 in the whole mask"),
            (({"wm": tissues["wm"] + 1}, few), r"\d+ voxels of the mask have tissue"),
            (({"wm": tissues["wm"] + 1}, few, 4), "order of the field is 4"),
            (({"wm": tissues["wm"][:-1]}, mask), "images of the same grid"),
            (({}, mask), "no tissue"),
            (({"wm": tissues["wm"]}, np.zeros_like(mask)), "no voxel"),
            (({"wm": tissues["wm"]}, mask.astype(int)), "the mask is of int64"),
            ((opposite, mask), "balance factor of gm is -"),
        ):
            with pytest.raises(InputError, match=words) as error:
                normalise_tissues(*arguments)
            assert "\n" not in str(error.value)

    @pytest.mark.filterwarnings("ignore:.*not finite")
    def test_nothing_finite(self, scene):
        tissues, mask, _ = scene
        with pytest.raises(InputError, match="wm is 0"):
            normalise_tissues({"wm": tissues["wm"] * np.nan}, mask)


@needs_mrtrix
class TestMrtrix:
    @pytest.mark.parametrize("order", [0, 1, 2, 3])
    def test_same_as_mtnormalise(self, tmp_path, order):
        """The bound is that of MRtrix3's own test, which is absolute; factors are printed with six digits."""
        scan, rng = head(16), np.random.default_rng(0)
        images = {"wm": rng.normal(0, 0.02, (*scan.mask.shape, 6)), "gm": 0.0, "csf": 0.0}
        images["wm"][..., 0] += 0.3 * scan.fractions["wm"]
        for name in ("gm", "csf"):
            images[name] = 0.25 * scan.fractions[name] + rng.normal(0, 0.02, scan.mask.shape)
        fit = normalise_tissues(
            {name: values[..., 0] if values.ndim == 4 else values for name, values in images.items()}, scan.mask,
            order,
        )
        for name, values in (images | {"mask": scan.mask}).items():
            nib.save(nib.Nifti1Image(values.astype(np.float32), OBLIQUE), tmp_path / f"{name}.nii")
        pairs = [word for name in images for word in (f"{name}.nii", f"{name}_normal.mif")]
        outputs = "-check_norm field.nii -check_factors factors.txt -balanced -quiet"
        run(["mtnormalise", *pairs, "-mask", "mask.nii", "-order", str(order), *outputs.split()], tmp_path)
        field = np.asarray(nib.load(tmp_path / "field.nii").dataobj)
        assert np.abs(fit.field / field - 1).max() < 1e-5
        assert [*fit.factors.values()] == pytest.approx(np.loadtxt(tmp_path / "factors.txt"), abs=1e-5)
        scale = run(["mrinfo", "wm_normal.mif", "-property", "lognorm_scale"], tmp_path)
        assert fit.scale == pytest.approx(float(scale), rel=1e-5)
        for name, values in images.items():
            run(["mrconvert", f"{name}_normal.mif", f"{name}_normal.nii", "-quiet"], tmp_path)
            expected = np.asarray(nib.load(tmp_path / f"{name}_normal.nii").dataobj)
            assert np.abs(fit.apply(values, name, balanced=True) - expected).max() < 1e-5

    def test_it_refuses_what_mtnormalise_refuses(self, tmp_path):
        scan = head(16)
        images = scan.fractions | {"csf": 0.4 - 0.1 * scan.fractions["wm"]}
        for name, values in (images | {"mask": scan.mask}).items():
            nib.save(nib.Nifti1Image(values.astype(np.float32), OBLIQUE), tmp_path / f"{name}.nii")
        images["gm"] = 0 * images["gm"]
        nib.save(nib.Nifti1Image(images["gm"].astype(np.float32), OBLIQUE), tmp_path / "gm.nii")
        pairs = [word for name in images for word in (f"{name}.nii", f"{name}_normal.mif")]
        with pytest.raises(subprocess.CalledProcessError):
            run(["mtnormalise", *pairs, "-mask", "mask.nii", "-quiet"], tmp_path)
        with pytest.raises(InputError):
            normalise_tissues(images, scan.mask)


def run(command: list[str], folder: Path) -> str:
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout
