"""What the header of a .tck tractogram says of its run, by the names that MRtrix3's tckgen uses."""

from __future__ import annotations

from ..aliases import Json
from ..kernels.verdicts import Verdict
from ..options.parameters import length_mm
from ..space.batch import Space
from .record import OURS

SEED_REJECTED = Verdict.SEED_OUTSIDE_LIMIT.name.lower()  # such streamlines are none of tckgen's total count


def header_fields(record: Json, space: Space) -> dict[str, object]:
    """Return fields of the header, without those that are not known of the run.

    Parameters
    ----------
    record : of the run, as :func:`tistreamlines.run.record.record` returns it; its result has at least ``streamlines``
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
