"""The phantom's data must say what its bundles say."""

import numpy as np
import pytest
from scipy.ndimage import maximum_filter

import tistreamlines as ts
from tistreamlines.io.node_tables import read_nodes
from tistreamlines.phantom.phantom import joined_share, make_phantom, save_phantom, spread_directions

SHAPE = (44, 52, 40)


@pytest.fixture(scope="module")
def phantom():
    return make_phantom(SHAPE, voxel_mm=3.4)


def voxels(phantom, points):
    """Voxel coordinates (n, 3) of RAS mm points."""
    inverse = np.linalg.inv(phantom.affine)
    return points @ inverse[:3, :3].T + inverse[:3, 3]


def packed(streamlines):
    offsets = np.concatenate([[0], np.cumsum([len(s) for s in streamlines])]).astype(np.int64)
    return np.concatenate(streamlines).astype(np.float32), offsets


def middle_of(bundle):
    quarter = len(bundle.centreline) // 4
    return bundle.centreline[quarter:-quarter]


def test_arrays_have_the_promised_shapes(phantom):
    assert phantom.data.shape == (*SHAPE, 68)
    assert phantom.data.dtype == np.float32
    assert phantom.mask.dtype == bool
    assert 0.25 < phantom.mask.mean() < 0.5
    assert not phantom.data[~phantom.mask].any()
    assert np.array_equal(phantom.bvals, [0] * 4 + [1500] * 64)
    assert np.allclose(np.linalg.norm(phantom.bvecs, axis=1), phantom.bvals > 0)
    total = sum(bundle.membership for bundle in phantom.bundles)
    assert total.min() >= 0
    assert total.max() <= 1 + 1e-5


