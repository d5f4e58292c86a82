"""Tables of a sphere for the kernels that find peaks."""

from __future__ import annotations

import math
from typing import Any

from tistreamlines.linker.records import spread
from tistreamlines.space.sphere import load_sphere, sphere_tables


def tables(name: Any, threshold: float, separation: float, angle: float = 60.0):
    """Constants and values of a sphere and a rule, and the team memory."""
    constants, ball = sphere_tables(*load_sphere(name))
    width = constants["VERTEX_CHUNKS"] * 32
    values = spread("sphere", ball) | {
        "rule_relative_threshold": threshold, "rule_cos_separation": math.cos(math.radians(separation)),
        "rule_cos_angle": math.cos(math.radians(angle)),
    }  # fmt: skip
    scratch = {
        "odf": ("reals", width), "scratch_candidates": ("reals", width), "scratch_kept": ("ints", width),
        "scratch_counter": ("ints", 1),
    }  # fmt: skip
    return constants | {"NEGATIVE_PEAK": 1, "CANDIDATES": width, "MOST": width}, values, scratch
