"""A tube along x with fluid around it, in which streamlines meet dead ends: for particle filtering."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from tistreamlines.devices import choose
from tistreamlines.options.parameters import Parameters
from tistreamlines.space.batch import Space
from tistreamlines.space.sphere import load_sphere
from tistreamlines.tracking.engine.engine import Engine
from tistreamlines.tracking.growth.settings import Settings
from tistreamlines.tracking.registry import METHODS, STOPPING_RULES
from tistreamlines.tracking.tables.inputs import GetterInputs, OrientationFunctions

TUBE = (26, 13, 13)


@cache
def tube() -> tuple[np.ndarray, np.ndarray]:
    """PMF of fibres along x that spread widely, and shares of grey matter and fluid around a thin tube along x."""
    vertices, _ = load_sphere("default")
    spread = np.where(np.abs(vertices[:, 0]) > 0.5, np.abs(vertices[:, 0]) ** 4, 0)
    x, y, z = np.meshgrid(*map(np.arange, TUBE), indexing="ij")
    fluid = np.clip((np.hypot(y - 6, z - 6) - 1.5) / 2, 0, 1) * (x > 2) * (x < 23)
    shares = np.stack([1.0 * (x <= 2) + (x >= 23), fluid], axis=-1)
    return np.broadcast_to(spread, (*TUBE, len(vertices))).astype(np.float32), shares.astype(np.float32)


def tracker(
    rule: str = "act", arch: str = "cpu", shares: np.ndarray | None = None, named: dict | None = None,
    dg: str = "prob", **settings: Any,
) -> Engine:
    """Engine in the tube, with other shares or options if given."""
    values, around = tube()
    shares = around if shares is None else shares
    chosen = Parameters.given({
        "stopping": rule, "dg": dg, "max_angle": 20.0 if dg == "ptt" else 30.0, "step_size": "0.5mm",
        "pmf_threshold": 0.0,
        **({"pft": True} if named is None else named),
    })
    maps = {"include_map": shares[..., 0], "exclude_map": shares[..., 1]}
    stop = STOPPING_RULES[rule].prepare(maps, lambda: None, chosen, (1.0,) * 3)
    arrays = GetterInputs(OrientationFunctions("pmf", values), stop, np.argwhere(np.ones(TUBE, bool)), step_mm=0.5)
    chosen_settings = Settings(0.5, **{"max_steps": 120} | settings)
    return Engine(METHODS[dg].prepare(arrays, chosen), Space(np.eye(4), TUBE), choose(arch), chosen_settings)
