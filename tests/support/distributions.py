"""Distributions of directions on known fibres, DIPY's and those of the kernels, and streamlines through them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import numpy as np
from dialects import ints, run
from dipy.core.sphere import HemiSphere, Sphere
from dipy.data import get_sphere
from dipy.direction.pmf import PmfGen, SHCoeffPmfGen, SimplePmfGen
from tables import prepare_prob

from tistreamlines.devices import choose
from tistreamlines.kernels.halves import Method, Scratch
from tistreamlines.kernels.interpolate import Corners, Volume, find_corners, interpolate_row
from tistreamlines.kernels.orientation.patches import STORED, bounds_beside, sample_cone, sample_next_patch
from tistreamlines.kernels.orientation.peaks import direction
from tistreamlines.kernels.orientation.pmf import toward
from tistreamlines.linker.lang import Hole, Ints, Reals, at, barrier, func, i32, real, team_max, u32, vec3
from tistreamlines.space.batch import Batch, Space
from tistreamlines.space.harmonics import sampling_matrix
from tistreamlines.space.sphere import SPHERES, load_sphere
from tistreamlines.tracking.engine.engine import Engine
from tistreamlines.tracking.getters.cone import PatchedGetter
from tistreamlines.tracking.growth.settings import Settings
from tistreamlines.tracking.tables.inputs import KernelTables

next_direction = Hole("the method's choice of a step")
pick = Hole("the method's choice of a vertex in the cone")
read = Hole("what it reads of a row")
SHAPE, ORDER, KEY = (3, 3, 3), 8, np.array([17, -3])
BASIS = "descoteaux07_legacy"
CASES = {
    "sh": ("sh", {}),
    "sampled": ("sh", {"sampled": True, "sphere": "small"}),
    "pmf": ("pmf", {"pmf_threshold": 0.0}),
    "asymmetric": ("asymmetric", {"sphere": "full", "asymmetric": True, "pmf_threshold": 0.2}),
}


@func
def chosen(
    item: i32, volume: Volume, method: Method, scratch: Scratch, points: Reals, headings: Reals, key: Ints, codes: Ints
):
    """The direction code at point ``item``."""
    interpolate_row(volume, vec3(points[3 * item], points[3 * item + 1], points[3 * item + 2]), scratch.row)
    heading = vec3(headings[3 * item], headings[3 * item + 1], headings[3 * item + 2])
    codes[item] = next_direction(method, scratch, heading, 0, u32(item), u32(1), u32(2), key)


@func
def least_in_cone(item: i32, volume: Volume, method: Method, scratch: Scratch, points: Reals, begun: Ints) -> real:
    """Sample the cone around a direction at point ``item``, and patches until the least sample that counts is known."""
    p = vec3(points[3 * item], points[3 * item + 1], points[3 * item + 2])
    read(volume, p, begun[item], method, scratch)
    barrier()
    corners = Corners()
    find_corners(corners, volume, p)
    if STORED == 0:
        sample_cone(corners, volume, begun[item], method, scratch)
        barrier()
    rest = bounds_beside(method, begun[item], scratch.row)
    high = team_max(at(scratch.highest, 0))
    bound = team_max(rest)
    while bound > high:
        sample_next_patch(high, rest, bound, corners, volume, method, scratch)
    return method.threshold * high


@func
def chosen_in_cone(
    item: i32, volume: Volume, method: Method, scratch: Scratch, points: Reals, begun: Ints, key: Ints, codes: Ints
):
    """The same of a method that needs no more than the cone, by the code of the heading."""
    p = vec3(points[3 * item], points[3 * item + 1], points[3 * item + 2])
    read(volume, p, begun[item], method, scratch)
    barrier()
    number = pick(volume, p, begun[item], method, scratch, u32(item), u32(1), u32(2), key)
    codes[item] = toward(method.sphere, number, direction(method.sphere, begun[item]))


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


@cache
def coefficients() -> np.ndarray:
    """Two fibres a voxel, as far as order 8 goes: negative between its lobes."""
    rng = np.random.default_rng(0)
    lobes = sampling_matrix(unit(rng.normal(size=(54, 3))), ORDER, BASIS).reshape(*SHAPE, 2, -1)
    return (lobes * rng.uniform(0.4, 1, (*SHAPE, 2, 1))).sum(axis=-2).astype(np.float32)


@cache
def values_of(source: str) -> np.ndarray:
    """What is tracked: coefficients, a rough pmf that is 0 at many vertices, or one of unlike opposites."""
    if source == "sh":
        return coefficients()
    vertices = load_sphere("default" if source == "pmf" else "full")[0]
    pmf = np.random.default_rng(1).uniform(-1, 1, (*SHAPE, len(vertices)))
    if source == "asymmetric":
        pmf = coefficients() @ sampling_matrix(vertices, ORDER, BASIS).T * (1.5 + vertices[:, 2])
    return pmf.astype(np.float32)


@cache
def case(name: str, make=prepare_prob, **options) -> KernelTables:
    """Tables of a case."""
    source, usual = CASES[name]
    stop_map = np.ones(SHAPE, np.float32)
    source_kind = "sh" if source == "sh" else "pmf"
    return make(source_kind, values_of(source), stop_map, 0.5, np.ones((1, 3)), **{"max_angle": 45.0} | usual | options)


@cache
def dipy_sphere(name: str) -> Sphere:
    source, half = SPHERES[name]
    sphere = get_sphere(name=source)
    return HemiSphere.from_sphere(sphere) if half else sphere


def sphere_of(name: str) -> Sphere:
    return dipy_sphere(CASES[name][1].get("sphere", "default"))


@cache
def dipy_pmf(name: str) -> PmfGen:
    """DIPY's generator of a case; what it gives out lives as long as it does."""
    source, options = CASES[name]
    values, sphere = values_of(source).astype(float), sphere_of(name)
    if "sampled" in options:
        return SimplePmfGen(np.maximum(values @ sampling_matrix(sphere.vertices, ORDER, BASIS).T, 0), sphere)
    return SHCoeffPmfGen(values, sphere, None, True) if source == "sh" else SimplePmfGen(values, sphere)


