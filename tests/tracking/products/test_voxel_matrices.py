"""Matrices of voxels, compared with a plain count of the voxels that streamlines pass."""

from itertools import combinations

import nibabel as nib
import numpy as np
import pytest
from scipy import sparse
from streamlines import batch_of
from voxel_lines import TURNED, lines_on, numbered, product_of, saved, seeded

from tistreamlines.errors import InputError, OutputError, ParameterError
from tistreamlines.tracking.products import keyed_sums
from tistreamlines.tracking.products.voxel_matrix import matrices
from tistreamlines.tracking.products.voxel_matrix.mask import VoxelMask


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    """A mask and another one on a turned grid, lines and their seeds, in three batches."""
    folder, rng = tmp_path_factory.mktemp("masks"), np.random.default_rng(2)
    masks = [rng.random(TURNED.shape) < share for share in (0.6, 0.4)]
    paths = [saved(folder / f"{k}.nii", mask, TURNED.affine) for k, mask in enumerate(masks)]
    lines, passed, seeds, homes = lines_on(TURNED)
    cuts = [slice(0, 40), slice(40, 41), slice(41, 90)]
    return masks, paths, passed, homes, [seeded(lines[cut], seeds[cut]) for cut in cuts]


def test_pairs_of_a_mask(case, tmp_path, monkeypatch):
    masks, paths, passed, _, batches = case
    number = numbered(masks[0])
    expected = np.zeros((len(number),) * 2, int)
    for voxels in passed:
        for row, column in combinations(sorted(number[voxel] for voxel in voxels if voxel in number), 2):
            expected[row, column] += 1
    assert expected.max() > 5
    (matrix,) = product_of("voxel_matrix", batches, voxel_matrix=(paths[0], tmp_path / "a.npz")).value
    assert np.array_equal(matrix.counts.toarray(), expected)
    assert np.array_equal(sparse.load_npz(tmp_path / "a.npz").toarray(), expected)
    assert [tuple(voxel) for voxel in matrix.rows.tolist()] == list(number)
    assert matrix.counted == sum(sum(voxel in number for voxel in voxels) > 1 for voxels in passed)
    # in other parts and another order, the file has the same bytes
    monkeypatch.setattr(matrices, "PAIRS_AT_ONCE", 3)
    monkeypatch.setattr(keyed_sums, "FEWEST", 5)
    product_of("voxel_matrix", batches[::-1], voxel_matrix=(paths[0], tmp_path / "b.npz"))
    assert (tmp_path / "b.npz").read_bytes() == (tmp_path / "a.npz").read_bytes()


def test_seeds_to_the_mask_and_to_targets(case, tmp_path):
    masks, paths, passed, homes, batches = case
    rows, columns = numbered(masks[0]), numbered(masks[1])
    alone, targets = np.zeros((len(rows), len(rows)), int), np.zeros((len(rows), len(columns)), int)
    for voxels, home in zip(passed, homes, strict=True):
        for voxel in voxels if home in rows else ():
            if voxel in rows and voxel != home:
                alone[rows[home], rows[voxel]] += 1
            if voxel in columns:
                targets[rows[home], columns[voxel]] += 1
    pairs = [(paths[0], tmp_path / name) for name in ("fdt_matrix1.dot", "fdt_matrix2.dot")]
    first, second = product_of(
        "seed_matrix", batches, seed_matrix=pairs, seed_matrix_targets=[paths[0], paths[1]]
    ).value
    assert np.array_equal(first.counts.toarray(), alone)
    assert np.array_equal(second.counts.toarray(), targets)
    assert min(alone.sum(), targets.sum()) > 50
    (again,) = product_of("seed_matrix", batches, seed_matrix=(paths[0], tmp_path / "one.npz")).value
    assert np.array_equal(again.counts.toarray(), alone)
    # FSL's files: columns first, from 1 on, and the size in the last line
    table = np.loadtxt(tmp_path / "fdt_matrix2.dot", int)
    assert table[-1].tolist() == [*targets.shape, 0]
    assert np.array_equal(table[:-1, :2], np.argwhere(targets.T)[:, ::-1] + 1)
    assert np.array_equal(table[:-1, 2], targets.T[targets.T > 0])
    coordinates = np.loadtxt(tmp_path / "coords_for_fdt_matrix2", int)
    assert np.array_equal(coordinates, [(*voxel, 0, number) for voxel, number in rows.items()])
    assert np.array_equal(np.loadtxt(tmp_path / "tract_space_coords_for_fdt_matrix2", int), list(columns))
    lookup = np.asarray(nib.load(tmp_path / "lookup_tractspace_fdt_matrix2.nii.gz").dataobj)
    assert all(lookup[voxel] == number + 1 for voxel, number in columns.items())
    assert np.count_nonzero(lookup) == len(columns)


