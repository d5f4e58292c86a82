"""MRtrix3's own tests of tckgen, with ``tistreamlines track`` in its place.

The commands and tolerances are those of ``testing/binaries/tests/tckgen`` in MRtrix3 3.0.3; docs/tckgen.md says of each
option what differs. Results are those of MRTRIX3_TEST_DATA (see mrtrix_tests), or else what the installed tckgen makes.
``tckgen -algo seedtest`` writes seeds: here, each has a streamline of a step in a field without end, and its seed is
read from the .trx file. FACT is ``--dg det`` on the same peaks. Dynamic seeds, Tensor_Det and Tensor_Prob have no
counterpart. Runs without a mask, and with one beside anatomy, are compared by their counts and lengths.
"""

import nibabel as nib
import numpy as np
import pytest
from commands import one_line
from mrtrix_tests import DATA, inputs
from nights import at_night
from trx import trx_file_memmap

FOD = "--sh SIFT_phantom/fods.mif"
INSIDE = "--seed-mask SIFT_phantom/mask.mif --mask SIFT_phantom/mask.mif"
ANATOMY = "--seed-mask SIFT_phantom/mask.mif --act SIFT_phantom/5tt.mif"
SEEDS = 2500
A_STEP = "--dg det --max-directions 1 --stop-map ones.nii --min-length 0 --max-steps 1 --step-size 0.01"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with the inputs of the tests, and what calls MRtrix3's programs there."""
    folder = tmp_path_factory.mktemp("tckgen")
    call = inputs(folder, "tckgen")
    call("mrconvert SIFT_phantom/dwi.mif -strides 1,2,3,4 dwi.nii")
    image = nib.load(folder / "dwi.nii")
    nib.save(nib.Nifti1Image(np.ones(image.shape[:3], np.float32), image.affine), folder / "ones.nii")
    along_x = np.broadcast_to(np.float32([1, 0, 0]), (*image.shape[:3], 3))
    nib.save(nib.Nifti1Image(along_x, image.affine), folder / "peaks.nii")
    return folder, call


@pytest.fixture
def track(place, run, monkeypatch):
    """What runs ``track`` on the phantom, and returns what it has printed."""
    monkeypatch.chdir(place[0])

    def tracked(words):
        done = run("track", *words.split(), "--arch", "cpu", "--force")
        assert done.code == 0, done.err
        return done

    return tracked


@pytest.fixture
def seeds(track):
    """What writes the seeds of options to ours.tck, as tckgen's seedtest does."""
    def written(words):
        track(f"--peaks peaks.nii --peaks-frame voxel {A_STEP} {words} -o seeds.trx")
        points = np.asarray(trx_file_memmap.load("seeds.trx").data_per_streamline["seeds"])
        tractogram = nib.streamlines.Tractogram(points[:, None], affine_to_rasmm=np.eye(4))
        nib.streamlines.save(tractogram, "ours.tck")
        return len(points)

    return written


def mapped(call, name, template):
    """How many streamlines of a file end in each voxel of an image."""
    call(f"tckmap {name}.tck -template {template} -ends_only {name}.nii")
    return np.asarray(nib.load(f"{name}.nii").dataobj, dtype=float)


def stored(call, name, command, template):
    """A result of MRtrix3's tests, or else what a command of tckgen makes."""
    if DATA is None:
        call(f"tckgen {command} theirs.tck")
        return mapped(call, "theirs", template)
    call(f"mrconvert {DATA / name} -strides 1,2,3 theirs.nii")
    return np.asarray(nib.load("theirs.nii").dataobj, dtype=float)


def made_grid(name, sides, first, voxel):
    """Write an image with the grid of a stored result, along the axes of RASmm."""
    affine = np.diag([voxel, voxel, voxel, 1.0])
    affine[:3, 3] = first
    nib.save(nib.Nifti1Image(np.zeros(sides, np.uint8), affine), name)
    return name


def test_seeds_in_a_sphere(place, seeds):
    _, call = place
    assert seeds("--seed-sphere 0,0,4,4 --nseeds 50000") == 50_000
    expected = stored(call, "tckgen/seed_sphere.mif", "SIFT_phantom/dwi.mif -algo seedtest -seed_sphere 0,0,4,4 "
                      "-select 50000", "dwi.nii")
    assert np.abs(mapped(call, "ours", "dwi.nii") - expected).max() <= 1000
    assert expected.max() > 1000


@pytest.mark.parametrize(("ours", "tolerance"), [
    ("--nseeds 3888", 26), ("--seeds-per-voxel 27", 0), ("--seed-grid 3", 0),
])
def test_seeds_in_a_mask(place, seeds, ours, tolerance):
    _, call = place
    assert seeds(f"--seed-mask SIFT_phantom/mask.mif {ours}") == 3888
    call("mrconvert SIFT_phantom/mask.mif -strides 1,2,3 mask.nii")
    expected = 27.0 * nib.load("mask.nii").get_fdata()
    if DATA is not None:
        assert np.array_equal(stored(call, "tckgen/SIFT_phantom_seeds.mif", "", ""), expected)
    assert np.abs(mapped(call, "ours", "dwi.nii") - expected).max() <= tolerance


