"""Files of a small series, whole or damaged, and the line that is said about them."""

from __future__ import annotations

from contextlib import contextmanager

import nibabel as nib
import numpy as np
import pytest

from tistreamlines.errors import InputError
from tistreamlines.io.nifti import load_dwi
from tistreamlines.space.batch import Space

SHAPE = (4, 5, 6)
BVALS = np.array([1000.0, 1000, 5, 1000, 1000, 0, 1000])  # the b0s stand anywhere
AFFINE = np.array([[0, -2.0, 0, 30], [1.5, 0, 0, -20], [0, 0, 3, 7], [0, 0, 0, 1]])
SPACE = Space(AFFINE, SHAPE)


def directions():
    vectors = np.random.default_rng(1).normal(size=(len(BVALS), 3))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors[BVALS < 50] = 0
    return vectors


def signals():
    return np.random.default_rng(2).uniform(0, 900, (*SHAPE, len(BVALS))).astype(np.float32)


class Case:
    """A series with its gradients in a folder, whole until a test damages it."""

    def __init__(self, folder):
        self.folder = folder
        self.image(signals())
        self.gradients(BVALS, directions())

    def image(self, data, affine=AFFINE, name="dwi.nii.gz"):
        nib.Nifti1Image(data, affine).to_filename(self.folder / name)
        return self.folder / name

    def gradients(self, bvals, bvecs):
        np.savetxt(self.folder / "dwi.bval", np.atleast_2d(bvals))
        np.savetxt(self.folder / "dwi.bvec", bvecs)

    def load(self, image="dwi.nii.gz"):
        return load_dwi(self.folder / image, self.folder / "dwi.bval", self.folder / "dwi.bvec")


@contextmanager
def fails(name, *parts):
    """Expect one line that begins with the file's path, says each part and shows a way out."""
    with pytest.raises(InputError) as caught:
        yield
    message = str(caught.value)
    assert message.split(": ")[0].endswith(name), message
    assert "\n" not in message
    assert all(part in message for part in parts), message
    assert ";" in message, f"no way out is named: {message}"
