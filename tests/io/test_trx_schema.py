"""TRX files of any program: what is right is read, and what does not fit is one line, before any value is used."""

import io
import json
import os
import shutil
import tempfile
import zipfile
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from streamlines import joined, lines

import tistreamlines as ts
from tistreamlines.errors import InputError
from tistreamlines.io.tractograms import (
    check_tractogram,
    grid_of_tractogram,
    has_seeds,
    stored_batches,
)
from tistreamlines.io.trx_schema import files_of_trx

LENGTHS = (4, 1, 7, 3)
POINTS = np.random.default_rng(0).normal(size=(sum(LENGTHS), 3)).astype(np.float32)
OFFSETS = np.cumsum([0, *LENGTHS])
AFFINE = np.array([[-2.0, 0, 0, 90], [0, 2, 0, -126], [0, 0, 2, -72], [0, 0, 0, 1]])
HEADER = {
    "DIMENSIONS": [91, 109, 91], "VOXEL_TO_RASMM": AFFINE.tolist(), "NB_VERTICES": len(POINTS),
    "NB_STREAMLINES": len(LENGTHS),
}
POSITIONS, STARTS = "positions.3.float32", "offsets.uint32"
PLAIN = {POSITIONS: POINTS.astype("<f4"), STARTS: OFFSETS.astype("<u4")}


def packed(path, members=PLAIN, header=None, *, method=zipfile.ZIP_STORED, prefix="", folders=()):
    """Write a TRX file as bytes."""
    with zipfile.ZipFile(path, "w", method) as file:
        for folder in folders:
            file.writestr(folder, b"")
        file.writestr(f"{prefix}header.json", json.dumps(HEADER | (header or {})))
        for name, values in members.items():
            file.writestr(prefix + name, values if isinstance(values, bytes) else np.asarray(values).tobytes())
    return path


def read(path):
    return lines(joined(stored_batches(check_tractogram(path))))


def expect(path, kind="f4"):
    lines, right = read(path), np.split(POINTS.astype(kind).astype("f4"), OFFSETS[1:-1])
    assert len(lines) == len(right)
    assert all(np.array_equal(a, b) for a, b in zip(lines, right, strict=True))


@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
@pytest.mark.parametrize("whole", ["uint32", "uint64", "int64"])
@pytest.mark.parametrize("end", [True, False])
@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_forms_of_the_specification(tmp_path, kind, whole, end, method):
    """Offsets of other writers have no end; trx-python refuses those, and older ones of its own."""
    members = {
        f"positions.3.{kind}": POINTS.astype(kind),
        f"offsets.{whole}": (OFFSETS if end else OFFSETS[:-1]).astype(whole),
    }
    expect(packed(tmp_path / "a.trx", members, method=method), kind)


@pytest.mark.parametrize("prefix", ["./", "brain.trx/", "./a/b/"])
def test_names_with_folders(tmp_path, prefix):
    folders = ("dps/", f"{prefix}dps/", "__MACOSX/")
    expect(packed(tmp_path / "a.trx", {**PLAIN, "dps/a.json": b"{}"}, prefix=prefix, folders=folders))


def test_more_members(tmp_path):
    """Those of all folders, of several columns, of booleans, and files that are no arrays."""
    more = {
        "dps/seeds.3.float32": np.ones((4, 3), "f4"), "dps/seed_number.uint32": np.arange(4, dtype="u4"),
        "dps/a.b.uint8": np.ones(4, "u1"), "dps/right.bit": np.ones(4, bool), "dpv/fa.float16": np.ones(15, "f2"),
        "dpv/rgb.3.uint8": np.ones((15, 3), "u1"), "groups/CST.uint32": np.array([0, 3], "u4"),
        "dpg/CST/mean.float64": np.ones(1), "dps/a.json": b"{}", "readme.txt": b"mine", "dps/.DS_Store": b"?",
    }
    path = packed(tmp_path / "a.trx", {**PLAIN, **more})
    expect(path)
    assert has_seeds(path)
    assert joined(stored_batches(path)).seed_number.tolist() == [0, 1, 2, 3]
    assert not has_seeds(packed(tmp_path / "b.trx"))


