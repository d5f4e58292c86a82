"""Plans of prob and det: the model is DIPY's, files take its place, options reach the kernels. Nothing is tracked."""

import nibabel as nib
import numpy as np
import pytest
from dipy.core.gradients import gradient_table
from dipy.reconst.csdeconv import ConstrainedSphericalDeconvModel, auto_response_ssst
from dipy.reconst.shm import CsaOdfModel, OpdtModel
from prob_plans import plan_of

import tistreamlines as ts
from tistreamlines.fit.fits import Fits
from tistreamlines.fit.models import BASIS
from tistreamlines.fit.response import csd_response
from tistreamlines.io import nifti
from tistreamlines.io.orientations import load_sh, peaks_to_pmf
from tistreamlines.kernels.getters import det, prob
from tistreamlines.run.log import Log
from tistreamlines.run.needs import needs_series
from tistreamlines.run.plan import make_plan
from tistreamlines.space.harmonics import sampling_matrix
from tistreamlines.space.sphere import load_sphere

pytestmark = pytest.mark.filterwarnings("ignore:The legacy:PendingDeprecationWarning")
ORDER = 6  # 28 coefficients, and 32 directions


def save(path, volume, head):
    nib.save(nib.Nifti1Image(volume.astype(np.float32), head.phantom.affine), path)
    return path


def rows_of(plan, voxel):
    """What the kernels read at a voxel, and its stop map."""
    getter, arrays = plan.prepared.getter, plan.prepared.arrays
    begin = 32 * arrays["volume_index"].reshape(plan.space.shape)[voxel]
    row = arrays["volume_rows"][begin : begin + 32 * getter.row.row_chunks].copy()
    patched = arrays.get("method_numbers", np.arange(0))[: 32 * getter.ball.vertex_chunks]
    order = patched[patched >= 0] if getter.half_order == 0 else patched[:0]
    row[order] = row[: len(order)].copy()  # samples are stored patch by patch
    return row[:-1], row[-1]


@pytest.fixture(scope="module")
def gtab(head):
    return gradient_table(head.phantom.bvals, bvecs=head.phantom.bvecs, b0_threshold=50)


@pytest.fixture(scope="module")
def files(head, tmp_path_factory):
    """Harmonics, samples, peaks, a stop map and a region, as files."""
    folder = tmp_path_factory.mktemp("files")
    shape, rng = head.phantom.mask.shape, np.random.default_rng(0)
    fibres = rng.normal(size=(*shape, 2, 3))
    fibres /= np.linalg.norm(fibres, axis=-1, keepdims=True)
    inside = head.phantom.mask[..., None].astype(float)
    vertices = load_sphere("default")[0]
    sh = sampling_matrix(fibres[..., 0, :].reshape(-1, 3), ORDER, "tournier07").reshape(*shape, -1) * inside
    volumes = {
        "sh": sh, "odf": (np.abs(fibres[..., 0, :] @ vertices.T) ** 4 - 0.1) * inside,
        "pmf": np.abs(fibres[..., 0, :] @ vertices.T) ** 4 * inside,
        "peaks": fibres.reshape(*shape, 6) * inside, "stop_map": head.phantom.mask.astype(float),
        "seed_mask": np.zeros(shape),
    }
    volumes["seed_mask"][14:17, 17:20, 13:16] = 1
    return {name: save(folder / f"{name}.nii.gz", volume, head) for name, volume in volumes.items()}


def without_series(files, source, **named):
    basis = {"sh_basis": "tournier07"} if source == "sh" else {}
    common = {name: files[name] for name in ("stop_map", "seed_mask", source)}
    return make_plan({}, ts.Parameters.given({**common, **basis, **named}), Log())


