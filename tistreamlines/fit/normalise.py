"""Normalisation of tissues: an intensity field, and balance factors, that make the sum of tissues one constant.

The field is the exponential of a polynomial in the coordinates of voxels, and so in those of the scanner. Factors and
field are fitted in turn, and voxels whose sum lies far from the others' take no part. MRtrix3's ``mtnormalise`` has the
same rules.

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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from ..aliases import Array
from ..devices import usable_cores
from ..devices.threads import in_threads, single_blas
from ..errors import InputError

REFERENCE = math.sqrt(1 / (4 * math.pi))  # of the sum of tissues: the degree-0 coefficient of 1
ORDERS = (0, 1, 2, 3)
AXES = range(3)
ROUNDS, BALANCINGS = 15, 7  # of factors and field, and of factors and outliers in each
FIRST_RANGE, RANGE = 3.0, 1.5  # interquartile ranges beyond the quartiles, from which a voxel is an outlier
BLOCK = 1 << 16  # voxels per task, unless a plane has more; fixed, so that the bits do not depend on the threads
QUARTILES = (0.25, 0.75)
SAMPLED, SPREAD = 64, 4.0  # of so many voxels, one tells where quartiles lie, to within so many standard deviations
GROUP = 6  # parts whose voxels are compared together
MOST_THREADS = 4  # more of them wait for Python's lock: most calls of NumPy take few microseconds
Item = TypeVar("Item")
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
    degree0: Mapping[str, Array], mask: npt.NDArray[np.bool_], order: int = 3, threads: int | None = None
) -> Normalisation:
    """Fit the intensity field and the balance factors of tissues, as MRtrix3's ``mtnormalise`` does.

    Parameters
    ----------
    degree0 : mapping of str to (x, y, z)
        The coefficient of degree 0 of each tissue; negative values count as 0.
    mask : (x, y, z) bool
        Brain mask.
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
    polynomials = _Polynomials(mask, order)
    fit = _Fit(tissues, polynomials, mask, [*degree0], threads)
    with single_blas():
        coefficients, factors, scale = fit.run()
    field = np.empty(mask.shape, np.float32)

    def fill(planes: slice) -> None:
        np.exp(polynomials.values(coefficients, planes), out=field[planes], casting="same_kind")

    in_threads(fill, _planes(mask), threads)
    fitted = np.zeros(mask.shape, bool)
    fitted[mask] = fit.weights
    return Normalisation(field, dict(zip(degree0, map(float, factors), strict=True)), scale, fitted)


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


class _Polynomials:
    """All products of up to ``order`` coordinates of voxels, which are at most 1 in the box of a mask.

    Each is a product of one power for each axis, so sums over an image and values in it take an axis at a time.
    """

    def __init__(self, mask: npt.NDArray[np.bool_], order: int) -> None:
        powers = [each for each in np.ndindex(3 * (order + 1,)) if sum(each) <= order]
        self._order, self.powers = order, np.array(sorted(powers, key=sum))  # first the constant
        sides = [np.asarray(mask.any(axis=tuple({*AXES} - {axis}))) for axis in AXES]
        self._tables = [_table(side, 2 * order) for side in sides]

    def values(self, coefficients: Array, planes: slice) -> Array:
        """Return a polynomial (k,) in the voxels of planes, (planes, y, z)."""
        cube = np.zeros(3 * (self._order + 1,))
        cube[tuple(self.powers.T)] = coefficients
        x, y, z = (table[:, : self._order + 1] for table in self._tables)
        return y @ np.tensordot(x[planes], cube, axes=1) @ z.T

    def moments(self, image: Array, planes: slice) -> Array:
        """Return the sums (2 order + 1, ...) of planes (planes, y, z) times all powers of x, y and z."""
        x, y, z = self._tables
        return np.tensordot(x[planes].T, y.T @ (image @ z), axes=1)

    def equations(self, weights: Array, values: Array) -> tuple[Array, Array]:
        """Return the normal equations (k, k) and (k,) of moments of weights and of weighted values."""
        return weights[tuple((self.powers[:, None] + self.powers).T)], values[tuple(self.powers.T)]


