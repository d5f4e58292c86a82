"""The one definition of the options."""

import inspect
import math
import re
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from dipy.reconst.csdeconv import ConstrainedSphericalDeconvModel
from dipy.tracking import tracker
from getters import ON_A_SERIES

from tistreamlines.errors import ParameterError
from tistreamlines.fit.models import MODELS
from tistreamlines.option import GROUPS, Option, bounds, check_value, flag, several, whole
from tistreamlines.options.definitions import absent, defaults, kind, options
from tistreamlines.options.objects import choice
from tistreamlines.options.parameters import Parameters
from tistreamlines.tracking.registry import METHODS, STOPPING_RULES, rule_for
from tistreamlines.tracking.sources import SOURCES


class TestDefinition:
    def test_every_field_has_help_and_a_group(self):
        assert set(options()) == {f.name for f in fields(Parameters)}
        groups = [option.group for option in options().values()]
        assert groups == sorted(groups, key=GROUPS.index)
        for name, option in options().items():
            assert option.help.endswith("."), name
            assert option.group, name

    def test_what_has_no_default_says_what_happens(self):
        for name, default in defaults().items():
            assert default is not None or absent(name), name

    def test_numbers_and_files_have_a_unit(self):
        for name, option in options().items():
            assert option.unit or kind(name) in ("word", "flag"), name

    def test_relations_name_parameters(self):
        for option in options().values():
            assert {*option.excludes, *option.requires} <= set(options())
            assert set(option.only) <= {"dg", "model", "source"}
            assert set(option.only.get("dg", ())) <= set(METHODS)
            assert set(option.only.get("model", ())) <= set(MODELS)
            assert set(option.only.get("source", ())) <= {"model", *SOURCES}

    def test_defaults_of_the_design(self):
        expected = {
            "dg": "boot", "model": "opdt", "sphere": "default", "max_angle": 60, "step_size": "0.5vox", "sh_order": 4,
            "fa_threshold": 0.1, "min_signal": 1, "sm_lambda": 0.006, "relative_peak_threshold": 0.25, "arch": "auto",
            "min_separation_angle": 45, "angular_weight": 0, "max_steps": 500, "boot_rule": "dipy", "exact": True,
            "min_length": 0,
        }
        chosen = Parameters(like="dipy")
        assert {name: getattr(chosen, name) for name in expected} == expected

    def test_kinds(self):
        assert [kind(n) for n in ("mask", "nseeds", "max_length", "model", "exact", "step_size")] == [
            "path", "int", "text", "word", "flag", "text",
        ]

    def test_bounds_read_well(self):
        assert bounds(options()["max_angle"]) == "a number above 0 up to 90"
        assert bounds(options()["fa_threshold"]) == "a number from 0 to 1"
        assert bounds(options()["sm_lambda"]) == "a number from 0 on"


