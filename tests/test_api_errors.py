"""What the drop-ins refuse, and how they say so."""

import nibabel as nib
import numpy as np
import pytest
from dipy.data import get_sphere
from scene import THRESHOLD, Scene

import tistreamlines as ts
from tistreamlines.phantom import make_phantom


@pytest.fixture(scope="module")
def scene(head, tmp_path_factory):
    return Scene(head, tmp_path_factory.mktemp("scene"))


class TestRefused:
    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"max_angle": 60}, "radians"),
            ({"min_separation_angle": 45}, "radians"),
            ({"max_angle": 0}, "max-angle"),
            ({"ngpus": 2}, "rng_offset"),
            ({"min_pts": 5, "max_pts": 4}, "max_pts"),
            ({"rng_offset": -1}, "rng_offset"),
            ({"step_size": 0}, "step-size"),
            ({"relative_peak_thresh": 2}, "relative-peak"),
            ({"chunk_size": 0}, "chunk-size"),
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
            ts.BootDirectionGetter("opdt", 1.0, np.eye(3), np.eye(3))
        with pytest.raises(ts.ParameterError, match="from_dipy_csa"):
            ts.BootDirectionGetter(model_type="opdt", min_signal=1, H=np.eye(3))
        with pytest.raises(ts.ParameterError, match="csd"):
            ts.BootDirectionGetter("csd", scene.gtab, scene.sphere)
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
                ts.Tracker(dg, data, stop, THRESHOLD, ball.vertices, ball.edges, arch="cpu")
        with pytest.raises(ts.ParameterError, match="sphere_edges"):
            ts.Tracker(dg, scene.data, scene.stop, THRESHOLD, vertices, edges.T, arch="cpu")

    def test_prob(self, scene):
        ball, prob = (scene.sphere.vertices, scene.sphere.edges), ts.ProbDirectionGetter()
        for dg, data, words in (
            (prob, scene.data, "not the diffusion series"),
            (prob, np.zeros_like(scene.pmf), "above 0"),
            (prob, scene.pmf[1:], "stop_map"),
            (ts.ProbDirectionGetter(sh_basis="tournier07"), np.zeros_like(scene.data), "above 0"),
        ):
            with pytest.raises(ts.InputError, match=words):
                ts.Tracker(dg, data, scene.stop, THRESHOLD, *ball, arch="cpu")
        for options, words in (
            ({"pmf_threshold": 2}, "pmf-threshold"), ({"max_directions": 0}, "max-directions"),
            ({"sh_basis": "mrtrix"}, "tournier07"),
        ):  # fmt: skip
            with pytest.raises(ts.ParameterError, match=words):
                ts.ProbDirectionGetter(**options)
        with pytest.raises(ts.ParameterError, match="unit vectors"):
            ts.Tracker(prob, scene.pmf, scene.stop, THRESHOLD, 2 * ball[0], ball[1], arch="cpu")

    def test_seeds_and_reference(self, scene):
        tracker = scene.tracker()
        with pytest.raises(ts.InputError, match="not mm"):
            tracker.generate_sft(scene.seeds_mm - 1000, scene.image)
        with pytest.raises(ts.InputError, match=r"\(n, 3\)"):
            tracker.generate_trx(scene.seeds[:, :2], scene.image)
        small = make_phantom((12, 12, 12), voxel_mm=10.0, n_b0=1, n_dirs=6)
        with pytest.raises(ts.InputError, match="12 x 12 x 12"):
            tracker.generate_sft(scene.seeds, nib.Nifti1Image(small.data, small.affine))
        sheared = np.eye(4)
        sheared[0, 1] = 0.2
        with pytest.raises(ts.InputError, match="sheared"):
            tracker.generate_sft(scene.seeds, nib.Nifti1Image(scene.stop, sheared))

    def test_no_such_name(self):
        assert {"Tracker", "BootDirectionGetter", "ProbDirectionGetter", "PttDirectionGetter", "track"} <= set(dir(ts))
        with pytest.raises(AttributeError, match="Trackr"):
            ts.Trackr  # noqa: B018
