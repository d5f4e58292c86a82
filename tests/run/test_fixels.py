"""Fixels against MRtrix3's fod2fixel, the folder that is written, and errors in one line."""

import shutil
import subprocess

import nibabel as nib
import numpy as np
import pytest
from commands import one_line
from fods import random_fods
from nights import at_night
from places import DATA

import tistreamlines as ts
from tistreamlines.errors import InputError, OutputError, ParameterError
from tistreamlines.io.images import open_image, read_array
from tistreamlines.io.maps import write_fixels
from tistreamlines.space.geodesic import half_sphere

SHAPE = (7, 6, 5)
PHANTOM = DATA / "mrtrix_sift_phantom/fods.mif"
MRTRIX = pytest.mark.skipif(shutil.which("fod2fixel") is None, reason="MRtrix3 is not installed")
NAMES = ("index", "directions", "afd", "peak_amp", "disp")


def oblique(flip=1.0):
    """Axes that are turned, and perhaps left-handed, with voxels of three sizes."""
    turn = np.linalg.qr(np.random.default_rng(7).normal(size=(3, 3)))[0]
    turn *= np.sign(np.linalg.det(turn))
    affine = np.eye(4)
    affine[:3, :3], affine[:3, 3] = turn * [2.0 * flip, 1.5, 2.5], (-20, 10, 5)
    return affine


def image_of(functions, affine=None):
    return nib.Nifti1Image(functions.reshape(*SHAPE, -1), oblique() if affine is None else affine)


@pytest.fixture(scope="module")
def functions():
    """FODs of order 8, of which the first voxels have none."""
    coefficients, _ = random_fods(int(np.prod(SHAPE)), seed=12)
    coefficients[:20] = 0
    coefficients[20:25, 0] *= -1
    coefficients[25:30, 1:] *= -2  # their greatest sizes are those of negative amplitudes
    return coefficients


@pytest.fixture(scope="module")
def image(functions, tmp_path_factory):
    path = tmp_path_factory.mktemp("fods") / "fods.nii.gz"
    nib.save(image_of(functions), path)
    return path


def read(folder, name):
    path, opened = open_image(folder / f"{name}.mif")
    return read_array(path, opened)


@pytest.fixture(scope="module")
def their_folder(image, tmp_path_factory):
    """A folder that fod2fixel has written."""
    folder = tmp_path_factory.mktemp("fixels") / "theirs"
    theirs(image, folder)
    return folder


def theirs(path, folder, *options):
    """What fod2fixel makes."""
    images = ("-afd", "afd.mif", "-peak_amp", "peak_amp.mif", "-disp", "disp.mif")
    subprocess.run(["fod2fixel", path, folder, *images, "-quiet", "-force", *options], check=True)
    # MRtrix3 stores the rows of fixels in the order and sense of the axes of the voxels
    fixels = {"index": read(folder, "index")}
    for name in NAMES[1:]:
        straight = folder.parent / f"{name}.nii"
        call = ["mrconvert", folder / f"{name}.mif", straight, "-strides", "1,2,3", "-quiet", "-force"]
        subprocess.run(call, check=True)
        fixels[name] = np.asarray(nib.load(straight).dataobj)
    return fixels


