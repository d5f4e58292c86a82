"""Time and memory of reading are bounded by what a header promises and by the size of the file."""

import base64
import os
import re
import struct
import subprocess
import sys
import time
import zlib

import nibabel as nib
import numpy as np
import pytest
from meshes import icosphere, save_gifti

import tistreamlines as ts
from tistreamlines.devices import host_memory
from tistreamlines.errors import InputError, ParameterError
from tistreamlines.io import stored_image, unpacking
from tistreamlines.io.images import open_image, read_array, read_series
from tistreamlines.io.mif import open_mif
from tistreamlines.io.node_tables import read_nodes
from tistreamlines.io.surfaces import load_surface
from tistreamlines.io.tractograms import stored_batches
from tistreamlines.tracking.products.density import density

SECONDS = 40  # on a busy machine; what is not bounded takes minutes
CHILD = "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (1 << 30,) * 2); exec(sys.argv[1])"


@pytest.fixture(autouse=True)
def quick():
    """Within seconds."""
    begun = time.perf_counter()
    yield
    assert time.perf_counter() - begun < SECONDS


def sparse(path, head, size=1_500_000_000):
    """Write a file of zeros that takes no space."""
    with path.open("wb") as file:
        file.write(head)
        file.truncate(size)
    return path


def test_tracks_of_zeros(tmp_path):
    """Zeros are points, and no row of NaN ends a streamline."""
    path = sparse(tmp_path / "a.tck", b"mrtrix tracks\ndatatype: Float32LE\nfile: . 64\nEND\n".ljust(64, b"\0"))
    with pytest.raises(InputError, match="more than 16,777,216 points"):
        list(stored_batches(path))


def test_a_long_streamline_in_blocks(tmp_path):
    """One that ends is read, in time that grows with its points."""
    points = np.arange(3 * 3_000_000, dtype="<f4").reshape(-1, 3) / 1e4
    marks = np.array([[np.nan] * 3, [np.inf] * 3], "<f4")
    head = b"mrtrix tracks\ndatatype: Float32LE\nfile: . 64\nEND\n".ljust(64, b"\0")
    (tmp_path / "a.tck").write_bytes(head + points.tobytes() + marks.tobytes())
    (batch,) = stored_batches(tmp_path / "a.tck")
    assert np.array_equal(batch.points, points)


