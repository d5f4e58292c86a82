"""Warnings of runs nearly all of whose halves end for one reason that hints at a mistake."""

import json

import nibabel as nib
import numpy as np
import pytest
from dipy.core.sphere import Sphere

import tistreamlines as ts
from tistreamlines.kernels.stop_reasons import DROPPED, Stop
from tistreamlines.options.parameters import Parameters
from tistreamlines.run.ends import (
    FEWEST,
    LONG,
    MOST,
    SMALL_ANGLE,
    STIFF,
    WHERE_DROPPED,
    cannot_bend,
    doubt,
    doubts_of_steps,
    nothing,
)
from tistreamlines.space.sphere import load_sphere
from tistreamlines.tracking.registry import METHODS


@pytest.mark.filterwarnings("ignore::UserWarning")
class TestRuns:
    @pytest.fixture(scope="class")
    def series(self, head):
        return head.options

    def track(self, series, **options):
        return ts.track(**series, nseeds=150, dg="det", model="csa", **options).warnings

    def test_ordinary(self, series):
        assert self.track(series) == ()

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"max_angle": 0.35}, ("max_angle 0.35", "straight lines", "not in radians")),
            ({"step_size": 0.00125}, ("max_steps 500, at 0.625 mm", "step_size")),
        ],
    )
    def test_a_mistake(self, series, options, words):
        *empty, said = self.track(series, **options)
        assert all(word in said for word in words)
        assert all("no streamline was accepted" in text for text in empty)

    def test_fa_times_1000(self, series, head, tmp_path):
        white = np.sum([bundle.membership for bundle in head.phantom.bundles], axis=0) * 0.6 + 0.05 * head.phantom.mask
        for name, factor in (("fa", 1), ("fa1000", 1000)):
            image = nib.Nifti1Image((white * factor).astype(np.float32), head.phantom.affine)
            nib.save(image, tmp_path / f"{name}.nii")
        assert self.track(series, stop_map=tmp_path / "fa.nii") == ()
        (said,) = self.track(series, stop_map=tmp_path / "fa1000.nii")
        assert "give stop_threshold in the unit of the map" in said
        assert self.track(series, stop_map=tmp_path / "fa1000.nii", stop_threshold=100) == ()
        nib.save(nib.Nifti1Image(head.phantom.mask * np.int16(255), head.phantom.affine), tmp_path / "mask.nii")
        assert self.track(series, stop_map=tmp_path / "mask.nii") == (), "any value may stand for inside"

    def test_it_is_recorded(self, series, tmp_path):
        self.track(series, max_angle=0.35, output=tmp_path / "a.trx")
        (said,) = json.loads((tmp_path / "a.json").read_text())["warnings"]
        assert "--max-angle 0.35" in said


class TestNothing:
    """A run without streamlines says so, why, and what to try."""

    WORDS = ("no streamline was accepted from 40 seeds", "most were dropped: shorter than the minimum length (",
             "most halves ended: ", "lower --min-length")
    FORMS = (
        ("-o", "a.trx"), ("-o", "a.trk"), ("-o", "a.tck"), ("-o", "a.trx", "--resume"), ("--density", "d.nii.gz"),
        ("-o", "a.trx", "--density", "d.nii.gz", "--report", "r.html"), ("-o", "a.trx", "--select", "5"),
        ("--select", "5", "--ends", "e.nii.gz"),
    )

    @pytest.mark.parametrize("form", FORMS, ids=" ".join)
    def test_every_form_of_output(self, run, head, tmp_path, form):
        words = [tmp_path / word if "." in word else word for word in form]
        common = ("--mask", head.mask, "--cache-dir", head.cache)
        words += ["--max-seeds", 40] if "--select" in form else ["--nseeds", 40]
        done = run("track", *head.series, *common, "--arch", "cpu", "--min-length", 1000, "-q", *words)
        assert done.code == 0
        assert done.err.count("no streamline was accepted") == 1
        assert all(word in done.err for word in self.WORDS)
        (record,) = (json.loads(file.read_text()) for file in tmp_path.glob("[ade].json"))
        assert record["result"]["streamlines"] == 0
        assert any("no streamline was accepted" in text for text in record["warnings"])

    def test_python_streams_and_joined_parts(self, run, head, tmp_path):
        options = head.options | {"nseeds": 40, "min_length": 1000}
        with pytest.warns(UserWarning, match="no streamline was accepted from 40 seeds; .*lower min_length"):
            result = ts.track(**options)
        assert "no streamline" in result.warnings[0]
        with pytest.warns(UserWarning, match="no streamline was accepted from 40 seeds"):
            assert not sum(len(batch) for batch in ts.stream(**options))
        parts = [tmp_path / f"{number}.trx" for number in (1, 2)]
        for number, path in enumerate(parts, 1):
            with pytest.warns(UserWarning, match=f"part {number}/2: no streamline was accepted from 20 seeds"):
                ts.track(**options, output=path, part=f"{number}/2")
        with pytest.warns(UserWarning, match="^no streamline was accepted from 40 seeds; most were dropped: shorter"):
            ts.join(parts, tmp_path / "whole.trx")
        assert "no streamline was accepted from 40" in json.loads((tmp_path / "whole.json").read_text())["warnings"][-1]
        done = run("map", tmp_path / "whole.trx", "--density", tmp_path / "d.nii.gz", "-q")
        assert "whole.trx: has no streamlines" in done.err

    def test_reasons_that_were_most_frequent(self):
        for verdict in DROPPED:
            said = nothing(7, {verdict.name.lower(): 5, "too_short": 1}, {"end_point": 3, "not_grown": 9})
            assert verdict.text in said
            assert WHERE_DROPPED[verdict] in said
        early = nothing(7, {"no_step": 5}, {"end_point": 3, "not_grown": 9})
        assert "most halves ended: stop map at or below its threshold (100%)" in early
        assert "none found a direction to start in" in nothing(1, {"no_step": 0}, {})

    def test_a_run_that_the_clock_ends_before_a_seed_says_only_that(self, head):
        with pytest.warns(UserWarning, match="0 of 40 seeds were tracked") as said:
            ts.track(**head.options, nseeds=40, time_limit=1e-9)
        assert not [warning for warning in said if "no streamline" in str(warning.message)]


