"""Reports on tracking: seeds, numbers of them, random numbers, regions, and values that are not numbers."""

from __future__ import annotations

import json
from typing import Any

import nibabel as nib
import numpy as np
from head import make_head, tracked

from tistreamlines.space.harmonics import sampling_matrix

from .scene import SHAPE, Scene, head, plain


def _fods(scene: Scene, values: Any = None) -> list[object]:
    fods = 2 * sampling_matrix([[0.0, 1, 0]], 4, "tournier07")[0]
    fods = np.broadcast_to(fods.astype(np.float32), (*SHAPE, 15)).copy() if values is None else values
    image = scene.image("fods.nii", fods)
    mask = scene.image("mask.nii", np.pad(np.ones([size - 2 for size in SHAPE], np.uint8), 1))
    return ["--sh", image, "--sh-basis", "tournier07", "--dg", "ifod2", "--seed-mask", mask, "--mask", mask, "--arch",
            "cpu", "--nseeds", 50]


def nan_in_fods(scene: Scene) -> None:
    """NaN in FODs ends streamlines there, and is said."""
    arguments = _fods(scene)
    fods = np.asarray(nib.load(scene / "fods.nii").dataobj).copy()
    fods[5, 9, 6] = np.nan
    arguments = _fods(scene, fods)
    outcome = scene.track(arguments)
    assert "fods.nii" in outcome.err
    points = np.concatenate(list(nib.streamlines.load(scene / "out.tck").streamlines))
    assert len(points)
    assert np.isfinite(points).all()


def nan_outside_the_mask(scene: Scene) -> None:
    """NaN outside the mask of a series is background."""
    arguments = scene.series()
    exact = plain(scene.tracked(arguments))
    data = head().data.astype(np.float32)
    scene.series(data=data)
    assert plain(scene.tracked(arguments)) == exact
    data[~head().mask] = np.nan
    scene.image("dwi.nii", data, head().affine)
    assert plain(scene.tracked(arguments)) == exact


def seeds_outside_the_image(scene: Scene) -> None:
    """Seeds outside the image give no streamline, and are counted."""
    arguments = scene.peaks()
    seeds = np.load(scene / "seeds.npy")
    np.save(scene / "seeds.npy", np.concatenate([seeds, seeds[:7] + 1000]))
    scene.track(arguments, output="out.trx")
    assert json.loads((scene / "out.json").read_text())["result"]["seeds"] == len(seeds) + 7


def seeds_without_a_direction(scene: Scene) -> None:
    """Seeds where there is no direction are counted, not lost."""
    arguments = scene.peaks()
    image = nib.load(scene / "peaks.nii.gz")
    peaks = np.asarray(image.dataobj).copy()
    peaks[:8] = 0
    scene.image("peaks.nii.gz", peaks)
    scene.track(arguments, output="out.trx")
    counts = json.loads((scene / "out.json").read_text())["result"]
    assert counts["seeds"] == len(np.load(scene / "seeds.npy"))
    assert 0 < counts["streamlines"] < counts["seeds"]


def the_same_again(scene: Scene) -> None:
    """Two runs have the same bytes."""
    arguments = scene.series()
    scene.track(arguments, output="a.trx")
    scene.track(arguments, output="b.trx")
    assert (scene / "a.trx").read_bytes() == (scene / "b.trx").read_bytes()


def the_first_of_more_seeds(scene: Scene) -> None:
    """A run of more seeds begins with the streamlines of a run of fewer."""
    arguments = scene.series()
    few = plain(scene.tracked(arguments))
    more = plain(scene.tracked([200 if word == 60 else word for word in arguments]))
    assert len(more) > len(few) > 0
    assert more[: len(few)] == few


def seeds_in_each_voxel(scene: Scene) -> None:
    """--seeds-per-voxel 2 means two in each voxel of the mask, not eight and not one."""
    arguments = [word for word in scene.series() if word not in ("--nseeds", 60)]
    seeds = np.zeros(head().mask.shape, np.uint8)
    seeds[tuple(np.argwhere(head().mask)[::30].T)] = 1
    mask = scene.image("seeds.nii", seeds, head().affine)
    scene.track(arguments, "--seed-mask", mask, "--seeds-per-voxel", 2, output="out.trx")
    assert json.loads((scene / "out.json").read_text())["result"]["seeds"] == 2 * seeds.sum()


def statistics_of_nothing(scene: Scene) -> None:
    """The statistics of a run without streamlines are numbers, and something is said."""
    arguments = scene.peaks()
    outcome = scene.track(arguments, "--min-length", 240, "--max-length", 241, "--json-stats", scene / "s.json",
                          output="none.trx")
    assert "NaN" not in (scene / "s.json").read_text()
    assert "NaN" not in (scene / "none.json").read_text()
    assert "Warning: " in outcome.err


def a_region_that_steps_jump_over(scene: Scene) -> None:
    """An include region thinner than a step: something is said."""
    arguments = scene.peaks()
    affine = np.diag([2.0, 0.2, 2, 1])
    thin = np.zeros((SHAPE[0], 180, SHAPE[2]), np.uint8)
    thin[:, 90] = 1
    region = scene.image("thin.nii", thin, affine)
    outcome = scene.track(arguments, "--include", region, "--step-size", 1)
    assert "thin.nii" in outcome.err


def lengths_after_cropping(scene: Scene) -> None:
    """Streamlines that are cropped at the interface of grey and white matter keep to the least length."""
    folder = make_head(scene.folder)
    result = tracked(folder, crop_at_gmwmi=True, min_length=40)
    lengths = [np.linalg.norm(np.diff(line, axis=0), axis=1).sum() for line in result.streamlines]
    assert lengths
    assert min(lengths) > 39.6  # 40 less a step: lengths are counted in steps, as by tckgen


def peaks_without_a_mask(scene: Scene) -> None:
    """Streamlines of FODs end where FODs end, and all points lie in the image."""
    lines = scene.tracked(_fods(scene))
    points = np.concatenate(list(lines)) / 2
    assert (points > -0.5).all()
    assert (points < np.array(SHAPE) - 0.5).all()