class TestLengths:
    @pytest.mark.parametrize(
        ("text", "mm"), [("10", 10), (0, 0), ("4mm", 4), ("5vox", 7.5), (" 2.5 vox", 3.75), ("1e1", 10)]
    )
    def test_a_minimum_in_mm_or_voxels(self, text, mm):
        assert Parameters(min_length=text).min_mm([2, 1.5, 3]) == mm

    @pytest.mark.parametrize("wrong", ["a", "-1", "nan", "inf", "5 voxels", "vox", "", None.__class__])
    def test_no_minimum(self, wrong):
        with pytest.raises(ParameterError, match=r"min_length is .*: give a length of at least 0"):
            Parameters(min_length=wrong)

    def test_a_minimum_in_voxels_beside_a_maximum(self):
        assert Parameters(max_length=8).min_mm([1.5] * 3) == 7.5
        with pytest.raises(ParameterError, match="max_length is 8: give at least min_length, which is 5vox"):
            Parameters(max_length=8).min_mm([2] * 3)

    @pytest.mark.parametrize(("text", "mm"), [("90", 90), (90, 90), ("60mm", 60), ("100vox", 150), (None, None)])
    def test_a_maximum_in_mm_or_voxels(self, text, mm):
        assert Parameters(max_length=text).max_mm([2, 1.5, 3]) == mm

    @pytest.mark.parametrize("wrong", ["a", "-1", "nan", "inf", "0", "0vox", "5 voxels", ""])
    def test_no_maximum(self, wrong):
        with pytest.raises(ParameterError, match=r"max_length is .*: give a length above 0"):
            Parameters(max_length=wrong)

    def test_a_maximum_in_voxels_beside_a_minimum(self):
        assert Parameters(max_length="4vox", min_length=8).min_mm([2] * 3) == 8
        with pytest.raises(ParameterError, match="max_length is 4vox: give at least min_length, which is 8"):
            Parameters(max_length="4vox", min_length=8).min_mm([1.9] * 3)

    @pytest.mark.parametrize("dg", ["ifod1", "ifod2"])
    def test_tckgens_maximum(self, dg):
        plain, anatomical = Parameters(dg=dg), Parameters(dg=dg, act="5tt.nii")
        assert plain.max_length == anatomical.max_length == "100vox"
        assert (plain.too_long, anatomical.too_long) == ("truncate", "drop")
        assert (plain.min_length, anatomical.min_length) == ("5vox", "2vox")
        assert (Parameters(dg="prob").max_length, Parameters(dg="prob").too_long) == (None, "drop")
        assert Parameters.given({"dg": dg, "too_long": "drop"}).too_long == "drop"

    def test_the_same_minimum_is_recorded_alike(self):
        assert Parameters(min_length="10.0").as_dict()["min_length"] == Parameters(min_length=10).min_length == 10.0


class TestValues:
    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("max_angle", 0), ("max_angle", 90.1), ("max_angle", "steep"), ("max_angle", math.nan), ("nseeds", 0),
            ("nseeds", 1.5), ("nseeds", 2**32), ("nseeds", True), ("rng_seed", -1), ("rng_seed", 2**64),
            ("sh_order", 3), ("sh_order", 14), ("model", "csd"), ("arch", "opencl"), ("exact", "yes"), ("mask", 3),
            ("step_size", 0), ("step_size", "-1"), ("step_size", "1 inch"), ("step_size", "e"), ("step_size", "inf"),
            ("min_signal", 0), ("min_length", -1), ("max_length", math.inf), ("threads", 0), ("chunk_size", 0),
            ("memory_limit", 0), ("angular_weight", 1.1), ("model", "dti"), ("dg", "pft"), ("fa_response", 2),
        ],
    )
    def test_a_bad_value_is_named(self, name, value):
        with pytest.raises(ParameterError, match=name) as error:
            Parameters.given({name: value})
        assert flag(name) in error.value.on_command_line
        assert "\n" not in str(error.value)

    @pytest.mark.parametrize(
        ("size", "mm"), [("0.5vox", 1.0), ("0.5 vox", 1.0), ("0.9", 0.9), ("0.9mm", 0.9), (0.9, 0.9), ("1e-1", 0.1)]
    )
    def test_step_size(self, size, mm):
        assert Parameters(step_size=size).step_mm([3, 2.0, 4]) == pytest.approx(mm)

    def test_large_keys_stay_exact(self):
        assert Parameters(rng_seed=2**64 - 1).rng_seed == 2**64 - 1

    def test_whole_floats_count_as_whole(self):
        assert Parameters(nseeds=1e3).nseeds == 1000  # type: ignore[arg-type]


REGIONS = Option("Regions", "Regions.", "FILE|x,y,z,r")


