"""What FSL's users expect of a run: fdt_paths, waytotal and matrices, the same in parts and in runs that go on."""

import nibabel as nib
import numpy as np
import pytest
from small_runs import SHAPE, write_inputs, write_parts

import tistreamlines as ts
from tistreamlines.errors import InputError
from tistreamlines.tracking.products.density.density import Density

FILES = (
    "fdt_paths.nii.gz", "waytotal", "fdt_matrix1.dot", "fdt_matrix2.npz", "fdt_matrix3.dot",
    "matrix_seeds_to_all_targets",
)


@pytest.fixture(scope="module")
def options(tmp_path_factory):
    """Options of a small run with a region."""
    folder = tmp_path_factory.mktemp("in")
    return write_inputs(folder) | {"include": ["15,20,13,9"], "min_length": 0}


@pytest.fixture(scope="module")
def products(tmp_path_factory):
    """A function that returns options of all products, whose files lie in a folder."""
    inputs = tmp_path_factory.mktemp("masks")
    for name, where in (("seeds", slice(None)), ("slab", slice(6, 9)), ("other", slice(8, 11))):
        mask = np.zeros(SHAPE, np.uint8)
        mask[2:-2, 2:-2, 2:-2][:, where] = 1
        nib.save(nib.Nifti1Image(mask, np.diag([2.0, 2, 2, 1])), inputs / f"{name}.nii.gz")

    def named(folder):
        folder.mkdir(exist_ok=True)
        paths, waytotal, first, two, three, table = (folder / name for name in FILES)
        seeds, slab, other = (str(inputs / f"{name}.nii.gz") for name in ("seeds", "slab", "other"))
        return {
            "density": paths, "waytotal": waytotal, "seed_matrix": [(seeds, first), (seeds, two)],
            "seed_matrix_targets": [seeds, slab], "voxel_matrix": (slab, three),
            "seeds_to_targets": (seeds, table), "targets": [slab, other],
        }

    return named


@pytest.fixture(scope="module")
def whole(options, products, tmp_path_factory):
    """A run with a tractogram."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, ts.track(output=folder / "run.trx", **options | products(folder))


def same(folder, whole):
    others = ("coords_for", "tract_space", "lookup", "seeds_to")
    beside = [file.name for file in whole[0].iterdir() if file.name.startswith(others)]
    assert len(beside) == 8 + 2
    return all((folder / name).read_bytes() == (whole[0] / name).read_bytes() for name in (*FILES, *beside))


def test_paths_and_waytotal_count_what_passes_the_region(whole, options):
    folder, result = whole
    kept = ts.track(**options)
    assert 5 < kept.n_streamlines < 100
    counts = Density(result.space, 5.0)
    for batch in kept.batches:
        counts.add(batch)
        assert all((np.linalg.norm(line - [15, 20, 13], axis=1) < 9).any() for line in batch)
    assert np.array_equal(np.asarray(nib.load(folder / "fdt_paths.nii.gz").dataobj), counts.counts())
    assert (folder / "waytotal").read_text() == f"{kept.n_streamlines}\n"
    assert result.products["waytotal"] == kept.n_streamlines
    assert sum(result.record["result"]["dropped"].values()) > 5


def test_a_row_has_the_streamlines_of_its_seed_voxel(whole, options):
    matrix = whole[1].products["seed_matrix"][0]
    seeds = np.concatenate([batch.seeds for batch in ts.track(**options).batches])
    homes, counts = np.unique(np.rint(seeds / 2).astype(int), axis=0, return_counts=True)
    most = matrix.counts.max(axis=1).toarray().ravel()
    assert {tuple(voxel) for voxel in matrix.rows[most > 0].tolist()} == {tuple(home) for home in homes.tolist()}
    row = {tuple(voxel): number for number, voxel in enumerate(matrix.rows.tolist())}
    assert [most[row[tuple(home)]] for home in homes.tolist()] == counts.tolist()
    assert matrix.counts.diagonal().sum() == 0
    assert matrix.counted == matrix.streamlines == whole[1].n_streamlines


def test_targets_count_what_reaches_them_from_each_seed_voxel(whole, options):
    folder, result = whole
    (targets,) = result.products["seeds_to_targets"]
    expected = {name: np.zeros(SHAPE, int) for name in ("slab", "other")}
    slabs = {"slab": (6 + 2, 9 + 2), "other": (8 + 2, 11 + 2)}  # along y, of masks that begin at voxel 2
    for batch in ts.track(**options).batches:
        for line, seed in zip(batch, batch.seeds, strict=True):
            low, high = (line / 2)[:, 1].min() + 0.5, (line / 2)[:, 1].max() + 0.5
            for name, (first, last) in slabs.items():
                # lines go along y, and lie within the masks along x and z
                expected[name][tuple(np.rint(seed / 2).astype(int))] += low < last and high >= first
    for name, counts in expected.items():
        assert np.array_equal(np.asarray(nib.load(folder / f"seeds_to_{name}.nii.gz").dataobj), counts)
        assert np.array_equal(targets.map_of(name), counts)
        assert counts.sum() > 5
    assert targets.seeded == targets.streamlines == result.n_streamlines
    assert np.loadtxt(folder / "matrix_seeds_to_all_targets", int).sum(axis=0).tolist() == [
        counts.sum() for counts in expected.values()
    ]


def test_parts_join_to_the_files_of_one_run(whole, options, products, tmp_path):
    parts = write_parts(tmp_path, options, 2, chunk_size=7)
    ts.join(parts, tmp_path / "b.trx", **products(tmp_path / "joined"))
    assert same(tmp_path / "joined", whole)


def test_a_run_that_goes_on_and_one_without_a_tractogram(whole, options, products, tmp_path):
    ts.track(output=tmp_path / "a.trx", **options | products(tmp_path / "on"), resume=True)
    assert same(tmp_path / "on", whole)
    result = ts.track(**options | products(tmp_path / "none"), keep_streamlines=False)
    assert same(tmp_path / "none", whole)
    assert result.batches == ()


def test_devices_count_where_no_points_are_needed(options, tmp_path):
    named = {name: value for name, value in options.items() if name not in ("include", "min_length")}
    files = {"waytotal": tmp_path / "waytotal.txt", "density": tmp_path / "paths.nii"}
    result = ts.track(**named, **files, chunk_size=7, select=51, keep_streamlines=False)
    assert (tmp_path / "waytotal.txt").read_text() == "51\n"
    assert result.products["waytotal"] == result.n_streamlines == 51
    assert not result.sample.points.size  # none came back


def test_files_are_mapped_if_they_have_seeds(whole, products, tmp_path, run):
    named = products(tmp_path)
    result = ts.map_tractogram(whole[0] / "run.trx", **named)
    assert same(tmp_path, whole)
    assert result["products"]["waytotal"] == whole[1].n_streamlines
    whole[1].save(tmp_path / "run.tck")
    with pytest.raises(InputError, match=r"run\.tck: has no seeds, which seed_matrix needs: give a \.trx"):
        ts.map_tractogram(tmp_path / "run.tck", seed_matrix=named["seed_matrix"], force=True)
    done = run("map", tmp_path / "run.tck", "--voxel-matrix", named["voxel_matrix"][0], tmp_path / "again.dot")
    assert done.code == 0, done.err
    assert (tmp_path / "again.dot").read_bytes() == (whole[0] / "fdt_matrix3.dot").read_bytes()
    done = run("map", tmp_path / "run.tck", "--voxel-matrix", named["voxel_matrix"][0], tmp_path / "again.csv")
    assert done.code != 0
    assert done.err.count("\n") == 1
    assert "again.csv: unknown suffix" in done.err
