"""The package that takes DIPY's place: its signatures, and its streamlines beside those of DIPY's own functions."""

from __future__ import annotations

import inspect
import re
from functools import partial
from typing import Any

import dipy.direction
import dipy.tracking.local_tracking
import dipy.tracking.stopping_criterion as dipys
import dipy.tracking.tracker
import numpy as np
import pytest
from dipy.core.sphere import Sphere
from dipy.data import default_sphere, get_sphere
from dipy.reconst.shm import CsaOdfModel, sh_to_sf
from dipy_case import agree, identical, same

import tistreamlines as ts
from tistreamlines import dipy as ours
from tistreamlines.dipy import keywords
from tistreamlines.dipy.criteria import tables_of
from tistreamlines.tracking.selection.regions import ROLES

pytestmark = pytest.mark.filterwarnings("ignore:The legacy:PendingDeprecationWarning")
theirs = dipy.tracking.tracker
FUNCTIONS = [name for name in ours.__all__ if name.endswith("_tracking")]
GETTERS = [name for name in ours.__all__ if name.endswith("DirectionGetter")]


class TestSignatures:
    @pytest.mark.parametrize("name", [*FUNCTIONS, "LocalTracking"])
    def test_arguments_are_dipys(self, name):
        module = dipy.tracking.local_tracking if name == "LocalTracking" else theirs
        arguments, dipys = (inspect.signature(getattr(source, name)).parameters for source in (ours, module))
        assert [*arguments][: len(dipys)] == [*dipys]
        more = {"arch", "devices", *ROLES, "stop_when_included"}
        assert {*arguments} - {*dipys} == more | ({"nbr_threads"} if name == "LocalTracking" else set())
        assert arguments["arch"].default == "auto"
        for key, parameter in dipys.items():
            assert (arguments[key].kind, arguments[key].default) == (parameter.kind, parameter.default), key

    @pytest.mark.parametrize("name", [*FUNCTIONS, "LocalTracking"])
    def test_type_checkers_know_the_same_arguments(self, name):
        """Each keyword of the signature has a type, and each that has one is in the signature."""
        thing = getattr(ours, name)
        bare = inspect.unwrap(thing.__init__ if inspect.isclass(thing) else thing)
        typed = getattr(keywords, re.fullmatch(r"Unpack\[(?:keywords\.)?(\w+)\]", bare.__annotations__["options"])[1])
        positional = set(bare.__annotations__) - {"options", "return"}
        assert set(inspect.signature(thing).parameters) == set(typed.__annotations__) | positional

    def test_what_is_not_an_argument_is_refused(self):
        for name in FUNCTIONS:
            words = rf"^{name}\(\) got an unexpected keyword argument 'fa'; besides DIPY's, there are [^\n]*$"
            with pytest.raises(TypeError, match=words):
                getattr(ours, name)(None, None, None, fa=1)
            with pytest.raises(TypeError, match=rf"^{name}\(\) missing a required argument: 'affine'$"):
                getattr(ours, name)(None, None)
            with pytest.raises(TypeError, match=r"too many positional arguments$"):
                getattr(ours, name)(None, None, None, None)
        with pytest.raises(TypeError, match=r"^LocalTracking\.__init__\(\) got an unexpected keyword argument 'fa'"):
            ours.LocalTracking(None, None, None, None, 1.0, fa=1)

    @pytest.mark.parametrize("name", GETTERS)
    @pytest.mark.parametrize("constructor", ["from_shcoeff", "from_pmf", "from_data"])
    def test_constructors_are_dipys(self, name, constructor):
        functions = [getattr(getattr(module, name), constructor, None) for module in (ours, dipy.direction)]
        assert (functions[0] is None) == (functions[1] is None)
        if functions[1] is not None:
            signatures = [
                [(key, value.kind, value.default) for key, value in inspect.signature(function).parameters.items()]
                for function in functions
            ]
            assert signatures[0] == signatures[1]


