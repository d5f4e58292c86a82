"""Sums and products that the driver's compiler may not make one operation of.

Guards keep LLVM from it: a product is less an argument that is always 0, and the first term of a sum is times a 1 that is
made of it (see ``backends/taichi/program.py``). LLVM makes one operation of each, which rounds once. PTX has a mark for this
(``.rn``), with which neither number is needed, so each guard becomes a marked product or sum. The bits are the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from .registers import INSTRUCTION, held_by

ONE = "1065353216"  # the bits of 1.0
UNMARKED = re.compile(r"^(\t(?:@!?%p\d+ )?(?:add|sub|mul))\.ftz\.f32")


def marked(lines: Sequence[str], zero: str) -> list[str]:
    """Return instructions with marks in place of guards.

    Parameters
    ----------
    zero : how they read the argument that is always 0.
    """
    def kind(matched: re.Match[str], held: Mapping[str, str]) -> str | None:
        """Return what an instruction's target holds of that argument: '0', '-0' or '1'."""
        name, (first, *others) = matched["name"], matched["operands"].split(", ")[1:] or [""]
        if name.startswith("ld.param.") and first == zero:
            return "0"
        if name in ("mov.b32", "mov.u32", "mov.f32"):
            return held.get(first)
        return {("neg.ftz.f32", "0"): "-0", ("add.s32", "0", ONE): "1"}.get((name, held.get(first, ""), *others))

    held = held_by(lines, kind, {})
    return [UNMARKED.sub(r"\1.rn.ftz.f32", _without_guard(line, held)) for line in lines]


def _without_guard(line: str, held: Mapping[str, str]) -> str:
    matched = INSTRUCTION.match(line)
    if matched is None or matched["guard"] or matched["name"] != "fma.rn.ftz.f32":
        return line
    target, first, second, third = matched["operands"].split(", ")
    if held.get(third) == "-0":
        return f"\tmul.rn.ftz.f32 \t{target}, {first}, {second};"
    if held.get(second) == "1":
        return f"\tadd.rn.ftz.f32 \t{target}, {first}, {third};"
    return line if held.get(first) != "1" else f"\tadd.rn.ftz.f32 \t{target}, {second}, {third};"
