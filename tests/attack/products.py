"""Parcellations, maps and names of products that nobody should give, for a tractogram that is there."""

from __future__ import annotations

import os
import random
import resource
from collections.abc import Callable
from functools import partial
from typing import Any

from .fuzz import NUMBERS, WORDS
from .material import LABELS, MAP, track
from .room import Outcome, Room

MATRIX = "c.csv"  # with its errors, nodes and record, what `map` writes of the material
REFUSED, DONE, EITHER = (1, 2), (0,), (0, 1, 2)
SAME, OTHER = "map", None  # whether a result has to be that of the material
Case = tuple[Callable[[Any, Any], Any], tuple[int, ...], str | None]


def _image(values: Any, affine: Any, kind: str | None = None) -> Any:
    import nibabel as nib

    return nib.Nifti1Image(values if kind is None else values.astype(kind), affine, dtype=kind or values.dtype)


def _with(value: float) -> Callable[[Any, Any], Any]:
    """One voxel of a value."""

    def changed(labels: Any, affine: Any) -> Any:
        values = labels.astype("f8")
        values[5, 6, 7] = value
        return _image(values, affine)

    return changed


def _scaled(labels: Any, affine: Any) -> Any:
    image = _image(2 * (labels + 6), affine, "i2")
    image.header.set_slope_inter(0.5, -6)
    return image


def _colours(labels: Any, affine: Any) -> Any:
    import numpy as np

    colours = np.zeros(labels.shape, [("R", "u1"), ("G", "u1"), ("B", "u1")])
    colours["R"] = labels
    return _image(colours, affine)


