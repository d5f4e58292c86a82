"""The equations of deconvolution with several tissues: the signal of each is its response, convolved with its FOD.

A series has *shells*, among which are the volumes without diffusion weighting. Of a tissue, the signal of a volume is
the sum over its coefficients of harmonic, response of the shell, and coefficient; tissues add up. The amplitudes of
white matter along 300 directions must not be negative, nor those of grey matter and fluid.

With C the matrix of the series and C'C = L L', the solver works with y = L'x. There, the sum of squares that it
minimises is the squared distance from the unconstrained solution, and each constraint is a half-space. All voxels share
these half-spaces, and hence the matrix of the products of their normals.

References
----------
Jeurissen, Tournier, Dhollander, Connelly, Sijbers. Multi-tissue constrained spherical deconvolution for improved
analysis of multi-shell diffusion MRI data. NeuroImage 103, 2014.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..aliases import Array, GradientTable
from ..errors import InputError
from ..option import PathLike
from ..space.harmonics import count_of, degrees, sampling_matrix
from .shells import Volumes, clusters

WHITE, GREY, CSF = TISSUES = "wm", "gm", "csf"
RED_GREEN_BLUE = CSF, GREY, WHITE  # tissues in the order of dwi2response's -voxels
BASIS = "tournier07"  # of the coefficients
FEW = 2  # shells, b = 0 included, which tell no more than two tissues apart
UNWEIGHTED = 10.0  # s/mm2 up to which a volume counts as one without diffusion weighting; MRtrix3's
HIGHEST_ORDER = 8  # of a tissue, unless the caller gives its order
RIDGE = 1e-10  # of the greatest diagonal element of C'C, added to its diagonal; MRtrix3's
DETERMINED = 1e-12  # least eigenvalue of C'C over the greatest one, below which coefficients are not determined
DIRECTIONS = Path(__file__).with_name("directions_300.txt")

__all__ = ["TissueProblem", "tissue_shells"]


@dataclass(frozen=True, eq=False)
class TissueProblem:
    """The equations of a series and its tissues.

    Attributes
    ----------
    orders : of the harmonics of each tissue, by its name.
    volumes : (k,) int64, the volumes that are fitted.
    design : (k, n) float64, from the coefficients of all tissues to the signal.
    amplitudes : (m, n) float64, from the coefficients to the amplitudes that must not be negative.
    """

    orders: Mapping[str, int]
    volumes: npt.NDArray[np.int64]
    design: Array
    amplitudes: Array

    @classmethod
    def of(
        cls, gtab: GradientTable, responses: Mapping[str, Array], orders: Sequence[int] | None = None
    ) -> TissueProblem:
        """Return the equations of a series.

        Parameters
        ----------
        gtab : dipy.core.gradients.GradientTable
            Gradients of its volumes.
        responses : mapping
            Of each tissue, zonal coefficients of the degrees 0, 2, ... (shells, degrees), by rising b-value.
        orders : sequence of int, optional
            Order of the harmonics of each tissue; by default those of its response, at most 8.

        Raises
        ------
        InputError
            If shells and responses do not match, or the responses do not tell the tissues apart.
        """
        shells = tissue_shells(gtab)
        tables = {name: _checked(name, response, gtab, shells) for name, response in responses.items()}
        known = _orders_of(tables, orders)
        number = np.full(len(gtab.bvals), -1)
        for row, shell in enumerate(shells):
            number[shell] = row
        volumes = np.flatnonzero(number >= 0)
        _check_directions(gtab, shells)
        vectors, parts = np.asarray(gtab.bvecs, np.float64)[volumes], []
        for name, order in known.items():
            parts.append(_convolved(tables[name][number[volumes]], vectors, order))
        problem = cls(known, volumes, np.concatenate(parts, axis=1), _amplitudes(known))
        means = problem.design[:, [part.start for part in problem.parts().values()]]  # signals of even tissues
        if _rank(means) < len(known):
            raise InputError(
                f"the responses of {' and '.join(known)} do not tell these tissues apart in {len(shells)} shells: give "
                "responses that differ more, or fewer tissues"
            )
        return problem

    @cached_property
    def determined(self) -> int:
        """How many coefficients the signals determine; the other ones follow from the constraints and the ridge."""
        return _rank(self.design)

    @cached_property
    def factor(self) -> Array:
        """L (n, n), the Cholesky factor of C'C with a small ridge."""
        normal = self.design.T @ self.design
        return np.linalg.cholesky(normal + RIDGE * normal.diagonal().max() * np.eye(len(normal)))

    @cached_property
    def to_coefficients(self) -> Array:
        """The matrix (n, n) with x = to_coefficients @ y."""
        return np.linalg.inv(self.factor).T

    @cached_property
    def projection(self) -> Array:
        """The matrix (k, n) with y = signals @ projection, without constraints."""
        return self.design @ self.to_coefficients

    @cached_property
    def half_spaces(self) -> Array:
        """The unit normals (m, n) of the half-spaces in which y lies."""
        normals = self.amplitudes @ self.to_coefficients
        return normals / np.linalg.norm(normals, axis=1, keepdims=True)

    def parts(self) -> dict[str, slice]:
        """Return which of the coefficients are those of each tissue."""
        ends = np.cumsum([0, *(count_of(order) for order in self.orders.values())]).tolist()
        return {name: slice(*ends[k : k + 2]) for k, name in enumerate(self.orders)}


