"""Reports on tractograms: headers, counts, empty and odd streamlines, and files of TRX."""

from __future__ import annotations

import io
import json
import shutil
import struct
import subprocess
import zipfile

import nibabel as nib
import numpy as np
import pytest
from trx.trx_file_memmap import TrxFile, load, save

from .scene import SHAPE, Scene, head, lines_along_y, plain


def _labels(scene: Scene) -> object:
    labels = np.zeros(SHAPE, np.int16)
    labels[:, :4], labels[:, 13:] = 1, 2
    return scene.image("labels.nii", labels)


def _pairs(scene: Scene, lines: object) -> list[list[int]]:
    """Nodes of the ends of each streamline of a tractogram."""
    scene.map(lines, "--connectome", _labels(scene), scene / "counts.csv", "--connectome-pairs")
    return np.loadtxt(scene / "counts_pairs.tsv", comments="n", ndmin=2).astype(int).tolist()


def empty_streamlines(scene: Scene) -> None:
    """Streamlines without points, as of tcktransform, keep their place and have no node."""
    lines, mark = lines_along_y(3), np.full((1, 3), np.nan)  # ends a streamline; NiBabel writes no empty ones
    rows = [mark, lines[0], mark, mark, mark, lines[1], mark, lines[2], mark, mark, np.full((1, 3), np.inf)]
    path = scene / "lines.tck"
    header = b"mrtrix tracks\ncount: 7\ndatatype: Float32LE\nfile: . 64\nEND\n"
    path.write_bytes(header.ljust(64, b"\0") + np.concatenate(rows).astype("<f4").tobytes())
    joined, none = [1, 2], [0, 0]
    assert _pairs(scene, path) == [none, joined, none, none, joined, joined, none]


def streamlines_of_one_point(scene: Scene) -> None:
    lines = lines_along_y(3)
    path = scene.lines("lines.tck", [lines[0], lines[1][:1], lines[2]])
    rows = _pairs(scene, path)
    assert len(rows) == 3
    assert rows[0] == rows[2] == [1, 2]


def a_single_point_is_one_end(scene: Scene) -> None:
    """A streamline of one point: its ends are in one voxel, which the map counts as it counts those of others."""
    grid = scene.image("grid.nii", np.zeros(SHAPE, np.uint8))
    path = scene.lines("lines.tck", [lines_along_y(1)[0][:1]])
    scene.map(path, "--ends", scene / "ends.nii", "--density", scene / "density.nii", "--density-grid", grid)
    ends, density = (nib.load(scene / name).get_fdata() for name in ("ends.nii", "density.nii"))
    assert np.count_nonzero(ends) == np.count_nonzero(density) == 1
    assert density.sum() == 1
    assert ends.sum() in (1, 2)


def another_count_in_the_header(scene: Scene) -> None:
    """The header of a .tck says 2 where the file has 6 streamlines: all are read."""
    path = scene.lines("lines.tck", lines_along_y())
    content = path.read_bytes()
    assert b"count: 0000000006" in content
    path.write_bytes(content.replace(b"count: 0000000006", b"count: 0000000002"))
    assert len(_pairs(scene, path)) == 6


def headers_of_tckresample(scene: Scene) -> None:
    """MRtrix3's programs and nibabel read our .tck, and we read theirs."""
    if shutil.which("tckresample") is None:
        pytest.skip("MRtrix3 is not installed")
    exact = scene.tracked(scene.peaks())
    command = ["tckresample", "-quiet", "-downsample", "2", str(scene / "out.tck"), str(scene / "less.tck")]
    subprocess.run(command, check=True)
    grid = scene.image("grid.nii", np.zeros(SHAPE, np.uint8))
    scene.map(scene / "less.tck", "--density", scene / "density.nii", "--density-grid", grid)
    theirs = nib.streamlines.load(scene / "less.tck").streamlines
    assert len(theirs) == len(exact)
    assert nib.load(scene / "density.nii").get_fdata().sum() > len(exact)


def header_of_a_trk(scene: Scene) -> None:
    """A .trk holds the affine and the shape of the image, the number of streamlines, and points in the right place."""
    exact = scene.tracked(scene.series())
    image = nib.load(scene / "dwi.nii")
    lines = scene.tracked(scene.series(), output="out.trk")
    header = nib.streamlines.load(scene / "out.trk", lazy_load=True).header
    np.testing.assert_allclose(header["voxel_to_rasmm"], image.affine, atol=1e-4)
    assert tuple(header["dimensions"]) == image.shape[:3]
    assert np.frombuffer((scene / "out.trk").read_bytes()[988:992], "<i4")[0] == len(exact) > 0
    for line, other in zip(lines, exact, strict=True):
        np.testing.assert_allclose(line, other, atol=1e-2)


