"""What a product holds does not depend on the other products that are asked for, nor on a report or a tractogram."""

from dataclasses import fields
from itertools import combinations

import nibabel as nib
import numpy as np
import pytest
from fods import random_fods

import tistreamlines as ts
from tistreamlines.tracking.registry import PRODUCTS

SIDE, AFFINE = 8, np.diag([2.0, 2.0, 2.0, 1.0])
LISTED = "labels.nii.gz"  # an image for any option that takes one and a file
# options of products that need more than an image of labels and a file
OPTIONS = {
    "density": {"density_grid": LISTED}, "ends": {"density_grid": LISTED}, "sample_table": {"sample": "map.nii.gz"},
    "sift2": {"sift2": ("fod.nii.gz", "sift2.txt"), "sift2_basis": "tournier07", "sift2_mu": "mu.txt"},
    "connectome": {"connectome_pairs": True}, "seeds_to_targets": {"targets": [LISTED]},
    "report": {"report": "report.html"},
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Images, and streamlines some of whose steps are longer than the header says, as after a warp."""
    folder, rng = tmp_path_factory.mktemp("pairs"), np.random.default_rng(0)
    images = {
        "fod": random_fods(SIDE**3, seed=1)[0].reshape(SIDE, SIDE, SIDE, -1),
        "labels": (np.indices((SIDE,) * 3).sum(axis=0) // 4 + 1).astype(np.int16),
        "map": rng.uniform(1, 2, (SIDE,) * 3).astype(np.float32), "mask": np.ones((SIDE,) * 3, np.uint8),
    }
    for name, values in images.items():
        nib.save(nib.Nifti1Image(values, AFFINE), folder / f"{name}.nii.gz")
    lines = []
    for step in rng.choice([1.0, 1.3], 80):
        ways = rng.normal(size=3) + 0.2 * rng.normal(size=(int(rng.integers(1, 30)), 3)).cumsum(axis=0)
        steps = step * ways / np.linalg.norm(ways, axis=1, keepdims=True)
        lines.append((rng.uniform(0, 2 * SIDE, 3) + steps.cumsum(axis=0)).astype(np.float32))
    tck = nib.streamlines.TckFile(nib.streamlines.Tractogram(lines, affine_to_rasmm=np.eye(4)), {"step_size": "1"})
    tck.save(folder / "lines.tck")
    return folder


def files_of(name):
    """Options that ask for a product, whatever it is, and name its files."""
    if name in PRODUCTS:
        row, wanted = PRODUCTS[name], next(one for one in fields(PRODUCTS[name].options) if one.name == name)
        file = f"{name}{row.suffixes[0]}"
        return {name: (LISTED, file) if "ImageLike" in str(wanted.type) else file} | OPTIONS.get(name, {})
    return OPTIONS[name]


def made(make, folder, names, monkeypatch):
    """Make products in a new folder; return the bytes of their files, but for records, and of the page."""
    folder.mkdir()
    for image in folder.parent.glob("*.nii.gz"):
        (folder / image.name).symlink_to(image)
    monkeypatch.chdir(folder)
    make(**{key: value for name in names for key, value in files_of(name).items()})
    own = [path for path in folder.iterdir() if not path.is_symlink() and path.suffix != ".json"]
    return {path.name: path.read_bytes() for path in own if not path.name.startswith("report")}


def check_pairs(make, folder, names, monkeypatch, among, *others):
    """Make each product alone, and all pairs of which one is ``among`` some names; compare their files."""
    alone = {name: made(make, folder / name, (name,), monkeypatch) for name in names}
    assert all(alone[name] for name in names if name != "report")
    for one, other in combinations([*names, *others], 2):
        if not {one, other} & set(among):
            continue
        both = made(make, folder / f"{one}_{other}", (one, other), monkeypatch)
        for name in {one, other} & alone.keys():
            for file, content in alone[name].items():
                assert both[file] == content, f"{file} beside {one} and {other}"


@pytest.mark.parametrize("kind", ["tck", "trx"])
def test_map(place, kind, monkeypatch):
    names = [name for name, row in PRODUCTS.items() if kind == "trx" or not row.needs_seeds]
    among = [name for name in names if kind == "tck" or PRODUCTS[name].needs_seeds]
    if kind == "trx":
        track(place, output=place / "lines.trx")

    def make(**asked):
        ts.map_tractogram(place / f"lines.{kind}", threads=1, **asked)

    (folder := place / kind).mkdir()
    for image in place.glob("*.nii.gz"):
        (folder / image.name).symlink_to(image)
    check_pairs(make, folder, [*names, "report"], monkeypatch, among)


def test_track(place, monkeypatch):
    (folder := place / "track").mkdir()
    for image in place.glob("*.nii.gz"):
        (folder / image.name).symlink_to(image)
    monkeypatch.setitem(OPTIONS, "tractogram", {"output": "lines.trx"})
    check_pairs(lambda **asked: track(place, **asked), folder, [*PRODUCTS], monkeypatch, [*PRODUCTS], "tractogram")


def track(place, **asked):
    """Track a few streamlines along the FODs."""
    ts.track(
        sh=place / "fod.nii.gz", sh_basis="tournier07", dg="ifod1", nseeds=40, seed_mask=place / "mask.nii.gz",
        stop_mask=place / "mask.nii.gz", min_length=0, arch="cpu", threads=1, **asked,
    )
