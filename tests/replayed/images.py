"""Reports on images: where their voxels lie, how values are stored, and what labels are."""

from __future__ import annotations

import gzip
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import nibabel as nib
import numpy as np
import pytest

from .scene import SHAPE, Scene, head, lines_along_y, plain


def _slabs() -> np.ndarray:
    """Two labels, at both ends of the streamlines along y."""
    labels = np.zeros(SHAPE, np.int16)
    labels[:, :4], labels[:, 13:] = 1, 2
    return labels


def _joined(scene: Scene, labels: Any) -> np.ndarray:
    """Matrix of six streamlines from one slab to the other."""
    path = scene.image("labels.nii", labels)
    lines = scene.lines("lines.tck", lines_along_y())
    scene.map(lines, "--connectome", path, scene / "counts.csv")
    return np.loadtxt(scene / "counts.csv", delimiter=",")


def _forms(change: Callable[[Any], None]) -> Callable[[Scene], str]:
    """What is said of a stop mask whose header is changed."""

    def said(scene: Scene) -> str:
        arguments = scene.peaks()
        values = np.asarray(nib.load(scene / "stop.nii.gz").dataobj)
        scene.image("stop.nii.gz", values, change=change)
        return scene.track(arguments).err

    return said


def qform_and_sform_disagree(scene: Scene) -> None:
    def shifted(image: Any) -> None:
        affine = image.affine.copy()
        affine[0, 3] += 7
        image.set_qform(affine, code=1)
        image.set_sform(image.affine, code=1)

    said = _forms(shifted)(scene)
    assert "Warning: " in said
    assert "qform" in said
    assert "stop.nii.gz" in said


def sizes_disagree(scene: Scene) -> None:
    def resized(image: Any) -> None:
        image.header["pixdim"][1:4] = 3

    said = _forms(resized)(scene)
    assert "Warning: " in said
    assert "stop.nii.gz" in said


def no_form_has_a_code(scene: Scene) -> None:
    """NiBabel always writes a code: other programs leave both at 0."""
    arguments = scene.peaks()
    content = bytearray(gzip.decompress((scene / "stop.nii.gz").read_bytes()))
    content[252:256] = bytes(4)  # qform_code and sform_code
    (scene / "stop.nii.gz").write_bytes(gzip.compress(bytes(content)))
    said = scene.run("track", *arguments, "-o", scene / "out.tck").err
    assert "stop.nii.gz" in said
    assert said.startswith(("Warning: ", "Error: "))


def one_volume_more(scene: Scene) -> None:
    """A trailing axis of one volume is no fourth dimension; two volumes are."""
    assert _joined(scene, _slabs()[..., None])[0, 1] == 6
    path = scene.image("labels.nii", np.stack([_slabs()] * 2, axis=-1))
    scene.refused("map", scene / "lines.tck", "--connectome", path, scene / "two.csv", words=["labels.nii"])


def labels_with_gaps(scene: Scene) -> None:
    """Rows stand for the values, as of tck2connectome, also where values are missing."""
    labels = _slabs()
    labels[labels == 2] = 5
    counts = _joined(scene, labels)
    assert counts.shape == (5, 5)
    assert counts[0, 4] == 6
    assert counts.sum() in (6, 12)


def labels_of_freesurfer(scene: Scene) -> None:
    """Labels up to 2035 with a lookup table: rows of its entries, or of the values."""
    labels = _slabs()
    labels[labels == 1], labels[labels == 2] = 1024, 2035
    (scene / "lut.txt").write_text("1024 ctx-lh-precentral 60 20 220 0\n2035 ctx-rh-insula 255 192 32 0\n")
    path = scene.image("labels.nii", labels)
    lines = scene.lines("lines.tck", lines_along_y())
    scene.map(lines, "--connectome", path, scene / "counts.csv", "--connectome-nodes", scene / "lut.txt")
    counts = np.loadtxt(scene / "counts.csv", delimiter=",")
    assert counts[np.triu_indices(len(counts))].sum() == 6


def labels_with_a_slope(scene: Scene) -> None:
    """int16 with a slope of 0.1 gives 1.00000001, which is label 1."""
    lines = scene.lines("lines.tck", lines_along_y())
    path = scene.image("labels.nii", 10 * _slabs())
    content = bytearray(path.read_bytes())
    content[112:116] = np.float32(0.1).tobytes()  # scl_slope
    path.write_bytes(bytes(content))
    scene.map(lines, "--connectome", path, scene / "counts.csv")
    assert np.loadtxt(scene / "counts.csv", delimiter=",")[0, 1] == 6


def labels_between_integers(scene: Scene) -> None:
    labels = _slabs().astype(np.float32)
    labels[3, 2, 4] = 1.5
    path = scene.image("labels.nii", labels)
    lines = scene.lines("lines.tck", lines_along_y())
    scene.refused("map", lines, "--connectome", path, scene / "counts.csv", words=["labels.nii", "1.5"])


def ends_outside_the_labels(scene: Scene) -> None:
    """Ends outside the parcellation have no node, and no crash."""
    path = scene.image("labels.nii", _slabs())
    shifts = np.array([[0, 400.0 * (k % 2), 0] for k in range(6)])
    lines = scene.lines("lines.tck", [line + shift for line, shift in zip(lines_along_y(), shifts, strict=True)])
    scene.map(lines, "--connectome", path, scene / "counts.csv", "--connectome-pairs")
    assert np.loadtxt(scene / "counts_pairs.tsv", comments="n", ndmin=2).astype(int).tolist() == [[1, 2], [0, 0]] * 3