def a_trk_that_lost_its_affine(scene: Scene) -> None:
    """Old TrackVis files have no vox_to_ras: something is said of where the streamlines then lie."""
    path = scene.lines("lines.trk", lines_along_y())
    content = bytearray(path.read_bytes())
    content[440:504] = bytes(64)
    path.write_bytes(bytes(content))
    outcome = scene.run("map", path, "--connectome", _labels(scene), scene / "counts.csv")
    assert "lines.trk" in outcome.err
    assert outcome.err.startswith(("Warning: ", "Error: "))


def orders_of_voxels(scene: Scene) -> None:
    """The voxel order of a .trk does not move its streamlines."""
    rows = []
    for signs in ((1, 1, 1), (-1, 1, 1), (-1, -1, 1)):
        affine = np.diag([2.0 * sign for sign in signs] + [1])
        affine[:3, 3] = [2.0 * (SHAPE[axis] - 1) if signs[axis] < 0 else 0 for axis in range(3)]
        path = scene.lines("lines.trk", lines_along_y(), affine)
        rows.append(_pairs(scene, path))
    assert rows[0] == rows[1] == rows[2] == [[1, 2]] * 6


def a_trk_that_was_cut(scene: Scene) -> None:
    """A file that ends between two records has fewer streamlines than its header says."""
    path = scene.lines("lines.trk", lines_along_y(6, 9))
    record = 4 + 9 * 12
    path.write_bytes(path.read_bytes()[: 1000 + 4 * record])
    scene.refused("map", path, "--connectome", _labels(scene), scene / "counts.csv", words=["lines.trk"])


def an_empty_tractogram(scene: Scene) -> None:
    """A tractogram without streamlines gives a matrix of zeros, in each format."""
    _labels(scene)
    for suffix in (".tck", ".trk"):
        path = scene.lines(f"none{suffix}", [])
        scene.map(path, "--connectome", scene / "labels.nii", scene / "counts.csv")
        assert not np.loadtxt(scene / "counts.csv", delimiter=",").any()


def an_empty_trx(scene: Scene) -> None:
    """A run without streamlines writes a .trx that trx-python reads, and that can be mapped."""
    arguments = scene.peaks()
    scene.track(arguments, "--min-length", 240, "--max-length", 241, output="none.trx")
    assert len(load(str(scene / "none.trx")).streamlines) == 0
    scene.map(scene / "none.trx", "--connectome", _labels(scene), scene / "counts.csv")
    assert not np.loadtxt(scene / "counts.csv", delimiter=",").any()


def _members(scene: Scene, **changes: bytes) -> object:
    """Write a .trx of six streamlines member by member, as other programs do, with changes of members."""
    lines = np.concatenate(lines_along_y(6, 9)).astype("<f4")
    header = {
        "DIMENSIONS": list(SHAPE), "VOXEL_TO_RASMM": np.diag([2.0, 2, 2, 1]).tolist(), "NB_STREAMLINES": 6,
        "NB_VERTICES": 54,
    }
    members = {
        "header.json": json.dumps(header).encode(), "positions.3.float32": lines.tobytes(),
        "offsets.uint64": np.arange(0, 55, 9).astype("<u8").tobytes(),
    }
    with zipfile.ZipFile(scene / "lines.trx", "w", zipfile.ZIP_STORED) as archive:
        for name, content in (members | changes).items():
            if content:
                archive.writestr(name, content)
    return scene / "lines.trx"


def members_of_other_programs(scene: Scene) -> None:
    """Members that lie at odd bytes of the file, beside others of their own."""
    assert _pairs(scene, _members(scene, **{"dps/a.uint8": bytes(6), "dpv/bc.uint8": bytes(54)})) == [[1, 2]] * 6


def offsets_of_32_bits(scene: Scene) -> None:
    """Offsets of 32 and of 64 bits, signed and unsigned, are the same streamlines."""
    for kind in ("uint32", "int32", "int64"):
        offsets = np.arange(0, 55, 9).astype(np.dtype(kind).newbyteorder("<")).tobytes()
        path = _members(scene, **{"offsets.uint64": b"", f"offsets.{kind}": offsets})
        assert _pairs(scene, path) == [[1, 2]] * 6


def an_offset_that_ends_early(scene: Scene) -> None:
    """Offsets whose last one is not the number of points name no streamlines."""
    offsets = np.array([0, 9, 18, 27, 36, 45, 50], "<u8").tobytes()
    path = _members(scene, **{"offsets.uint64": offsets})
    scene.refused("map", path, "--connectome", _labels(scene), scene / "counts.csv", words=["lines.trx"])


def little_endian(scene: Scene) -> None:
    """Positions of our .trx are little-endian, as the format has them."""
    exact = scene.tracked(scene.peaks())
    scene.track(scene.peaks(), output="out.trx")
    with zipfile.ZipFile(scene / "out.trx") as archive:
        values = np.frombuffer(archive.read("positions.3.float32"), "<f4").reshape(-1, 3)
    np.testing.assert_allclose(values, np.concatenate(list(exact)), atol=1e-4)