@pytest.mark.nightly
def test_seeds_at_the_interface(place, seeds):
    """Nightly; by day, test_interface.py compares fewer seeds with those of tckgen."""
    _, call = place
    call("5tt2gmwmi SIFT_phantom/5tt.mif gmwmi.mif")
    assert seeds("--seed-gmwmi SIFT_phantom/5tt.mif --seed-image gmwmi.mif --nseeds 100000") == 100_000
    # the interface lies on sides of these voxels, so all their digits count
    grid = made_grid("interface.nii", (42, 15, 27), (-13.6666, -4.66665, -8.66665), 0.6667)
    expected = stored(call, "tckgen/gmwmi_seeds.mif", "SIFT_phantom/dwi.mif -algo seedtest -seed_gmwmi gmwmi.mif "
                      "-act SIFT_phantom/5tt.mif -select 100000", grid)
    assert np.array_equal(mapped(call, "ours", grid) >= 0.5, expected >= 0.5)
    assert (expected >= 0.5).sum() > 100


def test_seeds_by_a_map(place, track):
    """The lower path has a third of the voxels of the upper one, which the map makes up for."""
    _, call = place
    call("mrcalc SIFT_phantom/lower.mif 3 -mult SIFT_phantom/upper.mif -max rejection_seed.mif")
    track("--peaks SIFT_phantom/peaks.mif --peaks-frame scanner --dg det --stopping binary --select 5000 "
          "--mask SIFT_phantom/mask.mif --seed-image rejection_seed.mif --min-length 4 -o ours.tck")
    call("tckmap ours.tck -template dwi.nii all.nii")
    means = []
    for path in ("upper", "lower"):
        call(f"mrconvert SIFT_phantom/{path}.mif -strides 1,2,3 {path}.nii")
        means.append(nib.load("all.nii").get_fdata()[nib.load(f"{path}.nii").get_fdata() > 0].mean())
    assert abs(means[0] - means[1]) <= 30
    assert min(means) > 200


@pytest.mark.nightly
def test_ends_by_anatomy(place, track):
    """Nightly, since it tracks long; by day, test_act5.py counts what tckgen accepts."""
    _, call = place
    done = track(f"{FOD} --dg ifod1 {ANATOMY} --select 5000 -o ours.tck")
    assert "5,000 streamlines" in done.out + done.err
    grid = made_grid("ends.nii", (27, 10, 18), (-13, -4.5, -8.5), 1)
    expected = stored(call, "tckgen/act_terminations.mif", "SIFT_phantom/fods.mif -algo ifod1 -seed_image "
                      "SIFT_phantom/mask.mif -act SIFT_phantom/5tt.mif -select 5000", grid)
    assert np.array_equal(mapped(call, "ours", grid) >= 0.5, expected >= 0.5)
    assert (expected >= 0.5).sum() == 144


@pytest.mark.parametrize(("dg", "algorithm", "ours", "theirs"), [
    ("ifod1", "iFOD1", "", ""),
    ("sd_stream", "SD_Stream", "", ""),
    ("ifod2", "iFOD2", "--act SIFT_phantom/5tt.mif --mask SIFT_phantom/upper.mif",
     "-act SIFT_phantom/5tt.mif -mask SIFT_phantom/upper.mif"),
    *at_night(
        ("ifod2", "iFOD2", "", ""),
        ("ifod2", "iFOD2", "--mask SIFT_phantom/upper.mif", "-mask SIFT_phantom/upper.mif"),
    ),
])
def test_counts_and_lengths_without_a_mask_and_with_one(place, track, dg, algorithm, ours, theirs):
    """Without a mask, the cutoff and the ends of the image end streamlines; with one, they end outside it."""
    _, call = place
    track(f"{FOD} --dg {dg} --seed-mask SIFT_phantom/mask.mif --nseeds {SEEDS} {ours} -o ours.tck")
    call(f"tckgen SIFT_phantom/fods.mif theirs.tck -algorithm {algorithm} -seed_image SIFT_phantom/mask.mif "
         f"-seeds {SEEDS} -select 0 {theirs}")
    files = {name: nib.streamlines.load(f"{name}.tck") for name in ("ours", "theirs")}
    count, mean = {}, {}
    for name, file in files.items():
        lengths = [np.linalg.norm(np.diff(line, axis=0), axis=1).sum() for line in file.streamlines]
        count[name], mean[name] = len(lengths), np.mean(lengths)
    assert count["theirs"] > SEEDS / 5
    # four standard errors; tckgen keeps the first point outside the image at both ends
    assert abs(count["ours"] - count["theirs"]) < 4 * np.sqrt(0.5 * SEEDS)
    step = float(files["theirs"].header["step_size"])
    assert -2 * step - 0.3 < mean["ours"] - mean["theirs"] < 0.3


def test_an_image_of_fods_or_peaks_in_place_of_a_series(place, run):
    one_line(run("track", place[0] / "SIFT_phantom/fods.mif", "--dg", "ifod2", "-o", place[0] / "a.tck"), 1,
             "these look like FODs, 45 coefficients of order 8", "give them as --sh ")
    one_line(run("track", place[0] / "SIFT_phantom/peaks.mif", "-o", place[0] / "a.tck"), 1,
             "these look like peaks", "give them as --peaks ")


@pytest.mark.parametrize("words", [
    f"--dg ifod2 {INSIDE} --min-length 4", f"--dg ifod1 {ANATOMY} --backtrack",
])
def test_a_hundred_streamlines(run, track, words):
    if "--backtrack" in words and "--backtrack" not in run("track", "--help-all").out:
        pytest.skip("track has no --backtrack")
    track(f"{FOD} {words} --select 100 -o ours.tck")
    lines = nib.streamlines.load("ours.tck").streamlines
    assert len(lines) == 100
    assert all(len(line) > 1 and np.isfinite(line).all() for line in lines)
