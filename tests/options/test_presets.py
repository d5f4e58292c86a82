"""Presets: each sets defaults of options, any option overrides them, and a command and its record tell both."""

import json

import nibabel as nib
import numpy as np
import pytest
from head import SHAPE, make_head
from nights import at_night

import tistreamlines as ts
from tistreamlines.errors import ParameterError
from tistreamlines.options.definitions import options
from tistreamlines.options.parameters import Parameters
from tistreamlines.options.preset_options import with_preset
from tistreamlines.options.presets import PRESETS
from tistreamlines.run.cluster import _Job

FILES = {"act": "5tt.mif", "connectome": ("aparc.nii.gz", "c.csv")}


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_what_its_options_are(name):
    """With the images that it needs, none of them is without effect or in another's way."""
    preset = Parameters.given({"preset": name, **FILES})
    assert set(PRESETS[name].options) <= set(options())
    assert not with_preset({"preset": name, **FILES}).left_out
    same = Parameters.given(FILES | PRESETS[name].options)
    assert preset.as_dict() == same.as_dict() | {"preset": name}
    assert all(preset.gives(option) for option in PRESETS[name].options)


def test_presets_are_the_pipelines():
    """The numbers of their public commands, for whoever changes the table by mistake."""
    qsirecon, ukb, basic = (Parameters.given({"preset": name, **FILES}) for name in PRESETS)
    assert (qsirecon.select, qsirecon.power, qsirecon.seed_dynamic) == (10_000_000, 0.33, "tracked")
    assert (qsirecon.min_mm([2.0]), qsirecon.max_mm([2.0]), qsirecon.connectome_radius) == (30, 250, 2)
    assert qsirecon.backtrack and qsirecon.crop_at_gmwmi and not qsirecon.connectome_zero_diagonal
    assert (ukb.nseeds, ukb.select, ukb.samples, ukb.power, ukb.cutoff) == (10_000_000, None, 3, 0.5, 0.1)
    assert ukb.sgm_amyg_hipp and not ukb.backtrack and not ukb.crop_at_gmwmi
    assert (basic.select, basic.backtrack, basic.weights) == (10_000_000, True, None)
    assert {p.dg for p in (qsirecon, ukb, basic)} == {"ifod2"}
    assert all(p.model == "msmt" and p.normalise and p.stopping == "act5" for p in (qsirecon, ukb, basic))


@pytest.mark.parametrize(("options", "without"), [
    ({"seed_mask": "wm.nii"}, {"seed_dynamic": "because of --seed-mask"}),
    ({"nseeds": 500}, {"select": "because of --nseeds"}),
    ({"sh": "fod.mif"}, {"model": "because of --sh", "normalise": "for lack of --model msmt"}),
    ({"model": "csd"}, {"normalise": "for lack of --model msmt"}),
    ({"dg": "ifod1"}, {}),
    ({"dg": "prob"}, {"power": "for lack of --dg ifod1 or ifod2"}),
    ({"stop_mask": "wm.nii", "act": None}, {
        "stopping": "because of --stop-mask", "backtrack": "for lack of --stopping act, cmc or act5",
        "crop_at_gmwmi": "for lack of --act",
    }),
    ({"connectome": None}, dict.fromkeys(("connectome_radius", "connectome_measure"), "for lack of --connectome")),
    ({"dg": "det"}, {
        "power": "for lack of --dg ifod1 or ifod2", "backtrack": "for lack of random steps with --dg det",
    }),
    ({"model": "opdt"}, {
        "dg": "because of --model", "normalise": "for lack of --model msmt", "power": "for lack of --dg ifod1 or ifod2",
    }),
    ({"resume": True}, {}),
    ({"connectome_assignment": "end-voxel"}, {"connectome_radius": "because of --connectome-assignment end-voxel"}),
    ({"connectome_measure": ("qsirecon",)}, {}),  # whose nodes are within 2 mm, as those of the preset
    ({"preset": "ukb-connectome", "connectome_measure": ("qsirecon",)}, {
        "connectome_radius": "because of --connectome-measure qsirecon",
    }),
    ({"preset": "mrtrix-basic", "stop_mask": "wm.nii", "act": None}, {
        "stopping": "because of --stop-mask", "backtrack": "for lack of --stopping act, cmc or act5",
        "seed_gmwmi": "for lack of --stopping act5",
    }),
])
def test_options_of_a_user_override(options, without):
    named = {name: value for name, value in ({"preset": "qsirecon-msmt-act"} | FILES | options).items() if value}
    expansion = with_preset(named)
    assert expansion.left_out == without
    chosen = Parameters.given(named)
    for name, value in options.items():
        assert value is None or getattr(chosen, name) == value
    assert not any(chosen.gives(name) for name in without if name not in options)


def test_flags_and_numbers_override():
    chosen = Parameters.given({"preset": "qsirecon-msmt-act", **FILES, "backtrack": False, "power": 0.25, "select": 7})
    assert (chosen.backtrack, chosen.power, chosen.select, chosen.crop_at_gmwmi) == (False, 0.25, 7, True)
    later = Parameters.given({"seed_mask": "wm.nii"}, chosen)  # of which the preset knew nothing
    assert (later.seed_dynamic, later.seed_mask, later.backtrack) == (None, "wm.nii", False)
    assert "power=0.25" in repr(chosen) and "max_length" not in repr(chosen)
    assert chosen.changed(threads=1).as_dict() == chosen.as_dict() | {"threads": 1}


def test_words_of_other_programs_are_known():
    assert Parameters.given({"preset": "ukb-connectome", **FILES, "dg": "iFOD1"}).dg == "ifod1"
    with pytest.raises(ParameterError, match="dg has no 'tensor': no tensor is fitted"):
        Parameters.given({"preset": "ukb-connectome", **FILES, "dg": "tensor"})


