"""Matrices and maps of tractograms that are there: those of the run, and errors in one line."""

import json
import re
import shlex
import shutil
import subprocess
from html import unescape
from typing import ClassVar

import nibabel as nib
import numpy as np
import pytest
from PIL import Image
from places import DATA
from present import PRESENT

import tistreamlines as ts
from tistreamlines.backends.taichi.trial import program_class
from tistreamlines.devices import choose
from tistreamlines.errors import DeviceError, DeviceMemoryError, InputError, ParameterError
from tistreamlines.io import tractograms
from tistreamlines.tracking.products import grid
from tistreamlines.tracking.products.density import density
from tistreamlines.tracking.products.density.map import grid_of_map

TRACKS = DATA / "mrtrix_sift_phantom" / "tracks.tck"


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
    mapped = ts.map_tractogram(
        folder / f"copy_{suffix}.{suffix}", connectome=(folder / "labels.nii.gz", folder / f"{suffix}.csv"),
        connectome_pairs=True, density=folder / f"{suffix}.nii.gz", **grid,
    )
    assert mapped["streamlines"] == result.n_streamlines > 100
    assert (folder / f"{suffix}.csv").read_bytes() == (folder / "run.csv").read_bytes()
    assert (folder / f"{suffix}_pairs.tsv").read_bytes() == (folder / "run_pairs.tsv").read_bytes()
    if suffix == "trx":  # other formats have no numbers of seeds
        assert (folder / "trx_error.csv").read_bytes() == (folder / "run_error.csv").read_bytes()
    if suffix != "trk":  # whose points nibabel stores in voxels, so they are rounded
        assert (folder / f"{suffix}.nii.gz").read_bytes() == (folder / "run.nii.gz").read_bytes()


@pytest.mark.skipif("vulkan" not in PRESENT, reason="no Vulkan device")
def test_vulkan_has_the_same_bytes(tracked, tmp_path, monkeypatch):
    """In several batches, and several lists of a batch."""
    folder, result = tracked
    points, batches = int(result.n_streamlines * result.mean_points), []
    monkeypatch.setattr(tractograms, "POINTS_AT_ONCE", points // 3)
    monkeypatch.setattr(grid, "LISTED", points)
    kind = program_class(choose("vulkan"))
    listed, run, ran = grid.in_parts, kind.run, set()
    monkeypatch.setattr(grid, "in_parts", lambda *call: (parts := listed(*call), batches.append(len(parts)))[0])
    monkeypatch.setattr(kind, "run", lambda self, name, *arguments: (ran.add(name), run(self, name, *arguments)))
    files = {}
    for arch in ("cpu", "vulkan"):
        files[arch] = {
            "connectome": (folder / "labels.nii.gz", tmp_path / f"{arch}.csv"), "connectome_measure": "mean-length",
            "density": tmp_path / f"{arch}.nii", "ends": tmp_path / f"{arch}_ends.nii", "density_voxel": 1.5,
        }
        ts.map_tractogram(folder / "run.trx", arch=arch, **files[arch])
    assert len(batches) >= 3 * 4  # of two maps on two devices
    assert max(batches) > 1
    assert ran >= {"count_points", "count_end_points", "measure_points"}
    for name in ("density", "ends"):
        assert files["cpu"][name].read_bytes() == files["vulkan"][name].read_bytes()
        assert nib.load(files["cpu"][name]).get_fdata().max() > 1
    for end in (".csv", "_error.csv"):
        assert (tmp_path / f"cpu{end}").read_bytes() == (tmp_path / f"vulkan{end}").read_bytes()
    recorded = json.loads((tmp_path / "vulkan.json").read_text())
    assert recorded["device"]["arch"] == "vulkan"


class Full:
    """A device without memory."""

    signatures: ClassVar = {"count_points": [("item", "int"), ("points", "reals")]}

    def array(self, values):
        if values.dtype == np.float32:
            raise DeviceMemoryError("planted")
        return values


def test_a_device_without_memory(tracked):
    counts = density.Density(ts.Space(np.eye(4), (9, 9, 9)), 5.0)
    counts.move_to(Full())
    counts.add(next(tractograms.stored_batches(tracked[0] / "run.trx")))
    with pytest.raises(DeviceMemoryError, match=r"points of [\d,]+ streamlines: give arch cpu"):
        counts.counts()


def test_a_large_map_stays_on_the_host(tracked, monkeypatch):
    monkeypatch.setattr(density, "MOST_BYTES", 4 * density.LISTED)
    counts = density.Density(ts.Space(np.eye(4), (50, 50, 50)), 5.0)
    counts.move_to(Full())
    counts.add(next(tractograms.stored_batches(tracked[0] / "run.trx")))
    assert counts.counts().max() > 1


def test_a_device_that_is_not_there(tracked, tmp_path):
    arch = next(arch for arch in ("metal", "cuda", "amdgpu") if arch not in PRESENT)
    with pytest.raises(DeviceError, match=arch):
        ts.map_tractogram(tracked[0] / "run.trx", arch=arch, ends=tmp_path / "e.nii")
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not TRACKS.exists(), reason="no real data at ../shared/data/mrtrix_sift_phantom")
@pytest.mark.skipif(shutil.which("tcksample") is None, reason="MRtrix3 is not installed")
def test_values_are_those_of_tcksample(tmp_path, run, monkeypatch):
    """Of two maps, in several batches."""
    space = grid_of_map(TRACKS.with_name("mask.mif"))
    values = np.random.default_rng(5).normal(size=space.shape).astype(np.float32)
    nib.save(nib.Nifti1Image(values, space.affine), tmp_path / "random.nii")
    monkeypatch.setattr(tractograms, "POINTS_AT_ONCE", 20_000)
    maps = ("--sample", tmp_path / "random.nii", "--sample", TRACKS.with_name("mask.mif"))
    done = run("map", TRACKS, *maps, "--sample-table", tmp_path / "a.csv")
    assert done.code == 0, done.err
    table = np.genfromtxt(tmp_path / "a.csv", delimiter=",", names=True)
    assert len(table) == 5000
    for which in ("mean", "median", "min", "max"):
        text = tmp_path / f"{which}.txt"
        subprocess.run(["tcksample", "-quiet", "-stat_tck", which, TRACKS, tmp_path / "random.nii", text], check=True)
        assert np.allclose(table[f"random_{which}"], np.loadtxt(text), atol=2e-5)
    assert np.ptp(table["mask_mean"]) > 0.3


