"""Bases and orders of spherical harmonics, against DIPY's own functions."""

import warnings

import numpy as np
import pytest
from commands import python
from dipy.core.geometry import cart2sphere
from dipy.core.sphere import Sphere
from dipy.reconst import shm

from tistreamlines.errors import ParameterError
from tistreamlines.space.harmonics import (
    BASES,
    basis_of,
    count_of,
    degree_shares,
    degrees,
    order_of,
    sampling_matrix,
    to_descoteaux,
)

SYMMETRIC = [name for name, basis in BASES.items() if not basis.full]
FULL = [name for name, basis in BASES.items() if basis.full]
EVEN_COUNTS = {1: 0, 6: 2, 15: 4, 28: 6, 45: 8, 66: 10, 91: 12}
FULL_COUNTS = {1: 0, 4: 1, 9: 2, 16: 3, 25: 4, 36: 5, 49: 6, 64: 7, 81: 8}
pytestmark = pytest.mark.filterwarnings("ignore:The legacy:PendingDeprecationWarning")


def directions(count=300, seed=3):
    vectors = np.random.default_rng(seed).normal(size=(count, 3))
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def coefficients(order, full=False, shape=(2, 3)):
    return np.random.default_rng(order).normal(size=(*shape, count_of(order, full)))


def fibre(basis, order, direction=(0.48, 0.6, 0.64)):
    """Coefficients of a delta function, from the completeness of an orthonormal basis."""
    assert basis != "tournier07_legacy"
    return sampling_matrix([direction], order, basis)[0]


def test_importing_is_light():
    code = "import sys, tistreamlines.space.harmonics; print({'dipy', 'nibabel', 'scipy'} & set(sys.modules))"
    assert python("-c", code).stdout.strip() == "set()"


@pytest.mark.parametrize(("counts", "full"), [(EVEN_COUNTS, False), (FULL_COUNTS, True)], ids=["symmetric", "full"])
def test_orders_are_those_of_dipy(counts, full):
    for count in range(1, 100):
        if count in counts:
            assert order_of(count, full) == counts[count] == shm.calculate_max_order(count, full_basis=full)
            assert count_of(counts[count], full) == count
        else:
            with pytest.raises(ValueError, match="fit no order"):
                order_of(count, full)


@pytest.mark.parametrize(
    ("count", "full", "words"),
    [
        (14, False, "symmetric basis; the nearest are 6 (order 2) and 15 (order 4)"),
        (16, False, "symmetric basis; the nearest are 15 (order 4) and 28 (order 6)"),
        (10, False, "symmetric basis; the nearest are 6 (order 2) and 15 (order 4)"),  # order 3, which is odd
        (15, True, "full basis; the nearest are 9 (order 2) and 16 (order 3)"),
        (2, True, "full basis; the nearest are 1 (order 0) and 4 (order 1)"),
        (0, False, "the least is 1"),
        (-3, True, "the least is 1"),
    ],
)
def test_other_counts_name_the_nearest(count, full, words):
    with pytest.raises(ValueError) as caught:
        order_of(count, full)
    assert str(caught.value).startswith(f"{count} coefficients")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("full", [False, True])
def test_degrees_lie_as_in_dipy(full):
    for order in range(0, 9, 1 if full else 2):
        m_values, l_values = shm.sph_harm_ind_list(order, full_basis=full)
        numbers = degrees(order, full)
        assert np.array_equal(numbers[0], l_values)
        assert np.array_equal(numbers[1], m_values)


