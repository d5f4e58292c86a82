"""A series without its gradients: files beside it, exchanged files, and images that are something else."""

import shutil

import nibabel as nib
import numpy as np
import pytest
from commands import one_line, python
from dipy.io import read_bvals_bvecs

import tistreamlines as ts
from tistreamlines.errors import InputError
from tistreamlines.io.gradients import PipeContent, gradients_beside, other_kind, read_numbers
from tistreamlines.space.harmonics import count_of


@pytest.fixture
def place(tmp_path, head):
    """A folder with the series of the head alone, and what puts one of its gradient files there under a name."""
    shutil.copy(head.series[0], tmp_path / "dwi.nii.gz")

    def put(which, name):
        shutil.copy(head.series[which], tmp_path / name)

    return tmp_path, put


@pytest.mark.parametrize("names", [
    ("dwi.bval", "dwi.bvec"), ("dwi.bvals", "dwi.bvecs"), ("bvals", "bvecs"), ("dwi.bval", "bvecs"),
    ("bvals", "dwi.eddy_rotated_bvecs"),
])
def test_gradients_beside_the_series_are_found(place, names):
    folder, put = place
    put(1, names[0])
    put(2, names[1])
    assert gradients_beside(folder / "dwi.nii.gz") == (folder / names[0], folder / names[1])


def test_a_note_says_which_were_taken_and_the_record_has_them(place, head, run):
    folder, put = place
    put(1, "dwi.bval")
    put(2, "bvecs")
    put(2, "dwi.bvec")  # the same directions once more are no question
    common = {"mask": head.mask, "nseeds": 100, "arch": "cpu"}
    result = ts.track(folder / "dwi.nii.gz", **common)
    assert [note for note in result.notes if "its gradients are dwi.bval and dwi.bvec beside it" in note]
    assert result.record["inputs"]["bvecs"]["path"] == str(folder / "dwi.bvec")
    expected = ts.track(*head.series, **common)
    assert result.n_streamlines > 20
    assert all(np.array_equal(*lines) for lines in zip(result, expected, strict=True))
    done = run("track", folder / "dwi.nii.gz", "--mask", head.mask, "--nseeds", "10", "--arch", "cpu", "-o",
               folder / "a.trx")
    assert done.code == 0
    assert "dwi.bval and dwi.bvec beside it" in done.err


def test_what_is_missing_or_differs_is_one_line(place, run):
    folder, put = place
    call = ("track", folder / "dwi.nii.gz", "-o", folder / "a.trx")
    one_line(run(*call), 1, "its b-values are not beside it (dwi.bval or dwi.bvals or bvals)")
    put(1, "dwi.bval")
    one_line(run(*call), 1, "its directions are not beside it (dwi.bvec or")
    put(2, "dwi.bvec")
    (folder / "bvals").write_text("0 1000")
    one_line(run(*call), 1, "dwi.bval and bvals beside it differ: give BVALS and BVECS after DWI")
    one_line(run("track", folder / "no.nii.gz", "-o", folder / "a.trx"), 1, "no.nii.gz: no such file")
    assert "give DWI, BVALS and BVECS, or DWI alone" in run(*call[:2], folder / "dwi.bval", "-o", folder / "a.trx").err
    (folder / "subject.bedpostX").mkdir()
    (folder / "subject.bedpostX/merged_th1samples.nii.gz").touch()
    with pytest.raises(InputError, match=r"a folder of bedpostX: give it as bedpostx .*subject.bedpostX"):
        ts.track(folder / "subject.bedpostX")


