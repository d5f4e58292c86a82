"""Density maps of runs; that their bytes are the same however a run is made is tested in test_product_runs.py."""

import json

import nibabel as nib
import numpy as np
import pytest
from small_runs import write_inputs

import tistreamlines as ts
from tistreamlines.tracking.products.density import map as map_file
from tistreamlines.tracking.products.density.density import Density

SIZE = {"density_voxel": 0.7}


@pytest.fixture(scope="module")
def options(tmp_path_factory):
    return write_inputs(tmp_path_factory.mktemp("in"))


@pytest.fixture(scope="module")
def whole(options, tmp_path_factory):
    """A run with a tractogram and its map, and another without."""
    folder = tmp_path_factory.mktemp("whole")
    result = ts.track(output=folder / "a.trx", **options, density=folder / "a.nii.gz", **SIZE)
    return folder, result


def same(path, whole):
    return path.read_bytes() == (whole[0] / "a.nii.gz").read_bytes()


def test_the_map_counts_the_streamlines_of_the_result(whole, options):
    folder, result = whole
    image = nib.load(folder / "a.nii.gz")
    kept = ts.track(**options)
    counts = Density(ts.Space(image.affine, image.shape), 5.0)
    for batch in kept.batches:
        counts.add(batch)
    assert image.get_data_dtype() == np.int32
    assert np.array_equal(np.asarray(image.dataobj), result.density)
    assert np.array_equal(counts.counts(), result.density)
    assert 0 < result.density.max() <= result.n_streamlines
    record = json.loads((folder / "a.json").read_text())["density"]
    assert record["path"] == str(folder / "a.nii.gz")
    assert len(record["sha256"]) == 64


def test_streamlines_stay_in_memory_beside_a_map(whole, options, tmp_path):
    """Unless a user says otherwise; what is saved later is what the run would have written."""
    result = ts.track(**options, density=tmp_path / "b.nii.gz", **SIZE)
    assert same(tmp_path / "b.nii.gz", whole)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.json", "b.nii.gz"]
    assert len(result.streamlines) == len(result.to_sft()) == result.n_streamlines == whole[1].n_streamlines
    assert "<img" in result._repr_html_()
    result.save(tmp_path / "c.trx")
    assert (tmp_path / "c.trx").read_bytes() == (whole[0] / "a.trx").read_bytes()


def test_only_the_map_is_written_if_no_streamline_is_kept(whole, options, tmp_path):
    result = ts.track(**options, density=tmp_path / "b.nii.gz", keep_streamlines=False, **SIZE)
    assert same(tmp_path / "b.nii.gz", whole)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.json", "b.nii.gz"]
    assert result.n_streamlines == whole[1].n_streamlines
    assert result.batches == ()
    assert "b.nii.gz" in repr(result)
    assert "<img" not in result._repr_html_()
    # none of them may pass for those of a run without streamlines
    save = lambda: result.save(tmp_path / "c.trx")  # noqa: E731
    for ask in (result.to_sft, lambda: result.streamlines, lambda: list(result), save):
        with pytest.raises(ts.InputError, match="is all that was kept"):
            ask()
    with pytest.raises(ts.OutputError, match="exists already"):
        ts.track(**options, density=tmp_path / "b.nii.gz")
    with pytest.raises(ts.OutputError, match=r"record of b\.nii\.gz"):
        ts.track(**options, output=tmp_path / "b.trx", force=True)


def test_a_result_is_saved_beside_its_map(whole, tmp_path):
    whole[1].save(tmp_path / "again.trx")
    assert (tmp_path / "again.trx").read_bytes() == (whole[0] / "a.trx").read_bytes()


def test_no_file_gets_its_name_before_the_others(options, tmp_path, monkeypatch):
    """Neither map nor tractogram when the record is written; of a run that ends there, nothing stays."""

    def write_record(path, *_, **__):
        assert not [file for file in tmp_path.iterdir() if file.is_file() and not file.name.startswith(".")]
        raise KeyboardInterrupt

    monkeypatch.setattr("tistreamlines.run.saving.sidecar.write_record", write_record)
    with pytest.raises(KeyboardInterrupt):
        ts.track(**options, output=tmp_path / "a.trx", density=tmp_path / "a.nii.gz")
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("name", ["a.trx", "a.nii.gz", "a.json"])
def test_a_file_that_comes_meanwhile_stays(options, tmp_path, monkeypatch, name):
    """Another program writes it beside the map."""

    def write_map(*arguments, **keywords):
        result = real(*arguments, **keywords)
        (tmp_path / name).write_text("of another program")
        return result

    real = map_file.write_map
    monkeypatch.setattr(map_file, "write_map", write_map)
    with pytest.raises(ts.OutputError, match=f"{name}: exists already"):
        ts.track(**options, output=tmp_path / "a.trx", density=tmp_path / "a.nii.gz")
    assert (tmp_path / name).read_text() == "of another program"


