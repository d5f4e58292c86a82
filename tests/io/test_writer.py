"""Threads that lay batches out for a file: its bytes do not depend on them, and their errors leave nothing."""

import time
import zipfile
import zlib
from functools import partial

import nibabel as nib
import numpy as np
import pytest
from trx import trx_file_memmap

from tistreamlines.io import writer as writing
from tistreamlines.io.blocks import SpareMemory
from tistreamlines.io.checksums import join_crc32
from tistreamlines.io.writer import TractogramWriter, WriterThread
from tistreamlines.space.batch import Batch, Space

SPACE = Space(np.diag([2, 2, 2.5, 1]), (50, 60, 40))
KINDS = [(".trx", "float32"), (".trx", "float16"), (".trk", "float32"), (".tck", "float32")]


@pytest.mark.parametrize("sizes", [(0, 0), (0, 5), (5, 0), (1, 1), (3, 255, 256, 257, 65536, 1, 0, 100_003)])
def test_checksums_of_parts_are_that_of_all(sizes):
    rng = np.random.default_rng(1)
    parts = [rng.bytes(size) for size in sizes]
    joined = 0
    for part in parts:
        joined = join_crc32(joined, zlib.crc32(part), len(part))
    assert joined == zlib.crc32(b"".join(parts))


def test_parts_may_exceed_32_bits():
    first, second, third, size = 0x12345678, 0x9ABCDEF0, 0x0FEDCBA9, 5 << 30
    one_way = join_crc32(join_crc32(first, second, size), third, size)
    assert one_way == join_crc32(first, join_crc32(second, third, size), 2 * size)


def test_memory_is_used_again():
    memory = SpareMemory()
    first = memory.take(10, "<f4")
    memory.give_back(first)
    second = memory.take(3, "V12")
    assert (first.shape, second.shape, second.dtype) == ((10,), (3,), np.dtype("V12"))
    assert np.shares_memory(first, second)
    assert not np.shares_memory(second, memory.take(10, "<f4"))


def streamlines(count: int) -> Batch:
    """Return streamlines, of which every third has one point."""
    rng = np.random.default_rng(count)
    lengths = rng.integers(1, 90, count)
    lengths[::3] = 1
    points = rng.uniform(-20, 100, (lengths.sum(), 3)).astype(np.float32)
    return Batch(
        points, np.cumsum([0, *lengths]), rng.normal(size=(count, 3)).astype(np.float32),
        np.arange(count, dtype=np.uint32), np.zeros(count, np.uint16), rng.integers(0, 9, (count, 2)).astype(np.uint8),
        data_per_streamline={"fa_mean": rng.random(count).astype(np.float32)},
    )


def late_first(batch: Batch, seconds: float) -> Batch:
    """Let earlier batches take longer, so that their threads end in another order."""
    if len(batch):
        time.sleep(seconds / (1 + int(batch.seed_number[0])))
    return batch


@pytest.mark.parametrize(("suffix", "kind"), KINDS)
@pytest.mark.parametrize("makers", [1, 6])
@pytest.mark.parametrize("each", [1, 7, 200])
def test_bytes_do_not_depend_on_batches_and_threads(tmp_path, monkeypatch, suffix, kind, makers, each):
    whole, place = streamlines(200), tmp_path / f"whole{suffix}"
    with TractogramWriter(place, SPACE, point_type=kind) as alone:
        alone.write(whole)
    monkeypatch.setattr(writing, "MAKERS", makers)
    monkeypatch.setattr(writing, "usable_cores", lambda: 8)
    content = partial(late_first, seconds=0.02)
    with WriterThread(tmp_path / f"a{suffix}", SPACE, point_type=kind, content=content) as writer:
        for first in range(0, len(whole), each):
            writer.put(whole[first : first + each])
            writer.put(whole[:0])
    assert (tmp_path / f"a{suffix}").read_bytes() == place.read_bytes()
    read = read_back(place)
    for points, expected in zip(read, whole, strict=True):
        np.testing.assert_allclose(points, expected, atol=0.05 if kind == "float16" else 1e-4)


def read_back(path):
    """Read a file with trx-python, after a look at its checksums, or with nibabel."""
    if path.suffix != ".trx":
        return nib.streamlines.load(path).streamlines
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
    loaded = trx_file_memmap.load(str(path))
    points = [np.array(line, np.float32) for line in loaded.streamlines]
    loaded.close()
    return points


@pytest.mark.parametrize("suffix", writing.SINKS)
def test_an_error_in_a_thread_that_lays_out(tmp_path, monkeypatch, suffix):
    def broken(*_):
        raise MemoryError("no room")

    monkeypatch.setattr(writing.SINKS[suffix], "lay_out", broken)
    with pytest.raises(MemoryError, match="no room"), WriterThread(tmp_path / f"a{suffix}", SPACE) as writer:
        for _ in range(20):
            writer.put(streamlines(3))
    assert not list(tmp_path.iterdir())
