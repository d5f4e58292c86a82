"""Phantoms of strands: their signals in closed form, and the scores of streamlines and of peaks that are known."""

import nibabel as nib
import numpy as np
import pytest
from truth.peaks import Functions, angular_scores, peaks_of
from truth.scan import B0S, Scan
from truth.strands import GEOMETRIES
from truth.truth import ACROSS, ALONG, FLUID, FLUID_SIGNAL, GREY_SIGNAL, ISOTROPIC, SIGNAL, Truth

from tistreamlines.space.harmonics import BASES, sampling_matrix, spiral

WITHOUT_NOISE = 1e6


@pytest.fixture(scope="module")
def truth():
    return Truth("crossings", Scan(1000.0, WITHOUT_NOISE, 12, 2.5), 3)


@pytest.fixture(scope="module")
def two_shells():
    return Truth("crossings", Scan.read(f"1000+3000:{WITHOUT_NOISE}:12+20:2.5"), 3)


def strands_of(truth):
    return [line for part in truth.bundles.values() for line in part]


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_the_strands_themselves_are_valid(geometry):
    truth = Truth(geometry, Scan(voxel_mm=2.5), 2)
    scores = truth.score([line[::-1] if number % 2 else line for number, line in enumerate(strands_of(truth))])
    assert scores["VC"] > 97  # a few end within the end of another bundle
    assert scores["valid_bundles"] == 100
    assert scores["overlap"] > 99.9
    assert scores["r"] > 0.99
    assert truth.white.any()