def test_the_grid(tmp_path):
    space = grid_of_tractogram(packed(tmp_path / "a.trx"))
    assert space.shape == (91, 109, 91)
    assert np.array_equal(space.affine, AFFINE)


def test_what_trx_python_writes(tmp_path):
    from trx.trx_file_memmap import TrxFile, save

    image = nib.Nifti1Image(np.zeros(HEADER["DIMENSIONS"], "u1"), AFFINE)
    streams = nib.streamlines.Tractogram(np.split(POINTS, OFFSETS[1:-1]), affine_to_rasmm=np.eye(4))
    kinds = {"positions": np.dtype("f4"), "offsets": np.dtype("u8"), "dpv": {}, "dps": {}}
    file = TrxFile.from_tractogram(streams, reference=image, dtype_dict=kinds)
    file.groups = {"CST": np.array([1, 2], "u4")}
    save(file, str(tmp_path / "a.trx"))
    save(file, str(tmp_path / "b.trx"), compression_standard=zipfile.ZIP_DEFLATED)
    save(file, str(tmp_path / "folder"))
    file.close()
    for name in ("a.trx", "b.trx", "folder"):
        expect(tmp_path / name)
    assert len(files_of_trx(tmp_path / "folder")) == 4


@pytest.mark.parametrize("form", ["file", "folder"])
def test_a_file_that_cannot_be_written(form):
    """Root may write to it in any case, so another user reads it."""
    place = Path(tempfile.mkdtemp())
    user = os.geteuid()
    try:
        path = packed(place / "a.trx")
        if form == "folder":
            zipfile.ZipFile(path).extractall(place / "folder")
            path = place / "folder"
        for entry in (*path.rglob("*"), path, place):
            entry.chmod(0o555 if entry.is_dir() else 0o444)
        if user == 0:
            os.seteuid(65534)
        expect(path)
    finally:
        os.seteuid(user)
        shutil.rmtree(place)


def test_no_streamlines(tmp_path):
    none = {"NB_VERTICES": 0, "NB_STREAMLINES": 0}
    for number, members in enumerate(({}, {POSITIONS: b"", STARTS: np.zeros(1, "u4")}, {POSITIONS: b"", STARTS: b""})):
        assert not list(stored_batches(packed(tmp_path / f"{number}.trx", members, none)))


def _starts(*values):
    return {POSITIONS: PLAIN[POSITIONS], STARTS: np.array(values, "u4")}


