"""Normalisation of tissues: an intensity field, and balance factors, that make the sum of tissues one constant.

The field is exp(polynomial) in scanner coordinates. Factors and field are fitted in turn, and voxels whose sum lies
far from the others' take no part. MRtrix3's ``mtnormalise`` has the same rules.

References
----------
Raffelt, Dhollander, Tournier, Tabbara, Smith, Pierre, Connelly. Bias field correction and intensity normalisation for
quantitative analysis of apparent fibre density. Proc ISMRM 25, 2017.
Dhollander, Tabbara, Rosnarho-Tornstrand, Tournier, Raffelt, Connelly. Multi-tissue log-domain intensity and
inhomogeneity normalisation for quantitative apparent fibre density. Proc ISMRM 29, 2021.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np
import numpy.typing as npt

from ..aliases import Array
from ..devices.threads import in_threads, single_blas
from ..errors import InputError

REFERENCE = math.sqrt(1 / (4 * math.pi))  # of the sum of tissues: the degree-0 coefficient of 1
ORDERS = (0, 1, 2, 3)
ROUNDS, BALANCINGS = 15, 7  # of factors and field, and of factors and outliers in each
FIRST_RANGE, RANGE = 3.0, 1.5  # interquartile ranges beyond the quartiles, from which a voxel is an outlier
BLOCK = 1 << 14  # voxels whose field is computed together

__all__ = ["normalise_tissues"]


@dataclass(frozen=True, eq=False)
class Normalisation:
    """The field and the factors that make tissues comparable between voxels and series.

    Attributes
    ----------
    field : (x, y, z) float32
        The intensity field, also outside the mask: tissues are divided by it.
    factors : dict of str to float
        Balance factor of each tissue; their product is 1.
    scale : float
        Geometric mean of the field over the voxels that were fitted, MRtrix3's ``lognorm_scale``.
    fitted : (x, y, z) bool
        Voxels of the mask that are no outliers.
    """

    field: npt.NDArray[np.float32]
    factors: dict[str, float]
    scale: float
    fitted: npt.NDArray[np.bool_]

    def apply(self, coefficients: Array, tissue: str, balanced: bool = False) -> npt.NDArray[np.float32]:
        """Return coefficients (x, y, z) or (x, y, z, k) of a tissue over the field, balanced by its factor or not."""
        field = self.field if coefficients.ndim == self.field.ndim else self.field[..., None]
        scaled = coefficients * np.float32(self.factors[tissue] if balanced else 1)
        return np.divide(scaled, field, out=scaled).astype(np.float32, copy=False)  # images of a gigabyte


def normalise_tissues(
    degree0: Mapping[str, Array], mask: npt.NDArray[np.bool_], affine: Array, order: int = 3,
    threads: int | None = None,
) -> Normalisation:
    """Fit the intensity field and the balance factors of tissues, as MRtrix3's ``mtnormalise`` does.

    Parameters
    ----------
    degree0 : mapping of str to (x, y, z)
        The coefficient of degree 0 of each tissue; negative values count as 0.
    mask : (x, y, z) bool
        Brain mask.
    affine : (4, 4)
        From voxels to scanner coordinates, mm.
    order : int
        Order of the polynomial, 0 to 3.
    threads : int, optional
        Number of threads; by default all available cores. The result does not depend on it.

    Returns
    -------
    Normalisation

    Raises
    ------
    InputError
        If the arrays do not match, the order is not 0 to 3, the mask has too few voxels with a tissue, a tissue is
        nowhere in the mask, or a balance factor is not positive.

    Warns
    -----
    UserWarning
        If voxels of the mask are not finite; they take no part.
    """
    tissues = _tissues(degree0, mask, order)
    positions = np.argwhere(mask) @ affine[:3, :3].T + affine[:3, 3]
    centre, size = _frame(positions)
    basis = _polynomials((positions - centre) / size, order)
    with single_blas():
        coefficients, factors, weights = _fit(tissues, basis, list(degree0))

    def block_field(first: int) -> Array:
        voxels = np.unravel_index(np.arange(first, min(first + BLOCK, mask.size)), mask.shape)
        there = np.stack(voxels, axis=1) @ affine[:3, :3].T + affine[:3, 3]
        return np.exp(_polynomials((there - centre) / size, order) @ coefficients).astype(np.float32)

    field = np.concatenate(in_threads(block_field, range(0, mask.size, BLOCK), threads))
    fitted = np.zeros(mask.shape, bool)
    fitted[mask] = weights
    return Normalisation(
        field.reshape(mask.shape), dict(zip(degree0, map(float, factors), strict=True)),
        math.exp((basis[weights] @ coefficients).mean()), fitted,
    )


def _tissues(degree0: Mapping[str, Array], mask: Array, order: int) -> Array:
    """Return the tissues (m, t) of the voxels of the mask, NaN and infinite values as NaN; check all inputs."""
    if order not in ORDERS:
        raise InputError(f"the order of the field is {order}: give 0, 1, 2 or 3")
    if not degree0:
        raise InputError("there is no tissue to normalise: give one or more")
    for name, values in degree0.items():
        if values.shape != mask.shape:
            raise InputError(f"the mask is {mask.shape}, {name} {values.shape}: give images of the same grid")
    if mask.dtype != bool:
        raise InputError(f"the mask is of {mask.dtype}: give a bool for each voxel")
    if not mask.any():
        raise InputError("the mask has no voxel: give one of the brain")
    tissues = np.stack([values[mask] for values in degree0.values()], axis=1).astype(np.float64)
    finite: Array = np.asarray(np.isfinite(tissues).all(axis=1))
    if not finite.all():
        few = np.count_nonzero(~finite)
        warnings.warn(f"{few} of {len(finite)} voxels of the mask are not finite and not normalised", stacklevel=3)
    tissues = np.where(finite[:, None], np.maximum(tissues, 0), np.nan)
    for name, most in zip(degree0, np.nanmax(tissues, axis=0, initial=0), strict=True):
        if not most > 0:
            raise InputError(f"{name} is 0 in the whole mask, which has no balance factor then: leave it out")
    return tissues


def _frame(positions: Array) -> tuple[Array, float]:
    """Return the centre (3,) and half the size of a box of positions (m, 3), within which coordinates are -1 to 1."""
    low, high = positions.min(axis=0), positions.max(axis=0)
    return (low + high) / 2, float(max((high - low).max() / 2, 1e-6))


def _polynomials(positions: Array, order: int) -> Array:
    """Return all products of up to ``order`` coordinates (m, k) of positions (m, 3)."""
    products = [axes for degree in range(order + 1) for axes in combinations_with_replacement(range(3), degree)]
    terms = np.ones((len(products), len(positions)))
    for term, axes in zip(terms, products, strict=True):
        for axis in axes:
            term *= positions[:, axis]
    return terms.T


def _fit(tissues: Array, basis: Array, names: list[str]) -> tuple[Array, Array, Array]:
    """Return the polynomial of the field's logarithm (k,), the balance factors (t,) and the weights (m,), bool."""
    log_field, factors = np.zeros(len(tissues)), np.ones(tissues.shape[1])
    weights = _inliers(_log_sum(tissues, factors), FIRST_RANGE)
    coefficients = np.zeros(basis.shape[1])
    for _ in range(ROUNDS):
        even = tissues / np.exp(log_field)[:, None]
        for _ in range(BALANCINGS):
            if len(factors) > 1:
                factors = _balance(even[weights], names)
            before, weights = weights, _inliers(_log_sum(even, factors), RANGE)
            if (weights == before).all():
                break
        coefficients = _fit_field(basis[weights], _log_sum(tissues[weights], factors) - math.log(REFERENCE))
        log_field = basis @ coefficients
    return coefficients, factors, weights


