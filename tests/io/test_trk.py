"""TRK files of any program: what nibabel reads of them, counts that are wrong, and headers that lack something."""

import nibabel as nib
import numpy as np
import pytest
from nibabel.streamlines.trk import header_2_dtype
from streamlines import joined

import tistreamlines as ts
from tistreamlines.errors import InputError
from tistreamlines.io import trk
from tistreamlines.io.tractograms import doubts_of_tractogram, grid_of_tractogram, stored_batches

AFFINE = np.array([[-2.0, 0, 0, 90], [0, 2, 0, -126], [0, 0, 2, -72], [0, 0, 0, 1]])
COUNT = 30


def written(path, *, order="LAS", data=False):
    """Write a TRK file with nibabel, and 30 streamlines."""
    rng = np.random.default_rng(0)
    lines = [rng.normal(size=(n, 3)).cumsum(axis=0).astype("f4") for n in rng.integers(1, 40, COUNT)]
    more = {"data_per_point": {"fa": [np.ones((len(line), 2)) for line in lines]},
            "data_per_streamline": {"w": np.ones((COUNT, 3))}} if data else {}
    header = {"voxel_to_rasmm": AFFINE, "dimensions": (91, 109, 91), "voxel_sizes": (2, 2, 2), "voxel_order": order}
    tractogram = nib.streamlines.Tractogram(lines, affine_to_rasmm=np.eye(4), **more)
    nib.streamlines.save(tractogram, str(path), header=header)
    return path


def changed(path, cut=None, more=b"", **fields):
    """Change fields of the header, and the end of the file."""
    content = bytearray(path.read_bytes())[:cut] + more
    header = np.frombuffer(content, header_2_dtype, 1)
    for name, value in fields.items():
        header[name] = value
    path.write_bytes(content)
    return path


def read(path):
    return joined(stored_batches(path))


def start_of(path, number):
    """Byte at which a streamline begins."""
    content, place = path.read_bytes(), 1000
    for _ in range(number):
        place += 4 + 12 * int(np.frombuffer(content, "<i4", 1, place)[0])
    return place


@pytest.mark.parametrize("order", ["LAS", "RAS", "LPS", "SPR"])
@pytest.mark.parametrize("data", [False, True])
@pytest.mark.parametrize("at_once", [1, 100, 1 << 20])
def test_points_are_those_of_nibabel(tmp_path, order, data, at_once, monkeypatch):
    monkeypatch.setattr(trk, "WORDS_AT_ONCE", at_once)
    path = written(tmp_path / "a.trk", order=order, data=data)
    theirs = nib.streamlines.load(path).streamlines
    batch = read(path)
    assert batch.lengths.tolist() == [len(line) for line in theirs]
    assert np.array_equal(batch.points, theirs.get_data().astype("f4"))
    assert not doubts_of_tractogram(path)


def test_the_other_order_of_bytes(tmp_path):
    path = written(tmp_path / "a.trk")
    before = read(path).points
    content = bytearray(path.read_bytes())
    header = np.frombuffer(content, header_2_dtype, 1).astype(header_2_dtype.newbyteorder(">"))
    path.write_bytes(header.tobytes() + np.frombuffer(content, "<u4", offset=1000).astype(">u4").tobytes())
    assert np.array_equal(read(path).points, before)
    assert grid_of_tractogram(path).shape == (91, 109, 91)


def test_a_count_that_is_unknown(tmp_path):
    for count in (0, -1):
        assert len(read(changed(written(tmp_path / "a.trk"), nb_streamlines=count))) == COUNT


@pytest.mark.parametrize(
    ("count", "cut", "words"),
    [
        (COUNT, 29, "ends behind streamline 29 of 30"), (COUNT, 7, "ends behind streamline 7 of 30"),
        (COUNT, 0, "ends behind streamline 0 of 30"), (31, None, "streamline 30 of 31"),
        (10**9, None, "of 1,000,000,000"),
        (7, None, "tells of 7 streamlines .n_count., but more follows"), (29, None, "tells of 29 streamlines"),
        (7, 7, None), (0, 7, None),
    ],
)
def test_counts_that_are_wrong(tmp_path, count, cut, words):
    """A file cut between two records looks whole but for its count."""
    path = written(tmp_path / "a.trk")
    path = changed(path, None if cut is None else start_of(path, cut), nb_streamlines=count)
    if words is None:
        assert len(read(path)) == cut
        return
    with pytest.raises(InputError, match=words):
        read(path)


