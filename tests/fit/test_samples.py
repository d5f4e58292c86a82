"""The frame of samples: bvecs with the wrong sign of x, as bedpostX may have been given, are noticed."""

import numpy as np
import pytest

from tistreamlines.fit.frames import place_samples
from tistreamlines.io.samples import Samples
from tistreamlines.space.batch import Space

SHAPE = (24, 24, 6)


@pytest.mark.parametrize("flipped", [False, True])
def test_a_wrong_sign_is_noticed(flipped):
    """Bundles are diagonal; with x flipped, the fibres in them do not continue one another."""
    x, y, _ = np.indices(SHAPE)
    values = np.zeros((np.prod(SHAPE), 2, 1, 4), np.float32)
    values[..., :3] = np.array([-1 if flipped else 1, 1, 0]) / np.sqrt(2)
    values[..., 3] = np.where((x - y) % 8 < 2, 0.5, 0.02).reshape(-1, 1, 1)
    placing = place_samples(Samples(values, np.ones(SHAPE, bool), Space(np.eye(4), SHAPE)), "a.bedpostX")
    assert (placing.frame, placing.decided_by) == ("fsl", "file")
    assert (placing.coherence["fsl"] < placing.coherence["x flipped"]) == flipped
    assert len(placing.warnings) == flipped
    assert all(text.startswith("a.bedpostX: ") and "bvecs" in text for text in placing.warnings)
