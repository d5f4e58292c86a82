"""What is linked into one program: kernels, the parts that fill their holes, and the memory of a team."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from .lang import Func
from .parts import Filled, Part, filling

Arrays = Mapping[str, tuple[str, int]]  # kind, 'reals' or 'ints', and number of elements, by flat name


@dataclass(frozen=True, eq=False, repr=False)
class Load:
    """What kernels hold of the half that a team grows, by which devices share out their registers.

    Parameters
    ----------
    carries : whether a half carries numbers from step to step.
    recovers : whether it may go back and look for another way.
    has_bits : whether its points are looked up in regions.
    """

    carries: bool = False
    recovers: bool = False
    has_bits: bool = False


@dataclass(frozen=True, eq=False, repr=False)
class Source:
    """Kernels that are linked, compiled and run together.

    Parameters
    ----------
    roots : kernels that are run by name.
    parts : what fills their holes and constants.
    scratch : team memory: arrays that each team has for itself.
    shares : arrays of ``scratch`` that may lie within another one where memory is scarce, since no stage uses both: the
        name of the other one and the first element.
    tables : arrays that are read most, in the order of what a GPU gains by holding them in shared memory.
    load : what kernels hold of a half; None for kernels that do not work on halves.
    """

    roots: Sequence[Func]
    parts: Sequence[Part] = ()
    scratch: Arrays = field(default_factory=dict)
    shares: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    tables: Arrays = field(default_factory=dict)
    load: Load | None = None

    @cached_property
    def filling(self) -> dict[str, Filled]:
        """What fills holes and constants, by their names in small letters."""
        return filling(self.parts)
