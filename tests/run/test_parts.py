"""Parts of a run: ranges of seeds tracked apart, joined to the file of one run; and runs that go on after their end."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import tistreamlines as ts
from tistreamlines.run import resume, saving
from tistreamlines.run.log import Watcher

COUNT = 3
SUFFIXES = (".trx", ".trk", ".tck")


@pytest.fixture(scope="module")
def options(head):
    """Arguments of a run that is tracked in many ways."""
    return head.options | {"nseeds": 301, "threads": 2}


@pytest.fixture(scope="module")
def whole(options, tmp_path_factory):
    """The run in one, in all formats; two tractograms have no record in common."""
    folder = tmp_path_factory.mktemp("whole")
    for suffix in reversed(SUFFIXES):
        (folder / "a.json").unlink(missing_ok=True)
        ts.track(output=folder / f"a{suffix}", **options, json_stats=folder / f"stats{suffix}")
    return folder


@pytest.fixture(scope="module")
def parts(options, tmp_path_factory):
    """The run in parts."""
    folder = tmp_path_factory.mktemp("parts")
    paths = [folder / f"part{k}.trx" for k in range(1, COUNT + 1)]
    for k, path in enumerate(paths, 1):
        ts.track(output=path, **options, part=f"{k}/{COUNT}")
    return paths


def record(path):
    return json.loads(Path(path).with_suffix(".json").read_text())


def same(path, whole):
    return Path(path).read_bytes() == (whole / f"a{Path(path).suffix}").read_bytes()


class TestJoin:
    @pytest.mark.parametrize("suffix", SUFFIXES)
    def test_the_joined_file_has_the_bytes_of_one_run(self, parts, whole, tmp_path, suffix, monkeypatch):
        monkeypatch.setattr(saving, "POINTS_AT_ONCE", 1000)
        output = tmp_path / f"b{suffix}"
        counts = ts.join(random.Random(1).sample(parts, COUNT), output, json_stats=tmp_path / "stats.json")
        assert same(output, whole)
        single, joined = record(whole / "a.trx"), record(output)
        single["result"].pop("seconds")
        assert joined["result"].pop("seconds")["track"] > 0
        assert joined.pop("tractogram")["format"] == suffix
        assert single.pop("tractogram")["format"] == ".trx"
        for each in (single, joined):
            del each["checksum"]
            each["parameters"] |= {"json_stats": None, "force": False, "cache_dir": None}
        assert joined == single
        assert json.loads((tmp_path / "stats.json").read_text()) == counts
        assert counts["seeds"] == 301

    def test_a_part_has_its_range_of_the_seeds(self, parts):
        ranges = [record(path)["part"] for path in parts]
        assert [(part["number"], part["of"]) for part in ranges] == [(k, COUNT) for k in range(1, COUNT + 1)]
        assert [part["first_seed"] for part in ranges] == [0, 100, 200]
        assert [part["seeds"] for part in ranges] == [100, 100, 101]
        assert sum(record(path)["result"]["seeds"] for path in parts) == 301

    def test_more_parts_than_seeds(self, options, tmp_path):
        few = options | {"nseeds": 2}
        ts.track(output=tmp_path / "a.trx", **few)
        paths = [tmp_path / f"part{k}.trx" for k in range(1, 4)]
        for k, path in enumerate(paths, 1):
            ts.track(output=path, **few, part=f"{k}/3")
        ts.join(paths, tmp_path / "b.trx")
        assert (tmp_path / "a.trx").read_bytes() == (tmp_path / "b.trx").read_bytes()

    def test_missing_double_and_foreign_parts_are_named(self, parts, whole, options, tmp_path):
        def refused(match, *paths, output=tmp_path / "b.trx"):
            with pytest.raises(ts.TrackingError, match=match):
                ts.join(paths, output, force=True)
            assert not (tmp_path / "b.trx").exists()

        foreign, split = tmp_path / "foreign.trx", tmp_path / "split.trx"
        ts.track(output=foreign, **options, part=f"2/{COUNT}", max_angle=20)
        ts.track(output=split, **options, part="2/4")
        refused("no part is given")
        refused("these are missing: 2, 3", parts[0])
        refused("part1.trx and .*part1.trx are both part 1", parts[0], *parts)
        refused("foreign.trx: is of another run than .*: max_angle is 20.0, not 30.0", parts[0], foreign, parts[2])
        refused("it is one of 4 parts, not of 3", parts[0], split, parts[2])
        refused("a.trx: is not a part", parts[0], whole / "a.trx")
        refused("no.trx: has no record no.json", tmp_path / "no.trx")
        refused("part1.trx: belongs to a part", *parts, output=parts[0])
        refused("unknown suffix '.vtk'", *parts, output=tmp_path / "b.vtk")

    @pytest.mark.parametrize("place", ["header", "points", "seeds", "end", "record"])
    def test_a_damaged_part_is_named(self, parts, tmp_path, place):
        bad = tmp_path / "bad.trx"
        shutil.copy(parts[0], bad)
        content = json.loads(parts[0].with_suffix(".json").read_text())
        content["result"]["points"] += place == "record"
        bad.with_suffix(".json").write_text(json.dumps(content))
        size = bad.stat().st_size
        with bad.open("r+b") as file:
            if place == "end":
                file.truncate(size - 100)
            elif place != "record":
                # the last members but the directory are small; each has a name in a header before it
                seeds = bad.read_bytes().index(b"dps/seeds.3.float32") + 40
                file.seek({"header": 60, "points": 5000, "seeds": seeds}[place])
                file.write(b"\xff\x00\xff\x00")
        with pytest.raises(ts.InputError, match=r"bad.trx: is (damaged|not the tractogram)"):
            ts.join([bad, *parts[1:]], tmp_path / "b.trx")
        assert not (tmp_path / "b.trx").exists()

    def test_weights_that_nothing_finds_are_refused(self, run, parts, tmp_path):
        named = ("--weights", "sift2", "--density", tmp_path / "density.nii.gz")
        result = run("join", *parts, "-o", tmp_path / "joined.trx", *named)
        assert (result.code, result.err.count("\n")) == (2, 1)
        assert "--weights sift2 needs --sift2" in result.err
        assert not [*tmp_path.iterdir()]

    def test_on_the_command_line(self, run, parts, whole, tmp_path):
        outcome = run("join", *parts, "-o", tmp_path / "b.tck")
        assert outcome.code == 0
        assert "from 301 seeds" in outcome.out
        assert same(tmp_path / "b.tck", whole)
        assert run("join", *parts, "-o", tmp_path / "b.tck").code == 1
        assert run("join", *parts, "-o", tmp_path / "b.tck", "--force").code == 0

    @pytest.mark.parametrize("text", ["0/3", "4/3", "1", "1/0", "a/b", "-1/3", "1/3/5"])
    def test_a_part_that_is_none(self, options, text):
        with pytest.raises(ts.ParameterError, match="give K/N"):
            ts.track(**options, part=text)

    def test_a_part_is_a_trx_file_and_no_selection(self, track, tmp_path):
        outcome = track(tmp_path / "a.tck", "--part", "1/2")
        assert outcome.code == 1
        assert "a part is a .trx file" in outcome.err
        assert track(tmp_path / "a.trx", "--part", "1/2", "--select", 5).code == 2


@pytest.fixture
def small(monkeypatch):
    """Pieces of a few seeds."""
    monkeypatch.setattr(resume, "FEWEST", 20)
    monkeypatch.setattr(resume, "MOST", 50)


class Stopped(Exception):
    pass


def stopping(monkeypatch, after):
    """Let the run fail when it writes the record of the n-th piece, or the record of the whole."""
    real, left = resume.sidecar.write_json, [after]

    def write(path, *arguments, **named):
        left[0] -= 1
        if left[0] < 0:
            raise Stopped
        real(path, *arguments, **named)

    monkeypatch.setattr(resume.sidecar, "write_json", write)


class TestResume:
    @pytest.mark.parametrize("suffix", SUFFIXES)
    def test_an_unbroken_run_leaves_nothing_but_the_output(self, options, whole, tmp_path, suffix, small):
        output = tmp_path / f"a{suffix}"
        result = ts.track(output=output, **options, resume=True)
        assert same(output, whole)
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted([output.name, "a.json"])
        stats = json.loads((whole / f"stats{suffix}").read_text())
        assert {**result.as_dict(), "seconds": 0} == {**stats, "seconds": 0}

    @pytest.mark.parametrize("after", [0, 1, 2, 8, 9])  # the last: only the record of the whole is missing
    def test_a_run_goes_on_with_the_same_bytes(self, options, whole, tmp_path, small, monkeypatch, after):
        """Also if the whole is there, but its record is not."""
        with monkeypatch.context() as broken, pytest.raises(Stopped):
            stopping(broken, after)
            ts.track(output=tmp_path / "a.trx", **options, resume=True)
        assert (tmp_path / "a.trx.unfinished").is_dir()
        result = ts.track(output=tmp_path / "a.trx", **options, resume=True)
        assert same(tmp_path / "a.trx", whole)
        assert result.stop_reasons == json.loads((whole / "stats.trx").read_text())["stop_reasons"]
        assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "a.trx"]
        assert any("goes on after" in note for note in result.notes) == (after > 1)

    def test_what_is_said_to_be_kept_is_kept(self, options, tmp_path, small, monkeypatch):
        """Not the seeds of a piece that is not complete."""
        said = []
        monkeypatch.setattr(Watcher, "note", lambda _, text: said.append(text))
        with monkeypatch.context() as broken, pytest.raises(Stopped):
            stopping(broken, 3)
            ts.track(output=tmp_path / "a.trx", **options, resume=True)
        records = [json.loads(path.read_text()) for path in (tmp_path / "a.trx.unfinished").glob("0*.json")]
        kept = sum(record["result"]["seeds"] for record in records)
        ts.track(output=tmp_path / "a.trx", **options, resume=True)
        assert any(f"{kept} seeds are kept" in text for text in said)
        assert any(f"goes on after {kept} of 301 seeds" in text for text in said)

    def test_a_selection_and_a_part_go_on(self, options, parts, tmp_path, small, monkeypatch):
        selecting = {name: value for name, value in options.items() if name != "nseeds"} | {"select": 100}
        ts.track(output=tmp_path / "b.trx", **selecting)
        for name, asked in (("a.trx", selecting), ("part2.trx", options | {"part": f"2/{COUNT}"})):
            with monkeypatch.context() as broken, pytest.raises(Stopped):
                stopping(broken, 2)
                ts.track(output=tmp_path / name, **asked, resume=True)
            ts.track(output=tmp_path / name, **asked, resume=True)
        assert (tmp_path / "a.trx").read_bytes() == (tmp_path / "b.trx").read_bytes()
        assert (tmp_path / "part2.trx").read_bytes() == parts[1].read_bytes()
        assert record(tmp_path / "part2.trx")["part"] == record(parts[1])["part"]

    def test_another_run_is_refused_and_told_apart(self, options, tmp_path, small, monkeypatch):
        with monkeypatch.context() as broken, pytest.raises(Stopped):
            stopping(broken, 3)
            ts.track(output=tmp_path / "a.trx", **options, resume=True)
        kept = sorted((tmp_path / "a.trx.unfinished").iterdir())
        other = tmp_path / "mask.nii.gz"
        data = ts.track(output=None, **options).space
        import nibabel as nib
        import numpy as np

        nib.save(nib.Nifti1Image(np.ones(data.shape, np.uint8), data.affine), other)
        for changed, message in (
            ({"max_angle": 20}, r"max_angle is 20\.0, not 30"), ({"nseeds": 300}, "nseeds is 300, not 301"),
            ({"mask": other}, "the content of mask differs"), ({"part": "1/2"}, "of seeds is 0 to 150, not 0 to 301"),
        ):
            with pytest.raises(ts.ParameterError, match=message):
                ts.track(output=tmp_path / "a.trx", **options | changed, resume=True)
        monkeypatch.setattr("tistreamlines.__version__", "0.0.9")
        with pytest.raises(ts.ParameterError, match=r"the version of tistreamlines is 0\.0\.9, not"):
            ts.track(output=tmp_path / "a.trx", **options, resume=True)
        assert sorted((tmp_path / "a.trx.unfinished").iterdir()) == kept

    def test_a_damaged_piece_is_tracked_anew(self, options, whole, tmp_path, small, monkeypatch):
        with monkeypatch.context() as broken, pytest.raises(Stopped):
            stopping(broken, 6)
            ts.track(output=tmp_path / "a.trx", **options, resume=True)
        piece = sorted((tmp_path / "a.trx.unfinished").glob("*.trx"))[2]
        content = bytearray(piece.read_bytes())
        content[3000] ^= 1
        piece.write_bytes(content)
        with pytest.warns(UserWarning, match="damaged .* tracked anew"):
            ts.track(output=tmp_path / "a.trx", **options, resume=True)
        assert same(tmp_path / "a.trx", whole)

    def test_another_device_goes_on(self, options, whole, tmp_path, small, monkeypatch):
        """With other threads and chunks; of the other archs, the runs on GPUs are compared by hand."""
        with monkeypatch.context() as broken, pytest.raises(Stopped):
            stopping(broken, 3)
            ts.track(output=tmp_path / "a.trx", **options, resume=True)
        ts.track(output=tmp_path / "a.trx", **options | {"threads": 1, "chunk_size": 7}, resume=True)
        assert same(tmp_path / "a.trx", whole)

    @pytest.mark.skipif(sys.platform == "win32", reason="no locks of files")
    def test_two_processes_do_not_work_at_one_run(self, options, tmp_path):
        import fcntl

        folder = tmp_path / "a.trx.unfinished"
        folder.mkdir()
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            with pytest.raises(ts.OutputError, match="another process is at this run"):
                ts.track(output=tmp_path / "a.trx", **options, resume=True)

    @pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
    @pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.nightly)])
    def test_kills_at_random_moments(self, options, whole, tmp_path, number):
        """``python -m tests.attack --only kill-resume`` makes many more of them."""
        script = (
            "from tistreamlines.run import resume; resume.FEWEST = resume.MOST = 20\n"
            "from tistreamlines.cli.main import main; main()"
        )
        names = ("mask", "arch", "nseeds", "cache_dir", "threads")
        words = [f"--{name.replace('_', '-')}={options[name]}" for name in names]
        series = [str(options[name]) for name in ("dwi", "bvals", "bvecs")]
        output = ["--resume", "-q", "-o", str(tmp_path / "a.trx")]
        command = [sys.executable, "-c", script, "track", *series, *words, *output]
        moments = random.Random(int(number))
        for _ in range(20):
            process = subprocess.Popen(command)
            try:
                process.wait(moments.uniform(0.5, 4.0))
                break
            except subprocess.TimeoutExpired:
                os.kill(process.pid, number)
                process.wait(30)
        else:
            subprocess.run(command, check=True)
        assert same(tmp_path / "a.trx", whole)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "a.trx"]

    def test_resume_needs_an_output(self, options):
        with pytest.raises(ts.ParameterError, match="resume needs an output") as raised:
            ts.track(**options, resume=True)
        assert raised.value.on_command_line == "--resume needs an output: give --output, or leave it out"
