"""What becomes of a cache whose files are damaged, planted, or cannot be written."""

import json
import os
import socket
import zipfile

import numpy as np
import pytest
from plans import plan_of

import tistreamlines as ts
from tistreamlines.io.cache import Cache
from tistreamlines.tracking.tables.packing import pack_tables, unpack_tables

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
        entry = cache.load("fa", {}, lambda *both: both)
        odd += entry is None
        assert entry is None or (np.array_equal(entry[0]["numbers"], kept["numbers"]) and entry[1] == values)
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


STRANGER = 65534  # another user, to whom root can give files
needs_owners = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owners and modes on this system")
needs_root = pytest.mark.skipif(getattr(os, "geteuid", int)() != 0, reason="only root can give files away")


def kept_numbers(folder, **how):
    """What is read of an entry, the notes, and the entry's file."""
    notes = []
    cache = Cache(folder, notes.append, **how)
    return cache.load("fa", {}, lambda arrays, _: arrays["numbers"].tolist()), notes, cache.path("fa", {})


@pytest.fixture
def folder(tmp_path):
    """A folder with an entry."""
    Cache(tmp_path / "cache").store("fa", {}, {"numbers": np.arange(3)}, {})
    assert kept_numbers(tmp_path / "cache")[:2] == ([0, 1, 2], [])
    return tmp_path / "cache"


def exchange(path, **arrays):
    """Write a container that is valid in itself, with other arrays and the same seal."""
    with zipfile.ZipFile(path) as file:
        seal = file.read("seal")
        values = np.frombuffer(file.read("values.npy")[128:], np.uint8)
    with path.open("wb") as file:
        np.savez(file, **arrays, values=values)
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("seal", seal)


def test_an_array_that_was_exchanged_is_found(folder):
    path = kept_numbers(folder)[2]
    exchange(path, numbers=np.arange(3))
    assert kept_numbers(folder)[:2] == ([0, 1, 2], [])
    exchange(path, numbers=np.arange(3) + 1)
    numbers, (note,), _ = kept_numbers(folder)
    assert numbers is None
    assert "not what was written under this name" in note


def test_an_entry_under_another_name_is_found(folder):
    cache, notes = Cache(folder), []
    cache.store("fa", {"mask": "other"}, {"numbers": np.arange(3) + 1}, {})
    cache.path("fa", {"mask": "other"}).replace(cache.path("fa", {}))
    assert Cache(folder, notes.append).load("fa", {}, lambda arrays, _: arrays) is None
    assert "not what was written under this name" in notes[0]


@needs_owners
@pytest.mark.parametrize("mask", [0o000, 0o002, 0o022])
def test_others_cannot_write_to_what_is_kept(tmp_path, mask):
    """Whatever the user allows by default."""
    before = os.umask(mask)
    try:
        Cache(tmp_path / "cache").store("fa", {}, {"numbers": np.arange(3)}, {})
    finally:
        os.umask(before)
    assert kept_numbers(tmp_path / "cache")[:2] == ([0, 1, 2], [])
    assert (tmp_path / "cache").stat().st_mode & 0o777 == 0o755


@needs_owners
@pytest.mark.parametrize("mode", [0o775, 0o757])
def test_a_folder_in_which_others_can_write_is_not_used(folder, mode):
    folder.chmod(mode)
    numbers, (note,), path = kept_numbers(folder)
    assert numbers is None
    assert f"{folder} can be written by other users" in note and "--shared-cache" in note
    path.unlink()
    Cache(folder).store("fa", {}, {"numbers": np.arange(3)}, {})
    assert not list(folder.iterdir())


@needs_owners
@pytest.mark.parametrize("mode", [0o664, 0o646])
def test_a_file_that_others_can_write_is_made_again(folder, mode):
    path = kept_numbers(folder)[2]
    path.chmod(mode)
    numbers, (note,), _ = kept_numbers(folder)
    assert numbers is None
    assert "can be written by other users" in note and "computed again" in note
    assert kept_numbers(folder, shared=True)[:2] == ([0, 1, 2], [])


@needs_root
def test_what_belongs_to_another_user_is_not_used(folder):
    path = kept_numbers(folder)[2]
    os.chown(path, STRANGER, -1)
    numbers, (note,), _ = kept_numbers(folder)
    assert numbers is None and "belongs to another user" in note
    os.chown(folder, STRANGER, -1)
    numbers, (note,), _ = kept_numbers(folder)
    assert numbers is None and f"{folder} belongs to another user" in note
    assert kept_numbers(folder, shared=True)[:2] == ([0, 1, 2], [])


