"""What a run has made: counts, lengths, stop reasons and seconds, and the record of them beside the tractogram."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import OutputError, ParameterError
from ..io.sidecar import sidecar_path
from ..io.tractogram import Batch
from ..io.writer import SINKS, check_target
from ..kernels.stop_reasons import LABELS, Stop
from .parameters import INPUTS, Parameters

_OURS = "tistreamlines"


@dataclass
class Census:
    """Counts streamlines by their number of points, so that its size does not grow with them."""

    histogram: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, np.int64))

    def add(self, batch: Batch) -> None:
        """Count the streamlines of a batch."""
        counts = np.bincount(batch.lengths, minlength=len(self.histogram))
        counts[: len(self.histogram)] += self.histogram
        self.histogram = counts

    @property
    def streamlines(self) -> int:
        """Number of streamlines."""
        return int(self.histogram.sum())

    @property
    def points(self) -> int:
        """Number of points."""
        return int(self.histogram @ np.arange(len(self.histogram)))

    @property
    def mean(self) -> float:
        """Mean points of a streamline, 0 if there is none."""
        return self.points / max(self.streamlines, 1)

    @property
    def median(self) -> float:
        """Median points of a streamline, 0 if there is none."""
        total = self.streamlines
        if total == 0:
            return 0.0
        ranks = np.array([(total + 1) // 2, total // 2 + 1])
        return float(np.searchsorted(np.cumsum(self.histogram), ranks).mean())

    def summary(self, step_mm: float) -> dict[str, Any]:
        """Counts and lengths by name; a streamline of n points is n - 1 steps long."""
        return {
            "streamlines": self.streamlines,
            "points": self.points,
            "mean_points": self.mean,
            "median_points": self.median,
            "mean_mm": max(self.mean - 1, 0.0) * step_mm,
            "median_mm": max(self.median - 1, 0.0) * step_mm,
        }


def stop_reasons(counts: npt.NDArray[Any]) -> dict[str, int]:
    """Count the ends of all streamlines grown, also of those too short or too long to be kept, by reason."""
    return {reason.name.lower(): int(counts[reason]) for reason in Stop if reason is not Stop.GROWING}


def versions() -> dict[str, str]:
    """Versions of this package, of Python and of the libraries that results can depend on."""
    from .. import __version__

    found = {_OURS: __version__, "python": platform.python_version()}
    found["system"] = f"{platform.system()} {platform.machine()}"
    for name in ("taichi", "numba", "numpy", "scipy", "dipy", "nibabel"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def record(
    parameters: Parameters,
    step_mm: float,
    inputs: Mapping[str, Any],
    device: Mapping[str, Any],
    stats: Mapping[str, Any],
) -> dict[str, Any]:
    """Gather the sidecar's content."""
    return {
        "made_by": _OURS,
        "versions": versions(),
        "device": dict(device),
        "inputs": dict(inputs),
        "parameters": parameters.as_dict(),
        "step_mm": step_mm,
        "stop_threshold": parameters.threshold,
        "stop_reason_codes": {int(reason): text for reason, text in LABELS.items() if reason is not Stop.GROWING},
        "result": dict(stats),
    }


def check_outputs(output: Path | None, parameters: Parameters, series: Iterable[str | Path] = ()) -> None:
    """Raise OutputError before any work is done, if a result could not be written after it, or not without loss.

    Parameters
    ----------
    output : tractogram to write, if any.
    parameters : all options, which name the other outputs and inputs.
    series : the other inputs.
    """
    if output is not None and not output.name:
        raise OutputError(f"{output}: is a folder; name a file in it")
    stats = None if parameters.json_stats is None else Path(parameters.json_stats)
    given = (getattr(parameters, name) for name in INPUTS)
    inputs = [Path(path) for path in (*series, *given) if path is not None]
    for path in (stats, output, None if output is None else output.with_suffix(".json")):
        if path is not None:
            _check_name(path, inputs)
    if stats is not None:
        check_target(stats, force=parameters.force)
    if output is None:
        return
    if output.suffix.lower() not in SINKS:
        raise OutputError(f"{output}: unknown suffix {output.suffix!r}; end the name with {', '.join(SINKS)}")
    check_target(output, force=parameters.force)
    beside = sidecar_path(output)
    check_target(beside, force=parameters.force)
    if stats is not None and stats.resolve() in (beside.resolve(), output.resolve()):
        raise ParameterError(f"--json-stats {stats}: is the name of another output; give another")
    if beside.exists() and not _is_ours(beside):
        raise OutputError(f"{beside}: is not the record of a tractogram, and is not replaced; rename {output.name}")


def _check_name(path: Path, inputs: Iterable[Path]) -> None:
    """Refuse a name that the system does not take, or that is an input's, which would be lost."""
    try:
        # the longest name that is needed is that of the hidden folder in which a file is made
        path.with_name(f".{path.name}.{8 * 'x'}.part").lstat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise OutputError(f"{path}: cannot be written ({reason}); give another name") from error
    if any(_is_same(path, given) for given in inputs):
        raise OutputError(f"{path}: is an input, and is not replaced; give another name")


def _is_same(path: Path, other: Path) -> bool:
    try:
        return path.samefile(other)
    except (OSError, ValueError):  # one of them is not there
        return False


def _is_ours(path: Path) -> bool:
    try:
        return path.is_file() and json.loads(path.read_text(encoding="utf-8")).get("made_by") == _OURS
    except (OSError, ValueError, AttributeError):
        return False
