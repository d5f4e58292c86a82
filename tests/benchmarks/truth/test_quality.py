"""The benchmark of known bundles: what tracks, the FiberCup, and how rows become means and pictures."""

import importlib.util
import itertools
import json
import shutil
import sys

import nibabel as nib
import numpy as np
import pytest
from places import DATA, ROOT
from truth.fibercup import BUNDLES, ENDS, REACH, FiberCup
from truth.means import means
from truth.peaks import peaks_of
from truth.scan import Scan
from truth.truth import Truth
from truth.ways import one_shell, shells, ways

from tistreamlines.fit.coherence import FLIPPED_X
from tistreamlines.fit.frames import AS_GIVEN, gradient_scores
from tistreamlines.io.nifti import load_dwi

pytestmark = [
    pytest.mark.filterwarnings("ignore::PendingDeprecationWarning"),  # DIPY's, at each use of a legacy basis
]
MEASURED = DATA / "fibercup"
needs_mrtrix = pytest.mark.skipif(not shutil.which("dwi2response"), reason="no MRtrix3 (Debian's package mrtrix3)")
needs_fibercup = pytest.mark.skipif(not MEASURED.exists(), reason="the FiberCup is not in ../shared/data")


def script(name):
    """A script of benchmarks/."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# -------------------------------------------------------------------------------------------------------------- ways
SCANS = ["1000+2500:40:45+45:4", pytest.param("2500:40:45:4", marks=pytest.mark.nightly)]


@pytest.fixture(scope="module", params=SCANS)
def crossings(request, tmp_path_factory):
    """A phantom on disk, of two shells and, nightly, of one."""
    folder, truth = tmp_path_factory.mktemp("crossings"), Truth("crossings", Scan.read(request.param), 4)
    truth.save(folder)
    return truth, folder


@pytest.mark.nightly
@pytest.mark.parametrize(
    "way", ["det", "det-like-dipy", "dipy-det", pytest.param("mrtrix-msmt-ifod2", marks=needs_mrtrix)]
)
def test_ways_follow_the_fibres(crossings, way):
    """Peaks are those of the bundles, so bases and axes are right, and most bundles are met.

    Nightly: by day, the script scores a way.
    """
    truth, folder = crossings
    chosen = ways()[way]
    scores = truth.score(chosen.track(truth, folder, 400))
    assert scores["valid_bundles"] >= 50
    scores = truth.peak_scores(peaks_of(chosen.functions(truth, folder), truth.white))
    assert scores["peak_error"] < 12
    assert scores["fibres_missed"] < 25


def test_one_shell_is_the_highest_that_is_not_too_high(tmp_path):
    for bvals, expected in (((0, 1000, 3000, 0, 3000), 3000), ((0, 1000, 5000), 1000), ((5, 4000, 6000), 4000)):
        np.savetxt(tmp_path / "dwi.bval", np.array(bvals)[None])
        assert one_shell(tmp_path) == expected
        assert list(shells(tmp_path)) == sorted({b for b in bvals if b > 5})


def test_ways_that_follow_the_same_functions_share_them():
    known = ways()
    assert known["boot"].functions is None
    assert known["prob"].functions is known["det"].functions is known["ptt"].functions
    assert known["prob"].functions is not known["prob-like-dipy"].functions
    assert known["dipy-det"].functions is known["dipy-prob"].functions


# ---------------------------------------------------------------------------------------------------------- FiberCup
@pytest.fixture
def fibercup(tmp_path):
    """Files of the FiberCup's form, all of them fibres."""
    rng, folder = np.random.default_rng(1), tmp_path / "fibercup"
    folder.mkdir()
    for name, image in (
        ("wm_mask", np.ones((64, 64, 3))), ("acq-averaged_b-1500", rng.uniform(1, 2, (64, 64, 3, 8))),
    ):
        nib.save(nib.Nifti1Image(image.astype(np.float32), np.diag([3.0, 3, 3, 1])), folder / f"{name}.nii.gz")
    np.savetxt(folder / "b1500.bval", [[0, *[1500] * 7]])
    vectors = rng.normal(size=(7, 3))
    np.savetxt(folder / "dirs64.bvec", np.vstack([np.zeros(3), vectors / np.linalg.norm(vectors, axis=1)[:, None]]).T)
    return FiberCup(folder, 2)


def between(*ends, slice_mm=3.0):
    """A line between two ends, mm."""
    first, last = (np.array([*ENDS[name], slice_mm / 3]) * 3 for name in ends)
    return np.linspace(first, last, 9)


def test_lines_between_the_ends_of_a_bundle_are_valid(fibercup):
    valid = [between(*pair, slice_mm=z) for pair, z in itertools.product(BUNDLES, (0, 6))]
    joined = {frozenset(pair) for pair in BUNDLES}
    invalid = [between(*pair) for pair in itertools.combinations(ENDS, 2) if frozenset(pair) not in joined]
    assert (len(valid), len(invalid)) == (14, 66 - 7)
    scores = fibercup.score(valid)
    assert (scores["VC"], scores["valid_bundles"]) == (100, 100)
    assert fibercup.score(invalid)["IC"] == 100
    assert fibercup.score([line[:5] for line in valid])["NC"] == 100  # halves
    scores = fibercup.score(valid[:2] + invalid[:2])
    assert (scores["VC"], scores["IC"], scores["valid_bundles"]) == (50, 50, pytest.approx(100 / 7))
    lengths = [np.linalg.norm(line[-1] - line[0]) for line in valid[:2] + invalid[:2]]
    assert (scores["mm"], scores["median_mm"]) == pytest.approx((np.mean(lengths), np.median(lengths)))


