"""TISTREAMLINES_ONE_PROCESS=1: one process reads, compiles and tracks, and writes the same bytes."""

import os
import sys
from dataclasses import replace

import pytest
from commands import one_line, python
from present import PRESENT
from small_runs import write_inputs

import tistreamlines as ts
from tistreamlines.devices import choose
from tistreamlines.errors import TrackingError
from tistreamlines.helpers import helper, may_start
from tistreamlines.options.parameters import Parameters
from tistreamlines.run.setup import session_on

ALONE = """
import sys
def watch(event, arguments):
    if event in ("os.fork", "os.posix_spawn") or (event == "subprocess.Popen" and sys.executable in arguments[1]):
        raise RuntimeError(f"{event}{arguments}")
sys.addaudithook(watch)
from tistreamlines.__main__ import main
main()
"""


@pytest.mark.nightly
@pytest.mark.parametrize("arch", ["cpu", "vulkan"])
def test_all_is_compiled_in_it(tmp_path, monkeypatch, arch):
    """With a cold cache, which takes long."""
    if arch not in PRESENT:
        pytest.skip(f"no {arch} device")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    compare(tmp_path, monkeypatch, arch)


def test_the_bytes_of_several_processes(tmp_path, monkeypatch):
    compare(tmp_path, monkeypatch, "cpu")


def compare(tmp_path, monkeypatch, arch):
    """Track with and without other processes, and compare what is written."""
    options = write_inputs(tmp_path) | {"arch": arch}
    ts.track(output=tmp_path / "several.tck", **options | {"density": tmp_path / "several.nii"})
    monkeypatch.setenv("TISTREAMLINES_ONE_PROCESS", "1")
    named = options | {"output": tmp_path / "one.tck", "density": tmp_path / "one.nii"}
    words = [word for name, value in named.items() for word in (f"--{name.replace('_', '-')}", value)]
    done = python("-c", ALONE, "track", *words)
    assert done.returncode == 0, done.stderr
    for suffix in ("tck", "nii"):
        assert (tmp_path / f"one.{suffix}").read_bytes() == (tmp_path / f"several.{suffix}").read_bytes()


def test_what_needs_other_processes_is_refused(tmp_path, monkeypatch, run):
    device = replace(choose("cpu"), arch="vulkan", index=1)
    monkeypatch.setenv("TISTREAMLINES_ONE_PROCESS", "1")
    assert not may_start()
    for devices in ([device], [device, device]):
        with pytest.raises(TrackingError, match=r"^TISTREAMLINES_ONE_PROCESS is set, "):
            session_on(devices, Parameters(arch="cpu", devices="0,1"))
    assert session_on([device], Parameters(resume=True)).here  # which would survive the loss of the device
    refused = run("verify", "--nseeds", 5, "--arch", "cpu")
    one_line(refused, 1, "TISTREAMLINES_ONE_PROCESS is set, but this needs other processes: unset it")
    for value in ("", "0"):
        monkeypatch.setenv("TISTREAMLINES_ONE_PROCESS", value)
        assert helper("pass")[0] == sys.executable
    assert os.environ["TISTREAMLINES_ONE_PROCESS"] == "0"