def test_halves_connect_nothing(truth):
    scores = truth.score([line[: len(line) // 2] for line in strands_of(truth)])
    assert (scores["VC"], scores["IC"], scores["NC"]) == (0, 0, 100)
    assert (scores["overlap"], scores["overreach"], scores["valid_bundles"]) == (0, 0, 0)


def test_lines_between_bundles_are_invalid(truth):
    first, second, *_ = truth.bundles.values()
    over = [np.linspace(first[0, 0], second[0, -1], 30), first[0], np.linspace(first[0, 0], first[1, 0], 2)]
    scores = truth.score(over)
    assert scores["IC"] == pytest.approx(200 / 3)
    assert scores["VC"] == pytest.approx(100 / 3)


def test_what_lies_outside_is_overreach(truth):
    line = next(iter(truth.bundles.values()))[0]
    detour = np.concatenate([line[:5], line[5:-5] + np.array([0, 0, 6]), line[-5:]])
    plain, other = (truth.score([path]) for path in (line, detour))
    assert other["VC"] == 100
    assert other["overreach"] > plain["overreach"]
    assert other["overlap"] < plain["overlap"]


def test_no_streamlines_are_an_error(truth):
    with pytest.raises(ValueError, match="no streamline"):
        truth.score([np.zeros((1, 3))])


@pytest.mark.parametrize("shells", ["truth", "two_shells"])
def test_a_voxel_of_one_straight_bundle_has_its_tensors_signal(shells, request):
    truth = request.getfixturevalue(shells)
    data, bvals, gradients = truth.series()
    name = "crossing_90_a"
    others = sum(amount for other, amount in truth.amounts.items() if other != name)
    voxel = np.argmax(np.where(others == 0, truth.amounts[name], 0))
    part = truth.bundles[name]
    along = np.gradient(part, axis=1).reshape(-1, 3)[truth.voxels(part.reshape(-1, 3)) == voxel].mean(axis=0)
    along /= np.linalg.norm(along)
    expected = SIGNAL * np.exp(-bvals * (ACROSS + (ALONG - ACROSS) * (gradients @ along) ** 2))
    assert np.allclose(data.reshape(-1, len(bvals))[voxel], expected, rtol=0.08, atol=0.01 * SIGNAL)  # some is grey


def test_csf_lies_in_pools_around_white_matter():
    truth = Truth("narrow", Scan.read(f"1000+3000:{WITHOUT_NOISE}:6+6:2.5:csf"), 3)
    plain = Truth("narrow", Scan.read(f"1000+3000:{WITHOUT_NOISE}:6+6:2.5"), 3)
    assert truth.about["tissues"] == "white, grey, csf"
    assert truth.erosions
    assert truth.white.sum() == plain.white.sum()
    data, bvals, _ = truth.series()
    beside = truth.mask & (truth.white_fraction < 0.001)
    for share, signal, decay in ((0, GREY_SIGNAL, ISOTROPIC), (1, FLUID_SIGNAL, FLUID)):
        there = data[beside & (truth.fluid_share == share)]
        assert len(there) > 0.1 * beside.sum()
        assert np.allclose(there, signal * np.exp(-bvals * decay), rtol=0.02, atol=0.01 * SIGNAL)
    with pytest.raises(ValueError, match="fifth field"):
        Scan.read("1000:20:64:2:bone")


def test_files_are_in_fsls_frame(truth, tmp_path):
    """A tensor fitted to the files lies along the strands."""
    from dipy.core.gradients import gradient_table
    from dipy.reconst.dti import TensorModel

    truth.save(tmp_path)
    image = nib.load(tmp_path / "dwi.nii.gz")
    gtab = gradient_table(np.loadtxt(tmp_path / "dwi.bval"), bvecs=np.loadtxt(tmp_path / "dwi.bvec").T)
    fitted = TensorModel(gtab).fit(image.get_fdata(), mask=truth.white)
    for name in ("crossing_60_a", "crossing_60_b"):
        strand = truth.bundles[name][0]
        ends = strand[10:20]
        voxel = np.unravel_index(truth.voxels(ends)[5], truth.shape)
        axis = fitted.directions[voxel][0] * np.sign(np.diag(image.affine)[:3])
        along = (ends[-1] - ends[0]) / np.linalg.norm(ends[-1] - ends[0])
        assert abs(axis @ along) > 0.97


def test_seeds_lie_in_white_matter(truth):
    assert truth.white.ravel()[truth.voxels(truth.seeds(200))].all()


def test_a_scan_is_what_its_text_says():
    single, two = Scan.read("1000:20:64:2"), Scan.read("3000+1000:20:64+32:2.5")
    assert single == Scan(1000.0, 20.0, 64, 2.0)
    assert two == Scan(3000.0, 20.0, 64, 2.5, ((1000.0, 32),))  # the outermost shell is that of the scan itself
    assert single.about == {"bval": 1000.0, "snr": 20.0, "directions": 64, "voxel_mm": 2.0}
    assert two.about == {"bval": "1000+3000", "snr": 20.0, "directions": "32+64", "voxel_mm": 2.5}
    for wrong in ("1000+3000:20:64:2", "1000:20:64"):
        with pytest.raises(ValueError, match=r"shorter|unpack"):
            Scan.read(wrong)


def test_the_outermost_shell_is_that_of_a_scan_without_others(two_shells):
    alone = Truth("crossings", Scan(3000.0, WITHOUT_NOISE, 20, 2.5), 3)
    (data, bvals, gradients), (outer, *_) = two_shells.series(), alone.series()
    assert list(bvals) == [0] * B0S + [1000] * 12 + [3000] * 20
    kept = bvals != 1000
    assert np.array_equal(gradients[kept], alone.scan.gradients(3)[1])
    assert np.allclose(data[..., kept], outer, atol=0.01)
    inner = gradients[bvals == 1000]
    assert np.abs(inner @ gradients[bvals == 3000].T).max() < 0.9999  # of directions of its own


@pytest.mark.parametrize("pair", [30, 45, 60, 90])
def test_fibres_are_along_the_strands(truth, pair):
    """In the voxels of two bundles that cross, there are two, at the angle of the strands in the bundles' middle."""
    voxels, fibres = truth.fibres
    assert np.allclose(np.linalg.norm(fibres, axis=1), 1)
    assert truth.white[tuple(voxels.T)].all()
    flat = np.ravel_multi_index(tuple(voxels.T), truth.shape)
    names = [f"crossing_{pair}_{side}" for side in "ab"]
    middles = [truth.bundles[name][0, truth.bundles[name].shape[1] // 2 + np.array([-8, 8])] for name in names]
    first, second = (np.diff(middle, axis=0)[0] / np.linalg.norm(np.diff(middle, axis=0)) for middle in middles)
    crossing = np.minimum(*(truth.amounts[name] for name in names)) > 0.45
    cosines = [abs(np.dot(*fibres[flat == voxel])) for voxel in np.flatnonzero(crossing)]
    assert len(cosines) > 5
    assert np.degrees(np.arccos(np.median(cosines))) == pytest.approx(np.degrees(np.arccos(abs(first @ second))), abs=4)


def turned_by(fibres, degrees):
    """The directions, each turned by an angle."""
    across = np.cross(fibres, np.roll(fibres, 1, axis=1) * [1, -2, 3])
    across /= np.linalg.norm(across, axis=1, keepdims=True)
    return np.cos(np.radians(degrees)) * fibres + np.sin(np.radians(degrees)) * across


@pytest.mark.parametrize("degrees", [0, 10, 40])
def test_peaks_beside_the_fibres_are_off_by_their_angle(degrees):
    fibres = spiral(np.arange(40) * 2.4)
    voxels = np.stack(np.unravel_index(np.arange(40), (5, 4, 2)), axis=1)
    peaks = np.zeros((5, 4, 2, 3, 3))
    peaks[..., 0, :] = -turned_by(fibres, degrees).reshape(5, 4, 2, 3)  # the sign does not matter
    scores = angular_scores(peaks, voxels, fibres)
    far = 100 * (degrees > 20)
    assert scores["peak_error"] == pytest.approx(degrees, abs=1e-5)
    assert (scores["fibres_missed"], scores["peaks_spurious"]) == (far, far)


def test_missing_and_further_peaks_count():
    """Two fibres in one voxel, one in another, and none found in the third."""
    fibres, voxels = np.eye(3)[[0, 1, 0, 2]], np.array([[0, 0, 0], [0, 0, 0], [1, 0, 0], [2, 0, 0]])
    peaks = np.zeros((3, 1, 1, 2, 3))
    peaks[0, 0, 0, 0] = peaks[1, 0, 0, 0] = [1, 0, 0]
    peaks[1, 0, 0, 1] = [0, 1, 0]
    scores = angular_scores(peaks, voxels, fibres)
    assert scores == pytest.approx({"peak_error": 45, "fibres_missed": 50, "peaks_spurious": 100 / 3})


@pytest.mark.parametrize("basis", [name for name in BASES if not name.endswith("full")])
def test_peaks_are_found_in_each_basis_and_frame(basis):
    """Of two fibres that cross, in voxels whose axes are turned, and of a voxel without a function."""
    axes = np.linalg.qr(np.random.default_rng(4).normal(size=(3, 3)))[0]
    fibres = np.array([[1, 0, 0], [0.5, 0.75**0.5, 0]]) @ axes.T
    vertices = spiral(np.arange(800) * 2.4)
    lobes = ((vertices @ axes.T @ fibres.T) ** 40).sum(axis=1)
    coefficients = np.zeros((2, 1, 1, 45))
    coefficients[0, 0, 0] = np.linalg.lstsq(sampling_matrix(vertices, 8, basis), lobes, rcond=None)[0]
    peaks = peaks_of(Functions(coefficients, basis, axes), np.ones((2, 1, 1), bool))
    assert not peaks[1].any()
    scores = angular_scores(peaks, np.zeros((2, 3), int), fibres)
    assert scores["peak_error"] < 2.5
    assert scores["peaks_spurious"] == 0
