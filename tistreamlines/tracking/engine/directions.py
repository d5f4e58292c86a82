"""The directions of fibres at given points: those in which streamlines from seeds there start, or peaks of FODs."""

from __future__ import annotations

from copy import copy

import numpy as np

from ...aliases import Array
from ...kernels.stop_reasons import Stop
from ...space.geodesic import half_sphere
from ...space.harmonics import monomials
from ..getters.fod import FodGetter
from ..growth.chunk import Chunk
from ..products.points.points import Points
from ..products.points.unpacking import PackedStreamlines, process_memory
from ..tables.inputs import KernelTables
from .engine import Engine

LEAST_PEAK = 0.25  # of the greatest amplitude of a voxel, as for peaks of other getters by default
AT_ONCE = 2048  # voxels


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
    growth, parts = engine.growth, [(np.zeros(0, np.int64), np.zeros((0, 3)))]
    most = growth.prepared.getter.most_directions
    points = np.ascontiguousarray(points, np.float32)
    first = 0
    while first < len(points):
        started = growth.start(points[first : first + growth.ready()], first).wait()
        seeds, count = started.block[0], len(started.counts)
        codes = growth.fetch(started.arguments["seeds_peaks"], count * most).reshape(-1, most)
        kept = np.arange(most) < started.counts[:, None]
        seed = np.repeat(np.arange(count), started.counts)
        parts.append((first + seed, _decode(engine, codes[kept], seeds, seed)))
        first += count
    numbers, directions = map(np.concatenate, zip(*parts, strict=True))
    return numbers, directions


def fod_peaks(prepared: KernelTables, voxels: Array) -> tuple[Array, Array]:
    """Find the peaks of FODs at the centres of voxels, for getters that start in a random direction.

    A peak is a direction of :func:`.geodesic.half_sphere` whose amplitude is at least the getter's threshold and a
    quarter of the greatest one, and not below any neighbour's.

    Parameters
    ----------
    prepared : KernelTables
        Tables of a getter that follows FODs.
    voxels : (n, 3) int
        Indices of voxels.

    Returns
    -------
    voxel : (m,) int64
        The voxel that each peak belongs to.
    direction : (m, 3) float64
        Unit vectors along the voxel axes, by falling amplitude within a voxel.
    """
    getter = prepared.getter
    assert isinstance(getter, FodGetter)
    order, threshold = 2 * getter.half_order, vars(getter.method)["threshold"]
    directions, edges = half_sphere()
    around = [[k] for k in range(len(directions))]
    for first, second in edges:
        around[first].append(second)
        around[second].append(first)
    neighbours = np.array([(numbers * 7)[:7] for numbers in around])  # of an icosahedron's corners, some twice
    index, rows = (prepared.arrays[f"volume_{name}"] for name in ("index", "rows"))
    rows = rows.reshape(-1, 32 * getter.row.row_chunks)
    place = np.ravel_multi_index(tuple(np.asarray(voxels, np.int64).T), prepared.arrays["volume_shape"])
    numbers, functions = index[place] // getter.row.row_chunks, monomials(directions, order).T
    parts = [(np.zeros(0, np.int64), np.zeros(0), np.zeros((0, 3)))]
    for first in range(0, len(numbers), AT_ONCE):
        values = rows[numbers[first : first + AT_ONCE], : len(functions)].astype(np.float64) @ functions
        least = np.maximum(threshold, LEAST_PEAK * values.max(axis=1, keepdims=True))
        voxel, direction = np.nonzero((values >= least) & (values >= values[:, neighbours].max(axis=2)))
        parts.append((first + voxel, values[voxel, direction], directions[direction]))
    voxel, values, peaks = map(np.concatenate, zip(*parts, strict=True))
    order_of_peaks = np.lexsort((-values, voxel))
    return voxel[order_of_peaks], peaks[order_of_peaks]


def _decode(engine: Engine, codes: Array, seeds: Array, seed: Array) -> Array:
    """Return the directions of codes, (m, 3): vertices of the sphere, or else those of a first step."""
    prepared = engine.growth.prepared
    if (sphere := vars(prepared.getter.method).get("sphere")) is not None:
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
    unpacker.memory, unpacker.every = process_memory, 1  # what a worker shares is for batches
    batch = unpacker.batch(PackedStreamlines(chunk, codes, slot, 2 * np.arange(count + 1)), engine.growth.rules)
    steps = np.diff(batch.points.reshape(-1, 2, 3), axis=1)[:, 0].astype(np.float64) @ unpacker.space.axes
    return steps / np.maximum(np.linalg.norm(steps, axis=1, keepdims=True), 1e-12)
