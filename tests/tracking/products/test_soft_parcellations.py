"""Connectomes of parcellations of probabilities, beside those of labels and beside the formula."""

import gzip
import json

import nibabel as nib
import numpy as np
import pytest

import tistreamlines as ts
from tistreamlines.errors import InputError, ParameterError
from tistreamlines.io import stored_image
from tistreamlines.options.parameters import Parameters
from tistreamlines.tracking.products.connectome import shares
from tistreamlines.tracking.products.connectome.connectome import Connectomes
from tistreamlines.tracking.products.connectome.matrix import MEASURES

SHAPE, NODES, LINES = (12, 11, 10), 6, 400
AFFINE = np.array([[1.7, 0.3, 0, -9], [-0.3, 1.6, 0.2, 4], [0, -0.2, 2.1, -20], [0, 0, 0, 1.0]])
RULES = ("radial", "end-voxel", "reverse")


def save(path, values):
    nib.save(nib.Nifti1Image(values, AFFINE), path)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Labels, the same as probabilities of 0 and 1, soft probabilities, streamlines, a map and weights."""
    place, rng = tmp_path_factory.mktemp("soft"), np.random.default_rng(4)
    labels = rng.integers(1, NODES + 1, SHAPE)
    labels[rng.random(SHAPE) < 0.5] = 0
    save(place / "labels.nii.gz", labels.astype(np.int16))
    save(place / "hard.nii.gz", (labels[..., None] == np.arange(1, NODES + 1)).astype(np.uint8))
    soft = rng.random((*SHAPE, NODES)) * (rng.random((*SHAPE, NODES)) < 0.3) * 0.8
    save(place / "soft.nii.gz", soft.astype(np.float32))
    save(place / "FA.nii.gz", rng.normal(0.2, 0.4, SHAPE).astype(np.float32))
    np.savetxt(place / "weights.txt", rng.random(LINES) * 3)
    starts = nib.affines.apply_affine(AFFINE, rng.random((LINES, 1, 3)) * SHAPE)
    points = (starts + np.cumsum(rng.normal(size=(LINES, 20, 3)), axis=1)).astype(np.float32)
    lines = [line[:n] for line, n in zip(points, rng.integers(1, 21, LINES), strict=True)]
    nib.streamlines.save(nib.streamlines.Tractogram(lines, affine_to_rasmm=np.eye(4)), str(place / "lines.tck"))
    return place


def mapped(folder, image, name="m", **options):
    options = {"connectome_assignment": "end-voxel", "connectome_measure": list(MEASURES), "force": True} | options
    return ts.map_tractogram(folder / "lines.tck", connectome=(image, folder / f"{name}.csv"), **options)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
def test_probabilities_of_0_and_1_make_the_bytes_that_labels_make(folder, rule, weighted, monkeypatch):
    monkeypatch.setattr(shares, "AT_ONCE", 50)
    (folder / "nodes.txt").write_text("4 four\n2 two\n9 none\n1 one\n")
    for table in (None, folder / "nodes.txt"):
        options = {
            "connectome_assignment": rule, "connectome_sample": folder / "FA.nii.gz", "connectome_nodes": table,
            "weights": folder / "weights.txt" if weighted else None,
        }
        of_labels, of_hard = (
            mapped(folder, folder / f"{name}.nii.gz", f"m_{name}", **options) for name in ("labels", "hard")
        )
        names = [path.name for path in folder.glob("m_labels*.?sv")]
        assert len(names) == 13
        for name in names:
            other = folder / name.replace("labels", "hard", 1)
            assert (folder / name).read_bytes() == other.read_bytes(), name
        ours, theirs = (result["products"]["connectome"][0] for result in (of_hard, of_labels))
        assert 0 < ours.unassigned == theirs.unassigned < LINES == ours.streamlines
        said = [text.replace("hard", "labels") for text in of_hard["warnings"]]
        words = "belong to no nodes", "have an end without a node"
        assert [text.replace(*words) for text in said] == of_labels["warnings"]


def expected(probabilities, lines, weights):
    """The matrix of each measure by the formula: w p_i(a) p_j(b), of the voxels that hold both ends."""
    sums = probabilities.sum(axis=-1, keepdims=True)
    probabilities = probabilities / np.maximum(sums, 1)
    total = {name: np.zeros((NODES, NODES)) for name in ("count", "length", "inverse-length")}
    for line, weight in zip(lines, weights, strict=True):
        places = np.floor(nib.affines.apply_affine(np.linalg.inv(AFFINE), line[[0, -1]]) + 0.5).astype(int)
        if ((places < 0) | (places >= SHAPE)).any():
            continue
        a, b = (probabilities[tuple(place)] for place in places)
        both = np.outer(a, b)
        both = weight * (both + both.T - np.diag(np.diag(both)))
        length = np.linalg.norm(np.diff(line.astype(float), axis=0), axis=1).sum()
        for name, amount in (("count", 1), ("length", length), ("inverse-length", 1 / length if length else 0)):
            total[name] += both * amount
    volumes = probabilities.sum(axis=(0, 1, 2))
    total["mean-length"] = total["length"] / total["count"]
    total["inverse-volume"] = total["count"] / (np.add.outer(volumes, volumes) / 2)
    return total, volumes


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
def test_the_formula(folder, weighted):
    lines = nib.streamlines.load(folder / "lines.tck").streamlines
    weights = np.loadtxt(folder / "weights.txt") if weighted else np.ones(LINES)
    result = mapped(folder, folder / "soft.nii.gz", weights=folder / "weights.txt" if weighted else None)
    (ours,) = result["products"]["connectome"]
    theirs, volumes = expected(nib.load(folder / "soft.nii.gz").get_fdata(), lines, weights)
    for name, values in theirs.items():
        np.testing.assert_allclose(ours.values[name], values, rtol=1e-5, err_msg=name)
        assert (ours.values[name] == ours.values[name].T).all()
    assert any("sum to more than 1" in text for text in result["warnings"])
    table = np.loadtxt(folder / "m_nodes.tsv", skiprows=1, usecols=2)
    np.testing.assert_allclose(table, volumes, rtol=1e-6)
    if not weighted:
        assert np.triu(ours.values["count"]).sum() + ours.unassigned == pytest.approx(LINES, abs=1e-3)
        stored = json.loads((folder / "m.json").read_text())["connectome"]["matrices"][0]["unassigned"]
        assert stored == ours.unassigned == round(ours.unassigned, 3)


def test_sums_below_1_leave_the_rest_without_a_node_and_those_above_are_divided(folder):
    low, high = (np.full((*SHAPE, 2), value, np.float32) for value in (0.25, 0.75))
    inside = mapped(folder, save(folder / "high.nii", high))["products"]["connectome"][0]
    below = mapped(folder, save(folder / "low.nii", low))["products"]["connectome"][0]
    assert inside.values["count"][0, 1] == 2 * inside.values["count"][0, 0] > 0
    np.testing.assert_array_equal(below.values["count"], inside.values["count"] / 4)
    assert LINES - below.unassigned == (LINES - inside.unassigned) / 4
    assert inside.unassigned == int(inside.unassigned)  # those that leave the image


@pytest.mark.parametrize("name", ["gzip file, in turn", "several members", "mif", "memory"])
def test_files_that_are_read_in_other_ways(folder, name, monkeypatch):
    want = mapped(folder, folder / "soft.nii.gz")["products"]["connectome"][0].values
    image = folder / "soft.nii.gz"
    monkeypatch.setattr(stored_image, "GROUP", 1000)
    if name == "several members":
        content = gzip.decompress(image.read_bytes())
        image = folder / "members.nii.gz"
        image.write_bytes(gzip.compress(content[:9000]) + gzip.compress(content[9000:]))
    elif name == "mif":
        values = nib.load(image).get_fdata().astype("<f4")
        rows = "".join(f"transform: {', '.join(map(str, row))}\n" for row in (AFFINE / [*[1] * 3, 1])[:3])
        header = (f"mrtrix image\ndim: {','.join(map(str, values.shape))}\nvox: 1,1,1,nan\nlayout: +0,+1,+2,+3\n"
                  f"datatype: Float32LE\n{rows}file: . 1024\nEND\n").encode()
        image = folder / "soft.mif"
        image.write_bytes(header.ljust(1024, b"\0") + values.tobytes(order="F"))
    elif name == "memory":
        image = nib.Nifti1Image(nib.load(image).get_fdata(), AFFINE)
    ours = mapped(folder, image)["products"]["connectome"][0].values
    for measure, values in want.items():
        np.testing.assert_array_equal(ours[measure], values)


def changed(value, place=(1, 2, 3, 1)):
    values = np.full((*SHAPE, 2), 0.5, np.float32)
    values[place] = value
    return values


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (changed(np.nan), r"no fractions, such as nan in voxel \(1, 2, 3\) of volume 2; give numbers from 0 to 1"),
        (changed(-0.1), r"such as -0\.1 in voxel \(1, 2, 3\) of volume 2"),
        (changed(np.inf), "such as inf in voxel"),
        (changed(57), r"such as 57 in voxel \(1, 2, 3\) of volume 2"),
        (changed(0, ...), "has no probability above 0"),
        (changed(0.5)[..., :1], r"value 0\.5 in voxel \(0, 0, 0\) and others, .* is no label"),
        (changed(0.5)[..., None], "5 axes; give a parcellation of three, with labels, or of four"),
    ],
)
def test_bad_probabilities_are_one_line(tmp_path, values, words):
    save(tmp_path / "bad.nii", values)
    with pytest.raises(InputError, match=words):
        Connectomes(Parameters(connectome=(tmp_path / "bad.nii", tmp_path / "out.csv")), None, 1.0)


def test_a_damaged_file_and_a_table_of_other_nodes(folder):
    content = (folder / "soft.nii.gz").read_bytes()
    (folder / "short.nii.gz").write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match=r"short\.nii\.gz: cannot be read"):
        mapped(folder, folder / "short.nii.gz")
    (folder / "other.txt").write_text("77 far\n")
    with pytest.raises(InputError, match=r"has no label of .*other\.txt"):
        mapped(folder, folder / "soft.nii.gz", connectome_nodes=folder / "other.txt")


def test_nodes_without_a_probability(folder):
    values = changed(0, np.s_[..., 1])
    result = mapped(folder, save(folder / "empty.nii", values))
    assert any("1 of 2 nodes have no voxel (2), and their rows are 0" in text for text in result["warnings"])
    (folder / "of_one.txt").write_text("2 empty\n")
    with pytest.raises(InputError, match="has no label of"):
        mapped(folder, folder / "empty.nii", connectome_nodes=folder / "of_one.txt")


def test_probabilities_below_what_is_counted(folder):
    result = mapped(folder, save(folder / "small.nii", changed(1e-30, ...)))
    (ours,) = result["products"]["connectome"]
    assert (ours.values["count"].sum(), ours.unassigned) == (0, LINES)


def test_no_streamline(folder):
    nib.streamlines.save(nib.streamlines.Tractogram([], affine_to_rasmm=np.eye(4)), str(folder / "none.tck"))
    result = ts.map_tractogram(folder / "none.tck", connectome=(folder / "soft.nii.gz", folder / "none.csv"))
    (ours,) = result["products"]["connectome"]
    assert (ours.unassigned, ours.streamlines, ours.values["count"].sum()) == (0, 0, 0)


def test_options_that_need_a_single_node(folder, head, tmp_path):
    with pytest.raises(ParameterError, match=r"connectome_pairs needs a single node for each end, but .*soft\.nii"):
        mapped(folder, folder / "soft.nii.gz", connectome_pairs=True)
    with pytest.raises(ParameterError, match="groups needs a single node for each end"):
        ts.track(*head.series, tmp_path / "a.trx", connectome=(folder / "soft.nii.gz", tmp_path / "m.csv"), groups=True,
                 mask=head.mask)
    assert not list(tmp_path.iterdir())
