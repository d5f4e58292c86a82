"""Tractograms: what other readers find in them, and that they appear whole or not at all."""

import re
import shutil
import subprocess
import zipfile

import nibabel as nib
import numpy as np
import pytest
from places import CROP
from scipy.spatial.transform import Rotation
from trx import trx_file_memmap as trx

from tistreamlines.errors import OutputError
from tistreamlines.io import trx as trx_format
from tistreamlines.io.nifti import load_dwi
from tistreamlines.io.sidecar import sha256
from tistreamlines.io.writer import TractogramWriter
from tistreamlines.space.batch import Batch, Space

SUFFIXES = [".trx", ".trk", ".tck"]
DATA = {"seeds": 3, "seed_number": 1, "direction_number": 1, "stop_reasons": 2}


def space(linear, origin=(-90.0, 60.5, 33.25)):
    affine = np.eye(4)
    affine[:3, :3] = linear
    affine[:3, 3] = origin
    return Space(affine, (40, 50, 60))


def turned(angles):
    return Rotation.from_euler("xyz", angles, degrees=True).as_matrix()


SPACES = {
    "plain": space(np.eye(3)),
    "anisotropic": space(np.diag([1.1, 2.0, 3.3])),
    "flipped": space(np.diag([-2.0, -2.0, 2.5])),
    "permuted": space(np.array([[0, 0, 2.0], [-1.5, 0, 0], [0, 3.0, 0]])),
    "oblique": space(turned([20, -15, 35]) * [1.25, -2.0, 0.9]),
    "very oblique": space(turned([50, 40, -70]) * [2.0, 2.0, 2.0]),
}


def batch(space, lengths, rng=None):
    rng = rng or np.random.default_rng(len(lengths))
    n = len(lengths)
    points = space.to_ras(rng.uniform(-0.5, np.array(space.shape) - 0.5, (sum(lengths), 3)))
    return Batch(
        points=points.astype(np.float32),
        offsets=np.cumsum([0, *lengths]),
        seeds=rng.normal(size=(n, 3)).astype(np.float32),
        seed_number=rng.integers(0, 1 << 24, n).astype(np.uint32),
        direction_number=rng.integers(0, 400, n).astype(np.uint16),
        stop_reasons=rng.integers(0, 9, (n, 2)).astype(np.uint8),
    )


def save(path, space, batches, **options):
    with TractogramWriter(path, space, **options) as writer:
        for part in batches:
            writer.write(part)


def read(path):
    """Load with nibabel or trx-python: the streamlines and the data of each."""
    if path.suffix == ".trx":
        loaded = trx.load(str(path))
        tractogram = loaded.to_memory()
        result = list(tractogram.streamlines), dict(tractogram.data_per_streamline)
        loaded.close()
        return result
    tractogram = nib.streamlines.load(path).tractogram
    return list(tractogram.streamlines), dict(tractogram.data_per_streamline)


def lines(batches):
    return [line for part in batches for line in np.split(part.points, part.offsets[1:-1]) if len(part)]


BATCHES = {
    "one": [[5, 1, 12]],
    "several": [[3, 2], [], [1], [40, 7, 1, 9], []],
    "single point": [[1]],
    "many": [[2] * 300, [17] * 200],
}


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("grid", SPACES.values(), ids=SPACES.keys())
@pytest.mark.parametrize("lengths", BATCHES.values(), ids=BATCHES.keys())
def test_round_trip(tmp_path, suffix, grid, lengths):
    path = tmp_path / f"out{suffix}"
    batches = [batch(grid, counts) for counts in lengths]
    save(path, grid, batches)
    streamlines, data = read(path)
    expected = lines(batches)
    assert [len(line) for line in streamlines] == [len(line) for line in expected]
    tolerance = 1e-3 if suffix == ".trk" else 0
    assert np.abs(np.concatenate(streamlines) - np.concatenate(expected)).max() <= tolerance
    assert sorted(data) == ([] if suffix == ".tck" else sorted(DATA))
    for name, values in data.items():
        stored = np.concatenate([getattr(part, name).reshape(-1, DATA[name]) for part in batches])
        assert np.array_equal(values, stored), name
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_step_is_noted_where_the_format_has_a_place(tmp_path, suffix):
    path, grid = tmp_path / f"out{suffix}", SPACES["oblique"]
    save(path, grid, [batch(grid, [4, 7])], step_mm=1.796651725 / 2)
    assert [len(line) for line in read(path)[0]] == [4, 7]
    if suffix == ".tck":
        assert float(nib.streamlines.load(path, lazy_load=True).header["step_size"]) == pytest.approx(0.8983258625)


