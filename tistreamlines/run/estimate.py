"""An estimate of a run: a pilot of its seeds tells how many streamlines, how large a tractogram and how much time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..aliases import Array
from ..devices.host import peak_bytes
from ..io.writer import SINKS
from ..tracking.engine.engine import Engine
from ..tracking.products.points.content import Content
from ..tracking.seeding.seeds import Seeds
from .spec import Spec

FEWEST, MOST = 2000, 1 << 20  # seeds of a pilot
WARM_UP = 32  # seeds that are tracked before, so that no pilot meets a cold device
MORE = 4  # ratio of the seeds of a pilot to those of the one before
ENOUGH_SECONDS = 1.0  # a shorter pilot says little of the pace, above all on a GPU, where few seeds leave teams idle
ENOUGH, PATIENCE = 100, 10.0  # with fewer streamlines, more seeds are tried while a pilot takes less time, s
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Estimate:
    """The estimate of a run, from :func:`tistreamlines.estimate`.

    Attributes
    ----------
    arch, device : str
        Where the pilot was tracked, and the name of the device.
    seeds, streamlines, points : int
        Seeds that the run will track, and its expected streamlines and points.
    spread : dict of str to float
        By which fraction seeds, streamlines and points may differ, as two standard errors.
    file_bytes : dict of str to int
        Size of the tractogram by format: that of the output, or all.
    process_bytes : int or None
        Peak memory of this process so far, with its tables on a cpu; None if unknown.
    device_bytes : int
        Memory of the tables and of the buffers of the run on the device.
    prepare_seconds, track_seconds : float
        Time until tracking begins, as measured, and expected time of tracking.
    pilot_seeds, pilot_seconds : int, float
        Seeds that were tracked, and how long it took.
    spec : Spec
        The plan of the run; kernels, the record and the comparisons of ``resume`` and ``join`` follow from it.

    Examples
    --------
    >>> import numpy as np
    >>> import tistreamlines as ts
    >>> peaks = np.zeros((20, 5, 5, 3))
    >>> peaks[..., 0] = 1  # along x
    >>> expected = ts.estimate(
    ...     peaks=peaks, stop_map=np.ones((20, 5, 5)), affine=np.diag([2, 2, 2, 1]), seeds=[[20, 4, 4]] * 5,
    ...     dg="det", step_size=1, arch="cpu",
    ... )
    >>> expected.table()["streamlines"]
    '5'
    >>> sorted(expected.file_bytes)
    ['.npz', '.tck', '.trk', '.trx']
    """

    arch: str
    device: str
    seeds: int
    streamlines: int
    points: int
    spread: dict[str, float]
    file_bytes: dict[str, int]
    process_bytes: int | None
    device_bytes: int
    prepare_seconds: float
    track_seconds: float
    pilot_seeds: int
    pilot_seconds: float
    spec: Spec

    def table(self) -> dict[str, str]:
        """Return the estimate as text.

        Returns
        -------
        dict of str to str
            Values with their units, by description.
        """
        counts = {name: f"{getattr(self, name):,}{_margin(self.spread[name])}" for name in self.spread}
        if not self.streamlines:
            counts["streamlines"] = f"none in the pilot, so less than one in {self.pilot_seeds // 3:,} seeds"
        sizes = {f"{suffix} file": _gigabytes(size) for suffix, size in self.file_bytes.items()}
        return {
            "device": f"{self.arch}: {self.device}",
            **counts,
            **sizes,
            "memory of the process": "unknown" if self.process_bytes is None else _gigabytes(self.process_bytes),
            "memory on the device": _gigabytes(self.device_bytes),
            "reading and preparing": _duration(self.prepare_seconds),
            "tracking": f"{_duration(self.track_seconds)} ({self.seeds / max(self.track_seconds, 1e-9):,.0f} seeds/s)",
            "pilot": f"{self.pilot_seeds:,} seeds in {self.pilot_seconds:.2f} s",
        }


def make_estimate(
    engine: Engine, seeds: Seeds, numbers: range, progress: Callable[[int, int, int], None], *, select: int | None,
    time_limit: float | None, formats: Iterable[str], prepare_seconds: float, content: Content,
    spec: Spec,
) -> Estimate:
    """Track a pilot of a run, and estimate the whole.

    Parameters
    ----------
    engine, seeds, numbers, progress : see :func:`track_pilot`.
    select, time_limit : what ends the run early: accepted streamlines, and seconds of tracking.
    formats : suffixes of tractograms.
    prepare_seconds : time until the engine was ready.
    content : what the tractogram holds of each streamline.
    spec : what the run does.
    """
    pilot, count = track_pilot(engine, seeds, numbers, progress), len(numbers)
    each, enough = float(pilot.streamlines.mean()), False
    if select is not None and each:
        enough, count = select <= each * count, min(count, math.ceil(select / each))
    if time_limit is not None and time_limit * pilot.rate < count:
        enough, count = False, max(round(time_limit * pilot.rate), 1)
    streamlines = select if enough and select is not None else round(each * count)
    points = round(streamlines * pilot.points.sum() / max(pilot.streamlines.sum(), 1))
    spread = {"seeds": 0.0} | {name: pilot.spread(getattr(pilot, name), count) for name in ("streamlines", "points")}
    if enough:
        spread = {"seeds": spread["streamlines"], "streamlines": 0.0, "points": pilot.spread_per_streamline()}
    return Estimate(
        arch=engine.growth.device.arch,
        device=engine.growth.device.name,
        seeds=count,
        streamlines=streamlines,
        points=points,
        spread=spread,
        file_bytes={
            suffix: content.size(suffix, points, streamlines) + SINKS[suffix].STREAMLINE_BYTES * streamlines
            for suffix in formats
        },
        process_bytes=peak_bytes(),
        device_bytes=engine.growth.bytes_for(count, pilot.seeds),
        prepare_seconds=prepare_seconds,
        track_seconds=count / pilot.rate,
        pilot_seeds=pilot.seeds,
        pilot_seconds=pilot.seconds,
        spec=spec,
    )


def _margin(spread: float) -> str:
    return f" ± {100 * spread:.2g} %" if spread else ""


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.3g} GB" if size >= 1e9 else f"{size / 1e6:.3g} MB"


def _duration(seconds: float) -> str:
    """Return a duration in the largest unit of which it has at least one and a half."""
    unit, name = next(((u, n) for u, n in ((3600, "h"), (60, "min")) if seconds >= 1.5 * u), (1, "s"))
    return f"{seconds / unit:.3g} {name}"


@dataclass(frozen=True, eq=False)
class Pilot:
    """The run of the pilot.

    Parameters
    ----------
    seconds : duration.
    streamlines, points : (n,) int64, of each seed of the pilot.
    """

    seconds: float
    streamlines: Numbers
    points: Numbers

    @property
    def seeds(self) -> int:
        """Number of seeds of the pilot."""
        return len(self.streamlines)

    @property
    def rate(self) -> float:
        """Seeds per second."""
        return self.seeds / max(self.seconds, 1e-9)

    def spread(self, counts: Array, run: float) -> float:
        """Return two standard errors of the sum over the ``run`` seeds, relative to it, given that of each seed here.

        The seeds of the pilot are a random sample of those of the run, or the other way round.
        """
        n, mean = len(counts), float(counts.mean())
        error = np.sqrt(counts.var() * abs(1 / n - 1 / run))
        return 2 * float(error) / mean if mean else 0.0

    def spread_per_streamline(self) -> float:
        """Return two standard errors of the mean number of points per streamline, relative to it."""
        mean = self.points.mean()
        rest = self.points - mean / max(self.streamlines.mean(), 1e-9) * self.streamlines
        return 2 * float(rest.std() / np.sqrt(self.seeds) / mean) if mean else 0.0


def track_pilot(engine: Engine, seeds: Seeds, numbers: range, progress: Callable[[int, int, int], None]) -> Pilot:
    """Track pilots of more and more seeds, until one takes long enough or has all of them; return the last one.

    Parameters
    ----------
    engine : grows the streamlines.
    seeds, numbers : the seeds, and which numbers are those of the run.
    progress : receives the seeds that are finished, those of the pilot and the streamlines.
    """
    _track(engine, seeds, _spread_over(numbers, WARM_UP), progress)
    count = FEWEST
    while True:
        pilot = _track(engine, seeds, _spread_over(numbers, count), progress)
        enough = ENOUGH_SECONDS if pilot.streamlines.sum() >= ENOUGH else PATIENCE
        if pilot.seeds in (len(numbers), MOST) or pilot.seconds >= enough:
            return pilot
        count = min(MORE * count, MOST)


def _spread_over(numbers: range, count: int) -> Numbers:
    """Choose numbers at random, one in each of ``count`` equal ranges; all of them if there are no more."""
    if count >= len(numbers):
        return np.arange(numbers.start, numbers.stop)
    # at equal distances, they might all lie in the same corner of their voxels
    places = np.arange(count) + np.random.default_rng(0).random(count)
    return numbers.start + (places * (len(numbers) / count)).astype(np.int64)


def _track(engine: Engine, seeds: Seeds, numbers: Numbers, progress: Callable[[int, int, int], None]) -> Pilot:
    """Track the seeds of some numbers, and count."""
    points, directions = seeds.sample(numbers)
    first, n = int(numbers[0]), len(numbers)
    counts, begun = np.zeros((2, n), np.int64), time.perf_counter()
    for batch in engine.track(np.asarray(points), first, directions):
        seed = batch.seed_number.astype(np.int64) - first
        counts += [np.bincount(seed, minlength=n), np.bincount(seed, batch.whole_lengths, n).astype(np.int64)]
        progress(int(seed[-1]) + 1 if len(seed) else 0, n, int(counts[0].sum()))
    return Pilot(time.perf_counter() - begun, *counts)
