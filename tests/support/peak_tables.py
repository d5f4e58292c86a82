"""Tables of a sphere for the kernels that find peaks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tistreamlines.linker.parts import Part
from tistreamlines.linker.records import spread
from tistreamlines.space.sphere import Ball, load_sphere, sphere_tables


@dataclass(frozen=True, kw_only=True, eq=False)
class PeakSearch(Part):
    """The constants of a sphere and of a search for peaks on it, of which at most ``most`` are handed out."""

    ball: Ball
    symmetric: int = 1
    negative_peak: int = 1
    candidates: int
    most: int


def tables(name: Any, threshold: float, separation: float, angle: float = 60.0):
    """Constants and values of a sphere and a rule, and the team memory."""
    ball, sphere = sphere_tables(*load_sphere(name))
    width = ball.vertex_chunks * 32
    values = spread("sphere", sphere) | {
        "rule_relative_threshold": threshold, "rule_cos_separation": math.cos(math.radians(separation)),
        "rule_cos_angle": math.cos(math.radians(angle)),
    }
    scratch = {
        "odf": ("reals", width), "scratch_candidates": ("reals", width), "scratch_kept": ("ints", width),
        "scratch_counter": ("ints", 1),
    }
    return PeakSearch(ball=ball, candidates=width, most=width), values, scratch
