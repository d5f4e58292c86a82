"""The response of CSD: estimated from fibres that are known, read from files of MRtrix3 and of DIPY, and recorded."""

from __future__ import annotations

import json
import shutil
import subprocess
from contextlib import nullcontext

import nibabel as nib
import numpy as np
import pytest
from csd_data import CROP, brainlike, everywhere, needs_crop
from dipy.core.gradients import gradient_table
from dipy.data import get_sphere
from dipy.reconst.csdeconv import AxSymShResponse
from plans import plan_of
from scipy.special import eval_legendre
from synthetic import ACROSS, ALONG, UNWEIGHTED, gradients, signals
from truth.truth import Scan, Truth

import tistreamlines as ts
from tistreamlines.errors import InputError
from tistreamlines.fit import response as responses
from tistreamlines.fit.csd import fit_csd
from tistreamlines.fit.fits import Fits
from tistreamlines.fit.frames import place_gradients
from tistreamlines.fit.response import csd_response, iterative_response, response_rows
from tistreamlines.io import nifti
from tistreamlines.io.response import read_response, response_text
from tistreamlines.space.harmonics import sampling_matrix
from tistreamlines.space.sphere import load_sphere

pytestmark = [
    pytest.mark.filterwarnings("ignore::PendingDeprecationWarning"),  # DIPY's, at each use of a legacy basis
]
ZONAL = [577.8, -217.2, 39.4, -4.8, 0.45]
FIBERCUP = CROP.parent / "fibercup"
needs_mrtrix = pytest.mark.skipif(not shutil.which("dwi2fod"), reason="MRtrix3 is not installed")


def harmonics(cosine: np.ndarray, order: int = 8) -> np.ndarray:
    """Orthonormal zonal harmonics (n, order / 2 + 1), from Legendre's polynomials."""
    return np.stack(
        [np.sqrt((2 * n + 1) / (4 * np.pi)) * eval_legendre(n, cosine) for n in range(0, order + 1, 2)], axis=-1
    )


def zonal_of(b: float, along: float, across: float, unweighted: float) -> np.ndarray:
    """Zonal harmonics of a tensor's signal, by quadrature."""
    cosine, weight = np.polynomial.legendre.leggauss(40)
    signal = unweighted * np.exp(-b * (across + (along - across) * cosine**2))
    return 2 * np.pi * (weight * signal) @ harmonics(cosine)


@pytest.fixture(scope="module")
def crossings():
    """Signals, gradients and mask of bundles that cross, b = 1000, SNR 20."""
    truth = Truth("crossings", Scan(1000, voxel_mm=2.5), 5)
    data, bvals, directions = truth.series()
    return data, gradient_table(bvals, bvecs=directions), truth.mask


