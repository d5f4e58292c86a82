"""What becomes of a cache whose files are damaged, planted, or cannot be written."""

import json

import numpy as np
import pytest
from test_track import plan_of

from tistreamlines.io.cache import Cache

try:
    import resource
except ImportError:
    resource = None
pytestmark = pytest.mark.filterwarnings("ignore:The legacy:PendingDeprecationWarning")


def test_every_damaged_byte_is_found(tmp_path):
    """Of names, sizes and headers too, whatever zipfile and NumPy raise for them."""
    kept, notes = {"numbers": np.arange(6, dtype=np.float32).reshape(2, 3)}, []
    values, cache = {"a": [1, "b"]}, Cache(tmp_path, notes.append)
    cache.store("fa", {}, kept, values)
    whole, odd = cache.path("fa", {}).read_bytes(), 0
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << place % 8
        cache.path("fa", {}).write_bytes(damaged)
        found = cache.load("fa", {}, lambda *both: both)
        odd += found is None
        assert found is None or (np.array_equal(found[0]["numbers"], kept["numbers"]) and found[1] == values)
    assert len(notes) == odd > len(whole) // 2


def test_content_of_another_kind_is_made_again(head, tmp_path):
    first, notes = plan_of(head, cache_dir=tmp_path), []
    (path,) = tmp_path.glob("tables-*")
    for values in ({}, ["told"]):
        with path.open("wb") as file:
            np.savez(file, values=np.frombuffer(json.dumps(values).encode(), np.uint8))
        again = plan_of(head, cache_dir=tmp_path, note=notes.append)
        assert np.array_equal(again.prepared.arrays["volume_rows"], first.prepared.arrays["volume_rows"])
    assert len(notes) == 2
    assert "computed again" in notes[0]
    plan_of(head, cache_dir=tmp_path, note=notes.append)
    assert len(notes) == 2


@pytest.mark.skipif(resource is None, reason="no limits of a process on this system")
def test_a_disk_that_becomes_full_leaves_no_draft(tmp_path):
    """The system itself refuses to write beyond the first 4 kB."""
    notes, limit = [], resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limit[1]))
    try:
        Cache(tmp_path, notes.append).store("fa", {}, {"numbers": np.zeros(10**4)}, {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    (note,) = notes
    assert "cannot be written (File too large)" in note
    assert not list(tmp_path.iterdir())


def test_a_link_in_the_place_of_a_file_is_not_followed(tmp_path):
    cache, other = Cache(tmp_path / "cache"), tmp_path / "other"
    other.write_text("another's")
    cache.path("fa", {}).symlink_to(other)
    cache.store("fa", {}, {"numbers": np.arange(3)}, {})
    assert other.read_text() == "another's"
    assert np.array_equal(cache.load("fa", {}, lambda arrays, _: arrays["numbers"]), [0, 1, 2])
