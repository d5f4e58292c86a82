"""The streamlines of a result: a sequence, which is read from the file if there is one, and can be saved."""

import json
import zipfile

import nibabel as nib
import numpy as np
import pytest

import tistreamlines as ts

COMMON = {"nseeds": 60, "arch": "cpu"}


@pytest.fixture(scope="module")
def result(head):
    return ts.track(*head.series, mask=head.mask, cache_dir=head.cache, nseeds=600, arch="cpu")


def points(result):
    return ts.Batch.concatenate(result.batches).points


def same_lines(lines, expected):
    return len(lines) == len(expected) and all(map(np.array_equal, lines, expected))


class TestStreamlines:
    @pytest.mark.parametrize("suffix", ["", ".trx", ".trk", ".tck"])
    def test_they_are_those_of_the_tractogram(self, head, result, suffix, tmp_path):
        path = tmp_path / f"a{suffix}" if suffix else None
        chunked = ts.track(**head.options, output=path, nseeds=600, chunk_size=160)
        assert "streamlines" not in vars(chunked)  # nothing is read before it is asked for
        assert len(chunked.batches) == (0 if suffix else 4)
        lines = chunked.streamlines
        assert isinstance(lines, nib.streamlines.ArraySequence)
        assert len(lines) == chunked.n_streamlines == result.n_streamlines
        assert same_lines(lines, chunked.to_sft().streamlines)
        assert suffix == ".trk" or np.array_equal(lines.get_data(), points(result))
        assert chunked.streamlines is lines

    def test_points_in_memory_are_not_kept_twice(self, head):
        result = ts.track(*head.series, mask=head.mask, cache_dir=head.cache, **COMMON, chunk_size=16)
        before = points(result)
        assert len(result.batches) > 1
        assert np.shares_memory(result.streamlines._data, result.batches[0].points)
        assert np.array_equal(points(result), before)

    def test_changes_do_not_reach_the_file(self, head, tmp_path):
        result = ts.track(*head.series, tmp_path / "a.trx", mask=head.mask, cache_dir=head.cache, **COMMON)
        before = result.path.read_bytes()
        result.streamlines._data[:] = 0
        assert not result.streamlines[0].any()
        assert result.path.read_bytes() == before

    @pytest.mark.parametrize("suffix", [".trx", ".trk", ".tck"])
    def test_a_file_that_is_gone_damaged_or_replaced(self, head, suffix, tmp_path):
        result, other = (
            ts.track(**head.options, output=tmp_path / f"{name}{suffix}", nseeds=nseeds)
            for name, nseeds in (("a", 60), ("b", 30))
        )
        result.path.write_bytes(result.path.read_bytes()[:700])
        with pytest.raises(ts.InputError, match=rf"a{suffix}: (cannot be read|has \d+ streamlines)"):
            _ = result.streamlines
        other.path.replace(result.path)
        with pytest.raises(ts.InputError, match=r"has \d+ streamlines and had \d+: track it again"):
            _ = result.streamlines
        result.path.unlink()
        with pytest.raises(ts.InputError, match="no such file"):
            _ = result.streamlines

    def test_a_file_of_another_program(self, head, tmp_path):
        result = ts.track(*head.series, tmp_path / "a.trx", mask=head.mask, cache_dir=head.cache, **COMMON)
        with zipfile.ZipFile(result.path) as old, zipfile.ZipFile(tmp_path / "b.trx", "w", zipfile.ZIP_DEFLATED) as new:
            for name in old.namelist():
                new.writestr(name, old.read(name))
        (tmp_path / "b.trx").replace(result.path)
        with pytest.raises(ts.InputError, match=r"a\.trx: cannot be read \(another program has written it\)"):
            _ = result.streamlines

    def test_the_number_keeps_its_key(self, result):
        assert result.as_dict()["streamlines"] == result.n_streamlines
        assert list(result.as_dict())[:5] == ["arch", "device", "seeds", "streamlines", "points"]

    @pytest.mark.parametrize("suffix", ["", ".trx", ".trk", ".tck"])
    def test_there_may_be_none(self, head, suffix, tmp_path):
        path = tmp_path / f"a{suffix}" if suffix else None
        result = ts.track(*head.series, path, mask=head.mask, cache_dir=head.cache, **COMMON, min_length=1e6)
        assert result.n_streamlines == len(result.streamlines) == 0
        assert list(result.streamlines) == []


