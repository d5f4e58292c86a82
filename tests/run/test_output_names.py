"""Names of outputs: nothing is replaced that is no output of the same run, and two runs do not write one record."""

import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from small_runs import write_inputs, write_parts

import tistreamlines as ts
from tistreamlines.errors import BusyError
from tistreamlines.io import drafts
from tistreamlines.run.outputs import Outputs, check_names, reserved

HOLDING = """
import sys
from pathlib import Path
from tistreamlines.io import drafts
with drafts.reserved(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def options(tmp_path_factory):
    return write_inputs(tmp_path_factory.mktemp("in"))


@pytest.fixture(scope="module")
def part_files(options, tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    write_parts(folder, options, 2)
    return folder


@pytest.fixture
def parts(part_files, tmp_path):
    shutil.copytree(part_files, tmp_path, dirs_exist_ok=True)
    return [tmp_path / "part1.trx", tmp_path / "part2.trx"]


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refused(match, call, folder, error=ts.TrackingError):
    """Nothing must be written, replaced or left."""
    before = contents(folder)
    with pytest.raises(error, match=match) as caught:
        call()
    assert "\n" not in str(caught.value)
    assert contents(folder) == before


class TestJoin:
    @pytest.mark.parametrize("name", ["part1.trx", "part2.json"])
    def test_stats_replace_no_part(self, parts, tmp_path, name):
        stats = tmp_path / name
        refused("belongs to a part", lambda: ts.join(parts, tmp_path / "b.trx", force=True, json_stats=stats), tmp_path)

    @pytest.mark.parametrize("name", ["b.trx", "b.json", "../{folder}/b.trx"])
    def test_stats_replace_no_output(self, parts, tmp_path, name):
        stats = tmp_path / name.format(folder=tmp_path.name)
        refused("also the name of another", lambda: ts.join(parts, tmp_path / "b.trx", json_stats=stats), tmp_path)

    def test_stats_replace_no_record(self, parts, tmp_path, options):
        ts.track(output=tmp_path / "own.trx", **options)
        call = lambda: ts.join(parts, tmp_path / "b.trx", force=True, json_stats=tmp_path / "own.json")  # noqa: E731
        refused("own.json: is the record of a tractogram", call, tmp_path)

    @pytest.mark.parametrize("content", ["{}", '{"made_by": "others"}', "[]", "no JSON"])
    def test_a_foreign_json_stays(self, parts, tmp_path, content):
        (tmp_path / "b.json").write_text(content)
        refused("is not the record of", lambda: ts.join(parts, tmp_path / "b.trx", force=True), tmp_path)

    @pytest.mark.parametrize("name", ["part1.trx", "part1.tck", "link.trx"])
    def test_the_output_is_no_part(self, parts, tmp_path, name):
        (tmp_path / "link.trx").symlink_to(parts[0])
        refused("belongs to a part", lambda: ts.join(parts, tmp_path / name, force=True), tmp_path)

    @pytest.mark.parametrize("name", ["", ".", "/"])
    def test_parts_without_a_name(self, parts, tmp_path, name):
        refused("is a folder", lambda: ts.join([parts[0], name], tmp_path / "b.trx"), tmp_path)

    @pytest.mark.parametrize("quiet", [True, False])
    def test_quiet(self, run, parts, tmp_path, quiet):
        outcome = run("join", *parts, "-o", tmp_path / "b.trx", *["--quiet"][:quiet])
        assert (outcome.code, outcome.err) == (0, "")
        assert bool(outcome.out) is not quiet


class TestTrack:
    def test_a_record_is_that_of_one_tractogram(self, options, tmp_path):
        ts.track(output=tmp_path / "a.trx", **options)
        for suffix in (".tck", ".trk"):
            call = lambda: ts.track(output=tmp_path / f"a{suffix}", **options, force=True)  # noqa: B023, E731
            refused(r"a\.json: is the record of a\.trx, and is not replaced; rename a\.t", call, tmp_path)
        ts.track(output=tmp_path / "a.trx", **options, force=True)
        (tmp_path / "a.trx").unlink()
        ts.track(output=tmp_path / "a.tck", **options, force=True)
        assert json.loads((tmp_path / "a.json").read_text())["tractogram"] == {"format": ".tck"}

    def test_stats_replace_no_record(self, options, tmp_path):
        ts.track(output=tmp_path / "a.trx", **options)
        call = lambda: ts.track(output=tmp_path / "b.trx", **options, json_stats=tmp_path / "a.json", force=True)  # noqa: E731
        refused("a.json: is the record of a tractogram", call, tmp_path)

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
    @pytest.mark.parametrize("name", ["a.trx", "a.json", "stats.json"])
    def test_pipes_are_not_replaced(self, options, tmp_path, name):
        os.mkfifo(tmp_path / name)
        call = lambda: ts.track(output=tmp_path / "a.trx", **options, json_stats=tmp_path / "stats.json", force=True)  # noqa: E731
        refused("is a pipe or a device, and is not replaced", call, tmp_path)
        assert (tmp_path / name).is_fifo()


class TestDemo:
    @pytest.mark.parametrize("name", ["dwi.nii.gz", "streamlines.json", "streamlines.trx"])
    def test_only_an_earlier_demo_is_replaced(self, run, tmp_path, name):
        (tmp_path / name).write_text("{}")
        outcome = run("demo", "--output-dir", tmp_path, "--force", "--arch", "cpu", "--nseeds", 10)
        assert outcome.code == 1
        assert "holds no earlier demo to replace" in outcome.err
        assert contents(tmp_path) == {name: b"{}"}


@pytest.mark.skipif(sys.platform == "win32", reason="no locks of files")
class TestTogether:
    @pytest.fixture
    def holding(self, tmp_path):
        """Another process that writes a.trx."""
        command = [sys.executable, "-c", HOLDING, str(tmp_path / "a.json")]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout.readline() == b"held\n"
            yield process
            if process.poll() is None:
                process.communicate(timeout=20)

    @pytest.mark.parametrize("name", ["a.trx", "a.tck"])
    def test_another_process_writes_it(self, options, parts, tmp_path, holding, name):
        message = rf"{name}: another run is writing it"
        refused(message, lambda: ts.track(output=tmp_path / name, **options, force=True), tmp_path, BusyError)
        refused(message, lambda: ts.join(parts, tmp_path / name, force=True), tmp_path, BusyError)
        ts.track(output=tmp_path / "b.trx", **options)
        holding.communicate(timeout=20)
        ts.track(output=tmp_path / name, **options)
        assert not list(tmp_path.glob(".*"))

    def test_a_process_that_was_killed_holds_nothing(self, options, tmp_path, holding):
        holding.kill()
        holding.wait(20)
        assert (tmp_path / ".a.json.lock").exists()
        ts.track(output=tmp_path / "a.trx", **options)
        assert not list(tmp_path.glob(".*"))

    def test_one_at_a_time(self, tmp_path):
        """Many threads reserve one file: never two at once, and each of them in the end."""
        inside, most, done = [0], [0], []

        def work():
            while True:
                try:
                    with drafts.reserved(tmp_path / "a.json"):
                        inside[0] += 1
                        most[0] = max(most[0], inside[0])
                        inside[0] -= 1
                        done.append(1)
                        return
                except BlockingIOError:
                    pass

        for _ in range(20):
            threads = [threading.Thread(target=work) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(20)
        assert (most[0], len(done)) == (1, 160)
        assert not list(tmp_path.iterdir())

    def test_a_link_in_place_of_the_lock(self, options, tmp_path):
        (tmp_path / "precious").write_text("precious")
        (tmp_path / ".a.json.lock").symlink_to(tmp_path / "precious")
        refused("it is a link, not a file", lambda: ts.track(output=tmp_path / "a.trx", **options), tmp_path)

    @pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")
    def test_more_files_than_a_process_may_open_at_first(self, tmp_path, monkeypatch):
        """Those of a hundred parcellations; each name is looked at a few times, not once for each other one."""
        import resource

        before, looked, resolve = resource.getrlimit(resource.RLIMIT_NOFILE), [], Path.resolve
        monkeypatch.setattr(Path, "resolve", lambda path: looked.append(path) or resolve(path))
        files = tuple(tmp_path / f"{number}.csv" for number in range(300))
        outputs = Outputs(None, {"connectome": files})
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
            with reserved(outputs, lambda: check_names(outputs, {}, force=False)):
                assert len(list(tmp_path.iterdir())) == 301
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
        assert len(looked) < 10 * len(files)
