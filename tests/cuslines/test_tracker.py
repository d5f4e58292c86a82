"""The drop-ins for cuslines: what they give is what ``ts.track`` gives."""

from math import radians

import nibabel as nib
import numpy as np
import pytest
from dipy.core.gradients import gradient_table
from dipy.data import get_sphere
from dipy.io.streamline import load_tractogram, save_tractogram
from dipy.reconst.shm import OpdtModel
from scene import THRESHOLD, Scene, same
from trx import trx_file_memmap

import tistreamlines as ts
from tistreamlines.cuslines import tracker as drop_in


@pytest.fixture(scope="module")
def scene(head, tmp_path_factory):
    return Scene(head, tmp_path_factory.mktemp("scene"))


class TestSameAsTrack:
    def test_defaults(self, scene):
        batch = scene.track()
        assert len(batch) > 30
        sft = scene.tracker().generate_sft(scene.seeds, scene.image)
        assert same(sft, batch)
        assert sft.space.value == "rasmm"
        with pytest.raises(AssertionError):
            assert same(scene.tracker(rng_seed=1).generate_sft(scene.seeds, scene.image), batch)

    def test_csa_and_every_number(self, scene):
        batch = scene.track(
            model="csa", sm_lambda=0.01, min_signal=2, max_angle=40, step_size="0.4vox", min_separation_angle=30,
            relative_peak_threshold=0.4, rng_seed=2**40 + 3, angular_weight=0.5, boot_rule="cuslines", max_steps=30,
        )
        dg = scene.getter("csa", sh_lambda=0.01, min_signal=2)
        dg.angular_weight, dg.boot_rule = 0.5, "cuslines"
        tracker = scene.tracker(
            dg, max_angle=radians(40), step_size=0.4, min_separation_angle=radians(30), relative_peak_thresh=0.4,
            rng_seed=2**40 + 3, max_steps=30, chunk_size=7,
        )
        assert same(tracker.generate_sft(scene.seeds, scene.image), batch)

    @pytest.mark.parametrize("aside", [0, 0.5])
    def test_numbers_of_points(self, scene, aside):
        everything = scene.track()
        sft = scene.tracker(min_pts=20 - aside, max_pts=41 + aside).generate_sft(scene.seeds, scene.image)
        within = (everything.lengths >= 20) & (everything.lengths <= 41)
        assert {20, 41} & set(everything.lengths.tolist()), "the bounds themselves are to be tried"
        assert 0 < within.sum() < len(within)
        assert np.array_equal(sft.streamlines._lengths, everything.lengths[within])

    def test_b0s_anywhere_and_whole_numbers(self, scene):
        order = np.random.default_rng(1).permutation(len(scene.gtab.bvals))
        gtab = gradient_table(scene.gtab.bvals[order], bvecs=scene.gtab.bvecs[order])
        dg = drop_in.BootDirectionGetter.from_dipy_opdt(gtab, scene.sphere, sh_order_max=4)
        data = scene.data[..., order].astype(np.int16)
        tracker = drop_in.Tracker(
            dg, data, scene.stop, THRESHOLD, scene.sphere.vertices, scene.sphere.edges, arch="cpu", step_size=0.5
        )
        sft = tracker.generate_sft(scene.seeds, scene.image)
        # other draws meet other directions, so lengths agree on average only
        assert np.mean([len(s) for s in sft.streamlines]) == pytest.approx(scene.track().lengths.mean(), rel=0.25)

    def test_a_part_of_the_seeds(self, scene):
        whole = scene.track()
        first = 20
        sft = scene.tracker(rng_offset=first).generate_sft(scene.seeds[first:], scene.image)
        later = whole.seed_number >= first
        assert np.array_equal(sft.streamlines._lengths, whole.lengths[later])
        assert np.array_equal(sft.data_per_streamline["seed_number"][:, 0], whole.seed_number[later])
        assert np.array_equal(sft.streamlines._data, whole.points[whole.offsets[np.argmax(later)] :])

    @pytest.mark.nightly
    @pytest.mark.parametrize("arch", ["vulkan", "cuda"])
    def test_on_another_device(self, scene, arch):
        """At night, since test_conformance.py compares devices by day."""
        try:
            tracker = scene.tracker(arch=arch)
        except ts.DeviceError as error:
            pytest.skip(str(error))
        few = slice(0, 20)
        sft = tracker.generate_sft(scene.seeds[few], scene.image)
        cpu = scene.tracker(threads=1).generate_sft(scene.seeds[few], scene.image)
        assert np.array_equal(sft.streamlines._data, cpu.streamlines._data)


