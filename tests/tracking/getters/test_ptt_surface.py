"""Parallel transport on the surface: its options, the command line, plans, the cache, cuslines' getter, verify."""

import inspect
import json
import tempfile
from math import radians

import nibabel as nib
import numpy as np
import pytest
from commands import one_line
from dipy.tracking import tracker as dipy
from linked import contents
from scene import THRESHOLD, Scene, same
from tables import probe
from written import read

import tistreamlines as ts
from tistreamlines.cli import verification as verifying
from tistreamlines.cli.verification import Variant
from tistreamlines.cuslines import tracker as drop_in
from tistreamlines.errors import ParameterError
from tistreamlines.options.definitions import applies_with, options
from tistreamlines.options.parameters import Parameters
from tistreamlines.run.log import Log
from tistreamlines.run.plan import make_plan

OWN = ("probe_length", "probe_radius", "probe_quality", "probe_count", "data_support_exponent", "probe_rule")
SIDES = (2.0, 1.5, 3.0)


@pytest.fixture(scope="module")
def scene(head, tmp_path_factory):
    return Scene(head, tmp_path_factory.mktemp("scene"))


@pytest.fixture(scope="module")
def maps(tmp_path_factory):
    """A file of samples on the sphere, a stop map and a region, with voxels of unequal sides."""
    folder, affine = tmp_path_factory.mktemp("maps"), np.diag([*SIDES, 1])
    volumes = {"pmf": np.random.default_rng(0).random((8, 9, 7, 362)), "stop_map": np.ones((8, 9, 7))}
    volumes["seed_mask"] = volumes["stop_map"]
    for name, volume in volumes.items():
        nib.save(nib.Nifti1Image(volume.astype(np.float32), affine), folder / f"{name}.nii.gz")
    return {name: folder / f"{name}.nii.gz" for name in volumes}


def plan_of(maps, **named):
    return make_plan({}, Parameters.given({**maps, "dg": "ptt", **named}), Log())


class TestOptions:
    def test_defaults_are_dipys(self):
        of_dipy, chosen = inspect.signature(dipy.ptt_tracking).parameters, Parameters(dg="ptt")
        for name in ("max_angle", "pmf_threshold", *OWN[:-1]):
            assert getattr(chosen, name) == of_dipy[name].default
        assert (chosen.model, chosen.sh_order, chosen.probe_rule) == ("csd", None, "dipy")

    def test_they_are_its_own(self):
        assert [name for name in options() if applies_with(name).get("dg") == ("ptt",)] == list(OWN)
        recorded = Parameters(dg="prob").as_dict()
        assert not [name for name in OWN if recorded[name] is not None]

    @pytest.mark.parametrize(
        ("named", "word"),
        [
            ({"dg": "prob", "probe_length": 2}, "dg ptt"), ({"dg": "boot", "probe_rule": "paper"}, "dg ptt"),
            ({"probe_length": 0}, "probe_length"), ({"probe_radius": -1}, "probe_radius"),
            ({"probe_quality": 1}, "probe_quality"), ({"probe_count": 0}, "probe_count"),
            ({"data_support_exponent": 0}, "data_support_exponent"), ({"probe_rule": "mrtrix"}, "dipy, tracker, paper"),
            ({"odf": "a.nii", "sphere": "full", "asymmetric": True}, "dg prob or det"),
            ({"sh": "a.nii", "sh_basis": "tournier07_full", "sphere": "full"}, "dg prob or det"),
        ],
    )
    def test_wrong_use(self, named, word):
        with pytest.raises(ParameterError, match=word):
            Parameters.given({"dg": "ptt", **named})


