"""Shapes of FODs in the report of ``fod``: they lie in the middle of their voxels, along their fibres."""

from types import SimpleNamespace

import numpy as np
import pytest

from tistreamlines.fit.tissues import BASIS
from tistreamlines.report.fods import glyph_picture
from tistreamlines.report.scene import ImageScene
from tistreamlines.space.batch import Space
from tistreamlines.space.harmonics import sampling_matrix

SHAPE, CENTRE = (9, 9, 5), (4, 4, 2)


@pytest.mark.parametrize(("along", "axis"), [([1, 0, 0], 1), ([0, 1, 0], 0)])
def test_a_shape_is_longest_along_its_fibre(along, axis):
    """From left to right is axis 1 of the picture, and from the back to the front axis 0."""
    coefficients = np.zeros((*SHAPE, 45), np.float32)
    coefficients[CENTRE] = sampling_matrix(np.array([along], float), 8, BASIS)[0]  # a delta function
    density = np.zeros(SHAPE)
    density[..., CENTRE[2]] = 1
    scene = ImageScene(Space(np.diag([2.0, 2, 2, 1]), SHAPE), density, np.zeros(SHAPE, np.uint8))
    picture = glyph_picture(scene, SimpleNamespace(coefficients={"wm": coefficients}))
    drawn = np.argwhere(picture.any(axis=-1))
    assert len(drawn) > 20
    pixels = picture.shape[0] / SHAPE[1]
    np.testing.assert_allclose(drawn.mean(axis=0) + 0.5, (4.5 * pixels, 4.5 * pixels), atol=0.5)
    spans = np.ptp(drawn, axis=0) + 1
    assert 0.8 * pixels < spans[axis] <= pixels
    assert spans[1 - axis] < 0.7 * pixels
