"""What tractograms and matrices say of edges: the same from one run, parts, pieces and the tractogram itself."""

from types import SimpleNamespace

import nibabel as nib
import numpy as np
import pytest

import tistreamlines as ts
from tistreamlines.run import resume

FILES = ("m.csv", "m_error.csv", "m_FA_mean.csv", "m_FA_mean_error.csv")


@pytest.fixture(scope="module")
def tracked(head, tmp_path_factory):
    """A run with means of a map on the edges of a connectome."""
    folder = tmp_path_factory.mktemp("edges")
    mask = nib.load(head.mask)
    labels = (np.indices(mask.shape).sum(axis=0) // 9 + 1).astype(np.int16)
    nib.save(nib.Nifti1Image(labels, mask.affine), folder / "labels.nii.gz")
    values = np.random.default_rng(1).random(mask.shape).astype(np.float32)
    nib.save(nib.Nifti1Image(values, mask.affine), folder / "FA.nii.gz")
    options = {"mask": head.mask, "nseeds": 300, "arch": "cpu", "dg": "prob", "cache_dir": head.cache}
    edges = {"connectome_sample": folder / "FA.nii.gz"}

    def named(place):
        (folder / place).mkdir()
        return edges | {"connectome": (folder / "labels.nii.gz", folder / place / "m.csv")}

    result = ts.track(*head.series, folder / "run.trx", **options, **named("run"))
    return SimpleNamespace(folder=folder, options=options, named=named, result=result)


def same(tracked, place):
    for name in FILES:
        one, other = (tracked.folder / which / name for which in ("run", place))
        assert one.read_bytes() == other.read_bytes(), name
    return True


def test_of_parts(tracked, head):
    paths = [tracked.folder / f"part{k}.trx" for k in (1, 2)]
    for k, path in enumerate(paths, 1):
        ts.track(*head.series, path, **tracked.options, part=f"{k}/2")
    ts.join(paths, tracked.folder / "joined.trx", **tracked.named("joined"))
    assert same(tracked, "joined")


def test_of_pieces(tracked, head, monkeypatch):
    monkeypatch.setattr(resume, "FEWEST", 100)
    monkeypatch.setattr(resume, "MOST", 100)
    ts.track(*head.series, tracked.folder / "pieces.trx", **tracked.options, **tracked.named("pieces"), resume=True)
    assert same(tracked, "pieces")


def test_of_the_tractogram_or_without_one(tracked, head):
    ts.map_tractogram(tracked.folder / "run.trx", **tracked.named("mapped"))
    assert same(tracked, "mapped")
    alone = ts.track(*head.series, **tracked.options, **tracked.named("alone"))
    assert same(tracked, "alone")
    matrix = alone.products["connectome"][0]
    means = matrix.values["FA_mean"][matrix.values["count"] > 0]
    assert 0.4 < means.mean() < 0.6
    assert alone.record["inputs"]["connectome_sample 1"]["path"].endswith("FA.nii.gz")
