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
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from ..aliases import Array
from ..devices.threads import in_threads, single_blas
from ..errors import InputError

REFERENCE = math.sqrt(1 / (4 * math.pi))  # of the sum of tissues: the degree-0 coefficient of 1
ORDERS = (0, 1, 2, 3)
ROUNDS, BALANCINGS = 15, 7  # of factors and field, and of factors and outliers in each
FIRST_RANGE, RANGE = 3.0, 1.5  # interquartile ranges beyond the quartiles, from which a voxel is an outlier
BLOCK = 1 << 15  # voxels per task
Result = TypeVar("Result")

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
    voxels = np.flatnonzero(mask)
    polynomials = _Polynomials.over(voxels, mask.shape, affine, order, threads)
    fit = _Fit(tissues, polynomials, voxels, [*degree0], threads)
    with single_blas():
        coefficients, factors, scale = fit.run()
    field = np.empty(mask.size, np.float32)

    def fill(block: slice) -> None:
        field[block] = np.exp(coefficients @ polynomials.terms(np.arange(block.start, block.stop)))

    in_threads(fill, _blocks(mask.size), threads)
    fitted = np.zeros(mask.shape, bool)
    fitted[mask] = fit.weights
    factors_of = dict(zip(degree0, map(float, factors), strict=True))
    return Normalisation(field.reshape(mask.shape), factors_of, scale, fitted)


def _tissues(degree0: Mapping[str, Array], mask: Array, order: int) -> Array:
    """Return the tissues (t, m) of the voxels of the mask, 0 where one is not finite; check all inputs."""
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
    tissues = np.stack([values[mask] for values in degree0.values()]).astype(np.float64)
    finite: Array = np.asarray(np.isfinite(tissues).all(axis=0))
    if not finite.all():
        few = np.count_nonzero(~finite)
        warnings.warn(f"{few} of {len(finite)} voxels of the mask are not finite and not normalised", stacklevel=3)
        tissues[:, ~finite] = 0
    np.maximum(tissues, 0, out=tissues)
    for name, most in zip(degree0, tissues.max(axis=1), strict=True):
        if not most > 0:
            raise InputError(f"{name} is 0 in the whole mask, which has no balance factor then: leave it out")
    return tissues


@dataclass(frozen=True, eq=False)
class _Polynomials:
    """All products of up to ``order`` coordinates, which are -1 to 1 in a box of voxels.

    Parameters
    ----------
    shape, affine : of the image.
    order : of the polynomials.
    centre, size : of the box, (3,) and half its longest side, mm.
    """

    shape: tuple[int, ...]
    affine: Array
    order: int
    centre: Array
    size: float

    @classmethod
    def over(
        cls, voxels: Array, shape: tuple[int, ...], affine: Array, order: int, threads: int | None
    ) -> _Polynomials:
        """Return those of a box of voxels (m,), numbered in C order."""

        def corners(block: slice) -> tuple[Array, Array]:
            places = _positions(voxels[block], shape, affine)
            return places.min(axis=1), places.max(axis=1)

        lows, highs = zip(*in_threads(corners, _blocks(len(voxels)), threads), strict=True)
        low, high = np.min(lows, axis=0), np.max(highs, axis=0)
        return cls(shape, affine, order, (low + high) / 2, float(max((high - low).max() / 2, 1e-6)))

    @property
    def products(self) -> list[tuple[int, ...]]:
        """The axes of the coordinates of each product."""
        degrees = range(self.order + 1)
        return [axes for degree in degrees for axes in combinations_with_replacement(range(3), degree)]

    def terms(self, voxels: Array) -> Array:
        """Return the products (k, m) in voxels (m,), numbered in C order."""
        coordinates = (_positions(voxels, self.shape, self.affine) - self.centre[:, None]) / self.size
        terms = np.ones((len(self.products), len(voxels)))
        for term, axes in zip(terms, self.products, strict=True):
            for axis in axes:
                term *= coordinates[axis]
        return terms


def _positions(voxels: Array, shape: tuple[int, ...], affine: Array) -> Array:
    """Return the scanner coordinates (3, m) of voxels (m,), numbered in C order, mm."""
    indices = np.array(np.unravel_index(voxels, shape), np.float64)
    return np.ascontiguousarray(affine[:3, :3]) @ indices + affine[:3, 3:]


def _blocks(count: int) -> list[slice]:
    """Return slices of so many voxels; fixed, so that the bits do not depend on the number of threads."""
    return [slice(first, min(first + BLOCK, count)) for first in range(0, count, BLOCK)]