def ends_outside_the_grid(scene: Scene) -> None:
    """Ends beyond the grid of a map are not counted, and not wrapped to its other side."""
    path = scene.image("grid.nii", np.zeros(SHAPE, np.uint8))
    lines = scene.lines("lines.tck", [line - [0, 20, 0] for line in lines_along_y()])
    scene.map(lines, "--ends", scene / "ends.nii", "--density-grid", path)
    assert nib.load(scene / "ends.nii").get_fdata().sum() == 6


def a_map_of_several_volumes(scene: Scene) -> None:
    path = scene.image("maps.nii", np.zeros((*SHAPE, 2), np.float32))
    lines = scene.lines("lines.tck", lines_along_y())
    scene.refused("map", lines, "--sample", path, "--sample-table", scene / "t.csv", words=["maps.nii"])


def an_empty_seed_mask(scene: Scene) -> None:
    arguments = scene.series()
    empty = scene.image("seeds.nii", np.zeros(head().mask.shape, np.uint8), head().affine)
    scene.refused("track", *arguments, "--seed-mask", empty, "-o", scene / "out.tck", words=["seeds.nii"])


def a_slope_of_nan(scene: Scene) -> None:
    """NiBabel and fMRIPrep write a slope of NaN where values are not scaled."""

    def unscaled(image: Any) -> None:
        image.header["scl_slope"] = image.header["scl_inter"] = np.nan

    _unscaled(scene, unscaled)


def a_slope_of_zero(scene: Scene) -> None:
    """A slope of 0 means that values are not scaled."""

    def unscaled(image: Any) -> None:
        image.header["scl_slope"] = image.header["scl_inter"] = 0

    _unscaled(scene, unscaled)


def _unscaled(scene: Scene, change: Callable[[Any], None]) -> None:
    arguments = scene.series()
    exact = plain(scene.tracked(arguments))
    scene.image("mask.nii", head().mask.astype(np.uint8), head().affine)
    content = bytearray((scene / "mask.nii").read_bytes())
    image = nib.load(scene / "mask.nii")
    header = image.header.copy()
    fields = nib.Nifti1Image(np.zeros((1, 1, 1), np.uint8), np.eye(4))
    change(fields)
    for name, offset in (("scl_slope", 112), ("scl_inter", 116)):
        content[offset : offset + 4] = np.float32(fields.header[name]).tobytes()
    (scene / "mask.nii").write_bytes(bytes(content))
    assert header.get_data_shape() == head().mask.shape
    assert plain(scene.tracked(arguments)) == exact


def a_mask_with_an_intercept(scene: Scene) -> None:
    """Rounding of slope and intercept leaves 1e-9 where a mask was 0: that is outside."""
    arguments = scene.series()
    exact = plain(scene.tracked(arguments))
    scene.image("mask.nii", np.where(head().mask, 1.0, 1e-9).astype(np.float64), head().affine)
    outcome = scene.track(arguments)
    same = plain(nib.streamlines.load(scene / "out.tck").streamlines) == exact
    assert same or "mask.nii" in outcome.err, outcome.err


def a_mask_of_nan(scene: Scene) -> None:
    arguments = scene.series()
    scene.image("mask.nii", np.full(head().mask.shape, np.nan, np.float32), head().affine)
    scene.refused("track", *arguments, "-o", scene / "out.tck", words=["mask.nii"])


def a_cut_gzip(scene: Scene) -> None:
    arguments = scene.series()
    packed = gzip.compress((scene / "dwi.nii").read_bytes())
    (scene / "cut.nii.gz").write_bytes(packed[: len(packed) // 2])
    scene.refused("track", scene / "cut.nii.gz", *arguments[1:], "-o", scene / "out.tck", words=["cut.nii.gz"])


def a_sheared_affine(scene: Scene) -> None:
    """Voxels that are not right-angled: one line, or streamlines in the right place; never a wrong place."""
    affine = head().affine.copy()
    affine[0, 1] = 0.2 * affine[0, 0]
    outcome = scene.run("track", *scene.series(affine=affine), "-o", scene / "out.tck")
    if outcome.code == 0:
        points = np.concatenate(list(nib.streamlines.load(scene / "out.tck").streamlines))
        voxels = nib.affines.apply_affine(np.linalg.inv(affine), points)
        inside = head().mask[tuple(np.clip(np.rint(voxels).astype(int), 0, np.array(head().mask.shape) - 1).T)]
        assert inside.mean() > 0.95
    else:
        assert outcome.err.startswith("Error: ")


def density_beside_tckmap(scene: Scene) -> None:
    """The map of a .tck has the counts of tckmap, which DIPY's had not."""
    if shutil.which("tckmap") is None:
        pytest.skip("MRtrix3 is not installed")
    grid = scene.image("grid.nii", np.zeros(SHAPE, np.uint8))
    rng = np.random.default_rng(0)
    lines = scene.lines("lines.tck", [line + rng.uniform(-1, 1, 3) for line in lines_along_y(8, 25)])
    command = ["tckmap", "-quiet", "-template", grid, "-precise", lines, scene / "tckmap.nii"]
    subprocess.run(list(map(str, command)), check=True)
    scene.map(lines, "--density", scene / "ours.nii", "--density-grid", grid)
    ours, theirs = (nib.load(scene / name).get_fdata() for name in ("ours.nii", "tckmap.nii"))
    assert ((ours > 0) != (theirs > 0)).sum() <= 0.02 * (theirs > 0).sum()