@pytest.fixture(scope="module")
def page(tracked, head):
    """A report of a .tck with a matrix, in several batches."""
    folder, _ = tracked
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tractograms, "POINTS_AT_ONCE", 5000)
        ts.map_tractogram(
            folder / "copy_tck.tck", report=folder / "page.html", image=nib.load(head.mask),
            connectome=(folder / "labels.nii.gz", folder / "shown.csv"),
        )
    return (folder / "page.html").read_text(encoding="utf-8")


def test_a_page_shows_what_is_known(tracked, page):
    folder, result = tracked
    stats = json.loads((folder / "page_stats.json").read_text())
    assert (stats["streamlines"], stats["points"]) == (result.n_streamlines, result.points)
    assert stats["mean_mm"] == pytest.approx(result.mean_mm, rel=1e-5)
    assert stats["median_mm"] == pytest.approx(result.median_mm, abs=0.01)
    assert [matrix["nodes"] for matrix in stats["connectomes"]] == [11]
    titles = re.findall(r"<h[123]>(.*?)</h[123]>", page)
    assert titles == [
        "copy_tck.tck", "Streamlines", "Density", "Lengths", "Connectome", "What was run", "Inputs", "Written",
        "Options that are not the defaults",
    ]
    assert f"All {result.n_streamlines} streamlines, coloured by direction and projected on a slice of" in page
    text = re.sub(r"<(style|script).*?</\1>|<[^>]*>", " ", page, flags=re.DOTALL)
    assert not re.search(r"\b(None|nan|seeds|dropped|b0)\b", text)
    with Image.open(folder / "page_mqc.png") as picture:
        assert np.asarray(picture.convert("L")).max() > 100


def test_the_command_of_a_page_makes_it_again(tracked, page, run):
    folder, _ = tracked
    (command,) = re.findall("<pre>tistreamlines (.*?)</pre>", page)
    words = shlex.split(unescape(command))
    assert words[:2] == ["map", str(folder / "copy_tck.tck")]
    words = words[: words.index("--image")]  # which was in memory
    done = run(*words, "--force", "-q")
    assert done.code == 0, done.err
    assert "a slice of the density" in (folder / "page.html").read_text(encoding="utf-8")


def test_a_page_alone(tracked, tmp_path):
    result = ts.map_tractogram(tracked[0] / "run.trx", report=tmp_path / "a.html")
    assert result["products"] == {}
    assert {path.name for path in tmp_path.iterdir()} == {"a.html", "a_mqc.png", "a_stats.json"}
    with pytest.raises(ts.OutputError, match=r"a\.html: exists already"):
        ts.map_tractogram(tracked[0] / "run.trx", report=tmp_path / "a.html")


def test_a_page_of_no_streamline(tmp_path):
    nib.streamlines.save(nib.streamlines.Tractogram([], affine_to_rasmm=np.eye(4)), str(tmp_path / "none.tck"))
    ts.map_tractogram(tmp_path / "none.tck", report=tmp_path / "a.html")
    assert "All 0 streamlines" in (tmp_path / "a.html").read_text(encoding="utf-8")


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
        ({}, "no option names a product: give density, .*, waytotal or report$"),
        ({"image": "a.nii", "ends": "e.nii"}, "image is shown by report"),
        ({"connectome": ("no.nii", "c.csv")}, "no.nii"), ({"sample": __file__, "ends": "e.nii"}, "sample_table"),
        ({"density": "d.nii.gz"}, "density_grid or density_voxel"),
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
    assert [path.name for path in tmp_path.iterdir()] == ["leap.tck"]


def test_no_grid_covers_no_streamlines(tmp_path):
    empty = nib.streamlines.Tractogram([], affine_to_rasmm=np.eye(4))
    nib.streamlines.save(empty, str(tmp_path / "empty.tck"))
    with pytest.raises(InputError, match="no streamline that a grid could cover"):
        ts.map_tractogram(tmp_path / "empty.tck", ends=tmp_path / "ends.nii", density_voxel=2)
    assert [path.name for path in tmp_path.iterdir()] == ["empty.tck"]


def test_a_matrix_of_no_streamlines_with_weights(tmp_path):
    empty = nib.streamlines.Tractogram([], affine_to_rasmm=np.eye(4))
    nib.streamlines.save(empty, str(tmp_path / "empty.tck"))
    (tmp_path / "weights.txt").write_text("")
    labels = nib.Nifti1Image(np.full((3, 3, 3), 2, np.int16), np.eye(4))
    pair = labels, tmp_path / "matrix.csv"
    ts.map_tractogram(tmp_path / "empty.tck", connectome=[pair], weights=tmp_path / "weights.txt")
    assert not np.loadtxt(tmp_path / "matrix.csv", delimiter=",").any()
