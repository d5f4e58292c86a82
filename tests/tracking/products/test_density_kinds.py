"""Maps of lengths, directions and sampled values, compared with sums over cut segments and with MRtrix3's tckmap."""

import shutil
import subprocess
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from streamlines import batch_of, pieces

from tistreamlines.errors import ParameterError
from tistreamlines.space.batch import Space
from tistreamlines.tracking.products import grid
from tistreamlines.tracking.products.density.density import Density, Ends
from tistreamlines.tracking.products.density.kinds import SUMS, Directions, MeanLength, MeanSample, TotalLength
from tistreamlines.tracking.products.density.map import KINDS, grid_of_map
from tistreamlines.tracking.products.samples.sampler import load_sampled

GRID = Space(np.eye(4), (6, 5, 7))
TURNED = Space(np.array([[0.8, -0.9, 0.1, 3], [0.6, 1.1, 0, -2], [0.2, 0.3, 2, 1], [0, 0, 0, 1.0]]), (6, 5, 7))
PHANTOM = Path(__file__).parents[4] / "shared/data/mrtrix_sift_phantom"
PADDED = "mrgrid one.nii pad -uniform 4 padded.nii"


def mapped(kind, batch, space=GRID, step=40.0, threads=2, sampled=None):
    product = kind(space, step, threads) if sampled is None else kind(space, step, threads, sampled)
    product.add(batch)
    return product.values()


def random_lines(space):
    rng = np.random.default_rng(1)
    return [space.to_ras(rng.uniform(-2, 8, (rng.integers(2, 6), 3))).astype(np.float32) for _ in range(120)]


@pytest.mark.parametrize("space", [GRID, TURNED])
def test_lengths_and_directions_of_cut_segments(space):
    lines = random_lines(space)
    length, colour = np.zeros(space.shape), np.zeros((*space.shape, 3))
    for line in lines:
        passed: dict[tuple[int, ...], np.ndarray] = {}
        for voxel, vector in pieces(line.astype(float), space):
            length[voxel] += np.linalg.norm(vector)
            passed[voxel] = passed.get(voxel, 0) + np.abs(vector)
        for voxel, vector in passed.items():
            colour[voxel] += vector / np.linalg.norm(vector)
    values = mapped(TotalLength, batch_of(lines), space)
    assert values.dtype == np.float32
    assert np.allclose(values, length, atol=2e-3)
    assert length.max() > 10
    values = mapped(Directions, batch_of(lines), space)
    counts = mapped(Density, batch_of(lines), space)
    assert np.allclose(np.linalg.norm(values, axis=-1), counts, rtol=1e-6)
    unit = colour / np.maximum(np.linalg.norm(colour, axis=-1, keepdims=True), 1e-9)
    differ = np.abs(values - unit * counts[..., None])
    assert np.quantile(differ, 0.99) < 0.003
    assert differ.max() < 0.05  # where less than a thousandth of a mm lies in a voxel


def test_a_line_with_a_corner():
    corner = [np.array(line) for line in ([[0.0, 0, 0], [3, 0, 0], [3, 4, 0]], [[3.0, 0, 0]], [[0.0, 0, 9], [9, 0, 9]])]
    length = mapped(TotalLength, batch_of(corner))
    assert length[:, :, 0].tolist() == [
        [0.5, 0, 0, 0, 0], [1, 0, 0, 0, 0], [1, 0, 0, 0, 0], [1, 1, 1, 1, 0.5], [0] * 5, [0] * 5
    ]
    assert length[:, :, 1:].sum() == 0
    assert np.allclose(mapped(Directions, batch_of(corner[:1]))[3, 0, 0], [0.5**0.5, 0.5**0.5, 0])
    means = mapped(MeanLength, batch_of(corner))
    assert means[2, 0, 0] == 7
    assert means[3, 0, 0] == 3.5  # a single point has no length, and passes its voxel


def kept_in(folder):
    rng = np.random.default_rng(5)
    nib.save(nib.Nifti1Image(rng.random((4, 5, 6), np.float32) * 1e-3, np.diag([2.0, 2, 2, 1])), folder / "map.nii")
    return load_sampled(folder / "map.nii")


def test_every_kind_has_a_class():
    assert tuple(SUMS) == KINDS


