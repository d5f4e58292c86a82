"""Peaks, regions and several devices in DIPY's functions: peaks beside DIPY's own, the others beside one device."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import dipy.tracking.tracker as theirs
import numpy as np
import pytest
from dipy.core.gradients import gradient_table
from dipy.data import default_sphere, get_sphere
from dipy.direction import peaks_from_model
from dipy.reconst.shm import CsaOdfModel
from dipy.tracking.utils import density_map

import tistreamlines as ts
from tistreamlines import dipy as ours
from tistreamlines.devices import choose
from tistreamlines.dipy import growing

pytestmark = pytest.mark.filterwarnings("ignore:The legacy:PendingDeprecationWarning")
AFFINE = np.diag([5.0, 5.0, 5.0, 1.0])
AFFINE[:3, 3] = [-7, 11, 20]


class Scene:
    """The peaks of the phantom's white matter, seeds in it, and where streamlines end."""

    def __init__(self, phantom: Any, sphere: Any) -> None:
        model = CsaOdfModel(gradient_table(phantom.bvals, bvecs=phantom.bvecs), sh_order_max=4)
        self.white = np.minimum(np.sum([bundle.membership for bundle in phantom.bundles], axis=0), 1.0) * phantom.mask
        self.pam = peaks_from_model(
            model, phantom.data, sphere, relative_peak_threshold=0.5, min_separation_angle=25, mask=self.white > 0.1,
            npeaks=3, sh_order_max=4, return_sh=True,
        )
        self.mask, self.sphere = phantom.mask, sphere
        rng, voxels = np.random.default_rng(4), np.argwhere(self.white > 0.5)
        self.seeds = (voxels[rng.integers(len(voxels), size=2000)] + rng.uniform(-0.4, 0.4, (2000, 3))) * 5
        self.seeds += AFFINE[:3, 3]
        self.sc = ours.ThresholdStoppingCriterion(self.white, 0.4)

    def lines(self, name: str, module: Any = ours, **options: Any) -> list[Any]:
        """All streamlines of a function that have a step."""
        options = {"pam": self.pam, "sphere": self.sphere, "step_size": 2.0, "random_seed": 1_000_007} | options
        options |= {"arch": "cpu"} if module is ours else {}
        sc = options.pop("sc", self.sc)
        return [line for line in getattr(module, name)(self.seeds, sc, AFFINE, **options) if len(line) > 1]

    def density(self, lines: list[Any]) -> np.ndarray:
        """How many streamlines pass through each voxel."""
        return density_map(lines, AFFINE, self.white.shape).ravel()


@pytest.fixture(scope="module")
def scene(head):
    return Scene(head.phantom, default_sphere)


def mean_mm(lines):
    assert len(lines) > 500
    return np.mean([2.0 * (len(line) - 1) for line in lines])