def test_the_seed_fixes_the_noise():
    first, again, other = (make_phantom((22, 26, 20), n_dirs=6, seed=seed).data for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_noise_has_the_requested_size():
    noisy, clean = (make_phantom((22, 26, 20), n_dirs=6, snr=snr) for snr in (20.0, 1e9))
    unweighted = (noisy.data - clean.data)[noisy.mask][:, noisy.bvals == 0]
    assert unweighted.std() == pytest.approx(300 / 20, rel=0.05)


def test_voxel_axes_and_world_agree_on_left_and_right(phantom):
    assert np.linalg.det(phantom.affine) < 0
    corners = phantom.affine @ [[0, SHAPE[0] - 1], [0, SHAPE[1] - 1], [0, SHAPE[2] - 1], [1, 1]]
    assert np.allclose(corners[:3].sum(axis=1), 0)
    for bundle in phantom.bundles:
        weight = bundle.membership.ravel()
        x = (np.argwhere(np.ones(SHAPE, bool)) @ phantom.affine[0, :3] + phantom.affine[0, 3]) @ weight / weight.sum()
        side = {"left": -1, "right": 1}.get(bundle.name.rsplit("_", 1)[1], 0)
        assert (x < -5, abs(x) < 1, x > 5)[side + 1], bundle.name


def test_tensors_follow_the_bundles(phantom):
    from dipy.core.gradients import gradient_table
    from dipy.reconst.dti import TensorModel

    others = sum(bundle.membership for bundle in phantom.bundles)
    model = TensorModel(gradient_table(phantom.bvals, bvecs=phantom.bvecs), fit_method="WLS")
    for bundle in phantom.bundles:
        line = middle_of(bundle)
        tangent = np.gradient(line, axis=0) * np.sign(np.diag(phantom.affine)[:3])
        tangent /= np.linalg.norm(tangent, axis=1, keepdims=True)
        at = tuple(np.rint(voxels(phantom, line)).astype(int).T)
        alone = (bundle.membership[at] > 0.8) & (others[at] - bundle.membership[at] < 0.05)
        assert alone.sum() > 5, bundle.name
        fit = model.fit(phantom.data[at][alone])
        assert fit.fa.min() > 0.3, bundle.name
        cosine = np.abs((fit.directions[:, 0] * tangent[alone]).sum(axis=1))
        assert np.median(cosine) > np.cos(np.radians(10)), bundle.name


def test_grey_matter_stops_a_streamline(phantom):
    from dipy.core.gradients import gradient_table
    from dipy.reconst.dti import TensorModel

    white = sum(bundle.membership for bundle in phantom.bundles)
    grey = phantom.mask & (white < 0.01)
    sample = phantom.data[grey][::20]
    fa = TensorModel(gradient_table(phantom.bvals, bvecs=phantom.bvecs), fit_method="WLS").fit(sample).fa
    assert np.quantile(fa, 0.99) < 0.1


def test_tissues_fill_the_head(phantom):
    white, grey, fluid = (phantom.tissues[name] for name in ("wm", "gm", "csf"))
    total = white.astype(float) + grey + fluid
    assert np.allclose(total[phantom.mask], 1, atol=1e-6)
    assert not total[~phantom.mask].any()
    assert min(white.min(), grey.min(), fluid.min()) >= 0
    bundles = np.sum([bundle.membership for bundle in phantom.bundles], axis=0)
    assert (white[bundles > 0.5] > 0.4).all()
    assert 20 < (fluid > 0.5).sum() < 0.01 * phantom.mask.sum()
    assert np.allclose(fluid, fluid[::-1], atol=1e-6)


@pytest.mark.nightly
def test_act_ends_streamlines_at_the_cortex(phantom, tmp_path):
    """Nightly, since a whole phantom is fitted; by day, test_cropping.py has ends at the cortex."""
    series = save_phantom(phantom, tmp_path)
    tissues = {f"pve_{name}": tmp_path / f"pve_{name}.nii.gz" for name in phantom.tissues}
    result = ts.track(
        *series, mask=tmp_path / "mask.nii.gz", dg="prob", arch="cpu", nseeds=200, stopping="act", keep="valid-ends",
        **tissues,
    )
    batch = ts.Batch.concatenate(result.batches)
    ends = np.concatenate([batch.points[batch.offsets[:-1]], batch.points[batch.offsets[1:] - 1]])
    near = tuple(np.rint(voxels(phantom, ends)).astype(int).T)
    step = maximum_filter(phantom.tissues["gm"], 3)
    assert len(batch) > 80
    assert (batch.stop_reasons == ts.Stop.VALID_END).mean() > 0.99
    assert (step[near] > 0.5).mean() > 0.99  # a step more would be in grey matter


def test_bundles_cross(phantom):
    membership = {bundle.name: bundle.membership for bundle in phantom.bundles}
    for side in ("left", "right"):
        both = np.minimum(membership["callosum_body_middle"], membership[f"corticospinal_{side}"])
        assert (both > 0.3).sum() > 10


def test_every_centreline_joins_its_own_bundle_only(phantom):
    points, offsets = packed([bundle.centreline[:: 1 - 2 * (k % 2)] for k, bundle in enumerate(phantom.bundles)])
    joined = joined_share(phantom, points, offsets)
    assert (joined.valid, joined.total, joined.share) == (14, 14, 1.0)
    assert joined.per_bundle == {bundle.name: 1 for bundle in phantom.bundles}


def test_other_streamlines_do_not_count(phantom):
    left, right = (b.centreline for b in phantom.bundles if b.name.startswith("corticospinal"))
    streamlines = [
        left,
        left[:: len(left) - 1],
        left[: len(left) // 2],
        np.stack([left[0], right[-1]]),
        left[:1],
        left + 1000,
    ]
    joined = joined_share(phantom, *packed(streamlines))
    assert (joined.valid, joined.total, joined.share) == (2, 6, 2 / 6)
    assert joined.per_bundle["corticospinal_left"] == 2
    assert sum(joined.per_bundle.values()) == 2


def test_no_streamlines_join_nothing(phantom):
    joined = joined_share(phantom, np.empty((0, 3), np.float32), np.zeros(1, np.int64))
    assert (joined.valid, joined.total, joined.share) == (0, 0, 0.0)


def test_directions_are_spread():
    v = spread_directions(64)
    assert np.allclose(np.linalg.norm(v, axis=1), 1)
    assert v[:, 2].min() >= 0
    cosine = np.abs(v @ v.T) - 2 * np.eye(64)
    # The best packing of 64 axes leaves about 17 degrees between neighbours.
    assert np.degrees(np.arccos(cosine.max())) > 12
    assert np.allclose(v.T @ v / 64, np.eye(3) / 3, atol=0.02)


def test_saved_files_read_back(phantom, tmp_path):
    import nibabel
    from dipy.io.gradients import read_bvals_bvecs

    folder = tmp_path / "new" / "folder"
    save_phantom(phantom, folder)
    names = {"dwi.nii.gz", "dwi.bval", "dwi.bvec", "mask.nii.gz", "bundles.nii.gz", "nodes.nii.gz", "nodes.tsv"}
    names |= {f"pve_{tissue}.nii.gz" for tissue in phantom.tissues}
    assert {path.name for path in folder.iterdir()} == names
    image = nibabel.load(folder / "dwi.nii.gz")
    assert np.array_equal(image.get_fdata(dtype=np.float32), phantom.data)
    assert np.allclose(image.affine, phantom.affine)
    bvals, bvecs = read_bvals_bvecs(str(folder / "dwi.bval"), str(folder / "dwi.bvec"))
    assert np.array_equal(bvals, phantom.bvals)
    assert np.allclose(bvecs, phantom.bvecs, atol=1e-7)
    assert np.loadtxt(folder / "dwi.bvec").shape == (3, 68)
    assert np.array_equal(np.asarray(nibabel.load(folder / "mask.nii.gz").dataobj) > 0, phantom.mask)
    for tissue, share in phantom.tissues.items():
        assert np.array_equal(np.asarray(nibabel.load(folder / f"pve_{tissue}.nii.gz").dataobj), share)
    labels = np.asarray(nibabel.load(folder / "bundles.nii.gz").dataobj)
    assert set(np.unique(labels)) == set(range(15))
    nodes = np.asarray(nibabel.load(folder / "nodes.nii.gz").dataobj)
    for place, bundle in enumerate(phantom.bundles):
        for which, end in enumerate(bundle.ends):
            assert (nodes[end] == 2 * place + which + 1).any(), bundle.name
    assert set(np.unique(nodes)) == set(range(29))
    assert len(read_nodes(folder / "nodes.tsv")) == 28
    assert sum(path.stat().st_size for path in folder.iterdir()) < 4e6


def test_a_failed_write_leaves_nothing(phantom, tmp_path, monkeypatch):
    import nibabel

    def broken(image, path):
        path.write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(nibabel, "save", broken)
    with pytest.raises(OSError, match="disk full"):
        save_phantom(phantom, tmp_path)
    assert not list(tmp_path.iterdir())
