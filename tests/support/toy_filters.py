"""Filters of streamlines, as simple as can be."""

from __future__ import annotations

from typing import Any

import numpy as np

from tistreamlines.kernels.selection import bits
from tistreamlines.kernels.selection.regions import EXCLUDE, Demands
from tistreamlines.kernels.verdicts import Verdict
from tistreamlines.linker.lang import func, i32, real, vec3
from tistreamlines.linker.records import spread
from tistreamlines.tracking.growth.chunk import Chunk


class EvenSeeds:
    """A filter that looks at ended streamlines alone."""

    fill: dict[str, Any] = {}  # noqa: RUF012
    values: dict[str, Any] = {}  # noqa: RUF012

    def verdicts(self, chunk: Chunk) -> np.ndarray:
        """Streamlines of seeds with even numbers."""
        return np.where((chunk.first_seed + chunk.seed) % 2 == 0, Verdict.ACCEPTED, Verdict.TOO_LONG)


class Plane(Demands):
    """A plane that no streamline may cross."""

    x: real


@func
def beyond_plane(filter: Plane, p: vec3, word: i32) -> i32:
    """Exclude what comes beyond the plane."""
    found = 0
    if p[0] > filter.x:
        found = EXCLUDE
    return found


class Below:
    """A filter that ends streamlines early where they come beyond a plane."""

    def __init__(self, x: float) -> None:
        self.fill = bits.STAGES | {"Filter": Plane, "bits_at": beyond_plane, "HAS_BITS": 1}
        nothing = {"ordered": 0, "first": 0, "wanted": 0, "limited": 0, "stops": 0, "ends": 0}
        self.values = spread("filter", Plane(x=x, counted=EXCLUDE, **nothing))

    def verdicts(self, chunk: Chunk) -> np.ndarray:
        """Streamlines without such an end."""
        return chunk.besides["verdict"]