def test_the_least_angle_between_vertices():
    for name in ("default", "full", "small"):
        vertices = Sphere(xyz=load_sphere(name)[0]).vertices
        apart = np.degrees(np.arccos(np.clip(np.abs(vertices @ vertices.T), 0, 1)))
        least = apart[apart > 0.1].min()  # the others are of a vertex and itself, or its opposite
        for angle, straight in ((least * 0.99, True), (least * 1.01, False)):
            assert bool(cannot_bend(Parameters(dg="det", sphere=name, max_angle=angle))) == straight
    assert not cannot_bend(Parameters(dg="sd_stream", max_angle=0.5))  # its steps need no vertices


VERTICES = {"boot", "prob", "det"}
SIDES = np.array([2.0, 2.0, 3.0])


def doubts(dg, **options):
    parameters = Parameters.given({"dg": dg, **options})
    return doubts_of_steps(parameters, parameters.step_mm(SIDES), SIDES, vertices=dg in VERTICES)


@pytest.mark.parametrize("dg", METHODS)
def test_angles_in_radians_and_long_steps_are_told_for_every_getter(dg):
    """Of those in tests/support, too, which other modules have registered."""
    usual = Parameters.given({"dg": dg}).max_angle
    assert doubts(dg) == []
    for degrees in (usual, 15, 20, 30, 45, 60):
        (said,) = doubts(dg, max_angle=float(np.radians(degrees)))
        assert "not in radians" in said
    assert doubts(dg, step_size=f"{LONG}vox") == []
    (said,) = doubts(dg, step_size="3.6mm", max_angle=usual)
    assert f"3.6 mm long, {'1.6' if METHODS[dg].mean_side else '1.8'} voxels" in said


def test_a_length_of_more_steps_than_a_half_may_have():
    assert doubts("ifod1", step_size="0.04mm", max_length=400.0) == []
    (said,) = doubts("ifod1", step_size="0.03mm", max_length=400.0)
    assert "takes 13,333 steps of 0.03 mm, but a half ends after 10,000, at 300 mm" in said
    assert doubts("ifod1", step_size="0.03mm", max_length=400.0, max_steps=800) == []


@pytest.mark.parametrize("dg", sorted(set(METHODS) - VERTICES))
def test_small_angles_of_small_steps_are_degrees(dg):
    """The radius of curvature is what matters: a 50th of a voxel and one degree are as half a voxel and 25."""
    assert doubts(dg, step_size="0.02vox", max_angle=1.0, max_length="10vox") == []
    assert doubts(dg, step_size="0.5vox", max_angle=SMALL_ANGLE + 0.1) == []
    angle = float(np.degrees(2 * np.arcsin(0.1 / (2 * STIFF))))
    for factor, count in ((1.01, 0), (0.99, 1)):
        assert len(doubts(dg, step_size="0.1vox", max_angle=factor * angle)) == count


def ends(reason, share, total=10 * FEWEST):
    counts = np.zeros(len(Stop), np.int64)
    counts[reason] = round(share * total)
    counts[Stop.END_POINT] += total - counts.sum()
    return counts


@pytest.mark.parametrize("reason", [Stop.NO_DIRECTION, Stop.MAX_LENGTH, Stop.INVALID_END])
def test_the_share_that_is_doubted(reason):
    chosen = Parameters.given({"dg": "prob"})
    assert doubt(ends(reason, MOST + 0.01), chosen, 1.0)
    assert not doubt(ends(reason, MOST - 0.01), chosen, 1.0)
    assert not doubt(ends(reason, 1, FEWEST - 1), chosen, 1.0), "a few seeds may all end alike"


def test_ends_that_were_asked_for():
    for reason in (Stop.END_POINT, Stop.OUTSIDE_IMAGE, Stop.REJECTED, Stop.OUTSIDE_LIMIT, Stop.ALL_INCLUDED):
        assert not doubt(ends(reason, 1), Parameters.given({}), 1.0)
    cut = Parameters.given({"max_length": 20.0, "too_long": "truncate"})
    assert not doubt(ends(Stop.MAX_LENGTH, 1), cut, 1.0)


def test_halves_that_one_way_tracking_does_not_grow_are_not_counted():
    counts = ends(Stop.NO_DIRECTION, 1)
    counts[Stop.NOT_GROWN] = counts.sum()
    assert doubt(counts, Parameters.given({"one_way": True}), 1.0)


def test_causes_fit_the_source():
    said = {}
    for options in ({}, {"peaks": "a.nii"}, {"sh": "a.nii", "sh_basis": "tournier07"}, {"odf": "a.nii"}):
        said[next(iter(options), "")] = doubt(ends(Stop.NO_DIRECTION, 1), Parameters.given(options), 1.0)
    assert "--peak-width" in said["peaks"] and "--peaks-frame" in said["peaks"]
    assert "--sh-frame" in said["sh"] and "--peak-width" not in said["sh"]
    assert "--bvecs-frame" in said[""] and "frame" not in said["odf"]
