"""Standard output that is full, has no reader or is closed."""

import errno
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from commands import one_line

from tistreamlines.cli.verification import Variant, VerifiedRun

LOST = "standard output: cannot be written"


class Full(io.StringIO):
    """A stream with no room."""

    def __init__(self, number):
        super().__init__()
        self.number = number

    def write(self, _):
        raise OSError(self.number, os.strerror(self.number))


@pytest.mark.parametrize("stdout", [Full(errno.ENOSPC), Full(errno.EPIPE), None], ids=["full", "no reader", "closed"])
class TestStandardOutput:
    @pytest.mark.parametrize("asked", [("devices",), ("devices", "--json"), ("track", "--citations"), ("--help",)])
    def test_what_was_asked_for_is_an_error(self, run, monkeypatch, stdout, asked):
        monkeypatch.setattr("sys.stdout", stdout)
        one_line(run(*asked), 1, LOST)

    def test_so_is_the_table_of_verify(self, run, monkeypatch, tmp_path, stdout):
        reference = VerifiedRun(Variant("cpu", dg="det"), "reference")
        monkeypatch.setattr("tistreamlines.cli.verify._run", lambda *_: [reference])
        monkeypatch.setattr("sys.stdout", stdout)
        one_line(run("verify", "--json", tmp_path / "a.json"), 1, LOST)
        assert json.loads((tmp_path / "a.json").read_text())["equal"]

    def test_tracking_is_done_without_it(self, track, monkeypatch, tmp_path, stdout):
        monkeypatch.setattr("sys.stdout", stdout)
        done = track(tmp_path / "a.trx")
        assert done.code == 0
        assert re.fullmatch(f"Warning: {LOST} .*\n", done.err)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "a.trx"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("buffered", ["", "1"])
def test_a_full_disk_is_told_of_once(buffered):
    """Also where Python flushes standard output again at its end."""
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "tistreamlines", "track", "--citations"], stdout=full, stderr=subprocess.PIPE,
            text=True, env=os.environ | {"PYTHONUNBUFFERED": buffered}, check=False,
        )
    assert done.returncode == 1
    assert done.stderr.startswith(f"Error: {LOST} (No space left on device)")
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(sys.platform == "win32", reason="a shell closes the streams")
@pytest.mark.parametrize(("closed", "message", "code"), [(1, f"Error: {LOST}", 1), (2, "", 0)])
def test_a_stream_that_is_closed_from_the_start_is_one_line(closed, message, code):
    command = f'exec "{sys.executable}" -m tistreamlines track --citations {closed}>&-'
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert done.stderr.startswith(message)
    assert done.stderr.count("\n") == bool(message)
