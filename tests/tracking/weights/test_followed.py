"""Weights and dynamic seeds by what streamlines follow: FODs of a file or a fit, functions, samples of fibres."""

import nibabel as nib
import numpy as np
import pytest
from commands import one_line
from dipy.data import get_sphere
from fods import random_fods
from sample_files import save_samples
from synthetic import gradients, noisy_crossing

import tistreamlines as ts
from tistreamlines.devices import choose
from tistreamlines.io.samples import load_samples, sample_files
from tistreamlines.space.geodesic import half_sphere
from tistreamlines.space.harmonics import sampling_matrix
from tistreamlines.tracking.weights.fixels import fixels_of

SHAPE = (8, 8, 8)
TURN = np.linalg.qr(np.random.default_rng(4).normal(size=(3, 3)))[0]
AFFINE = np.eye(4)
AFFINE[:3, :3], AFFINE[:3, 3] = TURN * [2.0, 1.5, 2.5], [-30, 12, 5]
COMMON = {"arch": "cpu", "min_length": 0, "nseeds": 200}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Random FODs in MRtrix3's basis along the scanner's axes, and a mask."""
    folder = tmp_path_factory.mktemp("followed")
    nib.save(nib.Nifti1Image(random_fods(512, seed=1)[0].reshape(*SHAPE, -1), AFFINE), folder / "fod.nii.gz")
    nib.save(nib.Nifti1Image(np.ones(SHAPE, np.uint8), AFFINE), folder / "mask.nii.gz")
    return folder


def track(files, name, **options):
    inside = {"seed_mask": files / "mask.nii.gz", "stop_mask": files / "mask.nii.gz", "stopping": "binary"}
    inside |= COMMON | options
    if "seed_dynamic" in options:
        inside.pop("seed_mask")
    result = ts.track(output=files / f"{name}.tck", force=True, **inside)
    return result, result.products.get("sift2")


def test_fods_of_a_file_are_those_of_its_name(files):
    """Tracked FODs are turned to the voxel axes first."""
    sh = {"sh": files / "fod.nii.gz", "sh_basis": "tournier07", "dg": "ifod1"}
    named = {"sift2": (files / "fod.nii.gz", files / "a.txt"), "sift2_basis": "tournier07"}
    _, of_file = track(files, "a", **sh, **named)
    _, tracked = track(files, "b", **sh, sift2=("tracked", files / "b.txt"))
    assert len(tracked.iterations) > 5
    np.testing.assert_allclose(tracked.mu, of_file.mu, rtol=1e-4)
    assert np.corrcoef(of_file.coefficients, tracked.coefficients)[0, 1] > 0.999
    seeds = ({"seed_dynamic": files / "fod.nii.gz", "seed_dynamic_basis": "tournier07"}, {"seed_dynamic": "tracked"})
    runs = [track(files, "c", **sh, **more, seed_round=300)[0] for more in seeds]
    assert abs(runs[0].n_streamlines - runs[1].n_streamlines) < 10
    assert not all("seed_dynamic" in run.record["inputs"] for run in runs)


def test_fods_that_are_fitted(files, tmp_path):
    """The fit of CSD is that of a run which writes nothing of it; a cache of tables changes nothing."""
    gtab = gradients(45)
    series = {"dwi": noisy_crossing(gtab, SHAPE, snr=30.0), "gtab": gtab, "affine": AFFINE, "bvecs_frame": "voxel",
              "dg": "prob", "model": "csd", "response": [1.7e-3, 3e-4, 3e-4, 1000.0]}
    coefficients = [
        track(files, "d", **series, sift2=("tracked", files / "d.txt"), cache_dir=tmp_path)[1].coefficients
        for _ in range(2)
    ]
    assert coefficients[0].std() > 0.05
    np.testing.assert_array_equal(*coefficients)
    result, _ = track(files, "e", **series, seed_dynamic="tracked")
    assert result.n_streamlines > 100
    with pytest.raises(ts.ParameterError, match="opdt has no densities of fibres: give model csd, or an image"):
        track(files, "f", **series | {"model": "opdt", "response": None}, sift2=("tracked", files / "f.txt"))


def test_weights_alone_write_a_file_beside_the_tractogram(files, run, monkeypatch):
    monkeypatch.chdir(files)
    sh = ["--sh", "fod.nii.gz", "--sh-basis", "tournier07", "--dg", "ifod1", "--seed-mask", "mask.nii.gz", "-q"]
    sh += ["--stopping", "binary", "--stop-mask", "mask.nii.gz", "--nseeds", "200", "--arch", "cpu", "--force"]
    done = run("track", *sh, "--weights", "sift2", "-o", "beside.tck", "--ends", "ends.nii.gz")
    assert done.code == 0, done.err
    weights = np.loadtxt("beside_weights.txt")
    assert len(weights) == len(nib.streamlines.load("beside.tck").streamlines) and weights.std() > 0.01
    np.testing.assert_allclose(nib.load("ends.nii.gz").get_fdata().sum(), 2 * weights.sum(), rtol=1e-3)
    one_line(run("track", *sh, "--weights", "sift2", "-o", "p.tck", "--part", "1/2"), 2, "tistreamlines join")
    one_line(run("track", *sh, "--weights", "beside_weights.txt", "-o", "p.tck"), 2, "--weights weighs nothing: give")


def test_functions_sampled_on_a_sphere(files):
    """They make the weights of the harmonics that they were sampled from."""
    values = random_fods(512, seed=1, basis="descoteaux07_legacy")[0].reshape(*SHAPE, -1)
    sphere = get_sphere(name="repulsion724")
    sampled = values @ sampling_matrix(sphere.vertices, 8, "descoteaux07_legacy").T.astype(np.float32)
    nib.save(nib.Nifti1Image(sampled, AFFINE), files / "odf.nii.gz")
    nib.save(nib.Nifti1Image(values, AFFINE), files / "sh.nii.gz")
    odf = {"odf": files / "odf.nii.gz", "sphere": "full", "dg": "prob", "sift2": ("tracked", files / "g.txt")}
    _, weights = track(files, "g", **odf)
    again = ts.map_tractogram(
        files / "g.tck", sift2=(files / "sh.nii.gz", files / "h.txt"), sift2_basis="descoteaux07_legacy", force=True
    )["products"]["sift2"]
    assert np.corrcoef(weights.coefficients, again.coefficients)[0, 1] > 0.999


@pytest.fixture(scope="module")
def samples(files):
    """Samples of two fibres in each voxel around known directions, the second one weak in half of the voxels."""
    rng = np.random.default_rng(3)
    axes = rng.normal(size=(*SHAPE, 1, 2, 3))
    axes /= np.linalg.norm(axes, axis=-1, keepdims=True)
    directions = axes + 0.1 * rng.normal(size=(*SHAPE, 12, 2, 3))
    directions *= rng.choice([-1, 1], (*SHAPE, 12, 2, 1)) / np.linalg.norm(directions, axis=-1, keepdims=True)
    fractions = np.stack([np.full(SHAPE, 0.5), np.where(np.indices(SHAPE)[0] < 4, 0.02, 0.3)], axis=-1)
    fractions = np.repeat(fractions[..., None, :], 12, axis=-2)
    return save_samples(files / "a.bedpostX", directions @ TURN.T, fractions, AFFINE), axes[..., 0, :, :] @ TURN.T


def test_samples_of_fibres(files, samples):
    """A fixel for each fibre that is not weak, in its direction, with its mean fraction."""
    folder, axes = samples
    fixels = fixels_of(load_samples(sample_files(folder)), choose("cpu"), None, print)
    counts = np.where(np.indices(SHAPE)[0] < 4, 1, 2)
    np.testing.assert_array_equal(fixels.table.counts, counts)
    kept = axes[np.arange(2) < counts[..., None]]
    cosines = np.abs((fixels.directions * kept).sum(axis=1))
    assert np.degrees(np.arccos(np.minimum(cosines, 1))).max() < 6
    expected = np.broadcast_to([0.5, 0.3], (*SHAPE, 2))[np.arange(2) < counts[..., None]]
    np.testing.assert_allclose(fixels.fibres, expected, rtol=1e-5)
    half = half_sphere()[0]
    labels = fixels.table.lobes.view(np.uint8)[:, : len(half)]
    first = fixels.table.counts.ravel().cumsum() - fixels.table.counts.ravel()
    for voxel in (0, 300, 511):
        nearby = fixels.directions[first[voxel] : first[voxel] + fixels.table.counts.ravel()[voxel]]
        np.testing.assert_array_equal(labels[voxel], np.abs(half @ nearby.T).argmax(axis=1))
    _, weights = track(files, "i", bedpostx=folder, dg="bedpostx", sift2=("tracked", files / "i.txt"))
    assert weights.mu > 0 and weights.coefficients.std() > 0.05
    with pytest.raises(ts.ParameterError, match="leave sift2_no_dilate_lut out"):
        track(files, "j", bedpostx=folder, dg="bedpostx", sift2=("tracked", files / "j.txt"), sift2_no_dilate_lut=True)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--peaks", "peaks.nii.gz", "--dg", "det"], "--peaks has no densities of fibres"),
        (["--sh", "fod.nii.gz", "--sh-basis", "tournier07", "--seed-dynamic", "tracked", "--part", "1/2"], "exclude"),
    ],
)
def test_one_line_where_there_are_no_densities(files, options, words, run, monkeypatch):
    monkeypatch.chdir(files)
    nib.save(nib.Nifti1Image(np.ones((*SHAPE, 3), np.float32), AFFINE), "peaks.nii.gz")
    place = [] if "--seed-dynamic" in options else ["--seed-mask", "mask.nii.gz", "--sift2", "tracked", "x.txt"]
    done = run("track", *options, *place, "--stopping", "binary", "--stop-mask", "mask.nii.gz", "--nseeds", "9",
               "-o", "x.tck", "-q", "--arch", "cpu")
    assert done.code and done.err.splitlines()[-1].startswith("Error: ") and words in done.err
    one_line(run("map", "a.tck", "--sift2", "tracked", "x.txt"), 2, "--sift2 tracked needs tistreamlines track")
    assert not (files / "x.txt").exists()
