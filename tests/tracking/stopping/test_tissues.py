"""Tissue maps in the wrong order are told from how the tissues lie, without a series."""

from functools import cache
from itertools import permutations

import nibabel as nib
import numpy as np
import pytest
from places import DATA
from scipy.ndimage import gaussian_filter

import tistreamlines as ts
from tistreamlines.phantom.phantom import make_phantom
from tistreamlines.tracking.stopping.tissues import NAMES, describe_exchange, exclude_in_place

SIFT = DATA / "mrtrix_sift_phantom" / "5tt.mif"
RIGHT = (0, 1, 2)


def brain():
    """Folded cortex around white matter, fluid in the sulci, around all and in two ventricles; soft borders."""
    x, y, z = np.indices((60, 70, 60)) / np.array([30.0, 35, 30])[:, None, None, None] - 1
    radius = np.sqrt(x**2 + y**2 + z**2)
    angle, height = np.arctan2(y, x), np.arctan2(z, np.hypot(x, y))
    folds = 0.05 * np.cos(14 * angle) * np.cos(10 * height)
    ventricles = ((abs(x) - 0.12) / 0.08) ** 2 + (y / 0.3) ** 2 + (z / 0.15) ** 2 < 1
    white = (radius < 0.68 + folds) & ~ventricles
    grey = (radius < 0.8 + folds) & ~white & ~ventricles
    fluid = ventricles | ((radius < 0.88) & ~white & ~grey)
    maps = [gaussian_filter(tissue.astype(np.float32), 0.7) for tissue in (white, grey, fluid)]
    return [np.where(radius < 0.9, tissue, 0) for tissue in maps]


def phantom(shape, side):
    tissues = make_phantom(shape, voxel_mm=side, n_b0=1, n_dirs=6).tissues
    return [tissues[name] for name in ("wm", "gm", "csf")]


def sift():
    """The tissues of MRtrix3's phantom, whose fluid surrounds two bundles with grey matter at their ends."""
    if not SIFT.exists():
        pytest.skip(f"{SIFT} is not here")
    with SIFT.open("rb") as file:
        head, data = file.read().split(b"\nEND\n", 1)
    lines = dict(line.split(": ", 1) for line in head.decode().splitlines()[1:] if ": " in line)
    shape, layout = eval(lines["dim"]), lines["layout"].split(",")
    assert lines["datatype"].startswith("Float32LE")
    start = int(lines["file"].split()[1]) - len(head) - len(b"\nEND\n")
    ranks = [int(word[1:]) for word in layout]
    stored = np.frombuffer(data[start:], "<f4", int(np.prod(shape)))
    axes = np.argsort(ranks)[::-1]  # the slowest axis first
    values = stored.reshape([shape[axis] for axis in axes]).transpose(np.argsort(axes))
    return [values[..., 2], values[..., 0] + values[..., 1], values[..., 3]]


MAKERS = {
    "folded": brain, "demo": lambda: phantom((48, 58, 46), 3.0), "small demo": lambda: phantom((18, 22, 17), 8.0),
    "MRtrix3": sift,
}


@cache
def maps_of(name):
    """White and grey matter and fluid of a brain."""
    return MAKERS[name]()


@pytest.mark.parametrize("name", MAKERS)
def test_each_wrong_order_is_found(name):
    maps = maps_of(name)
    assert describe_exchange(*maps) == ""
    for order in permutations(range(3)):
        said = describe_exchange(*(maps[tissue] for tissue in order))
        if order == RIGHT:
            assert said == ""
            continue
        for place, tissue in enumerate(order):
            assert (f"the map of {NAMES[place]} lies like {NAMES[tissue]}" in said) == (place != tissue), order


@pytest.mark.parametrize("name", MAKERS)
def test_maps_of_ends_and_of_fluid(name):
    """The maps of the whole image, where ends are valid outside of all tissue."""
    white, grey, fluid = maps_of(name)
    grey = grey + (white + grey + fluid == 0)
    assert exclude_in_place(grey, fluid)
    assert not exclude_in_place(fluid, grey)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The smallest of the brains, since each run looks along which axes all of its peaks lie."""
    folder, affine = tmp_path_factory.mktemp("brain"), np.diag([8.0, 8, 8, 1])
    white, grey, fluid = maps_of("small demo")
    grey = np.minimum(grey, 1 - white)
    fluid = np.minimum(fluid, 1 - white - grey)
    peaks = np.zeros((*white.shape, 3), np.float32)
    peaks[..., 0] = 1
    include = np.where(white + grey + fluid == 0, 1, grey)
    parts = {"wm": white, "gm": grey, "csf": fluid, "include": include, "peaks": peaks}
    for name, values in parts.items():
        nib.save(nib.Nifti1Image(values.astype(np.float32), affine), folder / f"{name}.nii.gz")
    return folder


@pytest.mark.parametrize("rule", ["act", "cmc"])
def test_a_run_without_a_series_warns(files, rule, recwarn):
    def warned(**maps):
        common = {"peaks": files / "peaks.nii.gz", "peaks_frame": "voxel", "seed_mask": files / "wm.nii.gz"}
        named = {name: files / f"{file}.nii.gz" for name, file in maps.items()}
        result = ts.track(stopping=rule, dg="det", nseeds=20, arch="cpu", **common, **named)
        assert len(result.warnings) == len(recwarn)
        recwarn.clear()
        return result.warnings

    assert warned(pve_wm="wm", pve_gm="gm", pve_csf="csf") == ()
    (said,) = warned(pve_wm="wm", pve_gm="csf", pve_csf="gm")
    assert "the map of grey matter lies like cerebrospinal fluid" in said
    said, nothing = warned(pve_wm="gm", pve_gm="wm", pve_csf="csf")
    assert "the map of white matter lies like grey matter" in said
    assert "no streamline was accepted" in nothing
    assert warned(include_map="include", exclude_map="csf") == ()
    (said,) = warned(include_map="csf", exclude_map="include")
    assert "they may be exchanged" in said