FIELDS = {"method": "det", "max_angle": 30.0, "min_dist": 9.5, "threshold": 0.2, "total_count": 5}


@pytest.mark.skipif(not shutil.which("tckinfo"), reason="MRtrix3 is not installed")
def test_mrtrix3_shows_the_header_and_keeps_it(tmp_path):
    """A file of values at the points belongs to this tractogram alone; an edited one keeps what is said of tracking."""
    grid = SPACES["plain"]
    for name, lengths in (("a", [4, 7]), ("b", [5, 6])):
        save(tmp_path / f"{name}.tck", grid, [batch(grid, lengths)], step_mm=0.25, fields=lambda: FIELDS)
    nib.save(nib.Nifti1Image(np.ones(grid.shape, np.float32), grid.affine), tmp_path / "ones.nii")

    def call(command):
        done = subprocess.run(command.split(), cwd=tmp_path, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def shown(name):
        return dict(re.findall(r"^    ([a-z_]+): +(.*)$", call(f"tckinfo {name}")[1], re.MULTILINE))

    words = shown("a.tck")
    assert {name: float(value) for name, value in words.items() if name not in ("method", "timestamp")} == {
        "count": 2, "step_size": 0.25, "max_angle": 30, "min_dist": 9.5, "threshold": 0.2, "total_count": 5,
    }
    assert words["method"] == "det"
    header = nib.streamlines.load(tmp_path / "a.tck", lazy_load=True).header
    assert words.items() <= header.items()
    assert call("tcksample -quiet a.tck ones.nii ones.tsf") == (0, "")
    assert call("tsfvalidate -quiet ones.tsf a.tck")[0] == 0
    assert call("tsfvalidate -quiet ones.tsf b.tck")[0] != 0
    assert call("tckedit -quiet a.tck edited.tck -number 1") == (0, "")
    assert shown("edited.tck").items() >= {"count": "1", "method": "det", "max_angle": "30"}.items()


@pytest.mark.skipif(not shutil.which("tckmap"), reason="MRtrix3 is not installed")
def test_tckmap_fills_in_between_points_by_the_step(tmp_path):
    """Along a diagonal, in steps of more than a voxel, it skips none."""
    line = np.linspace(1.0, 8.0, 6)[:, None] * [1, 1, 0] + [0, 0, 4.0]
    grid = Space(np.eye(4), (10, 10, 10))
    single = Batch(line, [0, 6], line[:1], [0], [0], [[0, 0]])
    nib.save(nib.Nifti1Image(np.zeros(grid.shape, np.float32), grid.affine), tmp_path / "grid.nii")
    counts = {}
    for name, options in (("without", {}), ("with", {"step_mm": 1.4 * np.sqrt(2)})):
        path = tmp_path / f"{name}.tck"
        save(path, grid, [single], **options)
        command = ["tckmap", "-quiet", "-template", tmp_path / "grid.nii", path, tmp_path / f"{name}.nii"]
        subprocess.run(command, check=True, capture_output=True)
        counts[name] = np.asarray(nib.load(tmp_path / f"{name}.nii").dataobj) > 0
    info = subprocess.run(["tckinfo", tmp_path / "with.tck"], check=True, capture_output=True, text=True).stdout
    assert re.search(r"step_size:\s+1\.979", info)
    diagonal = np.arange(1, 9)
    assert counts["with"][diagonal, diagonal, 4].all()
    assert counts["without"].sum() < counts["with"].sum()


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("batches", [0, 1, 3])
def test_no_streamlines(tmp_path, suffix, batches):
    path = tmp_path / f"out{suffix}"
    grid = SPACES["oblique"]
    save(path, grid, [batch(grid, [])] * batches)
    assert read(path)[0] == []


@pytest.mark.parametrize("lengths", [[], [4, 9]])
@pytest.mark.parametrize("suffix", [".trx", ".trk"])
def test_stateful_tractogram(tmp_path, suffix, lengths):
    from dipy.io.streamline import load_tractogram

    path = tmp_path / f"out{suffix}"
    grid = SPACES["oblique"]
    streamlines = batch(grid, lengths)
    save(path, grid, [streamlines])
    loaded = load_tractogram(str(path), "same", bbox_valid_check=bool(lengths))
    assert np.allclose(loaded.affine, grid.affine)
    assert tuple(loaded.dimensions) == grid.shape
    assert len(loaded) == len(streamlines)
    if lengths:
        assert np.allclose(loaded.streamlines.get_data(), streamlines.points, atol=1e-3)


class TestTrx:
    def test_header_and_types(self, tmp_path):
        grid = SPACES["anisotropic"]
        save(tmp_path / "out.trx", grid, [batch(grid, [3, 4])])
        loaded = trx.load(str(tmp_path / "out.trx"))
        assert loaded.header["NB_STREAMLINES"] == 2
        assert loaded.header["NB_VERTICES"] == 7
        assert tuple(loaded.header["DIMENSIONS"]) == grid.shape
        assert np.allclose(loaded.header["VOXEL_TO_RASMM"], grid.affine)
        assert loaded.data_per_streamline["seed_number"].dtype == np.uint32
        assert loaded.data_per_streamline["direction_number"].dtype == np.uint16  # a seed may have over 256 directions
        assert loaded.data_per_streamline["stop_reasons"].dtype == np.uint8
        assert loaded.streamlines._offsets.dtype == np.uint32
        loaded.close()

    def test_members_are_those_of_trx_python(self, tmp_path):
        grid = SPACES["oblique"]
        save(tmp_path / "ours.trx", grid, [batch(grid, [3, 4])])
        loaded = trx.load(str(tmp_path / "ours.trx"))
        trx.save(loaded, str(tmp_path / "theirs.trx"))
        loaded.close()
        ours, theirs = (zipfile.ZipFile(tmp_path / f"{name}.trx") for name in ("ours", "theirs"))
        with ours, theirs:
            assert sorted(ours.namelist()) == sorted(theirs.namelist())
            assert all(entry.compress_type == zipfile.ZIP_STORED for entry in ours.infolist())
            for name in ours.namelist():
                if name != "header.json":
                    assert ours.read(name) == theirs.read(name), name

    def test_short_zip_headers(self, tmp_path):
        grid = SPACES["plain"]
        save(tmp_path / "out.trx", grid, [batch(grid, [3])])
        with zipfile.ZipFile(tmp_path / "out.trx") as archive:
            for entry in archive.infolist():
                archive.fp.seek(entry.header_offset + 28)
                assert archive.fp.read(2) == b"\0\0", "older readers expect no extra field"

    @pytest.mark.parametrize("limit", [None, 1500])
    def test_large_members(self, tmp_path, monkeypatch, limit):
        """Each member is where trx-python to 0.3 and from 0.4 looks for it, also beyond the limit of short headers."""
        path, grid = tmp_path / "out.trx", SPACES["oblique"]
        if limit:
            monkeypatch.setattr(zipfile, "ZIP64_LIMIT", limit)
        batches = [batch(grid, counts) for counts in BATCHES["many"]]
        save(path, grid, batches)
        content, expected = path.read_bytes(), np.concatenate([part.points for part in batches])
        with zipfile.ZipFile(path) as archive:
            assert archive.testzip() is None
            for entry in archive.infolist():
                name, extra = (int.from_bytes(content[entry.header_offset + at :][:2], "little") for at in (26, 28))
                place = entry.header_offset + 30 + name + extra
                assert place == entry.header_offset + len(entry.FileHeader()) - len(entry.extra), entry.filename
                assert content[place:][: entry.file_size] == archive.read(entry)
            long = [entry.filename for entry in archive.infolist() if entry.file_size > zipfile.ZIP64_LIMIT]
        assert ("positions.3.float32" in long) == bool(limit)
        assert np.array_equal(np.concatenate(read(path)[0]), expected)
        if shutil.which("unzip"):
            subprocess.run(["unzip", "-tq", path], check=True, capture_output=True)

    def test_points_are_written_in_place(self, tmp_path):
        grid = SPACES["plain"]
        whole = batch(grid, [9000, 8000])
        with TractogramWriter(tmp_path / "out.trx", grid) as writer:
            writer.write(whole)
            files = [file for file in tmp_path.glob(".*/**/*") if file.stat().st_size >= whole.points.nbytes]
            assert [file.name for file in files] == ["tractogram.trx"]
        with (tmp_path / "out.trx").open("rb") as file:
            file.seek(trx_format.POINTS_START)
            assert file.read(whole.points.nbytes) == whole.points.tobytes()

    def test_longest_header_fits_before_the_points(self, tmp_path):
        from contextlib import ExitStack

        with ExitStack() as files:
            space = Space(np.full((4, 4), -2.2250738585072014e-308), (1 << 31,) * 3)
            sink = trx_format.TrxSink(tmp_path, space, files, {})
            sink._vertices = sink._streamlines = 1 << 63
            assert len(sink._header()) < 800

    def test_zlib_takes_the_place_of_isal(self, tmp_path, monkeypatch):
        import zlib

        save(tmp_path / "a.trx", SPACES["plain"], [batch(SPACES["plain"], [40, 9])])
        monkeypatch.setattr("tistreamlines.io.checksums.quick_zlib", lambda: zlib)
        save(tmp_path / "b.trx", SPACES["plain"], [batch(SPACES["plain"], [40, 9])])
        assert sha256(tmp_path / "a.trx") == sha256(tmp_path / "b.trx")

    def test_offsets_beyond_32_bits(self, tmp_path):
        from contextlib import ExitStack

        with ExitStack() as files:
            sink = trx_format.TrxSink(tmp_path, SPACES["plain"], files, {})
            sink._vertices = (1 << 32) - 2
            sink.append(sink.lay_out(batch(SPACES["plain"], [1, 1, 3])))
            sink._extend("starts", np.array([sink._vertices]))
            sink._files["starts"].close()
            with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
                archive.writestr("header.json", "")
                sink._store_offsets(archive)
        with zipfile.ZipFile(tmp_path / "a.zip") as archive:
            content = archive.read("offsets.uint64")
        assert np.frombuffer(content, "<u8").tolist() == [2**32 - 2, 2**32 - 1, 2**32, 2**32 + 3]

    def test_seed_numbers_of_32_bits(self, tmp_path):
        grid = SPACES["plain"]
        pair = batch(grid, [2])
        pair.seed_number[:] = 0xFFFFFFFE
        save(tmp_path / "out.trx", grid, [pair])
        assert read(tmp_path / "out.trx")[1]["seed_number"] == 0xFFFFFFFE


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_equal_tractograms_are_equal_files(tmp_path, suffix):
    grid = SPACES["oblique"]
    whole = batch(grid, [3, 4, 5])
    save(tmp_path / f"a{suffix}", grid, [whole])
    parts = [
        Batch(
            whole.points[whole.offsets[i] : whole.offsets[i + 1]],
            np.array([0, whole.lengths[i]]),
            *(getattr(whole, name)[i : i + 1] for name in DATA),
        )
        for i in range(3)
    ]
    save(tmp_path / f"b{suffix}", grid, parts)
    assert sha256(tmp_path / f"a{suffix}") == sha256(tmp_path / f"b{suffix}")


def test_trk_and_tck_are_bytes_of_nibabel(tmp_path):
    grid = SPACES["permuted"]
    streamlines = batch(grid, [4, 1, 6])
    save(tmp_path / "out.trk", grid, [streamlines])
    ours = nib.streamlines.load(tmp_path / "out.trk")
    nib.streamlines.save(ours.tractogram, str(tmp_path / "theirs.trk"), header=ours.header)
    theirs = nib.streamlines.load(tmp_path / "theirs.trk")
    assert all(np.array_equal(ours.header[key], theirs.header[key]) for key in ours.header)
    assert (tmp_path / "out.trk").stat().st_size == (tmp_path / "theirs.trk").stat().st_size
    save(tmp_path / "out.tck", grid, [streamlines])
    theirs = nib.streamlines.Tractogram(lines([streamlines]), affine_to_rasmm=np.eye(4))
    nib.streamlines.save(theirs, str(tmp_path / "theirs.tck"))
    points = 4 * 3 * (11 + 3 + 1)
    assert (tmp_path / "out.tck").read_bytes()[-points:] == (tmp_path / "theirs.tck").read_bytes()[-points:]
    assert int(nib.streamlines.load(tmp_path / "out.tck", lazy_load=True).header["count"]) == 3


@pytest.mark.parametrize("suffix", SUFFIXES)
class TestAllOrNothing:
    @pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
    @pytest.mark.parametrize("old", [None, b"precious"])
    def test_interrupted(self, tmp_path, suffix, error, old):
        path = tmp_path / f"out{suffix}"
        if old:
            path.write_bytes(old)
        grid = SPACES["plain"]

        def interrupted():
            yield batch(grid, [3, 4])
            raise error

        with pytest.raises(error):
            save(path, grid, interrupted(), force=True)
        assert [file.read_bytes() for file in tmp_path.iterdir()] == ([old] if old else [])

    def test_interrupted_at_the_end(self, tmp_path, suffix, monkeypatch):
        def interrupt(*_):
            raise KeyboardInterrupt

        monkeypatch.setattr("os.replace", interrupt)
        with pytest.raises(KeyboardInterrupt):
            save(tmp_path / f"out{suffix}", SPACES["plain"], [batch(SPACES["plain"], [3])])
        assert list(tmp_path.iterdir()) == []

    def test_nothing_of_that_name_until_the_end(self, tmp_path, suffix):
        path = tmp_path / f"out{suffix}"
        with TractogramWriter(path, SPACES["plain"]) as writer:
            writer.write(batch(SPACES["plain"], [3]))
            assert not path.exists()
        assert path.exists()

    def test_existing_file_is_kept(self, tmp_path, suffix):
        path = tmp_path / f"out{suffix}"
        path.write_bytes(b"precious")
        with pytest.raises(OutputError, match=rf"out\{suffix}: exists already; .*force"):
            TractogramWriter(path, SPACES["plain"])
        assert path.read_bytes() == b"precious"

    def test_file_that_appears_meanwhile_is_kept(self, tmp_path, suffix):
        path = tmp_path / f"out{suffix}"
        with pytest.raises(OutputError, match="exists already"), TractogramWriter(path, SPACES["plain"]):
            path.write_bytes(b"precious")
        assert path.read_bytes() == b"precious"
        assert len(list(tmp_path.iterdir())) == 1

    def test_force_replaces(self, tmp_path, suffix):
        path = tmp_path / f"out{suffix}"
        path.write_bytes(b"old")
        save(path, SPACES["plain"], [batch(SPACES["plain"], [3, 2])], force=True)
        assert [len(line) for line in read(path)[0]] == [3, 2]

    def test_full_disk(self, tmp_path, suffix, monkeypatch):
        def full(*_):
            raise OSError(28, "No space left on device")

        path = tmp_path / f"out{suffix}"
        message = rf"out\{suffix}: .*No space left"
        with pytest.raises(OutputError, match=message), TractogramWriter(path, SPACES["plain"]) as writer:
            monkeypatch.setattr(writer._sink, "append", full)
            writer.write(batch(SPACES["plain"], [3]))
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["out", "out.vtk", "out.trk.gz"])
def test_unknown_suffix(tmp_path, name):
    with pytest.raises(OutputError, match=r"\.trx, \.trk, \.tck") as caught:
        TractogramWriter(tmp_path / name, SPACES["plain"])
    assert name in str(caught.value)