class TestSeveral:
    """Options that can be given several times."""

    @pytest.mark.parametrize(
        ("value", "values"),
        [
            ("1,2,3,4", ("1,2,3,4",)),
            (["1,2,3,4", "5,6,7,8"], ("1,2,3,4", "5,6,7,8")),
            ((1, 2.5, 3, 4), ("1.0,2.5,3.0,4.0",)),
            (np.array([1, 2.5, 3, 4]), ("1.0,2.5,3.0,4.0",)),
            ([(1, 2, 3, 4), "a.nii"], ("1.0,2.0,3.0,4.0", "a.nii")),
            (Path("a.nii"), (Path("a.nii"),)),
        ],
    )
    def test_one_or_more(self, value, values):
        assert several(value) == values
        assert check_value("regions", REGIONS, several(value), "list") == values

    def test_arrays_of_voxels_are_kept(self):
        image = np.ones((2, 2, 2))
        assert several(image)[0] is several([image])[0] is image

    @pytest.mark.parametrize(
        ("value", "part"),
        [(3, "is a int: give FILE|x,y,z,r"), ("", "is empty"), ([], "is an empty list"), (["a", None], "is a None")],
    )
    def test_one_line_for_what_is_no_text(self, value, part):
        with pytest.raises(ParameterError, match=f"regions {re.escape(part)}"):
            check_value("regions", REGIONS, several(value), "list")


class TestRelations:
    @pytest.mark.parametrize(
        "named",
        [
            {"seeds": "a.npy", "nseeds": 3},
            {"seeds": "a.npy", "seed_mask": "b.nii"},
            {"seeds": "a.npy", "seed_seed": 1},
            {"stop_threshold": 0.2},
            {"stop_map": "a.nii", "stop_threshold": 0.2, "fa_threshold": 0.1},
            {"min_length": 30, "max_length": 20},
        ],
    )
    def test_what_does_not_go_together(self, named):
        with pytest.raises(ParameterError, match="|".join(named)) as error:
            Parameters.given(named)
        assert "--" in error.value.on_command_line

    def test_none_counts_as_not_given(self):
        assert Parameters.given({"stop_threshold": None, "seeds": "a.npy", "nseeds": None}).seeds == "a.npy"

    def test_threshold(self):
        assert Parameters().threshold == 0.1
        assert Parameters.given({"stop_map": "a.nii", "stop_threshold": -2}).threshold == -2

    @pytest.mark.parametrize(
        ("name", "meant"), [("max_angel", "'max_angle'"), ("stepsize", "'step_size'"), ("n_seeds", "'nseeds'")]
    )
    def test_unknown_name(self, name, meant):
        with pytest.raises(TypeError, match=rf"'{name}' is not an option of tracking; did you mean .*{meant}"):
            Parameters.given({name: 30})

    def test_a_name_like_none(self):
        with pytest.raises(TypeError, match=r"'xyz' is not an option of tracking; the options are .*max_angle"):
            Parameters.given({"xyz": 30})

    @pytest.mark.parametrize("name", ["pft_back", "include_ordered"])
    def test_a_flag_that_is_off_is_not_what_another_option_needs(self, name):
        flag_off, value = {"pft_back": ("pft", 1.0), "include_ordered": ("one_way", ["0,0,0,5"])}[name]
        with pytest.raises(ParameterError, match=f"{name} needs {flag_off}"):
            Parameters.given({"stopping": "act", name: value, flag_off: False} if name == "pft_back" else
                             {name: value, flag_off: False})


SH = {"sh": "a.nii", "sh_basis": "tournier07"}