def doubts(problem: TissueProblem) -> list[str]:
    """Return a sentence about coefficients that the signals do not determine; none if they determine all.

    With few directions, these are of high degrees. They keep amplitudes from being negative, and are as small as that
    allows. So fibres that cross are found better than at a lower order. In a generated head with 30 directions of
    b = 1000, axes are wrong by 8.6 degrees in the mean at order 8, and by 13.8 at order 6. With 12 directions, these
    are 11.4 and 15.3.

    MRtrix3 solves the same problem, but its constraints give way a little (its ``-neg_lambda``): FODs of 12 to 30
    directions differ by 0.5 to 0.6 % from its default, and by 1e-5 from those with ``-neg_lambda 1e-13``.
    """
    if (known := problem.determined) == (count := problem.design.shape[1]):
        return []
    tissues = ", ".join(f"{name} of order {order}" for name, order in problem.orders.items())
    return [
        f"{len(problem.volumes)} volumes determine {known} of the {count} coefficients of {tissues}; the others follow "
        "from amplitudes that are not negative, as in MRtrix3"
    ]


def tissue_shells(gtab: GradientTable) -> list[Volumes]:
    """Return the volumes (n,) of each shell by rising b-value, unweighted ones first, as MRtrix3 does.

    A few stray volumes may be in no shell.
    """
    bvals: Array = np.round(np.asarray(gtab.bvals, np.float64), 6)
    unweighted = unweighted_volumes(gtab)
    shells = [] if unweighted.all() else clusters(bvals, ~unweighted)
    return [unweighted, *shells] if unweighted.any() else shells


def unweighted_volumes(gtab: GradientTable) -> Volumes:
    """Return the volumes (n,) without diffusion weighting: of b up to 10, as in MRtrix3, else the table's b0s."""
    lowest: Volumes = np.round(np.asarray(gtab.bvals, np.float64), 6) <= UNWEIGHTED
    return lowest if lowest.any() else np.asarray(gtab.b0s_mask, bool)


def check_unweighted(gtab: GradientTable) -> None:
    """Check that a series has volumes without diffusion weighting."""
    if not unweighted_volumes(gtab).any():
        raise InputError(f"no volume has a b-value up to {gtab.b0_threshold:g}: give a series with b = 0")


def _rank(matrix: Array) -> int:
    """Return the number of unknowns that a system of equations (k, n) determines."""
    values = np.linalg.eigvalsh(matrix.T @ matrix)
    return int((values > DETERMINED * values[-1]).sum())


