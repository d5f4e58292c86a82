"""Runs and programs that share one Taichi."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tables import prepare_det

from tistreamlines.devices import Device, choose
from tistreamlines.devices.compilers import AUTO, VARIABLE
from tistreamlines.errors import DeviceError
from tistreamlines.linker.lang import Ints, Reals, func, i32
from tistreamlines.linker.parts import Source
from tistreamlines.space.batch import Batch, Space
from tistreamlines.tracking.engine.engine import Engine
from tistreamlines.tracking.growth.settings import Settings

SIDE = 6
TAICHI_ALONE = pytest.mark.skipif(
    os.environ.get(VARIABLE, AUTO) not in (AUTO, "taichi"), reason=f"is about Taichi itself; {VARIABLE} names another"
)


def run(arch: str, seed: int = 0, device: Device | None = None) -> Iterator[Batch]:
    """Batches of three seeds each in a field without any order, so that each seed goes its own way."""
    rng = np.random.default_rng(7)
    values = rng.normal(size=(SIDE, SIDE, SIDE, 45)).astype(np.float32)
    seeds = np.random.default_rng(seed).uniform(1, SIDE - 2, (6, 3))
    angles = {"max_angle": 60.0, "min_separation_angle": 45.0}
    prepared = prepare_det("sh", values, np.ones((SIDE,) * 3, np.float32), 0.5, seeds, **angles)
    settings = Settings(0.4, max_steps=15, chunk_size=3)
    return Engine(prepared, Space(np.eye(4), (SIDE,) * 3), device or choose(arch), settings).track(seeds)


def digest(batches: list[Batch]) -> str:
    assert sum(len(batch.points) for batch in batches) > 100
    return hashlib.sha256(b"".join(batch.points.tobytes() for batch in batches)).hexdigest()


@func
def doubled(item: i32, a: Reals, out: Ints):
    """Twice a number."""
    out[item] = i32(2.0 * a[item])


class Doubler:
    """A small program on a GPU, to be run now and again; ``another`` counts as one for another device."""

    def __init__(self, arch: str, another: bool = False) -> None:
        from tistreamlines.backends.taichi.program import TaichiProgram

        device = choose(arch)
        # Taichi heeds a device's number only when it first starts
        device = replace(device, index=device.index + another)
        self.program = TaichiProgram(device, Source([doubled]), exact=True)
        self.values = {"a": self.program.array(np.arange(5.0)), "out": self.program.empty(5, "ints")}

    def __call__(self) -> list[int]:
        self.program.run("doubled", 5, self.values)
        return self.program.host(self.values["out"], 5).tolist()


def said(call: Any) -> Any:
    """What a call gives, or the message of its DeviceError."""
    try:
        return call()
    except DeviceError as error:
        return str(error)
