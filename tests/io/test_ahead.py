"""The content and the hash of a series, made while libraries are imported."""

import gzip
import hashlib
import struct

import nibabel as nib
import numpy as np
import pytest

from tistreamlines.cli import main
from tistreamlines.devices import gpu
from tistreamlines.errors import InputError
from tistreamlines.io import ahead, unpacking
from tistreamlines.io.images import open_image, read_series
from tistreamlines.run.hashes import hashing

SHAPE = (6, 5, 4, 9)


def saved(path, order="<", kind=nib.Nifti1Image):
    values = np.arange(np.prod(SHAPE), dtype=f"{order}i2").reshape(SHAPE)
    path.write_bytes(gzip.compress(kind(values, np.eye(4), kind.header_class(endianness=order)).to_bytes()))
    return path


def unpacked(path):
    ahead.begin(["--mask", "missing.nii.gz", str(path)], unpacks=True)
    return ahead.content_ahead(path)


@pytest.mark.parametrize("order", ["<", ">"])
def test_the_content_is_that_of_the_file_and_is_taken_once(tmp_path, order, monkeypatch):
    path = saved(tmp_path / "dwi.nii.gz", order)
    (tmp_path / "mask.nii.gz").write_bytes(b"smaller")
    monkeypatch.chdir(tmp_path)
    ahead.begin(["--mask", "mask.nii.gz", "./dwi.nii.gz"], unpacks=True)
    read = []
    monkeypatch.setattr(unpacking, "unpack", lambda *all: read.append(all) or ahead.unpack(*all))
    for opened in (open_image("dwi.nii.gz"), open_image(path)):
        np.testing.assert_array_equal(read_series(*opened).ravel(), np.arange(np.prod(SHAPE)))
    assert len(read) == 1


@pytest.mark.parametrize("change", [
    lambda content: content[:-10],
    lambda content: content + b"garbage",
    lambda content: content + gzip.compress(b"more"),
    lambda content: content[:-8] + bytes(4) + content[-4:],
    lambda content: gzip.compress(gzip.decompress(content)[:90]),
    lambda content: b"",
    lambda content: gzip.decompress(content),
    lambda content: gzip.compress(bytes(400)),
    lambda content: gzip.compress(content_with(content, 40, "<8h", 4, 1000, 1000, 1000, 1000, 1, 1, 1)),
    lambda content: gzip.compress(content_with(content, 40, "<8h", 4, -6, 5, 4, 9, 1, 1, 1)),
    lambda content: gzip.compress(content_with(content, 108, "<f", np.nan)),
], ids=["short", "garbage", "two", "checksum", "header", "empty", "bare", "zeros", "large", "negative", "offset"])
def test_a_file_that_is_not_as_it_should_be_has_none(tmp_path, change):
    path = saved(tmp_path / "dwi.nii.gz")
    path.write_bytes(change(path.read_bytes()))
    assert unpacked(path) is None


def content_with(packed, place, form, *values):
    content = bytearray(gzip.decompress(packed))
    struct.pack_into(form, content, place, *values)
    return bytes(content)


def test_another_format_or_no_file_has_none(tmp_path):
    assert unpacked(saved(tmp_path / "dwi.nii.gz", kind=nib.Nifti2Image)) is None
    assert unpacked(tmp_path / "missing.nii.gz") is None
    ahead.begin([], unpacks=True)


def test_values_beyond_the_header_are_cut_off(tmp_path):
    path = saved(tmp_path / "dwi.nii.gz")
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()) + bytes(ahead.BEYOND)))
    assert unpacked(path) is None
    np.testing.assert_array_equal(read_series(*open_image(path)).ravel(), np.arange(np.prod(SHAPE)))


def test_a_damaged_file_is_named_as_without_it(tmp_path):
    path = saved(tmp_path / "dwi.nii.gz")
    path.write_bytes(path.read_bytes()[:-10])
    messages = []
    for _ in range(2):
        with pytest.raises(InputError) as error:
            read_series(*open_image(path))
        messages.append(str(error.value))
        ahead.begin([str(path)], unpacks=True)
    assert messages[0] == messages[1]


@pytest.mark.parametrize(("words", "expected"), [
    (["track", "dwi.nii.gz", "--dg", "none"], [True]), (["fod", "dwi.nii.gz"], [True]), (["map", "dwi.nii.gz"], []),
    (["track", "dwi.nii.gz", "--cache-dir", "cache"], [False]), (["track", "dwi.nii.gz", "--cache-dir=cache"], [False]),
])
def test_commands_that_read_a_series_begin_early(monkeypatch, words, expected):
    begun = []
    monkeypatch.setattr(ahead, "begin", lambda _, unpacks: begun.append(unpacks))
    with pytest.raises(SystemExit):
        main.main(words)
    assert begun == expected


