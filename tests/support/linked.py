"""What kernels of tests are linked with: parts, and constants and functions by name in place of theirs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from tistreamlines.linker.lang import Record
from tistreamlines.linker.parts import Part, filling
from tistreamlines.space.sphere import Ball
from tistreamlines.tracking.engine.kernels import KernelParts
from tistreamlines.tracking.getters.shared import VertexGetter
from tistreamlines.tracking.parts import Layout, Row, Rule, Selection
from tistreamlines.tracking.tables.inputs import KernelTables


class Linked(Part):
    """Parts, with some of their holes and constants filled otherwise, by the names that kernels give them."""

    def __init__(self, *parts: Part, **values: Any) -> None:
        self.__dict__["_values"] = filling(parts) | {name.lower(): value for name, value in values.items()}

    def filling(self) -> dict[str, Any]:
        """What fills holes and constants."""
        return self._values


Linkable = Mapping[str, Any] | KernelTables | Part | Sequence[Part] | None


def parts_of(what: Linkable) -> Sequence[Part]:
    """The parts that kernels are linked with for tables, for parts, or for constants and functions by name."""
    if isinstance(what, KernelTables):
        return Layout.of(what.getter, what.rule).parts
    if isinstance(what, Part):
        return [what]
    if isinstance(what, Mapping):
        return [Linked(**what)]
    return what or []


def contents(what: KernelTables | KernelParts) -> dict[str, Any]:
    """What fills holes and constants, and by the names of parts what the host alone reads of them."""
    whole = dict(Layout.of(what.getter, what.rule).source([]).filling)
    for part in (what.getter, what.rule, what.rule.recovery):
        host = {each.name: getattr(part, each.name) for each in fields(part) if each.metadata.get("host")}
        whole |= {f"{name} of {type(part).__name__}": v for name, v in host.items() if not isinstance(v, Part)}
    return whole


def vertex_getter(**changes: Any) -> VertexGetter:
    """A getter that steps along vertices, without tables; ``changes`` are other values of its fields."""
    ball = Ball(vertex_chunks=1, neighbours=1, around_bits=10, code_bits=10)
    usual = {
        "method": Record(), "row": Row(row_chunks=1, stop_channel=0, stop_channels=0), "ball": ball,
        "half_order": 0, "most_peaks": 1,
        "candidates": 32, "initial_directions": None, "code_bits": ball.code_bits,
    }
    return VertexGetter(**usual | changes)


def layout_along_vertices(selection: Selection | None = None, rule: Rule | None = None, **changes: Any) -> Layout:
    """How halves lie in memory that step along vertices; ``changes`` are those of :func:`vertex_getter`."""
    return Layout.of(vertex_getter(**changes), rule or Rule(stopping=Record(), classify=None), selection)