def points_in(count: int, seed: int = 5) -> np.ndarray:
    """Points of float32's own, so that both precisions stand at the same."""
    return np.random.default_rng(seed).uniform(-0.5, 2.4, (count, 3)).astype(np.float32).astype(float)


def headings_in(name: str, count: int, seed: int = 6) -> np.ndarray:
    vertices = sphere_of(name).vertices
    return vertices[np.random.default_rng(seed).integers(len(vertices), size=count)]


def go(dialect: str, kernel, items: int, prepared: KernelTables, **values):
    return run(dialect, kernel, items, prepared.arrays | prepared.scalars | values, prepared, prepared.scratch)


def weights(name: str, point: np.ndarray, heading: np.ndarray, threshold=None, angle=45.0) -> np.ndarray:
    """DIPY's ``prepare_pmf``, and the cone."""
    sphere, options = sphere_of(name), CASES[name][1]
    pmf = np.array(dipy_pmf(name).get_pmf(point))
    threshold = options.get("pmf_threshold", 0.1) if threshold is None else threshold
    pmf[pmf < threshold * max(pmf.max(), 0)] = 0
    cosines = sphere.vertices @ heading
    pmf[(cosines if "asymmetric" in options else np.abs(cosines)) < np.cos(np.radians(angle))] = 0
    return pmf


def fibres(tangents: np.ndarray) -> np.ndarray:
    """Coefficients (..., n) of one sharp fibre a voxel."""
    return sampling_matrix(tangents.reshape(-1, 3), ORDER, BASIS).reshape(*tangents.shape[:-1], -1).astype(np.float32)


def circle(shape=(24, 24, 5)) -> np.ndarray:
    """Tangents of circles about an axis along z at (-0.5, -0.5)."""
    x, y, z = np.meshgrid(*map(np.arange, shape), indexing="ij")
    return unit(np.stack([-(y + 0.5), x + 0.5, 0.0 * z], axis=-1))


CIRCLE_SEEDS = np.array([[r * np.cos(a) - 0.5, r * np.sin(a) - 0.5, 2.0] for r in (10, 14, 18) for a in (0.6, 0.8, 1)])


def tracked(
    values: np.ndarray, seeds: np.ndarray, arch="cpu", make=prepare_prob, settings=None, source="sh", **options
) -> Batch:
    """Streamlines of a whole engine, from the greatest peak of each seed."""
    stop_map = np.ones(values.shape[:3], np.float32)
    known = np.argwhere(stop_map > 0).astype(float)
    prepared = make(source, values, stop_map, 0.5, known, **{"min_separation_angle": 45.0} | options)
    settings = settings or Settings(0.5, max_steps=200)
    return greatest(whole(Engine(prepared, Space(np.eye(4), stop_map.shape), choose(arch), settings).track(seeds)))


def whole(batches: Iterable[Batch]) -> Batch:
    """Batches as one."""
    return Batch.concatenate(list(batches))


def greatest(batch: Batch) -> Batch:
    """The streamlines toward the greatest peak of each seed; with ``max_directions`` kernels would be compiled anew."""
    kept = batch.direction_number == 0
    names = ("seeds", "seed_number", "direction_number", "stop_reasons")
    points, others = batch.points[np.repeat(kept, batch.lengths)], (getattr(batch, name)[kept] for name in names)
    return Batch(points, np.cumsum([0, *batch.lengths[kept]]), *others)


def lines(batch: Batch) -> list[np.ndarray]:
    return np.split(batch.points, batch.offsets[1:-1])


def codes_at(dialect: str, prepared: KernelTables, points: np.ndarray, headings: np.ndarray) -> np.ndarray:
    """Direction codes at points (n, 3); of a getter that needs no more than a cone, headings are vertices."""
    values = {"points": points.ravel(), "key": KEY, "codes": ints(len(points))}
    if not isinstance(prepared.getter, PatchedGetter):
        return go(dialect, chosen, len(points), prepared, headings=headings.ravel(), **values)["codes"]
    tables = prepared.arrays["method_sphere_vertices"].reshape(3, -1)[:, : prepared.scalars["method_sphere_count"]]
    cosines = headings @ tables
    nearest = np.argmax(np.abs(cosines), axis=1)
    begun = 2 * nearest + (cosines[np.arange(len(nearest)), nearest] < 0)
    return go(dialect, chosen_in_cone, len(points), prepared, begun=begun, **values)["codes"]


def directions(prepared: KernelTables, dialect: str, points: np.ndarray, headings: np.ndarray) -> list[np.ndarray]:
    """Code and unit vector at each point, 0 where there is none."""
    codes = codes_at(dialect, prepared, points, headings)
    tables = prepared.arrays["method_sphere_vertices"].reshape(3, -1).T
    return [codes, tables[codes >> 1] * (np.where(codes & 1, -1, 1) * (codes >= 0))[:, None]]
