"""A compiler whose version was not tried is used by its public parts alone, with the same results."""

import json
from importlib.metadata import PackageNotFoundError

import pytest
from commands import python
from small_runs import write_inputs
from taichi_runs import TAICHI_ALONE

from tistreamlines.backends import tried
from tistreamlines.devices import list_devices
from tistreamlines.linker import store as _store

VULKAN = any(one.arch == "vulkan" and one.available for one in list_devices())
# tracks with a compiler that says it has another version; prints the notes, and a hash of the streamlines
TRACK = """
import hashlib, importlib.metadata, json, sys
arch, name, pretended, options = sys.argv[1:]
found = importlib.metadata.version
importlib.metadata.version = lambda asked: pretended if asked == name and pretended else found(asked)
import tistreamlines as ts

class Told(ts.Watcher):
    def note(self, text):
        print(text)

chosen = json.loads(options) | {"max_steps": 40, "arch": arch, "watcher": Told()}
(batch,) = ts.stream(**chosen)
print(len(batch), hashlib.sha256(batch.points.tobytes() + batch.stop_reasons.tobytes()).hexdigest())
"""
# compiles with a Numba in which something that is replaced is missing
TWICE = """
import sys
import numpy as np
sys.modules["tistreamlines.backends.numba.quick"] = None
from tistreamlines.backends import notes
from tistreamlines.backends.numba import cache
from tistreamlines.backends.numba.cache import Function, made_by
cache.compile_elsewhere = lambda *_: None
text = f'''# {made_by()}
from tistreamlines.backends.numba.compiler import compiled

@compiled
def twice(x):
    x[0] = 2 * x[0]
'''
number = np.array([21.0])
Function(text, "twice")(number)
print(number[0], *notes())
"""


@pytest.fixture(scope="module")
def tracked(tmp_path_factory):
    """Track along peaks, whose kernels compile fastest; return the notes, and the number and hash of streamlines."""
    options = json.dumps(write_inputs(tmp_path_factory.mktemp("inputs")))

    def call(arch, name, pretended):
        done = python("-W", "ignore", "-c", TRACK, arch, name, pretended, options, timeout=600)
        assert done.returncode == 0, done.stderr
        *notes, result = done.stdout.splitlines()
        assert int(result.split()[0]) > 10
        return [note for note in notes if name in note], result

    return call


@pytest.mark.parametrize(
    ("arch", "name", "pretended"),
    [
        ("cpu", "numba", "0.99.1"),
        pytest.param(
            "vulkan", "taichi", "1.8.0",
            marks=[TAICHI_ALONE, pytest.mark.skipif(not VULKAN, reason="needs Vulkan (Debian: mesa-vulkan-drivers)")],
        ),
    ],
)  # fmt: skip
def test_another_version_gives_the_same_bits_and_a_note(tracked, arch, name, pretended):
    notes, result = tracked(arch, name, "")
    assert notes == []
    (note,), same = tracked(arch, name, pretended)
    assert f"{name} {pretended} was not tried" in note
    assert same == result


@pytest.mark.parametrize(
    ("version", "right"),
    [("0.62.1", False), ("0.63.0", True), ("0.63.0rc1", True), ("0.68.9", True), ("0.69.0", False), ("1.0", False),
     ("unknown", False)],
)  # fmt: skip
def test_versions_are_compared_by_their_numbers(version, right, monkeypatch):
    monkeypatch.setattr(_store, "_notes", [])
    monkeypatch.setattr(tried, "TRIED", {"numba": ((0, 63), (0, 68))})
    monkeypatch.setattr(tried, "version", lambda _: version)
    assert tried.is_tried.__wrapped__("numba") is right
    assert [version in note for note in _store._notes] == [True] * (not right)


def test_a_part_that_is_missing_is_done_without(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    done = python("-c", TWICE)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("42.0 Numba lacks a part")


@pytest.mark.parametrize("package", tried.TRIED)
def test_the_installed_versions_were_tried(package):
    """Else try this suite with them, and widen the range."""
    try:
        assert tried.is_tried(package)
    except PackageNotFoundError:
        pytest.skip(f"{package} is not installed")