def test_a_line_that_comes_back_and_one_that_is_short(tmp_path):
    mask = saved(tmp_path / "mask.nii", np.ones((5, 1, 1)), np.eye(4))
    lines = [np.array(line, float) for line in ([[0, 0, 0], [3, 0, 0], [1, 0, 0]], [[0, 0, 0], [1, 0, 0]])]
    batch = seeded(lines, [[3, 0, 0], [0, 0, 0]])
    product = product_of("voxel_matrix", [batch], voxel_matrix=(mask, tmp_path / "v.dot"))
    assert (tmp_path / "v.dot").read_text() == (
        "1  2  2\n1  3  1\n2  3  1\n1  4  1\n2  4  1\n3  4  1\n5  5  0\n"
    )
    assert (tmp_path / "coords_for_v").read_text().splitlines()[2] == "2  0  0  0  2"
    assert product.details["matrices"][0] == {
        "rows": mask, "columns": mask, "shape": [5, 5], "pairs": 6, "streamlines": 2, "counted": 2,
    }
    (long,) = product_of(
        "voxel_matrix", [batch], voxel_matrix=(mask, tmp_path / "l.dot"), voxel_matrix_min_length=4.9
    ).value
    assert (long.streamlines, long.counts[0, 1]) == (1, 1)
    (seeds,) = product_of(
        "seed_matrix", [batch], seed_matrix=(mask, tmp_path / "s.npz"), seed_matrix_min_length=1.0
    ).value
    assert seeds.counts.toarray().tolist() == [[0, 1, 0, 0, 0], [0] * 5, [0] * 5, [1, 1, 1, 0, 0], [0] * 5]


def test_no_streamline_in_the_mask_is_told(tmp_path):
    mask = saved(tmp_path / "mask.nii", np.ones((5, 1, 1)), np.eye(4))
    product = product_of("voxel_matrix", [batch_of([np.full((3, 3), 90.0)])], voxel_matrix=(mask, tmp_path / "v.npz"))
    assert "none of 1 streamlines" in product.doubts[0]
    assert product.value[0].counts.nnz == 0
    assert product_of("seed_matrix", [], seed_matrix=(mask, tmp_path / "s.dot")).doubts == ()
    assert (tmp_path / "s.dot").read_text() == "5  5  0\n"


def test_what_is_refused(tmp_path):
    mask = saved(tmp_path / "mask.nii", np.ones((5, 1, 1)), np.eye(4))
    with pytest.raises(OutputError, match=r"a\.csv: unknown suffix '\.csv'; end the name with \.npz, \.dot"):
        product_of("voxel_matrix", [], voxel_matrix=(mask, "a.csv"))
    with pytest.raises(ParameterError, match="seed_matrix_targets is there 2 times, seed_matrix 1 times"):
        product_of("seed_matrix", [], seed_matrix=(mask, "a.dot"), seed_matrix_targets=[mask, mask])
    with pytest.raises(InputError, match=r"empty\.nii: has no voxels of at least 0\.5"):
        VoxelMask(saved(tmp_path / "empty.nii", np.zeros((2, 2, 2)), np.eye(4)))
    fine = saved(tmp_path / "fine.nii", np.ones((2, 2, 2)), np.diag([1e-3, 1e-3, 1e-3, 1]))
    long = batch_of([np.array([[0.0, 0, 0], [9, 0, 0]])])
    with pytest.raises(ParameterError, match=r"longer than 1024 voxels of .*fine\.nii: give a mask of larger voxels"):
        product_of("voxel_matrix", [long], voxel_matrix=(fine, tmp_path / "f.dot"))
