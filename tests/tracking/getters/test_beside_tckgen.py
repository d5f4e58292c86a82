"""Runs with options drawn at random, beside tckgen: how many streamlines are accepted, and how long they are."""

import os
import random
import shutil
import subprocess

import nibabel as nib
import numpy as np
import pytest
from nights import at_night
from scipy.ndimage import gaussian_filter
from streamlines import lengths

import tistreamlines as ts
from tistreamlines.space.batch import mean_side
from tistreamlines.space.harmonics import sampling_matrix

SHAPE, SEEDS = (150, 30, 24), 1500
FAR = 4.0  # standard errors, beyond which 48 comparisons come by chance once in 330 nights
SIDES = {"equal": (1.25, 1.25, 1.25), "unequal": (1.1, 1.5, 2.4)}  # of voxels, mm
OF_ACT = ("act", "backtrack", "crop_at_gmwmi")
# what can be drawn: our name and tckgen's, and values; lengths of steps are in voxels
VALUES = {
    "step_size": ("step", (0.3, 0.5, 0.8)), "max_angle": ("angle", (20, 30, 60)), "samples": ("samples", (2, 3, 6)),
    "power": ("power", (0.2, 0.5, 1)), "cutoff": ("cutoff", (0.03, 0.06, 0.15)), "min_length": ("minlength", (5, 15)),
    "max_length": ("maxlength", (60, 150, 400)), "trials": ("trials", (50, 200)),
}
FLAGS = {"one_way": "seed_unidirectional", "backtrack": "backtrack", "crop_at_gmwmi": "crop_at_gmwmi"}


@pytest.fixture(scope="module")
def mazes(tmp_path_factory):
    """Fibres that turn at random among pockets of fluid, of cortex, of deep grey matter and without fibres."""
    folder, rng = tmp_path_factory.mktemp("mazes"), np.random.default_rng(1)
    turns = np.stack([gaussian_filter(rng.normal(size=SHAPE), 4.0) for _ in range(3)], axis=-1)
    turns[..., 0] += 0.06  # most lead along x, so that some paths are long
    turns /= np.linalg.norm(turns, axis=-1, keepdims=True)
    fods = 1.5 * sampling_matrix(turns.reshape(-1, 3), 8, "tournier07").reshape(*SHAPE, -1)
    noise = [gaussian_filter(rng.normal(size=SHAPE), 1.5) for _ in range(4)]
    shares = (0.99, 0.92, 0.97, 0.97)
    fluid, deep, cortex, bare = (part > np.quantile(part, share) for part, share in zip(noise, shares, strict=True))
    fods[bare] *= 0.02
    kinds = np.select([fluid, deep, cortex], [3, 1, 0], 2)
    tissues = np.stack([gaussian_filter((kinds == kind).astype(float), 0.4) for kind in range(5)], axis=-1)
    for name, sides in SIDES.items():
        affine = np.diag([*sides, 1.0])
        for what, values in (("fod", fods), ("5tt", tissues), ("mask", np.ones(SHAPE))):
            nib.save(nib.Nifti1Image(values.astype(np.float32), affine), folder / f"{name}-{what}.nii")
    return folder


def draw_options(number: int) -> tuple[str, str, dict[str, object]]:
    """Shape of the voxels, direction getter and options of a run."""
    rng = random.Random(number)
    shape, dg = rng.choice(list(SIDES)), rng.choice(["ifod2", "ifod2", "ifod2", "ifod1"])
    chosen = {name: rng.choice(values) for name, (_, values) in VALUES.items() if rng.random() < 0.4}
    if "step_size" in chosen:
        chosen["step_size"] = round(mean_side(SIDES[shape]) * chosen["step_size"] * (1 if dg == "ifod2" else 0.3), 3)
    if dg == "ifod1":
        chosen.pop("samples", None)
    if rng.random() < 0.6:
        chosen["act"] = True
    for name in FLAGS:
        if rng.random() < 0.4 and (name not in OF_ACT or "act" in chosen):
            chosen[name] = True
    return shape, dg, chosen


@pytest.mark.skipif(not shutil.which("tckgen"), reason="no MRtrix3")
@pytest.mark.parametrize("number", [0, *at_night(*range(1, 24))])
def test_as_many_streamlines_of_the_same_lengths(mazes, tmp_path, number):
    shape, dg, options = draw_options(number)
    fod, mask, tissues = (mazes / f"{shape}-{what}.nii" for what in ("fod", "mask", "5tt"))
    words = ["tckgen", "-quiet", "-nthreads", 2, "-algorithm", dg, "-seed_image", mask, "-seeds", SEEDS, "-select", 0]
    for name, value in options.items():
        if name in FLAGS:
            words.append(f"-{FLAGS[name]}")
        else:
            words += ["-act", tissues] if name == "act" else [f"-{VALUES[name][0]}", value]
    words += [fod, tmp_path / "theirs.tck"]
    subprocess.run(list(map(str, words)), check=True, env=os.environ | {"MRTRIX_RNG_SEED": "1"})
    theirs = lengths(nib.streamlines.load(tmp_path / "theirs.tck").streamlines)
    known = options | ({"act": tissues} if "act" in options else {})
    run = ts.track(sh=fod, sh_basis="tournier07", dg=dg, seed_mask=mask, nseeds=SEEDS, arch="cpu", **known)
    ours = lengths(run.streamlines)
    share = (len(ours) + len(theirs)) / (2 * SEEDS)
    error = np.sqrt(2 * SEEDS * share * (1 - share)) + 1
    assert abs(len(ours) - len(theirs)) < FAR * error, (len(ours), len(theirs), options)
    if min(len(ours), len(theirs)) > 30:
        error = np.sqrt(np.var(ours) / len(ours) + np.var(theirs) / len(theirs))
        # a bound of lengths counts steps here, and their chords there
        assert abs(np.mean(ours) - np.mean(theirs)) < FAR * error + 0.5, (np.mean(ours), np.mean(theirs), options)
