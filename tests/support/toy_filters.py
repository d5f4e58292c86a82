"""Filters of streamlines, as simple as can be."""

from __future__ import annotations

import numpy as np

from tistreamlines.kernels.selection.regions import EXCLUDE, Demands
from tistreamlines.kernels.stop_reasons import Verdict
from tistreamlines.linker.lang import func, i32, real, vec3
from tistreamlines.tracking.growth.chunk import Chunk
from tistreamlines.tracking.parts import Selection
from tistreamlines.tracking.selection.filters import Filter
from tistreamlines.tracking.selection.regions import BitsOfPoints


class EvenSeeds(Filter):
    """A filter that looks at ended streamlines alone."""

    def verdicts(self, chunk: Chunk) -> np.ndarray:
        """Streamlines of seeds with even numbers."""
        return np.where((chunk.first_seed + chunk.seed) % 2 == 0, Verdict.ACCEPTED, Verdict.TOO_LONG)


class Plane(Demands):
    """A plane that no streamline may cross."""

    x: real


@func
def beyond_plane(filter: Plane, p: vec3, word: i32) -> i32:
    """Exclude what comes beyond the plane."""
    bits = 0
    if p[0] > filter.x:
        bits = EXCLUDE
    return bits


class Below(Filter):
    """A filter that ends streamlines early where they come beyond a plane."""

    def __init__(self, x: float) -> None:
        nothing = {"ordered": 0, "first": 0, "wanted": 0, "limited": 0, "stops": 0, "ends": 0}
        self.plane = Plane(x=x, counted=EXCLUDE, **nothing)

    def demand(self, selection: Selection) -> Selection:
        """Demand that points are compared with the plane."""
        return BitsOfPoints(filter=self.plane, bits_at=beyond_plane, in_vain=selection.in_vain)

    def verdicts(self, chunk: Chunk) -> np.ndarray:
        """Streamlines without such an end."""
        return chunk.besides["verdict"]
