"""What tractograms and matrices say of edges: the same from one run, parts, pieces and the tractogram itself."""

import json
from types import SimpleNamespace

import nibabel as nib
import numpy as np
import pytest
from trx import trx_file_memmap

import tistreamlines as ts
from tistreamlines.run import resume
from tistreamlines.tracking.products.connectome import connectome

FILES = ("m.csv", "m_error.csv", "m_FA_mean.csv", "m_FA_mean_error.csv")
NODES = {4: "Fornix (left)", 5: "fornix_(left)", 7: "Grau-weiß", 9: "far", 6: "six"}


@pytest.fixture(scope="module")
def tracked(head, tmp_path_factory):
    """A run with means of a map on the edges of a connectome, and the groups of its nodes in the tractogram."""
    folder = tmp_path_factory.mktemp("edges")
    mask = nib.load(head.mask)
    labels = (np.indices(mask.shape).sum(axis=0) // 9 + 1).astype(np.int16)
    nib.save(nib.Nifti1Image(labels, mask.affine), folder / "labels.nii.gz")
    table = "".join(f"{label}\t{name}\n" for label, name in NODES.items())
    (folder / "nodes.tsv").write_text(f"index\tname\n{table}99\tnowhere\n")
    values = np.random.default_rng(1).random(mask.shape).astype(np.float32)
    nib.save(nib.Nifti1Image(values, mask.affine), folder / "FA.nii.gz")
    options = {"mask": head.mask, "nseeds": 300, "arch": "cpu", "dg": "prob", "cache_dir": head.cache}

    def named(place):
        (folder / place).mkdir()
        return {
            "connectome": (folder / "labels.nii.gz", folder / place / "m.csv"),
            "connectome_nodes": folder / "nodes.tsv",
            "connectome_assignment": "end-voxel", "connectome_sample": folder / "FA.nii.gz",
        }

    result = ts.track(*head.series, folder / "run.trx", **options, **named("run"), groups=True)
    return SimpleNamespace(folder=folder, options=options, named=named, result=result, labels=labels)


def same(tracked, place):
    for name in FILES:
        mine, other = (tracked.folder / which / name for which in ("run", place))
        assert mine.read_bytes() == other.read_bytes(), name
    tractogram = tracked.folder / f"{place}.trx"
    assert not tractogram.exists() or tractogram.read_bytes() == (tracked.folder / "run.trx").read_bytes()
    return True


def test_of_parts(tracked, head):
    paths = [tracked.folder / f"part{k}.trx" for k in (1, 2)]
    for k, path in enumerate(paths, 1):
        ts.track(*head.series, path, **tracked.options, part=f"{k}/2")
    with pytest.warns(UserWarning, match="nowhere"):
        ts.join(paths, tracked.folder / "joined.trx", **tracked.named("joined"), groups=True)
    assert same(tracked, "joined")
    record, whole = (json.loads((tracked.folder / f"{name}.json").read_text()) for name in ("joined", "run"))
    assert record["warnings"] == whole["warnings"]


def test_of_pieces(tracked, head, monkeypatch):
    monkeypatch.setattr(resume, "FEWEST", 100)
    monkeypatch.setattr(resume, "MOST", 100)
    options = tracked.options | tracked.named("pieces") | {"groups": True, "resume": True}
    ts.track(*head.series, tracked.folder / "pieces.trx", **options)
    assert same(tracked, "pieces")


def test_of_the_tractogram_or_without_one(tracked, head, monkeypatch):
    ts.map_tractogram(tracked.folder / "run.trx", **tracked.named("mapped"))
    assert same(tracked, "mapped")
    read, parcellation = [], connectome.Parcellation
    monkeypatch.setattr(connectome, "Parcellation", lambda *labels: read.append(labels) or parcellation(*labels))
    alone = ts.track(*head.series, **tracked.options, **tracked.named("alone"))
    assert same(tracked, "alone")
    assert len(read) == 1
    matrix = alone.products["connectome"][0]
    means = matrix.values["FA_mean"][matrix.values["count"] > 0]
    assert 0.4 < means.mean() < 0.6
    assert alone.record["inputs"]["connectome_sample 1"]["path"].endswith("FA.nii.gz")


def test_probabilities_in_a_run_its_parts_its_pieces_and_its_tractogram(tracked, head, monkeypatch):
    soft = np.random.default_rng(6).random((*tracked.labels.shape, 7)).astype(np.float32) ** 8
    image = nib.Nifti1Image(soft, nib.load(head.mask).affine)
    nib.save(image, tracked.folder / "soft.nii.gz")
    runs = {}

    def options(place, **more):
        (tracked.folder / f"soft_{place}").mkdir()
        return {
            "connectome": (tracked.folder / "soft.nii.gz", tracked.folder / f"soft_{place}" / "m.npy"),
            "connectome_measure": ["count", "mean-length"], **more,
        }

    def contents(place):
        return {path.name: path.read_bytes() for path in sorted((tracked.folder / f"soft_{place}").glob("m*.npy"))}

    runs["device"] = ts.track(*head.series, **tracked.options, **options("device", chunk_size=70))
    paths = [tracked.folder / f"soft{k}.trx" for k in (1, 2)]
    for k, path in enumerate(paths, 1):
        ts.track(*head.series, path, **tracked.options, part=f"{k}/2")
    runs["parts"] = ts.join(paths, tracked.folder / "soft.trx", **options("parts"))
    monkeypatch.setattr(resume, "FEWEST", 100)
    monkeypatch.setattr(resume, "MOST", 100)
    pieces = options("pieces", resume=True, threads=1)
    runs["pieces"] = ts.track(*head.series, tracked.folder / "soft_pieces.trx", **tracked.options, **pieces)
    ts.map_tractogram(tracked.folder / "soft.trx", **options("mapped", threads=2))
    first = contents("device")
    assert len(first) == 4
    assert all(contents(place) == first for place in ("parts", "pieces", "mapped"))
    (matrix,) = runs["device"].products["connectome"]
    assert 0 < matrix.unassigned < matrix.streamlines
    assert matrix.unassigned != int(matrix.unassigned)


def test_groups_are_those_of_trx_python(tracked):
    tracked.result.save(tracked.folder / "saved.trx")
    tracked.result.save(tracked.folder / "saved_too.tck")
    assert (tracked.folder / "saved.trx").read_bytes() == (tracked.folder / "run.trx").read_bytes()
    trx = trx_file_memmap.load(str(tracked.folder / "run.trx"))
    lines = nib.streamlines.load(tracked.folder / "saved_too.tck").streamlines
    to_voxel = np.linalg.inv(tracked.result.space.affine)
    ends = [nib.affines.apply_affine(to_voxel, line[[0, -1]]) for line in lines]
    labels = tracked.labels[tuple(np.moveaxis(np.rint(ends).astype(int), -1, 0))]
    names = ("m_Fornix__left_", "m_fornix__left__2", "m_Grau-wei_", "m_far", "m_six")
    expected = dict(zip(names, (np.flatnonzero((labels == label).any(axis=1)) for label in NODES), strict=True))
    assert sum(len(numbers) > 0 for numbers in expected.values()) > 3
    assert set(trx.groups) == {name for name, numbers in expected.items() if len(numbers)}
    for name, numbers in trx.groups.items():
        assert numbers.dtype == np.uint32
        np.testing.assert_array_equal(numbers, expected[name])
    group = trx.get_group("m_six")
    assert len(group.streamlines) == len(expected["m_six"])


def test_so_many_groups_that_trx_python_may_not_open_them():
    assert connectome.many_groups([("node",) * 600]) == ()
    assert "1,200 groups" in connectome.many_groups([("node",) * 600] * 2)[0]


@pytest.mark.parametrize(
    ("output", "more", "words"),
    [
        ("a.tck", {}, r"a\.tck: a \.tck file has no groups; write a \.trx file"),
        (None, {"keep_streamlines": False}, "groups says what a tractogram holds"),
        ("a.trx", {"connectome": None}, "groups needs connectome"),
        ("a.trx", {"part": "1/2"}, "exclude each other"),
    ],
)
def test_groups_that_no_file_can_hold(head, tmp_path, output, more, words):
    options = {"connectome": (head.mask, tmp_path / "m.csv"), "groups": True, "mask": head.mask} | more
    with pytest.raises(ts.TrackingError, match=words):
        ts.track(*head.series, output and tmp_path / output, **options)
    assert not list(tmp_path.iterdir())
