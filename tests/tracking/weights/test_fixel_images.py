"""Folders of fixels as the input of SIFT2 and of dynamic seeds, beside FODs and MRtrix3's programs."""

import shutil
import subprocess

import nibabel as nib
import numpy as np
import pytest
from commands import one_line
from fods import random_fods
from mrtrix_tests import inputs
from nights import at_night
from visited import batch

import tistreamlines as ts
from tistreamlines.devices import choose
from tistreamlines.io.fixel_images import fixel_files, load_fixels
from tistreamlines.io.images import open_image, read_array
from tistreamlines.io.maps import write_fixels
from tistreamlines.io.tractograms import step_of_tractogram, stored_batches
from tistreamlines.space.geodesic import half_sphere
from tistreamlines.tracking.weights.fixels import FixelRules, fixels_of, nearest_fixels
from tistreamlines.tracking.weights.visits import Visitor

SHAPE = (6, 5, 4)


def folder_of(path, counts, directions, densities, affine=None, suffix="mif", name="fd"):
    """Write fixels, in the order of voxels."""
    index = np.zeros((*counts.shape, 2), np.uint32)
    index[..., 0] = counts
    index[..., 1] = np.where(counts > 0, (np.cumsum(counts) - counts.ravel()).reshape(counts.shape), 0)
    images = {"directions": np.float32(directions), name: np.float32(densities)}
    space = ts.Space(np.eye(4) if affine is None else affine, counts.shape)
    write_fixels(path, index, images, space, suffix, force=True)
    return path


# ---------------------------------------------------------------------------------------------------- beside programs
@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with MRtrix3's phantom, and what calls its programs there."""
    folder = tmp_path_factory.mktemp("fixels")
    return folder, inputs(folder, "fod2fixel")


def test_weights_by_fixels_are_those_by_fods(place, monkeypatch):
    """Of fod2fixel and of this program, as a folder or as its fibre densities."""
    folder, call = place
    monkeypatch.chdir(folder)
    call("fod2fixel SIFT_phantom/fods.mif theirs -afd any.mif")
    ts.fixels("SIFT_phantom/fods.mif", "ours", peak_amp=True, format="nii.gz")

    def weigh(fod):
        return ts.map_tractogram("SIFT_phantom/tracks.tck", sift2=(fod, "w.txt"), force=True)["products"]["sift2"]

    expected = weigh("SIFT_phantom/fods.mif")
    for fod in ("theirs", "theirs/any.mif", "ours", "ours/afd.nii.gz"):
        result = weigh(fod)
        np.testing.assert_allclose(result.mu, expected.mu, rtol=1e-3)
        assert np.corrcoef(result.coefficients, expected.coefficients)[0, 1] > 0.999
        np.testing.assert_allclose(result.iterations[-1].data, expected.iterations[-1].data, rtol=5e-3)


def test_visits_within_45_degrees_are_those_of_tck2fixel(place, monkeypatch):
    """Streamlines of each fixel. tck2fixel divides curves less finely, and so misses corners of voxels."""
    folder, call = place
    monkeypatch.chdir(folder)
    call("fod2fixel SIFT_phantom/fods.mif counted -afd fd.mif")
    call("tck2fixel SIFT_phantom/tracks.tck counted counted tdi.mif")
    expected = read_array(*open_image("counted/tdi.mif")).ravel()
    stored = load_fixels(fixel_files("counted"))
    fixels = fixels_of(stored, choose("cpu"), None, print, FixelRules(dilate=False))
    path = folder / "SIFT_phantom/tracks.tck"
    visitor = Visitor(fixels.table, step_of_tractogram(path), choose("cpu"))
    visits = np.zeros(len(expected), int)
    for streamlines in stored_batches(path):
        for part in visitor.parts(streamlines):
            words = part.words[part.words != 0]
            visits += np.bincount(words & 0xFFFFFF, minlength=len(visits))
    index = read_array(*open_image("counted/index.mif"))
    counts, first = index[..., 0].ravel().astype(int), index[..., 1].ravel().astype(int)
    places = np.concatenate([begin + np.arange(count) for begin, count in zip(first, counts, strict=True)])
    assert np.corrcoef(visits, expected[places])[0, 1] > 0.999
    assert abs(visits.sum() / expected.sum() - 1) < 0.05


