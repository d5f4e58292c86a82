"""Reading of stored streamlines: TCK files in pieces, beside what nibabel reads of them."""

import nibabel as nib
import numpy as np
import pytest
from streamlines import joined

from tistreamlines.errors import InputError
from tistreamlines.io import tractograms
from tistreamlines.io.tractograms import step_of_tractogram, stored_batches

HEAD = "mrtrix tracks\ndatatype: Float32{}\nfile: . 64\nEND\n"


def written(path, lines, order="<"):
    """Write a TCK file row by row."""
    rows = [np.concatenate([line, np.full((1, 3), np.nan)]) for line in lines]
    data = np.concatenate([*rows, np.full((1, 3), np.inf)]).astype(f"{order}f4")
    path.write_bytes(HEAD.format("LE" if order == "<" else "BE").encode().ljust(64, b"\0") + data.tobytes())
    return path


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("at_once", [1, 7, 1 << 20])
def test_a_tck_in_pieces(tmp_path, monkeypatch, order, at_once):
    monkeypatch.setattr(tractograms, "POINTS_AT_ONCE", at_once)
    rng = np.random.default_rng(1)
    lines = [rng.normal(size=(count, 3)).astype(np.float32) for count in (3, 0, 1, 20, 0, 0, 6, 2)]
    path = written(tmp_path / "a.tck", lines, order)
    batch, theirs = joined(stored_batches(path)), nib.streamlines.load(path).streamlines
    assert batch.lengths.tolist() == [3, 0, 1, 20, 0, 0, 6, 2]
    assert [len(line) for line in theirs] == [3, 1, 20, 6, 2]  # nibabel leaves out those without points
    assert np.array_equal(batch.points, theirs.get_data())
    assert np.array_equal(batch.points, np.concatenate(lines))


def test_a_tck_without_streamlines(tmp_path):
    assert not list(stored_batches(written(tmp_path / "a.tck", [])))


@pytest.mark.parametrize(("cut", "words"), [(12, "no mark of its end"), (7, "cannot be read"), (0, None)])
def test_a_tck_that_is_cut(tmp_path, cut, words):
    path = written(tmp_path / "a.tck", [np.ones((5, 3))])
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) - cut])
    if words is None:
        assert len(joined(stored_batches(path))) == 1
        return
    with pytest.raises(InputError, match=words):
        list(stored_batches(path))


def test_a_point_that_is_partly_missing(tmp_path):
    points = np.ones((5, 3))
    points[2, 1] = np.nan
    with pytest.raises(InputError, match="not finite"):
        list(stored_batches(written(tmp_path / "a.tck", [points])))


@pytest.mark.parametrize(("fields", "step"), [
    ({"step_size": "0.5"}, 0.5), ({"step_size": "0.2", "output_step_size": "1"}, 1.0), ({}, None),
    ({"step_size": "NaN"}, None), ({"step_size": "0"}, None), ({"step_size": "auto"}, None),
    ({"step_size": "0.5", "output_step_size": "8000"}, 0.5), ({"output_step_size": "8000"}, None),
])
def test_the_step_size_of_a_header(tmp_path, fields, step):
    """One with which no program tracks is not taken."""
    tractogram = nib.streamlines.Tractogram([np.ones((2, 3), np.float32)], affine_to_rasmm=np.eye(4))
    nib.streamlines.TckFile(tractogram, fields).save(tmp_path / "a.tck")
    assert step_of_tractogram(tmp_path / "a.tck") == step
