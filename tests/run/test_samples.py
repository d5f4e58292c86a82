"""Whole runs through bedpostX's samples: frames, defaults, cache, parts, regions, particles and messages."""

from __future__ import annotations

import nibabel as nib
import numpy as np
import pytest
from linked import contents
from plans import described
from sample_files import POSITIVE, mirrored, save_samples

import tistreamlines as ts
from tistreamlines.errors import InputError, ParameterError
from tistreamlines.run import resume

SHAPE = (20, 14, 8)
NAMES = [f"merged_{role}{fibre}samples.nii.gz" for fibre in (1, 2) for role in ("th", "ph", "f")]
TISSUES = ("pve_wm", "pve_gm", "pve_csf")
ALL = {"min_length": 0, "rng_seed": 3, "arch": "cpu"}


def bundles() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Directions in scanner space around an axis and along the first one, fractions, and a mask, of five samples."""
    rng = np.random.default_rng(2)
    place = np.moveaxis(np.indices(SHAPE).astype(float), 0, -1) @ POSITIVE[:3, :3].T
    around = np.stack([-place[..., 1] - 8, place[..., 0], 0.2 + 0 * place[..., 0]], axis=-1)
    around /= np.linalg.norm(around, axis=-1, keepdims=True)
    lines = np.stack([around, np.broadcast_to([1.0, 0, 0], around.shape)], axis=3)[:, :, :, None]
    lines = lines + 0.1 * rng.normal(size=(*SHAPE, 5, 2, 3))
    lines /= np.linalg.norm(lines, axis=-1, keepdims=True)
    mask = np.zeros(SHAPE, bool)
    mask[1:-1, 1:-1, 1:-1] = True
    fractions = rng.uniform([0.5, 0.0], [0.9, 0.3], (*SHAPE, 5, 2))
    return lines, fractions * mask[..., None, None], mask


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    lines, fractions, mask = bundles()
    return save_samples(tmp_path_factory.mktemp("samples") / "subject.bedpostX", lines, fractions, POSITIVE, mask)


@pytest.fixture(scope="module")
def whole(folder):
    return ts.track(bedpostx=folder, nseeds=300, **ALL)


def same(result, other) -> bool:
    """Whether two results have the same bits."""
    return len(result) == len(other) and all(map(np.array_equal, result, other))


def test_the_folder_is_all_that_a_run_needs(folder, whole):
    """Step, angle and rule are probtrackx2's; seeds lie in the mask, and no point is outside it."""
    chosen, mask = whole.parameters, nib.load(folder / "nodif_brain_mask.nii.gz").get_fdata() > 0
    assert (chosen.dg, chosen.stopping, chosen.max_steps, chosen.max_angle) == ("bedpostx", "binary", 2000, 80)
    assert whole.record["step_mm"] == 0.5
    assert whole.record["frames"]["bedpostx"]["frame"] == "fsl"
    assert len(whole) > 250  # a border voxel's neighbours have no samples
    for points in (np.concatenate(list(whole)), whole.sample.seeds):
        assert mask[tuple(np.rint(whole.space.to_voxel(points)).astype(int).T)].all()
    assert whole.mean_mm > 20
    assert not whole.warnings


@pytest.mark.parametrize("modified", [False, True])
def test_streamlines_do_not_depend_on_how_the_first_axis_is_stored(modified, tmp_path):
    """The samples of all voxels are alike, so that it does not matter which of them a word draws."""
    lines = bundles()[0]
    lines = np.broadcast_to(lines[10, 7, 4], lines.shape)
    folders = []
    for step, affine in enumerate((POSITIVE, mirrored(POSITIVE, SHAPE[0]))):
        folders.append(save_samples(tmp_path / str(step), lines, np.full((*SHAPE, 5, 2), 0.4), affine))
    seeds = np.tile(POSITIVE[:3, :3] @ [9.3, 6.2, 3.9] + POSITIVE[:3, 3], (40, 1))
    result, other = (ts.track(bedpostx=path, seeds=seeds, modified_euler=modified, **ALL) for path in folders)
    assert len(result) == len(other) == 40
    for line, mirror in zip(result, other, strict=True):
        assert line.shape == mirror.shape
        assert np.allclose(line, mirror, atol=1e-4)
    assert np.ptp([line[-1] for line in result], axis=0).max() > 1


