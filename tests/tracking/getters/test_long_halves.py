"""Halves as long as tckgen's: only ``--max-length`` limits them, however the seed lies between the ends."""

import shutil
import subprocess

import nibabel as nib
import numpy as np
import pytest
from nights import at_night
from streamlines import lengths

import tistreamlines as ts
from tistreamlines.options.parameters import Parameters
from tistreamlines.run.setup import settings_on
from tistreamlines.space.batch import Space
from tistreamlines.space.harmonics import sampling_matrix

LONG, AT, LIMIT, SEEDS = 230, 20, 250, 60  # voxels of 1 mm; a half has 100 of them where only the default limits it
ALGORITHMS = {"fact": "FACT", "sd_stream": "SD_Stream", "ifod1": "iFOD1", "ifod2": "iFOD2"}


@pytest.fixture(scope="module")
def field(tmp_path_factory):
    """Fibres along x without end, as FODs and as peaks."""
    folder, shape = tmp_path_factory.mktemp("field"), (LONG, 31, 31)
    fods = np.broadcast_to(np.float32(2 * sampling_matrix([[1.0, 0, 0]], 8, "tournier07")[0]), (*shape, 45))
    peaks = np.broadcast_to(np.float32([1, 0, 0]), (*shape, 3))
    for name, values in (("fods", fods), ("peaks", peaks)):
        nib.save(nib.Nifti1Image(values, np.eye(4)), folder / f"{name}.nii")
    return folder


@pytest.mark.skipif(not shutil.which("tckgen"), reason="no MRtrix3")
@pytest.mark.parametrize(
    ("dg", "options"),
    [("fact", {}), ("ifod2", {}), ("ifod2", {"samples": 6}), *at_night(("sd_stream", {}), ("ifod1", {}))],
)
def test_lengths_are_those_of_tckgen(field, tmp_path, dg, options):
    image, ball = field / ("peaks.nii" if dg == "fact" else "fods.nii"), f"{AT},15,15,2"
    more = [word for name, value in options.items() for word in (f"-{name}", value)]
    words = ["tckgen", "-quiet", "-nthreads", 0, "-algorithm", ALGORITHMS[dg], "-seed_sphere", ball, "-seeds", SEEDS,
             "-select", 0, "-maxlength", LIMIT, image, tmp_path / "t.tck", *more]
    subprocess.run(list(map(str, words)), check=True)
    theirs = lengths(nib.streamlines.load(tmp_path / "t.tck").streamlines)
    source = {"peaks": image, "peaks_frame": "voxel"} if dg == "fact" else {"sh": image, "sh_basis": "tournier07"}
    run = ts.track(**source, dg=dg, seed_sphere=ball, nseeds=SEEDS, max_length=LIMIT, arch="cpu", **options)
    ours = lengths(run.streamlines)
    assert min(len(ours), len(theirs)) > SEEDS / 4  # half of FACT's seeds find no peak near their random direction
    assert max(theirs) > LONG - AT  # the limit of a half would show
    error = np.sqrt(np.var(ours) / len(ours) + np.var(theirs) / len(theirs))
    assert abs(np.mean(ours) - np.mean(theirs)) < 3 * error + 0.5


@pytest.mark.parametrize(("options", "most"), [
    ({"dg": "ifod2"}, 602), ({"dg": "ifod2", "samples": 6}, 1002), ({"dg": "ifod2", "max_length": 250.0}, 1502),
    ({"dg": "ifod2", "max_length": 250.0, "max_steps": 70}, 70), ({"dg": "ifod1"}, 1002), ({"dg": "prob"}, 500),
    ({"dg": "prob", "max_length": 400.0}, 802),
    ({"dg": "prob", "max_length": 40.0}, 82), ({"dg": "prob", "max_length": 1e5}, 10_000),
])
def test_the_limit_of_a_half_follows_from_that_of_streamlines(options, most):
    assert settings_on(Space(np.eye(4), (60, 60, 60)), Parameters.given(options)).max_steps == most


@pytest.mark.skipif(not shutil.which("tckgen"), reason="no MRtrix3")
@pytest.mark.parametrize("dg", ALGORITHMS)
def test_voxels_of_unequal_sides_give_the_lengths_of_tckgen(tmp_path, dg):
    """Step and bounds by default, which both write into the header."""
    affine, shape = np.diag([1.5, 2.0, 3.5, 1.0]), (12, 12, 12)
    fods = np.broadcast_to(np.float32(2 * sampling_matrix([[1.0, 0, 0]], 4, "tournier07")[0]), (*shape, 15))
    values = np.broadcast_to(np.float32([1, 0, 0]), (*shape, 3)) if dg == "fact" else fods
    image = tmp_path / "image.nii"
    nib.save(nib.Nifti1Image(values, affine), image)
    words = ["tckgen", "-quiet", "-algorithm", ALGORITHMS[dg], "-seed_sphere", "8,10,20,2", "-seeds", 9, "-select", 0]
    subprocess.run(list(map(str, [*words, image, tmp_path / "theirs.tck"])), check=True)
    source = {"peaks": image, "peaks_frame": "voxel"} if dg == "fact" else {"sh": image, "sh_basis": "tournier07"}
    ts.track(**source, output=tmp_path / "ours.tck", dg=dg, seed_sphere="8,10,20,2", nseeds=9, arch="cpu")
    ours, theirs = (nib.streamlines.load(tmp_path / f"{name}.tck").header for name in ("ours", "theirs"))
    for name in ("step_size", "min_dist", "max_dist"):
        assert float(ours[name]) == pytest.approx(float(theirs[name]), rel=1e-4), name
