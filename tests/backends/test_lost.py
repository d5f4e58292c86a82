"""A Vulkan device that is lost in the middle of a run, as its driver reports it."""

import json
import os
import shutil
import subprocess
import sys

import pytest
from places import LAVAPIPE, SUPPORT
from small_runs import words_of, write_inputs

from tistreamlines.devices import host
from tistreamlines.devices.compilers import VARIABLE

pytestmark = pytest.mark.skipif(
    os.environ.get(VARIABLE) == "forge", reason="Taichi Forge 0.7.0 may wait for ever for a device that is lost"
)
COMPILER = shutil.which("cc")
SUBMISSION = 110  # which one is lost; a run has about 60 before it tracks, and 20 at its end


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    """The settings of a Vulkan driver that loses its device."""
    if LAVAPIPE is None or COMPILER is None or host.load("libvulkan.so.1") is None:
        pytest.skip("needs a C compiler and software Vulkan (Debian: gcc, libc6-dev, mesa-vulkan-drivers, libvulkan1)")
    folder, lavapipe = tmp_path_factory.mktemp("driver"), json.loads(LAVAPIPE.read_text())
    library, manifest = folder / "driver.so", folder / "driver.json"
    source = SUPPORT / "losing_driver.c"
    subprocess.run([COMPILER, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    losing = os.environ | {"LOSING_DRIVER": lavapipe["ICD"]["library_path"], "LOSING_AT": str(SUBMISSION)}
    manifest.write_text(json.dumps(lavapipe | {"ICD": lavapipe["ICD"] | {"library_path": str(library)}}))
    return losing | dict.fromkeys(("VK_DRIVER_FILES", "VK_ICD_FILENAMES"), str(manifest))


@pytest.fixture(scope="module")
def arguments(tmp_path_factory):
    """Those of a run along peaks, in ten chunks."""
    return [*words_of(write_inputs(tmp_path_factory.mktemp("inputs"))), "--chunk-size", "12"]


@pytest.fixture
def track(arguments, tmp_path):
    """Track to an output in a folder of the test, in a process of its own."""

    def call(name, *options, **environment):
        command = [sys.executable, "-m", "tistreamlines", "track", *arguments, "-o", tmp_path / name, *options]
        return subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, timeout=300)

    return call


@pytest.fixture
def whole(run, arguments, tmp_path_factory):
    """The tractogram of a run that loses nothing."""
    path = tmp_path_factory.mktemp("whole") / "whole.trx"
    assert run("track", *arguments, "-o", path, "--arch", "cpu").code == 0
    return path.read_bytes()


@pytest.mark.parametrize("submission", [30, SUBMISSION])  # while the device is tested, and while it tracks
def test_one_line_and_nothing_left(driver, track, tmp_path, submission):
    done = track("a.trx", "--arch", "vulkan", **driver | {"LOSING_AT": str(submission)})
    assert done.returncode == 1, done.stderr
    words = "Error: the device was lost while it computed (Vulkan error -4 of vk"
    assert done.stderr.splitlines()[-1].startswith(words)
    assert done.stderr.endswith("--resume keeps what it has tracked\n")
    assert not list(tmp_path.iterdir())


def test_a_run_with_resume_survives(driver, track, whole, tmp_path):
    done = track("a.trx", "--arch", "vulkan", "--resume", **driver, LOSING_ONCE=str(tmp_path / "once"))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "once").exists()
    assert "--resume keeps what it has tracked): its worker is started anew" in done.stderr
    assert (tmp_path / "a.trx").read_bytes() == whole


def test_a_device_that_is_lost_again_ends_it(driver, track, whole, tmp_path):
    done = track("a.trx", "--arch", "vulkan", "--resume", **driver)
    assert done.returncode == 1, done.stderr
    assert "Error: no device is left: vulkan device 0" in done.stderr.splitlines()[-1]
    assert {path.name for path in tmp_path.iterdir()} == {"a.trx.unfinished"}
    assert track("a.trx", "--arch", "cpu", "--resume").returncode == 0
    assert (tmp_path / "a.trx").read_bytes() == whole
