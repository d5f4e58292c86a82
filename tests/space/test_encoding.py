"""The gradients of volumes, against DIPY's tables and what its models make of them."""


import numpy as np
import pytest
from dipy.core.gradients import gradient_table
from dipy.reconst.csdeconv import ConstrainedSphericalDeconvModel
from dipy.reconst.dti import TensorModel, design_matrix
from dipy.reconst.shm import CsaOdfModel, OpdtModel

from tistreamlines.fit import dipy_private
from tistreamlines.space.encoding import Encoding, select_volumes, tensor_design, with_directions

RNG = np.random.default_rng(0)
VALUES = ("bvals", "bvecs", "gradients", "b0s_mask", "b0_threshold", "big_delta", "small_delta", "btens")


def table(count=40):
    """b-values and directions as files have them: not quite unit, and b0s with none, with NaN, or with a real one."""
    bvals = np.array([0, 5, 50, 30, *RNG.choice([990, 1000, 2000.5], count)])
    bvecs = RNG.normal(size=(len(bvals), 3))
    bvecs /= np.linalg.norm(bvecs, axis=1, keepdims=True) * RNG.uniform(0.995, 1.005, (len(bvals), 1))
    bvecs[0], bvecs[1], bvecs[3] = 0, np.nan, 0.3
    return bvals, bvecs


def assert_same(gtab, expected):
    for name in VALUES:
        np.testing.assert_array_equal(getattr(gtab, name), getattr(expected, name), err_msg=name)
    assert len(gtab) == len(expected)


@pytest.mark.parametrize("threshold", [10, 50])
def test_an_encoding_is_dipys_table(threshold):
    bvals, bvecs = table()
    bvals[2:4] = 1000 if threshold < 50 else bvals[2:4]
    bvecs[3] = bvecs[4]
    gtab = Encoding.of(bvals, bvecs, threshold)
    assert_same(gtab, gradient_table(bvals, bvecs=bvecs, b0_threshold=threshold))
    keep = (bvals < 1500) | (RNG.random(len(bvals)) < 0.5)
    assert_same(
        select_volumes(gtab, keep), gradient_table(gtab.bvals[keep], bvecs=gtab.bvecs[keep], b0_threshold=threshold)
    )
    turned = gtab.bvecs[:, [2, 0, 1]] * [1, -1, 1]
    assert_same(
        with_directions(gtab, turned), gradient_table(gtab.bvals, bvecs=turned, b0_threshold=threshold)
    )


def test_volumes_of_dipys_table_keep_their_tensors():
    bvals, bvecs = table()
    dipys = gradient_table(bvals, bvecs=bvecs, btens="PTE", big_delta=0.03, small_delta=0.02)
    kept = select_volumes(dipys, bvals < 1500)
    np.testing.assert_array_equal(kept.btens, dipys.btens[bvals < 1500])
    assert (kept.big_delta, kept.small_delta) == (0.03, 0.02)
    np.testing.assert_array_equal(tensor_design(dipys), design_matrix(dipys))


def test_dipys_models_are_those_of_its_table():
    bvals, bvecs = table()
    ours, dipys = Encoding.of(bvals, bvecs), gradient_table(bvals, bvecs=bvecs)
    np.testing.assert_array_equal(tensor_design(ours), TensorModel(dipys).design_matrix)
    for kind in (OpdtModel, CsaOdfModel):
        pairs = zip(*(dipy_private.fit_matrices(kind(gtab, sh_order_max=4)) for gtab in (ours, dipys)), strict=True)
        for matrix, expected in pairs:
            np.testing.assert_array_equal(matrix, expected)
    response = np.array([0.0015, 0.0003, 0.0003]), 100.0
    models = [ConstrainedSphericalDeconvModel(gtab, response, sh_order_max=4) for gtab in (ours, dipys)]
    np.testing.assert_array_equal(*(model.predict(np.eye(15)) for model in models))


