"""Directions in the right frame, against closed forms, DIPY's harmonics and MRtrix3's programs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import warnings
from dataclasses import replace
from itertools import permutations, product

import nibabel as nib
import numpy as np
import pytest
from nights import at_night
from places import CROP
from scipy.spatial.transform import Rotation
from synthetic import gradients, signals

import tistreamlines as ts
from tistreamlines.cuslines import tracker as drop_in
from tistreamlines.fit import frames
from tistreamlines.fit.coherence import TURNS, coherence, field_of, lead
from tistreamlines.io import nifti
from tistreamlines.io.orientations import Orientations, load_peaks, load_sh
from tistreamlines.space.batch import Space
from tistreamlines.space.harmonics import BASES, basis_of, count_of, sampling_matrix, to_descoteaux, turn_coefficients
from tistreamlines.space.sphere import load_sphere

SHAPE, SIDE = (22, 22, 22), 2.0
TILT = Rotation.from_rotvec([0.3, -0.5, 0.4])
OBLIQUE = Rotation.from_rotvec(np.radians(30) * np.array([1, 2, -1]) / np.sqrt(6)).as_matrix()
FLIP = np.diag([-1.0, 1, 1])
PIR = np.eye(3)[[2, 0, 1]] * [-1, -1, 1]
GRIDS = {"RAS": np.eye(3), "LAS": FLIP, "PIR": PIR, "oblique": OBLIQUE, "OL": OBLIQUE @ FLIP}
BY_TURNS = ["PIR", "OL", *at_night("RAS", "LAS", "oblique")]  # axes exchanged, and oblique and mirrored
needs_mrtrix = pytest.mark.skipif(not shutil.which("mrconvert"), reason="no MRtrix3 (Debian's package mrtrix3)")


def rings(seed=0):
    """Axes (x, y, z, 3) of fibres that run in circles about a tilted axis, and where they are: a ball less its core."""
    points = np.stack(np.indices(SHAPE), axis=-1) - (np.array(SHAPE) - 1) / 2
    pole = TILT.apply([0, 0, 1.0])
    axes = np.cross(pole, points)
    radius = np.linalg.norm(axes, axis=-1)
    axes /= np.maximum(radius, 1e-9)[..., None]
    return axes, (radius > 3) & (radius < 10) & (np.abs(points @ pole) < 7)


def affine_of(axes, shift=(5.0, -7, 11)):
    affine = np.eye(4)
    affine[:3, :3], affine[:3, 3] = axes * SIDE, shift
    return affine


@pytest.fixture(scope="module")
def ring():
    """Signals of the rings, noisy, and their mask."""
    axes, inside = rings()
    clean = signals(gradients(32, 1000.0), axes, np.where(inside, 0.9, 0.0))
    return (clean + np.random.default_rng(0).normal(0, 20, clean.shape)).astype(np.float32), inside


def series(folder, data, axes, bvecs, **grid):
    """Files of a series on a grid whose axes point so; returns their paths."""
    nib.save(nib.Nifti1Image(data, affine_of(axes, **grid)), folder / "dwi.nii.gz")
    np.savetxt(folder / "dwi.bval", gradients(32, 1000.0).bvals[None], "%g")
    np.savetxt(folder / "dwi.bvec", np.asarray(bvecs).T, "%.8f")
    return [folder / name for name in ("dwi.nii.gz", "dwi.bval", "dwi.bvec")]


# ----------------------------------------------------------------------------------------------------------- coherence
def test_turns_are_all_that_differ_for_axes():
    """Of 48 signed permutations, half give the same axes as another."""
    probe = np.array([0.2, 0.5, 0.8])
    every = [np.eye(3)[list(order)] * signs for order in permutations(range(3)) for signs in product((1, -1), repeat=3)]
    every, ours = (
        {tuple(np.round(np.outer(turn @ probe, turn @ probe).ravel(), 9)) for turn in turns}
        for turns in (every, TURNS.values())
    )
    assert every == ours
    assert len(ours) == len(TURNS) == 24


def test_right_axes_lead_clearly():
    axes, inside = rings()
    seen = field_of(inside, axes[inside], np.ones(inside.sum()), np.full(3, SIDE))
    scores = {name: coherence(seen, turn) for name, turn in TURNS.items()}
    assert np.array_equal(coherence(seen, np.stack([*TURNS.values()])), [*scores.values()])
    best = max(scores, key=lambda name: scores[name].mean())
    assert best == "as given"
    assert all(lead(scores[best], scores[name]).clear for name in TURNS if name != best)


def test_straight_fibres_along_an_axis_decide_nothing():
    axes = np.tile([1.0, 0, 0], (*SHAPE, 1))
    seen = field_of(np.ones(SHAPE, bool), axes.reshape(-1, 3), np.ones(axes[..., 0].size), np.ones(3))
    assert not lead(coherence(seen), coherence(seen, TURNS["x flipped"])).clear


# ----------------------------------------------------------------------------------------------------------- gradients
@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("frame", ["voxel", "fsl"])
def test_gradients_come_to_the_voxel_axes(ring, tmp_path, grid, frame):
    """FSL: x flipped where the determinant is positive. Where it is negative, the frames are one."""
    axes, true = GRIDS[grid], gradients(32, 1000.0).bvecs
    flipped = frame == "fsl" and np.linalg.det(axes) > 0
    dwi = nifti.load_dwi(*series(tmp_path, ring[0], axes, true @ FLIP if flipped else true))
    placed, placing = frames.place_gradients(dwi, None, "auto", "dwi.bvec")
    assert np.allclose(placed.gtab.bvecs, true, atol=1e-6)
    assert placing.frame == ("fsl" if flipped else "voxel")
    assert not placing.warnings
    assert bool(placing.notes) == (np.linalg.det(axes) > 0)
    how = "x is flipped, as in FSL" if flipped else "x is not flipped, as in DIPY"
    assert all(note.startswith(f"dwi.bvec: {how}: neighbouring fibres agree ") for note in placing.notes)


def test_what_was_asked_for_is_done_and_doubted(ring, tmp_path):
    true = gradients(32, 1000.0).bvecs
    dwi = nifti.load_dwi(*series(tmp_path, ring[0], np.eye(3), true))
    placed, placing = frames.place_gradients(dwi, None, "fsl", "dwi.bvec")
    assert np.allclose(placed.gtab.bvecs, true @ FLIP, atol=1e-6)
    (text,) = placing.warnings
    assert "as given" in text and "--bvecs-frame" in text
    assert not frames.place_gradients(dwi, None, "voxel", "dwi.bvec")[1].warnings


@pytest.mark.parametrize(("turn", "words"), [([1, 0, 2], "axes in the order y,x,z"), ([0, 1, 2], "z flipped")])
def test_other_faults_are_warned_of(ring, tmp_path, turn, words):
    wrong = gradients(32, 1000.0).bvecs[:, turn]
    if turn == [0, 1, 2]:
        wrong = wrong * [1, 1, -1]
    dwi = nifti.load_dwi(*series(tmp_path, ring[0], FLIP, wrong))
    (text,) = frames.place_gradients(dwi, None, "auto", "dwi.bvec")[1].warnings
    assert words in text


def test_unclear_is_dipys_rule_and_a_warning(tmp_path):
    straight = signals(gradients(32, 1000.0), np.tile([1.0, 0, 0], (*SHAPE, 1)))
    dwi = nifti.load_dwi(*series(tmp_path, straight, np.eye(3), gradients(32, 1000.0).bvecs))
    placed, placing = frames.place_gradients(dwi, None, "auto", "dwi.bvec")
    assert (placed.gtab is dwi.gtab, placing.frame, placing.decided_by) == (True, "voxel", "default")
    assert "--bvecs-frame" in placing.warnings[0]


def test_both_warnings_are_told(ring, tmp_path, monkeypatch):
    """Neither of the two frames leads, and a third way is better than both."""
    scores = {name: np.linspace(0.1, 0.3, 1000) for name in TURNS} | {"z flipped": np.linspace(0.2, 0.4, 1000)}
    monkeypatch.setattr(frames, "gradient_scores", lambda *_: scores)
    dwi = nifti.load_dwi(*series(tmp_path, ring[0], np.eye(3), gradients(32, 1000.0).bvecs))
    unclear, other = frames.place_gradients(dwi, None, "auto", "dwi.bvec")[1].warnings
    assert "give --bvecs-frame" in unclear
    assert "z flipped" in other


def test_a_run_is_the_same_from_either_frame(ring, tmp_path, head):
    """Files to file: bits, the note and the sidecar."""
    bvecs, points = gradients(32, 1000.0).bvecs, {}
    for frame, rows in (("voxel", bvecs), ("fsl", bvecs @ FLIP)):
        folder = tmp_path / frame
        folder.mkdir()
        paths, out = series(folder, ring[0], np.eye(3), rows), folder / "out.trk"
        result = ts.track(*paths, out, nseeds=200, arch="cpu", mask=_mask(folder, ring[1]))
        record = json.loads(out.with_suffix(".json").read_text())
        assert record["frames"]["bvecs"]["frame"] == frame
        assert record["warnings"] == []
        assert result.mean_mm > 10
        points[frame] = nib.streamlines.load(out).streamlines._data
    assert np.array_equal(points["voxel"], points["fsl"])


def _mask(folder, inside, **grid):
    nib.save(nib.Nifti1Image(inside.astype(np.uint8), affine_of(np.eye(3), **grid)), folder / "m.nii")
    return folder / "m.nii"


def test_a_cached_run_tells_again(ring, tmp_path):
    paths = series(tmp_path, ring[0], np.eye(3), gradients(32, 1000.0).bvecs @ FLIP)
    notes = []

    class Ear(ts.Watcher):
        def note(self, text):
            notes.append(text)

    for _ in range(2):
        batches = ts.stream(*paths, nseeds=1, arch="cpu", mask=_mask(tmp_path, ring[1]),
                           cache_dir=tmp_path / "cache", watcher=Ear())
        batches.close()
    assert len([text for text in notes if "x is flipped" in text]) == 2


# ----------------------------------------------------------------------------------------------------------- harmonics
@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("mirror", [1, -1])
def test_turned_harmonics_are_the_functions_turned(basis, mirror):
    rng, full = np.random.default_rng(0), basis_of(basis).full
    order, turn = (5 if full else 8), Rotation.random(random_state=1).as_matrix() * mirror
    values, directions = rng.normal(size=(4, count_of(order, full))), rng.normal(size=(50, 3))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    here = sampling_matrix(directions, order, basis) @ turn_coefficients(values, turn, basis).T
    assert np.allclose(here, sampling_matrix(directions @ turn.T, order, basis) @ values.T, atol=2e-6)


def test_flipped_axes_change_no_bit_but_signs():
    values = np.random.default_rng(0).normal(size=(10, 45)).astype(np.float32)
    assert np.array_equal(np.abs(turn_coefficients(values, FLIP, "tournier07")), np.abs(values))


def lobes(axes, inside, basis, order=8):
    """Coefficients of |cos|**order about the axes: as sharp as the order allows, and nowhere negative."""
    matrix = np.linalg.pinv(sampling_matrix(_sphere(), order, basis))
    samples = (axes[inside] @ _sphere().T) ** order
    values = np.zeros((*SHAPE, matrix.shape[0]), np.float32)
    values[inside] = samples @ matrix.T
    return values


def _sphere():
    return load_sphere("full")[0]


@pytest.mark.parametrize("grid", BY_TURNS)
def test_mrtrix_harmonics_come_to_the_voxel_axes(tmp_path, grid):
    """The same fibres as DIPY writes them and as MRtrix3 does, whatever the grid."""
    axes, inside = rings()
    space = Space(affine_of(GRIDS[grid]), SHAPE)
    scanner = lobes(axes @ space.axes.T, inside, "tournier07")
    stored = Orientations("sh", scanner, "tournier07", None, space)
    placed, placing = frames.place_orientations(stored, "scanner", "fod")
    expected = lobes(axes, inside, "descoteaux07_legacy")
    assert np.allclose(to_descoteaux(placed.values, "tournier07"), expected, atol=2e-6)
    assert not placing.warnings
    assert bool(placing.notes) == (grid != "RAS")


@pytest.mark.parametrize("grid", BY_TURNS)
def test_a_tracker_turns_coefficients_too(grid):
    """As MRtrix3 has them, and as DIPY: the same rows."""
    axes, inside = rings()
    image = nib.Nifti1Image(inside.astype(np.float32), affine_of(GRIDS[grid]))
    space, (vertices, edges), rows = Space(image.affine, SHAPE), load_sphere("default"), []
    for basis, directions in (("tournier07", axes @ space.axes.T), ("descoteaux07", axes)):
        dg = drop_in.ProbDirectionGetter(sh_basis=basis)
        tracker = drop_in.Tracker(dg, lobes(directions, inside, basis), image.dataobj, 0.5, vertices, edges, arch="cpu")
        rows.append(tracker._tables(np.argwhere(inside)[:1].astype(float), space).arrays["volume_rows"])
    # monomials are far from orthogonal, so that rounding counts more than in harmonics
    assert np.allclose(*rows, atol=1e-5 * np.abs(rows[0]).max())


def test_seeds_in_a_file_that_are_voxels(ring, tmp_path):
    """On a grid whose first voxel lies 100 mm away, they would be outside, but for a few."""
    paths = series(tmp_path, ring[0], np.eye(3), gradients(32, 1000.0).bvecs, shift=(100, 0, 0))
    voxels = np.argwhere(ring[1])
    mask = _mask(tmp_path, ring[1], shift=(100, 0, 0))
    np.savetxt(tmp_path / "seeds.txt", np.concatenate([voxels, [[120, 10, 10]]]))
    said = rf"seeds\.txt: as RASmm {len(voxels)} of .* as voxel coordinates {len(voxels)}"
    with pytest.raises(ts.InputError, match=said):
        ts.track(*paths, seeds=tmp_path / "seeds.txt", arch="cpu", mask=mask)


@pytest.mark.parametrize(
    ("basis", "asked", "said"),
    [
        ("tournier07", "voxel", "along the scanner axes"),
        ("descoteaux07_legacy", "scanner", "in basis tournier07 "),
        ("descoteaux07", "voxel", "in basis tournier07 along the scanner axes"),
    ],
)
def test_a_wrong_basis_or_frame_is_warned_of(basis, asked, said):
    axes, inside = rings()
    space = Space(affine_of(GRIDS["oblique"]), SHAPE)
    values = lobes(axes @ space.axes.T, inside, "tournier07")
    _, placing = frames.place_orientations(Orientations("sh", values, basis, None, space), asked, "fod")
    assert said in placing.warnings[0]


def test_a_basis_of_another_scale_is_warned_of():
    """tournier07_legacy's coefficients read as tournier07's: but for m = 0 all counts sqrt(2) times."""
    axes, inside = rings()
    values = lobes(axes, inside, "tournier07_legacy")
    oriented = Orientations("sh", values, "tournier07", None, Space(affine_of(np.eye(3)), SHAPE))
    assert "check --sh-basis" in frames.place_orientations(oriented, "scanner", "fod")[1].warnings[0]
    right = replace(oriented, basis="tournier07_legacy")
    assert not frames.place_orientations(right, "scanner", "fod")[1].warnings


@pytest.mark.parametrize("basis", ["descoteaux07", *at_night("descoteaux07_legacy", "tournier07_legacy")])
def test_advice_names_the_likely_basis_first(basis):
    """That of MRtrix3; tournier07_legacy, which scores alike, is named for no file, and no legacy basis for a .mif."""
    axes, inside = rings()
    space, advice = Space(affine_of(np.eye(3)), SHAPE), set()
    for true in ("tournier07", "descoteaux07_legacy"):
        oriented = Orientations("sh", lobes(axes, inside, true), basis, None, space)
        for name in ("fod.nii.gz", "fod.mif", "FOD.MIF.GZ"):
            for warning in frames.frame_of_orientations(oriented, "voxel", name).warnings:
                advised = re.findall(r"(?:better in|% in) (?:basis )?(\w+)", warning)[-1]
                mif = "mif" in name.lower()
                assert advised == (true if true == "tournier07" or not mif else "another"), warning
                advice.add((advised, mif))
    if basis.startswith("descoteaux07"):
        assert {("tournier07", False), ("tournier07", True)} <= advice
    if basis != "descoteaux07_legacy":
        assert {("descoteaux07_legacy", False), ("another", True)} <= advice


# --------------------------------------------------------------------------------------------------------------- peaks
@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("frame", ["voxel", "scanner"])
def test_peaks_come_to_the_voxel_axes(grid, frame):
    axes, inside = rings()
    space = Space(affine_of(GRIDS[grid]), SHAPE)
    stored = (axes if frame == "voxel" else axes @ space.axes.T) * inside[..., None]
    peaks = Orientations("peaks", stored.astype(np.float32), None, None, space)
    placed, placing = frames.place_orientations(peaks, "auto", "peaks")
    assert np.allclose(placed.values, axes * inside[..., None], atol=1e-6)
    assert placing.frame == (frame if grid != "RAS" else "voxel")
    assert not placing.warnings


def test_peaks_that_do_not_tell(tmp_path):
    space = Space(affine_of(FLIP), SHAPE)
    straight = Orientations("peaks", np.tile(np.float32([1, 0, 0]), (*SHAPE, 1)), None, None, space)
    assert "--peaks-frame" in frames.place_orientations(straight, "auto", "peaks")[1].warnings[0]


# ----------------------------------------------------------------------------------------------------- region of seeds
def test_a_map_as_a_seed_mask(tmp_path):
    space = Space(affine_of(np.eye(3)), SHAPE)
    fa, notes, alarms = np.full(SHAPE, 0.6, np.float32), [], []
    fa[..., :5] = 0.7
    nib.save(nib.Nifti1Image(fa, space.affine), tmp_path / "fa.nii")
    nifti.load_mask(tmp_path / "fa.nii", space, notes.append, alarms.append)
    assert not notes and f"all {fa.size} voxels of at least 0.5" in alarms[0] and "100% of the image" in alarms[0]
    fa[2:] = 0
    nib.save(nib.Nifti1Image(fa, space.affine), tmp_path / "fa.nii")
    nifti.load_mask(tmp_path / "fa.nii", space, notes.append, alarms.append)
    assert len(alarms) == 1 and "9% of the image" in notes[0]
    nib.save(nib.Nifti1Image(255 * (fa > 0).astype(np.uint8), space.affine), tmp_path / "mask.nii")
    nifti.load_mask(tmp_path / "mask.nii", space, notes.append, alarms.append)
    assert (len(notes), len(alarms)) == (1, 1)


def test_python_is_warned(tmp_path):
    straight = signals(gradients(32, 1000.0), np.tile([1.0, 0, 0], (*SHAPE, 1)))
    paths = series(tmp_path, straight, np.eye(3), gradients(32, 1000.0).bvecs)
    with pytest.warns(UserWarning, match="bvecs_frame"):
        ts.stream(*paths, nseeds=1, arch="cpu", mask=_mask(tmp_path, np.ones(SHAPE))).close()
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        ts.stream(*paths, nseeds=1, arch="cpu", mask=_mask(tmp_path, np.ones(SHAPE)),
                 bvecs_frame="voxel").close()


# ------------------------------------------------------------------------------------------------------ MRtrix3 itself
@needs_mrtrix
@pytest.mark.skipif(not CROP.is_dir(), reason="no real data at ../shared/data/sherbrooke_crop")
@pytest.mark.parametrize("strides", ["1,2,3,4", "-1,2,3,4", "3,1,-2,4"])
def test_gradients_that_mrtrix_exports(tmp_path, strides):
    """mrconvert writes FSL's frame for any grid; in RAS axes all of them are the same gradients."""
    bvecs = np.loadtxt(CROP / "dwi.bvec")
    np.savetxt(tmp_path / "fsl.bvec", FLIP @ (bvecs if len(bvecs) == 3 else bvecs.T))  # the crop's are the voxel axes'
    out = [tmp_path / name for name in ("out.nii", "out.bvec", "out.bval")]
    command = ["mrconvert", "-quiet", CROP / "dwi.nii.gz", "-fslgrad", tmp_path / "fsl.bvec", CROP / "dwi.bval", out[0]]
    subprocess.run([*command, "-strides", strides, "-export_grad_fsl", *out[1:]], check=True)
    dwi = nifti.load_dwi(out[0], out[2], out[1])
    placed, placing = frames.place_gradients(dwi, None, "auto", "out.bvec")
    truth = nifti.load_dwi(CROP / "dwi.nii.gz", CROP / "dwi.bval", CROP / "dwi.bvec")
    assert np.allclose(placed.gtab.bvecs @ placed.space.axes.T, truth.gtab.bvecs @ truth.space.axes.T, atol=2e-4)
    assert not placing.warnings


