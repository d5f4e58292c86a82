"""Streamlines of parallel transport tractography."""

from __future__ import annotations

import numpy as np
from distributions import greatest, whole
from tables import prepare_ptt

from tistreamlines.devices import choose
from tistreamlines.space.batch import Batch, Space
from tistreamlines.tracking.engine.engine import Engine
from tistreamlines.tracking.growth.settings import Settings


def tracked(
    values, seeds, arch="cpu", stop_map=None, everywhere=True, settings=None, **options
) -> tuple[Batch, Engine]:
    """Streamlines of a whole engine, from the greatest peak of each seed, and the engine."""
    stop_map = np.ones(values.shape[:3], np.float32) if stop_map is None else stop_map
    known = np.argwhere(np.ones_like(stop_map) > 0).astype(float) if everywhere else seeds
    chosen = {"pmf_threshold": 0.05, "max_angle": 15.0, "min_separation_angle": 45.0} | options
    tables = prepare_ptt("sh", values, stop_map, 0.5, known, **chosen)
    affine = np.diag([*chosen.get("voxel_sizes", (1, 1, 1)), 1.0])
    used = Engine(tables, Space(affine, stop_map.shape), choose(arch), settings or Settings(0.5, max_steps=200))
    return greatest(whole(used.track(seeds))), used