def test_files_in_a_list_and_an_object_are_the_same_run(folder, whole):
    files = [folder / name for name in NAMES]
    assert same(ts.track(bedpostx=files, nseeds=300, **ALL), whole)
    merged = ts.track(bedpostx=f"{folder}/merged", nseeds=300, **ALL)  # as probtrackx2's --samples
    assert same(merged, whole)
    digests = [[entry["sha256"] for entry in result.record["inputs"].values()] for result in (merged, whole)]
    assert digests[0] == digests[1]
    assert same(ts.track(dg=ts.choice("dg", "bedpostx")(bedpostx=folder), nseeds=300, **ALL), whole)


def test_a_mask_in_memory_is_on_the_grid_of_the_samples(folder, whole):
    mask = nib.load(folder / "nodif_brain_mask.nii.gz").get_fdata() > 0
    assert same(ts.track(bedpostx=folder, seed_mask=mask, nseeds=300, **ALL), whole)


def test_the_cache_keeps_the_tables(folder, whole, tmp_path):
    """The second run reads the tables; other samples, another angle or another step have others."""
    kept = ALL | {"nseeds": 300, "cache_dir": tmp_path, "bedpostx": folder}
    assert same(ts.track(**kept), whole)
    files = sorted(tmp_path.rglob("*.*"))
    assert same(ts.track(**kept), whole)
    assert sorted(tmp_path.rglob("*.*")) == files
    for change in ({"step_size": 0.7}, {"max_angle": 60.0}, {"min_f": 0.2}):
        plain = {name: value for name, value in kept.items() if name != "cache_dir"}
        assert same(ts.track(**kept | change), ts.track(**plain | change)), change
        assert not same(ts.track(**kept | change), whole), change


def test_parts_and_a_run_that_goes_on_have_the_bytes_of_one_run(folder, tmp_path, monkeypatch):
    named = ALL | {"nseeds": 300, "bedpostx": folder, "modified_euler": True}
    ts.track(output=tmp_path / "whole.trx", **named)
    parts = [tmp_path / f"{k}.trx" for k in (1, 2, 3)]
    for k, path in enumerate(parts, 1):
        ts.track(output=path, part=f"{k}/3", **named)
    ts.join(parts, tmp_path / "joined.trx")
    monkeypatch.setattr(resume, "FEWEST", 50)
    monkeypatch.setattr(resume, "MOST", 50)
    real, left = resume._track_piece, [3]

    def stop(*arguments, **more):
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return real(*arguments, **more)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(resume, "_track_piece", stop)
        ts.track(output=tmp_path / "on.trx", resume=True, **named)
    ts.track(output=tmp_path / "on.trx", resume=True, **named)
    whole = (tmp_path / "whole.trx").read_bytes()
    assert (tmp_path / "joined.trx").read_bytes() == whole
    assert (tmp_path / "on.trx").read_bytes() == whole


def test_regions_select_streamlines(folder, whole):
    """Streamlines are those of the run without regions whose points lie in two balls and not in a third."""
    balls = [(*whole.space.to_ras(np.array([centre]))[0], 5.0) for centre in ([4, 7, 4], [14, 7, 4], [9, 2, 4])]
    texts = [",".join(f"{number:.3f}" for number in ball) for ball in balls]
    result = ts.track(bedpostx=folder, nseeds=300, include=texts[:2], exclude=texts[2], **ALL)
    balls = [tuple(map(float, text.split(","))) for text in texts]
    inside = [[(np.linalg.norm(line - ball[:3], axis=1) < ball[3]).any() for ball in balls] for line in whole]
    expected = [line for line, (a, b, c) in zip(whole, inside, strict=True) if a and b and not c]
    assert 5 < len(expected) < 200
    assert same(result, expected)