def oblique():
    """Axes that MRtrix3 exchanges and turns."""
    turn = np.linalg.qr(np.random.default_rng(7).normal(size=(3, 3)))[0]
    affine = np.eye(4)
    affine[:3, :3], affine[:3, 3] = turn * [2.0, 1.5, 2.5], (-20, 10, 5)
    return affine


@pytest.mark.parametrize("suffix", ["mif", *at_night("nii")])
@pytest.mark.parametrize("affine", [oblique(), *at_night(np.diag([-2.0, -2, 2, 1]))], ids=str)
def test_rows_are_read_in_the_order_of_fixels(tmp_path, suffix, affine):
    """fod2fixel writes them along the axes of the voxels, which may be turned."""
    if shutil.which("fod2fixel") is None:
        pytest.skip("MRtrix3 is not installed")
    functions, _ = random_fods(int(np.prod(SHAPE)), seed=3)
    nib.save(nib.Nifti1Image(functions.reshape(*SHAPE, -1), affine), tmp_path / "fod.nii")
    nii = ["-nii"] if suffix == "nii" else []
    call = ["fod2fixel", tmp_path / "fod.nii", tmp_path / "theirs", "-afd", f"fd.{suffix}", "-quiet", *nii]
    subprocess.run(call, check=True)
    stored = load_fixels(fixel_files(tmp_path / "theirs"))
    ours = ts.fixels(tmp_path / "fod.nii", sh_basis="tournier07")
    # voxels may be stored in another order
    centres = [space.to_ras(np.argwhere(counts >= 0)) for space, counts in (
        (stored.space, stored.counts), (ours.space, ours.index[..., 0])
    )]
    apart = np.linalg.norm(centres[0][:, None] - centres[1], axis=2)
    voxel = apart.argmin(axis=1)
    assert apart.min(axis=1).max() < 1e-3
    begins = np.cumsum(stored.counts) - stored.counts.ravel()
    index, matched = ours.index.reshape(-1, 2).astype(int), 0
    for number, count in enumerate(stored.counts.ravel()):
        if count != index[voxel[number], 0]:
            continue
        there, here = (slice(first, first + count) for first in (begins[number], index[voxel[number], 1]))
        np.testing.assert_allclose(stored.densities[there], ours.densities[here], atol=5e-3)
        cosines = np.abs((stored.directions[there] * ours.directions[here]).sum(axis=1))
        assert (cosines > np.cos(np.radians(1))).all()
        matched += count
    assert matched > 0.95 * len(stored.densities) > 100


# ------------------------------------------------------------------------------------------------------ closed forms
def test_each_direction_belongs_to_the_nearest_fixel():
    rng = np.random.default_rng(4)
    counts = rng.integers(1, 5, 3000)
    directions = rng.normal(size=(counts.sum(), 3))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    half, begins = half_sphere()[0], np.cumsum(counts) - counts
    near, all_of = (
        nearest_fixels(counts, directions, *widest).view(np.uint8)[:, : len(half)] for widest in ((45,), ())
    )
    for voxel in (0, 1, 1500, 2999):
        cosines = np.abs(half @ directions[begins[voxel] :][: counts[voxel]].T)
        np.testing.assert_array_equal(all_of[voxel], cosines.argmax(axis=1))
        within = cosines.max(axis=1) > np.cos(np.radians(45))
        np.testing.assert_array_equal(near[voxel] == 127, ~within)
        np.testing.assert_array_equal(near[voxel][within], all_of[voxel][within])
    assert (nearest_fixels(counts, directions, threads=1) == nearest_fixels(counts, directions, threads=3)).all()


