"""The initial directions at given points, as streamlines from seeds there would have them."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
import numpy.typing as npt

from ...kernels.stop_reasons import Stop
from ..growth.chunk import Chunk
from ..products.products import Points
from ..products.unpacking import Grown, own_memory
from .engine import Engine

Array = npt.NDArray[Any]


def initial_directions(engine: Engine, points: Array) -> tuple[Array, Array]:
    """Find the initial directions at points.

    Parameters
    ----------
    engine : Engine
        Has the kernels and the tables; it must not track at the same time.
    points : (n, 3)
        Voxel coordinates (centre of voxel = integer).

    Returns
    -------
    point : (m,) int64
        The point that each direction belongs to.
    direction : (m, 3) float64
        Unit vectors along the voxel axes.
    """
    growth, found = engine.growth, [(np.zeros(0, np.int64), np.zeros((0, 3)))]
    most = growth.prepared.seeds_most
    points = np.ascontiguousarray(points, np.float32)
    first = 0
    while first < len(points):
        started = growth.start(points[first : first + growth.ready()], first).wait()
        some, count = started.block[0], len(started.counts)
        codes = growth.fetch(started.own["seeds_peaks"], count * most).reshape(-1, most)
        kept = np.arange(most) < started.counts[:, None]
        seed = np.repeat(np.arange(count), started.counts)
        found.append((first + seed, _decoded(engine, codes[kept], some, seed)))
        first += count
    numbers, directions = (np.concatenate(part) for part in zip(*found, strict=True))
    return numbers, directions


def _decoded(engine: Engine, codes: Array, seeds: Array, seed: Array) -> Array:
    """Return the directions of codes, (m, 3): vertices of the sphere, or else those of a first step."""
    prepared = engine.growth.prepared
    if (sphere := vars(prepared.method).get("sphere")) is not None:
        vertices = np.asarray(sphere.vertices, np.float64).reshape(3, -1)[:, : sphere.count].T
        return vertices[codes >> 1] * np.where(codes & 1, -1, 1)[:, None]
    assert isinstance(engine.points, Points)
    count, none = len(codes), np.zeros(len(codes), np.int32)
    state = np.zeros((count, 2, 2), np.int32)
    state[:, 0, 0], state[..., 1] = 1, Stop.MAX_LENGTH
    codes = codes.astype(np.int32)
    besides = {"initial": codes, "first": none, "cropped": np.zeros((count, 2), np.int32)}
    chunk = Chunk(0, seeds, seed.astype(np.int32), none, none, state, besides)
    slot = np.repeat(np.arange(count, dtype=np.int32), 2)
    unpacker = copy(engine.points.unpacker)
    unpacker.memory = own_memory  # what a worker shares is for batches
    batch = unpacker.batch(Grown(chunk, codes, slot, 2 * np.arange(count + 1)), engine.growth.rules)
    steps = np.diff(batch.points.reshape(-1, 2, 3), axis=1)[:, 0].astype(np.float64) @ unpacker.space.axes
    return steps / np.maximum(np.linalg.norm(steps, axis=1, keepdims=True), 1e-12)