class TestModels:
    def test_csd_is_dipys_in_the_mask(self, head, gtab):
        shares, notes = [], []
        parameters = ts.Parameters(dg="prob", like="dipy", sh_order=ORDER)
        dwi = nifti.load_dwi(*head.series)
        mask = np.zeros(dwi.space.shape, bool)
        mask[12:18, 16:20, 12:15] = head.phantom.mask[12:18, 16:20, 12:15]
        mask |= (np.indices(mask.shape).sum(axis=0) % 6 == 0) & head.phantom.mask
        fitted = Fits(dwi, mask, note=notes.append, progress=shares.append).coefficients("csd", parameters)
        assert shares[-1] == 1
        assert shares == sorted(shares)
        assert not notes
        assert not fitted[~mask].any()
        response, _ = csd_response(dwi.data, gtab, mask)
        model = ConstrainedSphericalDeconvModel(gtab, response, sh_order_max=ORDER)
        for voxel in map(tuple, np.argwhere(mask)[::40]):
            assert np.allclose(fitted[voxel], model.fit(dwi.data[voxel]).shm_coeff, atol=1e-4)

    def test_the_response_is_dipys(self, head, gtab):
        mask = np.ones(head.phantom.mask.shape, bool)
        response, _ = csd_response(head.phantom.data.astype(np.float32), gtab, mask)
        expected, _ = auto_response_ssst(gtab, head.phantom.data, roi_radii=10, fa_thr=0.7)
        assert np.allclose(response[0], expected[0], rtol=1e-4)

    @pytest.mark.parametrize(("model", "of_dipy"), [("opdt", OpdtModel), ("csa", CsaOdfModel)])
    def test_odfs_are_dipys(self, head, gtab, model, of_dipy):
        plan = plan_of(head, model=model, pmf_rows="sampled", sm_lambda=0.01, min_signal=2, sh_order=4)
        vertices = load_sphere("default")[0]
        fit = of_dipy(gtab, sh_order_max=4, smooth=0.01, min_signal=2)
        for voxel in map(tuple, np.argwhere(head.phantom.mask)[5000::1500]):
            odf = fit.fit(head.phantom.data[voxel].astype(float)).shm_coeff @ sampling_matrix(vertices, 4, BASIS).T
            row, _ = rows_of(plan, voxel)
            if row.any():
                assert np.allclose(row[: len(vertices)], np.maximum(odf, 0), rtol=1e-4, atol=1e-6)

    def test_no_voxel_for_the_response(self, head):
        with pytest.raises(ts.InputError, match="fa_response"):
            plan_of(head, response="fa", fa_response=0.999)

    def test_too_few_directions(self, head):
        with pytest.raises(ts.InputError, match="sh_order"):
            plan_of(head, model="csa", sh_order=8)


class TestOptions:
    @pytest.mark.parametrize(
        ("options", "field", "value"),
        [
            ({"pmf_rows": "sampled"}, "half_order", 0),
            ({"dg": "det"}, "pick", det.greatest_vertex),
            ({"sh_order": 4}, "half_order", 2),
        ],
    )
    def test_words_reach_the_kernels(self, head, options, field, value):
        plain = plan_of(head, model="csa", sh_order=6, cache_dir=head.cache).prepared.getter
        assert plain.pick is prob.draw_vertex
        assert getattr(plain, field) != value
        assert getattr(plan_of(head, model="csa", cache_dir=head.cache, **options).prepared.getter, field) == value

    def test_so_do_numbers(self, files):
        named = {"max_angle": 35, "pmf_threshold": 0.2, "relative_peak_threshold": 0.3, "min_separation_angle": 40}
        scalars = without_series(files, "pmf", **named, stop_threshold=0.4).prepared.scalars
        assert scalars["method_rule_cos_angle"] == pytest.approx(np.cos(np.radians(35)))
        assert scalars["method_rule_cos_separation"] == pytest.approx(np.cos(np.radians(40)))
        assert scalars["method_rule_relative_threshold"] == 0.3
        assert scalars["method_threshold"] == 0.2
        assert scalars["stopping_threshold"] == 0.4

    def test_defaults_do_too(self, files):
        scalars = without_series(files, "pmf", dg="det").prepared.scalars
        assert scalars["method_rule_cos_angle"] == pytest.approx(np.cos(np.radians(20)))
        assert without_series(files, "pmf", dg="det").prepared.getter.pick is det.greatest_vertex
        closest = without_series(files, "pmf", dg="det", det_rule="closest").prepared.getter
        assert closest.next_direction is det.closest_direction