def test_a_tractogram_stays_if_its_record_cannot_be_written(options, whole, tmp_path, monkeypatch):
    def write_record(*_, **__):
        raise ts.OutputError("a.json: cannot be written")

    monkeypatch.setattr("tistreamlines.run.saving.sidecar.write_record", write_record)
    with pytest.raises(ts.OutputError, match=r"a\.json: cannot be written"):
        ts.track(**options, output=tmp_path / "a.trx", density=tmp_path / "a.nii.gz", **SIZE)
    assert (tmp_path / "a.trx").read_bytes() == (whole[0] / "a.trx").read_bytes()
    assert same(tmp_path / "a.nii.gz", whole)


def test_a_selection_counts_what_is_selected(options, tmp_path):
    result = ts.track(**options, select=5, density=tmp_path / "a.nii", keep_streamlines=False)
    kept = ts.track(**options, select=5)
    counts = Density(kept.space, 5.0)
    for batch in kept.batches:
        counts.add(batch)
    assert result.n_streamlines == 5
    assert np.array_equal(result.density, counts.counts())


def test_the_maps_of_parts_add_up(whole, options, tmp_path):
    parts = [tmp_path / f"part{k}.trx" for k in (1, 2, 3)]
    maps = [tmp_path / f"part{k}.nii.gz" for k in (1, 2, 3)]
    for k, (part, path) in enumerate(zip(parts, maps, strict=True), 1):
        ts.track(output=part, **options, part=f"{k}/3", density=path, **SIZE)
    assert np.array_equal(sum(np.asarray(nib.load(path).dataobj) for path in maps), whole[1].density)
    with pytest.raises(ts.OutputError, match="exists already"):
        ts.join(parts, tmp_path / "c.trx", density=maps[0])
    for more in ({"part": "1/2"}, {"resume": True}):
        with pytest.raises(ts.ParameterError, match=f"{next(iter(more))} needs an output"):
            ts.track(**options, **more, density=tmp_path / "c.nii.gz")


@pytest.mark.parametrize("kind", ["direction", "length", "mean-length", "sample"])
def test_kinds_and_ends_of_runs_and_parts(whole, options, tmp_path, kind):
    """With a tractogram or without, in parts or in one run, on one grid; without a tractogram, points come back."""
    shape = whole[1].density.shape
    image = nib.load(whole[0] / "a.nii.gz")
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    nib.save(nib.Nifti1Image(values, image.affine), tmp_path / "v.nii")

    def maps(name):
        size = SIZE | {"density_sample": tmp_path / "v.nii"} if kind == "sample" else SIZE
        files = {"density": tmp_path / f"{name}.nii", "ends": tmp_path / f"{name}-ends.nii"}
        return size | files | {"density_kind": kind}

    result = ts.track(**options, **maps("a"), keep_streamlines=False)
    assert result.density.shape == (*shape, 3) if kind == "direction" else shape
    assert result.density.dtype == np.float32
    assert ((result.density > 0).reshape(*shape, -1).any(-1) <= (whole[1].density > 0)).all()
    assert result.density.max() > 1
    assert result.products["ends"].sum() == 2 * result.n_streamlines
    assert json.loads((tmp_path / "a.json").read_text())["density"]["kind"] == kind
    parts = [tmp_path / f"part{k}.trx" for k in (1, 2)]
    for k, part in enumerate(parts, 1):
        ts.track(output=part, **options | {"chunk_size": 7}, part=f"{k}/2")
    ts.join(parts, tmp_path / "b.trx", **maps("b"))
    for end in (".nii", "-ends.nii"):
        assert (tmp_path / f"a{end}").read_bytes() == (tmp_path / f"b{end}").read_bytes()


