"""The package that takes DIPY's place: LocalTracking, initial directions and particles beside those of DIPY."""

from __future__ import annotations

import dipy.direction
import dipy.tracking.local_tracking
import dipy.tracking.stopping_criterion as dipys
import dipy.tracking.tracker
import numpy as np
import pytest
from dipy.data import default_sphere
from dipy.reconst.shm import sh_to_sf
from dipy_case import agree, identical, same

import tistreamlines as ts
from tistreamlines import dipy as ours
from tistreamlines.dipy.local_tracking import spread

pytestmark = pytest.mark.filterwarnings("ignore:The legacy:PendingDeprecationWarning")
theirs = dipy.tracking.tracker


class TestLocalTracking:
    def lines(self, case, module, getter, sc=None, **options):
        kind = ours.LocalTracking if module is ours else dipy.tracking.local_tracking.LocalTracking
        options = {"random_seed": 3} | options | ({"arch": "cpu"} if module is ours else {})
        grown = kind(getter, sc or case.sc, case.seeds[:500], case.affine, 2.0, **options)
        return [line for line in grown if len(line) > 1]

    @pytest.mark.parametrize("name", ["DeterministicMaximumDirectionGetter", "ClosestPeakDirectionGetter"])
    def test_deterministic_streamlines_are_dipys(self, case, name):
        """The same getter serves both."""
        getter = getattr(ours, name).from_shcoeff(case.sh, 35, default_sphere, relative_peak_threshold=0.3)
        same(*(self.lines(case, module, getter) for module in (ours, theirs)))
        short = {"maxlen": 15, "minlen": 6, "return_all": False, "max_cross": 1}
        tractograms = [self.lines(case, module, getter, **short) for module in (ours, theirs)]
        assert 6 <= min(map(len, tractograms[0])) <= max(map(len, tractograms[0])) <= 15
        lengths = [np.bincount([len(line) for line in lines], minlength=16) for lines in tractograms]
        assert np.abs(lengths[0] - lengths[1]).sum() <= 4

    @pytest.mark.parametrize("name", ["ProbabilisticDirectionGetter", "PTTDirectionGetter"])
    def test_random_streamlines_agree(self, case, name):
        getter = getattr(ours, name).from_shcoeff(case.sh, 20, default_sphere, sh_to_pmf=True)
        agree(*(self.lines(case, module, getter) for module in (ours, theirs)))

    def test_values_on_the_sphere(self, case):
        pmf = np.maximum(sh_to_sf(case.sh, default_sphere, sh_order_max=4), 0)
        getter = ours.DeterministicMaximumDirectionGetter.from_pmf(pmf, 35, default_sphere)
        same(*(self.lines(case, module, getter) for module in (ours, theirs)))

    @pytest.mark.parametrize("return_all", [True, False])
    def test_one_way_from_given_directions(self, case, return_all):
        getter = ours.DeterministicMaximumDirectionGetter.from_shcoeff(case.sh, 35, default_sphere)
        drawn = np.random.default_rng(6).integers(len(default_sphere.vertices), size=(500, 3))
        directions = 2.0 * default_sphere.vertices[drawn]
        directions[::2, 1] = 0
        options = {"unidirectional": True, "initial_directions": directions, "max_cross": 2, "return_all": return_all}
        lines, dipys = (self.lines(case, module, getter, **options) for module in (ours, theirs))
        same(lines, dipys)
        if return_all:
            turned = self.lines(case, ours, getter, randomize_forward_direction=True, **options)
            there = {line[1].tobytes() for line in lines}
            assert 0.4 < np.mean([line[1].tobytes() in there for line in turned]) < 0.6

    def test_each_iteration_tracks_anew(self, case):
        getter = ours.ProbabilisticDirectionGetter.from_shcoeff(case.sh, 35, default_sphere)
        tracking = ours.LocalTracking(getter, case.sc, case.seeds[:100], case.affine, 2.0, random_seed=1, arch="cpu")
        assert identical([*tracking], [*tracking])
        drawn = ours.LocalTracking(getter, case.sc, case.seeds[:100], case.affine, 2.0, arch="cpu")
        assert not identical([*drawn], [*drawn])

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"fixedstep": False}, "fixedstep=False is not supported"),
            ({"minlen": 9, "maxlen": 3}, "least number of points is 9"),
            ({"maxlen": 0, "minlen": 0}, "0 steps on each side"),
            ({"random_seed": -1}, "random_seed is -1"),
            ({"arch": "abacus"}, "arch"),
        ],
    )
    def test_what_is_not_supported(self, case, options, words):
        getter = ours.ProbabilisticDirectionGetter.from_shcoeff(case.sh, 35, default_sphere)
        with pytest.raises(ts.ParameterError, match=words) as caught:
            ours.LocalTracking(getter, case.sc, case.seeds, case.affine, 2.0, **{"arch": "cpu"} | options)
        assert "\n" not in str(caught.value)

    def test_getters_of_dipy_say_what_to_import(self, case):
        getter = dipy.direction.ProbabilisticDirectionGetter.from_shcoeff(case.sh, 35, default_sphere)
        with pytest.raises(ts.ParameterError, match=r"class of tistreamlines\.dipy"):
            ours.LocalTracking(getter, case.sc, case.seeds, case.affine, 2.0)

    def test_sheared_voxels_are_refused(self, case):
        getter = ours.ProbabilisticDirectionGetter.from_shcoeff(case.sh, 35, default_sphere)
        sheared = np.array(case.affine)
        sheared[:3, 1] += sheared[:3, 0]
        with pytest.raises(ts.InputError, match="sheared"):
            ours.LocalTracking(getter, case.sc, case.seeds, sheared, 2.0)


