"""The record of a run beside its tractogram: parameters, inputs, versions, the device and what came out."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy.typing as npt

from ..kernels.stop_reasons import LABELS, Stop
from .parameters import Parameters

OURS = "tistreamlines"


def stop_reasons(counts: npt.NDArray[Any]) -> dict[str, int]:
    """Count the ends of all streamlines grown, also of those too short or too long to be kept, by reason."""
    return {reason.name.lower(): int(counts[reason]) for reason in Stop if reason is not Stop.GROWING}


def versions() -> dict[str, str]:
    """Versions of this package, of Python and of the libraries that results can depend on."""
    from .. import __version__

    found = {OURS: __version__, "python": platform.python_version()}
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
        "made_by": OURS,
        "versions": versions(),
        "device": dict(device),
        "inputs": dict(inputs),
        "parameters": parameters.as_dict(),
        "step_mm": step_mm,
        "stop_threshold": parameters.threshold,
        "stop_reason_codes": {int(reason): text for reason, text in LABELS.items() if reason is not Stop.GROWING},
        "result": dict(stats),
    }