class TestPlan:
    def test_steps_and_sides_are_those_of_the_run(self, maps):
        plan = plan_of(maps, step_size="0.4vox", max_angle=12)
        scalars = plan.prepared.scalars
        assert np.allclose(plan.space.voxel_sizes, SIDES)
        assert scalars["method_step"] == Parameters(step_size="0.4vox").step_mm(plan.space.voxel_sizes)
        assert [scalars[f"method_{axis}"] for axis in "xyz"] == pytest.approx([1 / side for side in SIDES])
        voxels = scalars["method_step"] / np.mean(SIDES)
        assert scalars["method_max_curvature"] == pytest.approx(2 * np.sin(np.radians(6)) / voxels, rel=1e-6)

    def test_options_reach_the_tables(self, maps):
        named = {"probe_length": 2.0, "probe_radius": 0.5, "probe_quality": 5, "probe_count": 3}
        tables = plan_of(maps, **named, data_support_exponent=2, probe_rule="paper", pmf_threshold=0.3).prepared
        getter = tables.getter
        assert (getter.segments, getter.probes, getter.powered, getter.paper) == (4, 3, 1, 1)
        numbers = [tables.scalars[f"method_{name}"] for name in ("segment", "power", "threshold", "probe_x")]
        assert numbers == [0.5, 2, 0.3, 0.5]
        assert np.allclose(np.linalg.norm(tables.arrays["method_ring"].reshape(3, 2), axis=1), 0.5)
        assert plan_of(maps).prepared.scalars["method_probe_x"] == 2

    def test_probes_reach_no_farther_than_the_image(self, maps):
        """Of a great bend and a long probe the bound is of any size; once it was what the tables' memory grew with."""
        bent = probe(max_angle=60, probe_length=20, step_mm=1, voxel_sizes=SIDES)
        assert np.array_equal(bent.reach((10**9,) * 3) > 10**6, [True] * 3)
        assert np.array_equal(bent.reach((14, 14, 8)), (14, 14, 8))
        assert np.array_equal(probe(probe_length=2, max_angle=1).reach((14, 14, 8)), (3, 3, 3))
        for extreme in ({"probe_length": 1e30}, {"probe_length": 20, "probe_radius": 1e30, "probe_count": 2}):
            rows = plan_of(maps, max_angle=60, **extreme).prepared.arrays["volume_index"]
            assert np.count_nonzero(rows) == rows.size

    def test_they_are_causes(self, maps, tmp_path):
        first = plan_of(maps, cache_dir=tmp_path)
        again = plan_of(maps, cache_dir=tmp_path, nseeds=3)
        assert len(list(tmp_path.iterdir())) == 1
        for name in ("scalars", "scratch"):
            assert getattr(first.prepared, name) == getattr(again.prepared, name)
        assert contents(first.prepared) == contents(again.prepared)  # shares and what is often read among it
        for named in ({"step_size": "0.4vox"}, {"probe_length": 2}, {"probe_rule": "paper"}, {"dg": "prob"}):
            plan_of(maps, cache_dir=tmp_path, **named)
        assert len(list(tmp_path.iterdir())) == 5


class TestCommands:
    def test_track(self, track, tmp_path):
        kept = ("--dg", "ptt", "--min-separation-angle", 45, "--cache-dir", tmp_path / "cache")
        done = track(tmp_path / "a.trx", *kept)
        assert done.code == 0, done.err
        recorded = json.loads((tmp_path / "a.json").read_text())["parameters"]
        expected = {"dg": "ptt", "model": "csd", "max_angle": 10, "boot_rule": None, "det_rule": None}
        expected |= {name: getattr(Parameters(dg="ptt"), name) for name in OWN}
        assert {name: recorded[name] for name in expected} == expected
        lines = read(tmp_path / "a.trx")
        assert len(lines) > 200
        assert track(tmp_path / "b.trx", *kept, "--chunk-size", 70).code == 0  # its tables are those that were kept
        assert len(list((tmp_path / "cache").glob("tables-*"))) == 1
        assert np.array_equal(np.concatenate(list(read(tmp_path / "b.trx"))), np.concatenate(list(lines)))

    def test_wrong_use(self, track, tmp_path):
        one_line(track(tmp_path / "a.trx", "--dg", "prob", "--probe-length", 2), 2, "--probe-length", "--dg ptt")
        one_line(track(tmp_path / "a.trx", "--dg", "ptt", "--det-rule", "max"), 2, "--det-rule", "--dg det")
        assert not list(tmp_path.iterdir())

    @pytest.mark.nightly
    def test_verify(self, run, head, tmp_path, monkeypatch):
        """Nightly, since test_verify.py has the command by day."""
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        monkeypatch.setattr(verifying, "variants", lambda *_: [Variant("cpu"), Variant("cpu", 23, 1)])
        kept = ("--mask", head.mask, "--nseeds", 60, "--min-separation-angle", 45, "--cache-dir", tmp_path / "cache")
        done = run("verify", *head.series, "--dg", "ptt", *kept)
        assert done.code == 0, done.out + done.err
        assert "All 2 runs gave the same bits" in done.out


