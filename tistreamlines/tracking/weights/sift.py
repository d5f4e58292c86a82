"""SIFT: a selection of streamlines whose density in each fixel comes near the density of its fibres.

References
----------
Smith, Tournier, Calamante, Connelly. SIFT: Spherical-deconvolution informed filtering of tractograms. NeuroImage 67,
2013. The rules by which streamlines go, and the defaults, are those of MRtrix3's ``tcksift``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ...aliases import Array
from ...backends.numba.cache import Function, text_of
from ...devices.threads import in_threads, single_blas
from .fixels import Fixels
from .sift2 import NoVisit
from .visit_list import VisitList, in_memory

_text = text_of(Path(__file__).with_name("sift_kernels.py"))
_count_visits, _lay_out, _sum_costs, _find_gradients, _remove_in_turn = (
    Function(_text, name) for name in ("count_visits", "lay_out", "sum_costs", "find_gradients", "remove_in_turn")
)
Watch = Callable[[int, int, float], object]
REASONS = (  # in tcksift's words; their places are those of the kernels
    "Positive gradient", "Non-linearity", "Quantisation", "Target streamline count", "Termination ratio",
    "Target proportionality coefficient",
)
ALL_TRIED, TOO_LITTLE, RATIO, TARGETS = 0, 2, 4, (3, 4, 5)
KEPT, NEXT, REMOVED, REASON, COUNTS = 0, 1, 3, 4, 5  # places in the counts of a pass
TOTAL, SUMS = 1, 6  # places in its sums
COLUMNS = 4  # of fixels
AT_ONCE = 1 << 13  # streamlines whose gradients a thread finds at once
FEWEST = 1 << 14  # streamlines that are sorted at first
SCATTER = 2654435761  # 2^32 / golden ratio: multiples of it, modulo 2^32, lie in no apparent order


@dataclass(frozen=True)
class SiftRules:
    """When the selection ends, and which fixels count.

    Parameters
    ----------
    number : int, optional
        Streamlines that are kept.
    ratio : float, optional
        It ends where the cost falls by less than this times the share of the streamlines' length that goes for it.
    mu : float, optional
        It ends where the proportionality coefficient is greater.
    fd_thresh : float
        Fixels with less fibre density do not count.
    remove_untracked : bool
        Fixels without a streamline do not count.
    """

    number: int | None = None
    ratio: float | None = None
    mu: float | None = None
    fd_thresh: float = 0.0
    remove_untracked: bool = False

    @property
    def has_target(self) -> bool:
        """Whether it ends by one of these."""
        return any(target is not None for target in (self.number, self.ratio, self.mu))


@dataclass(frozen=True)
class SiftIteration:
    """The state after an iteration.

    Parameters
    ----------
    number : int
        Of the iteration; 0 at first.
    removed : int
        Streamlines that it has removed.
    streamlines : int
        Those that are left.
    cost : float
        Cost of the densities.
    length : float
        Length of all streamlines that are left, mm, times how much fixels count.
    mu : float
        Proportionality coefficient.
    reason : str
        Why it has ended, in tcksift's words.
    """

    number: int
    removed: int
    streamlines: int
    cost: float
    length: float
    mu: float
    reason: str = "Start"


@dataclass(frozen=True, eq=False)
class SiftSelection:
    """The result of SIFT.

    Parameters
    ----------
    kept : (n,) bool
        The streamlines that are kept.
    iterations : tuple of SiftIteration
        The state at first and after each iteration.
    reached : bool
        Whether it ended as the rules ask; True if they ask for nothing.
    idle : int
        Streamlines that visit no fixel that counts.
    """

    kept: npt.NDArray[np.bool_]
    iterations: tuple[SiftIteration, ...]
    reached: bool
    idle: int


@dataclass(eq=False)
class _Rows:
    """Visits of streamlines side by side, and the fixels that they visit; see the kernels."""

    visits: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]
    contributions: npt.NDArray[np.float64]
    fixels: npt.NDArray[np.float64]
    densities: float  # sum of fibre densities times masks
    kept: npt.NDArray[np.uint8] = field(init=False)
    gradients: npt.NDArray[np.float64] = field(init=False)
    shares: npt.NDArray[np.float64] = field(init=False)

    def __post_init__(self) -> None:
        count = len(self.contributions)
        self.kept = np.ones(count, np.uint8)
        self.gradients, self.shares = np.zeros(count), np.zeros(count)


def sift(
    fixels: Fixels, parts: list[VisitList], lengths: npt.NDArray[np.float64], rules: SiftRules, *,
    threads: int | None = None, watch: Watch = lambda *_: None,
) -> SiftSelection:
    """Remove streamlines one after the other, as long as the cost of the densities falls.

    In each iteration, the change of the cost without each streamline is found, which counts the change of mu, too.
    Those with the greatest fall for their contribution go first. By then, the others that went have changed the fall.
    The iteration ends at a streamline for which it is less than half as great as at first, or less than the ratio asks
    for. It also ends at a fall of less than half of the cost of the streamline's own length in fixels of the right
    density. All ends with an iteration in which none goes. If a target is not reached by then, the last condition is
    dropped.

    Streamlines that visit no fixel that counts go along in a scattered order, so that the same share of their length is
    removed.

    Parameters
    ----------
    fixels : Fixels
        The fixels, their fibre densities, and how much their voxels count.
    parts : list of VisitList
        Visits of all streamlines, in memory; the list becomes empty.
    lengths : (n,) float64
        Length of each streamline, in any unit.
    rules : SiftRules
        When it ends, and which fixels count.
    threads : int, optional
        CPU threads; by default all cores. The selection is the same with any number.
    watch : callable, optional
        Receives the number of each iteration, the streamlines that are left, and the cost as a share of the first one.

    Returns
    -------
    SiftSelection

    Raises
    ------
    NoVisit
        If no streamline visits a fixel in the mask.
    """
    count, unit = len(lengths), fixels.table.unit_mm
    rows = _rows(fixels, parts, count, rules)
    spare = np.flatnonzero((rows.contributions == 0) & (lengths > 0))
    spare = spare[np.argsort(spare * SCATTER % 2**32, kind="stable")]
    of_use, idle = (math.fsum(lengths[numbers]) for numbers in (np.flatnonzero(rows.contributions), spare))
    sums = np.array([rows.densities, math.fsum(rows.contributions), of_use, 0.0, idle, 0.0])
    counts = np.zeros(COUNTS, np.int64)
    counts[KEPT] = count

    iterations, strict, reason = [_state(rows, counts, sums, unit, 0, count, "Start")], True, ALL_TRIED
    first = iterations[0].cost or 1.0
    with single_blas():  # once for all iterations
        while reason not in TARGETS:
            left = int(counts[KEPT])
            reason = _iterate(rows, spare, lengths, counts, sums, rules, unit, strict=strict, threads=threads)
            last = _state(rows, counts, sums, unit, len(iterations), left, REASONS[reason])
            iterations.append(last)
            watch(last.number, last.streamlines, last.cost / first)
            if reason == RATIO and last.removed:
                reason = ALL_TRIED  # it may hold no more with new gradients
            elif not last.removed and reason not in TARGETS:
                if not (strict and reason == TOO_LITTLE and rules.has_target):
                    break
                strict = False
    idle = int(np.count_nonzero(rows.contributions == 0))
    reached = not rules.has_target or reason in TARGETS
    return SiftSelection(rows.kept.astype(bool), tuple(iterations), reached, idle)


def _state(
    rows: _Rows, counts: npt.NDArray[np.int64], sums: npt.NDArray[np.float64], unit: float, number: int, before: int,
    reason: str,
) -> SiftIteration:
    """Return the state after an iteration, before which there were so many streamlines."""
    costs, mu, left = np.zeros(2), float(sums[0] / sums[TOTAL]), int(counts[KEPT])
    _sum_costs(rows.fixels, mu, costs)
    return SiftIteration(number, before - left, left, float(costs[0]), float(sums[TOTAL]) * unit, mu / unit, reason)


def _rows(fixels: Fixels, parts: list[VisitList], count: int, rules: SiftRules) -> _Rows:
    """Put the visits of each streamline side by side; the list of parts becomes empty."""
    fibres, masks = fixels.fibres.astype(float), fixels.masks
    masks[fibres <= rules.fd_thresh] *= not rules.fd_thresh
    table, counts = np.zeros((len(fibres), COLUMNS)), np.zeros(count, np.int64)
    words = [in_memory(part.words) for part in parts]
    for part, visits in zip(parts, words, strict=True):
        _count_visits(part.order, part.begin, part.depth, visits, masks, counts, table)
    if rules.remove_untracked:
        masks[table[:, 0] == 0] = 0.0
    table[:, 1], table[:, 2] = fibres, masks
    offsets = np.concatenate([[0], np.cumsum(counts)])
    visits, contributions = np.empty(offsets[-1], np.int32), np.zeros(count)
    while parts:
        part = parts.pop()
        _lay_out(part.order, part.begin, part.depth, words.pop(), masks, offsets, visits, contributions)
    if not contributions.any():
        raise NoVisit("no streamline visits a fixel that counts: are both files of one subject, in one space?")
    return _Rows(visits, offsets, contributions, table, math.fsum(masks * fibres))


def _iterate(
    rows: _Rows, spare: npt.NDArray[np.int64], lengths: npt.NDArray[np.float64], counts: npt.NDArray[np.int64],
    sums: npt.NDArray[np.float64], rules: SiftRules, unit: float, *, strict: bool, threads: int | None,
) -> int:
    """Find gradients and remove streamlines by them; return why no more are removed."""
    costs = np.zeros(2)
    _sum_costs(rows.fixels, float(sums[0] / sums[TOTAL]), costs)
    model = np.array([sums[0], sums[TOTAL], costs[1]])

    def find(first: int) -> None:
        _find_gradients(
            (first, min(first + AT_ONCE, len(rows.kept))), rows.visits, rows.offsets, rows.contributions, rows.kept,
            rows.fixels, model, rows.gradients, rows.shares,
        )

    in_threads(find, range(0, len(rows.kept), AT_ONCE), threads)
    ends = (
        -1 if rules.number is None else rules.number, float(rules.ratio or 0.0), float(rules.mu or 0.0) * unit,
        float(costs[0]), float(costs[1]), int(strict),
    )
    table = rows.offsets, rows.gradients, rows.contributions, lengths
    most = max(FEWEST, 2 * int(counts[REMOVED]))
    counts[[NEXT, REMOVED]] = 0
    for order in _orders(rows.shares, most):
        _remove_in_turn(order, spare, rows.visits, table, rows.kept, rows.fixels, ends, counts, sums)
        if counts[REASON] != ALL_TRIED:
            break
    return int(counts[REASON])


def _orders(shares: npt.NDArray[np.float64], most: int) -> Iterator[Array]:
    """Yield streamlines whose removal lowers the cost, by the fall for their contribution: the first ones, then all."""
    falling = np.flatnonzero(shares < 0)
    values = shares[falling]
    if len(falling) > most:
        first = falling[values <= np.partition(values, most)[most]]
        yield first[np.argsort(shares[first], kind="stable")]
    yield falling[np.argsort(values, kind="stable")]
