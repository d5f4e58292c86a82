"""The values of a 4-D image: bit for bit what nibabel reads, whatever the type, byte order, scaling and layout."""

import gzip
import sys
import zlib
from concurrent.futures import ThreadPoolExecutor

import nibabel as nib
import numpy as np
import pytest
from isal import isal_zlib
from nibabel.openers import ImageOpener
from nights import few_by_day
from places import CROP

from tistreamlines.errors import InputError
from tistreamlines.io import stored_image, unpacking
from tistreamlines.io.images import open_image, read_array, read_series, read_signals
from tistreamlines.io.in_memory import source_of

SHAPE = (32, 5, 4, 9)
TYPES = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"]
SCALINGS = [(1.0, 0.0), (0.0689, 0.0), (1.0, -3.3), (1e-3, 7.7)]


@pytest.fixture(params=[1 << 22, 4000, 1])
def block(request, monkeypatch):
    """Blocks of all the image, of a few rows, and of one row; a gzip file is unpacked at once, or in parts."""
    monkeypatch.setattr(stored_image, "BLOCK", request.param)
    if request.param == 4000:
        in_parts(monkeypatch)


def in_parts(monkeypatch):
    """Have gzip files unpacked two volumes at a time, in small pieces."""
    group = 2 * int(np.prod(SHAPE[:3]))
    monkeypatch.setattr(stored_image, "GROUP", group)
    for name, size in (("GROUP", group), ("PACKED", 100), ("UNPACKED", 1000)):
        monkeypatch.setattr(unpacking, name, size)


def numbers(kind):
    """Values over the whole range of integers, and of all signs and sizes of reals."""
    bits = np.random.default_rng(3).bytes(np.prod(SHAPE) * np.dtype(kind).itemsize)
    if kind[0] in "iu":
        return np.frombuffer(bits, kind).reshape(SHAPE)
    values = np.random.default_rng(3).normal(size=SHAPE) * np.logspace(-42, 20, SHAPE[3])
    values[0, 0, 0] = -0.0
    return values.astype(kind)


def save(path, data, order="<", slope=1.0, inter=0.0):
    """Write an image of these stored values; nibabel would choose a scaling of its own."""
    kind = nib.Nifti1Pair if path.suffix == ".img" else nib.Nifti1Image
    image = kind(data, np.eye(4), kind.header_class(endianness=order), dtype=data.dtype)
    bare = path.with_suffix("") if path.suffix in ImageOpener.compress_ext_map else path
    image.to_filename(bare)
    header = bare.with_suffix(".hdr") if path.suffix == ".img" else bare
    content = bytearray(header.read_bytes())
    content[112:120] = np.array([slope, inter], order + "f4").tobytes()
    header.write_bytes(content)
    if bare != path:
        with ImageOpener(path, "wb") as file:
            file.write(bare.read_bytes())
        bare.unlink()
    return path


def same(path, expected=None):
    """Compare with nibabel, or with given values."""
    with np.errstate(all="ignore"):
        values = np.asarray(nib.load(path).dataobj if expected is None else expected).astype(np.float32)
    series = read_series(*open_image(path))
    assert series.flags.c_contiguous
    assert series.dtype == np.float32
    assert series.tobytes() == values.tobytes()


@pytest.mark.parametrize("kind", few_by_day(TYPES))
@pytest.mark.parametrize("order", "<>")
def test_every_type_byte_order_and_scaling(tmp_path, block, kind, order):
    for slope, inter in SCALINGS:
        same(save(tmp_path / "dwi.nii", numbers(kind), order, slope, inter))
        same(save(tmp_path / "dwi.nii.gz", numbers(kind), order, slope, inter))


@pytest.mark.parametrize(("kind", "name"), [("i2", "dwi.nii.gz"), ("f4", "dwi.nii"), ("f4", "dwi.mgz")])
def test_voxels_that_do_not_matter_are_0(tmp_path, block, kind, name):
    """Also if there is NaN; one that matters has NaN as ever."""
    inside = np.random.default_rng(1).random(SHAPE[:3]) < 0.3
    inside[:8], inside[8:16] = True, False  # some blocks are whole, others empty
    data = numbers(kind)
    if kind == "f4":
        data = np.where(inside[..., None], data, np.nan).astype(kind)
    if name.endswith("mgz"):
        nib.save(nib.MGHImage(data, np.eye(4)), path := tmp_path / name)
    else:
        path = save(tmp_path / name, data, slope=0.5)
    with np.errstate(all="ignore"):
        expected = np.where(inside[..., None], np.asarray(nib.load(path).dataobj), 0).astype(np.float32)
    values, missing = read_signals(*open_image(path), inside)
    assert missing is None
    assert values.tobytes() == expected.tobytes()
    if kind == "f4":
        other = ~inside & (np.indices(SHAPE[:3])[0] > 20)
        assert read_signals(*open_image(path), inside | other)[1].tolist() == other.tolist()


@pytest.mark.parametrize("name", ["dwi.img", "dwi.nii.bz2", "dwi.mgz", "dwi.mgh", "analyze.img"])
def test_other_formats(tmp_path, block, name):
    path = tmp_path / name
    if name.startswith("dwi.m"):
        nib.MGHImage(numbers("i2"), np.eye(4)).to_filename(path)
    elif name == "analyze.img":
        nib.AnalyzeImage(numbers("i2"), np.eye(4)).to_filename(path)
    else:
        save(path, numbers("i2"), slope=0.1, inter=2.5)
    same(path)


