"""Backtracking of streamlines that end invalidly, as MRtrix3's ``tckgen -backtrack``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...kernels.recovery import backtracking
from ...linker.lang import Stage
from ...option import SEEDS, option


@dataclass(frozen=True)
class BacktrackOptions:
    """The option of backtracking, a part of the options of the stopping rules that tell valid from invalid ends."""

    backtrack: bool = option(
        False, SEEDS, "Where a streamline ends invalidly, it goes back a little and takes other steps, farther back "
        "after every third failure, as in MRtrix3's tckgen.", excludes=("pft", "stop_when_included"),
    )  # fmt: skip


def backtracking_fill(options: BacktrackOptions, rejects: Stage) -> dict[str, Any]:
    """Return the constants and functions with which kernels are linked for backtracking.

    Parameters
    ----------
    options : BacktrackOptions
        The option.
    rejects : Stage
        The rule's part that says which ends are invalid.

    Returns
    -------
    dict
        Constants and holes by name; none without backtracking.
    """
    if not options.backtrack:
        return {}
    # a backward half sets out when it is certain how the forward half begins
    own = {"FOR_RECOVERY": backtracking.KEPT, "TAKES_BACK": 1, "IN_TURN": 1, "rejects": rejects,
           "Recovery": backtracking.Checkpoint}  # fmt: skip
    return own | backtracking.STAGES
