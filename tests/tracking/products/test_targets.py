"""Counts from seeds to targets, compared with a plain count of the voxels that streamlines pass."""

from __future__ import annotations

import csv
import re

import nibabel as nib
import numpy as np
import pytest
from streamlines import pieces
from voxel_lines import TURNED, lines_on, numbered, product_of, saved, seeded

from tistreamlines.errors import InputError, OutputError, ParameterError
from tistreamlines.io.in_memory import InMemory
from tistreamlines.options.parameters import Parameters
from tistreamlines.space.batch import Space
from tistreamlines.tracking.products import grid, keyed_sums
from tistreamlines.tracking.products.voxel_matrix.targets import names_of

FINE = Space(np.array([[0.5, -0.4, 0, 2], [0.3, 0.6, 0.1, -1], [0, 0.2, 0.9, 0], [0, 0, 0, 1.0]]), (9, 8, 14))
NAMES = ("thick", "lh.V1", "fine", "one voxel", "seeds")  # as their maps


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    """Masks of seeds and targets, of which two overlap, one has a finer grid and one is the seeds; lines in batches."""
    folder, rng = tmp_path_factory.mktemp("masks"), np.random.default_rng(4)
    seeds = rng.random(TURNED.shape) < 0.5
    thick, other, single = rng.random(TURNED.shape) < 0.4, rng.random(TURNED.shape) < 0.4, np.zeros(TURNED.shape, bool)
    single[2, 2, 3] = True
    assert (thick & other).any()
    targets = [
        (TURNED, thick, "thick.nii"), (TURNED, other, "lh.V1.nii.gz"),
        (FINE, rng.random(FINE.shape) < 0.1, "fine.nii"), (TURNED, single, "one voxel.nii.gz"),
        (TURNED, seeds, "seeds.nii"),
    ]
    paths = [saved(folder / name, mask, space.affine) for space, mask, name in targets]
    lines, _, points, homes = lines_on(TURNED)
    cuts = [slice(0, 40), slice(40, 41), slice(41, 90)]
    return seeds, paths, targets, lines, homes, [seeded(lines[cut], points[cut]) for cut in cuts]


def counted(case):
    """Rows by voxel, and how many lines from each voxel pass each target: a line is cut at the borders of voxels."""
    seeds, _, targets, lines, homes, _ = case
    rows = numbered(seeds)
    counts = np.zeros((len(rows), len(targets)), int)
    for line, home in zip(lines, homes, strict=True):
        for column, (space, mask, _) in enumerate(targets):
            if home in rows and any(mask[voxel] for voxel, _ in pieces(line.astype(float), space)):
                counts[rows[home], column] += 1
    return rows, counts


def test_counts_maps_and_tables(case, tmp_path, monkeypatch):
    seeds, paths, *_, batches = case
    rows, counts = counted(case)
    assert (counts.sum(axis=0) > [9, 9, 9, 1, 9]).all()
    pair = (paths[-1], tmp_path / "os2t.csv")
    product = product_of("seeds_to_targets", batches, seeds_to_targets=pair, targets=paths)
    (matrix,) = product.value
    assert np.array_equal(matrix.counts.toarray(), counts)
    assert matrix.targets == NAMES
    assert [tuple(voxel) for voxel in matrix.rows.tolist()] == list(rows)
    assert matrix.seeded == sum(home in rows for home in case[4])
    assert product.doubts == ()
    details = {
        "seeds": paths[-1], "targets": dict(zip(NAMES, paths, strict=True)), "shape": [len(rows), 5], "streamlines": 90,
        "seeded": matrix.seeded, "counted": matrix.counted,
    }
    assert product.details["matrices"] == [details]
    with (tmp_path / "os2t.csv").open(newline="") as file:
        heading, *table = csv.reader(file)
    assert heading == ["x", "y", "z", *(f"seeds_to_{name}" for name in NAMES)]
    assert np.array_equal(np.array(table, int), np.column_stack([list(rows), counts]))
    for column, name in enumerate(NAMES):
        image = nib.load(tmp_path / f"seeds_to_{name}.nii.gz")
        values = np.asarray(image.dataobj)
        assert (values.dtype, values.shape) == (np.int32, TURNED.shape)
        assert np.allclose(image.affine, TURNED.affine, atol=1e-6)
        assert [values[voxel] for voxel in rows] == counts[:, column].tolist()
        assert not values[~seeds].any()
        assert np.array_equal(values, matrix.map_of(name))
    # in other parts and another order, the files have the same bytes
    (tmp_path / "again").mkdir()
    monkeypatch.setattr(grid, "LISTED", 64)
    monkeypatch.setattr(keyed_sums, "FEWEST", 5)
    pair = (paths[-1], tmp_path / "again" / "os2t.csv")
    (again,) = product_of("seeds_to_targets", batches[::-1], seeds_to_targets=pair, targets=paths).value
    assert (again.seeded, again.counted) == (matrix.seeded, matrix.counted)
    for path in product.paths:
        assert (tmp_path / "again" / path.name).read_bytes() == path.read_bytes()


