"""A Numba whose version was not tried is used by its public parts alone, with the same results."""

import json

import pytest
from commands import python
from small_runs import write_inputs

from tistreamlines.backends import tried
from tistreamlines.linker import store as _store

# tracks with a compiler that says it has another version; prints the notes, and a hash of the streamlines
TRACK = """
import hashlib, importlib.metadata, json, sys
pretended, options = sys.argv[1:]
real = importlib.metadata.version
importlib.metadata.version = lambda asked: pretended if asked == "numba" and pretended else real(asked)
import tistreamlines as ts

class Notes(ts.Watcher):
    def note(self, text):
        print(text)

from numba.core import event
heard = event.RecordingListener()
event.register("numba:compile", heard)
chosen = json.loads(options) | {"max_steps": 40, "arch": "cpu", "watcher": Notes()}
(batch,) = ts.stream(**chosen)
print(len(heard.buffer))
print(len(batch), hashlib.sha256(batch.points.tobytes() + batch.stop_reasons.tobytes()).hexdigest())
"""
# multiplies with a Numba that says it has another version; prints the product and how much Numba has compiled for it
TIMES = """
import importlib.metadata, sys
real = importlib.metadata.version
importlib.metadata.version = lambda asked: "0.99.1" if asked == "numba" else real(asked)
import numpy as np
from numba.core import event
from tistreamlines.backends.numba.cache import Function, made_by
text = f'''# {made_by()}
from tistreamlines.backends.numba.compiler import compiled, kernel

@kernel(error_model="numpy")
def product(x, y):
    return x * y

@compiled
def multiply(x, y):
    x[0] = product(x[0], y[0])
'''
heard = event.RecordingListener()
event.register("numba:compile", heard)
number, factor = np.array([21.0]), np.array([int(sys.argv[1])])
factor.flags.writeable = False
Function(text, "multiply")(number, factor)
print(number[0], len(heard.buffer))
"""


@pytest.fixture(scope="module")
def tracked(tmp_path_factory):
    """Track along peaks, whose kernels compile fastest; return the notes, streamlines, and how much Numba compiled."""
    options = json.dumps(write_inputs(tmp_path_factory.mktemp("inputs")))

    def call(pretended):
        done = python("-W", "ignore", "-c", TRACK, pretended, options, timeout=600)
        assert done.returncode == 0, done.stderr
        *notes, compiled, result = done.stdout.splitlines()
        assert int(result.split()[0]) > 10
        return [note for note in notes if "numba" in note], result, int(compiled)

    return call


@pytest.mark.nightly
def test_another_version_gives_the_same_bits_and_a_note(tracked):
    notes, result, _ = tracked("")
    assert notes == []
    (note,), same, _ = tracked("0.99.1")
    assert "numba 0.99.1 was not tried" in note
    assert same == result


@pytest.mark.nightly
def test_what_another_numba_compiles_is_found_by_the_next_command(tracked, tmp_path, monkeypatch):
    """Nightly, since all kernels are compiled; by day, a small one is looked for in this cache below."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (_, first, compiled), (_, second, again) = [tracked("0.99.1") for _ in range(2)]
    assert compiled > 10
    assert again == 0
    assert second == first


def multiply(factor: int = 2) -> tuple[float, int]:
    """Multiply 21 in a process of its own, by a Numba of another version; return the product and its events."""
    done = python("-W", "error", "-c", TIMES, factor)
    assert done.returncode == 0, done.stderr
    product, events = done.stdout.split()
    return float(product), int(events)


@pytest.mark.nightly
def test_another_numbas_cache_is_the_users_alone(tmp_path, monkeypatch):
    """It is in the folder of compiled code, whatever folder Numba would choose.

    Nightly, as all that another version of Numba compiles.
    """
    cache, elsewhere = tmp_path / "cache", tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(elsewhere))
    assert multiply()[0] == 42
    assert not list(elsewhere.iterdir())
    assert list((cache / "tistreamlines" / "kernels").rglob("*.nbi"))
    assert multiply() == (42, 0)



@pytest.mark.parametrize(
    ("version", "right"),
    [("0.62.1", False), ("0.63.0", True), ("0.63.0rc1", True), ("0.68.9", True), ("0.69.0", False), ("1.0", False),
     ("unknown", False)],
)
def test_versions_are_compared_by_their_numbers(version, right, monkeypatch):
    monkeypatch.setattr(_store, "_notes", [])
    monkeypatch.setattr(tried, "version_of", lambda _: version)
    assert tried.is_tried.__wrapped__() is right
    assert [version in note for note in _store._notes] == [True] * (not right)


def test_the_installed_version_was_tried():
    """Else try this suite with it, and widen the range."""
    assert tried.is_tried()
