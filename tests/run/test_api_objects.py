"""Runs with objects beside keywords give the bits of runs with keywords."""

import nibabel as nib
import numpy as np
import pytest

import tistreamlines as ts

COMMON = {"nseeds": 300, "min_length": 0}


@pytest.fixture(scope="module")
def series(head):
    return head.options | {"mask": head.phantom.mask.astype(np.uint8)}


@pytest.fixture(scope="module")
def tissues(head):
    phantom = head.phantom
    white = np.minimum(np.sum([bundle.membership for bundle in phantom.bundles], axis=0), 1.0) * phantom.mask
    return np.stack([white, phantom.mask - white, np.zeros_like(white)], axis=-1).astype(np.float32)


def same(result, other):
    """The same streamlines, of which there are some."""
    assert result.n_streamlines == other.n_streamlines > 20
    a, b = (ts.Batch.concatenate(run.batches) for run in (result, other))
    assert np.array_equal(a.points, b.points)
    assert np.array_equal(a.offsets, b.offsets)


CASES = {
    "boot": ({"dg": ts.Boot(max_angle=50, model=ts.OPDT(sm_lambda=0.01))},
             {"dg": "boot", "max_angle": 50, "model": "opdt", "sm_lambda": 0.01}),
    "prob": ({"dg": ts.Prob(max_angle=30), "model": ts.CSA(sh_order=4), "stopping": ts.Threshold(fa_threshold=0.15)},
             {"dg": "prob", "max_angle": 30, "model": "csa", "sh_order": 4, "fa_threshold": 0.15}),
    "det": ({"dg": ts.Det(det_rule="closest", max_directions=1), "model": ts.CSA()},
            {"dg": "det", "det_rule": "closest", "max_directions": 1, "model": "csa"}),
    "ptt": ({"dg": ts.Ptt(probe_length=2.0, model=ts.CSA())}, {"dg": "ptt", "probe_length": 2.0, "model": "csa"}),
}


@pytest.mark.parametrize("dg", CASES)
def test_the_bits_are_those_of_keywords(series, dg):
    objects, keywords = CASES[dg]
    result, other = (ts.track(**series, **COMMON, **options) for options in (objects, keywords))
    same(result, other)
    assert result.parameters.as_dict() == other.parameters.as_dict()
    with pytest.raises(AssertionError):
        same(result, ts.track(**series, **COMMON, dg=dg))


@pytest.mark.parametrize("rule", ["act", "cmc"])
def test_stopping_rules_and_regions(series, tissues, rule, head):
    affine = nib.load(series["dwi"]).affine
    centre = affine[:3, :3] @ (np.array(tissues.shape[:3]) / 2) + affine[:3, 3]
    upper = np.zeros(tissues.shape[:3], np.uint8)
    upper[:, :, 8:] = 1
    objects = {
        "stopping": ts.choice("stopping", rule)(pve=tissues), "seed_sphere": ts.Sphere(centre, 40.0),
        "include": [ts.Sphere(centre, 60.0), ts.Mask(upper, affine)], "dg": ts.Boot(),
    }
    ball = ",".join(map(repr, centre.tolist()))
    keywords = {
        "stopping": rule, "pve": tissues, "seed_sphere": f"{ball},40.0", "dg": "boot",
        "include": [f"{ball},60.0", nib.Nifti1Image(upper, affine)],
    }
    result, other = (ts.track(**series, **COMMON, **options) for options in (objects, keywords))
    same(result, other)
    everywhere = ts.track(**series, **COMMON, **keywords | {"include": None})
    assert result.as_dict()["dropped"] != everywhere.as_dict()["dropped"]


def test_density_is_a_product(series, tmp_path):
    paths = [tmp_path / name for name in ("a.nii.gz", "b.nii.gz")]
    ts.track(**series, **COMMON, products=[ts.Density(paths[0], voxel=4)])
    ts.track(**series, **COMMON, density=paths[1], density_voxel=4)
    density, other = (np.asarray(nib.load(path).dataobj) for path in paths)
    assert np.array_equal(density, other)
    assert density.sum() > 100


def test_stream_and_estimate_take_them(series):
    points, other = (
        ts.Batch.concatenate(list(ts.stream(**series, **COMMON, **options))).points
        for options in ({"dg": ts.Boot(max_angle=45)}, {"dg": "boot", "max_angle": 45})
    )
    assert len(points) > 100
    assert np.array_equal(points, other)
    with pytest.raises(ts.ParameterError, match="density is written by track"):
        ts.stream(**series, **COMMON, products=[ts.Density("a.nii")])
    counts = [ts.estimate(**series, **COMMON, dg=dg).streamlines for dg in (ts.Boot(max_directions=1), ts.Boot())]
    assert counts[0] != counts[1]
