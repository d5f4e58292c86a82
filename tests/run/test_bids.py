"""``--bids-out``: names, sidecars and the description of the derivative."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from commands import one_line

import tistreamlines as ts
from tistreamlines.run import bids
from tistreamlines.space.batch import Space

SERIES = "sub-01_ses-a_acq-multi_run-2_space-T1w_desc-preproc_dwi"
START = "sub-01_ses-a_acq-multi_run-2_space-T1w"


@pytest.fixture(scope="module")
def tracked(head, tmp_path_factory):
    """A run whose series has a BIDS name: the result and the folder."""
    folder = tmp_path_factory.mktemp("bids")
    series = [folder / f"{SERIES}{suffix}" for suffix in (".nii.gz", ".bval", ".bvec")]
    for source, other in zip(head.series, series, strict=True):
        shutil.copy(source, other)
    options = {"mask": head.mask, "cache_dir": head.cache, "arch": "cpu", "nseeds": 50, "dg": "det", "max_length": 90}
    result = ts.track(*series, bids_out=folder / "out", density="auto", **options)
    return result, folder


@pytest.mark.parametrize(("file", "options", "name"), [
    (f"{SERIES}.nii.gz", {}, f"sub-01/ses-a/dwi/{START}_tract-wholebrain_track-boot_tractogram.trx"),
    ("sub-x2_dwi.mif", {"dg": "ptt"}, "sub-x2/dwi/sub-x2_tract-wholebrain_track-ptt_tractogram.trx"),
    # streamlines of a bundle are not those of the whole brain
    ("sub-1_dwi.nii", {"include": ["1,2,3,4"]}, "sub-1/dwi/sub-1_track-boot_tractogram.trx"),
])
def test_names_have_the_entities_of_the_series(file, options, name):
    path, _ = bids.named(f"/data/{file}", None, ts.Parameters.given({"bids_out": "out", **options}))
    assert path == Path("out", name)


@pytest.mark.parametrize("file", ["dwi.nii.gz", "sub-01_bold.nii.gz", "sub-01_b0_dwi.nii.gz", "sub-_dwi.nii"])
def test_other_names_are_one_line(file, run, tmp_path):
    outcome = run("track", file, "a.bval", "a.bvec", "--bids-out", tmp_path / "out")
    one_line(outcome, 2, file, "name it like sub-01_dwi.nii.gz")
    assert not (tmp_path / "out").exists()


def test_what_cannot_be_is_one_line(run, tmp_path):
    series = ("track", "sub-01_dwi.nii.gz", "a.bval", "a.bvec", "--bids-out", tmp_path / "out")
    one_line(run(*series, "-o", "a.trx"), 2, "leave out --output a.trx")
    one_line(run(*series), 1, "no such file")
    assert not (tmp_path / "out").exists()  # the folders of a run that fails are removed
    with pytest.raises(ts.ParameterError, match="bids_out takes the names from dwi, and dwi is not a file"):
        ts.track(sh="fod.nii.gz", sh_basis="tournier07", stop_map="fa.nii.gz", bids_out=tmp_path / "out")


def test_files_are_where_they_belong(tracked):
    result, folder = tracked
    paths = sorted(str(path.relative_to(folder / "out")) for path in (folder / "out").rglob("*.*"))
    stem = f"sub-01/ses-a/dwi/{START}"
    assert paths == sorted([
        "dataset_description.json", *(f"{stem}_tract-wholebrain_track-det_tractogram.{end}" for end in ("trx", "json")),
        *(f"{stem}_model-{result.parameters.model}_desc-det_param-density_dwimap.{end}" for end in ("nii.gz", "json")),
    ])
    assert result.density is not None
    description = json.loads((folder / "out" / "dataset_description.json").read_text())
    assert description["DatasetType"] == "derivative"
    assert description["GeneratedBy"] == [{"Name": "tistreamlines", "Version": ts.__version__}]
    assert "Model" in json.loads(next((folder / "out").rglob("*_dwimap.json")).read_text())


def test_the_sidecar_has_the_fields_of_the_proposal(tracked):
    result, folder = tracked
    sidecar = json.loads(next((folder / "out").rglob("*_tractogram.json")).read_text())
    dwi = str(folder / f"{SERIES}.nii.gz")
    assert sidecar["made_by"] == "tistreamlines"  # it is the record as well
    assert sidecar["StreamlineSeeding"] == {
        "Sources": [{"Type": "Random", "Source": dwi, "Unidirectional": False}],
        "AcceptanceCriteria": [{"Metric": "fractional anisotropy", "Source": dwi, "Threshold": 0.25}],
    }
    propagation = sidecar["StreamlinePropagation"]
    assert {"Algorithm", "Interpolation", "InterpolationOrder", "Source"} <= set(propagation)
    assert propagation["StepSize"] == sidecar["step_mm"]
    assert propagation["AnglePerStep"] == result.parameters.max_angle
    assert sidecar["StreamlineTermination"]["Anisotropy"] == [
        {"Metric": "fractional anisotropy", "Source": dwi, "Threshold": 0.1}
    ]
    assert sidecar["StreamlineAcceptanceCriteria"]["MaximumLength"] == 90
    assert sidecar["StreamlineAcceptanceCriteria"]["MinimumLength"] == pytest.approx(5 * result.space.voxel_sizes.min())
    assert sidecar["StreamlineReconstructionDensity"] == {"Seeds": 50}


@pytest.mark.parametrize(("options", "source"), [
    ({"seed_mask": "wm.nii.gz", "seeds_per_voxel": 3}, {"Type": "RandomPerElement", "Source": "wm.nii.gz",
                                                        "SeedsPerElement": 3}),
    ({"seed_mask": "wm.nii.gz", "seed_grid": 2}, {"Type": "GridPerElement", "Source": "wm.nii.gz",
                                                  "SeedsPerElement": 8}),
    ({"seed_image": "wm.nii.gz"}, {"Type": "RejectionSampling", "Source": "wm.nii.gz"}),
    ({"seeds": "s.txt"}, {"Type": "CountPerElement", "Source": "s.txt", "SeedsPerElement": 1}),
    ({"seed_gmwmi": "5tt.nii"}, {"Type": "Random", "Source": "5tt.nii"}),
    ({"seed_gmwmi": "act", "act": "5tt.nii"}, {"Type": "Random", "Source": "5tt.nii"}),
    ({"seed_dynamic": "tracked", "dg": "prob"}, {"Type": "Random", "Source": "dwi.nii.gz"}),
    ({"seed_dynamic": "tracked", "sh": "fod.mif"}, {"Type": "Random", "Source": "fod.mif"}),
    ({"seed_surface": "lh.white", "seed_mask": "wm.nii.gz"}, {"Type": "Random", "Source": "lh.white"}),
    ({"seed_surface": ["lh.white"], "seeds_per_vertex": 2}, {"Type": "CountPerElement", "Source": "lh.white",
                                                             "SeedsPerElement": 2}),
])
def test_seeding_is_told_in_the_words_of_the_proposal(options, source):
    parameters, space = ts.Parameters.given(options), Space(np.diag([2.0, 2.0, 2.0, 1.0]), (9, 9, 9))
    seeding = bids.metadata(parameters, "dwi.nii.gz", space, 1.0)["StreamlineSeeding"]
    assert seeding == {"Sources": [source | {"Unidirectional": False}]}


def test_each_surface_is_a_source():
    parameters, space = ts.Parameters.given({"seed_surface": ["lh.white", "rh.white"]}), Space(np.eye(4), (9, 9, 9))
    sources = bids.metadata(parameters, "dwi.nii.gz", space, 1.0)["StreamlineSeeding"]["Sources"]
    assert [source["Source"] for source in sources] == ["lh.white", "rh.white"]


@pytest.mark.parametrize(("options", "masks"), [
    ({"dg": "ifod2", "mask": "m.nii"}, ["m.nii"]), ({"dg": "ifod2", "mask": "m.nii", "stop_mask": "s.nii"}, ["s.nii"]),
    ({"dg": "prob", "mask": "m.nii"}, None),
])
def test_masks_that_end_streamlines_are_told(options, masks):
    space = Space(np.diag([2.0, 2.0, 2.0, 1.0]), (4, 4, 4))
    sidecar = bids.metadata(ts.Parameters.given(options), "dwi.nii", space, 0.5)
    assert sidecar["StreamlineTermination"].get("Masks") == masks
    longest = sidecar["StreamlineTermination"].get("MaximumLength")
    assert longest == (200.0 if options["dg"] == "ifod2" else None)


@pytest.mark.parametrize(("options", "files"), [
    ({"act": "5tt.nii"}, "5tt.nii"), ({"act": "bert", "seed_mask": "m.nii"}, "bert"), ({"pve": "pve.nii"}, "pve.nii"),
    ({"stopping": "act5", "pve_wm": "w.nii", "pve_gm": "g.nii", "pve_csf": "c.nii", "sgm": "s.nii"},
     ["w.nii", "g.nii", "c.nii", "s.nii"]),
    ({"model": "msmt", "dg": "prob", "pve": "fitted"}, None), ({}, None),
])
def test_images_of_tissues_are_told(options, files):
    space = Space(np.diag([2.0, 2.0, 2.0, 1.0]), (4, 4, 4))
    sidecar = bids.metadata(ts.Parameters.given(options), "dwi.nii", space, 0.5)
    assert sidecar["StreamlineTermination"].get("AnatomicalSegmentation") == files
