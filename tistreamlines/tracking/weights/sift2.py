"""SIFT2: weights of streamlines, from their visits to fixels and the fibre densities of these.

References
----------
Smith, Tournier, Calamante, Connelly. SIFT2: Enabling dense quantitative assessment of brain white matter connectivity
using streamlines tractography. NeuroImage 119, 2015. The defaults are those of MRtrix3's ``tcksift2``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ...aliases import Array
from ...devices import Device
from ...errors import InputError
from ...kernels.weights.sift2 import HIGHEST
from .device_weights import DeviceWeights
from .fixels import Fixels
from .options import Sift2Options, bounds_of
from .visit_list import VisitList
from .visit_memory import VisitMemory

Watch = Callable[[int, float, float], object]
NO_BOUND = 1e30  # of coefficients, instead of infinity


class NoVisit(InputError):
    """No streamline visits a fixel that counts."""


@dataclass(frozen=True)
class Spread:
    """Least, mean and greatest of some numbers, and the means of their sizes and squares, as tcksift2 has them."""

    least: float = 0.0
    mean: float = 0.0
    mean_abs: float = 0.0
    square: float = 0.0
    most: float = 0.0

    @classmethod
    def of(cls, values: Array) -> Spread:
        """Return that of some numbers, (n,) float64."""
        if not len(values):
            return cls()
        square = np.sum(values**2) / max(len(values) - 1, 1)
        return cls(*map(float, (values.min(), values.mean(), np.abs(values).mean(), square, values.max())))


@dataclass(frozen=True)
class Iteration:
    """The result of an iteration: costs of densities and of both regularisations, and the weights.

    ``streamlines`` have a weight above 0, and ``excluded`` fixels take no part; ``explained`` is the share of the fibre
    density that streamlines reach, where what exceeds it in a fixel does not count, and ``excess`` is what does, as a
    share of the whole fibre density; ``step`` and ``coefficients`` are those of all streamlines.
    """

    number: int
    data: float
    tikhonov: float
    variation: float
    streamlines: int
    excluded: int
    explained: float
    excess: float
    step: Spread = Spread()
    coefficients: Spread = Spread()

    @property
    def regularisation(self) -> float:
        """The cost of the coefficients."""
        return self.tikhonov + self.variation

    @property
    def total(self) -> float:
        """The whole cost."""
        return self.data + self.regularisation


@dataclass(frozen=True, eq=False)
class Weights:
    """The result of SIFT2.

    Attributes
    ----------
    coefficients : (n,) float32
        Of each streamline; its weight is the exponential of this, 0 at -infinity.
    mu : float
        Proportionality coefficient: a weighted length (mm) of streamlines in a fixel times this is a fibre density. NaN
        without streamlines.
    iterations : tuple of Iteration
        The state at first and after each iteration.
    """

    coefficients: npt.NDArray[np.float32]
    mu: float
    iterations: tuple[Iteration, ...]

    @property
    def weights(self) -> npt.NDArray[np.float64]:
        """Weight of each streamline, (n,)."""
        return np.exp(self.coefficients.astype(float))

    def __str__(self) -> str:
        """Tell in a line how it went."""
        if math.isnan(self.mu):
            none = "no streamline visits a fixel, so all weights are 1"
            return f"SIFT2: {none if len(self.coefficients) else 'there are no streamlines'}"
        if not self.iterations:
            return f"SIFT2: weights in one pass, mu {self.mu:.5g}"
        first, last = self.iterations[0], self.iterations[-1]
        left = f"{last.data / first.total:.1%} of the cost of the densities is left, that of the coefficients is "
        return (
            f"SIFT2: {last.number} iterations, {left}{last.regularisation / first.total:.1%}, mu {self.mu:.5g}\n"
            f"Streamlines of weight 1 reach {first.explained:.1%} of the fibre density, and exceed it by "
            f"{first.excess:.1%}; weighted ones reach {last.explained:.1%}, and exceed it by {last.excess:.1%}. "
            "SIFT2 lowers the excess; it reaches no fixel without streamlines"
        )


@dataclass(eq=False)
class _FixelDensities:
    """Densities of fixels: of fibres, and of streamlines, which are weighted lengths in units times ``scale``."""

    fibres: Array
    masks: Array
    first: Array
    visits: Array
    scale: float
    excluded: Array
    density: Array = field(init=False)
    mean: Array = field(init=False)

    def __post_init__(self) -> None:
        self.density, self.mean = self.first * self.scale, np.zeros(len(self.first))

    def update(self, sums: Array) -> None:
        """Take the sums of weighted lengths, and of coefficients times lengths, (fixels, 2)."""
        self.density = sums[:, 0] * self.scale
        counted = (self.first > 0) & (self.visits > 1)
        self.mean = np.where(counted, sums[:, 1] / np.maximum(self.first, 1), 0.0)

    @property
    def cost(self) -> float:
        """Cost of the densities of all fixels."""
        return float(np.sum(self.masks * (self.density - self.fibres) ** 2))

    @property
    def shares(self) -> tuple[float, float]:
        """Shares of the whole fibre density: what of it streamlines reach, and by how much they exceed it in fixels."""
        parts = self.fibres, np.minimum(self.density, self.fibres), np.maximum(self.density - self.fibres, 0)
        whole, explained, excess = (float(np.sum(self.masks * part)) for part in parts)
        return explained / whole, excess / whole

    def rows(self) -> Array:
        """Return what kernels read of each fixel."""
        first = self.first * self.scale
        part = np.where(self.excluded | (first == 0), 0.0, self.masks / np.where(first > 0, first, 1.0))
        masks = np.where(self.excluded, -self.masks, self.masks)
        columns = self.density - self.fibres, first, part, masks, self.mean, np.exp(self.mean)
        rows = np.empty((len(first), len(columns)), np.float32)
        for number, column in enumerate(columns):
            rows[:, number] = column
        return rows


def sift2(
    fixels: Fixels, parts: list[VisitList], count: int, device: Device, options: Sift2Options, *,
    threads: int | None = None, watch: Watch = lambda *_: None, memory: VisitMemory | None = None,
) -> Weights:
    """Weigh streamlines.

    Parameters
    ----------
    fixels : Fixels
        The fixels, their fibre densities, and how much their voxels count.
    parts : list of VisitList
        Visits of all streamlines; the list becomes empty.
    count : int
        Number of streamlines.
    device : Device
        The device that weighs them. The weights are the same everywhere.
    options : Sift2Options
        How they are weighed.
    threads : int, optional
        CPU threads; by default all cores.
    watch : callable, optional
        Receives the number of each iteration, and the costs of densities and of coefficients, as shares of the first
        cost.
    memory : VisitMemory, optional
        Memory for visits on this device, which has kept all parts; by default, all of them stay there.

    Returns
    -------
    Weights

    Raises
    ------
    NoVisit
        If no streamline visits a fixel in the mask.
    """
    if not count:
        return Weights(np.zeros(0, np.float32), math.nan, ())
    table, masks, fibres = fixels.table, fixels.masks, fixels.fibres.astype(float)
    memory = memory or VisitMemory(table.count, device, threads)
    held = DeviceWeights(parts, count, memory, excludes=bounds_of(options)[1] < HIGHEST)
    masks[fibres <= options.sift2_fd_thresh] *= not options.sift2_fd_thresh
    if options.sift2_remove_untracked:
        masks[held.first == 0] = 0.0
    if not (lengths := float(np.sum(masks * held.first)) * table.unit_mm):
        raise NoVisit("no streamline visits a fixel that counts: are both files of one subject, in one space?")
    mu = float(np.sum(masks * fibres)) / lengths
    # tcksift2 means to leave out fixels of one streamline, too, but does not: it counts threads instead of streamlines
    few = (held.first > 0) & (mu * table.unit_mm * held.first < options.sift2_min_td_frac * fibres)
    compared = _FixelDensities(fibres, masks, held.first, held.visits, mu * table.unit_mm, few)
    first = held.first * compared.scale
    ratio = np.divide(fibres, first, out=np.zeros(len(first)), where=first > 0)
    held.average(ratio, masks)
    rows = []
    if options.sift2_linear:  # logarithms of means of fibre density over that of streamlines (Smith et al. 2022)
        with np.errstate(divide="ignore"):
            coefficients = np.log(held.fetch("after"))
    else:
        rows = _iterate(held, compared, options, count, watch)
        coefficients = held.fetch("coefficients")
    coefficients[coefficients <= bounds_of(options)[0]] = -np.inf
    return Weights(coefficients, mu, tuple(rows))


def _iterate(
    held: DeviceWeights, fixels: _FixelDensities, options: Sift2Options, count: int, watch: Watch
) -> list[Iteration]:
    """Take steps until the cost hardly falls any more.

    How far coefficients are from the means of their fixels is found with the next step, which is not taken if there is
    no need of it.
    """
    strength = float(np.sum(fixels.masks * fixels.fibres**2)) / count
    tikhonov, variation = options.sift2_reg_tikhonov * strength, options.sift2_reg_tv * strength
    least, most = bounds_of(options)
    least, most = max(least, -NO_BOUND), min(most, HIGHEST)
    step = options.sift2_max_coeff_step
    bounds = {"tikhonov": tikhonov, "variation": variation, "step": step, "least": least, "most": most}
    visiting = int(np.count_nonzero(held.fetch("share") > 0))
    rows = [Iteration(0, fixels.cost, 0.0, 0.0, visiting, int(fixels.excluded.sum()), *fixels.shares)]
    held.step(fixels.rows(), fixels.scale, bounds)
    while True:
        fixels.excluded |= held.accept()
        spread = {}
        if options.sift2_csv is not None:
            coefficients = held.fetch("coefficients").astype(float)
            spread = {"step": Spread.of(coefficients - held.fetch("after")), "coefficients": Spread.of(coefficients)}
        fixels.update(held.sums(least))
        held.step(fixels.rows(), fixels.scale, bounds)
        square, rough, above = held.regularisation(least)
        rows.append(Iteration(
            len(rows), fixels.cost, tikhonov * square, variation * rough, above, int(fixels.excluded.sum()),
            *fixels.shares, **spread,
        ))
        watch(rows[-1].number, rows[-1].data / rows[0].total, rows[-1].regularisation / rows[0].total)
        falls = rows[-1].total - rows[-2].total < -options.sift2_min_cf_decrease * rows[0].total
        if rows[-1].number >= options.sift2_max_iters or not (falls or rows[-1].number < options.sift2_min_iters):
            return rows