def _table(inside: npt.NDArray[np.bool_], highest: int) -> Array:
    """Return the powers (n, highest + 1) of coordinates along an axis, of sizes up to 1 in the part that is inside."""
    first, last = np.flatnonzero(inside)[[0, -1]]
    coordinates = (np.arange(len(inside)) - (first + last) / 2) / max((last - first) / 2, 1)
    return coordinates[:, None] ** np.arange(highest + 1)


def _planes(mask: npt.NDArray[np.bool_]) -> list[slice]:
    """Return the planes of each task."""
    count, thickness = len(mask), max(BLOCK // mask[0].size, 1)
    return [slice(first, min(first + thickness, count)) for first in range(0, count, thickness)]


@dataclass(frozen=True, eq=False)
class _Part:
    """Some planes of an image: which of a mask's voxels they have, and where these lie in the planes."""

    planes: slice
    voxels: slice
    inside: npt.NDArray[np.bool_]

    def image(self, values: Array) -> Array:
        """Return the planes with values (m,) in the voxels of the mask, 0 elsewhere."""
        image = np.zeros(self.inside.shape)
        image[self.inside] = values
        return image


class _Fit:
    """The fit of the field's logarithm and of balance factors to the voxels of a mask, in threads.

    Sums over voxels are those of parts, added in order, so that they do not depend on the number of threads.

    Parameters
    ----------
    tissues : (t, m), not negative.
    polynomials : of the field.
    mask : (x, y, z) bool, with m voxels.
    names : of the tissues.
    threads : number of threads.

    Attributes
    ----------
    weights : (m,) bool, voxels that are no outliers.
    """

    def __init__(
        self, tissues: Array, polynomials: _Polynomials, mask: Array, names: list[str], threads: int | None
    ) -> None:
        self._tissues, self._polynomials, self._names = tissues, polynomials, names
        self._threads = min(threads or usable_cores(), MOST_THREADS)
        self._even, self._logs = tissues.copy(), np.empty(tissues.shape[1])
        self.weights = np.ones(tissues.shape[1], bool)
        self._sums_of_weights: Array | None = None  # moments, unless the weights have changed
        planes = _planes(mask)
        ends = np.cumsum([np.count_nonzero(mask[part]) for part in planes]).tolist()
        parts = zip(planes, [0, *ends], ends, strict=False)
        self._parts = [_Part(part, slice(first, end), mask[part]) for part, first, end in parts if first < end]
        self._groups = [self._parts[first : first + GROUP] for first in range(0, len(self._parts), GROUP)]

    def run(self) -> tuple[Array, Array, float]:
        """Return the polynomial (k,), the factors (t,), and the geometric mean of the field in the inliers."""
        factors, coefficients = np.ones(len(self._tissues)), np.zeros(len(self._polynomials.powers))
        normal = np.eye(len(coefficients))
        self._select(factors, FIRST_RANGE)
        for _ in range(ROUNDS):
            moments = self._divide(coefficients)
            for _ in range(BALANCINGS):
                if len(factors) > 1:
                    factors = _balance(moments, self._names)
                if not self._select(factors, RANGE):
                    break
                moments = _sum(self._each(self._moments, self._parts))
            normal, rest = self._field()
            coefficients = coefficients + rest
        return coefficients, factors, math.exp(normal[0] @ coefficients / normal[0, 0])

    def _each(self, task: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """Return what a task gives for each part or each group of parts, in order."""
        return in_threads(task, items, self._threads)

    def _divide(self, coefficients: Array) -> Array:
        """Divide the tissues by the field; return the moments of :meth:`_moments`."""

        def divide(part: _Part) -> Array:
            logs = self._polynomials.values(coefficients, part.planes)[part.inside]
            np.divide(self._tissues[:, part.voxels], np.exp(logs), out=self._even[:, part.voxels])
            return self._moments(part)

        return _sum(self._each(divide, self._parts))

    def _moments(self, part: _Part) -> Array:
        """Return the products of tissues, and last the sum of each, (t, t + 1), over the inliers of a part."""
        inliers = self._even[:, part.voxels].compress(self.weights[part.voxels], axis=1)
        return np.concatenate([inliers @ inliers.T, inliers.sum(axis=1, keepdims=True)], axis=1)

    def _select(self, factors: Array, ranges: float) -> bool:
        """Select voxels whose sum is finite and at most so many interquartile ranges beyond the quartiles.

        Return whether they are others than before.
        """
        low, high = self._quartiles(factors)
        with np.errstate(invalid="ignore"):  # if a quarter of the voxels has no tissue
            reach = ranges * (high - low)

        def select(group: Sequence[_Part]) -> bool:
            voxels = _voxels(group)
            logs, before = self._logs[voxels], self.weights[voxels]
            weights = np.isfinite(logs) & (logs >= low - reach) & (logs <= high + reach)
            same = np.array_equal(weights, before)
            self.weights[voxels] = weights
            return not same

        if changed := any(self._each(select, self._groups)):
            self._sums_of_weights = None
        return changed

    def _quartiles(self, factors: Array) -> list[float]:
        """Compute the logarithm of the balanced sum of tissues; return its values at the ranks of the quartiles.

        Ranks are rounded; voxels without any tissue have the lowest ones, as in MRtrix3. A sample tells limits between
        which a quartile lies, so that few values have to be sorted.
        """
        with np.errstate(divide="ignore"):  # a voxel without any tissue
            sample = np.sort(np.log(factors @ self._even[:, ::SAMPLED]))
        limits = [_limits(sample, share) for share in QUARTILES]

        def measure(group: Sequence[_Part]) -> list[tuple[int, Array]]:
            for part in group:
                with np.errstate(divide="ignore"):
                    np.log(factors @ self._even[:, part.voxels], out=self._logs[part.voxels])
            logs = self._logs[_voxels(group)]
            return [(int(np.count_nonzero(logs < low)), logs[(logs >= low) & (logs <= high)]) for low, high in limits]

        count, quartiles = len(self._logs), []
        for share, parts in zip(QUARTILES, zip(*self._each(measure, self._groups), strict=True), strict=True):
            below, near = zip(*parts, strict=True)
            rank, values = min(math.floor(share * count + 0.5), count - 1), np.concatenate(near)
            place = rank - sum(below)
            if not 0 <= place < len(values):  # the sample is not like the rest
                place, values = rank, self._logs
            quartiles.append(np.partition(values, place)[place])
        return quartiles

    def _field(self) -> tuple[Array, Array]:
        """Fit the logarithm of the balanced sum of tissues, after their division by the field.

        Return the normal equations (k, k), and the polynomial (k,) that the field's has to be changed by.
        """

        def of_weights(part: _Part) -> Array:
            return self._polynomials.moments(part.image(self.weights[part.voxels]), part.planes)

        def of_values(part: _Part) -> Array:
            rest = np.where(self.weights[part.voxels], self._logs[part.voxels] - math.log(REFERENCE), 0)
            return self._polynomials.moments(part.image(rest), part.planes)

        if self._sums_of_weights is None:
            self._sums_of_weights = _sum(self._each(of_weights, self._parts))
        values = _sum(self._each(of_values, self._parts))
        normal, rest = self._polynomials.equations(self._sums_of_weights, values)
        if normal[0, 0] < len(normal) or np.linalg.matrix_rank(normal) < len(normal):
            raise InputError(
                f"{normal[0, 0]:.0f} voxels of the mask have tissue in the usual range and do not determine the "
                f"{len(normal)} coefficients of the field: widen the mask or lower the order"
            )
        return normal, np.linalg.solve(normal, rest)


def _voxels(group: Sequence[_Part]) -> slice:
    """Return the voxels of the mask that parts have which follow each other."""
    return slice(group[0].voxels.start, group[-1].voxels.stop)


def _sum(parts: Sequence[Array]) -> Array:
    """Return the sum of arrays, added in order."""
    return np.sum(parts, axis=0)


def _limits(sample: Array, share: float) -> tuple[float, float]:
    """Return values of a sorted sample between which the quantile of so large a share nearly surely lies."""
    place, reach = share * len(sample), SPREAD * math.sqrt(len(sample))
    low, high = math.floor(place - reach), math.ceil(place + reach)
    return sample[low] if low >= 0 else -math.inf, sample[high] if high < len(sample) else math.inf


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
