"""Sums and products that the driver's compiler may not make one operation of.

Guards keep LLVM from it: a product is less an argument that is always 0, and the first term of a sum is times a 1 that is
made of it (see ``backends/taichi/program.py``). LLVM makes one operation of each, which rounds once. PTX has a mark for this
(``.rn``), with which neither number is needed, so each guard becomes a marked product or sum. The bits are the same.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

ONE = "1065353216"  # the bits of 1.0
INSTRUCTION = re.compile(r"^\t(?P<name>[a-z][\w.]*)\s+(?P<operands>.*);")
UNMARKED = re.compile(r"^(\t(?:@!?%p\d+ )?(?:add|sub|mul))\.ftz\.f32")


def marked(lines: Sequence[str], zero: str) -> list[str]:
    """Return instructions with marks in place of guards.

    Parameters
    ----------
    zero : how they read the argument that is always 0.
    """
    held: dict[str, str] = {}  # what registers hold of it: '0', '-0' or '1'
    while any([_note(line, zero, held) for line in lines]):
        pass
    return [UNMARKED.sub(r"\1.rn.ftz.f32", _without_guard(line, held)) for line in lines]


def _note(line: str, zero: str, held: dict[str, str]) -> bool:
    """Note what a register holds; return whether that is new."""
    if (found := INSTRUCTION.match(line)) is None:
        return False
    name, (target, *sources) = found["name"], found["operands"].split(", ")
    first, kind = sources[0] if sources else "", None
    if name.startswith("ld.param.") and first == zero:
        kind = "0"
    elif name in ("mov.b32", "mov.u32", "mov.f32"):
        kind = held.get(first)
    elif held.get(first) == "0":
        kind = {("neg.ftz.f32",): "-0", ("add.s32", ONE): "1"}.get((name, *sources[1:]))
    if kind is None or held.get(target) == kind:
        return False
    held[target] = kind
    return True


def _without_guard(line: str, held: dict[str, str]) -> str:
    found = INSTRUCTION.match(line)
    if found is None or found["name"] != "fma.rn.ftz.f32":
        return line
    target, first, second, third = found["operands"].split(", ")
    if held.get(third) == "-0":
        return f"\tmul.rn.ftz.f32 \t{target}, {first}, {second};"
    if held.get(second) == "1":
        return f"\tadd.rn.ftz.f32 \t{target}, {first}, {third};"
    return line if held.get(first) != "1" else f"\tadd.rn.ftz.f32 \t{target}, {second}, {third};"
