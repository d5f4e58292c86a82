"""Streamlines without points, as tcktransform and DIPY's filters leave them, keep their places in all that is made."""

import shutil
import subprocess

import nibabel as nib
import numpy as np
import pytest
from commands import one_line
from empties import write
from fods import random_fods
from mrtrix_tests import inputs
from nights import at_night
from present import PRESENT

import tistreamlines as ts
from tistreamlines.io.tractograms import stored_batches
from tistreamlines.viewer.scene import Sample

SIDE, AFFINE = 8, np.diag([2.0, 2.0, 2.0, 1.0])
# numbers of streamlines of 60 before which there are so many without points
PLACES = {"start": {0: 1}, "end": {60: 2}, "everywhere": {0: 2, 1: 1, 30: 2, 59: 1, 60: 3}}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Images and streamlines, some of one point."""
    folder, rng = tmp_path_factory.mktemp("empty"), np.random.default_rng(3)
    images = {
        "fod": random_fods(SIDE**3, seed=1)[0].reshape(SIDE, SIDE, SIDE, -1),
        "labels": (np.indices((SIDE,) * 3).sum(axis=0) // 4 + 1).astype(np.int16),
        "map": rng.uniform(1, 2, (SIDE,) * 3).astype(np.float32),
    }
    for name, values in images.items():
        nib.save(nib.Nifti1Image(values, AFFINE), folder / f"{name}.nii.gz")
    lines = []
    for count in rng.integers(1, 20, 60):
        ways = rng.normal(size=3) + 0.2 * rng.normal(size=(count, 3)).cumsum(axis=0)
        steps = ways / np.linalg.norm(ways, axis=1, keepdims=True)
        lines.append((rng.uniform(0, 2 * SIDE - 2, 3) + steps.cumsum(axis=0)).astype(np.float32))
    return folder, lines


def with_empties(lines, places):
    """Streamlines with others without points among them, and which of all have some."""
    numbers = np.insert(np.arange(len(lines)), *np.array([(k, -1) for k, n in places.items() for _ in range(n)]).T)
    return [lines[k] if k >= 0 else np.zeros((0, 3)) for k in numbers], numbers >= 0


def mapped(place, suffix, lines, folder, **more):
    """Make all that can be made of any tractogram; return values, and the bytes of maps and matrices."""
    folder.mkdir()
    path = write(folder / f"a{suffix}", lines, AFFINE, (SIDE,) * 3)
    result = ts.map_tractogram(
        path, connectome=(place / "labels.nii.gz", folder / "c.csv"), connectome_pairs=True,
        connectome_measure=("count", "mean-length"), connectome_sample=place / "map.nii.gz",
        density=folder / "d.nii", ends=folder / "e.nii", density_grid=place / "map.nii.gz", sample=place / "map.nii.gz",
        sample_table=folder / "s.csv", voxel_matrix=(place / "labels.nii.gz", folder / "v.npz"),
        waytotal=folder / "n.txt", sift2=(place / "fod.nii.gz", folder / "w.txt"), sift2_basis="tournier07",
        report=folder / "r.html", **more,
    )
    names = [file.name for file in folder.glob("c_*.csv") if "error" not in file.name]
    return result, {name: (folder / name).read_bytes() for name in [*names, "d.nii", "e.nii", "v.npz"]}


@pytest.fixture(scope="module")
def whole(place, tmp_path_factory):
    """What is made of the streamlines that have points: the folder and the files."""
    folder = tmp_path_factory.mktemp("all") / "whole"
    return folder, mapped(place[0], ".tck", place[1], folder)[1]


CASES = [*((".tck", where) for where in PLACES), (".trk", "end"), (".trx", "end")]


@pytest.mark.parametrize(("suffix", "where"), [CASES[0], CASES[-1], *at_night(*CASES[1:-1])])
def test_they_keep_their_places(place, whole, tmp_path, suffix, where):
    """In all places of one format, and at the end of the others; those of a .trk file have points of their own."""
    folder, lines = place
    more, there = with_empties(lines, PLACES[where])
    result, files = mapped(folder, suffix, more, tmp_path / where)
    other, expected = whole
    if suffix == ".trk":
        other = tmp_path / "whole"
        expected = mapped(folder, suffix, lines, other)[1]
    assert files == expected and len(files) == 5
    check_places(result, tmp_path / where, other, there)


def check_places(result, folder, other, there):
    """Compare tables and weights with those of the streamlines that have points."""
    assert result["streamlines"] == len(there) == int((folder / "n.txt").read_text())
    assert any(f"{(~there).sum()} of {len(there)} streamlines have no points" in text for text in result["warnings"])
    for name, kept, value in (("c_pairs.tsv", there, "0"), ("s.csv", there, "nan"), ("w.txt", there, "1")):
        more, whole = ((run / name).read_text().splitlines() for run in (folder, other))
        head = len(whole) - there.sum()
        rows = np.array(more[head:])
        assert len(rows) == len(there), name
        assert {word for row in rows[~kept] for word in row.replace(",", " ").split()} == {value}, name
        if name != "w.txt":
            assert rows[kept].tolist() == whole[head:], name
    weights = [np.loadtxt(run / "w.txt") for run in (folder, other)]
    # all streamlines share the strength of the regularisation
    assert np.corrcoef(np.log(weights[0][there]), np.log(weights[1]))[0, 1] > 0.99
    assert f"{len(there)}" in (folder / "r.html").read_text()


@pytest.mark.parametrize("suffix", [".tck", ".trk", ".trx"])
def test_nothing_but_empty_streamlines(place, tmp_path, suffix):
    """Of a file and of a batch."""
    folder, _ = place
    path = write(tmp_path / f"a{suffix}", [np.zeros((0, 3))] * 3, AFFINE, (SIDE,) * 3)
    result = ts.map_tractogram(
        path, connectome=(folder / "labels.nii.gz", tmp_path / "c.csv"), density=tmp_path / "d.nii",
        density_grid=folder / "map.nii.gz", sample=folder / "map.nii.gz", sample_table=tmp_path / "s.csv",
        ends=tmp_path / "e.nii", report=tmp_path / "r.html",
    )
    products = result["products"]
    assert result["streamlines"] == 3 == products["connectome"][0].unassigned
    assert not products["density"].any() and np.isnan(products["sample_table"]["map_mean"]).all()


@pytest.mark.parametrize("kind", ["count", "direction", "length", "mean-length", "sample"])
def test_their_weights_count_for_nothing(place, tmp_path, kind):
    folder, lines = place
    more, there = with_empties(lines, PLACES["everywhere"])
    weights = np.random.default_rng(0).uniform(0.5, 2, len(more))
    options = {"density_grid": folder / "map.nii.gz", "density_kind": kind}
    options |= {"density_sample": folder / "map.nii.gz"} if kind == "sample" else {}
    for name, streamlines, their_weights in (("more", more, weights), ("whole", lines, weights[there])):
        np.savetxt(tmp_path / f"{name}.txt", their_weights, "%.17g")
        path = write(tmp_path / f"{name}.tck", streamlines, AFFINE, (SIDE,) * 3)
        ts.map_tractogram(
            path, density=tmp_path / f"{name}.nii", weights=tmp_path / f"{name}.txt", ends=tmp_path / f"{name}_e.nii",
            connectome=(folder / "labels.nii.gz", tmp_path / f"{name}.csv"), **options,
        )
    for end in (".nii", "_e.nii"):  # their units depend on the sum of all weights
        more, whole = (np.asarray(nib.load(tmp_path / f"{name}{end}").dataobj) for name in ("more", "whole"))
        np.testing.assert_allclose(more, whole, rtol=1e-6, atol=1e-9)
    matrices = [np.loadtxt(tmp_path / f"{name}.csv", delimiter=",") for name in ("more", "whole")]
    np.testing.assert_allclose(*matrices, rtol=1e-8)


@pytest.mark.nightly
@pytest.mark.skipif("vulkan" not in PRESENT, reason="no Vulkan device")
def test_vulkan_has_the_same_bytes(place, tmp_path):
    """Of all products; nightly, since the compilers of their kernels take long."""
    folder, lines = place
    more, _ = with_empties(lines, PLACES["everywhere"])
    files = [mapped(folder, ".tck", more, tmp_path / arch, arch=arch)[1] for arch in ("cpu", "vulkan")]
    assert files[0] == files[1]
    assert (tmp_path / "cpu/w.txt").read_bytes() == (tmp_path / "vulkan/w.txt").read_bytes()


@pytest.mark.skipif("vulkan" not in PRESENT, reason="no Vulkan device")
def test_maps_of_vulkan_have_the_same_bytes(place, tmp_path):
    folder, lines = place
    more, _ = with_empties(lines, PLACES["everywhere"])
    path = write(tmp_path / "a.tck", more, AFFINE, (SIDE,) * 3)
    for arch in ("cpu", "vulkan"):
        maps = {name: tmp_path / f"{arch}_{name}.nii" for name in ("density", "ends")}
        ts.map_tractogram(path, **maps, density_grid=folder / "map.nii.gz", arch=arch)
    for name in ("density", "ends"):
        assert (tmp_path / f"cpu_{name}.nii").read_bytes() == (tmp_path / f"vulkan_{name}.nii").read_bytes()
    write(tmp_path / "none.tck", [np.zeros((0, 3))], AFFINE, (SIDE,) * 3)
    ts.map_tractogram(tmp_path / "none.tck", ends=tmp_path / "e.nii", density_grid=folder / "map.nii.gz", arch="vulkan")


def test_weights_must_be_as_many_as_all(place, tmp_path, run):
    folder, lines = place
    more, _ = with_empties(lines, {30: 2})
    path = write(tmp_path / "a.tck", more, AFFINE, (SIDE,) * 3)
    np.savetxt(tmp_path / "w.txt", np.ones(len(lines)))
    words = ("--connectome", folder / "labels.nii.gz", tmp_path / "c.csv", "--weights", tmp_path / "w.txt")
    one_line(run("map", path, *words), 1, "has 60 weights, but there are 62 streamlines")


def test_a_viewers_sample_counts_them(place, tmp_path):
    _, lines = place
    more, there = with_empties(lines, PLACES["everywhere"])
    sample = Sample(20, segment_mm=10)
    for batch in stored_batches(write(tmp_path / "a.trx", more, AFFINE, (SIDE,) * 3)):
        sample.add(batch)
    assert sample.total == len(more) and sample.every == 4
    drawn = [len(line) > 1 for line in more[::4]]
    assert len(sample.batch()) == sum(drawn) < len(drawn) and there.sum() == 60


# ------------------------------------------------------------------------------------------------------ beside MRtrix3
@pytest.fixture(scope="module")
def phantom(tmp_path_factory):
    """MRtrix3's phantom, and some of its streamlines, among them empty ones, and points."""
    folder = tmp_path_factory.mktemp("phantom")
    call = inputs(folder, "tcksift2")
    lines = list(nib.streamlines.load(folder / "SIFT_phantom/tracks.tck").streamlines[:400])
    lines[5:5], lines[30:30] = [lines[3][4:5]], [np.zeros((0, 3)), np.zeros((0, 3))]
    write(folder / "a.tck", [*lines, np.zeros((0, 3))], AFFINE, (SIDE,) * 3)
    return folder, call, np.array([len(line) for line in lines] + [0])