def _checked(name: str, response: Array, gtab: GradientTable, shells: Sequence[Volumes]) -> Array:
    """Return the response of a tissue, as float64 without degrees that are all 0; check that it fits the shells."""
    table = np.array(response, np.float64, ndmin=2)
    if table.ndim != 2 or not np.isfinite(table).all():
        raise InputError(f"the response of {name} is not finite: give a row of numbers for each shell")
    if len(table) != len(shells):
        bvals = ", ".join(f"{gtab.bvals[shell].mean():.0f}" for shell in shells)
        raise InputError(
            f"the response of {name} has {len(table)} rows, but the series has the shells {bvals}: give a row for each"
        )
    if not table[:, 0].max() > 0:
        raise InputError(f"the response of {name} is nowhere positive: estimate it anew")
    return table[:, : int(np.flatnonzero(table.any(axis=0))[-1]) + 1]


def _orders_of(tables: Mapping[str, Array], orders: Sequence[int] | None) -> dict[str, int]:
    """Return the order of each tissue."""
    if orders is None:
        return {name: min(2 * table.shape[1] - 2, HIGHEST_ORDER) for name, table in tables.items()}
    if len(orders) != len(tables):
        raise InputError(f"{len(orders)} orders are not those of {', '.join(tables)}: give one for each")
    for name, order in zip(tables, orders, strict=True):
        if order < 0 or order % 2:
            raise InputError(f"order {order} of {name}: give an even number from 0 on")
    return dict(zip(tables, orders, strict=True))


def _check_directions(gtab: GradientTable, shells: Sequence[Volumes]) -> None:
    """Check that the series has volumes without diffusion weighting, and shells that are more than a volume."""
    check_unweighted(gtab)
    bvals = np.asarray(gtab.bvals)
    if len(shells) == 1:
        raise InputError("all volumes are without diffusion weighting: give a diffusion-weighted series")
    for shell in shells[1:]:
        if shell.sum() < 2:
            raise InputError(f"the shell of b = {bvals[shell][0]:.0f} is a single volume: leave it out")
        if not np.asarray(gtab.bvecs)[shell].any(axis=1).all():
            raise InputError(f"a volume of b = {bvals[shell].mean():.0f} has no direction: correct the gradients")


def _convolved(rows: Array, vectors: Array, order: int) -> Array:
    """Return the signal (k, coefficients) of each harmonic from the response of each volume (k, degrees)."""
    l_values = degrees(order)[0]
    zonal = np.sqrt((2 * l_values + 1) / (4 * np.pi))  # harmonics along z
    known = np.pad(rows, ((0, 0), (0, max(order // 2 + 1 - rows.shape[1], 0))))  # degrees that a response lacks are 0
    return sampling_matrix(vectors, order, BASIS) * known[:, l_values // 2] / zonal


def _amplitudes(orders: Mapping[str, int]) -> Array:
    """Return the matrix of the constraints: amplitudes along 300 directions, or that of an isotropic tissue."""
    from scipy.linalg import block_diag

    axis = np.array([[0.0, 0.0, 1.0]])
    known = orders.values()
    return np.asarray(block_diag(*(
        sampling_matrix(positive_directions() if order else axis, order, BASIS) for order in known
    )))


@cache
def positive_directions() -> npt.NDArray[np.float64]:
    """Return the directions (300, 3) along which amplitudes must not be negative: MRtrix3's."""
    azimuth, angle = np.loadtxt(DIRECTIONS).T
    return np.stack([np.sin(angle) * np.cos(azimuth), np.sin(angle) * np.sin(azimuth), np.cos(angle)], axis=1)


def tissues_of(files: Mapping[str, PathLike], gtab: GradientTable) -> list[str]:
    """Return the tissues that are fitted: those of the files of responses, or else those that the shells tell apart."""
    several = len(tissue_shells(gtab)) > FEW
    return [*files] or [name for name in TISSUES if several or name != GREY]
