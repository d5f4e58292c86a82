"""Images of labels as tck2connectome takes them, and the line that names the voxel of what is no label."""

import shutil
import struct
import subprocess

import nibabel as nib
import numpy as np
import pytest

import tistreamlines as ts
from tistreamlines.errors import InputError
from tistreamlines.io.segmentations import read_labels

AFFINE = np.diag([2.0, 2.0, 2.0, 1.0])
SLOPE = 112  # byte of scl_slope, which scl_inter follows
LABELS = np.zeros((10, 10, 10))
LABELS[:3], LABELS[3:5], LABELS[5:7], LABELS[7:] = 1, 2, 3, 50


def scaled(slope, inter=0.0):
    """An image of 16-bit numbers, whose header scales them to LABELS, nearly."""
    stored = np.rint((LABELS - inter) / slope).astype(np.int16)
    content = bytearray(nib.Nifti1Image(stored, AFFINE).to_bytes())
    struct.pack_into("<ff", content, SLOPE, slope, inter)
    return bytes(content)


def plain(values, kind=np.float64):
    return nib.Nifti1Image(np.asarray(values, kind), AFFINE).to_bytes()


def changed(value):
    values = LABELS.copy()
    values[8, 1, 2] = value
    return values


ACCEPTED = {
    "whole": plain(LABELS, np.int16), "real": plain(LABELS), "slope 0.1": scaled(0.1), "slope 0.05": scaled(0.05),
    "slope and intercept": scaled(0.1, 10.0), "an axis of one volume": plain(LABELS[..., None], np.int16),
    "rounded": plain(LABELS * (1 + 2**-26)),
}
REFUSED = {
    "a half": (plain(changed(1.5)), r"value 1\.5 in voxel \(8, 1, 2\) is no label; give whole numbers"),
    "off by more than rounding": (plain(LABELS * (1 + 1e-6)), r"value 1\.000001 in voxel .* and others, 1,000"),
    "no number": (plain(changed(np.nan), np.float32), r"value nan in voxel \(8, 1, 2\) is no label"),
    "scaled to no whole numbers": (scaled(0.4, 0.1), r"value 0\.9\d* in voxel"),
    "negative": (plain(changed(-3), np.int16), r"value -3 in voxel \(8, 1, 2\) is no label; give labels from 0 on"),
    "negative and real": (plain(changed(-3), np.float32), r"value -3 in voxel \(8, 1, 2\) is no label"),
    "two volumes": (plain(np.stack([LABELS, LABELS], axis=-1), np.int16), "fractions, such as 2 in voxel"),
}


@pytest.fixture
def folder(tmp_path):
    lines = [(np.random.default_rng(number).random((2, 3)) * 18).astype(np.float32) for number in range(40)]
    nib.streamlines.save(nib.streamlines.Tractogram(lines, affine_to_rasmm=np.eye(4)), str(tmp_path / "lines.tck"))
    return tmp_path


def matrix(folder, name):
    """The matrix of counts."""
    result = ts.map_tractogram(folder / "lines.tck", connectome=(folder / name, folder / "our.csv"), force=True)
    return result["products"]["connectome"][0].values["count"]


def peers(folder, name):
    """What tck2connectome makes, or None if it refuses the image."""
    command = ["tck2connectome", "lines.tck", name, "their.csv", "-symmetric", "-force", "-quiet"]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    return None if done.returncode else np.loadtxt(folder / "their.csv", delimiter=",")


@pytest.mark.parametrize("case", ACCEPTED)
def test_labels_that_are_accepted(folder, case):
    (folder / "labels.nii").write_bytes(ACCEPTED[case])
    assert np.array_equal(read_labels(folder / "labels.nii").values, LABELS)
    counts = matrix(folder, "labels.nii")
    assert counts.shape == (50, 50)
    assert counts.sum() > 40
    if shutil.which("tck2connectome"):
        np.testing.assert_array_equal(counts, peers(folder, "labels.nii"))


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_label_is_named(folder, case):
    content, words = REFUSED[case]
    (folder / "labels.nii").write_bytes(content)
    with pytest.raises(InputError, match=words):
        matrix(folder, "labels.nii")
    if shutil.which("tck2connectome") and not case.startswith("scaled"):  # which it rounds
        assert peers(folder, "labels.nii") is None


def test_labels_that_the_table_lacks_are_counted(folder):
    (folder / "labels.nii").write_bytes(ACCEPTED["whole"])
    for rows, words in (("1 a\n50 b\n", ["2 labels are not in the lookup table (2, 3), and count as no node"]),
                        ("1 a\n2 b\n3 c\n50 d\n", [])):
        (folder / "table.txt").write_text(rows)
        asked = {"connectome": (folder / "labels.nii", folder / "our.csv"), "connectome_nodes": folder / "table.txt"}
        warnings = ts.map_tractogram(folder / "lines.tck", **asked, force=True)["warnings"]
        assert [text for text in warnings if "lookup table" in text and not text.endswith(" streamlines")] == [
            f"{folder / 'labels.nii'}: {missing}: check that the table belongs to it" for missing in words
        ]