def test_bvals_and_bvecs_exchanged(head, tmp_path):
    dwi, bvals, bvecs = head.series
    with pytest.raises(InputError, match=r"dwi.bvec: three numbers .*dwi.bval has one .*are bvals and bvecs exchanged"):
        ts.track(dwi, bvecs, bvals, mask=head.mask)
    np.savetxt(tmp_path / "rows.bvec", np.loadtxt(bvecs).reshape(-1, 3, order="F"))
    with pytest.raises(InputError, match="exchanged"):
        ts.track(dwi, tmp_path / "rows.bvec", bvals, mask=head.mask)
    with pytest.raises(InputError, match="exchanged"):
        ts.track(dwi, np.loadtxt(bvecs), np.loadtxt(bvals), mask=head.mask)


def test_images_of_something_else_are_told_from_series():
    draw = np.random.default_rng(0)
    fods = draw.normal(size=(4, 4, 4, count_of(6))).astype(np.float32)
    fods[..., 0] = 1
    kinds = {
        "FODs, 28 coefficients of order 6: give them as --sh a.nii": fods,
        "peaks, 3 a voxel: give them as --peaks a.nii": draw.normal(size=(4, 4, 4, 9)),
        "": np.abs(draw.normal(size=(4, 4, 4, 28))),
    }
    for words, values in kinds.items():
        doubt = other_kind("a.nii", nib.Nifti1Image(values.astype(np.float32), np.eye(4)))
        assert words in doubt
        assert bool(words) == bool(doubt)
    assert not other_kind("a.nii", nib.Nifti1Image(fods[..., :20], np.eye(4)))


@pytest.mark.parametrize("name", ["a.bval", "a.bvecs", "a.txt", "a", "a.eddy_rotated_bvecs", "a.npy"])
@pytest.mark.parametrize("text", [
    "1 0 0.5\n0 1 -1e-3\n", "1\t0\t0.5\r\n0\t1 2\r\n", "1,0, 3\n0,1,2", "0 1000 nan\n", "7",
])
def test_tables_have_the_numbers_that_dipy_reads(tmp_path, name, text):
    if name.endswith(".npy"):
        np.save(tmp_path / name, np.atleast_2d(np.loadtxt(text.replace(",", " ").splitlines())))
    else:
        (tmp_path / name).write_bytes(text.encode())
    expected = read_bvals_bvecs(str(tmp_path / name), None)[0]
    numbers = read_numbers(tmp_path / name)[1]
    np.testing.assert_array_equal(numbers, expected)
    assert numbers.dtype == np.float64
    if not name.endswith(".npy"):
        np.testing.assert_array_equal(read_numbers(PipeContent("/dev/fd/63", text.encode()))[1], expected)


def test_a_table_of_another_ending_is_refused(tmp_path):
    (tmp_path / "a.csv").write_text("1 2 3")
    with pytest.raises(InputError, match=r"a\.csv: cannot be read \(its name ends in \.csv, not in \.bval, .*npy\)"):
        read_numbers(tmp_path / "a.csv")

READ = """
import sys
from tistreamlines.fit.frames import place_gradients
from tistreamlines.fit.csd import fit_csd
from tistreamlines.fit.response import csd_response
from tistreamlines.fit.tensor import tensor_fa
from tistreamlines.io.nifti import load_dwi
from tistreamlines.space.sphere import load_sphere

dwi = load_dwi(*sys.argv[1:])
dwi, _ = place_gradients(dwi, None, "auto", "bvecs")
mask = dwi.mean_b0 > 0
tensor_fa(dwi.data, dwi.gtab, mask)
fit_csd(dwi.data, dwi.gtab, mask, csd_response(dwi.data, dwi.gtab, mask, 0.3)[0], 4)
load_sphere("default")
print(*sys.modules)
"""


def test_a_series_is_read_and_fitted_without_dipy_and_scipy(head):
    """These take longer to import than the series to read."""
    outcome = python("-c", READ, *head.series)
    assert outcome.returncode == 0, outcome.stderr
    modules = set(outcome.stdout.split())
    heavy = {"dipy.core", "dipy.reconst", "dipy.data", "dipy.io", "scipy.linalg", "scipy.special", "scipy.optimize"}
    assert not heavy & modules