def test_the_text_of_fsl_and_two_masks_of_seeds(case, tmp_path):
    _, paths, *_, batches = case
    rows, counts = counted(case)
    files = [tmp_path / folder / "matrix_seeds_to_all_targets" for folder in ("left", "right")]
    for file in files:
        file.parent.mkdir()
    pairs = [(paths[-1], files[0]), (paths[0], files[1])]
    product = product_of("seeds_to_targets", batches, seeds_to_targets=pairs, targets=paths[1:3])
    assert [path.name for path in product.paths[:4]] == [
        "matrix_seeds_to_all_targets", "coords_for_matrix_seeds_to_all_targets", "seeds_to_lh.V1.nii.gz",
        "seeds_to_fine.nii.gz",
    ]
    assert all(path.is_file() for path in product.paths)
    assert np.array_equal(np.loadtxt(files[0], int), counts[:, 1:3])
    coordinates = np.loadtxt(files[0].with_name(f"coords_for_{files[0].name}"), int)
    assert np.array_equal(coordinates, [(*voxel, 0, number) for voxel, number in rows.items()])
    assert len(files[1].read_text().splitlines()) == np.count_nonzero(case[2][0][1])


def test_a_line_counts_once_and_at_its_seed(tmp_path):
    """It comes back to a target, begins in another one, and jumps over a third, which no point of it lies in."""
    seeds = saved(tmp_path / "seeds.nii", np.ones((9, 1, 1)), np.eye(4))
    masks = {name: np.zeros((9, 1, 1)) for name in ("back", "home", "thin", "far")}
    for name, voxel in {"back": 4, "home": 2, "thin": 3, "far": 8}.items():
        masks[name][voxel] = 1
    paths = [saved(tmp_path / f"{name}.nii", mask, np.eye(4)) for name, mask in masks.items()]
    lines = [np.array([[2, 0, 0], [4, 0, 0], [5, 0, 0], [4, 0, 0]], float), np.array([[2.0, 0, 0]])]
    batch = seeded(lines, [[2, 0, 0], [2, 0, 0]])
    product = product_of("seeds_to_targets", [batch], seeds_to_targets=(seeds, tmp_path / "t.tsv"), targets=paths)
    (table,) = product.value
    assert table.counts.toarray()[2].tolist() == [1, 2, 1, 0]
    assert table.counts.sum() == 4
    assert (tmp_path / "t.tsv").read_text().splitlines()[3] == "2\t0\t0\t1\t2\t1\t0"
    far = re.escape(paths[3])
    assert re.search(rf"1 of 4 targets are reached by no streamline \({far}\): check that they lie", product.doubts[0])
    assert len(product.doubts) == 1


def test_seeds_elsewhere_and_no_streamline_are_told(tmp_path):
    seeds = saved(tmp_path / "seeds.nii", np.ones((5, 1, 1)), np.eye(4))
    lines = [np.full((3, 3), 90.0)]
    options = {"seeds_to_targets": (seeds, tmp_path / "t.csv"), "targets": [seeds]}
    product = product_of("seeds_to_targets", [seeded(lines, [[90, 0, 0]])], **options)
    advice = "check that it lies in the space of the tracked image"
    assert product.doubts == (f"{tmp_path / 't.csv'}: none of 1 streamlines begins in a voxel of {seeds}: {advice}",)
    (tmp_path / "none").mkdir()
    table = tmp_path / "none" / "t.csv"
    assert product_of("seeds_to_targets", [], **options | {"seeds_to_targets": (seeds, table)}).doubts == ()
    assert table.read_text() == "x,y,z,seeds_to_seeds\n" + "".join(f"{x},0,0,0\n" for x in range(5))


def test_names(tmp_path):
    assert list(names_of(["b/lh.V1.nii.gz", "a.mif.gz", InMemory("targets", np.ones(3)), "c.nii"])) == [
        "lh.V1", "a", "target_3", "c",
    ]
    for first, second in (("a/m1.nii.gz", "b/m1.nii.gz"), ("a/m1.nii.gz", "b/M1.nii"), ("m1.nii", "m1.nii")):
        with pytest.raises(ParameterError) as raised:
            names_of([first, second])
        name = "M1" if "M1" in second else "m1"
        assert str(raised.value) == (
            f"targets {second}: its map would have the name of that of {first}, seeds_to_{name}.nii.gz; give a file of "
            "another name"
        )


def test_what_is_refused(tmp_path):
    mask = saved(tmp_path / "mask.nii", np.ones((5, 1, 1)), np.eye(4))
    with pytest.raises(OutputError, match=r"a\.npz: unknown suffix '\.npz'; end the name with \.csv, \.tsv or \.txt"):
        product_of("seeds_to_targets", [], seeds_to_targets=(mask, "a.npz"), targets=[mask])
    empty = saved(tmp_path / "empty.nii", np.zeros((2, 2, 2)), np.eye(4))
    with pytest.raises(InputError, match=r"empty\.nii: has no voxels of at least 0\.5"):
        product_of("seeds_to_targets", [], seeds_to_targets=(mask, "a.csv"), targets=[mask, empty])
    for alone in ({"targets": [mask]}, {"seeds_to_targets": (mask, "a.csv")}):
        with pytest.raises(ParameterError, match=r"needs .*: give both or neither"):
            Parameters.given(alone)
