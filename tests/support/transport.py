"""DIPY's parallel transport tractography formula by formula, and a field to try it on."""

from __future__ import annotations

from functools import cache

import numpy as np
from dialects import run
from dipy.data import default_sphere
from dipy.direction.pmf import SHCoeffPmfGen
from distributions import fibres, unit
from tables import prepare_ptt, probe

from tistreamlines.kernels.getters.probes import binormal_after, onward, tangent_after
from tistreamlines.linker.lang import Reals, func, i32, real, vec3
from tistreamlines.tracking.getters.ptt import Probe

KEY = np.array([17, -3])
SIZES = (1.6, 2.0, 2.2)
CASES = {
    "plain": {}, "paper": {"probe_rule": "paper"}, "power": {"data_support_exponent": 2.5},
    "short": {"probe_quality": 2},
    "tube": {"probe_count": 3, "probe_radius": 0.6, "probe_quality": 4},
    "paper tube": {"probe_count": 4, "probe_radius": 0.4, "probe_rule": "paper", "data_support_exponent": 2.0},
}
RULES = {
    "rules_step_x": 0.0, "rules_step_y": 0.0, "rules_step_z": 0.0, "rules_max_steps": 1, "rules_key": KEY,
    "rules_first_seed": 0,
}


@cache
def field() -> np.ndarray:
    """Crossing fibres of uneven size, (6, 6, 6, 45)."""
    rng = np.random.default_rng(0)
    lobes = fibres(unit(rng.normal([1, 0.3, 0.1], 0.25, (6, 6, 6, 3))))
    lobes = lobes + 0.6 * fibres(unit(rng.normal(size=(6, 6, 6, 3))))
    return (lobes * rng.uniform(0.5, 1, (6, 6, 6, 1))).astype(np.float32)


@cache
def case(name: str):
    stop_map = np.random.default_rng(1).uniform(0.6, 1, (6, 6, 6)).astype(np.float32)
    chosen = {"voxel_sizes": SIZES, "max_angle": 20.0, "pmf_threshold": 0.05} | CASES[name]
    return prepare_ptt("sh", field(), stop_map, 0.5, np.ones((1, 3)), **chosen), probe(**chosen)


def go(dialect: str, kernel, items: int, name: str, **values):
    tables = case(name)[0]
    return run(dialect, kernel, items, tables.arrays | tables.scalars | RULES | values, tables, tables.scratch)


@cache
def dipy_pmf() -> SHCoeffPmfGen:
    return SHCoeffPmfGen(field().astype(float), default_sphere, None, True)


class Emulation:
    """DIPY's data support and rejection sampling, formula by formula (``ptt_direction_getter.pyx``)."""

    def __init__(self, chosen: Probe) -> None:
        self.probe, self.chosen, self.pmf = chosen, chosen.options, dipy_pmf()
        self.sizes, self.paper = np.asarray(chosen.voxel_sizes), chosen.options.probe_rule == "paper"

    def value(self, p, t, low) -> float:
        value = self.pmf.get_pmf_value(np.ascontiguousarray(p), np.ascontiguousarray(t))
        return value if value > low else 0.0

    def heard(self, p, t, n, b, low) -> float:
        if self.chosen.probe_count == 1:
            return self.value(p, t, low)
        turns = 2 * np.pi * np.arange(self.chosen.probe_count) / self.chosen.probe_count
        ring = [self.chosen.probe_radius * (n * np.cos(a) + b * np.sin(a)) / self.sizes for a in turns]
        return sum(self.value(p + r, t, low) for r in ring)

    def propagator(self, s, k1, k2) -> np.ndarray:
        if abs(k1) < 1e-4 and abs(k2) < 1e-4:
            return np.array([[s, 0, 0], [1, 0, 0], [0, 0, 1]], float)
        k1, k2 = (1e-4 if abs(k) < 1e-4 else k for k in (k1, k2))
        h = s * s / 2
        tangent = [1 - k2 * k2 * h - k1 * k1 * h, k1 * s, k2 * s]
        return np.array([[s, k1 * h, k2 * h], tangent, [-k2 * s, -k1 * k2 * h, 1 - k2 * k2 * h]])

    def support(self, p, frame, k1, k2, last) -> tuple[float, float]:
        rows = self.propagator(self.chosen.probe_length / (self.chosen.probe_quality - 1), k1, k2)
        total, end = last, 0.0
        for _ in range(self.chosen.probe_quality - 1):
            way, t, b = rows @ frame
            p = p + (way / self.sizes if self.paper else way * self.sizes)
            t = unit(t)
            frame = np.array([t, np.cross(b, t), b])
            end = self.heard(p, *frame, self.chosen.pmf_threshold)
            total += end
        total /= self.chosen.probe_quality * self.chosen.probe_count
        return total**self.chosen.data_support_exponent, end

    def accepted(self, rng: np.random.Generator, p, candidate, last) -> tuple[np.ndarray, float, float]:
        """Frame and curvatures that are accepted; ``candidate()`` gives a frame."""
        power = self.chosen.data_support_exponent

        def tried():
            frame = candidate()
            a, radius = rng.uniform(0, 2 * np.pi), self.probe.curvature * np.sqrt(rng.uniform())
            k1, k2 = radius * np.cos(a), radius * np.sin(a)
            return frame, k1, k2, self.support(p, frame, k1, k2, last)[0]

        greatest = max(tried()[3] for _ in range(10))
        bound = 2**power * greatest if self.paper else (2 * greatest) ** power
        while True:
            frame, k1, k2, support = tried()
            if rng.uniform() * bound <= support:
                return frame, k1, k2


def frames(count: int, seed: int) -> np.ndarray:
    """Random orthonormal frames about the fibres, (count, 3, 3)."""
    rng = np.random.default_rng(seed)
    t = unit(rng.normal([1, 0.3, 0.1], 0.2, (count, 3)))
    b = unit(np.cross(t, rng.normal(size=(count, 3))))
    return np.stack([t, np.cross(b, t), b], axis=1)


@func
def framed(item: i32, bends: Reals, step: real, out: Reals):
    """An arc's propagator, from the frame of the axes."""
    t = vec3(1.0, 0.0, 0.0)
    n = vec3(0.0, 1.0, 0.0)
    b = vec3(0.0, 0.0, 1.0)
    k1 = bends[2 * item]
    k2 = bends[2 * item + 1]
    way = onward(step, k1, k2, t, n, b)
    ahead = tangent_after(step, k1, k2, t, n, b)
    aside = binormal_after(step, k1, k2, t, n, b)
    for i in range(3):
        out[9 * item + i] = way[i]
        out[9 * item + 3 + i] = ahead[i]
        out[9 * item + 6 + i] = aside[i]