@pytest.mark.nightly
def test_weights_are_those_of_tcksift2(phantom, monkeypatch):
    """Nightly; by day, test_sift2.py compares weights with tcksift2."""
    folder, call, counts = phantom
    monkeypatch.chdir(folder)
    call("tcksift2 a.tck SIFT_phantom/fods.mif t.txt -nthreads 2")
    ts.map_tractogram("a.tck", sift2=("SIFT_phantom/fods.mif", "w.txt"))
    theirs, ours = np.loadtxt("t.txt"), np.loadtxt("w.txt")
    assert (theirs[counts < 2] == 1).all() and (ours[counts < 2] == 1).all()
    assert np.corrcoef(np.log(theirs), np.log(ours))[0, 1] > 0.9999
    # and theirs are taken
    call("mrconvert SIFT_phantom/parc.mif parc.nii.gz -datatype uint8")
    ts.map_tractogram("a.tck", connectome=("parc.nii.gz", "c.csv"), weights="t.txt", connectome_pairs=True)
    call("tck2connectome a.tck SIFT_phantom/parc.mif t.csv -out_assignments pairs.txt -nthreads 0")
    pairs = np.loadtxt("pairs.txt", int)  # MRtrix3 3.0.3 takes an end of the streamline before for one of an empty one
    ours = read_pairs("c_pairs.tsv")
    assert np.array_equal(ours[counts > 0], pairs[counts > 0]) and not ours[counts == 0].any()