class TestFiles:
    voxel = (15, 18, 14)

    def test_samples(self, head, files):
        for source in ("odf", "pmf"):
            plan = without_series(files, source)
            values = np.asarray(nib.load(files[source]).dataobj)[self.voxel]
            row, stop = rows_of(plan, self.voxel)
            assert np.allclose(row[: len(values)], values)
            assert stop == 1
            assert np.allclose(plan.space.affine, head.phantom.affine)
            assert set(plan.hashes) == {"stop_map", "seed_mask", source}

    def test_harmonics(self, files):
        values = load_sh(files["sh"], "tournier07").values[self.voxel]
        there = load_sphere("small")[0] * [-1, 1, 1]  # the scanner's x points against the image's
        sampled = np.maximum(sampling_matrix(there, ORDER, "tournier07") @ values, 0)
        row, _ = rows_of(without_series(files, "sh", sphere="small", pmf_rows="sampled"), self.voxel)
        assert np.allclose(row[: len(sampled)], sampled, atol=1e-5)
        assert without_series(files, "sh").prepared.getter.half_order > 0

    def test_peaks(self, files):
        peaks = np.asarray(nib.load(files["peaks"]).dataobj)[self.voxel].reshape(1, 1, 1, 2, 3)
        expected = peaks_to_pmf(peaks, load_sphere("default")[0], 15)[0, 0, 0]
        row, _ = rows_of(without_series(files, "peaks", dg="det"), self.voxel)
        assert np.array_equal(row[: len(expected)], expected)
        row, _ = rows_of(without_series(files, "peaks", dg="det", peak_width=0), self.voxel)
        assert np.count_nonzero(row[: len(expected)]) == 2

    def test_beside_a_series(self, head, files):
        plan = plan_of(head, pmf=files["pmf"])
        assert set(plan.hashes) == {"dwi", "bvals", "bvecs", "mask", "pmf"}
        assert 0 < rows_of(plan, self.voxel)[1] < 1, "the stop map is FA"

    def test_another_grid(self, head, files, tmp_path):
        small = tmp_path / "small.nii.gz"
        nib.save(nib.Nifti1Image(np.ones((5, 5, 5, 362), np.float32), np.eye(4)), small)
        with pytest.raises(ts.InputError, match=r"small\.nii\.gz.*grid"):
            plan_of(head, pmf=small)
        away = nib.affines.from_matvec(np.eye(3), [900, 0, 0])
        nib.save(nib.Nifti1Image(np.ones((5, 5, 5), np.float32), away), tmp_path / "far.nii.gz")
        with pytest.raises(ts.InputError, match=r"far\.nii\.gz: has only zeros where"):
            plan_of(head, stop_map=tmp_path / "far.nii.gz")

    def test_what_a_series_is_needed_for(self, files):
        def said(**named):
            return needs_series(ts.Parameters.given(named))

        assert said().startswith("no series: give DWI")
        assert "--dg boot needs DWI" in said(dg="boot")
        assert "--sh" in said(dg="det")
        assert "--stop-map" in said(pmf=files["pmf"])
        assert "--seed-mask" in said(pmf=files["pmf"], stop_map=files["stop_map"])
        for seeds in ("seeds", "seed_mask"):
            assert not said(pmf=files["pmf"], stop_map=files["stop_map"], **{seeds: "a"})
        with pytest.raises(ts.ParameterError, match="give stop_map"):
            ts.track(pmf=files["pmf"])
        with pytest.raises(ts.ParameterError, match="all three"):
            ts.track("dwi.nii", "dwi.bval", pmf=files["pmf"])


class TestCache:
    def test_the_model_is_fitted_once(self, head, tmp_path, monkeypatch):
        named = {"model": "csd", "sh_order": ORDER, "cache_dir": tmp_path}
        first = plan_of(head, **named)
        monkeypatch.setattr("tistreamlines.fit.model_fits.fit_system", None)
        again = plan_of(head, **named, pmf_rows="sampled", sphere="small")
        assert len(list(tmp_path.glob("odf-*"))) == 1
        assert len(list(tmp_path.glob("tables-*"))) == 2
        with monkeypatch.context() as patch:
            patch.setattr(nifti, "open_dwi", None)
            kept = plan_of(head, **named)
        assert np.array_equal(kept.prepared.arrays["volume_rows"], first.prepared.arrays["volume_rows"])
        voxel = tuple(np.argwhere(head.phantom.mask)[5000])
        harmonics, sampled = rows_of(first, voxel)[0], rows_of(again, voxel)[0]
        assert harmonics.any()
        assert sampled.any()
        with pytest.raises(TypeError):  # another fit, which cannot be made
            plan_of(head, **named, fa_response=0.6)

    def test_a_file_is_a_cause(self, files, head, tmp_path):
        for source in ("odf", "pmf"):
            without_series(files, source, cache_dir=tmp_path)
            without_series(files, source, cache_dir=tmp_path, nseeds=3)
        assert len(list(tmp_path.glob("tables-*"))) == 2
