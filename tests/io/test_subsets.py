"""Some streamlines of a tractogram, with all that belongs to them."""

import json
import zipfile

import nibabel as nib
import numpy as np
import pytest
from empties import write
from trx import trx_file_memmap

import tistreamlines as ts
from tistreamlines.errors import InputError
from tistreamlines.io.subsets import write_subset
from tistreamlines.io.tractograms import check_tractogram, stored_batches

AFFINE, SHAPE = np.diag([2.0, 2, 2, 1]), (20, 20, 20)
SPACE = ts.Space(AFFINE, SHAPE)


def lines_of(count=200, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.uniform(0, 30, (length, 3)).astype(np.float32) for length in rng.integers(1, 40, count)]


def read(path):
    return [line for batch in stored_batches(check_tractogram(path)) for line in batch]


@pytest.mark.parametrize("to", [".trx", ".trk", ".tck"])
@pytest.mark.parametrize("of", [".trx", ".trk", ".tck"])
def test_points_are_those_of_streamlines_that_are_kept(tmp_path, of, to):
    lines = [*lines_of(), np.zeros((0, 3), np.float32)]
    source = write(tmp_path / f"a{of}", lines, AFFINE, SHAPE)
    kept = np.random.default_rng(1).random(len(lines)) < 0.4
    kept[-1] = True
    write_subset(source, tmp_path / f"b{to}", kept, SPACE, {"SIFT_mu": 0.5}, force=False)
    expected = [line for line, stays in zip(read(source), kept, strict=True) if stays]
    found = read(tmp_path / f"b{to}")
    assert len(found) == len(expected)
    for line, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(line, other, atol=1e-5 if to == ".trk" != of else 0)
    none = tmp_path / f"c{to}"
    write_subset(source, none, np.zeros(len(lines), bool), SPACE, {}, force=False)
    assert read(none) == []


def test_all_arrays_of_a_trx_follow(tmp_path):
    """Also those of other programs, of any type, in a folder or an archive."""
    lines, rng = lines_of(), np.random.default_rng(2)
    count, points = len(lines), sum(map(len, lines))
    arrays = {
        "dps/weights.float32": rng.random((count, 1)).astype("<f4"),
        "dps/rgb.3.uint8": rng.integers(0, 255, (count, 3), np.uint8),
        "dpv/fa.float16": rng.random((points, 1)).astype("<f2"),
    }
    members = {"left": rng.permutation(count)[:50].astype("<u4"), "none": np.array([0], "<u4")}
    source = write(tmp_path / "a.trx", lines, AFFINE, SHAPE)
    with zipfile.ZipFile(source, "a") as archive:
        for name, values in arrays.items():
            archive.writestr(name, values.tobytes())
        for name, values in members.items():
            archive.writestr(f"groups/{name}.uint32", values.tobytes())
            archive.writestr(f"dpg/{name}/mean.float32", np.float32([7]).tobytes())
    kept = rng.random(count) < 0.5
    kept[0] = False
    with zipfile.ZipFile(source) as archive:
        archive.extractall(tmp_path / "folder.trx")
    for number, path in enumerate((source, tmp_path / "folder.trx")):
        target = tmp_path / f"b{number}.trx"
        write_subset(path, target, kept, SPACE, {}, force=False)
        rows = {"dps": kept, "dpv": np.repeat(kept, [len(line) for line in lines])}
        with zipfile.ZipFile(target) as archive:
            assert archive.testzip() is None
            header = json.loads(archive.read("header.json"))
            assert header["NB_STREAMLINES"] == kept.sum() and header["NB_VERTICES"] == rows["dpv"].sum()
            for name, values in arrays.items():
                assert archive.read(name) == values[rows[name[:3]]].tobytes()
            left = np.frombuffer(archive.read("groups/left.uint32"), "<u4")
            np.testing.assert_array_equal(np.flatnonzero(kept)[left], members["left"][kept[members["left"]]])
            assert not any("none" in name for name in archive.namelist())
            assert archive.read("dpg/left/mean.float32") == np.float32([7]).tobytes()
        file = trx_file_memmap.load(str(target))
        np.testing.assert_array_equal(file.data_per_streamline["weights"], arrays["dps/weights.float32"][kept])
        assert len(file.streamlines) == kept.sum()
        file.close()


def test_values_of_a_trk_follow(tmp_path):
    lines, rng = lines_of(50), np.random.default_rng(3)
    data = {"weight": rng.random((50, 1)).astype(np.float32)}
    points = {"fa": [rng.random((len(line), 1)).astype(np.float32) for line in lines]}
    tractogram = nib.streamlines.Tractogram(lines, data, points, affine_to_rasmm=np.eye(4))
    header = {"voxel_to_rasmm": AFFINE, "dimensions": SHAPE, "voxel_sizes": (2, 2, 2), "voxel_order": "RAS"}
    nib.streamlines.save(tractogram, tmp_path / "a.trk", header=header)
    kept = rng.random(50) < 0.5
    write_subset(tmp_path / "a.trk", tmp_path / "b.trk", kept, SPACE, {}, force=False)
    found = nib.streamlines.load(tmp_path / "b.trk").tractogram
    assert len(found.streamlines) == kept.sum()
    np.testing.assert_array_equal(found.data_per_streamline["weight"], data["weight"][kept])
    for number, values in zip(np.flatnonzero(kept), found.data_per_point["fa"], strict=True):
        np.testing.assert_array_equal(values, points["fa"][number])


def test_a_damaged_file_leaves_nothing(tmp_path):
    source = write(tmp_path / "a.trk", lines_of(20), AFFINE, SHAPE)
    source.write_bytes(source.read_bytes()[:-40])
    with pytest.raises(InputError, match="ends behind streamline"):
        write_subset(source, tmp_path / "b.trk", np.ones(20, bool), SPACE, {}, force=False)
    assert [path.name for path in tmp_path.iterdir()] == ["a.trk"]