def test_the_fibercups_points_and_signals_stay_where_they_were(fibercup, tmp_path):
    """Though the first axis is turned round."""
    fibercup.save(tmp_path)
    turned, image = (nib.load(folder / name) for folder, name in (
        (tmp_path, "dwi.nii.gz"), (fibercup.folder, "acq-averaged_b-1500.nii.gz")))
    assert np.linalg.det(turned.affine) < 0
    for point in fibercup.seeds(20):
        voxels = (nib.affines.apply_affine(np.linalg.inv(stored.affine), point) for stored in (turned, image))
        here, there = (
            stored.get_fdata()[tuple(np.rint(voxel).astype(int))]
            for stored, voxel in zip((turned, image), voxels, strict=True)
        )
        assert np.array_equal(here, there)
    raw = np.loadtxt(fibercup.folder / "dirs64.bvec")
    assert np.allclose(np.loadtxt(tmp_path / "dwi.bvec"), raw * [[-1], [1], [1]])


def test_coherence_is_one_of_parallel_peaks(fibercup):
    peaks = np.zeros((64, 64, 3, 2, 3))
    peaks[..., 0, :] = [0.6, 0.8, 0]
    assert fibercup.peak_scores(peaks)["coherence"] > 0.8  # paths at the border leave the image
    crossed = peaks.copy()
    crossed[::2, :, :, 0] = [0.8, -0.6, 0]
    assert fibercup.peak_scores(crossed)["coherence"] < 0.5


@needs_fibercup
def test_the_measured_fibercup_has_its_ends_and_axes(tmp_path):
    known = FiberCup(MEASURED, 1)
    places = np.argwhere(known.white) @ known.affine[:3, :3].T + known.affine[:3, 3]
    for end in ENDS.values():
        near = np.linalg.norm(places[:, :2] / 3 - end, axis=1) < REACH
        assert 15 < near.sum() < 100  # a branch of about 4 voxels' width ends there
    known.save(tmp_path)
    dwi = load_dwi(*(tmp_path / f"dwi.{suffix}" for suffix in ("nii.gz", "bval", "bvec")))
    scores = gradient_scores(dwi, known.mask)
    assert scores[AS_GIVEN].mean() > 1.3 * scores[FLIPPED_X].mean()


# ------------------------------------------------------------------------------------------------------ rows, pictures
def row(way, bval, seed=1, **scores):
    return {"way": way, "geometry": "kissing", "bval": bval, "snr": 20.0, "directions": 64, "voxel_mm": 2.0,
            "seed": seed, **scores}


def test_means_are_those_of_the_rows_of_a_way_and_scan():
    table = means([
        row("det", 3000.0, VC=50.0, r=0.5), row("prob", 3000.0, VC=20.0), row("det", 3000.0, 2, VC=60.0, r=0.7),
        row("prob", 3000.0, 2, failed="no response"), row("det", 1000.0, VC=1.0), row("det", "1000+3000", VC=3.0),
        row("boot", 3000.0, failed="no response"), row("prob", 3000.0, 3, VC=40.0, peak_error=9.0),
    ])
    scan = ("20", "64", "2")
    assert [(scan, way, list(scores)) for scan, way, scores in table] == [
        (("1000", *scan), "det", ["VC"]), (("3000", *scan), "det", ["VC", "r"]), (("3000", *scan), "prob", ["VC"]),
        (("1000+3000", *scan), "det", ["VC"]),
    ]
    assert table[1][2] == pytest.approx({"VC": 55, "r": 0.6})
    assert table[2][2] == pytest.approx({"VC": 30})


def test_the_script_scores_ways_and_tells_why_one_fails(tmp_path, monkeypatch, capsys):
    out = tmp_path / "scores.json"
    command = "quality.py --geometries narrow --scans 2000:30:20:4 --nseeds 60 --ways det"
    more = "--set wide dg=prob max_angle=40 --set without dg=det response=fa fa_response=1"
    monkeypatch.setattr(sys, "argv", [*command.split(), *more.split(), "--out", str(out)])
    script("quality").main()
    rows = {row["way"]: row for row in json.loads(out.read_text())["rows"]}
    assert list(rows) == ["det", "wide", "without"]
    for way in ("det", "wide"):
        assert {"VC", "IC", "NC", "r", "median_mm", "peak_error", "fibres_missed"} <= set(rows[way])
    assert rows["det"]["peak_error"] == rows["wide"]["peak_error"]
    assert "has an FA above 1" in rows["without"]["failed"]
    assert str(tmp_path) not in rows["without"]["failed"]
    assert "peak_error" in capsys.readouterr().out.splitlines()[0]


def test_the_picture_has_a_point_for_each_way_and_scan(tmp_path):
    from matplotlib import pyplot as plt

    kept = [row(way, bval, VC=50.0, r=0.5) for way in ("det", "dipy-det") for bval in (1000.0, "1000+3000")]
    script("quality_picture").draw(means(kept), tmp_path / "scores.png")
    assert (tmp_path / "scores.png").read_bytes().startswith(b"\x89PNG")
    figure = plt.gcf()
    for axes in figure.axes:
        points = np.concatenate([dots.get_offsets() for dots in axes.collections])
        assert sorted(points[:, 1]) == [0, 0, 1, 1]
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["det", "dipy-det"]
    plt.close(figure)
