"""The same seeds on every arch, with several chunk sizes and thread counts: equal bits or not, and where they part.

Each run is a process of its own, told what to do on its standard input, so that a crash of one is only a line of the
table.  A run leaves its points and lengths in a folder, which the caller removes.
"""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ..backends.devices import ARCHS, Device, choose, list_devices
from ..errors import TrackingError
from ..run.api import stream
from ..run.log import Watcher
from .difference import MEMBERS, Difference, Kept, first_difference, members

SERIES = ("dwi", "bvals", "bvecs")
CHUNK_SIZES = (137, 5000)  # besides the automatic one
PACKAGES = str(Path(__file__).parents[2])
# The folder of the package comes last, where it cannot hide a module of Python's own.
WORKER = """
import sys
sys.path = [*filter(None, sys.path), sys.argv[1]]
from tistreamlines.verify.verify import main
sys.exit(main())
"""


@dataclass(frozen=True)
class Variant:
    """One way to run: where, how many seeds and CPU threads at a time (None: as it comes), and other parameters.

    ``dg`` is the direction getter, None for the default one; only runs of one getter are compared.
    """

    arch: str
    chunk_size: int | None = None
    threads: int | None = None
    dg: str | None = None
    others: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        """Name it in a few words."""
        words = [] if self.dg is None else [f"dg {self.dg}"]
        words += [] if self.chunk_size is None else [f"chunks of {self.chunk_size}"]
        words += [] if self.threads is None else [f"{self.threads} thread{'s'[: self.threads > 1]}"]
        return ", ".join([self.arch, *words, *(f"{name} {value}" for name, value in self.others.items())])

    def parameters(self) -> dict[str, Any]:
        """Return the parameters in which it differs from others."""
        own = {"arch": self.arch, "chunk_size": self.chunk_size, "threads": self.threads}
        return own | ({} if self.dg is None else {"dg": self.dg}) | dict(self.others)


@dataclass(frozen=True)
class Run:
    """What came of a variant; ``outcome`` is reference, equal, differs or failed."""

    variant: Variant
    outcome: str
    device: str = ""
    streamlines: int = 0
    points: int = 0
    seconds: float = 0.0
    sha256: str = ""
    error: str = ""
    difference: Difference | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the content of a row for JSON."""
        row = asdict(self)
        return {**row.pop("variant"), **row}


def variants(archs: Sequence[str] = ()) -> list[Variant]:
    """List the runs to compare, the reference first.

    Parameters
    ----------
    archs : those to run; all that are present, software devices too, if empty.

    Raises
    ------
    DeviceError
        If an arch that was named cannot run here.
    """
    for arch in archs:
        choose(arch)
    present = {device.arch for device in list_devices() if device.available}
    chosen = set(archs) or present
    found = []
    if "cpu" in chosen:
        cores = choose("cpu").cores or 1
        found = [Variant("cpu"), *(Variant("cpu", chunk_size=size) for size in CHUNK_SIZES)]
        found += [Variant("cpu", threads=n) for n in (1, 2) if n < cores]
    found += [Variant(arch) for arch in reversed(ARCHS) if arch in chosen and arch != "cpu"]
    return found if len(found) > 1 else 2 * found  # one alone is run twice: two runs, the same bits


def compare(
    series: Mapping[str, str], parameters: Mapping[str, Any], chosen: Sequence[Variant], folder: Path, *,
    time_limit: float | None = None, report: Callable[[Variant], None] = lambda _: None,
) -> Iterator[Run]:  # fmt: skip
    """Run variants one after another, and compare each with the first that succeeds.

    Parameters
    ----------
    series : paths of ``dwi``, ``bvals`` and ``bvecs``, empty if none is needed.
    parameters : those of :func:`tistreamlines.track` that all runs share.
    chosen : what to run, all with one direction getter.
    folder : an empty one, in which the arrays are kept.
    time_limit : seconds that a run may take, None for any.
    report : is told of each variant before it starts.
    """
    reference: Path | None = None
    for number, variant in enumerate(chosen):
        report(variant)
        own = folder / str(number)
        own.mkdir()
        job = {"series": dict(series), "parameters": {**parameters, **variant.parameters()}, "folder": str(own)}
        run = run_process(job, variant, time_limit)
        if run.outcome != "failed":
            run = _judged(run, reference, own)
            if reference is None:
                reference = own
        yield run
        if own != reference:
            for path in own.iterdir():
                path.unlink()


def _judged(run: Run, reference: Path | None, own: Path) -> Run:
    if reference is None:
        return replace(run, outcome="reference")
    difference = first_difference(Kept(reference), Kept(own))
    return replace(run, outcome="differs" if difference else "equal", difference=difference)


def run_process(job: Mapping[str, Any], variant: Variant, time_limit: float | None) -> Run:
    """Run a variant in a process of its own; an error of any kind becomes a failed run."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", WORKER, PACKAGES], input=json.dumps(job), capture_output=True, text=True,
            errors="replace", timeout=time_limit, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Run(variant, "failed", error=f"stopped after {time_limit:g} s (--time-limit)")
    result = Path(job["folder"]) / "result.json"
    if done.returncode or not result.exists():
        said = done.stderr.strip() or done.stdout.strip() or "no message"
        return Run(variant, "failed", error=f"{_ending(done.returncode)}: {said.splitlines()[-1].strip()}")
    return Run(variant, "equal", **json.loads(result.read_text(encoding="utf-8")))


def _ending(code: int) -> str:
    try:
        return f"ended by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    except ValueError:
        return f"ended by signal {-code}"


class _Timer(Watcher):
    """Notes the device, and when tracking begins."""

    def __init__(self) -> None:
        self.name, self.begun = "", 0.0

    def device(self, device: Device) -> None:
        self.name = device.name

    def stage(self, name: str) -> None:
        if name == "track":
            self.begun = time.perf_counter()


def work(job: Mapping[str, Any]) -> dict[str, Any]:
    """Track, leave the arrays in the job's folder, and return counts, seconds and the hash of points and lengths."""
    folder, timer, digest = Path(job["folder"]), _Timer(), hashlib.sha256()
    files = {name: (folder / name).open("wb") for name in MEMBERS}
    counts = {"streamlines": 0, "points": 0}
    try:
        for batch in stream(*(job["series"].get(k) for k in SERIES), watcher=timer, **job["parameters"]):
            for name, array in members(batch):
                files[name].write(array.data)
                if name == "points":
                    digest.update(array.data)
            counts["streamlines"] += len(batch)
            counts["points"] += len(batch.points)
        seconds = time.perf_counter() - timer.begun
    finally:
        for file in files.values():
            file.close()
    digest.update((folder / "lengths").read_bytes())
    return {"device": timer.name, **counts, "seconds": round(seconds, 4), "sha256": digest.hexdigest()}


def main() -> int:
    """Do the job given as JSON on standard input; the result goes beside the arrays."""
    job = json.load(sys.stdin)
    try:
        result = work(job)
    except TrackingError as error:
        sys.stderr.write(f"{error.on_command_line}\n")
        return 1
    (Path(job["folder"]) / "result.json").write_text(json.dumps(result), encoding="utf-8")
    return 0