@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (1, 4, 1, 7), (3, 1, 5, 1), (65, 2, 3, 64)])
def test_odd_shapes(tmp_path, block, shape):
    same(save(tmp_path / "dwi.nii.gz", np.arange(np.prod(shape), dtype=np.int32).reshape(shape), slope=0.3))


def test_images_in_memory(tmp_path, block):
    data = numbers("f8")
    layouts = data, np.asfortranarray(data), data[::-1, ::2], data.swapaxes(0, 1), numbers("i2").astype(">i2")
    for values in layouts:
        expected = values.astype(np.float32)
        for image in (values, nib.Nifti1Image(values, np.eye(4))):
            series = read_series(*open_image(source_of("dwi", image)))
            assert series.tobytes() == expected.tobytes()
            assert not np.shares_memory(series, values)
    path = save(tmp_path / "dwi.nii.gz", numbers("u2"), slope=0.07)
    same(source_of("dwi", nib.load(path)), nib.load(path).dataobj)


@pytest.mark.skipif(not CROP.is_dir(), reason="no real data at ../shared/data/sherbrooke_crop")
def test_a_real_series():
    same(CROP / "dwi.nii.gz")


@pytest.mark.parametrize(("slope", "inter"), [(3e34, 0), (1, 3e38), (-3e34, 2)])
def test_integers_that_scaling_makes_too_large(tmp_path, block, slope, inter):
    data = np.zeros(SHAPE, np.int16) if inter != 3e38 else np.ones(SHAPE, np.int16)
    data[3, 1, 2, 4] = 300
    path = save(tmp_path / "dwi.nii.gz", data, slope=slope, inter=inter)
    where = r"\(0, 0, 0\) of volume 0" if inter == 3e38 else r"\(3, 1, 2\) of volume 4"
    with pytest.raises(InputError, match=where):
        read_series(*open_image(path))


# ------------------------------------------------------------------------------------------------- unpacking
@pytest.mark.parametrize("read", [read_series, read_array])
def test_a_compressed_image_is_unpacked_once(tmp_path, monkeypatch, read):
    """To start again for each few volumes would take the square of the time."""
    path = save(tmp_path / "dwi.nii.gz", np.ones((8, 8, 8, 50), np.float32))
    unpacked, streamed = [], []
    once, again = isal_zlib.decompressobj, gzip.GzipFile.read
    monkeypatch.setattr(isal_zlib, "decompressobj", lambda **kind: unpacked.append(kind) or once(**kind))

    def noted(file, size=-1):
        content = again(file, size)
        streamed.append(len(content))
        return content

    monkeypatch.setattr(gzip.GzipFile, "read", noted)
    read(*open_image(path))
    assert len(unpacked) == 1
    assert sum(streamed) < 5000  # of the header, by which nibabel knows the format


def test_a_compressed_file_of_several_parts(tmp_path):
    path = save(tmp_path / "dwi.nii.gz", numbers("i2"))
    whole = gzip.decompress(path.read_bytes())
    path.write_bytes(gzip.compress(whole[:3000]) + gzip.compress(whole[3000:]) + bytes(50))
    same(path)


@pytest.mark.parametrize("damage", ["half", "short", "checksum", "length", "values", "garbage", "end"])
def test_a_damaged_file_that_is_unpacked_in_parts(tmp_path, monkeypatch, damage):
    """The message is that of a file that is unpacked at once."""
    path = save(tmp_path / "dwi.nii.gz", numbers("u2"))
    content = path.read_bytes()
    flipped = {"checksum": -8, "length": -4, "values": -30}
    if damage in flipped:
        damaged = bytearray(content)
        damaged[flipped[damage]] ^= 1
    else:
        damaged = {
            "half": content[: len(content) // 2], "short": content[:-3], "garbage": content + b"garbage",
            "end": gzip.compress(gzip.decompress(content)[:-2]),
        }[damage]
    path.write_bytes(damaged)
    opened, messages = open_image(path), []
    for _ in range(2):
        with pytest.raises(InputError) as error:
            read_series(*opened)
        messages.append(str(error.value))
        in_parts(monkeypatch)
    assert messages[0] == messages[1]
    assert "cannot be read" in messages[0]


def test_a_large_file_is_unpacked_in_parts(tmp_path, monkeypatch):
    """No more than two of the parts are in memory."""
    path, counts = save(tmp_path / "dwi.nii.gz", numbers("u2")), []
    in_parts(monkeypatch)
    once = stored_image._convert
    monkeypatch.setattr(stored_image, "_convert", lambda *all: counts.append(all[0].shape[3]) or once(*all))
    same(path)
    assert counts == [1] * SHAPE[3]


def test_zlib_takes_the_place_of_isal(tmp_path, monkeypatch):
    path, unpacked, once = save(tmp_path / "dwi.nii.gz", numbers("i2")), [], zlib.decompressobj
    monkeypatch.setitem(sys.modules, "isal", None)
    monkeypatch.setattr(zlib, "decompressobj", lambda **kind: unpacked.append(kind) or once(**kind))
    same(path)
    assert {"wbits": 31} in unpacked


def test_where_no_thread_starts(tmp_path, monkeypatch):
    def refused(*_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(ThreadPoolExecutor, "submit", refused)
    same(save(tmp_path / "dwi.nii.gz", numbers("i2")))