class TestProb:
    """The getter that takes samples on the sphere."""

    def tracker(self, scene, dg=None, **options):
        shared = {"max_angle": radians(40), "relative_peak_thresh": 0.4, "min_separation_angle": radians(25)}
        return scene.tracker(dg or drop_in.ProbDirectionGetter(pmf_threshold=0.1), **shared, **options)

    def track(self, scene, **options):
        assert scene.pmf.any()  # writes the file
        angles = {"max_angle": 40, "relative_peak_threshold": 0.4}
        return scene.track(dg="prob", like="dipy", pmf=scene.folder / "pmf.nii.gz", **angles, **options)

    def test_same_as_track(self, scene):
        batch = self.track(scene)
        assert len(batch) > 30
        with self.tracker(scene, chunk_size=11) as tracker:
            assert same(tracker.generate_sft(scene.seeds, scene.image), batch)
            trx = tracker.generate_trx(scene.seeds, scene.image)
            assert np.array_equal(trx.streamlines._data, batch.points)
            trx.close()
        other = self.tracker(scene, rng_seed=1).generate_sft(scene.seeds, scene.image)
        assert not same(other, batch)

    def test_its_own_options(self, scene):
        tracker = self.tracker(scene, drop_in.ProbDirectionGetter(pmf_threshold=0.6))
        assert same(tracker.generate_sft(scene.seeds, scene.image), self.track(scene, pmf_threshold=0.6))
        tracker = self.tracker(scene, drop_in.ProbDirectionGetter(max_directions=1))
        assert tracker._tables(scene.seeds, scene.space).scalars["method_threshold"] == 0.05  # cuslines' own
        assert tracker._tables(scene.seeds, scene.space).scalars["seeds_most"] == 1
        first, all_ = (self.track(scene, pmf_threshold=0.05, **few) for few in ({"max_directions": 1}, {}))
        assert same(tracker.generate_sft(scene.seeds, scene.image), first)
        assert all_.direction_number.any() and not first.direction_number.any()

    def test_options_may_change(self, scene):
        dg = drop_in.ProbDirectionGetter()
        tracker = self.tracker(scene, dg)
        before = tracker._tables(scene.seeds, scene.space)
        assert tracker._tables(scene.seeds, scene.space) is before
        dg.pmf_threshold = 0.3
        assert tracker._tables(scene.seeds, scene.space).scalars["method_threshold"] == 0.3

    def test_harmonics(self, scene):
        sh = np.zeros((*scene.stop.shape, 15), np.float32)
        mask = scene.head.phantom.mask
        sh[mask] = OpdtModel(scene.gtab, sh_order_max=4).fit(scene.data[mask]).shm_coeff
        dg = drop_in.ProbDirectionGetter(sh_basis="descoteaux07_legacy")
        ball = (scene.sphere.vertices, scene.sphere.edges)
        tables = drop_in.Tracker(dg, sh, scene.stop, THRESHOLD, *ball, arch="cpu")._tables(scene.seeds, scene.space)
        assert (tables.getter.half_order, tables.getter.symmetric) == (2, 1)

    def test_an_asymmetric_function(self, scene):
        full = get_sphere(name="repulsion724")
        pmf = np.random.default_rng(0).random((*scene.stop.shape, 724), np.float32)
        dg = drop_in.ProbDirectionGetter(asymmetric=True)
        tracker = drop_in.Tracker(dg, pmf, scene.stop, THRESHOLD, full.vertices, full.edges, arch="cpu")
        assert tracker._tables(scene.seeds, scene.space).getter.symmetric == 0


