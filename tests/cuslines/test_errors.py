"""What the drop-ins refuse, and how they say so."""

import nibabel as nib
import numpy as np
import pytest
from dipy.data import get_sphere
from dipy.direction import ProbabilisticDirectionGetter
from dipy.direction.pmf import SimplePmfGen
from dipy.io.stateful_tractogram import Space as Frame
from dipy.io.stateful_tractogram import StatefulTractogram
from dipy.tracking.stopping_criterion import BinaryStoppingCriterion, ThresholdStoppingCriterion
from scene import THRESHOLD, Scene

import tistreamlines as ts
from tistreamlines.cuslines import tracker as drop_in
from tistreamlines.dipy import criteria
from tistreamlines.phantom.phantom import make_phantom
from tistreamlines.tracking.seeding.files import check_inside


@pytest.fixture(scope="module")
def scene(head, tmp_path_factory):
    return Scene(head, tmp_path_factory.mktemp("scene"))


class TestRefused:
    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"max_angle": 60}, "radians"),
            ({"min_separation_angle": 45}, "radians"),
            ({"max_angle": 0}, "max_angle"),
            ({"ngpus": 0}, "ngpus"),
            ({"min_pts": 5, "max_pts": 4}, "max_pts"),
            ({"rng_offset": -1}, "rng_offset"),
            ({"step_size": 0}, "step_size"),
            ({"relative_peak_thresh": 2}, "relative_peak"),
            ({"chunk_size": 0}, "chunk_size"),
            ({"arch": "opencl"}, "arch"),
        ],
    )
    def test_values(self, scene, options, words):
        with pytest.raises(ts.ParameterError, match=words):
            scene.tracker(**options)

    def test_a_missing_device(self, scene):
        for arch in ("cuda", "metal"):
            try:
                scene.tracker(arch=arch)
            except ts.DeviceError as error:
                assert "cannot run here" in str(error)

    def test_matrices(self, scene):
        with pytest.raises(ts.ParameterError, match="from_dipy_opdt"):
            drop_in.BootDirectionGetter("opdt", 1.0, np.eye(3), np.eye(3))
        with pytest.raises(ts.ParameterError, match="from_dipy_csa"):
            drop_in.BootDirectionGetter(model_type="opdt", min_signal=1, H=np.eye(3))
        with pytest.raises(ts.ParameterError, match="csd"):
            drop_in.BootDirectionGetter("csd", scene.gtab, scene.sphere)
        with pytest.raises(ts.ParameterError, match="full_basis"):
            scene.getter(full_basis=True)
        with pytest.raises(ts.ParameterError, match="even"):
            scene.getter(sh_order_max=5)

    def test_arrays(self, scene):
        dg, vertices, edges = scene.getter(), scene.sphere.vertices, scene.sphere.edges
        nan = scene.stop.copy()
        nan[3, 4, 5] = np.nan
        other = get_sphere(name="symmetric362")
        for data, stop, ball, words in (
            (scene.data[..., 1:], scene.stop, scene.sphere, "volumes"),
            (scene.data, scene.stop[1:], scene.sphere, "stop_map"),
            (scene.data, nan, scene.sphere, "NaN"),
            (scene.data, scene.stop, other, "same sphere"),
        ):
            with pytest.raises(ts.TrackingError, match=words):
                drop_in.Tracker(dg, data, stop, THRESHOLD, ball.vertices, ball.edges, arch="cpu")
        with pytest.raises(ts.ParameterError, match="sphere_edges"):
            drop_in.Tracker(dg, scene.data, scene.stop, THRESHOLD, vertices, edges.T, arch="cpu")

    def test_masked_values(self, scene):
        """NumPy forgets the mask of an array that is converted."""
        def holed(values):
            mask = np.zeros(np.shape(values), bool)
            mask.flat[0] = True
            return np.ma.masked_array(values, mask)

        tracker, sphere = scene.tracker(), (scene.sphere.vertices, scene.sphere.edges)
        for name, call in {
            "dataf": lambda: drop_in.Tracker(scene.getter(), holed(scene.data), scene.stop, THRESHOLD, *sphere),
            "stop_map": lambda: drop_in.Tracker(scene.getter(), scene.data, holed(scene.stop), THRESHOLD, *sphere),
            "seeds": lambda: tracker.generate_sft(holed(scene.seeds), scene.image),
            "metric_map": lambda: criteria.tables_of(
                criteria.ThresholdStoppingCriterion(holed(scene.stop), 0.2), scene.stop.shape, 0.5, None
            ),
        }.items():
            with pytest.raises(ts.ParameterError, match=rf"^{name} is a masked array .*\.filled\(value\)"):
                call()

    def test_prob(self, scene):
        ball, prob = (scene.sphere.vertices, scene.sphere.edges), drop_in.ProbDirectionGetter()
        for dg, data, words in (
            (prob, scene.data, "not the diffusion series"),
            (prob, np.zeros_like(scene.pmf), "above 0"),
            (prob, scene.pmf[1:], "stop_map"),
            (drop_in.ProbDirectionGetter(sh_basis="tournier07"), np.zeros_like(scene.data), "above 0"),
        ):
            with pytest.raises(ts.InputError, match=words):
                drop_in.Tracker(dg, data, scene.stop, THRESHOLD, *ball, arch="cpu")
        for options, words in (
            ({"pmf_threshold": 2}, "pmf_threshold"), ({"max_directions": 0}, "max_directions"),
            ({"sh_basis": "mrtrix"}, "tournier07"),
        ):
            with pytest.raises(ts.ParameterError, match=words):
                drop_in.ProbDirectionGetter(**options)
        with pytest.raises(ts.ParameterError, match="unit vectors"):
            drop_in.Tracker(prob, scene.pmf, scene.stop, THRESHOLD, 2 * ball[0], ball[1], arch="cpu")

    def test_seeds_and_reference(self, scene):
        tracker = scene.tracker()
        with pytest.raises(ts.InputError, match="as RASmm 42 lie inside: turn them into voxel coordinates"):
            tracker.generate_sft(scene.seeds_mm, scene.image)
        with pytest.raises(ts.InputError, match="as RASmm 42 do: give seeds of this image"):
            tracker.generate_trx(scene.seeds_mm - 1000, scene.image)
        with pytest.raises(ts.InputError, match=r"\(n, 3\)"):
            tracker.generate_trx(scene.seeds[:, :2], scene.image)
        small = make_phantom((12, 12, 12), voxel_mm=10.0, n_b0=1, n_dirs=6)
        with pytest.raises(ts.InputError, match="12 x 12 x 12"):
            tracker.generate_sft(scene.seeds, nib.Nifti1Image(small.data, small.affine))
        sheared = np.eye(4)
        sheared[0, 1] = 0.2
        with pytest.raises(ts.InputError, match="sheared"):
            tracker.generate_sft(scene.seeds, nib.Nifti1Image(scene.stop, sheared))

    def test_few_seeds_may_lie_outside(self, scene):
        seeds = np.concatenate([scene.seeds[:9], [[-3.0, 0, 0]]])
        check_inside(seeds, scene.space, "voxel", "seeds")
        check_inside(scene.space.to_ras(seeds), scene.space, "rasmm", "a.txt")
        with pytest.raises(ts.InputError, match=r"seeds: as voxel coordinates 2 of 10 seeds lie outside"):
            check_inside(np.concatenate([seeds[1:], seeds[-1:]]), scene.space, "voxel", "seeds")
        with pytest.raises(ts.InputError, match=r"a\.txt: as RASmm .* as voxel coordinates 42 lie inside"):
            check_inside(scene.seeds, ts.Space(np.eye(4) + 500 * np.eye(4, k=3), scene.stop.shape), "rasmm", "a.txt")

    def test_a_missing_reference(self, scene):
        for generate in (scene.tracker().generate_sft, scene.tracker().generate_trx):
            with pytest.raises(ts.InputError, match="ref_img is missing: give the image"):
                generate(scene.seeds)

    def test_objects_of_other_kinds(self, scene):
        """What DIPY's and cuslines' users hold in their hands: criteria, PMFs, spheres, images, tractograms."""
        dg, ball, threshold = scene.getter(), scene.sphere, THRESHOLD
        peaks = ProbabilisticDirectionGetter.from_pmf(scene.pmf.astype(float), 30, ball)
        pmf = SimplePmfGen(scene.pmf.astype(float), ball)
        good = [dg, scene.data, scene.stop, threshold, ball.vertices, ball.edges]
        for place, value, words in (
            (0, peaks, "dg is of the kind ProbabilisticDirectionGetter: give tistreamlines' BootDirectionGetter"),
            (0, drop_in.ProbDirectionGetter, "dg is the class ProbDirectionGetter"),
            (1, pmf, r"dataf is of the kind SimplePmfGen: give the array \(x, y, z, n\)"),
            (1, scene.image, "dataf is of the kind Nifti1Image"),
            (1, scene.data[..., 0], r"dataf is \(30, 36, 28\)"),
            (2, ThresholdStoppingCriterion(scene.stop.astype(float), 0.2), "stop_map is of the kind Thresh.*the map"),
            (2, BinaryStoppingCriterion(scene.stop > 0.2), "stop_map is of the kind Binary.*0.5 for a mask"),
            (4, ball, "sphere_vertices is of the kind HemiSphere"),
        ):
            with pytest.raises(ts.TrackingError, match=words):
                drop_in.Tracker(*good[:place], value, *good[place + 1 :], arch="cpu")
        tractogram = StatefulTractogram([scene.seeds_mm], scene.image, Frame.RASMM)
        for seeds in (tractogram, tractogram.streamlines, [scene.seeds, scene.seeds[:1]]):
            with pytest.raises(ts.InputError, match=r"seeds is of the kind .*: give an array \(n, 3\)"):
                scene.tracker().generate_sft(seeds, scene.image)

    def test_no_such_name(self):
        assert {"Prob", "Parameters", "track"} <= set(dir(ts))
        with pytest.raises(AttributeError, match="Trackr"):
            ts.Trackr  # noqa: B018
