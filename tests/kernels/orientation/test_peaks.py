"""Peaks of sampled ODFs against DIPY's, and the closest of them against numpy."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from dialects import ints, reals, run
from dipy.core.sphere import HemiSphere, Sphere, unit_octahedron
from dipy.data import get_sphere
from dipy.direction.peaks import peak_directions
from dipy.reconst.shm import real_sh_descoteaux
from distributions import unit
from peak_tables import tables

from tistreamlines.kernels.orientation.peaks import (
    VERTEX_CHUNKS,
    PeakRule,
    PeakScratch,
    closest_peak,
    direction,
    find_peaks,
)
from tistreamlines.kernels.orientation.peaks import Sphere as SphereTables
from tistreamlines.linker.lang import (
    Constant,
    Ints,
    Reals,
    at,
    func,
    i32,
    lanes,
    maximum,
    minimum,
    put,
    team_max,
    team_min,
    vec3,
)
from tistreamlines.space.sphere import SPHERES, load_sphere

MOST = Constant("peaks handed out for each ODF")


@func
def search(
    item: i32, odfs: Reals, odf: Reals, sphere: SphereTables, rule: PeakRule, scratch: PeakScratch, counts: Ints,
    kept: Ints,
):
    """Peaks of ODF ``item``."""
    low = lanes(3.0e38)
    high = lanes(-3.0e38)
    for chunk in range(VERTEX_CHUNKS):
        value = at(odfs, (item * VERTEX_CHUNKS + chunk) * 32)
        low = minimum(low, value)
        high = maximum(high, value)
        put(odf, chunk * 32, value)
    count = find_peaks(odf, sphere, rule, scratch, team_min(low), team_max(high))
    counts[item] = count
    for i in range(count):
        kept[item * MOST + i] = scratch.kept[i]


@func
def choose(
    item: i32, peaks: Ints, counts: Ints, headings: Reals, sphere: SphereTables, rule: PeakRule, scratch: PeakScratch,
    codes: Ints, out: Reals,
):
    """Closest peak to heading ``item``, as a code and as a vector."""
    for i in range(counts[item]):
        scratch.kept[i] = peaks[item * MOST + i]
    heading = vec3(headings[3 * item], headings[3 * item + 1], headings[3 * item + 2])
    code = closest_peak(sphere, rule, scratch, counts[item], heading)
    codes[item] = code
    if code >= 0:
        d = direction(sphere, code)
        for axis in range(3):
            out[3 * item + axis] = d[axis]


def dipy_sphere(name: str | Sphere) -> Sphere:
    if not isinstance(name, str):
        return name
    source, half = SPHERES[name]
    sphere = get_sphere(name=source)
    return HemiSphere.from_sphere(sphere) if half else sphere


def peaks_of(
    dialect: str, name: str | Sphere, odfs: np.ndarray, threshold: float, separation: float, **more: int
) -> list[list[int]]:
    """Vertices of the peaks of each ODF (m, n)."""
    sphere = name if isinstance(name, str) else (name.vertices, name.edges)
    constants, values, scratch = tables(sphere, threshold, separation)
    width = constants.most
    wide = np.concatenate([odfs, np.repeat(odfs[:, :1], width - odfs.shape[1], axis=1)], axis=1)
    values |= {"odfs": wide, "counts": ints(len(odfs)), "kept": ints(len(odfs) * width)}
    held = run(dialect, search, len(odfs), values, replace(constants, **more), scratch)
    return [row[:n].tolist() for row, n in zip(held["kept"].reshape(-1, width), held["counts"], strict=True)]


def by_dipy(name: str | Sphere, odfs: np.ndarray, threshold: float, separation: float) -> list[list[int]]:
    sphere = dipy_sphere(name)
    options = {"relative_peak_threshold": threshold, "min_separation_angle": separation}
    return [peak_directions(odf, sphere, **options)[2].tolist() for odf in odfs]


def random_odfs(name: str | Sphere, order: int, count: int, seed: int = 0) -> np.ndarray:
    """Random harmonics (float32 values, so that both precisions see the same), their mean from negative to positive."""
    sphere = dipy_sphere(name)
    basis = real_sh_descoteaux(order, sphere.theta, sphere.phi, legacy=True)[0]
    rng = np.random.default_rng(seed)
    coefficients = rng.normal(size=(count, basis.shape[1]))
    coefficients[:, 0] = rng.uniform(-1, 12, count)
    return (coefficients @ basis.T).astype(np.float32).astype(float)


@pytest.mark.parametrize("name", SPHERES)
@pytest.mark.parametrize("order", [4, 8])
@pytest.mark.parametrize(("threshold", "separation"), [(0.25, 45), (0.5, 25), (0.1, 10), (0.8, 60), (0.05, 0)])
def test_peaks_are_dipys(name, order, threshold, separation):
    odfs = random_odfs(name, order, 40)
    odfs = odfs[odfs.max(axis=1) >= 0]
    expected = by_dipy(name, odfs, threshold, separation)
    assert peaks_of("python", name, odfs, threshold, separation) == expected
    assert max(map(len, expected)) > 1


def scattered(count: int) -> Sphere:
    """A whole sphere of random vertices, which have three to eleven neighbours."""
    return Sphere(xyz=unit(np.random.default_rng(count).normal(size=(count, 3))))


def meridians(count: int) -> Sphere:
    """A whole sphere of meridians, whose poles have a neighbour on each."""
    theta, phi = np.meshgrid(np.arange(1, 8) * np.pi / 8, np.arange(count) * 2 * np.pi / count)
    sphere = Sphere(theta=np.append(theta.ravel(), (0, np.pi)), phi=np.append(phi.ravel(), (0, 0)))
    assert np.bincount(sphere.edges.ravel())[-2:].tolist() == [count, count]
    return sphere


@pytest.mark.parametrize(
    "sphere",
    [
        HemiSphere.from_sphere(unit_octahedron), HemiSphere.from_sphere(unit_octahedron.subdivide(n=3)),
        HemiSphere.from_sphere(get_sphere(name="symmetric642")), get_sphere(name="repulsion100"), scattered(60),
        scattered(900), meridians(20),
    ],
    ids=["octahedron", "subdivided", "symmetric642", "repulsion100", "scattered60", "scattered900", "meridians"],
)
def test_peaks_on_any_sphere_are_dipys(sphere):
    """Also where vertices have few neighbours, or many of which only some are spread around them."""
    odfs = random_odfs(sphere, 8, 30)
    odfs = odfs[odfs.max(axis=1) >= 0]
    expected = by_dipy(sphere, odfs, 0.05, 0)
    assert peaks_of("python", sphere, odfs, 0.05, 0) == expected
    assert sum(map(len, expected)) > 0


def test_single_precision_finds_the_same():
    odfs = random_odfs("default", 8, 2000, seed=1)
    expected = by_dipy("default", odfs, 0.25, 45)
    got = peaks_of("numba32", "default", odfs, 0.25, 45)
    # in float32 a peak may fall on the other side of the threshold; hardly ever
    differ = sum(a != b for a, b in zip(got, expected, strict=True))
    assert differ <= 2


def test_an_odf_below_zero_everywhere_has_dipys_peak():
    odfs = random_odfs("default", 4, 10) - 20
    expected = by_dipy("default", odfs, 0.25, 45)
    assert expected == [[0]] * 10
    for dialect in ("python", "numba32"):
        assert peaks_of(dialect, "default", odfs, 0.25, 45) == expected
    assert peaks_of("python", "default", odfs, 0.25, 45, negative_peak=0) == [[]] * 10


@pytest.mark.parametrize("level", [0.0, 1.0, -1.0])
def test_a_flat_odf_has_no_peak(level):
    n = len(dipy_sphere("default").vertices)
    odfs = np.full((2, n), level)
    assert by_dipy("default", odfs, 0.25, 45) == [[], []]
    assert peaks_of("python", "default", odfs, 0.25, 45) == [[], []]
    assert peaks_of("numba32", "default", odfs, 0.25, 45) == [[], []]


def test_ties_and_plateaus_are_resolved_as_dipy_does():
    odfs = np.round(random_odfs("default", 8, 120, seed=2) * 2) / 2  # many equal samples
    odfs = odfs[odfs.max(axis=1) > 0]
    expected = by_dipy("default", odfs, 0.25, 25)
    assert peaks_of("python", "default", odfs, 0.25, 25) == expected
    assert peaks_of("numba32", "default", odfs, 0.25, 25) == expected


def test_a_single_spike_is_its_own_peak():
    n = len(dipy_sphere("small").vertices)
    odfs = np.eye(n)[[0, 5, n - 1]]
    assert peaks_of("python", "small", odfs, 0.25, 45) == [[0], [5], [n - 1]]


def closest_oracle(vertices, peaks, heading, cosine):
    cosines = vertices[peaks] @ heading
    if len(peaks) == 0 or np.abs(cosines).max() < cosine:
        return -1
    i = int(np.argmax(np.abs(cosines)))
    return 2 * peaks[i] + int(cosines[i] < 0)


@pytest.mark.parametrize(("dialect", "name"), [("python", "default"), ("python", "full"), ("numba32", "full")])
def test_the_closest_peak_is_numpys(dialect, name):
    constants, values, scratch = tables(name, 0.25, 45, angle=40)
    vertices = load_sphere(name)[0]
    rng = np.random.default_rng(3)
    counts = rng.integers(0, 6, 300).astype(np.int32)
    peaks = rng.integers(0, len(vertices), (300, constants.most)).astype(np.int32)
    headings = rng.normal(size=(300, 3))
    headings /= np.linalg.norm(headings, axis=1, keepdims=True)
    values |= {"peaks": peaks, "counts": counts, "headings": headings, "codes": ints(300), "out": reals(900)}
    del scratch["odf"]
    held = run(dialect, choose, 300, values, constants, scratch)
    cosine = math.cos(math.radians(40))
    cases = zip(peaks, counts, headings, strict=True)
    expected = np.array([closest_oracle(vertices, p[:n], h, cosine) for p, n, h in cases])
    there = expected >= 0
    assert 0.2 < there.mean() < 0.9
    assert np.array_equal(held["codes"] >= 0, there)
    # vectors, not codes: the full sphere has opposite vertices, and rounding decides between those
    towards = vertices[expected >> 1] * np.where(expected & 1, -1, 1)[:, None]
    assert np.allclose(held["out"].reshape(-1, 3)[there], towards[there], rtol=0, atol=1e-6)
    if name == "default":
        assert np.array_equal(held["codes"], expected)
