"""Damaged inputs, and inputs that are no files: found out, and told in one line."""

import gzip
from contextlib import nullcontext

import nibabel as nib
import numpy as np
import pytest
from series_files import AFFINE, BVALS, SHAPE, SPACE, Case, directions, fails, signals

from tistreamlines.io.nifti import load_map, load_mask


@pytest.fixture
def case(tmp_path):
    return Case(tmp_path)


def flipped(path, place):
    """Turn a bit of a file around."""
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("place", [-8, -1], ids=["checksum", "length"])
def test_the_end_of_a_compressed_series_is_compared(case, place):
    """Nothing but the checksum tells of most damages; here the data are whole and it is not."""
    flipped(case.folder / "dwi.nii.gz", place)
    with fails("dwi.nii.gz", "is damaged", "CRC" if place == -8 else "length"):
        case.load()


def test_a_damaged_value_of_a_compressed_series(case):
    path = case.image(signals())
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()), 0))  # stored, so that every flip can be unpacked
    flipped(path, -2000)
    with fails("dwi.nii.gz", "is damaged (CRC"):
        case.load()


def test_what_a_damage_makes_of_values_is_not_told(case):
    path = case.image(np.full((*SHAPE, len(BVALS)), np.nan, np.float32))
    flipped(path, -8)
    with fails("dwi.nii.gz", "is damaged (CRC"):
        case.load()


def test_garbage_behind_a_compressed_series(case):
    path = case.folder / "dwi.nii.gz"
    path.write_bytes(path.read_bytes() + b"garbage")
    with fails("dwi.nii.gz", "is damaged", "Not a gzipped file (b'ga')"):
        case.load()


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (80, np.float32(-1), ""), (108, np.float32(128), "cannot be read"), (70, np.int16(255), "cannot be read"),
        (308, np.int32(0x7FA00001), "cannot be inverted"), (112, np.float32(3e38), "inf in voxel"),
    ],
    ids=["side below 0", "begin", "type", "affine", "slope"],
)
def test_one_line_is_said_of_a_header(case, caplog, recwarn, place, value, message):
    """nibabel logs what it mends or refuses, and NumPy warns."""
    path = case.image(signals(), name="dwi.nii")
    content = bytearray(path.read_bytes())
    content[place : place + value.nbytes] = value.tobytes()
    path.write_bytes(content)
    with fails("dwi.nii", message) if message else nullcontext():
        case.load("dwi.nii")
    assert not caplog.records
    assert not recwarn.list


@pytest.mark.parametrize("load", [load_mask, load_map])
@pytest.mark.parametrize("name", ["map.nii.gz", "map.mgz", "map.nii.bz2"])
def test_damaged_maps(case, load, name):
    path, kind = case.folder / name, nib.MGHImage if name.endswith("mgz") else nib.Nifti1Image
    nib.save(kind(np.ones(SHAPE, np.float32), AFFINE), path)
    load(path, SPACE)
    flipped(path, -6)
    with fails(name, "cannot be read"):
        load(path, SPACE)


@pytest.mark.parametrize("value", [1e31, -3e38])
def test_values_whose_products_no_number_holds(case, recwarn, value):
    data = signals()
    data[1, 2, 3, 6] = value
    case.image(data)
    with fails("dwi.nii.gz", f"{np.float32(value)} in voxel (1, 2, 3) of volume 6", "1e+30"):
        case.load()
    path = case.image(data[..., 6], name="map.nii")
    with fails("map.nii", "in voxel (1, 2, 3)"):
        load_map(path, SPACE)
    assert not recwarn.list


@pytest.mark.parametrize("name", ["dwi.bval", "dwi.bvec"])
def test_gradients_that_no_scanner_has(case, recwarn, name):
    bvals, bvecs = BVALS.copy(), directions()
    (bvals if name == "dwi.bval" else bvecs[:, 0])[4] = 1e200
    case.gradients(bvals, bvecs)
    with fails(name, "1e+200", "volume 4"):
        case.load()
    assert not recwarn.list