@needs_owners
def test_a_disk_that_gives_files_another_owner(folder, monkeypatch):
    """As NFS, where files of root belong to nobody: what this process would write there has the same owner."""
    monkeypatch.setattr(os, "geteuid", lambda: STRANGER)
    assert kept_numbers(folder)[:2] == ([0, 1, 2], [])


def test_a_folder_that_is_a_link_is_not_used(folder, tmp_path):
    (tmp_path / "link").symlink_to(folder)
    for shared in (False, True):
        numbers, (note,), _ = kept_numbers(tmp_path / "link", shared=shared)
        assert numbers is None and "is a link: give the folder itself" in note


def test_what_is_no_file_is_not_read(folder, monkeypatch):
    """Nor waited for."""
    monkeypatch.chdir(folder)  # the name of a socket is short
    path = kept_numbers(folder)[2]
    ways = [lambda: path.symlink_to("other.npz"), lambda: path.mkdir()]
    if hasattr(os, "mkfifo"):
        ways += [lambda: os.mkfifo(path), lambda: socket.socket(socket.AF_UNIX).bind(path.name)]
    path.rename(folder / "other.npz")
    for make in ways:
        make()
        for shared in (False, True):
            numbers, (note,), _ = kept_numbers(folder, shared=shared)
            assert numbers is None and "cannot be used" in note
        path.rmdir() if path.is_dir() else path.unlink()


def test_a_shared_folder_is_the_groups(tmp_path):
    before = os.umask(0o002)
    try:
        Cache(tmp_path / "cache", shared=True).store("fa", {}, {"numbers": np.arange(3)}, {})
    finally:
        os.umask(before)
    assert kept_numbers(tmp_path / "cache", shared=True)[:2] == ([0, 1, 2], [])
    if hasattr(os, "geteuid"):
        assert kept_numbers(tmp_path / "cache", shared=True)[2].stat().st_mode & 0o777 == 0o664
        assert "can be written by other users" in kept_numbers(tmp_path / "cache")[1][0]


def test_shared_needs_a_folder(head, tmp_path):
    with pytest.raises(ts.ParameterError, match="cache_dir"):
        ts.track(*head.series, tmp_path / "a.trx", shared_cache=True)


METHODS = {
    "boot": {}, "boot csa": {"model": "csa", "sh_order": 4, "sphere": "full"}, "prob": {"dg": "prob"},
    "det": {"dg": "det", "pmf_rows": "sampled"}, "ptt": {"dg": "ptt", "model": "csa", "probe_count": 3},
}


@pytest.mark.parametrize("method", METHODS)
def test_every_array_is_as_long_as_the_kernels_take_it_for(head, method):
    """Of each method; one of another length or type, and an index beyond the rows, are refused."""
    plan = plan_of(head, cache_dir=head.cache, **METHODS[method])
    arrays, values = pack_tables(plan.prepared, plan.space)
    unpack_tables(arrays, values)
    for name, array in arrays.items():
        if name == "volume.rows":
            continue
        for other in (array[:-1], np.append(array, array[:1]), array.astype("U8"), array.reshape(1, -1)):
            with pytest.raises((ValueError, TypeError), match=name.split(".")[-1]):
                unpack_tables({**arrays, name: other}, values)
    rows, index = arrays["volume.rows"], arrays["volume.index"]
    for changed in ({"rows": rows[:-32]}, {"index": index - 1}, {"index": index + 1}, {"rows": rows[:0]}):
        with pytest.raises(ValueError, match=r"volume\.index names rows"):
            unpack_tables(arrays | {f"volume.{name}": array for name, array in changed.items()}, values)
    assert values["getter"]["fields"]["scratch"].keys() == {"kernel"}  # the sizes of team memory follow from constants


def test_only_kernels_and_records_are_named(head):
    plan = plan_of(head, dg="prob", cache_dir=head.cache)
    arrays, values = pack_tables(plan.prepared, plan.space)
    kernels = "tistreamlines.kernels.orientation.pmf"
    for place in ("os:system", f"{kernels}:NONE", f"{kernels}:amplitudes"):
        for key in ("kernel", "record"):
            record = {key: place, "fields": {}}
            fields = values["getter"]["fields"] | {"method": record}
            for getter in (record, values["getter"] | {"fields": fields}):
                with pytest.raises((ValueError, TypeError)):
                    unpack_tables(arrays, values | {"getter": getter})