@pytest.mark.parametrize("kind", ["tck", "mif"])
@pytest.mark.parametrize("filling", [b"\0", b"\n", b"\nEND.", b"a: b\n"])
def test_headers_without_an_end(tmp_path, kind, filling):
    path, head = tmp_path / f"a.{kind}", b"mrtrix tracks\n" if kind == "tck" else b"mrtrix image\n"
    path.write_bytes(head + filling * (40_000_000 // len(filling)))
    with pytest.raises(InputError, match="no line END"):
        list(stored_batches(path)) if kind == "tck" else open_mif(path)


@pytest.mark.parametrize("line", ["1 one " + "x y " * 7_500_000, '1 "one ' + "x" * 30_000_000, "1 " + "#" * 30_000_000])
def test_a_table_of_one_line(tmp_path, line):
    path = tmp_path / "a.txt"
    path.write_text(line)
    with pytest.raises(InputError, match=r"30,000,00. bytes, which is no table"):
        read_nodes(path)
    path.write_text(line[:5_000_000])
    with pytest.raises(InputError, match="line 1 has 5,000,000 letters"):
        read_nodes(path)


def test_a_long_table(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("".join(f"{label}  node_{label}\t10 20 30 0\r\n" for label in range(100_000)))
    assert read_nodes(path)[99_999] == "node_99999"


@pytest.mark.parametrize("line", ['1 "of \\"two\\" words" # c', "1\tone\x0b\xa0two", "1 o#ne", r"1 a\ b c"])
def test_words_are_those_of_shlex(line):
    """Those of lines without quotes are found faster, and are the same."""
    import shlex

    from tistreamlines.io import node_tables

    lexer = shlex.shlex(line, posix=True)
    lexer.whitespace_split, lexer.quotes = True, '"'
    assert vars(node_tables)["_words"](line) == list(lexer)


ZEROS = bytes(1 << 24)


def deflated(content, zeros):
    """Compress what goes on with so many blocks of 16 MB of zeros, of which all have the same code."""
    packer = zlib.compressobj(1, wbits=-zlib.MAX_WBITS)
    head, block = (packer.compress(part) + packer.flush(zlib.Z_FULL_FLUSH) for part in (content, ZEROS))
    return head + zeros * block + packer.flush()


def check_sum(count, content, zeros):
    """Return a check sum of the same."""
    total = count(content)
    for _ in range(zeros):
        total = count(ZEROS, total)
    return total


def packed(path, content, zeros):
    """Write a file of gzip that goes on with so many blocks of zeros."""
    end = struct.pack("<II", check_sum(zlib.crc32, content, zeros), (len(content) + zeros * len(ZEROS)) % 2**32)
    path.write_bytes(bytes.fromhex("1f8b08000000000000ff") + deflated(content, zeros) + end)
    return path


@pytest.mark.nightly
def test_a_small_header_before_gigabytes(tmp_path):
    """Only what the header tells of is kept; 1.2 GB within 1 GB of addresses."""
    values = np.arange(1000, dtype="i2").reshape(10, 10, 10)
    image = nib.Nifti1Image(values, np.eye(4)).to_bytes()
    header = b"mrtrix image\ndim: 10,10,10\nvox: 1,1,1\nlayout: +0,+1,+2\ndatatype: UInt8\nfile: . 256\nEND\n"
    paths = [
        packed(tmp_path / "a.nii.gz", image, 70), packed(tmp_path / "a.mif.gz", header.ljust(256 + 1000, b"\1"), 70),
    ]
    code = (
        "from tistreamlines.io.images import open_image, read_array\n"
        f"for path in {[*map(str, paths)]}: print(read_array(*open_image(path)).sum())"
    )
    done = subprocess.run([sys.executable, "-c", CHILD, code], capture_output=True, text=True, check=False)
    assert done.stdout.split() == [str(values.sum()), "1000"], done.stderr


@pytest.mark.parametrize("suffix", [".nii.gz", ".mgz", ".nii.bz2"])
def test_what_follows_the_values_is_kept(tmp_path, suffix):
    """An .mgz has a footer there."""
    values = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    kind = nib.MGHImage if suffix == ".mgz" else nib.Nifti1Image
    image = kind(values, np.eye(4))
    if suffix == ".mgz":
        image.header["tr"] = 7
    image.to_filename(tmp_path / f"a{suffix}")
    path, opened = open_image(tmp_path / f"a{suffix}")
    assert np.array_equal(read_array(path, opened), values)
    assert suffix != ".mgz" or float(stored_image.unpack_image(opened).header["tr"]) == 7


def test_values_beyond_the_memory(tmp_path, monkeypatch):
    """They are refused before they are unpacked."""
    path = packed(tmp_path / "a.nii.gz", nib.Nifti1Image(np.ones((4, 4, 4, 2), "i2"), np.eye(4)).to_bytes(), 0)
    monkeypatch.setattr(unpacking, "host_memory", lambda: (1000, 100))
    for reader in (read_array, read_series):
        with pytest.raises(InputError, match="does not fit in memory"):
            reader(*open_image(path))


def test_a_map_beyond_the_memory(tmp_path, monkeypatch):
    lines = [np.array([[1, 1, 1], [3, 2, 1]], np.float32)]
    nib.streamlines.save(nib.streamlines.Tractogram(lines, affine_to_rasmm=np.eye(4)), str(tmp_path / "a.tck"))
    grid = nib.Nifti1Image(np.broadcast_to(np.uint8(0), (1000, 1000, 1000)), np.diag([0.01, 0.01, 0.01, 1]))
    with pytest.raises(ParameterError, match="1000 x 1000 x 1000 voxels takes 16 GB, but memory_limit allows 2 GB"):
        ts.map_tractogram(tmp_path / "a.tck", ends=tmp_path / "e.nii", density_grid=grid, memory_limit=2)
    monkeypatch.setattr(density, "host_memory", lambda: (8 * 10**9, 4 * 10**9))
    with pytest.raises(ParameterError, match="takes 16 GB, but 4 GB of memory are free: give larger voxels"):
        ts.map_tractogram(tmp_path / "a.tck", density=tmp_path / "e.nii", density_grid=grid)
    assert [path.name for path in tmp_path.iterdir()] == ["a.tck"]


def surface(path):
    return save_gifti(path, *icosphere(1, 20.0, (3, -4, 5)))


def test_a_pipe_as_another_file_of_a_surface(tmp_path):
    """nibabel opens it, and waits for ever."""
    path = surface(tmp_path / "a.gii")
    os.mkfifo(tmp_path / "pipe")
    text = path.read_text().replace("GZipBase64Binary", "ExternalFileBinary", 1)
    path.write_text(text.replace('ExternalFileName=""', 'ExternalFileName="pipe"', 1))
    with pytest.raises(InputError, match="lie in another file"):
        load_surface(path)
    with pytest.raises(InputError, match="is GIFTI, not an image"):
        open_image(path)


@pytest.mark.parametrize("sides", [None, (1 << 20, 1 << 20)])
def test_a_surface_that_unpacks_to_gigabytes(tmp_path, sides):
    path = surface(tmp_path / "a.gii")
    end = struct.pack(">I", check_sum(zlib.adler32, b"", 64))
    block = bytes.fromhex("7801") + deflated(b"", 64) + end
    text = re.sub("<Data>[^<]*</Data>", f"<Data>{base64.b64encode(block).decode()}</Data>", path.read_text(), count=1)
    if sides is not None:
        text = re.sub('Dim0="[0-9]*" Dim1="3"', f'Dim0="{sides[0]}" Dim1="{sides[1]}"', text, count=1)
    path.write_text(text)
    code = f"from tistreamlines.io.surfaces import load_surface\nload_surface({str(path)!r})"
    done = subprocess.run([sys.executable, "-c", CHILD, code], capture_output=True, text=True, check=False)
    words = "has more values than these" if sides is None else "is no surface"
    assert words in done.stderr.splitlines()[-1]


def test_voxels_of_fods_in_another_unit(tmp_path):
    """Each step would be divided into thousands."""
    from tistreamlines.devices import choose
    from tistreamlines.space.batch import Space
    from tistreamlines.tracking.weights.visits import Visitor

    class Table:
        space = Space(np.diag([1e-3, 1e-3, 1e-3, 1]), (5, 5, 5))

    with pytest.raises(InputError, match=r"a step of 0\.5 mm is longer than 128 voxels of the FODs, of 0\.001 mm"):
        Visitor(Table(), 0.5, choose("cpu"))


ARGUMENTS = {"track": ["a.nii", "-o", "a.trx"], "map": ["a.tck"], "fixels": ["a.nii", "b"]}


@pytest.mark.parametrize(("command", "megabytes"), [("track", 300), ("track", 800), ("map", 300), ("fixels", 500)])
def test_a_limit_of_memory(tmp_path, command, megabytes):
    code = f"import resource; resource.setrlimit(resource.RLIMIT_AS, ({megabytes * 1_000_000},) * 2)\n"
    code += f"import sys; sys.argv = ['tistreamlines', {command!r}, *{ARGUMENTS[command]!r}]\n"
    code += "from tistreamlines.__main__ import main\nmain()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"Error: the limit of memory is {megabytes} MB, but the libraries of")
    assert host_memory()[0]