class TestIterative:
    def test_it_is_that_of_the_fibres(self, crossings):
        """The tensor that the mean of voxels of high FA makes is rounder."""
        response, expected = iterative_response(*crossings), zonal_of(1000, 1.7e-3, 0.2e-3, 300)
        assert np.abs(response.dwi_response - expected).max() < 0.015 * expected[0]
        assert pytest.approx(303, rel=0.01) == response.S0  # of Rician noise
        (evals, unweighted), _ = csd_response(*crossings)
        rounder = zonal_of(1000, evals[0], evals[1], unweighted)
        assert abs(rounder[1] - expected[1]) > 3 * abs(response.dwi_response[1] - expected[1])

    def test_rows_of_its_text(self, crossings, tmp_path):
        """Read back, they are the response of the shell, and of b = 0 the same signal along all directions."""
        response = iterative_response(*crossings)
        rows = response_rows(response)
        np.savetxt(tmp_path / "wm.txt", rows, header="Shells: 0,1000")
        again = read_response(tmp_path / "wm.txt").of_shell(1000, 8)
        assert again.dwi_response == pytest.approx(response.dwi_response)
        assert pytest.approx(response.S0) == again.S0
        assert rows[0] == pytest.approx([response.S0 * np.sqrt(4 * np.pi), 0, 0, 0, 0])

    @pytest.mark.parametrize("broken", ["_axes", "_likeness"])
    def test_not_without_the_axes_or_the_choice(self, crossings, monkeypatch, broken):
        worse = {
            "_axes": lambda functions: np.tile([0.6, 0.0, 0.8], (len(functions), 1)),
            "_likeness": lambda functions, like=responses._likeness: -like(functions),
        }
        monkeypatch.setattr(responses, broken, worse[broken])
        try:
            zonal = iterative_response(*crossings).dwi_response
        except InputError:
            return
        assert np.abs(zonal - zonal_of(1000, 1.7e-3, 0.2e-3, 300)).max() > 30

    def test_threads_change_no_bit(self, crossings):
        few, many = (iterative_response(*crossings, threads=n) for n in (1, 5))
        assert np.array_equal(few.dwi_response, many.dwi_response)
        assert few.S0 == many.S0

    def test_anisotropy_may_be_low(self):
        """As in the FiberCup, where FA is about 0.1."""
        gtab, rng = gradients(), np.random.default_rng(0)
        axes = rng.normal(size=(600, 3))
        axes /= np.linalg.norm(axes, axis=1, keepdims=True)
        clean = signals(gtab, axes, 0.25)
        data = (clean + rng.normal(0, 5, clean.shape)).astype(np.float32)[:, None, None]
        with pytest.raises(InputError, match=r"has an FA above 0\.7"):
            csd_response(data, gtab, everywhere(data))
        zonal = iterative_response(data, gtab, everywhere(data)).dwi_response
        water = np.array([1000 * np.exp(-1.5) * np.sqrt(4 * np.pi), 0, 0, 0, 0])
        expected = 0.25 * zonal_of(1500, ALONG, ACROSS, UNWEIGHTED) + 0.75 * water
        assert np.abs(zonal - expected).max() < 0.01 * expected[0]

    def test_voxels_without_finite_signals_have_no_say(self):
        data, gtab = brainlike(gradients(), 400), gradients()
        expected = iterative_response(data[20:], gtab, everywhere(data[20:]))
        data[:10], data[10:20] = np.nan, 0
        response = iterative_response(data, gtab, everywhere(data))
        assert np.array_equal(response.dwi_response, expected.dwi_response)

    @pytest.mark.parametrize(
        ("data", "words"),
        [
            (brainlike(gradients(), 60), "has 59 voxels with signal, fewer than 100"),
            (np.zeros((200, 1, 1, 66), np.float32), "has 0 voxels with signal"),
            (np.full((200, 1, 1, 66), np.nan, np.float32), "has 0 voxels with signal"),
            (np.full((200, 1, 1, 66), 500, np.float32), "have no fibre's signal"),
        ],
    )
    def test_what_has_no_fibres_is_refused(self, data, words):
        with pytest.raises(InputError, match=words):
            iterative_response(data, gradients(), everywhere(data))