class TestDropIn:
    """cuslines' arguments; a segment of its probes is a share of a voxel, and there is one more point than segments."""

    def tracker(self, scene, dg, **options):
        shared = {"max_angle": radians(10), "relative_peak_thresh": 0.5, "min_separation_angle": radians(45)}
        ball = (scene.sphere.vertices, scene.sphere.edges)
        return drop_in.Tracker(dg, scene.pmf, scene.stop, THRESHOLD, *ball, **{"arch": "cpu", **shared, **options})

    def test_same_as_track(self, scene):
        values = np.where(scene.stop[..., None] < THRESHOLD, 0, scene.pmf)
        greatest = values.max(axis=-1, keepdims=True)
        values = np.divide(values, greatest, out=np.zeros_like(values), where=greatest > 0)
        file = scene.folder / "greatest_1.nii.gz"
        nib.save(nib.Nifti1Image(values, scene.image.affine), file)
        batch = scene.track(dg="ptt", pmf=file, min_separation_angle=45)
        assert len(batch) > 30
        # voxels of 5 mm
        dg = drop_in.PttDirectionGetter(
            probe_length=1.5 / 6 / 5, probe_quality=6, pmf_threshold=0.1, probe_rule="dipy",
            max_curvature=5 * 2 * np.sin(radians(5)) / 0.5,
        )
        sft = self.tracker(scene, dg, chunk_size=11).generate_sft(scene.seeds, scene.image)
        assert same(sft, batch)
        assert not same(self.tracker(scene, dg, rng_seed=1).generate_sft(scene.seeds, scene.image), batch)

    def test_cuslines_arguments(self, scene):
        dg = drop_in.PttDirectionGetter(128, 0.25, 0.025, 8)
        tracker = self.tracker(scene, dg)
        tables = tracker._tables(scene.seeds, scene.space)
        assert (tables.getter.segments, tables.getter.paper, tables.getter.exact_arcs) == (8, 1, 1)
        assert tables.scalars["method_max_curvature"] == pytest.approx(8 * np.sin(radians(5)) / 5, rel=1e-6)
        tracker.dg.max_curvature = 0.2
        tables = tracker._tables(scene.seeds, scene.space)
        assert tables.scalars["method_max_curvature"] == pytest.approx(0.2 / 5, rel=1e-6)
        assert tables.scalars["method_segment"] == pytest.approx(0.25 * 5)
        assert tables.scalars["method_step"] == tracker._settings(scene.space).step_mm
        assert tracker._tables(scene.seeds, scene.space) is tables
        dg.probe_quality = 4
        assert tracker._tables(scene.seeds, scene.space).getter.segments == 4

    def test_tables_are_made_once(self, scene):
        live = scene.stop > THRESHOLD  # beside voxels of zeros, which have no row
        ball = (scene.sphere.vertices, scene.sphere.edges)
        maps = (scene.pmf * live[..., None], scene.stop * live)
        tracker = drop_in.Tracker(drop_in.PttDirectionGetter(), *maps, THRESHOLD, *ball, arch="cpu")
        tables = tracker._tables(scene.seeds, scene.space)
        assert tracker._tables(scene.seeds[:3], scene.space) is tables
        assert tracker._tables(np.zeros((1, 3)), scene.space) is not tables

    def test_unequal_sides(self, scene):
        space = ts.Space(np.diag([*SIDES, 1]), scene.stop.shape)
        scalars = self.tracker(scene, drop_in.PttDirectionGetter())._tables(scene.seeds, space).scalars
        assert scalars["method_segment"] == pytest.approx(0.25 * 1.5)
        assert [scalars[f"method_probe_{axis}"] for axis in "xyz"] == pytest.approx([1 / side for side in SIDES])

    def test_errors(self, scene):
        with pytest.raises(ParameterError, match="max_curvature is -1"):
            drop_in.PttDirectionGetter(max_curvature=-1)
        for named in ({"probe_length": 0}, {"probe_quality": 0}, {"probe_rule": "cuslines"}, {"pmf_threshold": 2}):
            with pytest.raises(ParameterError, match=r"^p[a-z_]+ (is|has)"):
                drop_in.PttDirectionGetter(**named)
        ball = (scene.sphere.vertices, scene.sphere.edges)
        with pytest.raises(ts.InputError, match="not the diffusion series"):
            drop_in.Tracker(drop_in.PttDirectionGetter(), scene.data, scene.stop, THRESHOLD, *ball, arch="cpu")
