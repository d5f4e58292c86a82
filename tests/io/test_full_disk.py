"""Disks that are full at some moment: nothing new stays, nothing old is lost. A limit on files stands in for one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import nibabel as nib
import numpy as np
import pytest
from small_runs import write_inputs

import tistreamlines as ts
from tistreamlines.io.maps import FORMATS, write_fixels
from tistreamlines.io.writer import WriterThread
from tistreamlines.space.batch import Batch, Space

resource = pytest.importorskip("resource", reason="Windows has no such limit")


@contextmanager
def full_at(size: int) -> Iterator[None]:
    """Let no file have more bytes; what is imported meanwhile gets no bytecode, which Python would cut."""
    held = resource.getrlimit(resource.RLIMIT_FSIZE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "dont_write_bytecode", True)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, held[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, held)


def contents(folder):
    return {path.relative_to(folder): path.is_file() and path.read_bytes() for path in folder.rglob("*")}


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("there", ["nothing", "a folder", "fixels"])
def test_fixels(tmp_path, suffix, there):
    """Images of fixels fit, the index does not; images that are there keep their index."""
    rng, space, folder = np.random.default_rng(0), Space(np.eye(4), (20, 20, 20)), tmp_path / "fx"
    index = rng.integers(0, 2**31, (20, 20, 20, 2)).astype(np.uint32)
    images = {name: rng.random((10, 3)).astype(np.float32) for name in ("directions", "afd")}
    if there != "nothing":
        folder.mkdir()
    if there == "fixels":
        write_fixels(folder, index + 1, images, space, suffix, force=False)
    before = contents(tmp_path)
    others = {name: values + 1 for name, values in images.items()}
    with full_at(5000), pytest.raises(ts.OutputError, match=r"fx: cannot be written \(File too large\)"):
        write_fixels(folder, index, others, space, suffix, force=there == "fixels")
    assert contents(tmp_path) == before
    write_fixels(folder, index, others, space, suffix, force=there == "fixels")
    assert {path.name for path in folder.iterdir()} == {f"{name}.{suffix}" for name in (*images, "index")}
    assert (folder.stat().st_mode & 0o700) == 0o700
    read = nib.load(folder / f"index.{suffix}").dataobj if suffix != "mif" else index
    np.testing.assert_array_equal(np.asarray(read), index)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("in")
    options = write_inputs(folder)
    ts.track(output=folder / "a.tck", **options)
    return options, folder


@pytest.mark.parametrize("there", [False, True])
def test_a_map_without_its_record(files, tmp_path, there):
    """The map is smaller than the record."""
    options, folder = files
    maps = {"density": tmp_path / "d.nii.gz", "ends": tmp_path / "e.nii.gz", "force": True}
    calls = [
        lambda: ts.map_tractogram(folder / "a.tck", density_grid=options["stop_map"], **maps),
        lambda: ts.track(**options, **maps),
    ]
    for call in calls:
        if there:
            (tmp_path / "d.nii.gz").touch()
        with full_at(1500), pytest.raises(ts.OutputError, match=r"d\.json: cannot be written \(File too large\)"):
            call()
        assert {path.name for path in tmp_path.iterdir()} == ({"d.nii.gz"} if there else set())
        call()
        assert {path.name for path in tmp_path.iterdir()} == {"d.nii.gz", "e.nii.gz", "d.json"}
        for path in tmp_path.iterdir():
            path.unlink()


@pytest.mark.parametrize(
    ("suffix", "kind"), [(".trx", "float32"), (".trx", "float16"), (".trk", "float32"), (".tck", "float32")]
)
@pytest.mark.parametrize("size", [500, 30_000, 150_000])
def test_a_tractogram(tmp_path, suffix, kind, size):
    """Several threads lay batches out, and one writes them."""
    points = np.random.default_rng(0).normal(size=(4000, 3))
    batch = Batch(points, range(0, 4001, 40), points[:100], range(100), [0] * 100, np.zeros((100, 2)))
    with (
        full_at(size), pytest.raises(ts.OutputError, match=rf"a{suffix}: cannot be written \(File too large\)"),
        WriterThread(tmp_path / f"a{suffix}", Space(np.eye(4), (9, 9, 9)), point_type=kind) as writer,
    ):
        for _ in range(40):
            writer.put(batch)
    assert not list(tmp_path.iterdir())
