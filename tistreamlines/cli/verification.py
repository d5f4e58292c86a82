"""Tracking of the same seeds on every arch, with several chunk sizes and numbers of threads, and bitwise comparison.

Each run has a separate process, so that a crash is only one failed run. A run stores its streamlines in a folder, which
the caller removes.
"""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from shutil import rmtree

import numpy as np

from ..aliases import Array, Json
from ..backends import compilers_for
from ..devices import ARCHS, NUMBERED, ON_HOST, choose, choose_several, list_devices
from ..errors import ParameterError, TrackingError
from ..helpers import module_command
from ..io.trx import map_points
from ..run.api import track
from ..run.saving import StoredTrx
from ..space.batch import Batch

SERIES = ("dwi", "bvals", "bvecs")
CHUNK_SIZES = (137, 5000)  # in addition to the automatic size
WORKER = "tistreamlines.cli.verification"  # the module of a process
TRACTOGRAM = "streamlines.trx"  # in the folder of a run
PointPair = tuple[list[float] | None, list[float] | None]  # of both runs; None where a streamline has ended


@dataclass(frozen=True)
class Variant:
    """The settings of one run; only runs with the same direction getter are compared.

    Parameters
    ----------
    arch : str
    chunk_size, threads : int, optional
        By default automatic, and all cores.
    dg : str, optional
        Direction getter; by default that of :func:`tistreamlines.track`.
    devices : str, optional
        Numbers of the devices that share the seeds; by default one device.
    compiler : str, optional
        Compiler for GPUs; by default that of :func:`tistreamlines.track`.
    others : mapping
        Other parameters of :func:`tistreamlines.track`.
    """

    arch: str
    chunk_size: int | None = None
    threads: int | None = None
    dg: str | None = None
    devices: str | None = None
    compiler: str | None = None
    others: Mapping[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        """Describe the settings in a few words."""
        words = [] if self.dg is None else [f"dg {self.dg}"]
        words += [] if self.chunk_size is None else [f"chunks of {self.chunk_size}"]
        words += [] if self.devices is None else [f"devices {self.devices}"]
        words += [] if self.compiler is None else [f"compiled by {self.compiler}"]
        words += [] if self.threads is None else [f"{self.threads} thread{'s'[: self.threads > 1]}"]
        return ", ".join([self.arch, *words, *(f"{name} {value}" for name, value in self.others.items())])

    def parameters(self) -> Json:
        """Return the settings as parameters of :func:`tistreamlines.track`."""
        settings = {name: value for name, value in vars(self).items() if name != "others" and value is not None}
        return settings | dict(self.others)


@dataclass(frozen=True)
class Difference:
    """The first difference between two runs.

    Attributes
    ----------
    streamline : int
        Index of the streamline in the first run.
    seed, direction : int
        Index of its seed, and of its initial direction at the seed.
    half : 'forward' or 'backward'
        None if only one run has the streamline.
    step : int
        First step that differs, counted from the seed, which is 0.
    points : pair of (3,) lists
        That point in both runs, RASmm; None if the streamline had ended.
    """

    streamline: int
    seed: int
    direction: int
    half: str | None = None
    step: int | None = None
    points: PointPair = (None, None)

    def __str__(self) -> str:
        """Describe the difference in one line."""
        text = f"streamline {self.streamline} (seed {self.seed}, direction {self.direction})"
        if self.step is None:
            return f"{text}, which only one run has"
        ends = ["no point" if p is None else "(" + " ".join(f"{x:.9g}" for x in p) + ") mm" for p in self.points]
        return f"{text}, step {self.step} {self.half}: {ends[0]} against {ends[1]}"


@dataclass(frozen=True)
class VerifiedRun:
    """The result of a variant; ``outcome`` is 'reference', 'equal', 'differs' or 'failed'."""

    variant: Variant
    outcome: str
    device: str = ""
    compiled_by: str = ""
    streamlines: int = 0
    points: int = 0
    seconds: float = 0.0
    sha256: str = ""
    error: str = ""
    difference: Difference | None = None

    def as_dict(self) -> Json:
        """Return the run as values for JSON."""
        row = asdict(self)
        return {**row.pop("variant"), **row}


def variants(archs: Sequence[str] = (), devices: str | None = None, every_compiler: bool = False) -> list[Variant]:
    """Return the variants to run; the first one is the reference.

    Parameters
    ----------
    archs : sequence of str
        Archs to run; by default all available ones, including software devices.
    devices : str, optional
        Devices that share the seeds in a further run of each arch whose devices have numbers.
    every_compiler : bool, optional
        Whether to run each GPU with each compiler that is installed.

    Raises
    ------
    DeviceError
        If a requested arch or device is not available.
    ParameterError
        If there is only one compiler to run.
    """
    for arch in archs:
        choose(arch)
    present = {device.arch for device in list_devices() if device.available}
    chosen = set(archs) or present
    compilers = {arch: compilers_for(arch) for arch in chosen} if every_compiler else {}
    if every_compiler and max(map(len, compilers.values())) < 2:
        raise ParameterError(
            "--compilers needs a Vulkan device or a GPU, and two compilers for it: pip install "
            '"tistreamlines[quadrants,forge]"'
        )
    runs = []
    for arch in (arch for arch in reversed(ARCHS) if arch in chosen):
        runs += [Variant(arch, compiler=name) for name in compilers.get(arch) or [None]]
        if arch in ON_HOST:
            cores = choose(arch).cores or 1
            runs += [Variant(arch, chunk_size=size) for size in CHUNK_SIZES]
            runs += [Variant(arch, threads=n) for n in (1, 2) if n < cores]
    if devices is not None:
        able = [arch for arch in NUMBERED if arch in chosen] or [runs[0].arch]
        for arch in able:
            choose_several(arch, devices)
        runs += [Variant(arch, devices=devices) for arch in able]
    return runs if len(runs) > 1 else 2 * runs  # a single variant runs twice, to compare the two runs


def compare(
    series: Mapping[str, str], parameters: Json, chosen: Sequence[Variant], folder: Path, *,
    time_limit: float | None = None, report: Callable[[Variant], None] = lambda _: None,
) -> Iterator[VerifiedRun]:
    """Run variants one after another, and compare each with the first one that succeeds.

    Parameters
    ----------
    series : mapping of str to str
        Paths of ``dwi``, ``bvals`` and ``bvecs``; empty if no series is needed.
    parameters : dict
        Parameters of :func:`tistreamlines.track` that all runs share.
    chosen : sequence of Variant
        Variants with the same direction getter.
    folder : Path
        An empty folder for the tractograms.
    time_limit : float, optional
        Longest time of a run, in seconds.
    report : callable
        Called with each variant before it starts.

    Yields
    ------
    Run
    """
    reference: Path | None = None
    for number, variant in enumerate(chosen):
        report(variant)
        place = folder / str(number)
        place.mkdir()
        run = run_process(variant, time_limit, dict(series), parameters | variant.parameters(), place)
        if run.outcome != "failed":
            if reference is None:
                reference, run = place, replace(run, outcome="reference")
            else:
                stored = (StoredTrx(path / TRACTOGRAM).batches() for path in (reference, place))
                difference = first_difference(*stored)
                run = replace(run, outcome="differs" if difference else "equal", difference=difference)
        yield run
        if place != reference:
            rmtree(place)


def run_process(
    variant: Variant, time_limit: float | None, series: Mapping[str, str], parameters: Json, folder: Path
) -> VerifiedRun:
    """Run a variant in a new process; any error becomes a failed run."""
    command = module_command(WORKER, json.dumps([series, parameters, str(folder)]))
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=time_limit, check=False
        )
    except subprocess.TimeoutExpired:
        return VerifiedRun(variant, "failed", error=f"stopped after {time_limit:g} s (--time-limit)")
    path = folder / TRACTOGRAM
    if done.returncode or not path.exists():
        said = done.stderr.strip() or done.stdout.strip() or "no message"
        return VerifiedRun(variant, "failed", error=f"{_ending(done.returncode)}: {said.splitlines()[-1].strip()}")
    record, (points, offsets) = StoredTrx(path).record, map_points(path)
    digest = hashlib.sha256(np.ascontiguousarray(points).data)
    digest.update(np.diff(offsets).astype("<u4").data)
    return VerifiedRun(
        variant, "equal", record.result.device, record.content.get("compiler", ""), len(offsets) - 1, len(points),
        record.result.seconds["track"], digest.hexdigest(),
    )


