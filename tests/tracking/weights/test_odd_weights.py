"""Weights of any size: sums neither overflow nor vanish, and a file that cannot be held is told in a line."""

import nibabel as nib
import numpy as np
import pytest
from commands import one_line
from visited import AFFINE, SHAPE, curves

import tistreamlines as ts
from tistreamlines.tracking.products.files import weight_unit

MEASURES = ("count", "length", "mean-length", "inverse-length", "inverse-volume")
KINDS = ("count", "direction", "length", "mean-length", "sample")
MEANS = ("mean-length", "sample", "map", "c_mean-length", "c_map")  # do not depend on the size of all weights


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Curves, weights, labels and a map."""
    folder, rng = tmp_path_factory.mktemp("odd"), np.random.default_rng(2)
    lines = list(curves(120, seed=3))
    nib.streamlines.save(nib.streamlines.Tractogram(lines, affine_to_rasmm=np.eye(4)), folder / "a.tck")
    order = rng.permutation(len(lines))
    nib.streamlines.save(
        nib.streamlines.Tractogram([lines[k] for k in order], affine_to_rasmm=np.eye(4)), folder / "other.tck"
    )
    labels = (np.indices(SHAPE).sum(axis=0) // 9 + 1).astype(np.int16)
    nib.save(nib.Nifti1Image(labels, AFFINE), folder / "labels.nii.gz")
    nib.save(nib.Nifti1Image(rng.uniform(1, 2, SHAPE).astype(np.float32), AFFINE), folder / "map.nii.gz")
    return folder, np.exp(rng.normal(0, 1, len(lines))), order


def weighted(folder, weights, tractogram="a.tck"):
    """All maps and matrices with these weights."""
    np.savetxt(folder / "w.txt", weights, "%.17g")
    values = {}
    common = {"weights": folder / "w.txt", "density_grid": folder / "map.nii.gz", "force": True}
    for kind in KINDS:
        more = {"density_sample": folder / "map.nii.gz"} if kind == "sample" else {}
        if kind == "count":
            more = {"ends": folder / "e.nii", "connectome": (folder / "labels.nii.gz", folder / "c.csv"),
                    "connectome_measure": MEASURES, "connectome_sample": folder / "map.nii.gz"}
        products = ts.map_tractogram(
            folder / tractogram, density=folder / "d.nii", density_kind=kind, **common, **more
        )["products"]
        values[kind] = products["density"].astype(float)
        if kind == "count":
            values["ends"] = products["ends"].astype(float)
            values |= {f"c_{name}": matrix for name, matrix in products["connectome"][0].values.items()}
    return values


@pytest.fixture(scope="module")
def usual(place):
    """What weights of about 1 make."""
    folder, weights, _ = place
    return weighted(folder, weights)


@pytest.mark.parametrize("exponent", [-96, -40, 60, 96])
def test_sums_scale_with_the_weights(place, usual, exponent):
    """Up to 1e29, and down to 1e-29; to powers of two, exactly."""
    folder, weights, _ = place
    other = weighted(folder, weights * 2.0**exponent)
    assert len(usual) == 12 and usual.keys() == other.keys()
    for name in usual:
        factor = 1 if name in MEANS or name.endswith("_mean") else 2.0**exponent
        assert np.count_nonzero(usual[name]) > 5, name
        np.testing.assert_array_equal(other[name], usual[name] * factor, name)


def test_sums_depend_on_no_order(place, usual):
    folder, weights, order = place
    other = weighted(folder, weights[order], "other.tck")
    for name in usual:
        np.testing.assert_array_equal(other[name], usual[name], name)


def test_matrices_are_sums_of_float64(place):
    """A small weight beside great ones counts as far as its own edge is concerned."""
    folder, weights, _ = place
    spread = weights * 10.0 ** np.random.default_rng(0).integers(-4, 4, len(weights))
    np.savetxt(folder / "w.txt", spread, "%.17g")
    matrix = ts.map_tractogram(
        folder / "a.tck", connectome=(folder / "labels.nii.gz", folder / "c.csv"), connectome_pairs=True, force=True,
        weights=folder / "w.txt",
    )["products"]["connectome"][0].values["count"]
    rows = [line.split() for line in (folder / "c_pairs.tsv").read_text().splitlines()]
    pairs = np.array([[int(word) for word in row] for row in rows if row[0].isdigit()])
    expected = np.zeros_like(matrix)
    for (a, b), weight in zip(pairs, spread, strict=True):
        if a and b:
            expected[a - 1, b - 1] += weight
            expected[b - 1, a - 1] += weight * (a != b)
    np.testing.assert_allclose(matrix, expected, rtol=1e-9)


def test_sums_have_room():
    """In units of which a usual weight has many."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        weights = np.exp(rng.normal(0, rng.uniform(0, 5), 10 ** rng.integers(0, 6)) + rng.uniform(-60, 60))
        greatest = 10.0 ** rng.uniform(-6, 12)
        whole = np.rint(weights * greatest * weight_unit(weights, greatest))
        assert 2.0**59 <= whole.sum() < 2.0**62, seed
        assert weight_unit(np.zeros(3)) == 1 == weight_unit(np.zeros(0)) == weight_unit(weights, 0.0)


@pytest.mark.parametrize(("text", "words"), [
    ("# tcksift2\n1 2 1e300\n", ["w.txt, line 2: weight 3 is 1e300", "from 0 to 1e+30"]),
    ("1\n2\n-1e-9\n", ["line 3: weight 3 is -1e-9"]), ("1,inf", ["line 1: weight 2 is inf"]),
    ("1\n\n#\nNaN", ["line 4: weight 2 is NaN"]), ("1 1\n1 x1 1", ["line 2: weight 4 is 'x1'"]),
    ("1e-40 1e-31", ["line 1: weight 2 is the greatest one, and only 1e-31", "above 1e-30"]),
    ("1\n1\n1e25\n1", ["line 3: weight 3 is 1e25, beside which most others would not count"]),
])
def test_weights_that_cannot_be_held_are_told_in_a_line(place, run, text, words):
    folder, _, _ = place
    (folder / "w.txt").write_text(text)
    done = run("map", folder / "a.tck", "--connectome", folder / "labels.nii.gz", folder / "never.csv", "--weights",
               folder / "w.txt")
    one_line(done, 1, *words)
    assert not (folder / "never.csv").exists()


def test_weights_that_hardly_count_are_warned_of(place):
    """A few are usual among those of SIFT2; zeros are meant."""
    folder, weights, _ = place
    small = weights.copy()
    small[:5], small[5:7] = 0, 1e-14
    np.savetxt(folder / "w.txt", small, "%.17g")
    result = ts.map_tractogram(
        folder / "a.tck", connectome=(folder / "labels.nii.gz", folder / "c.csv"), force=True, weights=folder / "w.txt"
    )
    assert [text for text in result["warnings"] if "2 of 120 weights are below 1e-12 of the sum" in text]