def read_pairs(name):
    """The rows of a table of pairs, without its header, if there is one."""
    with open(name) as file:  # noqa: PTH123
        rows = [line.split() for line in file]
    return np.array([[int(word) for word in row] for row in rows if row[0].isdigit()])


def test_values_are_those_of_tcksample(phantom, monkeypatch):
    """But for the mean, where it has 0 for a streamline without length."""
    folder, call, counts = phantom
    monkeypatch.chdir(folder)
    call("mrconvert SIFT_phantom/fods.mif -coord 3 0 -axes 0,1,2 fa.nii.gz")
    table = ts.map_tractogram("a.tck", sample="fa.nii.gz", sample_table="s.csv")["products"]["sample_table"]
    for name in ("median", "min", "max", "mean"):
        call(f"tcksample a.tck fa.nii.gz t.txt -stat_tck {name}")
        theirs, ours = np.loadtxt("t.txt"), table[f"fa_{name}"]
        assert np.isnan(ours[counts == 0]).all()
        np.testing.assert_allclose(ours[counts > 1], theirs[counts > 1], rtol=1e-4)
        assert (theirs[counts == 0] == 0).all() if name == "mean" else np.isnan(theirs[counts == 0]).all()


def test_lengths_are_those_of_tckstats(phantom):
    folder, _, counts = phantom
    if shutil.which("tckstats") is None:
        pytest.skip("MRtrix3 is not installed")
    subprocess.run(["tckstats", "a.tck", "-dump", "l.txt", "-quiet"], cwd=folder, check=True, capture_output=True)
    assert np.isnan(np.loadtxt(folder / "l.txt")[counts == 0]).all()
