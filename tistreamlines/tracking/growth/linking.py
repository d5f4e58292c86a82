"""What the kernels of a getter are linked with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...kernels.recovery import particle_filtering
from ...kernels.selection import bits
from ...kernels.stop_reasons import KEPT
from ...linker.lang import Func, Record
from ...linker.records import INTS, REALS
from ...linker.source import Source
from ..tables.given import Prepared

OF_RULES = ("load_memory", "remember", "conclude", "store_memory")  # holes for rules that remember points
# without regions, a recovery and a memory of the stopping rule, and with both halves growing at the same time
PLAIN: dict[str, Any] = dict.fromkeys((*bits.STAGES, *particle_filtering.STAGES, *OF_RULES)) | {
    "Filter": Record, "HAS_BITS": 0, "COLLECTS": 1, "MORE": 0, "Recovery": Record, "FOR_RECOVERY": 0,
    "Memory": Record, "FOR_RULE": 0, "TAKES_BACK": 0,
    "KEPT_POINTS": KEPT, "IN_TURN": 0, "ONE_WAY": 0, "TRUNCATES": 0, "ABREAST": 0, "IN_VAIN": 0,
    "ARC": 1, "CROPS": 0, "crop": None, "note_point": None, "LISTS": 0, "SHARES": 0, "GATHERS": 0,
    "look_ahead": None, "DIRECTED": 0, "AIMED": 0, "INTERLEAVED": 1, "PAGED": 0,
}  # fmt: skip


def filled(*fills: Mapping[str, Any]) -> dict[str, Any]:
    """Return all constants and holes, later ones in place of earlier ones, and how halves lie in memory."""
    fill = PLAIN.copy()
    for some in fills:
        fill |= some
    fill.setdefault("move_as_chosen", fill.get("move"))
    kept = fill["CARRIED"] + fill["FOR_RULE"] + fill["FOR_RECOVERY"]
    return fill | {"POINT": 3 + kept, "WORDS": 2 + fill["DROPS_DEAD_END"]}


def source_of(roots: Sequence[Func], prepared: Prepared, **fill: Any) -> Source:
    """Kernels linked with a method's constants, holes, team memory and tables.

    Parameters
    ----------
    roots : kernels that are run by name.
    prepared : tables of the method and the stopping rule.
    fill : further constants and holes.
    """
    read = {name: prepared.arrays[name] for name in prepared.often_read}
    tables = {name: (REALS if array.dtype.kind == "f" else INTS, array.size) for name, array in read.items()}
    return Source(roots, filled(prepared.fill, fill), prepared.scratch, prepared.shares, tables)
