"""The JSON record of a run: parameters, inputs, versions, device and results."""

from __future__ import annotations

import json
import platform
import zipfile
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ..aliases import Array, Json
from ..io.cache import source_hash, with_plugins
from ..io.drafts import explained
from ..io.trx import contents
from ..kernels.stop_reasons import Stop, Verdict
from ..options.parameters import Parameters, length_mm
from ..space.batch import Space

OURS = "tistreamlines"
SEED_REJECTED = Verdict.SEED_OUTSIDE_LIMIT.name.lower()  # such streamlines are none of tckgen's total count


def stop_reasons(counts: Array) -> dict[str, int]:
    """Return by name how many ends stopped for each reason, including those of streamlines that were dropped."""
    return {reason.name.lower(): int(counts[reason]) for reason in Stop if reason is not Stop.GROWING}


def dropped(counts: Array) -> dict[str, int]:
    """Return by name how many streamlines were dropped for each reason."""
    return {verdict.name.lower(): int(counts[verdict]) for verdict in Verdict if verdict is not Verdict.ACCEPTED}


def versions() -> dict[str, str]:
    """Return the versions of this package, of Python and of the libraries that can affect results."""
    from .. import __version__

    system = f"{platform.system()} {platform.machine()}"
    numbers = {OURS: __version__, "python": platform.python_version(), "system": system}
    for name in ("taichi", "numba", "numpy", "scipy", "dipy", "nibabel"):
        try:
            numbers[name] = version(name)
        except PackageNotFoundError:
            numbers[name] = "not installed"
    return numbers


def record(
    parameters: Parameters, step_mm: float, inputs: Json, device: Json, stats: Mapping[str, object],
) -> Json:
    """Return the content of the record, ready for JSON.

    Parameters
    ----------
    parameters : Parameters
        Options of the run.
    step_mm : float
        Step size, mm.
    inputs, device, stats : dict
        Input files with their hashes, the device, and the results.

    Returns
    -------
    dict
        The record.
    """
    return {
        "made_by": OURS,
        "versions": versions(),
        "source": with_plugins(source_hash()),
        "device": device,
        "inputs": inputs,
        "parameters": parameters.as_dict(),
        "step_mm": step_mm,
        "stop_threshold": parameters.threshold if parameters.applies("stop_threshold") else None,
        "stop_reason_codes": {int(reason): reason.text for reason in Stop if reason is not Stop.GROWING},
        "result": dict(stats),
    }


def inputs_of(paths: Mapping[str, object], hashes: Mapping[str, str]) -> Json:
    """Return what a record says of the inputs, given the hash of each that is recorded."""
    return {name: {"path": str(paths[name]), "sha256": digest} for name, digest in hashes.items()}


def tractogram(path: Path) -> Json:
    """Return what a record says of the tractogram that it lies beside, so that no other one is taken for it."""
    if path.suffix.lower() != ".trx":
        return {"format": path.suffix}
    with explained(path), zipfile.ZipFile(path) as archive:
        points = json.loads(archive.read("header.json"))["NB_VERTICES"]
        return {"format": path.suffix, "contents": contents(archive), "points": points}


def header_fields(record: Json, space: Space) -> dict[str, object]:
    """Return what the header of a .tck says of its run, by the names that MRtrix3's tckgen uses, as far as known.

    Parameters
    ----------
    record : of the run, as :func:`record` returns it; its result has at least ``streamlines``
        and ``dropped``.
    space : grid of the image that was tracked.
    """
    options, result = record["parameters"], record["result"]
    longest = options["max_length"]
    dropped = sum(count for reason, count in result["dropped"].items() if reason != SEED_REJECTED)
    known = {
        f"{OURS}_version": record["versions"][OURS],
        "method": options["dg"],
        "max_angle": options["max_angle"],
        "min_dist": length_mm(options["min_length"], space.voxel_sizes),
        "max_dist": None if longest is None else length_mm(longest, space.voxel_sizes),
        "threshold": record["stop_threshold"],
        "total_count": result["streamlines"] + dropped,
    }
    return {name: value for name, value in known.items() if value is not None}
