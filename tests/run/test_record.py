"""Records that are read back: nothing that was damaged, edited or mixed is used in silence."""

import json
import os
import shutil

import pytest
from nights import at_night
from small_runs import SEEDS, change, soon, write_inputs, write_parts

import tistreamlines as ts
from tistreamlines.io import cache, trx
from tistreamlines.io.writer import TractogramWriter
from tistreamlines.run.saving import StoredTrx

ODD = (None, [], {}, "", "odd", -1, 0, 1.5, 10**12, 10**400, float("nan"), True, [[[]]], {"a": {"b": [None]}})
FIELDS = [
    *((name,) for name in (
        "made_by", "versions", "source", "device", "inputs", "parameters", "step_mm", "warnings", "result", "part",
        "tractogram", "devices", "piece", "checksum",
    )),
    *(("result", name) for name in (
        "arch", "device", "seeds", "streamlines", "points", "mean_mm", "median_points", "stop_reasons", "dropped",
        "seconds",
    )),
    *(("part", name) for name in ("number", "of", "first_seed", "seeds")),
    ("inputs", "peaks"), ("inputs", "peaks", "sha256"), ("result", "stop_reasons", "mask"), ("parameters", "part"),
    ("result", "seconds", "track"), ("versions", "numpy"), ("tractogram", "contents"), ("tractogram", "format"),
]


@pytest.fixture(scope="module")
def options(tmp_path_factory):
    return write_inputs(tmp_path_factory.mktemp("in"))


@pytest.fixture(scope="module")
def part_files(options, tmp_path_factory):
    """A run in one, ``a.trx``, and in parts, ``part1.trx`` to ``part3.trx``."""
    folder = tmp_path_factory.mktemp("made")
    ts.track(output=folder / "a.trx", **options)
    write_parts(folder, options)
    return folder


@pytest.fixture
def parts(part_files, tmp_path):
    shutil.copytree(part_files, tmp_path, dirs_exist_ok=True)
    return [tmp_path / f"part{number}.trx" for number in (1, 2, 3)]


def joined(parts, output):
    """Join; return the bytes."""
    with soon():
        ts.join(parts, output)
    return output.read_bytes()


def refused(match, parts, output):
    with pytest.raises(ts.TrackingError, match=match) as caught:
        joined(parts, output)
    assert "\n" not in str(caught.value)
    assert not output.exists()


PLACES = [*FIELDS[::4], *at_night(*((place,) for number, place in enumerate(FIELDS) if number % 4))]


