"""After an error, no thread reads a file any more: who writes to one that is mapped into memory would end Python."""

from __future__ import annotations

import time

import nibabel as nib
import numpy as np
import pytest
from series_files import AFFINE, BVALS, SHAPE, Case, directions, signals

import tistreamlines as ts
from tistreamlines.errors import InputError
from tistreamlines.io import images, sidecar, stored_image, tractograms


class Slow:
    """Functions that take long, and how many of their calls have begun and ended."""

    def __init__(self):
        self.begun = self.ended = 0

    def put(self, patch, module, name, fails=lambda *_: False):
        function = getattr(module, name)

        def slow(*arguments):
            self.begun += 1
            try:
                if fails(*arguments):
                    raise ValueError("damaged")
                time.sleep(0.2)
                return function(*arguments)
            finally:
                self.ended += 1

        patch.setattr(module, name, slow)

    @property
    def still(self):
        """Whether no call goes on, and none begins."""
        begun = self.begun
        return self.ended == begun and (time.sleep(0.5) or self.begun == begun)


@pytest.fixture
def slow(monkeypatch):
    """Reading and hashing."""
    slow = Slow()
    slow.put(monkeypatch, stored_image, "_convert")
    slow.put(monkeypatch, sidecar, "sha256")
    return slow


@pytest.mark.parametrize("fault", ["directions", "mask", "mask of maps"])
def test_an_error_of_another_input(tmp_path, slow, fault):
    case, options = Case(tmp_path), {}
    series = [case.image(signals(), name="dwi.nii"), tmp_path / "dwi.bval", tmp_path / "dwi.bvec"]
    if fault == "directions":
        case.gradients(BVALS, directions() * 2)
    else:
        options["mask"] = case.image(np.zeros(SHAPE, np.uint8), name="mask.nii")
    if fault == "mask of maps":
        options["act"] = case.image(np.eye(5, dtype=np.float32)[np.zeros(SHAPE, int)], name="5tt.nii")
    with pytest.raises(InputError, match="length 2" if fault == "directions" else "has no voxels"):
        ts.track(*series, arch="cpu", **options)
    assert slow.begun and slow.still


def test_an_error_of_a_part_of_the_values(tmp_path, monkeypatch):
    path, slow = tmp_path / "dwi.nii", Slow()
    nib.Nifti1Image(signals(), AFFINE).to_filename(path)
    monkeypatch.setattr(stored_image, "BLOCK", 1)
    slow.put(monkeypatch, stored_image, "_convert", lambda *arguments: arguments[-1][1].start == 0)
    with pytest.raises(InputError, match="damaged"):
        images.read_series(*images.open_image(path))
    assert slow.still


def test_a_tractogram_that_is_not_read_to_its_end(monkeypatch, tmp_path):
    begun, ended, empty = [], [], ts.Batch.concatenate([])

    def pieces(*_):
        for number in range(20):
            begun.append(number)
            time.sleep(0.1)
            ended.append(number)
            yield empty

    monkeypatch.setitem(tractograms.READERS, ".tck", pieces)
    batches = tractograms.stored_batches(tmp_path / "a.tck")
    next(batches)
    batches.close()
    count = len(begun)
    assert len(ended) == count
    time.sleep(0.2)
    assert len(begun) == count
