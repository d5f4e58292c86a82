"""Bundles as strands: crossing, kissing, fanning, bending, narrow and tangled ones, turned and jittered at random.

A strand is a curve that stands for an equal number of axons, so that the number of strands of a bundle is the weight of
its connection.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
PER_MM2 = 4.0  # strands where a bundle is narrowest
STEP = 0.25  # mm between two points of a strand
JITTER = 0.5  # mm, standard deviation of the control points


@dataclass(frozen=True)
class Course:
    """The course of a bundle.

    Attributes
    ----------
    centre : (k, 3) mm
        Control points of the centreline.
    radii : (k, 2) mm
        Half-axes of the ellipse across it, there.
    """

    centre: Array
    radii: Array


def straight(angle: float, height: float, half: float = 25.0, radius: float = 4.5) -> Course:
    """Return a straight bundle through the middle, at an angle in degrees to the x axis."""
    turn = np.radians(angle)
    along = np.array([np.cos(turn), np.sin(turn), 0])
    centre = np.linspace(-half, half, 5)[:, None] * along + [0, 0, height]
    return Course(centre, np.full((5, 2), radius))


def crossings(_: np.random.Generator) -> dict[str, Course]:
    """Return pairs of bundles that cross at 30, 45, 60 and 90 degrees."""
    pairs = {30: -21.0, 45: -7.0, 60: 7.0, 90: 21.0}
    return {
        f"crossing_{angle}_{side}": straight(sign * angle / 2, height)
        for angle, height in pairs.items() for side, sign in (("a", -1), ("b", 1))
    }


def kissing(_: np.random.Generator) -> dict[str, Course]:
    """Return pairs of bundles that bend towards each other and touch."""
    courses = {}
    for number, (height, rise) in enumerate(((-14.0, 8.0), (0.0, 12.0), (14.0, 16.0))):
        across = np.linspace(-1, 1, 7)
        for side, sign in (("a", 1), ("b", -1)):
            centre = np.stack([25 * across, sign * (3.7 + rise * across**2), np.full(7, height)], axis=1)
            courses[f"kissing_{number}_{side}"] = Course(centre, np.full((7, 2), 3.5))
    return courses


def fanning(_: np.random.Generator) -> dict[str, Course]:
    """Return trunks that fan out, each through a straight bundle."""
    courses = {}
    for number, (height, width) in enumerate(((-14.0, 8.0), (0.0, 11.0), (14.0, 14.0))):
        centre = np.stack([np.linspace(-28, 28, 6), np.zeros(6), np.full(6, height)], axis=1)
        spread = 3.5 + (width - 3.5) * np.clip(np.linspace(-0.4, 1, 6), 0, 1) ** 1.3
        courses[f"fan_{number}"] = Course(centre, np.stack([spread, np.full(6, 3.5)], axis=1))
        courses[f"through_{number}"] = straight(75.0, height, radius=3.5)
    return courses


def bending(_: np.random.Generator) -> dict[str, Course]:
    """Return half circles of 8 to 20 mm radius, and a straight bundle through all of them."""
    courses = {}
    for number, (height, radius) in enumerate(((-18.0, 8.0), (-6.0, 12.0), (6.0, 16.0), (18.0, 20.0))):
        turn = np.linspace(0, np.pi, 9)
        arc = np.stack([radius * np.cos(turn), radius * np.sin(turn), np.full(9, height)], axis=1)
        legs = [arc[0] + [0, -10, 0], arc, arc[-1] + [0, -10, 0]]
        courses[f"bend_{number}"] = Course(np.vstack(legs), np.full((11, 2), 3.5))
        courses[f"through_{number}"] = straight(60.0, height, radius=3.0)
    return courses


def narrow(_: np.random.Generator) -> dict[str, Course]:
    """Return bundles of 1.2 to 2.5 mm radius that cross a wide one."""
    courses = {"wide": Course(np.linspace([-28, 0, 0], [28, 0, 0], 5), np.full((5, 2), 7.0))}
    for number, radius in enumerate((1.2, 1.6, 2.0, 2.5)):
        there = -18.0 + 12 * number
        centre = np.stack([np.full(5, there), np.linspace(-22, 22, 5), np.full(5, 1.5 * number - 2)], axis=1)
        courses[f"narrow_{number}"] = Course(centre, np.full((5, 2), radius))
    return courses


def tangle(rng: np.random.Generator, count: int = 20, radius: float = 34.0) -> dict[str, Course]:
    """Return bundles between places of a sphere, as far apart as they were drawn, which cross each other anyhow."""
    places = [_on_sphere(rng)]
    while len(places) < 2 * count:
        tries = np.array([_on_sphere(rng) for _ in range(20)])
        places.append(tries[(tries @ np.array(places).T).max(axis=1).argmin()])
    order, courses = rng.permutation(2 * count), {}
    for number in range(count):
        first, last = (radius * places[order[2 * number + k]] for k in (0, 1))
        inner = [rng.uniform(0.3, 0.6) * end + rng.normal(0, 3, 3) for end in (first, last)]
        courses[f"bundle_{number}"] = Course(np.array([first, *inner, last]), np.full((4, 2), rng.uniform(2, 5)))
    return courses


GEOMETRIES: dict[str, Callable[[np.random.Generator], dict[str, Course]]] = {
    "crossings": crossings, "kissing": kissing, "fanning": fanning, "bending": bending, "narrow": narrow,
    "tangle": tangle,
}


def bundles(geometry: str, seed: int) -> dict[str, Array]:
    """Return the strands (n, m, 3), mm, of each bundle of a geometry, turned and jittered by a random seed."""
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    courses = GEOMETRIES[geometry](rng)
    return {name: strands(course, rng) @ turn.T for name, course in courses.items()}


def strands(course: Course, rng: np.random.Generator) -> Array:
    """Fill a bundle with strands (n, m, 3), as many as its narrowest place holds."""
    from scipy.interpolate import CubicSpline

    control = course.centre + rng.normal(0, JITTER, course.centre.shape)
    at = np.concatenate([[0], np.cumsum(np.linalg.norm(np.diff(control, axis=0), axis=1))])
    t = np.linspace(0, at[-1], int(at[-1] / STEP) + 2)
    curve, radii = CubicSpline(at, control), np.maximum(CubicSpline(at, course.radii)(t), 0.5)
    first, second = _frame(curve(t, 1))
    count = max(int(PER_MM2 * np.pi * course.radii.prod(axis=1).min()), 12)
    # points of equal density on a disc, along a spiral
    number = np.arange(count) + 0.5
    length, angle = np.sqrt(number / count)[:, None, None], (number * np.pi * (3 - np.sqrt(5)))[:, None, None]
    across = np.cos(angle) * radii[:, :1] * first + np.sin(angle) * radii[:, 1:] * second
    return curve(t) + length * across


def _frame(tangents: Array) -> tuple[Array, Array]:
    """Return two unit vectors (m, 3) each, across the tangents, that turn as little as they can."""
    along = tangents / np.linalg.norm(tangents, axis=1, keepdims=True)
    normal = np.cross([0, 0, 1.0], along[0])
    if np.linalg.norm(normal) < 0.1:
        normal = np.cross([1.0, 0, 0], along[0])
    first = np.empty_like(along)
    for k, here in enumerate(along):
        normal = normal - (normal @ here) * here
        normal /= np.linalg.norm(normal)
        first[k] = normal
    return first, np.cross(along, first)


def _on_sphere(rng: np.random.Generator) -> Array:
    place = rng.normal(size=3)
    return place / np.linalg.norm(place)
