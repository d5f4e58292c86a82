"""Warnings of runs nearly all of whose halves end for one reason that hints at a mistake."""

import json

import nibabel as nib
import numpy as np
import pytest
from dipy.core.sphere import Sphere

import tistreamlines as ts
from tistreamlines.kernels.stop_reasons import Stop
from tistreamlines.options.parameters import Parameters
from tistreamlines.run.ends import FEWEST, LONG, MOST, SMALL_ANGLE, STIFF, cannot_bend, doubt, doubts_of_steps
from tistreamlines.space.sphere import load_sphere
from tistreamlines.tracking.registry import METHODS


@pytest.mark.filterwarnings("ignore::UserWarning")
class TestRuns:
    @pytest.fixture(scope="class")
    def series(self, head):
        return {"dwi": head.series[0], "bvals": head.series[1], "bvecs": head.series[2], "mask": head.mask}

    def track(self, series, **options):
        return ts.track(**series, nseeds=150, dg="det", model="csa", arch="cpu", **options).warnings

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
        (said,) = self.track(series, **options)
        assert all(word in said for word in words)

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
    return doubts_of_steps(Parameters.given({"dg": dg, **options}), SIDES, vertices=dg in VERTICES)


@pytest.mark.parametrize("dg", METHODS)
def test_angles_in_radians_and_long_steps_are_told_for_every_getter(dg):
    """Of those in tests/support, too, which other modules have registered."""
    usual = Parameters.given({"dg": dg}).max_angle
    assert doubts(dg) == []
    for degrees in (usual, 15, 20, 30, 45, 60):
        (said,) = doubts(dg, max_angle=float(np.radians(degrees)))
        assert "not in radians" in said
    assert doubts(dg, step_size=f"{LONG}vox") == []
    (said,) = doubts(dg, step_size="3.1mm", max_angle=usual)
    assert "3.1 mm long, 1.6 voxels" in said


@pytest.mark.parametrize("dg", sorted(set(METHODS) - VERTICES))
def test_small_angles_of_small_steps_are_degrees(dg):
    """The radius of curvature is what matters: a 50th of a voxel and one degree are as half a voxel and 25."""
    assert doubts(dg, step_size="0.02vox", max_angle=1.0) == []
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
    for given in ({}, {"peaks": "a.nii"}, {"sh": "a.nii", "sh_basis": "tournier07"}, {"odf": "a.nii"}):
        said[next(iter(given), "")] = doubt(ends(Stop.NO_DIRECTION, 1), Parameters.given(given), 1.0)
    assert "--peak-width" in said["peaks"] and "--peaks-frame" in said["peaks"]
    assert "--sh-frame" in said["sh"] and "--peak-width" not in said["sh"]
    assert "--bvecs-frame" in said[""] and "frame" not in said["odf"]