def test_suffix_of_capitals(tmp_path):
    save(tmp_path / "OUT.TRK", SPACES["plain"], [batch(SPACES["plain"], [3])])
    assert len(nib.streamlines.TrkFile.load(str(tmp_path / "OUT.TRK")).streamlines) == 1


def test_missing_folder(tmp_path):
    with pytest.raises(OutputError, match=r"out\.trx: no folder .*absent; make it"):
        TractogramWriter(tmp_path / "absent" / "out.trx", SPACES["plain"])


def test_folder_of_that_name(tmp_path):
    (tmp_path / "out.trx").mkdir()
    with pytest.raises(OutputError, match=r"out\.trx: is a folder"):
        TractogramWriter(tmp_path / "out.trx", SPACES["plain"], force=True)


def test_writing_outside_the_block(tmp_path):
    with pytest.raises(RuntimeError, match="with block"):
        TractogramWriter(tmp_path / "out.trx", SPACES["plain"]).write(batch(SPACES["plain"], [3]))


@pytest.mark.skipif(not CROP.is_dir(), reason="no real data at ../shared/data/sherbrooke_crop")
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_space_of_real_data(tmp_path, suffix):
    grid = load_dwi(CROP / "dwi.nii.gz", CROP / "dwi.bval", CROP / "dwi.bvec").space
    streamlines = batch(grid, [30, 20, 1])
    save(tmp_path / f"out{suffix}", grid, [streamlines])
    assert np.abs(np.concatenate(read(tmp_path / f"out{suffix}")[0]) - streamlines.points).max() < 1e-3