class TestFiles:
    def read(self, tmp_path, text, order=8, bval=1000.0):
        path = tmp_path / "response.txt"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_response(path).of_shell(bval, order)

    def test_a_row_of_mrtrix(self, tmp_path):
        row = " ".join(map(str, [*ZONAL, 0.1]))
        response = self.read(tmp_path, f"# Shells: 999\n# command_history: amp2response  (version=3.0.3)\n{row}\n")
        assert response.dwi_response.tolist() == ZONAL
        assert response.S0 is None

    @pytest.mark.parametrize("header", ["# Shells: 0,995,3000\n", ""])
    def test_the_row_of_the_shell(self, tmp_path, header):
        b0 = "1063.5 0 0 0 0"
        rows = [b0, " ".join(map(str, ZONAL))] + (["243 -183 83 -27 7"] if header else [])
        response = self.read(tmp_path, header + "\n".join(rows))
        assert response.dwi_response.tolist() == ZONAL
        assert pytest.approx(300, abs=0.1) == response.S0

    @pytest.mark.parametrize("text", ["1.7e-3 3e-4 3e-4 300\n", "1.7e-3,3e-4,3e-4,300", "# a\n0.0017\t3e-4 3e-4  300"])
    def test_dipys_numbers(self, tmp_path, text):
        evals, unweighted = self.read(tmp_path, text)
        assert evals.tolist() == [1.7e-3, 3e-4, 3e-4]
        assert unweighted == 300

    def test_the_harmonics_are_those_of_the_signal(self, tmp_path):
        """A fit with the file equals one with the tensor, which DIPY samples itself; the scale is the signal's."""
        text = " ".join(map(repr, zonal_of(1500, ALONG, ACROSS, UNWEIGHTED).tolist()))
        response, sphere = self.read(tmp_path, text, bval=1500), get_sphere(name="repulsion100")
        expected = UNWEIGHTED * np.exp(-1500 * (ACROSS + (ALONG - ACROSS) * sphere.z**2))
        dipys = AxSymShResponse(response.S0, response.dwi_response)
        assert np.abs(dipys.on_sphere(sphere) - expected).max() < 1e-3 * expected.max()
        data, gtab = brainlike(gradients(), 40), gradients()
        tensor = np.array([ALONG, ACROSS, ACROSS]), UNWEIGHTED
        fits = [fit_csd(data, gtab, everywhere(data), each, 8) for each in (response, tensor)]
        assert np.percentile(np.abs(fits[0] - fits[1]), 95) < 0.003 * np.abs(fits[1]).max()

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("", "has no numbers"), ("# Shells: 1000\n", "has no numbers"), ("hello\n", "line 1, 'hello', is not of"),
            (b"\xff\xfe\0", "is no text"), (b"1" * (1 << 21), "is larger than a response"),
            ("500", "500 is no response"),
            ("500 nan 3 4 5", "has nan; give finite"), ("-500 -200 3 4 5", "-500 -200 3 4 5 is no response"),
            ("500 200 30 4 5", "is no response; give MRtrix3's"), ("1.7 0.3 0.3 300", "is no response; .* in mm2/s"),
            ("3e-4 1.7e-3 3e-4 300", "the largest first"), ("1e-3 1e-3 1e-3 300", "the largest first"),
            ("1.7e-3 3e-4 3e-4", "add the b0 signal"), ("577 -217 39", r"up to order 4; give sh_order 4, or"),
            ("5 0 0\n6 -1 0\n7 -2 1", r"which of the 3 rows .* b = 1000 is not known"),
            ("6 -1 0\n7 -2 1", r"which of the 2 rows"), ("# Shells: 0,1000\n5 -1 0", "has 1 rows for 2 shells"),
            ("# Shells: 3000\n577 -217 39 -4 1", r"is of b = 3000 s/mm2, but the shell that is fitted of 1000"),
            ("# Shells: 0,1000\n5 0 0 0 0\n5 0 0 0 0", "is no response"),
        ],
    )
    def test_other_files_are_an_error_of_one_line(self, tmp_path, text, words):
        with pytest.raises(InputError, match=words) as raised:
            self.read(tmp_path, text)
        assert "\n" not in str(raised.value)
        assert raised.value.on_command_line.startswith(str(tmp_path / "response.txt"))

    def test_numbers_in_python(self):
        evals = np.array([1.7e-3, 3e-4, 3e-4])
        for numbers in ("1.7e-3,3e-4,3e-4,300", [1.7e-3, 3e-4, 3e-4, 300], (evals, 300.0)):
            chosen = ts.Parameters.given({"dg": "det", "response": numbers})
            assert not chosen.inputs()
            eigenvalues, unweighted = read_response(chosen.response).of_shell(1000, 8)
            assert (eigenvalues == evals).all()
            assert unweighted == 300
        text = response_text(AxSymShResponse(300, np.array(ZONAL)))
        assert read_response(text).of_shell(1000, 8).dwi_response.tolist() == ZONAL

    @pytest.mark.parametrize("value", ["", 3.0 + 1j, None.__class__, [[1, 2], ["b"]], ["a"]])
    def test_other_values_are_an_error(self, value):
        with pytest.raises(ts.ParameterError, match=r"^response is "):
            ts.Parameters.given({"dg": "det", "response": value})