def test_particles_look_for_a_way_on(folder, tmp_path):
    """With tissue fractions more halves end in grey matter when particles help."""
    place = np.indices(SHAPE)[0]
    grey, fluid = (place < 3) | (place > 16), (place > 8) & (place < 11) & (np.indices(SHAPE)[1] < 6)
    maps = {"pve_gm": grey, "pve_csf": fluid & ~grey, "pve_wm": ~grey & ~fluid}
    images = {name: nib.Nifti1Image(values.astype(np.float32), POSITIVE) for name, values in maps.items()}
    named = {"bedpostx": folder, "stopping": "cmc", "nseeds": 300} | images | ALL
    plain, helped = ts.track(**named), ts.track(pft=True, **named)
    assert helped.stop_reasons["valid_end"] > plain.stop_reasons["valid_end"]
    assert same(ts.track(pft=True, chunk_size=7, **named), helped)


def test_density_without_streamlines(folder, whole, tmp_path):
    ts.track(bedpostx=folder, nseeds=300, density=tmp_path / "density.nii.gz", **ALL)
    counts = nib.load(tmp_path / "density.nii.gz").get_fdata()
    assert counts.shape == SHAPE
    assert counts.max() > 8


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ({"bedpostx": "nowhere.bedpostX"}, "no such folder; give a folder of bedpostX"),
        ({"dg": "bedpostx"}, "give bedpostx"),
        ({"dg": "prob", "bedpostx": "here"}, "dg bedpostx"),
        ({"bedpostx": "here", "sphere": "full"}, "not with dg bedpostx"),
        ({"bedpostx": "here", "seeds": np.tile([0, 20, 10, 1, 0, 0], (2, 1))}, "without directions"),
        ({"bedpostx": "here", "dg": "bedpostx", "sh_basis": "tournier07"}, "needs sh"),
    ],
)
def test_what_does_not_fit_is_told(named, words, folder):
    if named.get("bedpostx") == "here":
        named = named | {"bedpostx": folder}
    with pytest.raises((InputError, ParameterError), match=words) as caught:
        ts.track(**named, arch="cpu")
    assert "\n" not in caught.value.on_command_line


@pytest.mark.parametrize("named", [{}, {"modified_euler": True, "random_fibre": True, "stopping": "cmc"}])
def test_kernels_are_known_before_the_values_are_read(named, folder):
    """The parts that the headers tell are linked with the same constants, so nothing is compiled after these."""
    if "stopping" in named:
        named = named | {name: nib.Nifti1Image(np.full(SHAPE, 0.3, np.float32), POSITIVE) for name in TISSUES}
    parameters = ts.Parameters.given({"bedpostx": folder, "seed_seed": 1} | named)
    plan, parts, _ = described({}, parameters)
    assert contents(parts) == contents(plan.prepared)


def test_axes_that_do_not_fit_are_told(tmp_path):
    """Bundles are diagonal; with x flipped, fibres do not continue one another. The warning names the folder."""
    x, y, _ = np.indices((24, 24, 6))
    lines = np.broadcast_to(np.array([-1, 1, 0]) / np.sqrt(2), (24, 24, 6, 2, 1, 3))
    fractions = np.broadcast_to(np.where((x - y) % 8 < 2, 0.5, 0.02)[..., None, None], (24, 24, 6, 2, 1))
    wrong = save_samples(tmp_path / "wrong.bedpostX", lines, fractions, np.eye(4))
    (warning,) = ts.track(bedpostx=wrong, nseeds=50, **ALL).warnings
    assert warning.startswith(f"{wrong}: ")
    assert "x flipped" in warning
