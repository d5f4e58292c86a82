"""Number, length and ends of the streamlines of a run, and what in them hints at a mistake.

Hints are an angle in radians, long steps, no streamlines, and halves that end alike.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ..aliases import Array, Json
from ..kernels.stop_reasons import DROPPED, Stop, Verdict
from ..option import flag
from ..options.parameters import Parameters, voxel_side
from ..space.batch import Batch
from ..space.sphere import SPHERES, load_sphere
from ..tracking.growth.settings import MOST_OF_HALF, steps_within
from ..tracking.growth.statistics import Statistics
from ..tracking.registry import METHODS
from ..tracking.sources import FITTED
from .record import by_reason

MOST = 0.8  # of the halves; with the default options, no reason below ends more than half of them in a brain's data
FEWEST = 200  # halves, of which so many may end alike by chance or by a user's choice of a few seeds
WIDEST = 15.0  # degrees: any vertex of any sphere has a nearer one; reading a sphere takes a second or two
SMALL_ANGLE = 3.2  # degrees: pi, the greatest angle in radians
STIFF = 3.0  # voxels, of the least radius of curvature: 0.1 to 2.9 by default, but 5.5 to 164 with angles in radians
LONG = 1.5  # voxels, of a step
WHERE_DROPPED = {  # what to do if most streamlines were dropped for a reason
    Verdict.EXCLUDED: "check where --exclude lies",
    Verdict.OUT_OF_TURN: "check the order of --include-ordered",
    Verdict.SEED_OUTSIDE_LIMIT: "place seeds inside --limit-mask, or inside --mask where it bounds streamlines",
    Verdict.NO_STEP: "place seeds in white matter (--seed-mask)",
    Verdict.TOO_LONG: "raise --max-length, or, without --pft, give --too-long truncate",
    Verdict.INVALID_ENDS: "give --keep all, or check the tissue maps",
    Verdict.TOO_SHORT: "lower --min-length",
    Verdict.MISSED_INCLUDE: "give more seeds, seeds nearer to the regions of --include, or larger regions",
    Verdict.ENDS_ELSEWHERE: "give more seeds, or larger regions of --ends-in",
}
WHERE_ENDED = {  # and if most halves ended for a reason
    Stop.END_POINT: "lower the threshold of the stop map or FA, in its unit",
    Stop.OUTSIDE_IMAGE: "check that seeds and maps lie in this image's space",
    Stop.NO_DIRECTION: "widen --max-angle, lower the threshold of directions, or check the axes of directions",
    Stop.MAX_LENGTH: "raise --max-length, --max-steps or --step-size",
    Stop.VALID_END: "check that the mask or the tissue maps of the stopping rule lie in white matter",
    Stop.INVALID_END: "check that the tissue maps are in their order and place",
}
EARLY = (Verdict.NO_STEP, Verdict.TOO_SHORT, Verdict.INVALID_ENDS)  # for which the ends of halves are the cause


def nothing(seeds: int, dropped: Mapping[str, int], stop_reasons: Mapping[str, int]) -> str:
    """Say that a run has no streamlines, why most were dropped and ended, and what to do.

    Parameters
    ----------
    seeds : int
        Seeds of the run.
    dropped, stop_reasons : mapping
        Streamlines by the reason why they were dropped, and halves by the reason why they ended, as in a record.

    Returns
    -------
    str
        A warning.
    """
    warning = f"no streamline was accepted from {seeds:,} seed{'s' if seeds != 1 else ''}"
    ends = {reason: stop_reasons.get(reason.name.lower(), 0) for reason in Stop if reason is not Stop.NOT_GROWN}
    total, halves = sum(dropped.values()), sum(ends.values())
    if not total:
        return (
            f"{warning}: none found a direction to start in; check that seeds lie in white matter of this image, and "
            "lower the threshold of directions"
        )
    verdict = max(DROPPED, key=lambda reason: dropped.get(reason.name.lower(), 0))
    warning += f"; most were dropped: {verdict.text} ({dropped[verdict.name.lower()]:,} of {total:,})"
    advice = [WHERE_DROPPED[verdict]]
    if verdict in EARLY and halves:
        end = max(ends, key=lambda reason: ends[reason])
        warning += f"; most halves ended: {end.text} ({ends[end] / halves:.0%})"
        advice += [WHERE_ENDED[end]] if end in WHERE_ENDED else []
    return f"{warning}; {', or '.join(advice)}"



def doubts_of_steps(
    parameters: Parameters, step_mm: float, voxel_sizes: npt.NDArray[np.float64], *, vertices: bool
) -> list[str]:
    """Say before tracking what looks wrong about the steps of any direction getter.

    Parameters
    ----------
    parameters : Parameters
        Options of the run.
    step_mm : float
        Distance between two points of a streamline, mm.
    voxel_sizes : (3,) float64
        Sides of a voxel, mm.
    vertices : bool
        Whether steps go along vertices of the sphere.

    Returns
    -------
    list of str
        Warnings.
    """
    step, voxel, angle = step_mm * parameters.parts, voxel_side(parameters.dg, voxel_sizes), parameters.max_angle
    straight = cannot_bend(parameters) if vertices else ""
    radius = step / (2 * math.sin(math.radians(angle) / 2))
    if not straight and angle < SMALL_ANGLE and radius > STIFF * voxel:
        straight = (
            f"--max-angle {angle:g}: with steps of {step:.3g} mm, streamlines bend with a radius of at least "
            f"{radius:.3g} mm, which is nearly straight; the angle is in degrees, not in radians (as radians, "
            f"{math.degrees(angle):.3g} degrees)"
        )
    doubts = [straight] if straight else []
    if step > LONG * voxel:
        doubts.append(
            f"--step-size {parameters.step_size}: a step is {step:.3g} mm long, {step / voxel:.2g} voxels, so that "
            f"streamlines jump over voxels; give at most {LONG:g}vox"
        )
    _, most = steps_within(step_mm, 0.0, parameters.max_mm(voxel_sizes))
    if parameters.max_steps is None and most is not None and most > MOST_OF_HALF:
        doubts.append(
            f"--max-length {parameters.max_length} takes {most:,} steps of {step_mm:.3g} mm, but a half ends after "
            f"{MOST_OF_HALF:,}, at {MOST_OF_HALF * step_mm:.3g} mm: give less, or a longer --step-size"
        )
    return doubts


def cannot_bend(parameters: Parameters) -> str:
    """Say so if the greatest angle is less than that between any two vertices, so that streamlines are straight."""
    if parameters.max_angle >= WIDEST or not parameters.applies("sphere"):
        return ""
    vertices, _ = load_sphere(parameters.sphere)
    cosines = np.abs(vertices @ vertices.T)
    least = float(np.degrees(np.arccos(np.sort(cosines, axis=1)[:, -2 if SPHERES[parameters.sphere][1] else -3].max())))
    if parameters.max_angle >= least:
        return ""
    return (
        f"--max-angle {parameters.max_angle:g}: the vertices of --sphere {parameters.sphere} are at least {least:.2g} "
        "degrees apart, so streamlines are straight lines; the angle is in degrees, not in radians"
    )


def doubt(ends: npt.NDArray[np.int64], parameters: Parameters, step_mm: float) -> str:
    """Say so if nearly all halves ended for one reason that hints at a mistake, and name likely causes.

    Parameters
    ----------
    ends : (len(Stop),) int64
        Halves that ended for each reason.
    parameters : Parameters
        Options of the run.
    step_mm : float
        Step size, mm.

    Returns
    -------
    str
        A warning, or nothing.
    """
    total = int(ends.sum() - ends[Stop.NOT_GROWN])
    if total < FEWEST:
        return ""
    known = {Stop.NO_DIRECTION: _no_direction, Stop.MAX_LENGTH: _maximum, Stop.INVALID_END: _tissue}
    if METHODS[parameters.dg].ends_anywhere:
        del known[Stop.NO_DIRECTION]
    for reason, causes in known.items():
        share = ends[reason] / total
        if share > MOST and not (reason is Stop.MAX_LENGTH and parameters.too_long == "truncate"):
            return f"{share:.0%} of the halves ended {causes(parameters, step_mm)}"
    return ""


def _no_direction(parameters: Parameters, step_mm: float) -> str:
    causes = []
    if parameters.max_angle < SMALL_ANGLE:
        causes.append(f"--max-angle {parameters.max_angle:g} is in degrees, not in radians")
    if step_mm < 0.1:
        causes.append(f"a step is {step_mm:.3g} mm long (--step-size)")
    if parameters.source == "peaks":
        causes.append("peaks of neighbouring voxels differ (--peak-width, --max-angle)")
    if parameters.source in ("sh", "peaks"):
        causes.append(f"directions may be along other axes ({flag(parameters.source + '_frame')})")
    if parameters.source == FITTED:
        causes.append("the gradients may be along other axes (--bvecs-frame)")
    causes.append("seeds or the stop map may reach beyond white matter, or the data may be too noisy")
    return f"since no direction lay within --max-angle {parameters.max_angle:g}: {'; '.join(causes)}"


def _maximum(parameters: Parameters, step_mm: float) -> str:
    if parameters.max_steps is None:
        most = f"after the greatest number of steps, {MOST_OF_HALF:,} or {MOST_OF_HALF * step_mm:.3g} mm"
        advice = "give more, a longer --step-size, or check whether the maps end streamlines anywhere"
        return f"at --max-length {parameters.max_length}, or {most}: {advice}"
    after = f"after --max-steps {parameters.max_steps}, at {parameters.max_steps * step_mm:.3g} mm"
    return f"{after}: give a longer --step-size or more steps, or check whether the maps end streamlines anywhere"


def _tissue(parameters: Parameters, _: float) -> str:
    return f"in cerebrospinal fluid (--stopping {parameters.stopping}): the tissue maps may be exchanged or shifted"


TOGETHER = 64  # batches that are counted at a time, since each call of NumPy may have to wait for Python's lock


@dataclass
class Counts:
    """Histograms of streamlines, whose memory does not grow with the number of streamlines.

    Attributes
    ----------
    streamlines : int
        Number of streamlines.
    """

    streamlines: int = 0
    _histogram: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, np.int64))
    _ends: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(len(Stop), np.int64))
    _waiting: list[tuple[Array, Array]] = field(default_factory=list)

    def add(self, batch: Batch) -> None:
        """Add the streamlines of a batch."""
        self.streamlines += len(batch)
        # not views, which keep the memory of the points
        self._waiting.append((batch.whole_lengths.copy(), batch.stop_reasons.copy()))
        if len(self._waiting) == TOGETHER:
            self._count()

    def _count(self) -> None:
        """Count the batches that wait for it."""
        if not self._waiting:
            return
        lengths, reasons = zip(*self._waiting, strict=True)
        self._waiting = []
        counts = np.bincount(np.concatenate(lengths), minlength=len(self._histogram))
        counts[: len(self._histogram)] += self._histogram
        self._histogram = counts
        self._ends += np.bincount(np.concatenate(reasons).ravel(), minlength=len(Stop))

    @property
    def histogram(self) -> npt.NDArray[np.int64]:
        """Number of streamlines with 0, 1, ... m - 1 points, (m,)."""
        self._count()
        return self._histogram

    @property
    def ends(self) -> npt.NDArray[np.int64]:
        """Number of their halves by stop reason."""
        self._count()
        return self._ends

    @property
    def points(self) -> int:
        """Number of points."""
        return int(self.histogram @ np.arange(len(self.histogram)))

    @property
    def mean(self) -> float:
        """Mean number of points per streamline, 0 if there are none."""
        return self.points / max(self.streamlines, 1)

    @property
    def median(self) -> float:
        """Median number of points per streamline, 0 if there are none."""
        total = self.streamlines
        if total == 0:
            return 0.0
        ranks = np.array([(total + 1) // 2, total // 2 + 1])
        return float(np.searchsorted(np.cumsum(self.histogram), ranks).mean())

    def summary(self, step_mm: float, grown: Statistics) -> Json:
        """Return counts, lengths (mm) and ends by name; a streamline of n points has n - 1 steps of ``step_mm``.

        ``grown`` has the counts of seeds, and of all streamlines that were grown from them.
        """
        return {
            "seeds": grown.seeds,
            "streamlines": self.streamlines,
            "points": self.points,
            "mean_points": self.mean,
            "median_points": self.median,
            "mean_mm": max(self.mean - 1, 0.0) * step_mm,
            "median_mm": max(self.median - 1, 0.0) * step_mm,
            "stop_reasons": by_reason(grown.stop_reasons, Stop.GROWING),
            "written_stop_reasons": by_reason(self.ends, Stop.GROWING),
            "dropped": by_reason(grown.verdicts, Verdict.ACCEPTED),
        }