@needs_mrtrix
@pytest.mark.parametrize("grid", ["oblique", *at_night("LAS")])
def test_harmonics_that_mrtrix_samples(tmp_path, grid):
    """sh2amp's samples along directions of the scanner, and ours along the same ones in voxel axes; sh2peaks' too."""
    axes, inside = rings()
    space = Space(affine_of(GRIDS[grid]), SHAPE)
    values = lobes(axes @ space.axes.T, inside, "tournier07")
    nib.save(nib.Nifti1Image(values, space.affine), tmp_path / "fod.nii")
    directions = _sphere()[:40]
    np.savetxt(tmp_path / "directions.txt", directions)
    files = [tmp_path / name for name in ("fod.nii", "directions.txt", "amp.nii", "peaks.nii")]
    subprocess.run(["sh2amp", "-quiet", *files[:3]], check=True)
    subprocess.run(["sh2peaks", "-quiet", "-num", "1", files[0], files[3]], check=True)
    placed, _ = frames.place_orientations(load_sh(files[0], "tournier07"), "scanner", "fod.nii")
    ours = placed.values @ sampling_matrix(directions @ space.axes, 8, "tournier07").T
    assert np.allclose(ours[inside], nib.load(files[2]).get_fdata()[inside], atol=1e-5)
    peaks, placing = frames.place_orientations(load_peaks(files[3]), "auto", "peaks.nii")
    cosines = np.abs(np.einsum("ij,ij->i", peaks.values[inside], axes[inside]))
    assert placing.frame == "scanner"
    assert (cosines > 0.99 * np.linalg.norm(peaks.values[inside], axis=1)).all()