BAD = {
    "no positions": ({STARTS: PLAIN[STARTS]}, {}, "has no positions"),
    "no offsets": ({POSITIONS: PLAIN[POSITIONS]}, {}, "has no offsets"),
    "two positions": (PLAIN | {"positions.3.float16": POINTS.astype("f2")}, {}, "two members of one array"),
    "two offsets": (PLAIN | {"offsets.uint64": OFFSETS.astype("u8")}, {}, "two members of one array"),
    "two dps": (PLAIN | {"dps/a.uint8": bytes(4), "dps/a.int8": bytes(4)}, {}, "two members of one array"),
    "whole positions": ({"positions.3.int32": POINTS.astype("i4"), STARTS: PLAIN[STARTS]}, {}, "type 'int32'"),
    "objects": ({"positions.3.object": POINTS.astype("f8"), STARTS: PLAIN[STARTS]}, {}, "type 'object'"),
    "complex": ({"positions.3.complex64": bytes(360), STARTS: PLAIN[STARTS]}, {}, "type 'complex64'"),
    "booleans": ({"positions.3.bool": bytes(45), STARTS: PLAIN[STARTS]}, {}, "type 'bool'"),
    "other bytes first": ({"positions.3.>f4": POINTS, STARTS: PLAIN[STARTS]}, {}, "type '>f4'"),
    "real offsets": ({POSITIONS: POINTS, "offsets.float32": OFFSETS.astype("f4")}, {}, "type 'float32'"),
    "offsets of 8 bits": ({POSITIONS: POINTS, "offsets.uint8": OFFSETS.astype("u1")}, {}, "type 'uint8'"),
    "offsets of objects": ({POSITIONS: POINTS, "offsets.object": OFFSETS.astype("u8")}, {}, "type 'object'"),
    "dps of objects": (PLAIN | {"dps/a.object": bytes(32)}, {}, "type 'object'"),
    "dpv of text": (PLAIN | {"dpv/a.U3": bytes(180)}, {}, "type 'U3'"),
    "groups of reals": (PLAIN | {"groups/a.float32": bytes(8)}, {}, "type 'float32'"),
    "positions of two columns": ({"positions.2.float32": POINTS[:, :2], STARTS: PLAIN[STARTS]}, {}, "2 columns"),
    "positions of a column": ({"positions.float32": POINTS, STARTS: PLAIN[STARTS]}, {}, "1 columns"),
    "no columns": (PLAIN | {"dps/a.0.uint8": b""}, {}, "0 columns"),
    "a first offset inside": (_starts(4, 5, 12, 15), {}, "begins with 4"),
    "a first offset inside, with the end": (_starts(1, 4, 5, 12, 15), {}, "begins with 1"),
    "a last offset inside": (_starts(0, 4, 5, 12, 14), {}, "ends with 14"),
    "an offset beyond": (_starts(0, 4, 5, 16), {}, "beyond the 15 points"),
    "offsets that fall": (_starts(0, 5, 4, 12), {}, "falls"),
    "offsets below 0": ({POSITIONS: POINTS, "offsets.int32": np.array([0, -4, 5, 12], "i4")}, {}, "falls"),
    "too few offsets": (_starts(0, 4, 5), {}, "has 12 bytes"),
    "too few points": (PLAIN, {"NB_VERTICES": 16}, "positions.3.float32 has 180 bytes"),
    "too many points": (PLAIN, {"NB_VERTICES": 14}, "positions.3.float32 has 180 bytes"),
    "too many streamlines": (PLAIN, {"NB_STREAMLINES": 9}, "offsets.uint32 has 20 bytes"),
    "dps of other length": (PLAIN | {"dps/a.float32": bytes(12)}, {}, "dps/a.float32 has 12 bytes"),
    "dpv of other length": (PLAIN | {"dpv/a.float32": bytes(16)}, {}, "dpv/a.float32 has 16 bytes"),
    "dpg of half a value": (PLAIN | {"dpg/g/a.float32": bytes(6)}, {}, "dpg/g/a.float32 has 6 bytes"),
    "a group beyond": (PLAIN | {"groups/a.uint32": np.array([0, 4], "u4")}, {}, "beyond the 4 streamlines"),
    "a group below": (PLAIN | {"groups/a.int32": np.array([-1], "i4")}, {}, "beyond the 4 streamlines"),
    "an affine of zeros": (PLAIN, {"VOXEL_TO_RASMM": np.zeros((4, 4)).tolist()}, "cannot be inverted"),
    "an affine with NaN": (PLAIN, {"VOXEL_TO_RASMM": np.full((4, 4), np.nan).tolist()}, "cannot be inverted"),
    "an affine of nine": (PLAIN, {"VOXEL_TO_RASMM": np.eye(3).tolist()}, "not \\(4, 4\\)"),
    "an affine of words": (PLAIN, {"VOXEL_TO_RASMM": "eye"}, "cannot be read"),
    "a side below 0": (PLAIN, {"DIMENSIONS": [91, -5, 91]}, "DIMENSIONS of -5"),
    "a side of 0": (PLAIN, {"DIMENSIONS": [91, 0, 91]}, "DIMENSIONS"),
    "two sides": (PLAIN, {"DIMENSIONS": [91, 109]}, "DIMENSIONS"),
    "half a streamline": (PLAIN, {"NB_STREAMLINES": 3.5}, "NB_STREAMLINES of 3.5"),
    "streamlines below 0": (PLAIN, {"NB_STREAMLINES": -4}, "NB_STREAMLINES of -4"),
    "points of no streamline": ({POSITIONS: POINTS}, {"NB_STREAMLINES": 0}, "of no streamline"),
    "a streamline of all points": ({}, {"NB_VERTICES": 1 << 40}, "has no positions"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("form", ["file", "folder"])
def test_what_does_not_fit(tmp_path, name, form):
    members, header, words = BAD[name]
    path = packed(tmp_path / "a.trx", members, header)
    if form == "folder":
        zipfile.ZipFile(path).extractall(tmp_path / "folder")
        path = tmp_path / "folder"
    for reader in (lambda: list(stored_batches(path)), lambda: grid_of_tractogram(path), lambda: has_seeds(path)):
        with pytest.raises(InputError, match=words):
            reader()


def test_one_member_twice(tmp_path):
    path = packed(tmp_path / "a.trx")
    with zipfile.ZipFile(path, "a") as file, pytest.warns(UserWarning, match="Duplicate"):
        file.writestr(POSITIONS, POINTS.tobytes())
    with pytest.raises(InputError, match="two members"):
        read(path)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compression(tmp_path, method):
    """A block of bzip2 that has a few bytes may unpack to gigabytes."""
    with pytest.raises(InputError, match="neither stored nor deflated"):
        read(packed(tmp_path / "a.trx", method=method))


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_points_that_have_changed(tmp_path, method):
    """A flipped bit shows, which trx-python does not notice."""
    path = packed(tmp_path / "a.trx", method=method)
    content = bytearray(path.read_bytes())
    info = zipfile.ZipFile(path).getinfo(POSITIONS)
    content[info.header_offset + 30 + len(POSITIONS) + 20] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match="cannot be read"):
        read(path)


def test_a_header_that_is_none(tmp_path):
    for content in (b"", b"null", b"[]", b"{}", b'{"NB_VERTICES": 1}', b" " * (1 << 21), b"[" * 100_000):
        held = io.BytesIO()
        with zipfile.ZipFile(held, "w") as file:
            file.writestr("header.json", content)
        (tmp_path / "a.trx").write_bytes(held.getvalue())
        with pytest.raises(InputError):
            read(tmp_path / "a.trx")


def test_folders_that_are_none(tmp_path):
    with pytest.raises(InputError, match=r"without header\.json"):
        check_tractogram(tmp_path)
    with zipfile.ZipFile(packed(tmp_path / "a.trx")) as file:
        file.extractall(tmp_path / "one")
        file.extractall(tmp_path / "both" / "a")
        file.extractall(tmp_path / "both" / "b")
    with zipfile.ZipFile(tmp_path / "two.trx", "w") as file:
        for name in (f"{folder}/{name}" for folder in "ab" for name in ("header.json", *PLAIN)):
            file.write(tmp_path / "both" / name, name)
    with pytest.raises(InputError, match="several"):
        read(tmp_path / "two.trx")
    (tmp_path / "one" / POSITIONS).unlink()
    os.mkfifo(tmp_path / "one" / POSITIONS)
    with pytest.raises(InputError, match="has no positions"):
        read(tmp_path / "one")


def test_a_deflated_streamline_of_zeros(tmp_path):
    """Of 12 GB: it is refused by what the header and the offsets say."""
    with zipfile.ZipFile(tmp_path / "a.trx", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        file.writestr("header.json", json.dumps(HEADER | {"NB_VERTICES": 1 << 25, "NB_STREAMLINES": 1}))
        file.writestr(STARTS, bytes(4))
        with file.open(POSITIONS, "w") as points:
            for _ in range(12):
                points.write(bytes(1 << 25))
    with pytest.raises(InputError, match="a streamline of 33,554,432 points"):
        read(tmp_path / "a.trx")


def test_maps_of_a_folder(tmp_path):
    path = packed(tmp_path / "a.trx")
    zipfile.ZipFile(path).extractall(tmp_path / "folder")
    for place, name in ((path, "a.nii"), (tmp_path / "folder", "b.nii")):
        result = ts.map_tractogram(place, density=tmp_path / name)
        assert result["streamlines"] == len(LENGTHS)
    assert (tmp_path / "a.nii").read_bytes() == (tmp_path / "b.nii").read_bytes()
    record = json.loads((tmp_path / "b.json").read_text())
    assert len(record["inputs"]["tractogram"]["sha256"].split("+")) == 3
