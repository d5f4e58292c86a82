"""How a compiler spells the kernel language."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, eq=False, repr=False)
class Dialect:
    """How one compiler spells the kernel language.

    Parameters
    ----------
    name : of the dialect, for messages and tests.
    header : text at the beginning of a module (imports, helpers).
    decorator : decorator of a kernel function.
    spell : for each word of the language, a function from the texts of its arguments to the text of the call.
    literal : function from a float to the text of a real literal.
    handed : function from the text of an integer literal to the text that is passed to a kernel function.
    index : function from the text of an index of an array, which is never negative, to the text that is written.
    hidden : parameters that every function passes on (the zeros of the guards, the lane, the team's pool).
    guard : function from (left, symbol, right) to the text of a guarded product or sum of reals; None where no guard is
        needed.
    wrap_words : True if 32-bit words do not wrap by themselves.
    each, unroll, roll : functions from the loop's target and count to the lines that open the loop.
    parameter : function from a parameter's name and kind to its text.
    logic : function from (left, symbol, right) to the text of ``&`` or ``|`` between two comparisons.
    replaced : names of kernel functions that the dialect implements itself, so that they are not rewritten.
    debugs : whether calls of ``breakpoint`` and ``print`` are kept, which others leave out, and lines name their source.
    """

    name: str
    header: str
    decorator: str
    spell: dict[str, Callable[..., str]]
    literal: Callable[[float], str]
    handed: Callable[[str], str] = lambda text: text
    index: Callable[[str], str] = lambda text: text
    hidden: tuple[str, ...] = ()
    guard: Callable[[str, str, str], str] | None = None
    wrap_words: bool = False
    each: Callable[[str, str], list[str]] | None = None
    unroll: Callable[[str], str] = lambda n: f"range({n})"
    roll: Callable[[str], str] = lambda n: f"range({n})"
    parameter: Callable[[str, str], str] = lambda name, kind: name
    logic: Callable[[str, str, str], str] = lambda left, symbol, right: f"({left} {symbol} {right})"
    replaced: tuple[str, ...] = ()
    debugs: bool = False


# of the kernel language; each dialect spells them in its own way
WORDS = (
    "real", "i32", "u32", "umulhi", "floor", "bits", "from_bits", "absolute", "minimum", "maximum", "where", "lane", "lanes",
    "at", "prefetch", "put", "add", "take", "spread", "collect", "team_any", "team_first", "team_last", "team_max", "team_min",
    "team_value", "raised", "barrier", "vec3", "words",
)


def calls(*names: str) -> dict[str, Callable[..., str]]:
    """Spelling of words that are plain function calls under their own name."""
    return {name: lambda *texts, name=name: f"{name}({', '.join(texts)})" for name in names}