@pytest.mark.parametrize("name", BASES)
def test_sampling_is_that_of_dipy(name):
    vertices, (basis, legacy, full) = directions(), BASES[name]
    matrix = sampling_matrix(vertices, 4, name)
    assert matrix.dtype == np.float64
    assert matrix.shape == (300, count_of(4, full))
    values = coefficients(4, full)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = shm.sh_to_sf(
            values, Sphere(xyz=vertices), sh_order_max=4, basis_type=basis, full_basis=full, legacy=legacy
        )
    assert np.allclose(values @ matrix.T, expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", BASES)
def test_harmonics_are_those_of_dipy_up_to_rounding(name):
    # as a rule to the bit, but versions of scipy round differently
    basis, legacy, full = BASES[name]
    vertices = np.concatenate([directions(), np.eye(3), -np.eye(3)])
    _, polar, azimuth = cart2sphere(*vertices.T)
    for order in (0, 2, 8, 16, *((1, 5) if full else ())):
        expected = shm.sph_harm_lookup[basis](order, polar, azimuth, full_basis=full, legacy=legacy)[0]
        assert np.allclose(sampling_matrix(vertices, order, name), expected, rtol=0, atol=1e-13)


def test_odd_order_of_a_symmetric_basis_is_refused():
    with pytest.raises(ValueError, match="even"):
        sampling_matrix(directions(5), 3, "descoteaux07")


@pytest.mark.parametrize("call", [basis_of, lambda name: sampling_matrix(directions(5), 2, name)])
def test_unknown_basis_names_the_known(call):
    with pytest.raises(ParameterError, match=r"the basis is 'tournier': give one of descoteaux07, .*tournier07_legacy"):
        call("tournier")


@pytest.mark.parametrize("order", [0, 2, 4, 6, 8, 10, 12])
@pytest.mark.parametrize("name", SYMMETRIC)
def test_conversion_leaves_the_functions(name, order):
    values, vertices = coefficients(order), directions()
    before = values.copy()
    converted = to_descoteaux(values, name)
    assert converted.dtype == np.float64
    assert np.array_equal(values, before)
    assert not np.shares_memory(converted, values)
    legacy = sampling_matrix(vertices, order, "descoteaux07_legacy")
    assert np.allclose(converted @ legacy.T, values @ sampling_matrix(vertices, order, name).T, rtol=0, atol=1e-12)


@pytest.mark.parametrize("order", [2, 8])
def test_conversion_is_that_of_dipy(order):
    values = coefficients(order)
    assert np.array_equal(to_descoteaux(values, "descoteaux07_legacy"), values)
    assert np.array_equal(to_descoteaux(values, "descoteaux07"), shm.convert_sh_to_legacy(values, "descoteaux07"))
    assert np.array_equal(to_descoteaux(values, "tournier07"), shm.convert_sh_descoteaux_tournier(values))
    expected = shm.convert_sh_descoteaux_tournier(shm.convert_sh_from_legacy(values, "tournier07"))
    assert np.allclose(to_descoteaux(values, "tournier07_legacy"), expected, rtol=1e-15, atol=0)


@pytest.mark.parametrize("name", FULL)
def test_full_bases_are_left_alone(name):
    values = coefficients(3, full=True)
    assert np.array_equal(to_descoteaux(values, name), values)


def test_conversion_of_float32_is_exact():
    values = coefficients(8).astype(np.float32)
    for name in ("descoteaux07", "tournier07"):
        assert np.array_equal(np.sort(np.abs(to_descoteaux(values, name))), np.sort(np.abs(values.astype(np.float64))))


def test_conversion_refuses_other_counts():
    with pytest.raises(ValueError, match="14 coefficients"):
        to_descoteaux(np.zeros((2, 14)), "tournier07")


def test_bases_differ():
    """What makes a wrong name harmful: each pair gives other functions."""
    values, vertices = coefficients(4, shape=()), directions()
    odfs = [sampling_matrix(vertices, 4, name) @ values for name in SYMMETRIC]
    for i, odf in enumerate(odfs):
        for other in odfs[i + 1 :]:
            assert np.abs(odf - other).max() > 0.1


@pytest.mark.parametrize("name", [name for name in BASES if not name.startswith("tournier07_legacy")])
def test_a_fibre_has_the_greatest_shares(name):
    full = BASES[name].full
    for direction in directions(10):
        assert np.allclose(degree_shares(fibre(name, 6, direction), full), 1, rtol=0, atol=1e-12)


def test_shares_of_positive_functions_are_at_most_one():
    matrix = sampling_matrix(directions(40), 8, "descoteaux07_legacy")
    weights = np.random.default_rng(5).exponential(size=(200, 40)) ** 3
    shares = degree_shares(weights @ matrix)
    assert shares.shape == (200, 4)
    assert shares.max() <= 1
    legacy = sampling_matrix(directions(40), 8, "tournier07_legacy") * np.where(degrees(8)[1] == 0, 1, 2)
    assert np.allclose(weights @ legacy @ sampling_matrix(directions(7), 8, "tournier07_legacy").T,
                       weights @ matrix @ sampling_matrix(directions(7), 8, "descoteaux07_legacy").T)
    assert 1 < degree_shares(legacy).max() <= np.sqrt(2) + 1e-12