def _on(change: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    """On another grid."""

    def changed(labels: Any, affine: Any) -> Any:
        other = affine.copy()
        change(other)
        return _image(labels, other, "i2")

    return changed


def _sheared(affine: Any) -> None:
    affine[0, 1] += 3


def _elsewhere(affine: Any) -> None:
    affine[:3, 3] += 4000


def _flat(affine: Any) -> None:
    affine[:3, 2] = affine[:3, 1]


def _nowhere(affine: Any) -> None:
    affine[1, 3] = float("nan")


def _minute(affine: Any) -> None:
    affine[:3, :3] *= 1e-3


PARCELLATIONS: dict[str, Case] = {
    **{f"stored as {kind}": (partial(_image, kind=kind), DONE, SAME) for kind in (
        "u1", "i1", "u2", "i4", "u4", "i8", "u8", "f4", "f8", ">i2",
    )},
    "stored with a slope": (_scaled, DONE, SAME),
    "a background below 0": (lambda image, affine: _image(image - (image == 0), affine, "i2"), DONE, SAME),
    "a single label": (lambda image, affine: _image((image > 0) * 1, affine, "u1"), DONE, OTHER),
    "labels of 999": (lambda image, affine: _image(image + (image == 1) * 998, affine, "i2"), DONE, OTHER),
    "sheared": (_on(_sheared), DONE, OTHER),
    "far away": (_on(_elsewhere), DONE, OTHER),
    "voxels of 0.008 mm": (_on(_minute), EITHER, OTHER),
    "a volume of it": (lambda image, affine: _image(image[..., None], affine, "i2"), EITHER, SAME),
    "an affine of two axes": (_on(_flat), REFUSED, OTHER),
    "an affine with NaN": (_on(_nowhere), EITHER, OTHER),
    **{f"a voxel of {value}": (_with(value), REFUSED, OTHER) for value in (
        float("nan"), float("inf"), 0.5, 1e-9, 2.0**31, 2.0**33, 1e30, 12175,
    )},
    "no label": (lambda image, affine: _image(image * 0, affine, "i2"), REFUSED, OTHER),
    "none above 0": (lambda image, affine: _image(-image, affine, "i2"), REFUSED, OTHER),
    "halves": (lambda image, affine: _image(image / 2, affine, "f4"), REFUSED, OTHER),
    "whole numbers of 64 bits": (lambda image, affine: _image(image.astype("u8") << 60, affine, "u8"), REFUSED, OTHER),
    "labels that overflow": (lambda image, affine: _image(image.astype("i8") + -(2**63), affine, "i8"), REFUSED, OTHER),
    "complex": (partial(_image, kind="c8"), REFUSED, OTHER),
    "colours": (_colours, REFUSED, OTHER),
    "two volumes": (lambda image, affine: _image(image[..., None].repeat(2, axis=3), affine, "i2"), REFUSED, OTHER),
    "a slice": (lambda image, affine: _image(image[..., 5], affine, "i2"), REFUSED, OTHER),
}
STORED = {".nii": SAME, ".nii.gz": SAME, ".mif": SAME, ".mif.gz": SAME, ".mgz": SAME, ".img": SAME}
# options beside a matrix, or in its place -> exit codes
TWICE = ["--connectome", "labels.nii.gz"]
OPTIONS: dict[str, tuple[list[str], tuple[int, ...]]] = {
    "one argument": (["--connectome", "labels.nii.gz"], (2,)),
    "the FILE twice": ([*TWICE, f"../out/{MATRIX}"], REFUSED),
    "a FILE by another path": ([*TWICE, f"../in/../out/{MATRIX}"], REFUSED),
    "the FILE of its errors": ([*TWICE, "../out/c_error.csv"], REFUSED),
    "the nodes of another": ([*TWICE, "../out/c.npy"], REFUSED),
    "two matrices": ([*TWICE, "../out/d.npy"], DONE),
    "the input": ([*TWICE, "labels.nii.gz"], REFUSED),
    "the tractogram": (["--density", "lines.trx"], REFUSED),
    "a table as FILE": ([*TWICE, "nodes.tsv", "--connectome-nodes", "nodes.tsv", "--force"], REFUSED),
    "an unknown suffix": ([*TWICE, "../out/d.mat"], REFUSED),
    "no suffix": ([*TWICE, "../out/d"], REFUSED),
    "a missing folder": ([*TWICE, "../none/d.csv"], REFUSED),
    "a folder": ([*TWICE, "../out/"], REFUSED),
    "no place for files": ([*TWICE, "/proc/d.csv"], REFUSED),
    "a long name": ([*TWICE, f"../out/{'x' * 240}.csv"], REFUSED),
    "a name with a break": ([*TWICE, "../out/d\ne.csv"], DONE),
    "two tables for one": (["--connectome-nodes", "nodes.tsv"] * 2, REFUSED),
    "a table for each": ([*TWICE, "../out/d.csv", *["--connectome-nodes", "nodes.tsv"] * 2], DONE),
    "three tables for two": ([*TWICE, "../out/d.csv", *["--connectome-nodes", "nodes.tsv"] * 3], REFUSED),
    "a radius without end": (["--connectome-radius", "1e300"], EITHER),
    "a large radius": (["--connectome-radius", "1e5"], EITHER),
    "a radius of the image": (["--connectome-radius", "500"], EITHER),
    "a radius for end voxels": (["--connectome-assignment", "end-voxel", "--connectome-radius", "2"], REFUSED),
    "an unknown measure": (["--connectome-measure", "counts"], REFUSED),
    "a measure twice": (["--connectome-measure", "length"] * 2, DONE),
    "the name of the record": (["--density", "../out/c.nii", "--ends", "../out/c.nii.gz"], EITHER),
    "ends and density in one": (["--density", "../out/d.nii", "--ends", "../out/d.nii"], REFUSED),
    "a slice as grid": (["--density", "../out/d.nii", "--density-grid", "dwi.bval"], REFUSED),
    "minute voxels": (["--density", "../out/d.nii", "--density-voxel", "1e-6"], REFUSED),
    "a map to sample of vectors": (
        ["--density", "../out/d.nii", "--density-kind", "sample", "--density-sample", "peaks.nii"], REFUSED,
    ),
}


def parcellations(rng: random.Random, room: Room) -> list[str]:
    """Store a parcellation in many ways, some of which are none."""
    import nibabel as nib
    import numpy as np

    image = nib.load(room.inputs / LABELS)
    labels, affine = np.asarray(image.dataobj), image.affine
    if rng.random() < 0.2:
        suffix = rng.choice(sorted(STORED))
        return _stored(room, suffix, labels, affine)
    name = rng.choice(sorted(PARCELLATIONS))
    change, codes, run = PARCELLATIONS[name]
    room.did.append(name)
    path = room.inputs / "other.nii.gz"
    path.write_bytes(b"")
    save(change(labels, affine), path)
    return mapped(room, "other.nii.gz", codes=codes, run=run)


def _stored(room: Room, suffix: str, labels: Any, affine: Any) -> list[str]:
    """Write the parcellation in a format of another program."""
    import gzip

    import nibabel as nib

    from .material import as_mif

    path = room.inputs / f"other{suffix}"
    if "mif" in suffix:
        content = as_mif(labels, affine, (), series=False)
        path.write_bytes(gzip.compress(content) if suffix.endswith(".gz") else content)
    elif suffix == ".mgz":
        nib.MGHImage(labels.astype("f4"), affine).to_filename(path)
    elif suffix == ".img":
        nib.Nifti1Pair(labels.astype("i2"), affine).to_filename(path)
    else:
        save(_image(labels, affine, "i2"), path)
    return mapped(room, path.name, codes=DONE, run=STORED[suffix])


def save(image: Any, path: Any) -> None:
    """Write an image whose header may be wrong."""
    import numpy as np

    with np.errstate(invalid="ignore"):
        image.to_filename(path)


def mapped(
    room: Room, labels: str = LABELS, *more: str, codes: tuple[int, ...], run: str | None = OTHER, **how: Any
) -> list[str]:
    """Make a matrix of the tractogram that is there, and judge what is left."""
    outcome = room.run([labels if word == LABELS else word for word in [*MAP, f"../out/{MATRIX}"]] + list(more), **how)
    return judged(room, outcome, codes, run)


def judged(room: Room, outcome: Outcome, codes: tuple[int, ...], run: str | None = OTHER) -> list[str]:
    """Judge a run of `map`; a result has to be that of a clean run, if one is named."""
    return room.faults(outcome, run if outcome.code == 0 else None, codes=codes, name=MATRIX)


def names_and_options(rng: random.Random, room: Room) -> list[str]:
    """Give names that clash and values that cannot be."""
    how = rng.choice(("listed", "listed", "number", "report", "sample", "full"))
    if how == "number":
        numbered = ("--connectome-radius", "--density-voxel", "--connectome-assignment", "--connectome-measure")
        option = rng.choice(numbered)
        beside = ("--density", "../out/d.nii.gz") if option == "--density-voxel" else ()
        return mapped(room, LABELS, *beside, option, rng.choice(NUMBERS + WORDS), codes=(0, 1, 2))
    if how == "report":
        return _report(rng, room)
    if how == "sample":
        return _sample(rng, room)
    if how == "full":
        return _full(rng, room)
    name = rng.choice(sorted(OPTIONS))
    more, codes = OPTIONS[name]
    room.did.append(name)
    return mapped(room, LABELS, *more, codes=codes)


def _report(rng: random.Random, room: Room) -> list[str]:
    """Name a report as another output or an input is."""
    names = ("a.trx", "a.json", "r.html", "r.HTM", "r.pdf", "none/r.html", "")
    beside = rng.choice(([], ["--json-stats", "../out/r_stats.json"], ["--density", "../out/r.nii"]))
    outcome = room.track("det", *beside, "--report", f"../out/{rng.choice(names)}")
    return room.faults(outcome, "det" if outcome.code == 0 else None, codes=EITHER)


def _sample(rng: random.Random, room: Room) -> list[str]:
    """Sample maps that are none, or lie elsewhere."""
    path = room.inputs / "other.nii.gz"
    name = rng.choice(("far away", "sheared", "a voxel of nan", "a voxel of inf", "two volumes", "colours", "a slice"))
    room.did.append(f"a map: {name}")
    import nibabel as nib
    import numpy as np

    image = nib.load(room.inputs / LABELS)
    save(PARCELLATIONS[name][0](np.asarray(image.dataobj), image.affine), path)
    codes = DONE if name in ("far away", "sheared", "a voxel of nan") else REFUSED
    return room.faults(room.track("det", "--sample", path.name), codes=codes)


def _full(rng: random.Random, room: Room) -> list[str]:
    """Let the disk be full at some moment: all files of a product are there, or none."""
    size = rng.randrange(300, 4000)  # what it prints has room
    tracks = rng.random() < 0.3
    room.did.append(f"RLIMIT_FSIZE {size}")
    files = ["--ends", "../out/e.nii.gz", "--connectome-measure", "mean-length", "--connectome-measure", "count"]
    program = [*MAP, f"../out/{MATRIX}", *files]
    if tracks:
        program = [*track("det", "")[:-2], *program[2:]]
    limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (size, size))
    outcome = room.run(program, setup=limit)
    names = sorted(path.name for path in room.out.iterdir())
    whole = [name for name in names if not name.endswith(".json")]
    faults = [fault for fault in room.faults(outcome, codes=EITHER) if not fault.startswith("left out/")]
    return faults + ([f"left {whole}"] if len(whole) not in (0, 6) or any(".part" in name for name in names) else [])


def files_that_are_none(rng: random.Random, room: Room) -> list[str]:
    """Give a folder, a pipe or a device as parcellation or table."""
    path, kind = room.inputs / "other.nii", rng.choice(("folder", "pipe", "link", "device", "none"))
    room.did.append(kind)
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind != "none":
        path.symlink_to({"link": path, "device": "/dev/zero"}[kind])
    if rng.random() < 0.5:
        return mapped(room, path.name, codes=REFUSED)
    return mapped(room, LABELS, "--connectome-nodes", path.name, codes=REFUSED)