class TestRecords:
    @pytest.mark.parametrize("renewed", [False, True])
    @pytest.mark.parametrize("place", PLACES, ids=".".join)
    def test_odd_values(self, parts, part_files, place, renewed, tmp_path):
        """A clear error, or a result that is right, whatever a record says and whoever has computed its checksum."""
        record, output = parts[1].with_suffix(".json"), tmp_path / "b.trx"
        change(record, ("checksum",), json.loads(record.read_text())["checksum"], renewed=False)  # of the same layout
        whole, ended = record.read_text(), []
        for value in ODD if renewed else ODD[3:12:4]:  # any change is seen by the checksum
            change(record, place, value, renewed=renewed)
            try:
                assert joined(parts, output) == (part_files / "a.trx").read_bytes()
                ended += [value] if record.read_text() != whole else []
            except ts.TrackingError as error:
                assert "\n" not in str(error)
                assert not output.exists()
            for path in (output, output.with_suffix(".json")):
                path.unlink(missing_ok=True)
            record.write_text(whole)
        assert renewed or not ended
        assert place not in (("part",), ("result",), ("part", "of"), ("result", "seeds")) or not ended

    @pytest.mark.parametrize("reasons", ["stop_reasons", "written_stop_reasons"])
    def test_ends_are_those_of_the_streamlines(self, parts, reasons, tmp_path):
        record = parts[1].with_suffix(".json")
        change(record, ("result", reasons, "no_direction"), 10**6, renewed=True)
        refused(r"record part2\.json has 100\d+ ends of \d+ streamlines", parts, tmp_path / "b.trx")

    @pytest.mark.parametrize("value", [10**12, 999_999_999])
    def test_parts_without_number_are_counted_soon(self, parts, tmp_path, value):
        record = parts[1].with_suffix(".json")
        change(record, ("part", "of"), value, renewed=True)
        change(record, ("parameters", "part"), f"2/{value}", renewed=True)
        missing = "these are missing: 1, 3, 4, 5, 6, 7, 8, 9, 10, 11, ...;"
        message = missing if value < 10**9 else "part2.json has .* part"
        refused(message, parts[1:2], tmp_path / "b.trx")

    def test_an_edited_record_is_named(self, parts, tmp_path):
        record = parts[2].with_suffix(".json")
        seeds = json.loads(record.read_text())["part"]["seeds"]
        for place in (("part", "seeds"), ("result", "seeds")):
            change(record, place, seeds - 2, renewed=False)
        refused(r"part3\.trx: is damaged \(its record part3\.json has been changed", parts, tmp_path / "b.trx")

    def test_a_record_of_an_earlier_version_is_named(self, parts, tmp_path):
        record = parts[0].with_suffix(".json")
        content = json.loads(record.read_text())
        del content["checksum"]
        record.write_text(json.dumps(content))
        refused(r"part1\.json has no checksum.*track it again", parts, tmp_path / "b.trx")

    def test_a_record_is_that_of_its_tractogram(self, parts, tmp_path):
        """Another tractogram with as many streamlines and points, and with right checksums of its own."""
        stored = StoredTrx(parts[1])
        batches = list(stored.batches())
        with TractogramWriter(parts[1], stored.space, force=True) as writer:
            for batch in batches:
                batch.points[:] += 0.25
                writer.write(batch)
        refused(r"part2\.trx: is not the tractogram that part2\.json describes", parts, tmp_path / "b.trx")

    def test_seeds_are_those_of_the_record(self, parts, tmp_path, options):
        """The record of the third part, with a right checksum, that says it is the second; both have as many seeds."""
        for suffix in (".trx", ".json"):
            shutil.copy(parts[2].with_suffix(suffix), parts[1].with_suffix(suffix))
        record = parts[1].with_suffix(".json")
        change(record, ("part", "number"), 2, renewed=True)
        change(record, ("part", "first_seed"), SEEDS // 3, renewed=True)
        change(record, ("parameters", "part"), "2/3", renewed=True)
        refused(r"part2\.trx: .*other seeds than its record", parts, tmp_path / "b.trx")

    def test_parts_follow_one_another(self, parts, tmp_path):
        record = parts[1].with_suffix(".json")
        for place, value in ((("part", "first_seed"), SEEDS // 3 - 5), (("part", "seeds"), SEEDS // 3 + 5),
                             (("result", "seeds"), SEEDS // 3 + 5)):
            change(record, place, value, renewed=True)
        refused(r"part2\.trx: .*first seed is 35, not 40", parts, tmp_path / "b.trx")

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
    @pytest.mark.parametrize("suffix", [".trx", ".json"])
    @pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["pipe", "folder"])
    def test_what_is_no_file(self, parts, tmp_path, suffix, make):
        path = parts[1].with_suffix(suffix)
        path.unlink()
        make(path)
        refused(r"part2\.trx: .*it is a (pipe|folder), not a file", parts, tmp_path / "b.trx")

    def test_parts_may_be_links(self, parts, part_files, tmp_path):
        """As those of git-annex and DataLad are."""
        for path in (parts[1], parts[1].with_suffix(".json")):
            path.rename(tmp_path / f"own{path.suffix}")
            path.symlink_to(tmp_path / f"own{path.suffix}")
        assert joined(parts, tmp_path / "b.trx") == (part_files / "a.trx").read_bytes()


class TestSource:
    def test_parts_of_another_source_are_refused(self, parts, tmp_path, options, monkeypatch):
        """The version is the same, but what computes is not."""
        other = tmp_path / "other"
        other.mkdir()
        monkeypatch.setattr("tistreamlines.run.record.source_hash", lambda: "0" * 64)
        two = write_parts(other, options)[1]
        message = "is of another run than .*: the source of tistreamlines differs"
        refused(message, [parts[0], two, parts[2]], tmp_path / "b.trx")

    def test_only_what_computes_is_hashed(self, tmp_path, monkeypatch):
        package = tmp_path / "tistreamlines"
        idle, computing = ("cli/main.py", "benchmarks/suite.py", "phantom/phantom.py"), ("kernels/prob.py", "errors.py")
        for name in (*idle, *computing, "io/cache.py"):
            (package / name).parent.mkdir(parents=True, exist_ok=True)
            (package / name).write_text("one = 1\n")
        monkeypatch.setattr(cache, "__file__", str(package / "io" / "cache.py"))
        before = cache.source_hash.__wrapped__()
        for name in (*idle, *computing):
            (package / name).write_text("two = 2\n")
            assert (cache.source_hash.__wrapped__() == before) is (name in idle), name
            before = cache.source_hash.__wrapped__()

    def test_members_tell_the_contents_apart(self, part_files):
        import zipfile

        with zipfile.ZipFile(part_files / "a.trx") as whole, zipfile.ZipFile(part_files / "part1.trx") as other:
            assert trx.contents(whole) != trx.contents(other)