@needs_crop
@needs_mrtrix
def test_fods_are_those_of_dwi2fod(tmp_path):
    """With MRtrix3's response: the greatest peak, in the voxels where it is clear."""
    crop = [CROP / f"dwi.{suffix}" for suffix in ("nii.gz", "bval", "bvec")]
    dwi, _ = place_gradients(nifti.load_dwi(*crop), None, "fsl", str(crop[2]))
    mask = np.zeros(dwi.data.shape[:3], bool)
    mask[16:28, 16:28, 6:12] = True
    text = "# Shells: 1000\n693.9 -272.9 60.4 -9.6 2.3\n"
    (tmp_path / "response.txt").write_text(text)
    nib.save(nib.Nifti1Image(mask.astype(np.uint8), dwi.space.affine), tmp_path / "mask.nii")
    command = ["dwi2fod", "csd", str(crop[0]), "response.txt", "fod.nii", "-mask", "mask.nii", "-lmax", "8", "-quiet"]
    subprocess.run([*command, "-fslgrad", str(crop[2]), str(crop[1])], cwd=tmp_path, check=True)
    vertices = load_sphere("default")[0]
    turned = np.sign(np.diag(dwi.space.affine)[:3])  # MRtrix3's are along the scanner's axes
    theirs = nib.load(tmp_path / "fod.nii").get_fdata()[mask] @ sampling_matrix(vertices * turned, 8, "tournier07").T
    response = read_response(tmp_path / "response.txt").of_shell(1000, 8)
    ours = fit_csd(dwi.data, dwi.gtab, mask, response)[mask] @ sampling_matrix(vertices, 8, "descoteaux07_legacy").T
    clear = theirs.max(axis=1) > 0.4
    assert clear.sum() > 300
    cosine = np.abs((vertices[ours.argmax(axis=1)] * vertices[theirs.argmax(axis=1)]).sum(axis=1))[clear]
    assert np.median(cosine) > 0.9999  # the same vertex
    assert np.mean(cosine > np.cos(np.radians(10))) > 0.9  # or its neighbour; the others have two peaks alike
    # the scale too, although the two constrain small amplitudes differently
    assert np.median(ours.max(axis=1)[clear] / theirs.max(axis=1)[clear]) == pytest.approx(1, abs=0.1)


@pytest.mark.skipif(not FIBERCUP.is_dir(), reason="no real data at ../shared/data/fibercup")
def test_the_fibercup_needs_no_option(tmp_path):
    """FA is about 0.1; without a mask, two voxels of noise exceed 0.7."""
    files = [FIBERCUP / name for name in ("acq-averaged_b-1500.nii.gz", "b1500.bval", "dirs64.bvec")]
    seeds = {"seed_mask": FIBERCUP / "wm_mask.nii.gz", "fa_threshold": 0.05, "nseeds": 500, "arch": "cpu"}
    for number, mask in enumerate(({}, {"mask": FIBERCUP / "wm_mask.nii.gz"})):
        result = ts.track(*files, tmp_path / f"{number}.trx", dg="det", **seeds, **mask)
        chosen = json.loads((tmp_path / f"{number}.json").read_text())["chosen"]
        response = chosen["response"]
        assert response["way"] == "tournier"
        assert chosen["csd_lambda"] == 1
        assert response["zonal"][:3] == pytest.approx([147.88, -32.96, 6.13], rel=0.05)  # of dwi2response tournier
        assert result.mean_mm > 20
        with pytest.raises(ts.InputError, match="fa_response") if mask else nullcontext():
            ts.track(*files, dg="det", response="fa", **seeds, **mask)


