"""The streamlines of a result: a sequence, which is read from the file if there is one."""

import zipfile

import nibabel as nib
import numpy as np
import pytest

import tistreamlines as ts

COMMON = {"nseeds": 60, "arch": "cpu"}


@pytest.fixture(scope="module")
def result(head):
    return ts.track(*head.series, mask=head.mask, nseeds=1500, arch="cpu")


def points(result):
    return ts.Batch.concatenate(result.batches).points


def same_lines(found, expected):
    return len(found) == len(expected) and all(map(np.array_equal, found, expected))


class TestStreamlines:
    @pytest.mark.parametrize("suffix", ["", ".trx", ".trk", ".tck"])
    def test_they_are_those_of_the_tractogram(self, head, result, suffix, tmp_path):
        path = tmp_path / f"a{suffix}" if suffix else None
        made = ts.track(*head.series, path, mask=head.mask, nseeds=1500, arch="cpu", chunk_size=400)
        assert "streamlines" not in vars(made)  # nothing is read before it is asked for
        assert len(made.batches) == (0 if suffix else 4)
        lines = made.streamlines
        assert isinstance(lines, nib.streamlines.ArraySequence)
        assert len(lines) == made.n_streamlines == result.n_streamlines
        assert same_lines(lines, made.to_sft().streamlines)
        assert suffix == ".trk" or np.array_equal(lines.get_data(), points(result))
        assert made.streamlines is lines

    def test_points_in_memory_are_not_kept_twice(self, head):
        made = ts.track(*head.series, mask=head.mask, **COMMON, chunk_size=16)
        before = points(made)
        assert len(made.batches) > 1
        assert np.shares_memory(made.streamlines._data, made.batches[0].points)
        assert np.array_equal(points(made), before)

    def test_changes_do_not_reach_the_file(self, head, tmp_path):
        made = ts.track(*head.series, tmp_path / "a.trx", mask=head.mask, **COMMON)
        before = made.path.read_bytes()
        made.streamlines._data[:] = 0
        assert not made.streamlines[0].any()
        assert made.path.read_bytes() == before

    @pytest.mark.parametrize("suffix", [".trx", ".trk", ".tck"])
    def test_a_file_that_is_gone_damaged_or_replaced(self, head, suffix, tmp_path):
        made, other = (
            ts.track(*head.series, tmp_path / f"{name}{suffix}", mask=head.mask, arch="cpu", nseeds=nseeds)
            for name, nseeds in (("a", 60), ("b", 30))
        )
        made.path.write_bytes(made.path.read_bytes()[:700])
        with pytest.raises(ts.InputError, match=rf"a{suffix}: (cannot be read|has \d+ streamlines)"):
            _ = made.streamlines
        other.path.replace(made.path)
        with pytest.raises(ts.InputError, match=r"has \d+ streamlines and had \d+: track it again"):
            _ = made.streamlines
        made.path.unlink()
        with pytest.raises(ts.InputError, match="no such file"):
            _ = made.streamlines

    def test_a_file_of_another_program(self, head, tmp_path):
        made = ts.track(*head.series, tmp_path / "a.trx", mask=head.mask, **COMMON)
        with zipfile.ZipFile(made.path) as old, zipfile.ZipFile(tmp_path / "b.trx", "w", zipfile.ZIP_DEFLATED) as new:
            for name in old.namelist():
                new.writestr(name, old.read(name))
        (tmp_path / "b.trx").replace(made.path)
        with pytest.raises(ts.InputError, match=r"a\.trx: cannot be read \(another program has written it\)"):
            _ = made.streamlines

    def test_the_number_keeps_its_key(self, result):
        assert result.as_dict()["streamlines"] == result.n_streamlines
        assert list(result.as_dict())[:5] == ["arch", "device", "seeds", "streamlines", "points"]

    @pytest.mark.parametrize("suffix", ["", ".trx", ".trk", ".tck"])
    def test_there_may_be_none(self, head, suffix, tmp_path):
        path = tmp_path / f"a{suffix}" if suffix else None
        made = ts.track(*head.series, path, mask=head.mask, **COMMON, min_length=1e6)
        assert made.n_streamlines == len(made.streamlines) == 0
        assert list(made.streamlines) == []