@pytest.mark.parametrize("count", [0, COUNT])
@pytest.mark.parametrize("cut", [-1, -4, -13])
def test_a_record_that_is_cut(tmp_path, count, cut):
    with pytest.raises(InputError, match="ends behind streamline 29"):
        read(changed(written(tmp_path / "a.trk"), cut, nb_streamlines=count))


@pytest.mark.parametrize("more", [b"\0", b"\0\0\0\0", b"ab", np.array([1 << 30], "<i4").tobytes(), bytes(5000)])
def test_bytes_behind_the_records(tmp_path, more):
    with pytest.raises(InputError, match="more follows"):
        read(changed(written(tmp_path / "a.trk"), more=more))


@pytest.mark.parametrize("points", [-1, 1 << 30, 1 << 20])
def test_a_streamline_of_too_many_points(tmp_path, points):
    path = written(tmp_path / "a.trk")
    content = bytearray(path.read_bytes())
    content[1000:1004] = np.array([points], "<i4").tobytes()
    path.write_bytes(content)
    with pytest.raises(InputError, match="ends behind streamline 0"):
        read(path)


@pytest.mark.parametrize("fields", [{"version": 1}, {"voxel_to_rasmm": np.zeros((4, 4))}])
def test_no_matrix(tmp_path, fields):
    """As from TrackVis before version 2; the points are those that nibabel takes, which warns too."""
    path = changed(written(tmp_path / "a.trk", order="RAS"), **fields)
    with pytest.warns(Warning, match="vox_to_ras"):
        theirs = nib.streamlines.load(path).streamlines
    assert np.array_equal(read(path).points, theirs.get_data().astype("f4"))
    (doubt,) = doubts_of_tractogram(path)
    assert "has no vox_to_ras" in doubt
    result = ts.map_tractogram(path, ends=tmp_path / "e.nii")
    assert result["warnings"] == [doubt]


def test_no_voxel_order(tmp_path):
    path = changed(written(tmp_path / "a.trk", order="LPS"), voxel_order=b"")
    (doubt,) = doubts_of_tractogram(path)
    assert "has no voxel_order: LPS is taken" in doubt


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"voxel_sizes": (0, 2, 2)}, "voxel_size"), ({"voxel_sizes": (2, np.nan, 2)}, "voxel_size"),
        ({"voxel_to_rasmm": np.diag([2, 0, 2, 1])}, "vox_to_ras"), ({"voxel_order": b"XYZ"}, "voxel_order"),
        ({"voxel_to_rasmm": np.full((4, 4), np.nan)}, "vox_to_ras"), ({"voxel_order": b"LLL"}, "voxel_order"),
        ({"nb_scalars_per_point": -1}, "n_scalars"), ({"nb_properties_per_streamline": -3}, "n_properties"),
        ({"version": 4}, "version"), ({"hdr_size": 999}, "hdr_size"), ({"magic_number": b"TRICK"}, "TrackVis"),
        ({"dimensions": (91, -5, 91), "voxel_order": b"RPS"}, "dim"),
    ],
)
def test_headers_that_cannot_be(tmp_path, fields, words):
    path = changed(written(tmp_path / "a.trk"), **fields)
    for reader in (read, grid_of_tractogram):
        with pytest.raises(InputError, match=words):
            reader(path)


@pytest.mark.parametrize("shape", [(91, -5, 91), (0, 0, 0)])
def test_a_grid_without_sizes(tmp_path, shape):
    """The streamlines do not need it; maps do."""
    path = changed(written(tmp_path / "a.trk"), dimensions=shape)
    assert len(read(path)) == COUNT
    with pytest.raises(InputError, match="dim"):
        ts.map_tractogram(path, density=tmp_path / "d.nii")
    assert [file.name for file in tmp_path.iterdir()] == ["a.trk"]