class TestFunctions:
    @pytest.mark.parametrize("name", ["deterministic_tracking", "closestpeak_tracking"])
    @pytest.mark.parametrize("return_all", [True, False])
    def test_deterministic_streamlines_are_dipys(self, case, name, return_all):
        same(*(case.lines(name, module, return_all=return_all, max_len=60, min_len=10) for module in (ours, theirs)))

    def test_samples_on_a_sphere_follow_dipys_streamlines(self, case):
        sphere = get_sphere(name="repulsion724")
        sf = np.maximum(sh_to_sf(case.sh, sphere, sh_order_max=4), 0)
        chosen = {"sh": None, "sf": sf, "sphere": sphere}
        same(*(case.lines("deterministic_tracking", module, **chosen) for module in (ours, theirs)))

    def test_voxel_size_need_not_be_that_of_the_affine(self, case):
        chosen = {"voxel_size": np.array([2.0, 2.5, 3.0])}
        same(*(case.lines("deterministic_tracking", module, **chosen) for module in (ours, theirs)))

    def test_another_basis(self, case):
        chosen = {"basis_type": "tournier07", "legacy": False}
        lines, dipys = (case.lines("deterministic_tracking", module, **chosen) for module in (ours, theirs))
        same(lines, dipys)
        plain = case.lines("deterministic_tracking")
        assert not all(len(a) == len(b) for a, b in zip(plain, lines, strict=False))

    @pytest.mark.parametrize("return_all", [True, False])
    def test_probabilistic_streamlines_agree(self, case, return_all):
        agree(*(case.lines("probabilistic_tracking", module, return_all=return_all) for module in (ours, theirs)))

    @pytest.mark.parametrize("return_all", [True, False])
    def test_parallel_transport_agrees(self, case, return_all):
        """DIPY calls an end invalid where both the criterion and the lack of data support end a half.

        The threshold of probes is absolute, so functions should have peaks of about 1.
        """
        greatest = sh_to_sf(case.sh, default_sphere, sh_order_max=4).max()
        chosen = {"max_angle": 20, "return_all": return_all, "sh": case.sh * (2 / greatest)}
        agree(*(case.lines("ptt_tracking", module, **chosen) for module in (ours, theirs)), share=0.05)

    @pytest.mark.parametrize(("module", "steps"), [(ours, 1), (theirs, 2)], ids=["ours", "theirs"])
    def test_dipys_ptt_is_displaced_by_a_step(self, case, module, steps):
        """It adds a step along the seed's direction to each point, as docs/drop-in-dipy.md says."""
        lengths, chosen = [], {"step_size": 1.0, "max_angle": 5, "sh": 5 * case.sh, "save_seeds": True}
        for line, seed in case.lines("ptt_tracking", module, **chosen):
            segments, at = np.linalg.norm(np.diff(line, axis=0), axis=1), np.linalg.norm(line - seed, axis=1).argmin()
            if 2 < at < len(line) - 3:
                lengths += [segments[at - 1], segments[at]]
        assert len(lengths) > 100
        assert np.median(lengths) == pytest.approx(steps, rel=0.03)


    def test_bootstrap_agrees(self, case):
        chosen = {"data": case.data.astype(float), "model": case.model, "max_angle": 60, "seeds": case.seeds[:300]}
        chosen |= {"sh": None, "step_size": 4.0}
        agree(*(case.lines("bootstrap_tracking", module, **chosen) for module in (ours, theirs)))

    def test_seeds_come_with_their_streamlines(self, case):
        pairs = case.lines("probabilistic_tracking", save_seeds=True)
        assert identical([line for line, _ in pairs], case.lines("probabilistic_tracking"))
        known = {seed.tobytes() for seed in case.seeds}
        for line, seed in pairs:
            assert seed.tobytes() in known
            assert np.linalg.norm(line - seed, axis=1).min() < 1e-3

    def test_the_result_is_an_iterator_of_arrays_of_their_own(self, case):
        grown = ours.probabilistic_tracking(case.seeds, case.sc, case.affine, **case.common, arch="cpu")
        first = next(grown)
        assert first.dtype == np.float64
        assert first.base is None
        grown.close()

    def test_no_seed_gives_no_streamline(self, case):
        assert case.lines("probabilistic_tracking", seeds=np.zeros((0, 3))) == []