def _log_sum(tissues: Array, factors: Array) -> Array:
    """Return the logarithm (m,) of the balanced sum of tissues (m, t)."""
    with np.errstate(divide="ignore"):  # a voxel without any tissue
        return np.log(tissues @ factors)


def _inliers(values: Array, ranges: float) -> Array:
    """Return which values (m,) are finite and at most so many interquartile ranges beyond the quartiles.

    Quartiles are values at rounded ranks; voxels without a finite value have the lowest ranks, as in MRtrix3.
    """
    ranks = [min(math.floor(share * len(values) + 0.5), len(values) - 1) for share in (0.25, 0.75)]
    low, high = np.partition(np.nan_to_num(values, nan=-np.inf, posinf=np.inf, neginf=-np.inf), ranks)[ranks]
    with np.errstate(invalid="ignore"):  # if a quarter of the voxels has no tissue
        reach = ranges * (high - low)
        return np.isfinite(values) & (values >= low - reach) & (values <= high + reach)


def _balance(tissues: Array, names: list[str]) -> Array:
    """Return the factors (t,) that bring the sum of tissues (m, t) nearest to 1, over their geometric mean."""
    factors = np.linalg.lstsq(tissues.T @ tissues, tissues.sum(axis=0), rcond=None)[0]
    for name, factor in zip(names, factors, strict=True):
        if not factor > 0:
            raise InputError(
                f"the balance factor of {name} is {factor:.3g}, not above 0: check the mask and the responses, or "
                f"leave {name} out"
            )
    return factors / np.exp(np.log(factors).mean())


def _fit_field(basis: Array, values: Array) -> Array:
    """Return the polynomial (k,) nearest to values (m,)."""
    if len(basis) < basis.shape[1] or np.linalg.matrix_rank(basis.T @ basis) < basis.shape[1]:
        raise InputError(
            f"{len(basis)} voxels of the mask have tissue in the usual range and do not determine the "
            f"{basis.shape[1]} coefficients of the field: widen the mask or lower the order"
        )
    return np.linalg.solve(basis.T @ basis, basis.T @ values)