def compare(path, folder, options=(), **ours):
    """Compare fixels with those of fod2fixel, whose voxels follow each other in any order."""
    fixels, expected = ts.fixels(path, sh_basis="tournier07", **ours), theirs(path, folder, *options)
    counts = expected["index"][..., 0].astype(int)
    same = fixels.index[..., 0] == counts
    assert same.mean() >= 0.99
    assert counts.sum() > 100
    inside = same & (counts > 0)
    numbers = np.concatenate([first + np.arange(n) for n, first in expected["index"][inside].astype(int)])
    ours_of = np.concatenate([first + np.arange(n) for n, first in fixels.index[inside].astype(int)])
    densities = expected["afd"].ravel()[numbers]
    directions = expected["directions"][numbers, :, 0]
    cosine = np.abs((directions * fixels.directions[ours_of]).sum(axis=1))
    if ours.get("dirpeak"):  # where its search of a peak fails, fod2fixel keeps the direction with which that began
        converged = np.abs(directions @ half_sphere()[0].T).max(axis=1) < 1 - 1e-6
        assert converged.mean() > 0.5
        cosine = cosine[converged]
    assert (cosine > np.cos(np.radians(1))).mean() >= 0.99
    np.testing.assert_allclose(fixels.densities[ours_of], densities, atol=2e-3 * densities.max())
    if np.ptp(densities):
        assert np.corrcoef(fixels.densities[ours_of], densities)[0, 1] >= 0.999
    away = np.abs(fixels.peaks[ours_of] - expected["peak_amp"].ravel()[numbers])
    assert (away < 1e-3 * fixels.peaks.max()).mean() >= 0.99
    away = np.abs(fixels.dispersions[ours_of] - expected["disp"].ravel()[numbers])
    assert (away < 5e-3 * fixels.dispersions.max()).mean() >= 0.99
    return fixels


@pytest.mark.nightly
@MRTRIX
@pytest.mark.skipif(not PHANTOM.is_file(), reason="shared/data/mrtrix_sift_phantom is missing")
def test_fixels_of_the_phantom_are_those_of_fod2fixel(tmp_path):
    """Nightly; by day, those of an image on oblique axes."""
    compare(PHANTOM, tmp_path / "theirs")


@MRTRIX
@pytest.mark.parametrize(("options", "ours"), [
    ((), {}),
    (("-fmls_peak_value", "0.25", "-fmls_integral", "0.1"), {"fmls_peak_value": 0.25, "fmls_integral": 0.1}),
    (("-dirpeak",), {"dirpeak": True}),
    *at_night((("-fmls_no_thresholds",), {"fmls_peak_value": 0.0}), (("-maxnum", "2"), {"maxnum": 2})),
])
def test_fixels_are_those_of_fod2fixel(image, tmp_path, options, ours):
    """On oblique axes, along which MRtrix3's directions do not lie."""
    compare(image, tmp_path / "theirs", options, **ours)


@MRTRIX
def test_a_mask_is_that_of_fod2fixel(image, tmp_path):
    mask = (np.random.default_rng(3).uniform(size=SHAPE) < 0.5).astype(np.uint8)
    nib.save(nib.Nifti1Image(mask, oblique()), tmp_path / "mask.nii")
    fixels = compare(image, tmp_path / "theirs", ("-mask", tmp_path / "mask.nii"), mask=tmp_path / "mask.nii")
    assert not fixels.index[mask == 0].any()


@MRTRIX
@pytest.mark.parametrize("suffix", ["mif", "nii", "nii.gz"])
def test_mrtrix_reads_the_folder(image, their_folder, tmp_path, run, suffix):
    """Sums and directions of fixels in a voxel, which MRtrix3 makes of a folder, whatever program wrote it."""
    done = run("fixels", image, tmp_path / "ours", "--sh-basis", "tournier07", "--format", suffix, "--disp")
    assert done.code == 0, done
    assert {path.name for path in (tmp_path / "ours").iterdir()} == {
        f"{name}.{suffix}" for name in NAMES if name != "peak_amp"
    }
    for operation, name in (("sum", "afd"), ("mean", "disp"), ("complexity", "afd")):
        images = []
        for folder, end in ((their_folder, "mif"), (tmp_path / "ours", suffix)):
            out = tmp_path / f"{folder.name}.nii"
            source = folder / f"{name}.{end}"
            subprocess.run(["fixel2voxel", source, operation, out, "-quiet", "-force"], check=True)
            images.append(nib.load(out).get_fdata())
        np.testing.assert_allclose(images[1], images[0], atol=0.01 * images[0].max())