class TestReproducible:
    def test_a_random_seed_gives_the_same_bits_whatever_the_threads_and_the_buffer(self, case):
        grow = partial(case.lines, "probabilistic_tracking")
        once = grow(nbr_threads=1)
        assert identical(once, grow(nbr_threads=2))
        assert identical(once, grow(nbr_threads=1, seed_buffer_fraction=0.1))
        assert not identical(once, grow(nbr_threads=1, random_seed=8))

    @pytest.mark.parametrize("random_seed", [1, 7, 1_000_000])
    def test_seeds_of_dipy_share_random_numbers_unless_random_seed_is_large(self, random_seed):
        """As docs/drop-in-dipy.md says: where all directions are alike, equal numbers give equal steps."""
        side, box = 20, np.zeros((20, 20, 20))
        box[2:-2, 2:-2, 2:-2] = 1
        starts = np.random.default_rng(0).uniform(8, 12, (600, 3))
        numbered = ((starts @ [2, 3, 5]) * random_seed).astype(np.int64)

        def turns(module: Any) -> tuple[int, int]:
            """Number of different beginnings of streamlines, and of pairs of beginning and number."""
            lines, beginnings = module.probabilistic_tracking(
                starts, dipys.BinaryStoppingCriterion(box), np.eye(4), sf=np.ones((side, side, side, 362)) / 362,
                seed_directions=np.tile([1.0, 0, 0], (600, 1)), sphere=default_sphere, step_size=0.5, max_angle=40,
                max_len=500, min_len=0, random_seed=random_seed, voxel_size=np.ones(3), save_seeds=True,
            ), set()
            for line, start in lines:
                at = int(np.argmin(np.linalg.norm(line - start, axis=1)))
                number = int(numbered[np.argmin(np.linalg.norm(starts - start, axis=1))])
                beginnings.add((number, *np.round((line[at:] - start)[1:5], 2).ravel()))
            return len({row[1:] for row in beginnings}), len(beginnings)

        streams = len(set(numbered))
        assert turns(theirs) == (streams, streams)
        assert streams == 600 if random_seed > 1000 else streams < 400
        assert turns(ours)[0] > 595

    def test_zero_draws_anew(self, case):
        assert not identical(*(case.lines("probabilistic_tracking", random_seed=0) for _ in range(2)))


class TestCriteria:
    def test_they_are_dipys_and_work_there(self, case):
        for sc, plain in self.pairs(case):
            assert isinstance(sc, type(plain))
            if not isinstance(sc, dipys.CmcStoppingCriterion):
                assert identical(*(case.lines("deterministic_tracking", theirs, sc=each) for each in (sc, plain)))

    def pairs(self, case) -> list[tuple[Any, Any]]:
        """A criterion of this package beside DIPY's own, with the same arguments."""
        criteria = []
        for module in (ours, dipys):
            act = module.ActStoppingCriterion.from_pve(*case.tissues)
            cmc = module.CmcStoppingCriterion.from_pve(*case.tissues, step_size=2.0, average_voxel_size=4.0)
            mask = module.BinaryStoppingCriterion(case.white > 0.4)
            criteria.append((module.ThresholdStoppingCriterion(case.white, 0.4), mask, act, cmc))
        return list(zip(*criteria, strict=True))

    @pytest.mark.parametrize("rule", [1, 2], ids=["binary", "act"])
    @pytest.mark.parametrize("return_all", [True, False])
    def test_streamlines_end_where_dipys_do(self, case, rule, return_all):
        sc, _ = self.pairs(case)[rule]
        same(*(case.lines("deterministic_tracking", mod, sc=sc, return_all=return_all) for mod in (ours, theirs)))

    @pytest.mark.parametrize("return_all", [True, False])
    def test_cmc_agrees(self, case, return_all):
        sc, _ = self.pairs(case)[3]
        agree(*(case.lines("probabilistic_tracking", mod, sc=sc, return_all=return_all) for mod in (ours, theirs)))

    def test_maps_of_dipys_own_are_read_exactly(self, case):
        shape = case.white.shape
        for sc, plain in self.pairs(case)[1:]:
            tables, dipys_tables = (tables_of(each, shape, 2.0, sides=(3.0, 4.0, 5.0)) for each in (sc, plain))
            assert vars(tables.rule.stopping) == vars(dipys_tables.rule.stopping)
            assert np.array_equal(tables.channels, dipys_tables.channels)
            assert len(np.unique(tables.channels)) > 1

    def test_criteria_that_cannot_be_known_say_what_to_import(self, case):
        _, plain = self.pairs(case)[0]
        with pytest.raises(ts.ParameterError, match=r"tistreamlines\.dipy\.ThresholdStoppingCriterion"):
            tables_of(plain, case.white.shape)

        class Own(dipys.StoppingCriterion):
            pass

        for other in (Own(), None, case.white):
            with pytest.raises(ts.ParameterError, match="give an instance of"):
                tables_of(other, case.white.shape)

    def test_a_cmc_criterion_of_other_sizes_is_refused(self, case):
        plain = self.pairs(case)[3][1]
        with pytest.raises(ts.ParameterError, match=r"step_size of about 0\.\d+ times .* used with 0\.25"):
            tables_of(plain, case.white.shape, 1.0, sides=(3.0, 4.0, 5.0))

    def test_maps_must_be_on_the_grid_of_the_data(self, case):
        for pair in self.pairs(case):
            for sc in pair[:1] if isinstance(pair[1], dipys.ThresholdStoppingCriterion) else pair:
                for shape in ((9, 9, 9), (99, 99, 99)):
                    with pytest.raises(ts.InputError, match="give one grid"):
                        tables_of(sc, shape, sides=(3.0, 4.0, 5.0))