def test_lengths_lie_in_the_fixels_along_them(tmp_path):
    """A straight line along x through fixels along x and y, and one between them that lies nearer to y."""
    counts = np.full((4, 4, 4), 2)
    directions = np.tile([[1.0, 0, 0], [0, 3.0, 0]], (64, 1))
    path = folder_of(tmp_path / "fixels", counts, directions, np.ones(128))
    fixels = fixels_of(load_fixels(fixel_files(path)), choose("cpu"), None, print)
    np.testing.assert_allclose(np.linalg.norm(fixels.directions, axis=1), 1, atol=1e-6)
    along = np.array([[0, 1, 1], [1, 1, 1], [2, 1, 1], [3, 1, 1]], np.float32)
    slanted = np.array([[2.0, 2.0, 2.4], [2.2, 2.3, 2.4]], np.float32)
    lines = batch(np.concatenate([along, slanted]), np.array([0, 4, 6]))
    lengths = Visitor(fixels.table, 1.0, choose("cpu")).lengths(lines) * fixels.table.unit_mm
    at = lengths.reshape(4, 4, 4, 2)
    np.testing.assert_allclose(at[:, 1, 1, 0], [0.5, 1, 1, 0.5], atol=0.005)
    np.testing.assert_allclose(at[2, 2, 2], [0, np.hypot(0.2, 0.3)], atol=0.005)
    np.testing.assert_allclose(at.sum(), 3 + np.hypot(0.2, 0.3), atol=0.02)


def test_a_folder_serves_both_seeds_and_weights(tmp_path):
    """Streamlines of dynamic seeds along x, where fixels are."""
    counts = np.zeros((10, 6, 6), int)
    counts[1:9, 2:4, 2:4] = 1
    path = folder_of(tmp_path / "fixels", counts, np.tile([1.0, 0, 0], (32, 1)), np.ones(32), np.diag([2, 2, 2, 1]))
    peaks = np.zeros((10, 6, 6, 3))
    peaks[counts > 0] = [1, 0, 0]
    result = ts.track(
        peaks=peaks, affine=np.diag([2, 2, 2, 1]), stop_map=(counts > 0).astype(float), dg="det", seed_dynamic=path,
        nseeds=200, output=tmp_path / "a.trx", sift2=(path, tmp_path / "w.txt"), arch="cpu", min_length=0,
    )
    assert result.n_streamlines == 200 == len(np.loadtxt(tmp_path / "w.txt"))
    assert all(abs(line[-1, 0] - line[0, 0]) > 10 for line in result)


def test_an_image_of_one_voxel_is_one_of_fods(tmp_path):
    nib.save(nib.Nifti1Image(np.ones((1, 1, 1, 45), np.float32), np.eye(4)), tmp_path / "fod.nii")
    nib.save(nib.Nifti1Image(np.ones((5, 5, 5, 1), np.float32), np.eye(4)), tmp_path / "map.nii")
    assert fixel_files(tmp_path / "fod.nii") is fixel_files(tmp_path / "map.nii") is None


# ------------------------------------------------------------------------------------------------------------- errors
@pytest.fixture
def fixels(tmp_path, monkeypatch):
    """A folder with two fixels in each voxel, and a tractogram."""
    monkeypatch.chdir(tmp_path)
    counts = np.full((4, 4, 4), 2)
    folder_of(tmp_path / "fixels", counts, np.tile([[1.0, 0, 0], [0, 1, 0]], (64, 1)), np.ones(128))
    lines = [np.array([[0, 1, 1], [3, 1, 1]], np.float32)]
    nib.streamlines.save(nib.streamlines.Tractogram(lines, affine_to_rasmm=np.eye(4)), "a.tck")
    return tmp_path / "fixels"


def row_of(folder, name, values):
    """Write another image of rows."""
    values = np.float32(values)
    nib.save(nib.Nifti1Image(values.reshape(len(values), -1, 1), np.eye(4)), folder / f"{name}.nii")
    (folder / f"{name}.mif").unlink(missing_ok=True)