class _Fit:
    """The fit of the field's logarithm and of balance factors to the voxels of a mask, in threads.

    Sums over voxels are those of blocks, added in order, so that they do not depend on the number of threads.

    Parameters
    ----------
    tissues : (t, m), not negative.
    polynomials : of the field.
    voxels : (m,) int64, numbers of the voxels in C order.
    names : of the tissues.
    threads : number of threads.

    Attributes
    ----------
    weights : (m,) bool, voxels that are no outliers.
    """

    def __init__(
        self, tissues: Array, polynomials: _Polynomials, voxels: Array, names: list[str], threads: int | None
    ) -> None:
        count = len(voxels)
        self._tissues, self._names, self._threads = tissues, names, threads
        self._terms = np.empty((len(polynomials.products), count))
        self._even, self._logs = tissues.copy(), np.empty(count)
        self.weights = np.ones(count, bool)

        def fill(block: slice) -> None:
            self._terms[:, block] = polynomials.terms(voxels[block])

        self._each(fill)

    def run(self) -> tuple[Array, Array, float]:
        """Return the polynomial (k,), the factors (t,), and the geometric mean of the field in the inliers."""
        factors, coefficients = np.ones(len(self._tissues)), np.zeros(len(self._terms))
        self._select(factors, FIRST_RANGE)
        for _ in range(ROUNDS):
            moments = self._divide(coefficients)
            for _ in range(BALANCINGS):
                if len(factors) > 1:
                    factors = _balance(moments, self._names)
                same, moments = self._select(factors, RANGE)
                if same:
                    break
            coefficients = self._field(factors)
        logs: float = self._sum(lambda block: (coefficients @ self._terms[:, block])[self.weights[block]].sum())
        return coefficients, factors, math.exp(logs / np.count_nonzero(self.weights))

    def _each(self, task: Callable[[slice], Result]) -> list[Result]:
        """Return what a task gives for each block of voxels, in order."""
        return in_threads(task, _blocks(len(self.weights)), self._threads)

    def _sum(self, task: Callable[[slice], Any]) -> Any:
        """Return the sum over blocks."""
        return sum(self._each(task))

    def _divide(self, coefficients: Array) -> Array:
        """Divide the tissues by the field; return the moments of :meth:`_moments`."""

        def divide(block: slice) -> Array:
            np.divide(self._tissues[:, block], np.exp(coefficients @ self._terms[:, block]), out=self._even[:, block])
            return self._moments(block)

        return self._sum(divide)

    def _moments(self, block: slice) -> Array:
        """Return the products of tissues, and last the sum of each, (t, t + 1), over the inliers of a block."""
        inliers = self._even[:, block].compress(self.weights[block], axis=1)
        return np.concatenate([inliers @ inliers.T, inliers.sum(axis=1, keepdims=True)], axis=1)

    def _select(self, factors: Array, ranges: float) -> tuple[bool, Array]:
        """Select voxels whose sum is finite and at most so many interquartile ranges beyond the quartiles.

        Return whether they are the same as before, and their moments.
        """
        low, high = self._ranked(factors)
        with np.errstate(invalid="ignore"):  # if a quarter of the voxels has no tissue
            reach = ranges * (high - low)

        def select(block: slice) -> tuple[bool, Array]:
            logs, before = self._logs[block], self.weights[block]
            weights = np.isfinite(logs) & (logs >= low - reach) & (logs <= high + reach)
            same = bool((weights == before).all())
            self.weights[block] = weights
            return same, self._moments(block)

        same, moments = zip(*self._each(select), strict=True)
        return all(same), np.sum(moments, axis=0)

    def _ranked(self, factors: Array) -> Array:
        """Compute the logarithm of the balanced sum of tissues; return its values at the ranks of the quartiles.

        Ranks are rounded; voxels without any tissue have the lowest ones, as in MRtrix3.
        """

        def measure(block: slice) -> None:
            with np.errstate(divide="ignore"):  # a voxel without any tissue
                np.log(factors @ self._even[:, block], out=self._logs[block])

        self._each(measure)
        count = len(self._logs)
        ranks = [min(math.floor(share * count + 0.5), count - 1) for share in (0.25, 0.75)]
        return np.partition(self._logs, ranks)[ranks]

    def _field(self, factors: Array) -> Array:
        """Return the polynomial (k,) nearest to the logarithm of the balanced sum of tissues."""

        def equations(block: slice) -> Array:
            inliers = self.weights[block]
            terms = self._terms[:, block].compress(inliers, axis=1)
            values = np.log(factors @ self._tissues[:, block].compress(inliers, axis=1)) - math.log(REFERENCE)
            return terms @ np.column_stack([terms.T, values])

        normal, moments = np.split(self._sum(equations), [len(self._terms)], axis=1)
        count = np.count_nonzero(self.weights)
        if count < len(normal) or np.linalg.matrix_rank(normal) < len(normal):
            raise InputError(
                f"{count} voxels of the mask have tissue in the usual range and do not determine the "
                f"{len(normal)} coefficients of the field: widen the mask or lower the order"
            )
        return np.linalg.solve(normal, moments[:, 0])


def _balance(moments: Array, names: list[str]) -> Array:
    """Return the factors (t,) that bring the sum of tissues nearest to 1, over their geometric mean.

    ``moments`` are the sums of their products, and last of themselves, (t, t + 1).
    """
    factors = np.linalg.lstsq(moments[:, :-1], moments[:, -1], rcond=None)[0]
    for name, factor in zip(names, factors, strict=True):
        if not factor > 0:
            raise InputError(
                f"the balance factor of {name} is {factor:.3g}, not above 0: check the mask and the responses, or "
                f"leave {name} out"
            )
    return factors / np.exp(np.log(factors).mean())