class TestPeaks:
    @pytest.mark.parametrize("sphere", ["default", "repulsion724"])
    def test_deterministic_streamlines_are_dipys(self, scene, head, sphere):
        """On a whole sphere a streamline may begin with either of two opposite vertices, and so be turned round."""
        here = scene if sphere == "default" else Scene(head.phantom, get_sphere(name=sphere))
        lines, dipys = (here.lines("deterministic_tracking", module, max_angle=35) for module in (ours, theirs))
        assert len(lines) == len(dipys) > 0.75 * len(here.seeds)
        pairs = list(zip(lines, dipys, strict=True))
        close = [len(a) == len(b) and any(np.allclose(a, c, atol=2e-3) for c in (b, b[::-1])) for a, b in pairs]
        assert np.mean(close) > 0.97

    def test_probabilistic_streamlines_agree(self, scene):
        """Lengths within 2 %, and the density as near to DIPY's as a second run of DIPY is."""
        lines, dipys, again = (
            scene.lines("probabilistic_tracking", module, max_angle=35, random_seed=seed)
            for module, seed in ((ours, 1_000_007), (theirs, 1_000_007), (theirs, 1_000_009))
        )
        assert len(lines) == pytest.approx(len(dipys), rel=0.02)
        assert mean_mm(lines) == pytest.approx(mean_mm(dipys), rel=0.02)
        density, theirs_first, theirs_second = map(scene.density, (lines, dipys, again))
        likeness = np.corrcoef(theirs_first, theirs_second)[0, 1]
        assert np.corrcoef(density, theirs_first)[0, 1] > likeness - 0.01

    def test_eudx_is_near_to_dipys(self, scene):
        """Numbers within 3 %, mean lengths within 8 %, and a density that correlates by more than 0.95."""
        lines, dipys = (scene.lines("eudx_tracking", module) for module in (ours, theirs))
        assert len(lines) == pytest.approx(len(dipys), rel=0.03)
        assert mean_mm(lines) == pytest.approx(mean_mm(dipys), rel=0.08)
        assert np.corrcoef(scene.density(lines), scene.density(dipys))[0, 1] > 0.95

    def test_eudx_follows_as_many_peaks_as_are_asked_for(self, scene):
        few, all_peaks = (scene.lines("eudx_tracking", max_cross=most) for most in (1, None))
        assert 500 < len(few) < len(all_peaks)
        assert len(scene.lines("eudx_tracking", pmf_threshold=0.99)) == 0

    def test_particles_follow_the_coefficients_of_peaks(self, scene):
        rest, left = scene.mask - scene.white, np.arange(len(scene.white))[:, None, None] < len(scene.white) // 2
        sc = ours.ActStoppingCriterion.from_pve(scene.white, rest * left, rest * ~left)
        of_peaks = scene.lines("pft_tracking", sc=sc)
        of_coefficients = scene.lines("pft_tracking", sc=sc, pam=None, sh=scene.pam.shm_coeff)
        assert len(of_peaks) == len(of_coefficients) > 500
        assert all(map(np.array_equal, of_peaks, of_coefficients))

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"sf": 1}, "^sf and pam given"),
            ({"pam": 3}, "^pam is a int: give DIPY's PeaksAndMetrics"),
            ({"sphere": get_sphere(name="repulsion724")}, "^sphere has 724 vertices, but the peaks of pam .* of 362"),
        ],
    )
    def test_what_cannot_be_followed_is_refused(self, scene, options, words):
        with pytest.raises(ts.ParameterError, match=words):
            scene.lines("deterministic_tracking", **options)
        with pytest.raises(ts.ParameterError, match="pam is missing"):
            scene.lines("eudx_tracking", pam=None)
        bare = SimpleNamespace(peak_indices=np.zeros((2, 2, 2, 1)), peak_values=np.zeros((2, 2, 2, 1)))
        with pytest.raises(ts.ParameterError, match="pam has no sphere"):
            scene.lines("deterministic_tracking", pam=bare, sphere=None)
        with pytest.raises(ts.ParameterError, match="pam has no shm_coeff"):
            scene.lines("pft_tracking", pam=bare)


class TestRegions:
    def test_regions_keep_the_streamlines_that_visit_them(self, scene):
        everything = scene.lines("deterministic_tracking", max_angle=35)
        upper = np.zeros(scene.white.shape, bool)
        upper[:, :, 16:] = True
        centre = (np.array(upper.shape) / 2) @ AFFINE[:3, :3] + AFFINE[:3, 3]

        def in_upper(points):
            voxels = np.round((points - AFFINE[:3, 3]) / 5).astype(int)
            return upper[tuple(voxels.T)]

        def in_ball(points):
            return np.linalg.norm(points - centre, axis=1) <= 30

        for regions, kept in (
            ({"include": upper}, lambda line: in_upper(line).any()),
            ({"include": [upper, ts.Sphere(centre, 30)]}, lambda line: in_upper(line).any() and in_ball(line).any()),
            ({"exclude": ts.Sphere(centre, 30)}, lambda line: not in_ball(line).any()),
        ):
            lines = scene.lines("deterministic_tracking", max_angle=35, **regions)
            expected = [line for line in everything if kept(line)]
            assert 0.05 < len(expected) / len(everything) < 0.95
            assert len(lines) == pytest.approx(len(expected), rel=0.01)  # float32 near the edges

    def test_what_does_not_go_together_is_refused(self, scene):
        sc = ours.ActStoppingCriterion.from_pve(scene.white, 1 - scene.white, 0 * scene.white)
        with pytest.raises(ts.ParameterError, match="limit_mask does not go with particle filtering"):
            scene.lines("pft_tracking", sc=sc, limit_mask=scene.mask)
        with pytest.raises(ts.ParameterError, match="stop_when_included needs regions"):
            scene.lines("deterministic_tracking", stop_when_included=True)
        with pytest.raises(TypeError, match="'includes'; besides DIPY's, there are arch, devices, include"):
            scene.lines("deterministic_tracking", includes=scene.mask)


@pytest.mark.nightly
def test_several_devices_give_the_streamlines_of_one(scene, monkeypatch):
    """Nightly; by day, test_several.py compares them."""
    single = scene.lines("probabilistic_tracking", max_angle=35)
    monkeypatch.setattr(growing, "devices_of", lambda _: [choose("cpu")] * 2)
    two = scene.lines("probabilistic_tracking", max_angle=35, devices="0,1")
    assert len(single) == len(two) > 500
    assert all(map(np.array_equal, single, two))
