"""MRtrix3's own tests of ``dwi2fod msmt_csd`` and ``mtnormalise``, with ``tistreamlines fod`` in their place.

The commands and the bound are those of ``testing/binaries/tests`` in MRtrix3 3.0.8. MRTRIX3_TEST_DATA names a copy of
its test_data, where the results are. Without it, there is the phantom in shared/data, and the installed programs make
the results.
"""


import numpy as np
import pytest
from mrtrix_tests import DATA, inputs

import tistreamlines as ts
from tistreamlines.fit.normalise import normalise_tissues
from tistreamlines.io.images import open_image, read_array

ABSOLUTE = 1e-5  # testing_diff_image -abs 1e-5
TISSUES = {"wm": "wmfod", "gm": "gm", "csf": "csf"}  # the files of MRtrix3's tests, and ours
MRTRIX = pytest.mark.skipif(DATA is None, reason="MRTRIX3_TEST_DATA names no copy of MRtrix3's test_data")
# of amp2response in all voxels of the phantom; nothing in it is like the second tissue
RESPONSES = {
    "wm": "35.449077 0 0 0 0\n1.000134 -0.827427 0.505963 -0.224983 0.060683\n", "csf": "35.449077\n0.0044\n",
}


def read(path):
    return np.asarray(read_array(*open_image(path)), np.float64)


def fit(folder, **options):
    """Fit the series of MRtrix3's tests with their responses."""
    series = DATA / "dwi2fod/msmt"
    responses = {f"response_{name}": series / f"{name}.txt" for name in TISSUES}
    ts.fit_fods(series / "dwi.mif", folder=folder, **responses, **options)


@MRTRIX
@pytest.mark.parametrize("end", ["", "_masked"])
def test_dwi2fod(tmp_path, end):
    mask = read(DATA / "dwi2fod/msmt/mask.mif") > 0
    fit(tmp_path / "fods", mask=mask if end else np.ones_like(mask), normalise=False)
    for theirs, ours in TISSUES.items():
        difference = read(tmp_path / f"fods/{ours}.mif") - read(DATA / f"dwi2fod/msmt/{theirs}{end}.mif")
        assert np.abs(difference).max() < ABSOLUTE


@MRTRIX
def test_mtnormalise(tmp_path):
    """In the mask, beyond which ``fod`` fits nothing; and everywhere, of the same input."""
    fit(tmp_path / "fods", mask=DATA / "dwi2fod/msmt/mask.mif")
    mask = read(DATA / "dwi2fod/msmt/mask.mif") > 0
    tissues = {name: read(DATA / f"dwi2fod/msmt/{name}.mif").astype(np.float32) for name in TISSUES}
    degree0 = {name: values.reshape(*mask.shape, -1)[..., 0] for name, values in tissues.items()}
    known = normalise_tissues(degree0, mask)
    for theirs, ours in TISSUES.items():
        expected = read(DATA / f"mtnormalise/{theirs}.mif")
        assert np.abs(read(tmp_path / f"fods/{ours}.mif") - expected)[mask].max() < ABSOLUTE
        assert np.abs(known.apply(tissues[theirs], theirs) - expected).max() < ABSOLUTE
    field = read(DATA / "mtnormalise/field.mif")
    assert np.abs(read(tmp_path / "fods/field.mif") - field).max() < ABSOLUTE
    assert np.abs(known.field - field).max() < ABSOLUTE


@pytest.fixture(scope="module")
def phantom(tmp_path_factory):
    """A folder with the FODs of the phantom, and what calls programs of MRtrix3 there."""
    folder = tmp_path_factory.mktemp("phantom")
    call = inputs(folder, "dwi2fod")
    for name, text in RESPONSES.items():
        (folder / f"{name}.txt").write_text(text)
    responses = {f"response_{name}": folder / f"{name}.txt" for name in RESPONSES}
    mask = folder / "SIFT_phantom/mask.mif"
    ts.fit_fods(folder / "SIFT_phantom/dwi.mif", folder=folder / "fods", mask=mask, normalise=False, **responses)
    return folder, call


def test_phantom(phantom):
    folder, call = phantom
    call("dwi2fod msmt_csd SIFT_phantom/dwi.mif wm.txt wm.mif csf.txt csf.mif -mask SIFT_phantom/mask.mif -nthreads 1")
    for name in RESPONSES:
        assert np.abs(read(folder / f"fods/{TISSUES[name]}.mif") - read(folder / f"{name}.mif")).max() < ABSOLUTE


@pytest.mark.nightly
def test_streamlines_and_their_weights(phantom):
    """By day, other programs go on in test_fods; tcksift2 takes two seconds."""
    folder, call = phantom
    call("tckgen fods/wmfod.mif tracks.tck -seed_image fods/mask.mif -mask fods/mask.mif -select 200")
    call("tcksift2 tracks.tck fods/wmfod.mif weights.txt")
    lines = (folder / "weights.txt").read_text().splitlines()
    weights = np.array(" ".join(line for line in lines if not line.startswith("#")).split(), float)
    assert len(weights) == 200
    assert weights.min() > 0
    assert np.isfinite(weights).all()
