"""Objects beside keywords only stand for keywords, and come from the rows of the registries."""

import importlib.util
import inspect
import pickle

import nibabel as nib
import numpy as np
import pytest
from places import ROOT
from toys import FADING, STRAIGHTEST

import tistreamlines as ts
from tistreamlines.options.objects import TABLES, arguments_of, class_name, expand
from tistreamlines.tracking.registry import METHODS, STOPPING_RULES

EQUAL = [
    ({"dg": ts.Prob(max_angle=31)}, {"dg": "prob", "max_angle": 31}),
    ({"dg": ts.Det()}, {"dg": "det"}),
    ({"dg": ts.Prob(max_angle=None), "max_angle": 30}, {"dg": "prob", "max_angle": 30}),
    ({"dg": ts.Prob(max_angle=30), "max_angle": 30.0}, {"dg": "prob", "max_angle": 30}),
    ({"dg": ts.Boot(), "model": ts.OPDT(sm_lambda=0.01)}, {"dg": "boot", "model": "opdt", "sm_lambda": 0.01}),
    ({"dg": ts.Ptt(model=ts.CSD(sh_order=6))}, {"dg": "ptt", "model": "csd", "sh_order": 6}),
    ({"stopping": ts.ACT(pve="a.nii", pft=True)}, {"stopping": "act", "pve": "a.nii", "pft": True}),
    ({"stopping": ts.Threshold(fa_threshold=0.2)}, {"stopping": "threshold", "fa_threshold": 0.2}),
    ({"include": ts.Sphere([1, 2, 3], 4)}, {"include": "1.0,2.0,3.0,4.0"}),
    (
        {"include": [ts.Sphere((1, 2, 3), 4), ts.Mask("a.nii"), "b.nii"], "seed_sphere": [ts.Sphere(np.zeros(3), 5)]},
        {"include": ["1,2,3,4", "a.nii", "b.nii"], "seed_sphere": [[0, 0, 0, 5]]},
    ),
    ({"products": [ts.Density("a.nii", voxel=1.5)]}, {"density": "a.nii", "density_voxel": 1.5}),
    ({"products": ts.Density("a.nii", grid="b.nii")}, {"density": "a.nii", "density_grid": "b.nii"}),
]


def plain(parameters):
    """The options as the record has them, numbers of a sphere as they are meant."""
    return {
        name: [[float(part) for part in str(item).split(",")] if "," in str(item) else item for item in value]
        if isinstance(value, list) else value
        for name, value in parameters.as_dict().items()
    }


@pytest.mark.parametrize(("objects", "keywords"), EQUAL)
@pytest.mark.parametrize("make", [ts.Parameters.given, lambda named: ts.Parameters(**named)])
def test_an_object_is_its_keywords(make, objects, keywords):
    chosen, same = make(objects), make(keywords)
    assert plain(chosen) == plain(same)
    assert plain(chosen) != plain(ts.Parameters())
    assert vars(chosen)["_given"].keys() == vars(same)["_given"].keys()
    assert plain(chosen.changed(nseeds=7)) == plain(same.changed(nseeds=7))


