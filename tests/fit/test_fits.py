"""What a fit says of its mask and of its choices, also if the fit is in the cache."""

from dataclasses import replace

import numpy as np
import pytest

import tistreamlines as ts
from tistreamlines.errors import DeviceMemoryError
from tistreamlines.fit import fits
from tistreamlines.fit.fits import Fits
from tistreamlines.fit.model_fits import MODEL_FITS
from tistreamlines.fit.models import Fitted
from tistreamlines.io import nifti
from tistreamlines.io.cache import Cache


@pytest.fixture
def messages():
    """Notes, and warnings."""
    return [], []


def fits_of(dwi, messages, mask=None, cache=None):
    notes, warnings = messages
    return Fits(dwi, mask, causes={"mask": mask is not None}, cache=cache, note=notes.append, warn=warnings.append)


@pytest.mark.parametrize(("share", "doubtful"), [(0.05, True), (0.2, False)])
def test_a_small_automatic_mask_is_doubtful(head, messages, monkeypatch, share, doubtful):
    """The share is of the voxels with signal."""
    dwi = nifti.load_dwi(*head.series)
    signal = np.flatnonzero(dwi.mean_b0 > 0)
    small = np.zeros(dwi.space.shape, bool)
    small.flat[signal[: int(share * len(signal))]] = True
    monkeypatch.setattr(fits, "brain", lambda _: small)
    assert fits_of(dwi, messages).mask is small
    (text,) = messages[doubtful]
    assert text.startswith(f"no --mask: median_otsu of the mean b0 selects {small.sum()} voxels")
    assert ("or give --mask" in text) == doubtful
    assert not messages[not doubtful]


def test_the_users_mask_is_not_doubted(head, messages):
    dwi = nifti.load_dwi(*head.series)
    mask = np.zeros(dwi.space.shape, bool)
    mask[0, 0, 0] = True
    assert fits_of(dwi, messages, mask).mask is mask
    assert messages == ([], [])


def test_fits_of_a_cache_say_the_same(head, tmp_path, monkeypatch):
    """A run with other seeds or angles has other tables, and the fits of the earlier run."""
    dwi, chosen, said = nifti.load_dwi(*head.series), ts.Parameters(dg="prob", sh_order=4), []
    monkeypatch.setattr(fits, "brain", lambda _: head.phantom.mask.astype(bool))
    for names in (("fa", "csd"), ("fa", "csd"), ("csd",), ("fa",)):
        messages = [], []
        cached = fits_of(replace(dwi), messages, cache=Cache(tmp_path, messages[0].append))
        for name in names:
            cached.anisotropy() if name == "fa" else cached.coefficients("csd", chosen)
        said.append(messages)
    assert said[0] == said[1] == said[2]
    assert [note.split(":")[0] for note in said[0][0]] == ["no --mask", str(dwi.path)]
    assert said[3] == (said[0][0][:1], [])


@pytest.mark.parametrize(("least", "full", "archs"), [
    (3, False, ["cpu"]), (2, False, ["cuda"]), (2, True, ["cuda", "cpu"]),
])
def test_a_gpu_fits_many_voxels_if_it_has_memory(head, monkeypatch, least, full, archs):
    """The mask has four voxels, and the CPU two threads."""
    dwi, asked = nifti.load_dwi(*head.series), []
    mask = np.zeros(dwi.space.shape, bool)
    mask[0, 0, :4] = True

    def fit(*arguments):
        asked.append(arguments[-1])
        if full and asked[-1] != "cpu":
            raise DeviceMemoryError("cuda: no memory")
        return Fitted(np.zeros((*mask.shape, 15), np.float32), {})

    monkeypatch.setitem(MODEL_FITS, "csd", fit)
    monkeypatch.setattr(fits, "FEW_OF_CORE", least)
    Fits(dwi, mask, 2, arch="cuda").coefficients("csd", ts.Parameters(dg="prob", sh_order=4))
    assert asked == archs
