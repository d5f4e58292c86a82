"""Backtracking of streamlines that end invalidly, as MRtrix3's ``tckgen -backtrack``."""

from __future__ import annotations

from dataclasses import dataclass

from ...kernels.recovery import backtracking
from ...linker.lang import Record, Stage
from ...linker.parts import host
from ...option import SEEDS, option
from ..parts import Recovery


@dataclass(frozen=True)
class BacktrackOptions:
    """The option of backtracking, a part of the options of the stopping rules that tell valid from invalid ends."""

    backtrack: bool = option(
        False, SEEDS, "Where a streamline ends invalidly, it goes back a little and takes other steps, farther back "
        "after every third failure, as in MRtrix3's tckgen.", excludes=("pft", "stop_when_included"),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Backtracking(Recovery):
    """Goes back where a half ends that ``rejects``, a stage of the rule, does not accept."""

    rejects: Stage
    recovery: type[Record] = backtracking.Checkpoint
    load_recovery: Stage = backtracking.load_times
    recover: Stage = backtracking.backtrack
    for_recovery: int = backtracking.KEPT
    takes_back: bool = host(default=True)
    in_turn: bool = host(default=True)  # a backward half sets out when it is certain how the forward half begins
