"""What tractograms hold: values of maps, and points that are left out or rounded, as other programs read them."""

import filecmp
import json
import shutil
import subprocess

import nibabel as nib
import numpy as np
import pytest
from dipy.tracking.streamline import values_from_volume
from dipy.tracking.streamlinespeed import compress_streamlines
from small_runs import SHAPE, write_inputs, write_parts
from trx import trx_file_memmap

import tistreamlines as ts
from tistreamlines.run import resume
from tistreamlines.tracking.products.points.content import rounding_mm
from tistreamlines.tracking.products.samples.sampler import names_of

VALUES = np.random.default_rng(1).normal(size=SHAPE).astype(np.float32)
STATISTICS = ("mean", "median", "min", "max")
REDUCED = [{"endpoints_only": True}, {"compress": 0.1, "points": "float16"}, {"downsample": 4}]


@pytest.fixture(scope="module")
def options(tmp_path_factory):
    return write_inputs(tmp_path_factory.mktemp("in"))


@pytest.fixture(scope="module")
def fa(tmp_path_factory):
    path = tmp_path_factory.mktemp("maps") / "FA.nii.gz"
    nib.save(nib.Nifti1Image(VALUES, np.diag([2.0, 2, 2, 1])), path)
    return path


@pytest.fixture(scope="module")
def plain(options):
    return ts.track(**options)


@pytest.fixture(scope="module")
def sampled(options, fa, tmp_path_factory):
    """A run with two maps of one name, of which one is in memory."""
    path = tmp_path_factory.mktemp("sampled") / "a.trx"
    maps = [fa, nib.load(fa)]
    return ts.track(output=path, **options, sample=maps, sample_points=True)


def test_trx_python_reads_values_of_streamlines_and_points(sampled, fa, plain):
    trx = trx_file_memmap.load(str(sampled.path))
    expected = values_from_volume(VALUES, plain.streamlines, np.diag([2.0, 2, 2, 1]))
    assert set(trx.data_per_vertex) == {"FA", "sample"}
    assert np.allclose(trx.data_per_vertex["FA"]._data[:, 0], np.concatenate(expected), atol=1e-5)
    for which, of in zip(STATISTICS[1:], (np.median, np.min, np.max), strict=True):
        assert np.allclose(trx.data_per_streamline[f"FA_{which}"][:, 0], [of(values) for values in expected], atol=1e-5)
    assert np.array_equal(trx.data_per_streamline["FA_mean"], trx.data_per_streamline["sample_mean"])
    record = json.loads(sampled.path.with_suffix(".json").read_text())
    assert record["samples"]["FA"] == str(fa)
    assert len(record["inputs"]["sample 1"]["sha256"]) == 64


def test_a_trk_file_holds_them_too(sampled, options, fa, tmp_path):
    ts.track(output=tmp_path / "a.trk", **options, sample=fa, sample_points=True)
    trx, trk = trx_file_memmap.load(str(sampled.path)), nib.streamlines.load(tmp_path / "a.trk").tractogram
    assert np.array_equal(trk.data_per_point["FA"]._data, trx.data_per_vertex["FA"]._data)
    for name in (*(f"FA_{which}" for which in STATISTICS), "seeds", "stop_reasons"):
        assert np.array_equal(trk.data_per_streamline[name], trx.data_per_streamline[name])
    assert np.allclose(trk.streamlines._data, trx.streamlines._data, atol=1e-4)


def test_a_table_lies_beside_a_tck_file(sampled, options, fa, plain, tmp_path):
    result = ts.track(output=tmp_path / "a.tck", **options, sample=fa, sample_table=tmp_path / "a.csv")
    assert filecmp.cmp(tmp_path / "a.csv", tmp_path / "a_samples.csv", False)
    assert result.record["inputs"]["sample 1"]["path"] == str(fa)
    table = np.genfromtxt(tmp_path / "a_samples.csv", np.float32, delimiter=",", names=True)
    trx = trx_file_memmap.load(str(sampled.path))
    assert len(table) == plain.n_streamlines == len(result.products["sample_table"]["FA_mean"])
    for name in table.dtype.names:
        assert np.array_equal(table[name], trx.data_per_streamline[name][:, 0])
    with pytest.raises(ts.OutputError, match=r"a_samples\.csv: exists already"):
        (tmp_path / "a.tck").unlink(), (tmp_path / "a.json").unlink()
        ts.track(output=tmp_path / "a.tck", **options, sample=fa)
    with pytest.raises(ts.ParameterError, match=r"json_stats.*is also the name of another output"):
        ts.track(output=tmp_path / "b.tck", **options, sample=fa, json_stats=tmp_path / "b_samples.csv")


