"""What is linked into one program: kernels, what fills their holes, and the memory of a team."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .lang import Func

Arrays = Mapping[str, tuple[str, int]]  # kind, 'reals' or 'ints', and number of elements, by flat name


@dataclass(frozen=True)
class Source:
    """Kernels that are linked, compiled and run together.

    Parameters
    ----------
    roots : kernels that are run by name.
    fill : values of the constants, and functions and records for the holes, by name.
    scratch : team memory: arrays that each team has for itself.
    shares : arrays of ``scratch`` that may lie within another one where memory is scarce, since no stage uses both: the
        name of the other one and the first element.
    tables : arrays that are read most, in the order of what a GPU gains by holding them in shared memory.
    """

    roots: Sequence[Func]
    fill: Mapping[str, Any] = field(default_factory=dict)
    scratch: Arrays = field(default_factory=dict)
    shares: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    tables: Arrays = field(default_factory=dict)
