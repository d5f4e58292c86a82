"""What Taichi's SPIR-V lacks: that no operation of reals may be fused or reordered, and a capability that it uses.

SPIR-V is a list of words: five of a header, then instructions, each of which begins with its length and its number.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

HEADER = 5  # words
CAPABILITY, DECORATE = 17, 71
ANNOTATIONS = (71, 72, 73, 74)  # decorations, which come before all types
REAL_OPERATIONS = (127, 129, 131, 133, 136)  # negation, sum, difference, product and quotient
NO_CONTRACTION = 42
SUBGROUP_OPERATIONS, SUBGROUP_ARITHMETIC = range(349, 365), 63


def _instructions(words: list[int]) -> Iterator[list[int]]:
    start = HEADER
    while start < len(words):
        length = words[start] >> 16
        yield words[start : start + length]
        start += length


def completed(code: bytes, exact: bool) -> bytes:
    """Return a module in which compilers keep every operation of reals as it stands, if ``exact``.

    Like GLSL's ``precise``: NoContraction forbids to fuse an operation with another, and to reorder it.
    """
    words = np.frombuffer(code, "<u4").tolist()
    listed = list(_instructions(words))
    kinds = [one[0] & 0xFFFF for one in listed]
    if exact:
        results = [one[2] for one, kind in zip(listed, kinds, strict=True) if kind in REAL_OPERATIONS]
        first = next(place for place, kind in enumerate(kinds) if kind in ANNOTATIONS)
        listed[first:first] = [[3 << 16 | DECORATE, result, NO_CONTRACTION] for result in results]
    if any(kind in SUBGROUP_OPERATIONS for kind in kinds):
        listed.insert(0, [2 << 16 | CAPABILITY, SUBGROUP_ARITHMETIC])
    return np.array(words[:HEADER] + [word for one in listed for word in one], "<u4").tobytes()