def test_a_table_needs_no_tractogram(sampled, options, fa, tmp_path):
    options = options | {"keep_streamlines": False}
    result = ts.track(**options, sample=fa, sample_table=tmp_path / "a.tsv")
    table = np.genfromtxt(tmp_path / "a.tsv", np.float32, delimiter="\t", names=True)
    trx = trx_file_memmap.load(str(sampled.path))
    assert np.array_equal(table["FA_median"], trx.data_per_streamline["FA_median"][:, 0])
    assert (len(result.batches), result.record["inputs"]["sample 1"]["path"]) == (0, str(fa))
    for more in ({"sample_points": True}, {"compress": 0.1}):
        with pytest.raises(ts.ParameterError, match="none is written"):
            ts.track(**options, sample=fa, sample_table=tmp_path / "b.csv", **more)
    with pytest.raises(ts.ParameterError, match="sample_table needs sample"):
        ts.track(**options, sample_table=tmp_path / "b.csv")


@pytest.mark.parametrize("more", REDUCED)
def test_parts_pieces_and_saved_results_have_the_same_bytes(options, fa, tmp_path, monkeypatch, more):
    content = {"sample": fa, "sample_points": True} | more
    whole = ts.track(output=tmp_path / "a.trx", **options, **content)
    ts.join(write_parts(tmp_path, options), tmp_path / "b.trx", **content)
    ts.track(**options, **content).save(tmp_path / "c.trx")
    whole.save(tmp_path / "d.trx")
    monkeypatch.setattr(resume, "MOST", 40)
    monkeypatch.setattr(resume, "FEWEST", 40)
    ts.track(output=tmp_path / "e.trx", **options | {"threads": 2}, **content, resume=True)
    assert all(filecmp.cmp(tmp_path / "a.trx", tmp_path / f"{name}.trx", False) for name in "bcde")
    assert whole.points > len(whole.streamlines._data)
    hashes = [json.loads((tmp_path / f"{name}.json").read_text())["inputs"]["sample 1"] for name in "abcde"]
    assert all(digest == hashes[0] for digest in hashes)


def test_ends_alone(options, fa, plain, tmp_path):
    result = ts.track(output=tmp_path / "a.trx", **options, sample=fa, endpoints_only=True, density=tmp_path / "d.nii")
    assert all(np.array_equal(two, line[[0, -1]]) for two, line in zip(result, plain, strict=True))
    whole = ts.track(**options, density=tmp_path / "e.nii", keep_streamlines=False)
    assert np.array_equal(result.density, whole.density)
    assert result.mean_mm == whole.mean_mm


def test_dipys_compress_streamlines_leaves_the_same_points(options, plain, fa, tmp_path):
    result = ts.track(output=tmp_path / "a.tck", **options, sample=fa, compress=0.1)
    for ours, theirs in zip(result, compress_streamlines(list(plain), 0.1), strict=True):
        assert np.array_equal(ours, theirs)
    assert "step_size" not in nib.streamlines.load(tmp_path / "a.tck").header


@pytest.mark.parametrize("every", [2, 5, 1000])
def test_every_nth_point_from_the_seed(options, plain, fa, tmp_path, every):
    content = {"sample": fa, "sample_points": True, "downsample": every, "density": tmp_path / "d.nii"}
    result = ts.track(output=tmp_path / "a.trx", **options, **content)
    trx, (batch,) = trx_file_memmap.load(str(result.path)), [ts.Batch.concatenate(plain.batches)]
    values = values_from_volume(VALUES, plain.streamlines, np.diag([2.0, 2, 2, 1]))
    for line, seed, ours, sampled, all_values in zip(
        batch, batch.seeds, result, trx.data_per_vertex["FA"], values, strict=True
    ):
        place, last = int(np.abs(line - seed).sum(axis=1).argmin()), len(line) - 1
        kept = [i for i in range(len(line)) if i in (0, last) or (i - place) % every == 0]
        assert np.array_equal(ours, line[kept])
        assert np.allclose(sampled[:, 0], np.array(all_values)[kept], atol=1e-5)
    assert np.array_equal(result.density, ts.track(**options, density=tmp_path / "e.nii").density)
    assert np.array_equal(trx.data_per_streamline["seeds"], batch.seeds)
    assert 0 < result.points / len(result.streamlines._data) <= every