def a_selection_of_trx_python(scene: Scene) -> None:
    """A .trx that trx-python has written of some streamlines of ours is read."""
    scene.track(scene.peaks(), output="out.trx")
    whole = load(str(scene / "out.trx"))
    filled = TrxFile.from_tractogram(
        nib.streamlines.Tractogram([np.asarray(line) for line in whole.streamlines[:5]], affine_to_rasmm=np.eye(4)),
        reference=str(scene / "stop.nii.gz"),
    )
    save(filled, str(scene / "some.trx"))
    scene.map(scene / "some.trx", "--connectome", _labels(scene), scene / "counts.csv", "--connectome-pairs")
    assert len((scene / "counts_pairs.tsv").read_text().splitlines()) in (5, 6)


def streamlines_out_of_the_box(scene: Scene) -> None:
    """Streamlines that leave the image, as after a transform, are read in each format and keep their number."""
    lines = [line + np.array([0, 300.0 * (k == 2), 0]) for k, line in enumerate(lines_along_y())]
    for suffix in (".tck", ".trk"):
        rows = _pairs(scene, scene.lines(f"lines{suffix}", lines))
        assert rows == [[0, 0] if k == 2 else [1, 2] for k in range(6)]


def points_that_repeat(scene: Scene) -> None:
    """Compressed streamlines repeat points; lengths and matrices are those without the repetitions."""
    lines = lines_along_y()
    exact = scene.lines("exact.tck", lines)
    twice = scene.lines("twice.tck", [np.repeat(line, 2, axis=0) for line in lines])
    for path, name in ((exact, "exact.csv"), (twice, "twice.csv")):
        scene.map(path, "--connectome", _labels(scene), scene / name, "--connectome-measure", "mean-length")
    assert (scene / "exact.csv").read_text() == (scene / "twice.csv").read_text()


def weights_that_differ(scene: Scene) -> None:
    """SIFT2 gives streamlines of a crowded bundle less weight than those of a sparse one."""
    from tistreamlines.space.harmonics import sampling_matrix

    fods = np.broadcast_to((2 * sampling_matrix([[0.0, 1, 0]], 4, "tournier07")[0]).astype(np.float32), (*SHAPE, 15))
    path = scene.image("fods.nii", fods)
    rng = np.random.default_rng(0)
    y = np.linspace(1.0, 33.0, 33)
    x = np.concatenate([rng.uniform(3, 9, 60), rng.uniform(19, 27, 12)])
    lines = scene.lines("lines.tck", [np.column_stack([np.full(33, at), y, np.full(33, 12.0)]) for at in x])
    scene.map(lines, "--sift2", path, scene / "weights.txt", "--sift2-basis", "tournier07")
    weights = np.loadtxt(scene / "weights.txt")
    assert weights[:60].mean() < weights[60:].mean()


def seeds_in_another_space(scene: Scene) -> None:
    """Seeds of a file are RASmm whatever the affine, and a streamline passes its seed."""
    shifted = head().affine.copy()
    shifted[:3, 3] += [30, -20, 10]
    arguments = scene.series(affine=shifted)
    seeds = nib.affines.apply_affine(shifted, np.argwhere(head().mask)[::40])
    np.save(scene / "seeds.npy", seeds)
    lines = scene.tracked([word for word in arguments if word not in ("--nseeds", 60)], "--seeds", scene / "seeds.npy")
    assert len(lines)
    for line in lines:
        assert np.linalg.norm(line[:, None] - seeds, axis=-1).min() < 0.1


def a_zip_of_a_folder(scene: Scene) -> None:
    """A .trx may be a folder; programs that unpack one leave it so."""
    with zipfile.ZipFile(io.BytesIO(_members(scene).read_bytes())) as archive:
        archive.extractall(scene / "folder.trx")
    assert _pairs(scene, scene / "folder.trx") == [[1, 2]] * 6


def a_version_of_trackvis(scene: Scene) -> None:
    """Version 1 of TrackVis' format has no affine, whatever lies in its bytes."""
    path = scene.lines("lines.trk", lines_along_y())
    content = bytearray(path.read_bytes())
    content[992:996] = struct.pack("<i", 1)
    path.write_bytes(bytes(content))
    outcome = scene.run("map", path, "--connectome", _labels(scene), scene / "counts.csv")
    assert outcome.err.startswith(("Warning: ", "Error: ")), outcome


def same_lines_from_each_format(scene: Scene) -> None:
    """What is read of .tck, .trk and .trx is the same to a hundredth of a millimetre."""
    exact = plain(scene.tracked(scene.peaks()))
    for suffix in (".trk", ".trx"):
        scene.track(scene.peaks(), output=f"out{suffix}")
    other = nib.streamlines.load(scene / "out.trk").streamlines
    for line, same in zip(other, exact, strict=True):
        np.testing.assert_allclose(line, same, atol=1e-2)
    for line, same in zip(load(str(scene / "out.trx")).streamlines, exact, strict=True):
        np.testing.assert_allclose(line, same, atol=2e-3)