def test_the_command_writes_what_the_function_returns(image, tmp_path, run):
    done = run("fixels", image, tmp_path / "out", "--sh-basis", "tournier07", "--peak-amp", "--disp")
    assert done.code == 0, done
    fixels = ts.fixels(image, sh_basis="tournier07")
    voxels = np.count_nonzero(fixels.index[..., 0])
    assert done.out.strip().endswith(f"{len(fixels):,} fixels in {voxels:,} voxels")
    np.testing.assert_array_equal(read(tmp_path / "out", "index"), fixels.index)
    np.testing.assert_array_equal(read(tmp_path / "out", "directions")[..., 0], fixels.directions)
    for name, values in (("afd", fixels.densities), ("peak_amp", fixels.peaks), ("disp", fixels.dispersions)):
        np.testing.assert_array_equal(read(tmp_path / "out", name).ravel(), values)
    affine = open_image(tmp_path / "out" / "index.mif").image.affine
    np.testing.assert_allclose(affine, nib.load(image).affine, atol=1e-5)
    assert b"nfixels: %d\n" % len(fixels) in (tmp_path / "out" / "index.mif").read_bytes()


def test_fixels_are_numbered_voxel_by_voxel(image):
    fixels = ts.fixels(image, sh_basis="tournier07", directions_table=True)
    counts, firsts = fixels.index.reshape(-1, 2).T.astype(int)
    assert not counts[:30].any()
    assert counts.sum() == len(fixels) == len(fixels.directions) == len(fixels.peaks)
    np.testing.assert_array_equal(firsts[counts > 0], (np.cumsum(counts) - counts)[counts > 0])
    assert fixels.lobe_of_direction.shape == (np.count_nonzero(counts), 1281)
    assert (fixels.lobe_of_direction < counts[counts > 0][:, None]).all()


@pytest.mark.parametrize("flip", [1.0, -1.0])
def test_harmonics_along_the_voxel_axes_are_turned(functions, flip):
    """Lobes of the same functions on upright axes, but for the directions in which they are sampled."""
    upright = ts.fixels(image_of(functions, np.diag([2.0, 1.5, 2.5, 1])), sh_basis="tournier07", sh_frame="voxel",
                        fmls_peak_value=0.3)
    affine = oblique(flip)
    axes = affine[:3, :3] / np.linalg.norm(affine[:3, :3], axis=0)
    turned = ts.fixels(image_of(functions, affine), sh_basis="tournier07", sh_frame="voxel", fmls_peak_value=0.3)
    same = turned.index[..., 0] == upright.index[..., 0]
    assert same.mean() > 0.97
    single = same & (upright.index[..., 0] == 1)
    here, there = upright.index[single][:, 1], turned.index[single][:, 1]
    cosine = np.abs((upright.directions[here] @ axes.T * turned.directions[there]).sum(axis=1))
    assert np.count_nonzero(single) > 20
    assert (cosine > np.cos(np.radians(1))).all()
    np.testing.assert_allclose(turned.densities[there], upright.densities[here], rtol=0.02)


def test_merged_lobes_keep_the_density(image):
    apart = ts.fixels(image, sh_basis="tournier07", fmls_peak_value=0)
    joined = ts.fixels(image, sh_basis="tournier07", fmls_peak_value=0, fmls_merge_ratio=0.5)
    assert len(joined) < 0.8 * len(apart)
    assert abs(joined.densities.sum() / apart.densities.sum() - 1) < 1e-4


def test_many_fixels_are_written_as_nifti_2(tmp_path):
    """NIfTI-1 has no more than 32,767 of them in a row."""
    count = 40_000
    index = np.array([count, 0], np.uint32).reshape(1, 1, 1, 2)
    directions = np.tile(np.eye(3, dtype=np.float32)[0], (count, 1))
    space = ts.Space(np.eye(4), (1, 1, 1))
    write_fixels(tmp_path / "out", index, {"directions": directions}, space, "nii", force=False)
    assert nib.load(tmp_path / "out/directions.nii").shape == (count, 3, 1)
    if shutil.which("mrinfo"):
        done = subprocess.run(["mrinfo", "-size", tmp_path / "out/directions.nii"], capture_output=True, text=True,
                               check=True)
        assert done.stdout.split() == [str(count), "3", "1"]