def test_objects_override_parameters():
    base = ts.Parameters(dg="prob", max_angle=20, include="1,2,3,4")
    chosen = ts.Parameters.given({"dg": ts.Ptt(max_angle=12)}, base)
    assert (chosen.dg, chosen.max_angle, chosen.include) == ("ptt", 12, ("1,2,3,4",))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"dg": ts.Prob(max_angle=31), "max_angle": 30}, r"^dg is Prob\(max_angle=31\), but max_angle is 30: both"),
        ({"max_angle": 30, "dg": ts.Prob(max_angle=31)}, "^max_angle is 30, but dg is Prob.* both give max_angle"),
        ({"dg": ts.Prob(model=ts.CSD(sh_order=6)), "model": "csa"}, "both give model"),
        ({"dg": ts.Prob(model=ts.CSD(sh_order=6)), "sh_order": 4}, "both give sh_order"),
        ({"products": [ts.Density("a.nii"), ts.Density("b.nii")]}, "^products has Density.* both give density"),
        ({"products": ts.Density("a.nii"), "density": "b.nii"}, "both give density"),
        ({"dg": ts.ACT()}, r"^dg is ACT\(\), a stopping rule: give it as stopping$"),
        ({"dg": ts.Prob(model=ts.Det())}, "^model is Det.*, a direction getter: give it as dg$"),
        ({"density": ts.Density("a.nii")}, "a product: give it as products$"),
        ({"products": ["a.nii"]}, "^products has a str"),
        ({"include": ts.Mask("a.nii", np.eye(4))}, "^Mask has an affine, but a str brings its own"),
        ({"include": ts.Sphere((1, 2, 3), 0)}, "^include is '1.0,2.0,3.0,0.0': give x,y,z,r"),
        ({"include": ts.Sphere((1, 2), 1)}, "^centre has 2 numbers"),
        ({"dg": ts.Prob(max_angle=200)}, "^max_angle is 200.0: give a number above 0 up to 90$"),
        ({"dg": ts.Boot(), "model": ts.CSD()}, "^model csd needs dg prob, det, .*ifod2 or sd_stream, not boot$"),
    ],
)
def test_what_contradicts_or_is_out_of_place_is_refused(options, words):
    with pytest.raises(ts.ParameterError, match=words):
        ts.track("dwi.nii.gz", "dwi.bval", "dwi.bvec", **options)


def test_an_unknown_option_is_refused_at_once():
    with pytest.raises(TypeError, match=r"^Prob: .*'probe_length'; its options are model, .* or peak_width$"):
        ts.Prob(probe_length=2)
    with pytest.raises(ts.ParameterError, match=r"^'probe' is no direction getter: give one of boot, prob"):
        ts.choice("dg", "probe")
    with pytest.raises(AttributeError):
        _ = ts.Probe


def test_an_array_brings_its_affine():
    affine = np.diag([2.0, 2, 2, 1])
    image = expand({"include": ts.Mask(np.ones((2, 2, 2), bool), affine)})["include"]
    assert isinstance(image, nib.Nifti1Image)
    assert np.array_equal(image.affine, affine)
    assert np.array_equal(np.asarray(image.dataobj), np.ones((2, 2, 2)))


class TestRows:
    def test_every_row_has_an_object_of_its_options(self):
        for option, table in TABLES.items():
            for name in table:
                kind = getattr(ts, class_name(option, name))
                assert kind is ts.choice(option, name)
                shown = inspect.signature(kind).parameters
                assert list(shown) == arguments_of(option, name)
                assert all(f"\n{key} : " in kind.__doc__ for key in shown)
        assert inspect.signature(ts.Prob).parameters["max_angle"].default == METHODS["prob"].defaults["max_angle"]
        assert set(inspect.signature(ts.CSD).parameters) == {
            "sh_order", "response", "fa_response", "csd_shells", "csd_lambda",
        }

    def test_a_row_from_outside_has_one_too(self, monkeypatch):
        monkeypatch.setitem(METHODS, "straightest", STRAIGHTEST)
        monkeypatch.setitem(STOPPING_RULES, "fading", FADING)
        straightest = ts.choice("dg", "straightest")(max_angle=12)
        rule = ts.choice("stopping", "fading")(stop_map="a.nii")
        assert repr(straightest) == "Straightest(max_angle=12)"
        chosen = ts.Parameters(dg=straightest, stopping=rule)
        assert (chosen.dg, chosen.max_angle, chosen.stopping, str(chosen.stop_map)) == (
            "straightest", 12, "fading", "a.nii",
        )

    def test_it_can_be_sent_to_another_process(self):
        again = pickle.loads(pickle.dumps(ts.Ptt(probe_length=2)))
        assert isinstance(again, ts.Ptt)
        assert expand({"dg": again}) == {"dg": "ptt", "probe_length": 2}

    def test_editors_know_them(self):
        spec = importlib.util.spec_from_file_location("stub", ROOT / "docs" / "stub.py")
        stub = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(stub)
        assert stub.STUB.read_text(encoding="utf-8") == stub.stub(), "run python docs/generate.py"
        assert "class ACT(Choice)" in stub.stub()