def test_the_ends_alone(whole, options, tmp_path):
    ending = {"products": [ts.Ends(tmp_path / "e.nii")], "density_grid": whole[0] / "a.nii.gz"}
    result = ts.track(**options, **ending, keep_streamlines=False)
    ends = np.asarray(nib.load(tmp_path / "e.nii").dataobj)
    assert ends.shape == whole[1].density.shape
    assert (ends[whole[1].density == 0] == 0).all()
    assert ends.sum() == 2 * result.n_streamlines
    assert result.batches == ()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["e.json", "e.nii"]


def test_any_grid(options, tmp_path):
    turned = np.array([[0.8, -0.9, 0.1, -3], [0.6, 1.1, 0, -2], [0.2, 0.3, 2, -4], [0, 0, 0, 1.0]])
    nib.save(nib.Nifti1Image(np.zeros((12, 11, 9), np.uint8), turned), tmp_path / "grid.nii")
    named = {"density": tmp_path / "a.nii", "density_grid": tmp_path / "grid.nii"}
    result = ts.track(**options, **named, keep_streamlines=False)
    assert result.density.shape == (12, 11, 9)
    assert np.allclose(nib.load(tmp_path / "a.nii").affine, turned)
    nib.save(nib.Nifti1Image(np.zeros((12, 11), np.uint8), turned), tmp_path / "flat.nii")
    with pytest.raises(ts.InputError, match="has 2 axes"):
        ts.track(**options, density=tmp_path / "b.nii", density_grid=tmp_path / "flat.nii")
    with pytest.raises(ts.OutputError, match="is an input"):
        ts.track(**options, density=tmp_path / "grid.nii", density_grid=tmp_path / "grid.nii", force=True)


def test_names_that_are_refused(options, tmp_path):
    def refused(match, kind=ts.OutputError, **more):
        with pytest.raises(kind, match=match):
            ts.track(**options | more)

    refused("unknown suffix", density=tmp_path / "a.mif")
    refused("no folder", density=tmp_path / "none" / "a.nii")
    refused("another output", ts.ParameterError, density=tmp_path / "a.nii", json_stats=tmp_path / "a.nii")
    refused("density_voxel needs density or ends", ts.ParameterError, density_voxel=1.0)
    refused("density_kind needs density", ts.ParameterError, ends=tmp_path / "a.nii", density_kind="length")
    sampled = {"density": tmp_path / "a.nii", "density_kind": "sample"}
    refused("belong together", ts.ParameterError, **sampled)
    refused("belong together", ts.ParameterError, **sampled | {"density_kind": "length", "density_sample": "b.nii"})
    refused(r"b\.nii: no such file", ts.InputError, **sampled, density_sample=tmp_path / "b.nii")
    refused("also the name", ts.ParameterError, density=tmp_path / "a.nii", ends=tmp_path / "a.nii")
    both = {"density_voxel": 1.0, "density_grid": "b.nii"}
    refused("exclude each other", ts.ParameterError, density=tmp_path / "a.nii", **both)
    with pytest.raises(ts.ParameterError, match="density is written by track"):
        ts.stream(**options, density=tmp_path / "a.nii")


def test_streamlines_in_memory_have_what_was_asked_for(options, tmp_path):
    """Samples, fewer points, groups and weights, as a tractogram would; without them, such options are refused."""
    peaks = nib.load(options["peaks"])
    values = np.arange(np.prod(peaks.shape[:3]), dtype=np.float32).reshape(peaks.shape[:3])
    nib.save(nib.Nifti1Image(values, peaks.affine), tmp_path / "values.nii")
    nib.save(nib.Nifti1Image(1 + (values > 2000).astype(np.int16), peaks.affine), tmp_path / "labels.nii")

    def asked(name):
        (folder := tmp_path / name).mkdir()
        return {
            "density": folder / "d.nii", "connectome": (tmp_path / "labels.nii", folder / "c.csv"),
            "groups": True, "sample": tmp_path / "values.nii", "sample_points": True, "downsample": 3,
        }

    in_memory, written = ts.track(**options, **asked("a")), ts.track(output=tmp_path / "b.trx", **options, **asked("b"))
    assert in_memory.points == written.points > 2 * len(in_memory.streamlines.get_data())
    in_memory.save(tmp_path / "saved.trx")
    assert (tmp_path / "saved.trx").read_bytes() == (tmp_path / "b.trx").read_bytes()
    assert {path.name for path in (tmp_path / "a").iterdir()} > {"d.nii", "d.json", "c.csv"}
    with pytest.raises(ts.ParameterError, match="none is written"):
        ts.track(**options, **asked("c"), keep_streamlines=False)