# ------------------------------------------------------------------------------------------------------------- errors
def test_folders_are_not_overwritten(image, tmp_path, run):
    call = ("fixels", image, tmp_path / "out", "--sh-basis", "tournier07")
    assert run(*call).code == 0
    one_line(run(*call), 1, "is not empty", "--force")
    assert run(*call, "--force").code == 0
    one_line(run(*call, "--force", "--format", "nii"), 1, "has afd.mif, directions.mif, index.mif, which", "move them")
    (tmp_path / "file").write_text("text")
    one_line(run("fixels", image, tmp_path / "file", "--sh-basis", "tournier07"), 1, "is a file")
    one_line(run("fixels", image, tmp_path / "no/out", "--sh-basis", "tournier07"), 1, "make it first")


def test_images_of_other_fixels_are_not_mixed_with_new_ones(image, tmp_path, run):
    """As of fod2fixel -afd fd.mif, which never writes to a folder with files: neither replaced nor contradicted."""
    call, folder = ("fixels", image, tmp_path / "out", "--sh-basis", "tournier07"), tmp_path / "out"
    assert run(*call).code == 0
    (folder / "afd.mif").rename(folder / "fd.mif")
    (folder / "notes.txt").write_text("text")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    refused = run(*call, "--force", "--fmls-peak-value", 0.4)
    one_line(refused, 1, "out: has fd.mif, which would not be replaced and may be of other fixels; move it away")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    (folder / "fd.mif").unlink()
    assert run(*call, "--force", "--fmls-peak-value", 0.4).code == 0
    assert (folder / "notes.txt").read_text() == "text"


@pytest.mark.parametrize(("options", "words"), [
    ({"sh_basis": None}, "--sh-basis is needed"),
    ({"sh_basis": "tournier07_full"}, "symmetric"),
    ({"sh_basis": "other"}, "the basis is 'other'"),
    ({"sh_frame": "fsl"}, "--sh-frame is 'fsl'"),
    ({"fmls_peak_value": -1}, "--fmls-peak-value is -1"),
    ({"fmls_integral": float("nan")}, "--fmls-integral is nan"),
    ({"fmls_merge_ratio": 1.5}, "--fmls-merge-ratio is 1.5: give a number from 0 to 1"),
    ({"maxnum": 0}, "--maxnum is 0"),
    ({"maxnum": 2, "directions_table": True}, "leave maxnum out"),
    ({"format": "mgz"}, "--format is 'mgz'"),
    ({"arch": "gpu"}, "--arch"),
])
def test_wrong_options_are_named(image, options, words):
    with pytest.raises(ParameterError) as error:
        ts.fixels(image, **{"sh_basis": "tournier07", **options})
    assert words in error.value.on_command_line


def test_wrong_images_are_named(tmp_path):
    with pytest.raises(ParameterError, match="array"):
        ts.fixels(np.ones((2, 2, 2, 6)), sh_basis="tournier07")
    with pytest.raises(InputError, match="no such file"):
        ts.fixels(tmp_path / "missing.mif")
    with pytest.raises(InputError, match="volumes fit no order"):
        ts.fixels(nib.Nifti1Image(np.ones((2, 2, 2, 7), np.float32), np.eye(4)), sh_basis="tournier07")


def test_no_fixel_is_an_error(image, tmp_path, run):
    call = ("fixels", image, tmp_path / "out", "--sh-basis", "tournier07")
    one_line(run(*call, "--fmls-peak-value", 100), 1, "has no fixel", "--fmls-peak-value")
    assert not (tmp_path / "out").exists()


def test_thresholds_and_none_exclude_each_other(image, tmp_path, run):
    call = ("fixels", image, tmp_path / "out", "--sh-basis", "tournier07", "--fmls-no-thresholds")
    one_line(run(*call, "--fmls-integral", 0.1), 2, "--fmls-no-thresholds and --fmls-integral")
    assert run(*call).code == 0


def test_nothing_is_written_where_the_folder_cannot_be(image, tmp_path):
    (tmp_path / "out").write_text("text")
    with pytest.raises(OutputError):
        ts.fixels(image, tmp_path / "out", sh_basis="tournier07")
    assert (tmp_path / "out").read_text() == "text"