class TestTracker:
    def test_options_can_be_given_by_place_as_in_cuslines(self, scene):
        """Those up to ``chunk_size``; the others are keywords."""
        ball = scene.sphere.vertices, scene.sphere.edges
        values = (False, radians(40), 0.4, 3, 50, 0.3, radians(30), 1, 7, 5, 11)
        tracker = drop_in.Tracker(scene.getter(), scene.data, scene.stop, THRESHOLD, *ball, *values, arch="cpu")
        names = ("sphere_symm", "max_angle", "step_size", "min_pts", "max_pts", "relative_peak_thresh",
                 "min_separation_angle", "ngpus", "rng_seed", "rng_offset", "chunk_size")
        assert tracker.parameters == scene.tracker(**dict(zip(names, values, strict=True))).parameters
        assert (tracker.min_pts, tracker.max_pts, tracker.rng_offset) == (3, 50, 5)
        with pytest.raises(TypeError, match="positional argument"):
            drop_in.Tracker(scene.getter(), scene.data, scene.stop, THRESHOLD, *ball, *values, "cpu")
        with pytest.raises(TypeError, match="unexpected keyword argument 'max_angel'"):
            scene.tracker(max_angel=1)

    def test_context_manager(self, scene):
        with scene.tracker() as tracker:
            first = tracker.generate_sft(scene.seeds, scene.image)
            tables = tracker._tables(scene.seeds, scene.space)
            assert tracker._tables(scene.seeds[:3], scene.space) is tables
        assert tracker._prepared is None
        assert np.array_equal(tracker.generate_sft(scene.seeds, scene.image).streamlines._data, first.streamlines._data)

    def test_errors_leave_the_block(self, scene):
        with pytest.raises(KeyError), scene.tracker():
            raise KeyError

    def test_the_tables_grow_with_the_seeds(self, scene):
        with scene.tracker() as tracker:
            tracker.generate_sft(scene.seeds, scene.image)
            before = (tracker._tables(scene.seeds, scene.space).arrays["volume_index"] > 0).sum()
            tables = tracker._tables(np.concatenate([scene.seeds, [[0.3, 0, 0]]]), scene.space)
            assert (tables.arrays["volume_index"] > 0).sum() > before

    def test_angular_weight_may_change(self, scene):
        dg = scene.getter()
        with scene.tracker(dg) as tracker:
            assert tracker._tables(scene.seeds, scene.space).getter.angular == 0
            dg.angular_weight = 0.9
            tables = tracker._tables(scene.seeds, scene.space)
            assert (tables.getter.angular, tables.scalars["method_angular_weight"]) == (1, 0.9)
            dg.angular_weight = 2
            with pytest.raises(ts.ParameterError, match="angular_weight"):
                tracker.generate_sft(scene.seeds, scene.image)

    def test_batches(self, scene):
        batches = list(scene.tracker(chunk_size=10).batches(scene.seeds, scene.image))
        assert len(batches) == -(-len(scene.seeds) // 10)
        assert np.array_equal(np.concatenate([b.points for b in batches]), scene.track().points)

    def test_an_affine_of_ones_gives_voxels(self, scene):
        sft = scene.tracker().generate_sft(scene.seeds, nib.Nifti1Image(scene.stop, np.eye(4)))
        reference = scene.tracker().generate_sft(scene.seeds, scene.image)
        reference.to_vox()
        assert np.allclose(sft.streamlines._data, reference.streamlines._data, atol=1e-4)

    def test_steps_in_voxels_of_unequal_sides(self, scene):
        affine = np.diag([2.0, 2, 3, 1])
        image = nib.Nifti1Image(scene.stop, affine)
        sft = scene.tracker(step_size=0.25).generate_sft(scene.seeds, image)
        steps = np.concatenate([np.diff(s, axis=0) for s in sft.streamlines])
        assert np.allclose(np.linalg.norm(steps, axis=1), 0.5, atol=1e-4)

    def test_saved_and_reloaded(self, scene, tmp_path):
        sft = scene.tracker().generate_sft(scene.seeds, scene.image)
        for suffix in ("trk", "tck", "trx"):
            path = str(tmp_path / f"a.{suffix}")
            save_tractogram(sft, path)
            again = load_tractogram(path, scene.image)
            again.to_rasmm()
            assert np.abs(again.streamlines._data - sft.streamlines._data).max() < 1e-3
            if suffix != "tck":
                assert np.allclose(again.data_per_streamline["seeds"], sft.data_per_streamline["seeds"])

    def test_no_streamline(self, scene):
        outside = np.zeros((2, 3))
        assert len(scene.tracker().generate_sft(outside, scene.image)) == 0
        assert len(scene.tracker().generate_sft(np.empty((0, 3)), scene.image)) == 0
        trx = scene.tracker().generate_trx(outside, scene.image)
        assert len(trx.streamlines) == 0
        trx.close()


class TestTrx:
    def test_the_same_streamlines(self, scene, tmp_path):
        batch = scene.track()
        trx = scene.tracker(chunk_size=16).generate_trx(scene.seeds, scene.image)
        assert np.array_equal(trx.streamlines._data, batch.points)
        trx_file_memmap.save(trx, str(tmp_path / "a.trx"))
        assert same(trx.to_sft(), batch)
        trx.close()
        again = trx_file_memmap.load(str(tmp_path / "a.trx"))
        assert np.array_equal(again.streamlines._data, batch.points)
        assert np.array_equal(np.squeeze(again.data_per_streamline["stop_reasons"]), batch.stop_reasons)
        again.close()

    def test_closing_removes_the_file(self, scene, tmp_path, monkeypatch):
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        trx = scene.tracker().generate_trx(scene.seeds, scene.image)
        assert list(tmp_path.iterdir())
        trx.close()
        assert not list(tmp_path.iterdir())

    def test_so_does_an_error(self, scene, tmp_path, monkeypatch):
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        tracker = scene.tracker()
        monkeypatch.setattr("tistreamlines.workers.session.Engine", None)
        with pytest.raises(TypeError):
            tracker.generate_trx(scene.seeds, scene.image)
        assert not list(tmp_path.iterdir())

    def test_packed(self, scene, tmp_path):
        tracker = scene.tracker()
        whole = tracker.generate_sft(scene.seeds, scene.image).streamlines
        tracker.set_compression_parameters(np.float16, linearize=True, tol_error=0.2)
        trx = tracker.generate_trx(scene.seeds, scene.image)
        assert trx.streamlines._data.dtype == np.float16
        assert len(trx.streamlines) == len(whole)
        assert len(trx.streamlines._data) < 0.7 * len(whole._data)
        trx_file_memmap.save(trx, str(tmp_path / "a.trx"))
        again = trx_file_memmap.load(str(tmp_path / "a.trx"))
        assert again.streamlines._data.dtype == np.float16
        for packed, full in zip(again.streamlines, whole, strict=True):
            nearest = np.linalg.norm(full[:, None] - np.asarray(packed, float)[None], axis=-1).min(axis=0)
            assert nearest.max() < 0.1  # points left are points that were there, to the rounding of float16
        for file in (trx, again):
            file.close()