class TestSequence:
    @pytest.mark.parametrize("suffix", ["", ".trx", ".trk", ".tck"])
    def test_a_result_is_a_sequence(self, head, suffix, tmp_path):
        path = tmp_path / f"a{suffix}" if suffix else None
        result = ts.track(*head.series, path, mask=head.mask, cache_dir=head.cache, **COMMON)
        lines = list(result.to_sft().streamlines)
        assert len(result) == result.n_streamlines == len(lines) > 20
        assert same_lines(list(result), lines)
        for index in (0, 3, -1, -len(lines), np.int64(5)):
            assert np.array_equal(result[index], lines[index])
        for index in (len(lines), -len(lines) - 1):
            with pytest.raises(IndexError):
                result[index]
        for part in (slice(3, 10), slice(None, None, -2), slice(0, 0), slice(-4, None)):
            assert same_lines(result[part], lines[part])
        assert same_lines(result[[4, 1, 4]], [lines[4], lines[1], lines[4]])

    def test_of_no_streamline(self, head):
        result = ts.track(*head.series, mask=head.mask, cache_dir=head.cache, **COMMON, min_length=1e6)
        assert len(result) == len(list(result)) == len(result[:3]) == 0
        with pytest.raises(IndexError):
            result[0]


def record_at(path):
    """The record beside a tractogram, without what differs from run to run and the options of the output."""
    content = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    del content["checksum"], content["result"]["seconds"]
    return content


class TestSave:
    @pytest.mark.parametrize("suffix", [".trx", ".trk", ".tck"])
    @pytest.mark.parametrize("more", [{"chunk_size": 16}, {"min_length": 1e6}], ids=["some", "none"])
    def test_it_writes_what_the_run_would_have_written(self, head, suffix, more, tmp_path):
        options = {"mask": head.mask, "cache_dir": head.cache, **COMMON, **more}
        expected = ts.track(*head.series, tmp_path / f"run{suffix}", **options)
        in_memory = ts.track(*head.series, **options)
        stored = ts.track(*head.series, tmp_path / "stored.trx", **options)
        _ = in_memory.streamlines if suffix == ".trk" else None  # which joins the batches
        for name, run in {"memory": in_memory, "trx": stored, "same": expected}.items():
            path = tmp_path / f"{name}{suffix}"
            run.save(str(path))
            assert path.read_bytes() == expected.path.read_bytes()
            assert record_at(path) == record_at(expected.path)

    def test_existing_files_are_replaced_only_by_force(self, head, result, tmp_path):
        path = tmp_path / "a.tck"
        result.save(path)
        before = path.read_bytes()
        with pytest.raises(ts.OutputError, match="exists already"):
            result.save(path)
        result.save(path, force=True)
        assert path.read_bytes() == before
        with pytest.raises(ts.OutputError, match=r"is the record of a\.tck, and is not replaced"):
            result.save(tmp_path / "a.trx", force=True)
        assert sorted(file.name for file in tmp_path.iterdir()) == ["a.json", "a.tck"]

    def test_names_that_are_refused(self, head, result, tmp_path):
        with pytest.raises(ts.OutputError, match="unknown suffix"):
            result.save(tmp_path / "a.vtk")
        with pytest.raises(ts.OutputError, match="no folder"):
            result.save(tmp_path / "missing" / "a.trx")
        part = ts.track(*head.series, mask=head.mask, cache_dir=head.cache, **COMMON, part="1/2")
        with pytest.raises(ts.OutputError, match=r"a part is a \.trx file"):
            part.save(tmp_path / "a.trk")
        assert list(tmp_path.iterdir()) == []

    def test_an_input_is_not_replaced(self, head, result, tmp_path):
        (tmp_path / "a.trx").hardlink_to(head.series[0])
        with pytest.raises(ts.OutputError, match="is an input"):
            result.save(tmp_path / "a.trx", force=True)

    @pytest.mark.parametrize("suffix", [".trk", ".tck"])
    def test_formats_that_lack_something_are_not_made_others(self, head, suffix, tmp_path):
        result = ts.track(*head.series, tmp_path / f"a{suffix}", mask=head.mask, cache_dir=head.cache, **COMMON)
        with pytest.raises(ts.OutputError, match=rf"b\.trx: a{suffix} lacks what a \.trx of the run has"):
            result.save(tmp_path / "b.trx")
        assert not (tmp_path / "b.trx").exists()

    def test_parts_that_are_saved_can_be_joined(self, head, tmp_path):
        options = {"mask": head.mask, "cache_dir": head.cache, **COMMON}
        for number in (1, 2):
            ts.track(*head.series, **options, part=f"{number}/2").save(tmp_path / f"{number}.trx")
        ts.join([tmp_path / "1.trx", tmp_path / "2.trx"], tmp_path / "whole.trx")
        whole = ts.track(*head.series, tmp_path / "run.trx", **options)
        assert (tmp_path / "whole.trx").read_bytes() == whole.path.read_bytes()
