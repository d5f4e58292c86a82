"""Headers that contradict themselves, or do not say where an image lies: one rule, beside nibabel and mrinfo."""

import shutil
import struct
import subprocess

import mif_files
import nibabel as nib
import numpy as np
import pytest
from places import DATA

from tistreamlines.io.images import open_image
from tistreamlines.io.in_memory import source_of
from tistreamlines.io.placement import placement_doubts

SHAPE = (60, 50, 40)
AFFINE = nib.affines.from_matvec(np.diag([2.0, 2, 2]), [-5, -6, -7])
PIXDIM, CODES = 80, 252  # bytes of a header before these
mrinfo = pytest.mark.skipif(shutil.which("mrinfo") is None, reason="mrinfo is not installed: install mrtrix3")


def moved(shift=0.0, turn=0.0):
    """AFFINE, moved along x by mm, and turned about z by radians."""
    matrix = nib.eulerangles.euler2mat(turn)
    return nib.affines.from_matvec(matrix, [shift, 0, 0]) @ AFFINE


def saved(path, sform=AFFINE, qform=AFFINE, codes=(1, 1), sizes=None):
    """Write an image with both affines, the codes of sform and qform, and perhaps other sizes of voxels."""
    image = nib.Nifti1Image(np.zeros(SHAPE, np.uint8), None)
    image.set_qform(qform, 1)
    image.set_sform(sform, 1)
    content = bytearray(image.to_bytes())
    struct.pack_into("<hh", content, CODES, codes[1], codes[0])
    if sizes is not None:
        struct.pack_into("<fff", content, PIXDIM, *sizes)
    path.write_bytes(content)
    return path


CASES = {  # what is written, and what is said
    "equal": ({}, ""),
    "only the sform": ({"codes": (1, 0), "qform": moved(9)}, ""),
    "only the qform": ({"codes": (0, 1), "sform": moved(9)}, ""),
    "moved by a hundredth of a voxel": ({"qform": moved(0.02)}, ""),
    "moved by half a voxel": ({"qform": moved(1)}, "up to 1 mm"),
    "turned by little": ({"qform": moved(turn=1e-4)}, ""),
    "turned": ({"qform": moved(turn=0.01)}, "sform and qform place the image differently"),
    "aligned to a template": ({"qform": moved(30), "codes": (4, 1)}, "up to 30 mm"),
    "qform of a higher code": ({"qform": moved(30), "codes": (1, 2)}, "the sform is used"),
    "other sizes": ({"sizes": (1, 1, 1)}, "pixdim says that voxels are 1 x 1 x 1 mm, the sform 2 x 2 x 2 mm"),
    "no sizes": ({"sizes": (0, 0, 0), "codes": (1, 0)}, "pixdim says"),
    "sizes that are no numbers": ({"sizes": (np.nan, 2, 2), "codes": (1, 0)}, "pixdim says"),
    "neither": ({"codes": (0, 0)}, "does not say where the image lies"),
}


@pytest.mark.parametrize("case", CASES)
def test_each_case_is_said_once_and_the_affine_is_nibabels(tmp_path, case):
    what, said = CASES[case]
    path = saved(tmp_path / "image.nii", **what)
    doubts = placement_doubts([path, str(path), tmp_path / "image.txt"])
    assert len(doubts) == bool(said)
    assert all(text.startswith(f"{path}: ") and said in text and "\n" not in text for text in doubts)
    np.testing.assert_array_equal(open_image(path).image.affine, nib.load(path).affine)


@mrinfo
@pytest.mark.parametrize("case", [case for case in CASES if "sizes" not in case])
def test_mrinfo_warns_in_the_same_cases_and_takes_the_same_form(tmp_path, case):
    """Where neither is set, MRtrix3 takes the first axis in the other sense, so the warning is due."""
    what, said = CASES[case]
    path = saved(tmp_path / "image.nii", **what)
    done = subprocess.run(["mrinfo", "-transform", path], capture_output=True, text=True, check=True)
    assert ("[WARNING]" in done.stderr) == bool(said), done.stderr
    transform = np.array([line.split() for line in done.stdout.splitlines()], float)
    affine = open_image(path).image.affine
    same = np.allclose(transform @ np.diag([2, 2, 2, 1]), affine, atol=1e-4)
    assert same == (case != "neither")


def test_other_formats_and_images_in_memory(tmp_path):
    values = np.zeros(SHAPE, np.uint8)
    nib.save(nib.analyze.AnalyzeImage(values, np.diag([-2.0, 2, 2, 1])), tmp_path / "analyze.img")
    nib.save(nib.Nifti1Pair(values, AFFINE), tmp_path / "pair.img")
    nib.save(nib.MGHImage(values, AFFINE), tmp_path / "placed.mgz")
    mif_files.write(tmp_path / "placed.mif")
    mif_files.write(tmp_path / "unplaced.mif", transform=None)
    lost = nib.Nifti1Image(values, None)
    lost.header["sform_code"] = lost.header["qform_code"] = 0
    names = ("analyze.hdr", "pair.hdr", "pair.img", "placed.mgz", "placed.mif", "unplaced.mif")
    memory = [source_of("mask", image) for image in (lost, nib.Nifti1Image(values, AFFINE), values)]
    doubts = placement_doubts([*(tmp_path / name for name in names), *memory[:1]])
    wrong = [text.split(":")[0].split("/")[-1] for text in doubts]
    assert wrong == ["analyze.hdr", "unplaced.mif", "mask (in memory)"]
    assert not placement_doubts(memory[1:])


@pytest.mark.parametrize("kind", [nib.spatialimages.SpatialImage, nib.minc1.Minc1Image, nib.Spm2AnalyzeImage])
def test_headers_without_forms_raise_no_doubt(kind):
    assert placement_doubts([source_of("mask", kind(np.zeros(SHAPE, np.uint8), AFFINE))]) == []


def test_damaged_and_missing_files_are_left_to_those_who_read_them(tmp_path):
    (tmp_path / "damaged.nii.gz").write_bytes(b"no image")
    assert placement_doubts([tmp_path / "damaged.nii.gz", tmp_path / "missing.nii"]) == []


@pytest.mark.skipif(not DATA.is_dir(), reason=f"no data in {DATA}")
def test_real_data_raise_no_doubt():
    """The greatest distance of their forms is 2e-5 mm, of 0.1 of a voxel that are allowed."""
    images = [path for path in DATA.glob("*/*") if {".nii", ".mif"} & set(path.suffixes)]
    assert len(images) > 10
    assert placement_doubts(images) == []