class TestRuns:
    """What a run does with the option, on small fits."""

    def chosen(self, head, path, **options):
        known = {"mask": head.mask, "dg": "det", "nseeds": 40, "arch": "cpu", "force": True, "sh_order": 8}
        result = ts.track(*head.series, path / "a.trx", **known | options)
        record = json.loads((path / "a.json").read_text())
        return record["chosen"]["response"], record, result.notes

    def test_the_record_has_the_response_and_its_file(self, head, tmp_path):
        """Also when it comes from the cache, in which a file is told apart by its numbers; in eight slices."""
        file = tmp_path / "response.txt"
        slices = np.zeros(head.phantom.mask.shape, np.uint8)
        slices[..., 10:18] = head.phantom.mask[..., 10:18]
        nib.save(nib.Nifti1Image(slices, head.phantom.affine), tmp_path / "slices.nii")
        few = {"mask": tmp_path / "slices.nii", "cache_dir": (cache := tmp_path / "cache")}
        responses = {}
        for option in ("fa", "tournier", file, file):
            file.write_text(f"577 -217 39 -4 {len(responses)}")
            response, record, _ = self.chosen(head, tmp_path, response=option, **few)
            responses[f"{option} {len(responses)}"] = response
            assert record["parameters"]["response"] == str(option)
            assert ("response" in record["inputs"]) == (option == file)
        fa, tournier, *files = responses.values()
        assert (fa["way"], tournier["way"]) == ("fa", "tournier")
        assert len(fa["eigenvalues"]) == 3
        assert len(tournier["zonal"]) == 5
        assert [each["zonal"][-1] for each in files] == [2, 3]
        assert len(list(cache.glob("odf-*"))) == 4
        again, _, _ = self.chosen(head, tmp_path, response=file, **few)
        moved = file.rename(tmp_path / "moved.txt")
        assert self.chosen(head, tmp_path, response=moved, **few)[0] == again == files[1]
        assert len(list(cache.glob("odf-*"))) == 4

    def test_numbers_are_those_of_a_file(self, head, tmp_path):
        file = tmp_path / "response.txt"
        file.write_text("1.7e-3 3e-4 3e-4 300\n")
        rows = [
            plan_of(head, dg="det", response=response).prepared.arrays["volume_rows"]
            for response in (file, [1.7e-3, 3e-4, 3e-4, 300], (np.array([1.7e-3, 3e-4, 3e-4]), 300))
        ]
        assert np.array_equal(rows[0], rows[1])
        assert np.array_equal(rows[0], rows[2])

    @pytest.mark.nightly
    def test_auto_is_fa_or_tournier_where_few_voxels_have_a_high_fa(self, head, tmp_path):
        response, _, notes = self.chosen(head, tmp_path)
        assert response["way"] == "fa"
        assert response == self.chosen(head, tmp_path, response="fa")[0]
        assert not any("tournier" in note for note in notes)
        response, record, notes = self.chosen(head, tmp_path, fa_response=0.999)
        assert 0.05 < record["chosen"]["csd_lambda"] < 0.5  # the fibres have a high FA all the same
        assert response == self.chosen(head, tmp_path, response="tournier")[0]
        assert any("an FA above 0.999" in note and note.endswith("response tournier") for note in notes)

    def test_auto_of_a_small_mask_is_fa(self, head):
        """Which takes any voxel, or refuses."""
        mask = np.zeros(head.phantom.mask.shape, bool)
        mask[13:17, 16:20, 12:15] = head.phantom.mask[13:17, 16:20, 12:15]
        assert mask.sum() < 100
        dwi, notes = nifti.load_dwi(*head.series), []
        fits = Fits(dwi, mask, note=notes.append)
        for threshold, way in ((0.2, "fa"), (0.999, None)):
            chosen = ts.Parameters(dg="det", fa_response=threshold, sh_order=8)
            with pytest.raises(ts.InputError, match=r"lower fa_response") if way is None else nullcontext():
                fits.coefficients("csd", chosen)
                assert fits.chosen["response"]["way"] == way
        assert not any("tournier" in note for note in notes)

    def test_what_cannot_be_used(self, head, tmp_path):
        words = r"none of the .*lower fa_response, or give response tournier or a file"
        with pytest.raises(ts.InputError, match=words):
            plan_of(head, dg="det", response="fa", fa_response=0.999)
        words = "fa_response changes nothing with another response than auto or fa"
        with pytest.raises(ts.ParameterError, match=words):
            ts.Parameters.given({"dg": "det", "response": "tournier", "fa_response": 0.5})
        with pytest.raises(ts.ParameterError, match=r"response can be used with model csd"):
            ts.Parameters.given({"dg": "prob", "model": "csa", "response": "fa"})
        with pytest.raises(ts.InputError, match=r"nowhere\.txt: no such file"):
            plan_of(head, dg="det", response=tmp_path / "nowhere.txt")
        with pytest.raises(ts.InputError, match=r"is a folder"):
            plan_of(head, dg="det", response=tmp_path)