def test_an_array_stands_in_no_way():
    values = np.zeros((2, 2, 2), np.uint8)
    chosen = Parameters.given({"preset": "ukb-connectome", "act": values, "seed_mask": values, "sh": "fod.mif"})
    assert (chosen.seed_gmwmi, chosen.samples) == ("act", 3)


def test_an_unknown_preset_is_named(run):
    with pytest.raises(ParameterError, match="preset is 'qsi': give one of qsirecon-msmt-act, ukb-connectome, mrtrix"):
        Parameters.given({"preset": "qsi"})
    assert "'qsi'" in run("track", "--preset", "qsi", "--sh", "fod.mif", "-o", "o.trx").err


def test_images_are_still_needed(run):
    common = ("track", "--sh", "fod.mif", "-o", "o.trx", "--preset")
    done = run(*common, "ukb-connectome")
    assert "Error: --seed-gmwmi act takes the five tissues of the stopping rule: give --act" in done.err


@pytest.fixture(scope="module")
def head(tmp_path_factory):
    folder = make_head(tmp_path_factory.mktemp("preset"))
    nodes = np.indices(SHAPE)[0] // 8 + 1
    nib.save(nib.Nifti1Image(nodes.astype(np.int16), np.diag([2.0, 2, 2, 1])), folder / "nodes.nii.gz")
    return folder


def test_a_command_prints_and_records_what_it_stands_for(head, tmp_path, run):
    common = ("track", "--sh", head / "fod.nii.gz", "--sh-basis", "tournier07", "--act", head / "5tt.nii.gz", "--arch",
              "cpu", "--nseeds", 100)
    matrix = ("--connectome", head / "nodes.nii.gz", tmp_path / "c.csv")
    done = run(*common, "--preset", "mrtrix-basic", "--no-backtrack", *matrix, "-o", tmp_path / "a.trx")
    assert done.code == 0, done
    first, *lines = done.err.splitlines()
    assert first == "--preset mrtrix-basic (MRtrix3's tutorial B.A.T.M.A.N., Tahedl 2018) stands for:"
    assert [line for line in lines if line.startswith("  ")] == [
        "  --dg ifod2", "  --stopping act5", "  --seed-gmwmi act", "  --connectome-measure inverse-volume",
        "  --connectome-zero-diagonal", "  --connectome-pairs", "  without --model: because of --sh",
        "  without --normalise: for lack of --model msmt", "  without --select: because of --nseeds",
    ]
    record = json.loads((tmp_path / "a.json").read_text())["parameters"]
    assert [record[name] for name in ("preset", "dg", "seed_gmwmi", "select")] == ["mrtrix-basic", "ifod2", "act", None]
    assert record["connectome_measure"] == ["inverse-volume"]
    assert not record["backtrack"]
    spelled = [word for line in lines if line.startswith("  --") for word in line.split()]
    again = run(*common, *spelled, "--connectome", head / "nodes.nii.gz", tmp_path / "d.csv", "-o", tmp_path / "b.trx")
    assert again.code == 0, again
    assert "stands for" not in again.err
    for first, second in (("a.trx", "b.trx"), ("c.csv", "d.csv"), ("c_pairs.tsv", "d_pairs.tsv")):
        assert (tmp_path / first).read_bytes() == (tmp_path / second).read_bytes()
    quiet = run(*common, "--preset", "mrtrix-basic", "--no-backtrack", "-q", "-o", tmp_path / "q.trx")
    assert quiet.code == 0 and "stands for" not in quiet.err


def test_reasons_have_a_line():
    text = str(with_preset({"preset": "mrtrix-basic", "act": "5tt.mif", "part": "1/2"}))
    assert text.splitlines()[-2:] == [
        "  without --select: because of --part",
        "  without --connectome-measure, --connectome-zero-diagonal, --connectome-pairs: for tistreamlines join",
    ]


def test_parts_and_their_join_have_the_options(head, tmp_path):
    """The client of a cluster says what a preset stands for, so that join knows its matrices."""
    subject = {"preset": "mrtrix-basic", "sh": head / "fod.nii.gz", "sh_basis": "tournier07", "nseeds": 100,
               "act": head / "5tt.nii.gz", "connectome": (head / "nodes.nii.gz", tmp_path / "c.csv"),
               "output": tmp_path / "out.trx"}
    job = _Job(0, subject, 2, 2)
    assert job.arguments["connectome_measure"] == ("inverse-volume",)
    part = {**job.arguments, "part": "1/2"} | dict.fromkeys(("connectome", "connectome_measure", "connectome_pairs",
                                                            "connectome_zero_diagonal"))
    del part["output"]
    chosen = Parameters.given(part)
    assert (chosen.backtrack, chosen.connectome_measure) == (True, None)
    with pytest.raises(ParameterError, match="weights sift2 needs sift2"):  # which parts cannot have
        _Job(0, subject | {"preset": "ukb-connectome"}, 2, 2)


@pytest.mark.parametrize(("preset", "name", "value"), [
    ("mrtrix-basic", "backtrack", True), *at_night(("qsirecon-msmt-act", "seed_dynamic", "tracked")),
])
def test_python_has_the_keyword(head, preset, name, value):
    image = {"sh": head / "fod.nii.gz", "sh_basis": "tournier07"}
    common = image | {"act": head / "5tt.nii.gz", "nseeds": 50, "arch": "cpu"}
    result = ts.track(**common, preset=preset)
    assert getattr(result.parameters, name) == value
    assert result.record["parameters"]["preset"] == preset
    assert result.record["parameters"][name] == value
