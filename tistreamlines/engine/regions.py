"""Regions of interest as a filter: which streamlines they accept, and where they end them.

The rules are those of MRtrix3's ``tckgen``: points are tested, not segments, the seed among them. The nearest voxel of
a mask decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..io.regions import Mask, Region, Sphere
from ..io.tractogram import Space
from ..kernels import regions as kernels
from ..kernels.regions import EXCLUDE, FIRST_END, INCLUDES, LIMIT, SECOND_END
from ..linker.records import spread
from .certain import mark_ball, mark_voxels
from .chunk import Chunk
from .filters import Filter

Array = npt.NDArray[Any]
Asked = Mapping[str, Sequence[Region]]  # by the name of the option
ROLES = ("include", "include_ordered", "exclude", "limit_mask", "ends_in")
SAME = 1e-4  # voxels: headers of one grid may differ by so much, since many programs keep them in float32


class Regions(Filter):
    """Accepts streamlines by the regions that their points visit.

    Parameters
    ----------
    asked : dict
        Regions by the name of their option. Those that stand for one region (of ``exclude`` and of ``limit_mask``) are
        united.
    space : Space
        Grid of the tracked image.
    stops : bool
        Whether streamlines end once all include regions are visited.
    """

    def __init__(self, asked: Asked, space: Space, stops: bool) -> None:
        self.fill = {"Filter": kernels.Regions, "marks": kernels.marks_at, "MARKS": 1}
        if stops:
            self.fill |= {"IN_TURN": 1}
        bits = [(region, bit) for name in ROLES for region, bit in _bits(asked, name)]
        unordered, ordered = (sum(bit for _, bit in _bits(asked, name)) for name in ROLES[:2])
        sides = space.voxel_sizes
        self.values = spread("filter", kernels.Regions(
            counted=EXCLUDE | unordered, ordered=ordered, first=ordered & -ordered, wanted=unordered | ordered,
            limited=LIMIT if asked.get("limit_mask") else 0, stops=int(stops), ends=len(asked.get("ends_in", ())),
            **_places([(one, bit) for one, bit in bits if isinstance(one, Mask)],
                      [(one, bit) for one, bit in bits if isinstance(one, Sphere)], space),
            side_x=sides[0], side_y=sides[1], side_z=sides[2],
        ))  # fmt: skip

    def verdicts(self, chunk: Chunk) -> Array:
        """Return the verdict on each of the chunk's streamlines, (m,)."""
        return chunk.verdict


def _bits(asked: Asked, name: str) -> list[tuple[Region, int]]:
    """Return the regions of an option with their bits."""
    given = asked.get(name, ())
    if name in ("exclude", "limit_mask"):
        return [(region, EXCLUDE if name == "exclude" else LIMIT) for region in given]
    if name == "ends_in":
        return list(zip(given, (FIRST_END, SECOND_END), strict=False))
    begin = INCLUDES + (len(asked.get("include", ())) if name == "include_ordered" else 0)
    return [(region, 1 << begin + number) for number, region in enumerate(given)]


def _places(masks: Sequence[tuple[Mask, int]], spheres: Sequence[tuple[Sphere, int]], space: Space) -> dict[str, Any]:
    """Return the fields of the record that say where regions lie; masks on one grid share an array."""
    voxels = np.zeros(space.shape, np.int32)
    matrix: list[Array] = [np.zeros(0)]
    marks: list[Array] = [np.zeros(1, np.int32)]
    sides: list[int] = []
    for (affine, _), group in _by_grid(masks).items():
        bits = np.zeros(group[0][0].voxels.shape, np.int32)
        for mask, bit in group:
            bits |= np.where(mask.voxels, np.int32(bit), np.int32(0))
        to_grid = np.linalg.inv(np.frombuffer(affine).reshape(4, 4)) @ space.affine
        if bits.shape == space.shape and (np.abs(to_grid - np.eye(4)) @ [*space.shape, 1]).max() < SAME:
            voxels |= bits
            continue
        low, cropped = _cropped(bits)
        to_grid[:3, 3] -= low
        mark_voxels(voxels, cropped, to_grid)
        sides += [*cropped.shape, sum(map(len, marks))]
        matrix.append(to_grid[:3].ravel())
        marks.append(cropped.ravel())
    balls = np.array([[*space.to_voxel(one.centre), one.radius**2] for one, _ in spheres], np.float32).ravel()
    for sphere, bit in spheres:
        mark_ball(voxels, space.to_voxel(sphere.centre), sphere.radius, bit, space.voxel_sizes)
    across, deep, high = space.shape
    return {
        "voxels": voxels.ravel(), "across": across, "deep": deep, "high": high, "grids": len(matrix) - 1,
        "matrix": np.append(np.concatenate(matrix), 0).astype(np.float32), "sides": np.array([*sides, 0], np.int32),
        "marks": np.concatenate(marks), "spheres": len(spheres), "balls": np.append(balls, np.float32(0)),
        "ball_bits": np.array([*(bit for _, bit in spheres), 0], np.int32),
    }  # fmt: skip


def _by_grid(masks: Sequence[tuple[Mask, int]]) -> dict[tuple[bytes, tuple[int, ...]], list[tuple[Mask, int]]]:
    found: dict[tuple[bytes, tuple[int, ...]], list[tuple[Mask, int]]] = {}
    for mask, bit in masks:
        found.setdefault((mask.space.affine.tobytes(), mask.space.shape), []).append((mask, bit))
    return found


def _cropped(marks: Array) -> tuple[Array, Array]:
    """Return the first voxel and the values of the smallest box around the voxels that are not 0."""
    places = np.argwhere(marks)
    low, high = places.min(axis=0), places.max(axis=0) + 1
    return low, marks[tuple(map(slice, low, high))]