def _ending(code: int) -> str:
    try:
        return f"ended by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    except ValueError:
        return f"ended by signal {-code}"


def main(job: str) -> int:
    """Track; the job is a series, parameters and a folder for the tractogram, as JSON."""
    series, parameters, folder = json.loads(job)
    try:
        track(output=Path(folder) / TRACTOGRAM, **series, **parameters)
    except TrackingError as error:
        sys.stderr.write(f"{error.on_command_line}\n")
        return 1
    return 0


def first_difference(a: Iterable[Batch], b: Iterable[Batch]) -> Difference | None:
    """Return the first streamline and step at which two runs differ in any bit; None if they are identical.

    Parameters
    ----------
    a, b : the streamlines of both runs, in batches that begin with the same ones as long as these are equal.
    """
    first = 0
    for pair in zip_longest(a, b, fillvalue=Batch.concatenate([])):
        if (difference := _batch_difference(*pair)) is not None:
            return replace(difference, streamline=first + difference.streamline)
        first += len(pair[0])
    return None


def _batch_difference(a: Batch, b: Batch) -> Difference | None:
    """Return the first difference between two batches."""
    row = _first_unequal(*(np.column_stack([x.seed_number, x.direction_number, x.lengths]) for x in (a, b)))
    point = _first_unequal(a.points.view("<u4"), b.points.view("<u4"))
    if point is not None and (row is None or point < a.offsets[row]):
        row = int(np.searchsorted(a.offsets, point, side="right")) - 1
    if row is None:
        return None
    keys = [(int(x.seed_number[row]), int(x.direction_number[row])) for x in (a, b) if row < len(x)]
    if len(keys) < 2 or keys[0] != keys[1]:
        return Difference(row, *min(keys))
    half, step, points = _first_step(a[row], b[row], a.seeds[row])
    return Difference(row, *keys[0], half, step, points)


def _first_unequal(a: Array, b: Array) -> int | None:
    """Return the first row that differs, or that only one array has; None if there is none."""
    count = min(len(a), len(b))
    same = (a[:count] == b[:count]).all(axis=1)
    if not same.all():
        return int(np.argmin(same))
    return None if len(a) == len(b) else count


def _first_step(a: Array, b: Array, seed: Array) -> tuple[str, int, PointPair]:
    """Return the half, the step and the points at which two streamlines of one seed first differ."""
    differences = []
    middles = [int(((x.astype(float) - seed) ** 2).sum(axis=1).argmin()) for x in (a, b)]
    halves = {
        "forward": (a[middles[0] :], b[middles[1] :]),
        "backward": (a[middles[0] :: -1], b[middles[1] :: -1]),
    }
    for half, (p, q) in halves.items():
        step = _first_unequal(*(np.ascontiguousarray(line).view("<u4") for line in (p, q)))
        if step is not None:
            points = p[step].tolist() if step < len(p) else None, q[step].tolist() if step < len(q) else None
            differences.append((half, step, points))
    return min(differences, key=lambda difference: difference[1])