@pytest.mark.parametrize("kind", SUMS)
def test_threads_batches_and_order_change_no_bit(kind, tmp_path, monkeypatch):
    rng = np.random.default_rng(3)
    lines = [np.cumsum(rng.normal(0, 0.4, (20, 3)), axis=0) + 3 for _ in range(300)]
    sampled = kept_in(tmp_path) if kind == "sample" else None
    expected = mapped(SUMS[kind], batch_of(lines), threads=1, sampled=sampled)
    monkeypatch.setattr(grid, "LISTED", 1000)
    product = SUMS[kind](GRID, 40.0, 4, sampled)
    for first in reversed(range(0, 300, 23)):
        product.add(batch_of(lines[first : first + 23]))
    assert product.values().tobytes() == expected.tobytes()
    assert expected.max() > 0


def test_streamlines_that_are_too_long():
    back_and_forth = np.zeros((2000, 3))
    back_and_forth[::2, 0] = 30
    with pytest.raises(ParameterError, match="59970 mm is too long"):
        mapped(TotalLength, batch_of([back_and_forth]))


@pytest.fixture(scope="module")
def phantom(tmp_path_factory):
    """A folder with a map, and what compares a map of MRtrix3's phantom with that of tckmap."""
    if shutil.which("tckmap") is None:
        pytest.skip("MRtrix3 is not installed")
    if not PHANTOM.is_dir():
        pytest.skip("shared/data/mrtrix_sift_phantom is missing")
    folder = tmp_path_factory.mktemp("phantom")
    for command in (f"mrconvert {PHANTOM / 'dwi.mif'} -coord 3 0 -axes 0,1,2 one.nii", PADDED):
        subprocess.run([*command.split(), "-quiet"], cwd=folder, check=True)
    image = nib.load(folder / "padded.nii")
    x, y, z = np.indices(image.shape)
    nib.save(nib.Nifti1Image((100 + 3 * x - 2 * y + z * z).astype(np.float32), image.affine), folder / "values.nii")
    tracks = nib.streamlines.load(PHANTOM / "tracks.tck").streamlines
    batch, space = batch_of(list(tracks)), grid_of_map(folder / "one.nii")

    def pair(kind, *options, sampled=None):
        command = ["tckmap", "-quiet", "-force", "-template", "one.nii", *options, str(PHANTOM / "tracks.tck"), "m.nii"]
        subprocess.run(command, cwd=folder, check=True)
        return mapped(kind, batch, space, 1.01, 2, sampled), np.asarray(nib.load(folder / "m.nii").dataobj)

    return folder, pair


def test_ends_are_those_of_tckmap(phantom):
    ours, theirs = phantom[1](Ends, "-ends_only")
    assert ours.sum() == 10000
    assert np.array_equal(ours, theirs)


def test_lengths_are_nearly_those_of_precise_mapping(phantom):
    """The curve on which tckmap looks for borders is a spline, a little longer than the segments."""
    ours, theirs = phantom[1](TotalLength, "-precise")
    assert abs(ours.sum() / theirs.sum() - 1) < 2e-3
    assert np.abs(ours - theirs).sum() < 3e-3 * theirs.sum()
    assert np.abs(ours - theirs).max() < 0.01 * theirs.max()


def test_directions_are_nearly_those_of_tckmap(phantom):
    ours, theirs = phantom[1](Directions, "-dec", "-upsample", "40")
    lengths = [np.linalg.norm(vectors, axis=-1) for vectors in (ours, theirs)]
    many = np.minimum(*lengths) > 5
    cosines = (ours * theirs).sum(-1)[many] / lengths[0][many] / lengths[1][many]
    assert np.degrees(np.arccos(cosines.min())) < 1
    assert np.corrcoef(*(vectors.ravel() for vectors in lengths))[0, 1] > 0.9999
    assert many.sum() > 100


@pytest.mark.parametrize(("kind", "options"), [
    (MeanLength, ("-contrast", "length")), (MeanSample, ("-contrast", "scalar_map", "-image", "values.nii")),
])
def test_means_are_nearly_those_of_tckmap(phantom, kind, options):
    folder, pair = phantom
    sampled = load_sampled(folder / "values.nii") if kind is MeanSample else None
    ours, theirs = pair(kind, *options, "-stat_vox", "mean", sampled=sampled)
    both = (ours > 0) & (theirs > 0)
    assert both.sum() > 150
    assert both.sum() > 0.98 * ((ours > 0) | (theirs > 0)).sum()
    assert np.abs(ours / np.maximum(theirs, 1e-9) - 1)[both].max() < 2e-3