class TestGetters:
    @pytest.mark.parametrize(("dg", "function"), [("prob", "probabilistic"), ("det", "deterministic")])
    def test_like_dipy_has_its_defaults(self, dg, function):
        dipy = inspect.signature(getattr(tracker, f"{function}_tracking")).parameters
        peaks = inspect.signature(tracker.peaks_from_positions).parameters
        chosen = Parameters(dg=dg, like="dipy")
        assert (chosen.max_angle, chosen.pmf_threshold) == (dipy["max_angle"].default, dipy["pmf_threshold"].default)
        for name in ("relative_peak_threshold", "min_separation_angle"):
            assert getattr(chosen, name) == peaks[name].default
        weight = inspect.signature(ConstrainedSphericalDeconvModel).parameters["lambda_"].default
        assert (chosen.model, chosen.sh_order, chosen.csd_lambda) == ("csd", 8, weight)

    def test_what_is_given_goes_before_like(self):
        chosen = Parameters.given({"dg": "prob", "like": "dipy", "max_angle": 33, "csd_lambda": "auto"})
        assert (chosen.max_angle, chosen.pmf_threshold, chosen.csd_lambda) == (33, 0.1, "auto")

    def test_defaults_where_the_truth_leaves_dipys(self):
        prob, det, ptt = (Parameters(dg=dg) for dg in ("prob", "det", "ptt"))
        assert (prob.max_angle, prob.pmf_threshold) == (25, 0.2)
        boot, peaks = Parameters(), ("relative_peak_threshold", "min_separation_angle")
        assert (boot.model, boot.max_angle, boot.sm_lambda, boot.boot_rule) == ("csa", 30, 0.003, "cuslines")
        for parameters in (boot, prob, det, ptt):
            assert tuple(getattr(parameters, name) for name in peaks) == (0.5, 25)
            assert parameters.min_length == "5vox"
        assert {parameters.csd_lambda for parameters in (prob, det, ptt)} == {"auto"}
        assert Parameters().csd_lambda is Parameters(dg="prob", model="csa").csd_lambda is None

    @pytest.mark.parametrize(("text", "number"), [("1", 1.0), ("0.10", 0.1), (2, 2.0)])
    def test_the_same_weight_is_recorded_alike(self, text, number):
        assert Parameters(dg="det", csd_lambda=text).as_dict()["csd_lambda"] == number

    @pytest.mark.parametrize("dg", ON_A_SERIES)
    def test_what_is_given_stays(self, dg):
        named = ("max_angle", "relative_peak_threshold", "min_separation_angle", "sh_order")
        for name in filter(Parameters(dg=dg).applies, named):
            value = 0.75 if name == "relative_peak_threshold" else 6
            assert getattr(Parameters.given({"dg": dg, name: value}), name) == value

    @pytest.mark.parametrize("dg", METHODS)
    def test_every_default_is_resolved(self, dg):
        chosen = Parameters(dg=dg)
        free = {name for name in options() if defaults()[name] is None and getattr(chosen, name) is None}
        words = ("sh_basis", "sh_frame", "like", "preset")
        free = {name for name in free if chosen.applies(name) and name not in words}
        assert all(options()[name].unit for name in free)
        for name in METHODS[dg].defaults:
            assert getattr(chosen, name) is not None

    def test_order_follows_the_series(self):
        assert Parameters(dg="prob", model="opdt").sh_order is None
        assert Parameters(dg="prob", model="csd", sh_order=6).sh_order == 6

    def test_a_file_takes_the_place_of_a_model(self):
        chosen = Parameters.given(SH)
        assert (chosen.dg, chosen.source, chosen.model, chosen.sh_order) == ("prob", "sh", None, None)
        assert chosen.pmf_rows == "sh"
        assert Parameters.given({"peaks": "a.nii", "dg": "det"}).det_rule == "max"
        full = Parameters.given({"sh": "a.nii", "sh_basis": "tournier07_full", "sphere": "full"})
        assert full.pmf_rows == "sampled"

    @pytest.mark.parametrize("others", [
        {}, {"dg": "ptt"}, {"dg": "ifod2"}, {"dg": "sd_stream", "sh": "a.mif"}, {"bedpostx": "b"}, {"like": "dipy"},
    ])
    @pytest.mark.parametrize(("files", "rule"), [
        (("stop_map",), "threshold"), (("stop_mask",), "binary"), (("pve_wm", "pve_gm", "pve_csf"), "act"),
        (("pve",), "act"), (("include_map", "exclude_map"), "act"), (("act",), "act5"),
    ])
    def test_files_choose_the_rule_with_every_getter(self, files, rule, others):
        named = dict.fromkeys(files, "map.nii")
        assert Parameters.given(named | others).stopping == rule
        assert Parameters.given(named, Parameters.given(others)).stopping == rule
        for name, row in STOPPING_RULES.items():
            if set(files) <= set(row.maps):
                assert Parameters.given({**named, **others, "stopping": name}).stopping == name
                assert Parameters.given({"stopping": choice("stopping", name)(**named), **others}).stopping == name

    def test_each_map_of_each_rule_chooses_a_rule_that_has_it(self):
        for row in STOPPING_RULES.values():
            for name in row.maps:
                assert name in STOPPING_RULES[rule_for({name})[0]].maps
        assert Parameters.given({"dg": "ifod2", "fa_threshold": 0.2}).stopping == "threshold"

    @pytest.mark.parametrize(("file", "other"), [
        ("stop_map", "act"), ("stop_mask", "act"), ("stop_map", "stop_mask"), ("pve", "act"), ("stop_map", "pve"),
        ("fa_threshold", "act"),
    ])
    def test_files_of_two_rules_are_one_error_that_names_both(self, file, other):
        named = {name: 0.2 if name == "fa_threshold" else "map.nii" for name in (file, other)}
        with pytest.raises(ParameterError, match="chooses the stopping rule") as raised:
            Parameters.given(named)
        assert {file, other} <= set(re.findall(r"\w+", str(raised.value)))

    @pytest.mark.parametrize(("named", "words"), [
        ({"dg": "ifod2", "pft": True}, "stopping binary, the default here: give one of these, or leave pft out"),
        ({"act": "5tt.mif", "pft": True}, "not with act, which chooses stopping act5: give one of these"),
        ({"stopping": "binary", "stop_map": "a.nii"}, "not with stopping binary: leave it out"),
        ({"pmf_threshold": 0.1}, "not with dg boot, the default here"),
    ])
    def test_a_word_that_nobody_gave_is_said_to_be_a_default(self, named, words):
        with pytest.raises(ParameterError, match=words):
            Parameters.given(named)

    @pytest.mark.parametrize(("text", "number"), [
        ("10M", 10_000_000), ("10m", 10_000_000), ("10k", 10_000), ("1.5K", 1500), ("2B", 2 * 10**9), ("1e6", 10**6),
        ("5_000", 5000), ("7", 7), (" 7 ", 7), ("1.0", 1), ("0.5", None), ("1e-3", None), ("k", None), ("10 000", None),
        ("1,000", None), ("0x10", None), ("1e400", None), ("9" * 5000, None), ("", None), ("nan", None), ("10kk", None),
    ])
    def test_counts_have_units_as_those_of_mrtrix(self, text, number):
        assert whole(text) == number
        if number is not None:
            assert Parameters(nseeds=text).nseeds == Parameters(select=text).select == number
        else:
            with pytest.raises(ParameterError, match="give a whole number, such as 5000, 5k or 5M"):
                Parameters(nseeds=text)

    def test_words_may_have_letters_of_any_size(self):
        chosen = Parameters.given({"dg": "iFOD2", "model": "CSD", "stopping": "Binary", "arch": "CPU"})
        assert (chosen.dg, chosen.model, chosen.stopping, chosen.arch) == ("ifod2", "csd", "binary", "cpu")
        assert Parameters(dg="SD-Stream") == Parameters(dg="sd_stream")
        for name, option in options().items():
            for word in option.choices:
                assert check_value(name, option, word.upper(), "word") == word

    @pytest.mark.parametrize(("named", "words"), [
        ({"dg": "Tensor_Det"}, "or fact and the tensor's peaks"),
        ({"dg": "Tensor_Prob"}, "no tensor is fitted"),
        ({"dg": "closest"}, "give det, and det_rule closest"),
        ({"model": "dti"}, "no tensor is (tracked|fitted): give csd"),
        ({"model": "msmt_csd"}, "give msmt"), ({"model": "ss3t"}, "give its orientation functions as sh FILE"),
        ({"like": "tckgen"}, "with tckgen's defaults"),
        ({"like": "cuslines"}, "give like dipy and boot_rule cuslines"),
        ({"dg": "ifod2", "samples": "sub.bedpostX/merged"}, "FSL's samples is bedpostx FOLDER"),
        ({"dg": "none"}, "give one of boot, prob"),
    ])
    def test_words_of_other_programs_get_advice(self, named, words):
        with pytest.raises(ParameterError, match=words):
            Parameters.given(named)

    def test_no_word_of_another_program_is_one_of_ours(self):
        for option in options().values():
            ours = {word.replace("_", "").replace("-", "") for word in option.choices}
            assert not ours & set(option.foreign)
            assert all(word == word.casefold() and "_" not in word and "-" not in word for word in option.foreign)

    def test_b0s_are_among_the_shells_in_any_case(self):
        assert Parameters(shells="0,1000").shells == Parameters(shells="1000").shells == "1000"
        assert Parameters(shells=[3000, 1000, 5]).shells == "1000,3000"
        for value in ("0", "0,-5", "", "a"):
            with pytest.raises(ParameterError, match="b0s are always used"):
                Parameters(shells=value)

    def test_what_has_no_meaning_is_not_recorded(self):
        boot, det = Parameters().as_dict(), Parameters(dg="det").as_dict()
        assert (boot["boot_rule"], boot["det_rule"], boot["pmf_threshold"]) == ("cuslines", None, None)
        assert (det["boot_rule"], det["det_rule"], det["max_angle"]) == (None, "max", 20)
        assert Parameters.given(SH).as_dict()["sm_lambda"] is None

    @pytest.mark.parametrize(
        ("named", "word"),
        [
            ({"dg": "prob", "boot_rule": "dipy"}, "dg boot"),
            ({"dg": "det", "negative_odf": "none"}, "dg boot"),
            ({"det_rule": "max"}, "dg det"),
            ({"dg": "prob", "det_rule": "max"}, "dg det"),
            ({"pmf_threshold": 0.1}, "dg prob"),
            ({"model": "csd"}, "dg prob"),
            ({"dg": "prob", "sm_lambda": 0.1}, "model opdt or csa"),
            ({"fa_response": 0.5}, "model csd"),
            ({**SH, "dg": "boot"}, "dg prob"),
            ({**SH, "model": "csd"}, "exclude each other"),
            ({**SH, "sh_order": 8}, "not with sh"),
            ({**SH, "odf": "b.nii"}, "exclude each other"),
            ({"pmf": "a.nii", "peaks": "b.nii"}, "exclude each other"),
            ({"sh": "a.nii"}, "sh_basis is needed"),
            ({"sh_basis": "tournier07"}, "needs sh"),
            ({"sh": "a.nii", "sh_basis": "tournier"}, "tournier07_legacy"),
            ({"sh": "a.nii", "sh_basis": "tournier07_full"}, "sphere full"),
            ({"sh": "a.nii", "sh_basis": "tournier07_full", "sphere": "full", "pmf_rows": "sh"}, "pmf_rows"),
            ({"odf": "a.nii", "pmf_rows": "sampled"}, "not with odf"),
            ({"odf": "a.nii", "asymmetric": True}, "sphere full"),
            ({**SH, "sphere": "full", "asymmetric": True}, "odf or pmf"),
        ],
    )
    def test_what_has_no_meaning_is_refused(self, named, word):
        with pytest.raises(ParameterError, match=word) as error:
            Parameters.given(named)
        assert "\n" not in str(error.value)
