"""What the registers of a kernel hold, where its PTX tells."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

Kind = TypeVar("Kind")
INSTRUCTION = re.compile(r"^\t(?P<guard>@!?%p\d+ )?(?P<name>[a-z][\w.]*)\s+(?P<operands>.*);")


def target_of(matched: re.Match[str]) -> str:
    """Return what an instruction names first: the register that it sets, if it sets one."""
    return matched["operands"].split(",")[0]


def held_by(
    lines: Iterable[str], kind_of: Callable[[re.Match[str], Mapping[str, Kind]], Kind | None], known: Mapping[str, Kind]
) -> dict[str, Kind]:
    """Return what registers hold, and what is ``known`` before: those that hold the same wherever they are set.

    Parameters
    ----------
    lines : of a kernel.
    kind_of : returns what an instruction's target holds, by what others hold, or None if that is not known.
    known : what other names stand for.
    """
    setting: dict[str, list[re.Match[str]]] = {}
    for line in lines:
        if matched := INSTRUCTION.match(line):
            setting.setdefault(target_of(matched), []).append(matched)
    held, more = dict(known), True
    while more:  # a register may be read above the line that sets it
        more = False
        for target in [target for target in setting if target not in held]:
            kind, *others = {kind_of(matched, held) for matched in setting[target]}
            if kind is not None and not others:
                held[target], more = kind, True
    return held
