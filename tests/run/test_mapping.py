"""Matrices and maps of tractograms that are there: those of the run, and errors in one line."""

import nibabel as nib
import numpy as np
import pytest

import tistreamlines as ts
from tistreamlines.errors import InputError, ParameterError


@pytest.fixture(scope="module")
def tracked(head, tmp_path_factory):
    """A run with a map and a matrix, and its tractogram in three formats."""
    folder = tmp_path_factory.mktemp("mapping")
    mask = nib.load(head.mask)
    labels = (np.indices(mask.shape).sum(axis=0) // 9 + 1).astype(np.int16)
    nib.save(nib.Nifti1Image(labels, mask.affine), folder / "labels.nii.gz")
    result = ts.track(
        *head.series, folder / "run.trx", mask=head.mask, nseeds=300, arch="cpu", dg="prob", cache_dir=head.cache,
        connectome=(folder / "labels.nii.gz", folder / "run.csv"), connectome_pairs=True, density=folder / "run.nii.gz",
    )
    for suffix in ("trx", "tck", "trk"):
        result.save(folder / f"copy_{suffix}.{suffix}")
    return folder, result


@pytest.mark.parametrize("suffix", ["trx", "trk", "tck"])
def test_files_are_those_of_the_run(tracked, suffix):
    folder, result = tracked
    grid = {"density_grid": folder / "labels.nii.gz"} if suffix == "tck" else {}
    made = ts.map_tractogram(
        folder / f"copy_{suffix}.{suffix}", connectome=(folder / "labels.nii.gz", folder / f"{suffix}.csv"),
        connectome_pairs=True, density=folder / f"{suffix}.nii.gz", **grid,
    )
    assert made["streamlines"] == result.n_streamlines > 100
    assert (folder / f"{suffix}.csv").read_bytes() == (folder / "run.csv").read_bytes()
    assert (folder / f"{suffix}_pairs.tsv").read_bytes() == (folder / "run_pairs.tsv").read_bytes()
    if suffix == "trx":  # other formats have no numbers of seeds
        assert (folder / "trx_error.csv").read_bytes() == (folder / "run_error.csv").read_bytes()
    if suffix != "trk":  # whose points nibabel stores in voxels, so they are rounded
        assert (folder / f"{suffix}.nii.gz").read_bytes() == (folder / "run.nii.gz").read_bytes()


def test_the_command_says_how_many(tracked, run):
    folder, result = tracked
    labels, output = folder / "labels.nii.gz", folder / "command.npy"
    done = run("map", folder / "run.trx", "--connectome", labels, output, "--connectome-measure", "mean-length")
    assert done.code == 0, done.err
    assert f"{result.n_streamlines:,} streamlines" in done.out
    assert np.nanmax(np.load(output)) > 10


def test_products_of_one_name_are_replaced(tracked):
    folder, _ = tracked
    both = {"connectome": (folder / "labels.nii.gz", folder / "two.csv"), "ends": folder / "two.nii.gz"}
    for force in (False, True):
        ts.map_tractogram(folder / "run.trx", force=force, **both)
    with pytest.raises(ts.OutputError, match=r"two\.json: is the record of two\.csv"):
        ts.map_tractogram(folder / "run.trx", force=True, ends=folder / "two.nii.gz")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "nothing is asked for"), ({"density": "d.nii.gz"}, "density_grid or density_voxel"),
        ({"connectome": ("no.nii", "c.csv")}, "no.nii"),
    ],
)
def test_bad_input_is_one_line(tracked, tmp_path, options, words, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((ParameterError, InputError), match=words):
        ts.map_tractogram(tracked[0] / "copy_tck.tck", **options)
    assert not list(tmp_path.iterdir())


def test_a_leap_is_refused(tracked, tmp_path):
    lines = [np.array([[0, 0, 0], [5000, 0, 0]], np.float32)]
    nib.streamlines.save(nib.streamlines.Tractogram(lines, affine_to_rasmm=np.eye(4)), str(tmp_path / "leap.tck"))
    with pytest.raises(InputError, match="a step of 5000 mm"):
        ts.map_tractogram(tmp_path / "leap.tck", connectome=(tracked[0] / "labels.nii.gz", tmp_path / "leap.csv"))
    assert [one.name for one in tmp_path.iterdir()] == ["leap.tck"]


def test_no_grid_covers_no_streamlines(tmp_path):
    empty = nib.streamlines.Tractogram([], affine_to_rasmm=np.eye(4))
    nib.streamlines.save(empty, str(tmp_path / "empty.tck"))
    with pytest.raises(InputError, match="no streamline that a grid could cover"):
        ts.map_tractogram(tmp_path / "empty.tck", ends=tmp_path / "ends.nii", density_voxel=2)
    assert [one.name for one in tmp_path.iterdir()] == ["empty.tck"]
