"""MRtrix3's own tests of tck2connectome and tckmap, with ``tistreamlines map`` in place of these programs.

The commands and tolerances are those of ``testing/binaries/tests/tck2connectome`` and ``tckmap`` in MRtrix3 3.0.3;
docs/connectome.md and docs/density.md say of each option what differs. Without MRTRIX3_TEST_DATA (see mrtrix_tests),
500 streamlines of the phantom stand in for the file of 500 that the tests of tckmap read. Two commands have no match:
``tck2connectome -assignment_forward_search`` and ``tckmap -tod``.
"""

import shutil
import subprocess

import nibabel as nib
import numpy as np
import pytest
from dipy.tracking.utils import density_map
from mrtrix_tests import DATA, PHANTOM, ROOT, inputs

UPSAMPLED = 200  # points of the smooth curve for each point of a streamline
TOLERANCE = 1.5  # streamlines of a voxel: testing_diff_image -abs 1.5
STANDARD = {"info", "quiet", "debug", "force", "nthreads", "config", "help", "version"}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with the inputs of MRtrix3's tests, and what calls its programs there."""
    folder = tmp_path_factory.mktemp("mrtrix")
    call = inputs(folder, "tckmap")
    if DATA is not None:
        for name in ("tracks.tck", "dwi.mif"):
            (folder / name).symlink_to(DATA / name)
    else:
        (folder / "dwi.mif").symlink_to(PHANTOM / "dwi.mif")
        call("tckedit SIFT_phantom/tracks.tck -number 500 tracks.tck")
    call(f"tckresample tracks.tck -upsample {UPSAMPLED} curves.tck")
    return folder, call


def read(path):
    """Return a matrix, or an image along the axes of RASmm."""
    if path.suffix == ".nii":
        return nib.as_closest_canonical(nib.load(path)).get_fdata()
    return np.loadtxt(path, delimiter="," if "," in path.read_text() else None)


@pytest.mark.parametrize(("stored", "theirs", "ours"), [
    ("tck2connectome/out.csv", "", ""),
    ("tck2connectome/assignments.csv", "-out_assignments pairs.csv", "--connectome-pairs"),
    ("", "-out_assignments pairs.csv -assignment_end_voxels", "--connectome-pairs --connectome-assignment end-voxel"),
    ("", "-out_assignments pairs.csv -assignment_reverse_search 5",
     "--connectome-pairs --connectome-assignment reverse --connectome-radius 5"),
])
def test_tck2connectome(place, run, stored, theirs, ours):
    folder, call = place
    call(f"tck2connectome SIFT_phantom/tracks.tck SIFT_phantom/parc.mif theirs.csv {theirs}")
    done = run("map", folder / "SIFT_phantom/tracks.tck", "--connectome", folder / "SIFT_phantom/parc.mif",
               folder / "ours.csv", *ours.split(), "--force")
    assert done.code == 0, done.err
    expected, matrix = read(folder / "theirs.csv"), read(folder / "ours.csv")
    np.testing.assert_array_equal(np.triu(matrix), expected)
    if "pairs" in ours:
        expected, matrix = read(folder / "pairs.csv"), read(folder / "ours_pairs.tsv")
        assert len(matrix) == 5000
        np.testing.assert_array_equal(matrix, expected)
    if stored and DATA is not None:
        np.testing.assert_array_equal(expected, read(DATA / stored))


@pytest.mark.parametrize(("stored", "theirs", "ours"), [
    ("tckmap/tdi.mif.gz", "-template dwi.mif", "--density-grid dwi.mif"),
    ("tckmap/tdi_vox1.mif.gz", "-vox 1", "--density-voxel 1"),
    ("tckmap/tdi_color.mif.gz", "-template dwi.mif -dec", "--density-grid dwi.mif --density-kind direction"),
])
def test_tckmap(place, run, monkeypatch, stored, theirs, ours):
    """tckmap takes points of a curve, which miss fewer voxels the denser they are; so ``map`` gets dense ones, too."""
    folder, call = place
    monkeypatch.chdir(folder)
    done = run("map", "curves.tck", "--density", "map.nii", *ours.split(), "--force")
    assert done.code == 0, done.err
    call(f"tckmap tracks.tck {theirs} coarse.nii")
    call(f"tckmap curves.tck {theirs} -upsample 1 dense.nii")
    # the grid that -vox makes is that of the points, which the curve may leave
    call("tckmap tracks.tck -template map.nii coarse_here.nii")
    counts, dense, coarse = (read(folder / f"{name}.nii") for name in ("map", "dense", "coarse_here"))
    assert np.array_equal(nib.load("map.nii").affine, nib.load("dense.nii").affine) or "-template" in theirs
    if DATA is not None:
        call(f"mrconvert {DATA / stored} stored.nii")
        assert np.abs(read(folder / "coarse.nii") - read(folder / "stored.nii")).max() <= TOLERANCE
    assert np.abs(counts - dense).max() <= TOLERANCE
    if "-vox" in theirs:  # on other grids, points lie outside
        image, lines = nib.load("dense.nii"), nib.streamlines.load("curves.tck").streamlines
        assert np.array_equal(density_map(lines, image.affine, image.shape), image.get_fdata())
    if "-dec" not in theirs:
        assert (counts >= dense).all()
        assert (counts >= coarse).all()
        assert counts.sum() - dense.sum() < 0.1 * (counts.sum() - coarse.sum())


@pytest.mark.parametrize(("program", "page"), [
    ("tck2connectome", "connectome"), ("tckmap", "density"), ("tckgen", "tckgen"),
])
def test_the_page_has_every_option(program, page):
    if shutil.which(program) is None:
        pytest.skip("MRtrix3 is not installed")
    usage = subprocess.run([program, "__print_full_usage__"], capture_output=True, text=True, check=True).stdout
    names = {line.split()[1] for line in usage.splitlines() if line.startswith("OPTION ")} - STANDARD
    text = (ROOT / f"docs/{page}.md").read_text(encoding="utf-8")
    assert len(names) > 10
    assert not [name for name in sorted(names) if f"`-{name}" not in text]