class TestDirections:
    @pytest.mark.parametrize("name", ["deterministic_tracking", "closestpeak_tracking"])
    def test_streamlines_along_them_are_dipys(self, case, name):
        """Directions are vertices, since the engine moves others to the nearest one."""
        drawn = np.random.default_rng(5).integers(len(default_sphere.vertices), size=len(case.seeds))
        directions = default_sphere.vertices[drawn]
        chosen = {"seed_directions": directions[:, None] if name == "closestpeak_tracking" else directions}
        # in voxels of unequal sides, DIPY begins backward halves in a direction that is bent
        chosen |= {"affine": np.eye(4) * [4, 4, 4, 1], "seeds": case.seeds_in(np.eye(4) * [4, 4, 4, 1])}
        same(*(case.lines(name, module, **chosen) for module in (ours, theirs)))

    def test_seeds_are_repeated_for_each_direction(self):
        directions = np.array([[[2.0, 0, 0], [0, 0, 0], [0, 3, 0]], [[0, 0, 0], [0, 0, 0], [0, 0, -1]]])
        seeds, unit = spread(np.array([[1.0, 1, 1], [2, 2, 2]]), directions)
        assert np.array_equal(seeds[:, 0], [1, 1, 2])
        assert np.array_equal(unit, [[1, 0, 0], [0, 1, 0], [0, 0, -1]])
        assert np.array_equal(spread(seeds[1:], directions, max_cross=1)[1], [[1, 0, 0], [0, 0, -1]])

    def test_the_wrong_shape_is_refused(self, case):
        for name in ("probabilistic_tracking", "closestpeak_tracking"):
            with pytest.raises(ts.ParameterError, match="_directions has the shape"):
                case.lines(name, seed_directions=np.ones((4, 3)))


class TestParticles:
    @pytest.mark.parametrize("rule", ["act", "cmc"])
    def test_particle_filtering_agrees(self, case, rule):
        seeds, affine = 4 * case.voxels[:600], np.diag([4.0, 4.0, 4.0, 1.0])

        def lines(module, criteria, **options):
            if rule == "act":
                sc = criteria.ActStoppingCriterion.from_pve(*case.tissues)
            else:
                sc = criteria.CmcStoppingCriterion.from_pve(*case.tissues, step_size=2.0, average_voxel_size=4.0)
            options |= {"max_cross": 1, "pft_back_tracking_dist": 4, "sc": sc, "affine": affine, "seeds": seeds}
            return case.lines("pft_tracking", module, **options)

        grown = lines(ours, ours)
        agree(grown, lines(theirs, dipys), share=0.02)
        assert 0 < len(lines(ours, ours, return_all=False)) < len(grown)
