"""What a product holds does not depend on the other products that are asked for, nor on a report or a tractogram."""

from dataclasses import fields
from itertools import combinations

import nibabel as nib
import numpy as np
import pytest
from fods import random_fods
from nights import at_night

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
    if name not in PRODUCTS:
        return OPTIONS[name]
    row = PRODUCTS[name]
    annotation = next(field.type for field in fields(row.options) if field.name == name)
    file = f"{name}{row.suffixes[0]}"
    return {name: (LISTED, file) if "ImageLike" in str(annotation) else file} | OPTIONS.get(name, {})


def contents(make, folder, names, monkeypatch):
    """Make products in a new folder; return the bytes of their files, but for records, and of the page."""
    folder.mkdir()
    for image in folder.parent.glob("*.nii.gz"):
        (folder / image.name).symlink_to(image)
    monkeypatch.chdir(folder)
    make(**{key: value for name in names for key, value in files_of(name).items()})
    written = [path for path in folder.iterdir() if not path.is_symlink() and path.suffix != ".json"]
    return {path.name: path.read_bytes() for path in written if not path.name.startswith("report")}


def check(make, folder, names, monkeypatch, groups):
    """Make each product alone, and groups of them; compare their files."""
    alone = {name: contents(make, folder / name, (name,), monkeypatch) for name in names}
    assert all(alone[name] for name in names if name != "report")
    for number, group in enumerate(groups):
        together = contents(make, folder / str(number), group, monkeypatch)
        for name in group:
            for file, content in alone.get(name, {}).items():
                assert together[file] == content, f"{file} beside {group}"


def linked(place, name):
    """A new folder with the images of another one."""
    (folder := place / name).mkdir()
    for image in place.glob("*.nii.gz"):
        (folder / image.name).symlink_to(image)
    return folder


@pytest.fixture(scope="module")
def makers(place):
    """What makes products of streamlines without seeds, with seeds, and while they are tracked, and of which names."""
    track(place, output=place / "lines.trx")
    mapped = [name for name, row in PRODUCTS.items() if not row.of_dropped]
    without_seeds = [name for name in mapped if not PRODUCTS[name].needs_seeds]
    return {
        "tck": (lambda **asked: ts.map_tractogram(place / "lines.tck", threads=1, **asked), [*without_seeds, "report"]),
        "trx": (lambda **asked: ts.map_tractogram(place / "lines.trx", threads=1, **asked), [*mapped, "report"]),
        "track": (lambda **asked: track(place, **asked), [*PRODUCTS]),
    }


@pytest.mark.parametrize("kind", ["track", *at_night("trx")])
def test_products_do_not_depend_on_each_other(place, makers, kind, monkeypatch):
    """All of them together, and every second one, give what each gives alone."""
    monkeypatch.setitem(OPTIONS, "tractogram", {"output": "lines.trx"})
    make, names = makers[kind]
    beside = [*names, "tractogram"] if kind == "track" else names
    check(make, linked(place, kind), names, monkeypatch, (beside, beside[::2], beside[1::2]))


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["tck", "trx", "track"])
def test_all_pairs(place, makers, kind, monkeypatch):
    """Nightly, since there are hundreds of pairs."""
    make, names = makers[kind]
    check(make, linked(place, f"{kind} pairs"), names, monkeypatch, combinations(names, 2))


def track(place, **asked):
    """Track a few streamlines along the FODs."""
    ts.track(
        sh=place / "fod.nii.gz", sh_basis="tournier07", dg="ifod1", nseeds=40, seed_mask=place / "mask.nii.gz",
        stop_mask=place / "mask.nii.gz", min_length=0, arch="cpu", threads=1, **asked,
    )