@pytest.mark.skipif(shutil.which("tckresample") is None, reason="MRtrix3 is not installed")
def test_tckresample_leaves_the_same_points_where_the_seed_is_in_the_middle(options, plain, tmp_path):
    whole, _ = (ts.track(output=tmp_path / name, **options, **more).path for name, more in (
        ("whole.tck", {}), ("ours.tck", {"downsample": 3})))
    subprocess.run(["tckresample", whole, "-downsample", "3", tmp_path / "theirs.tck", "-quiet"], check=True)
    ours, theirs = (nib.streamlines.load(tmp_path / name) for name in ("ours.tck", "theirs.tck"))
    assert float(ours.header["step_size"]) == pytest.approx(3 * plain.record["step_mm"])
    compared = 0
    for seed, line, streamline, other in zip(
        ts.Batch.concatenate(plain.batches).seeds, plain, ours.streamlines, theirs.streamlines, strict=True
    ):
        if (np.abs(line - seed).sum(axis=1).argmin() - len(line) // 2) % 3 == 0:
            assert np.array_equal(streamline, other)
            compared += 1
    assert compared > 20


def test_float16_rounds_by_what_is_told(options, plain, tmp_path):
    result = ts.track(output=tmp_path / "a.trx", **options, points="float16")
    error = np.abs(result.streamlines._data.astype(float) - plain.streamlines._data).max()
    stored = trx_file_memmap.load(str(result.path)).streamlines
    assert result.streamlines._data.dtype == stored._data.dtype == np.float16
    assert 0 < error <= rounding_mm(result.space)
    assert f"{rounding_mm(result.space):.2g} mm" in result.notes[-1]


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ({"output": "a.trx", "downsample": 2, "compress": 0.1}, "exclude each other"),
        ({"density": "d.nii", "downsample": 2, "keep_streamlines": False}, "give an output"),
        ({"output": "a.tck", "sample_points": True}, "no room for sample_points"),
        ({"output": "a.tck", "points": "float16"}, r"needs a \.trx file"),
        ({"output": "a.trx", "part": "1/2"}, "exclude each other"),
        ({"density": "d.nii", "keep_streamlines": False}, "give an output"),
    ],
)
def test_what_no_file_can_hold_is_refused(options, fa, tmp_path, monkeypatch, content, match):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ts.TrackingError, match=match):
        ts.track(**options, sample=fa, **content)
    assert not list(tmp_path.iterdir())


def test_a_trk_file_has_room_for_one_map_of_a_short_name(options, fa, tmp_path):
    long = tmp_path / "fractional_anisotropy.nii.gz"
    long.write_bytes(fa.read_bytes())
    for maps, match in (([fa, fa], "one map"), ([long], "20 characters")):
        with pytest.raises(ts.OutputError, match=match):
            ts.track(output=tmp_path / "a.trk", **options, sample=maps)


def test_an_estimate_knows_the_size(options, fa, tmp_path):
    content = {"sample": fa, "sample_points": True, "points": "float16"}
    sizes = ts.estimate(**options, **content).file_bytes
    thinned = ts.estimate(**options, downsample=3).file_bytes[".tck"]
    ts.track(output=tmp_path / "thinned.tck", **options, downsample=3)
    assert (tmp_path / "thinned.tck").stat().st_size - 1024 == pytest.approx(thinned, rel=0.05)
    for suffix, more in ((".trx", content), (".trk", {"sample": fa, "sample_points": True}), (".tck", {})):
        ts.track(output=tmp_path / f"a{suffix[1:]}{suffix}", **options, **more)
        # headers and names are not counted
        assert 0 < (tmp_path / f"a{suffix[1:]}{suffix}").stat().st_size - sizes[suffix] < 4096


def test_names_of_maps():
    files = ["a/FA.nii.gz", "fa.mif", "b/FA.mif.gz", "sub-1.T1 w.nii"]
    assert list(names_of(files)) == ["FA", "fa_2", "FA_3", "sub-1_T1_w"]
