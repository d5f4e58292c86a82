"""Ends that are moved to the interface of grey and white matter."""

import nibabel as nib
import numpy as np
import pytest
from dialects import DIALECTS, RELATIVE, reals
from dialects import run as run_kernel
from head import SIDE, make_head, sampled, tracked

import tistreamlines as ts
from tistreamlines.errors import ParameterError
from tistreamlines.kernels.stop_reasons import Stop
from tistreamlines.kernels.trail import PARTS, Trail, cropped_end
from tistreamlines.linker.lang import Ints, Reals, func, i32, vec3


@func
def moved(item: i32, points: Reals, part: Ints, out: Reals):
    """The end of a trail through three points."""
    trail = Trail()
    trail.earlier = vec3(points[9 * item], points[9 * item + 1], points[9 * item + 2])
    trail.before = vec3(points[9 * item + 3], points[9 * item + 4], points[9 * item + 5])
    trail.p = vec3(points[9 * item + 6], points[9 * item + 7], points[9 * item + 8])
    p = cropped_end(trail, part[item])
    out[3 * item] = p[0]
    out[3 * item + 1] = p[1]
    out[3 * item + 2] = p[2]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_curve_is_mrtrixs(dialect):
    """A cardinal spline of tension 0.1 through four points, of which the fourth repeats the bend of the first three."""
    rng, count = np.random.default_rng(4), 500
    points, part = rng.normal(size=(count, 3, 3)), rng.integers(1, PARTS + 1, count)
    values = {"points": points.ravel(), "part": part.astype(np.int32), "out": reals(3 * count)}
    ends = run_kernel(dialect, moved, count, values)["out"].reshape(-1, 3)
    a, b, c = points.transpose(1, 0, 2)
    d = c + (c - b) + ((c - b) - (b - a))
    mu, slope = part[:, None] / PARTS, (1 - 0.1) / 2
    before, after = slope * (c - a), slope * (d - b)  # tangents at b and c
    expected = (2 * mu**3 - 3 * mu**2 + 1) * b + (mu**3 - 2 * mu**2 + mu) * before
    expected += (3 * mu**2 - 2 * mu**3) * c + (mu**3 - mu**2) * after
    np.testing.assert_allclose(ends, expected, atol=20 * RELATIVE[dialect])
    last = part == PARTS
    np.testing.assert_allclose(ends[last], c[last], atol=20 * RELATIVE[dialect])


@pytest.fixture(scope="module")
def head(tmp_path_factory):
    """See the module of this name."""
    return make_head(tmp_path_factory.mktemp("crop"))


@pytest.mark.parametrize("dg", ["ifod2", "ptt"])
def test_ends_in_the_cortex_lie_at_its_interface(head, dg):
    """All other points stay where they are."""
    plain, cropped = (
        ts.Batch.concatenate(list(tracked(head, dg=dg, keep="all", nseeds=200, crop_at_gmwmi=value).batches))
        for value in (False, True)
    )
    np.testing.assert_array_equal(plain.stop_reasons, cropped.stop_reasons)
    tissues, compared = nib.load(head / "5tt.nii.gz").get_fdata(), 0
    for whole, line, reasons in zip(plain, cropped, plain.stop_reasons, strict=True):
        assert len(whole) == len(line)
        np.testing.assert_array_equal(whole[1:-1], line[1:-1])
        for end, beside, reason in ((0, 1, reasons[0]), (-1, -2, reasons[1])):
            if reason != Stop.ENTERED_CORTEX or len(line) < 3:
                continue
            shares = sampled(tissues, np.array([line[end], whole[beside]]) / SIDE)
            excess = shares[0] + shares[1] - shares[2]
            if excess[1] < -1e-4:  # it comes from white matter
                compared += 1
                assert -1e-4 < excess[0] < 0.01 + 1e-4
                assert np.linalg.norm(line[end] - whole[beside]) < np.linalg.norm(whole[end] - whole[beside]) + 0.01
    assert compared > 40


def test_it_needs_the_five_tissues(head):
    with pytest.raises(ParameterError, match="crop_at_gmwmi needs act"):
        tracked(head, act=None, stop_mask=head / "mask.nii.gz", crop_at_gmwmi=True)