class TestErrors:
    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"sh": None}, "neither sh nor sf"),
            ({"sf": np.ones((2, 2, 2, 362))}, "sh and sf given"),
            ({"pam": object()}, "sh and pam given: give one of sh, sf and pam"),
            ({"sh": None, "sf": np.ones((2, 2, 2, 362)), "sphere": None}, "sphere is missing"),
            ({"sh": None, "sf": np.ones((2, 2, 2, 5))}, "5 values per voxel"),
            ({"sh": np.ones((3, 3, 3))}, "sh has the shape"),
            ({"sh": np.full((2, 2, 2, 15), np.nan)}, "sh has NaN"),
            ({"sphere": "repulsion724"}, "sphere is of the kind str"),
            ({"sphere": Sphere(xyz=get_sphere(name="repulsion724").vertices[:700])}, "no opposite vertex"),
            ({"basis_type": "mrtrix"}, "basis_type is 'mrtrix'"),
            ({"affine": np.eye(3)}, "affine is"),
            ({"affine": np.zeros((4, 4))}, "affine is"),
            ({"seeds": np.zeros((4, 2))}, "seed_positions has the shape"),
            ({"seeds": np.full((4, 3), 1e4)}, "seed_positions: .* lie outside"),
            ({"step_size": 0}, "step_size is 0"),
            ({"step_size": 0.001}, "at most 10000 steps"),
            ({"max_angle": 120}, "max_angle is 120"),
            ({"voxel_size": [1, 2]}, "voxel_size is"),
            ({"random_seed": -4}, "random_seed is -4"),
            ({"random_seed": 1.5}, "random_seed is 1.5"),
            ({"seed_buffer_fraction": 0}, "seed_buffer_fraction is 0"),
            ({"sc": None}, "sc is of the kind NoneType"),
        ],
    )
    def test_each_is_one_line(self, case, options, words):
        with pytest.raises(ts.TrackingError, match=words) as caught:
            case.lines("probabilistic_tracking", **options)
        assert "\n" not in str(caught.value)

    def test_maps_without_numbers(self, case):
        with pytest.raises(ts.InputError, match="metric_map has NaN"):
            case.lines("probabilistic_tracking", sc=ours.ThresholdStoppingCriterion(np.nan * case.white, 0.1))

    def test_models_that_cannot_be_bootstrapped(self, case):
        gtab = case.model.gtab
        smooth = CsaOdfModel(gtab, 4, smooth=0.02)
        for model, words in (
            (None, "data or model is missing"), (object(), "kind object"), (CsaOdfModel(gtab, 6), "sh_order_max 6"),
            (smooth, "not made with smooth=0.006"),
        ):
            with pytest.raises(ts.ParameterError, match=words):
                case.lines("bootstrap_tracking", sh=None, data=case.data, model=model)
        smooth.smooth = 0.02
        assert case.lines("bootstrap_tracking", sh=None, data=case.data, model=smooth, seeds=case.seeds[:50])

    def test_particle_filtering_needs_tissues(self, case):
        with pytest.raises(ts.ParameterError, match="particle filtering needs an Act or Cmc criterion"):
            case.lines("pft_tracking")
