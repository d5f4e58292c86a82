"""Parts: their fields fill holes and constants, and what fills none, or one twice, is an error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from link_kernels import Pair, plus, times

from tistreamlines.linker.parts import Part, filling, host

PAIR = Pair(first=1.0, second=2.0)


@dataclass(frozen=True, kw_only=True, eq=False)
class Scaling(Part):
    """A part of a part."""

    scale: Any = 3


@dataclass(frozen=True, kw_only=True, eq=False)
class Sums(Part):
    """A part with a field of each kind."""

    operation: Any = plus
    pair: Any = PAIR
    kind: Any = Pair
    scaling: Scaling = Scaling()
    stage: Any = None
    threads: int = host(default=8)


def test_fields_fill_what_has_their_names():
    """A record by its type, a part by its fields, and what the host alone reads not at all."""
    assert Sums().filling() == {"operation": plus, "pair": Pair, "kind": Pair, "scale": 3, "stage": None}


def test_what_kernels_cannot_be_linked_with_is_named():
    with pytest.raises(TypeError, match=r"Sums\.operation is list, which fills no hole"):
        filling([Sums(operation=[1])])


def test_two_parts_may_fill_one_constant_with_the_same_alone():
    assert filling([Sums(), Scaling()])["scale"] == 3
    with pytest.raises(ValueError, match="scale is filled with 3 and, by Scaling, with 4"):
        filling([Sums(), Scaling(scale=4)])
    with pytest.raises(ValueError, match="operation is filled"):
        filling([Sums(), Sums(operation=times)])