def test_the_largest_image_is_hashed_once_and_nothing_is_unpacked(tmp_path):
    path = saved(tmp_path / "dwi.nii.gz")
    (tmp_path / "mask.nii").write_bytes(b"smaller")
    (tmp_path / "earlier.trx").write_bytes(bytes(2 * path.stat().st_size))
    ahead.begin(["--mask", str(tmp_path / "mask.nii"), str(path), str(tmp_path / "earlier.trx")], unpacks=False)
    assert ahead.content_ahead(path) is None
    assert ahead.digest_ahead(path) == hashlib.sha256(path.read_bytes()).hexdigest()
    assert ahead.digest_ahead(path) is None
    assert ahead.digest_ahead(tmp_path / "mask.nii") is ahead.digest_ahead(tmp_path / "earlier.trx") is None


def test_a_link_to_a_file_of_another_name_is_unpacked_and_hashed(tmp_path):
    """As git-annex stores files."""
    path, stored = tmp_path / "dwi.nii.gz", tmp_path / "MD5--0123"
    saved(path).rename(stored)
    path.symlink_to(stored)
    ahead.begin([str(path)], unpacks=True)
    assert ahead.content_ahead(path) == gzip.decompress(stored.read_bytes())
    assert ahead.digest_ahead(path) == hashlib.sha256(stored.read_bytes()).hexdigest()


def test_the_record_has_the_hash_of_the_file_as_it_is_now(tmp_path):
    path = saved(tmp_path / "dwi.nii.gz")
    ahead.begin([str(path)], unpacks=False)
    ahead._digests[str(path)].join()
    path.write_bytes(path.read_bytes() + b"more")
    assert hashing({"dwi": path})() == {"dwi": hashlib.sha256(path.read_bytes()).hexdigest()}


def test_a_path_behind_a_link_means_what_the_system_means(tmp_path):
    """By its text alone, ``link/../dwi.nii.gz`` would be another file."""
    for folder in ("a/b", "c"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "c" / "link").symlink_to(tmp_path / "a" / "b")
    saved(tmp_path / "a" / "dwi.nii.gz", ">"), saved(tmp_path / "c" / "dwi.nii.gz", "<")
    assert unpacked(tmp_path / "c" / "link" / ".." / "dwi.nii.gz") == gzip.decompress(
        (tmp_path / "a" / "dwi.nii.gz").read_bytes()
    )


def test_a_file_that_changes_meanwhile_has_no_content(tmp_path):
    path = saved(tmp_path / "dwi.nii.gz")
    ahead.begin([str(path)], unpacks=True)
    for thread in ahead._contents.values():
        thread.join()
    (tmp_path / "new").write_bytes(saved(path, ">").read_bytes())
    (tmp_path / "new").replace(path)
    assert ahead.content_ahead(path) is None


def test_what_nothing_reads_is_forgotten(tmp_path):
    path = saved(tmp_path / "dwi.nii.gz")
    ahead.begin([str(path)], unpacks=True)
    ahead.forget_content()
    assert ahead.content_ahead(path) is None


def test_a_file_that_does_not_fit_in_memory_has_no_content(tmp_path, monkeypatch):
    monkeypatch.setattr("tistreamlines.devices.host.host_memory", lambda: (1 << 30, 1 << 20))
    assert unpacked(saved(tmp_path / "dwi.nii.gz")) is None


@pytest.mark.parametrize(("words", "expected"), [
    (["track", "dwi.nii.gz", "--dg", "none"], 1), (["fod", "dwi.nii.gz", "--arch", "cuda", "--none"], 1),
    (["fod", "dwi.nii.gz", "--none"], 0),
    (["track", "dwi.nii.gz", "--arch=auto", "--cache-dir", "c", "--none"], 1), (["map", "dwi.nii.gz", "--none"], 0),
    (["track", "dwi.nii.gz", "--arch", "cpu", "--none"], 0), (["track", "dwi.nii.gz", "--arch=vulkan", "--none"], 0),
    (["track", "--arch"], 0),
])
def test_the_driver_of_a_gpu_starts_beside_imports(monkeypatch, words, expected):
    begun = []
    monkeypatch.setattr(gpu, "begin_cuda", lambda: begun.append(1))
    with pytest.raises(SystemExit):
        main.main(words)
    assert len(begun) == expected