def damage(folder, fault):
    """Damage a folder of fixels."""
    densities, directions = np.ones(128), np.tile([[1.0, 0, 0], [0, 1, 0]], (64, 1))
    if fault in ("index", "directions", "fd"):
        (folder / f"{fault}.mif").unlink()
    elif fault == "several":
        for name in ("one", "two"):
            row_of(folder, name, densities)
        (folder / "fd.mif").unlink()
    elif fault == "both":
        row_of(folder, "afd", densities)
    elif fault == "two indices":
        nib.save(nib.Nifti1Image(np.zeros((4, 4, 4, 2), np.int32), np.eye(4)), folder / "index.nii")
    elif fault == "fewer":
        row_of(folder, "fd", densities[:-1])
    elif fault == "nowhere":
        row_of(folder, "directions", directions * (np.arange(128) != 7)[:, None])
    elif fault == "shape":
        row_of(folder, "directions", directions[:, :2])
    elif fault in ("nan", "negative", "zero"):
        row_of(folder, "fd", densities * {"nan": np.nan, "negative": -1, "zero": 0}[fault])
    elif fault in ("overlap", "broken", "grid"):
        index = np.array(read_array(*open_image(folder / "index.mif")), np.int32)
        index[2, 2, 2, 1] -= 2 * (fault == "overlap")
        index = index.astype(np.float32) - 0.5 * (fault == "broken")
        affine = np.eye(4) + 500 * (fault == "grid") * np.eye(4, k=3)
        nib.save(nib.Nifti1Image(index, affine), folder / "index.nii")
        (folder / "index.mif").unlink()


@pytest.mark.parametrize(("fault", "words"), [
    ("index", ["fixels: has no index.mif"]), ("directions", ["has no directions.mif"]),
    ("fd", ["has no image of fibre densities"]), ("several", ["several images of fixels (one.nii, two.nii)"]),
    ("both", ["several images of fixels (afd.nii, fd.mif)"]), ("two indices", ["index.mif and index.nii"]),
    ("fewer", ["fd.nii: has 127 rows", "128 fixels"]),
    ("nowhere", ["directions.nii: the direction of fixel 7 is 0, 0, 0"]),
    ("shape", ["directions.nii: shape (128, 2, 1)"]), ("nan", ["fd.nii: the fibre density of fixel 0 is nan"]),
    ("negative", ["fixel 0 is -1"]), ("zero", ["is 0 everywhere"]), ("overlap", ["fixels of several voxels overlap"]),
    ("broken", ["no whole numbers"]), ("grid", ["no streamline visits a fixel", "in one space"]),
])
def test_a_damaged_folder_is_told_in_a_line(run, fixels, fault, words):
    damage(fixels, fault)
    one_line(run("map", "a.tck", "--sift2", "fixels", "w.txt"), 1, *words)
    assert not (fixels.parent / "w.txt").exists()


@pytest.mark.parametrize(("code", "words", "parts"), [
    (1, ["fixels/index.mif", "w.txt"], ["has the index of fixels"]),
    (1, ["fixels/directions.mif", "w.txt"], ["has the directions of fixels"]),
    (2, ["fixels", "w.txt", "--basis", "tournier07"], ["--sift2-basis is one of harmonics"]),
    (1, ["fixels", "w.txt", "--mu", "fixels/fd.mif", "--force"], ["fd.mif: is an input"]),
    (1, ["nowhere", "w.txt"], ["nowhere: no such file"]),
])
def test_a_mistake_is_told_in_a_line(run, fixels, code, words, parts):
    before = (fixels / "fd.mif").read_bytes()
    one_line(run("map", "a.tck", "--sift2", *words), code, *parts)
    assert (fixels / "fd.mif").read_bytes() == before


def test_a_density_without_an_index_is_told_in_a_line(run, fixels):
    shutil.move(fixels / "fd.mif", "fd.mif")
    one_line(run("map", "a.tck", "--sift2", "fd.mif", "w.txt"), 1, "has no index.mif")
