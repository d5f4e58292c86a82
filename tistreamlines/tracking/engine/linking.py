"""What the kernels of a method are linked with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...linker.lang import Record, Twin
from ...linker.records import INTS, REALS
from ...linker.source import Source
from ..tables.given import Prepared

# what a filter, particle filtering, and other ways to grow than both halves at the same time put in their place
PLAIN = {
    "Filter": Record, "MARKS": 0, "MORE": 0, "IN_TURN": 0, "ONE_WAY": 0, "TRUNCATES": 0, "Particles": Record,
    "PARTICLES": 0, "REMEMBERED": 0,
}  # fmt: skip


def source_of(roots: Sequence[Twin], prepared: Prepared, **fill: Any) -> Source:
    """Kernels linked with a method's constants, holes, team memory and tables.

    Parameters
    ----------
    roots : kernels that are run by name.
    prepared : tables of the method and the stopping rule.
    fill : further constants and holes.
    """
    read = {name: prepared.arrays[name] for name in prepared.often_read}
    tables = {name: (REALS if array.dtype.kind == "f" else INTS, array.size) for name, array in read.items()}
    return Source(roots, PLAIN | prepared.fill | fill, prepared.scratch, prepared.shares, tables)
