"""Regions of interest as a filter: which streamlines they accept, and where they end them.

The rules are those of MRtrix3's ``tckgen``: points are tested, not segments, the seed among them. The nearest voxel of
a mask decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..io.regions import Mask, Region, Sphere
from ..io.tractogram import Space
from ..kernels import regions as kernels
from ..kernels.propagate import ACCEPTED
from ..kernels.regions import EXCLUDE, FIRST_END, INCLUDES, LIMIT, SECOND_END
from ..linker.records import spread
from ..option import REGIONS, flag, option
from .chunk import Chunk
from .filters import Filter

if TYPE_CHECKING:
    from ..option import ImageLike, OneOrMore

Array = npt.NDArray[Any]
Asked = Mapping[str, Sequence[Region]]  # by the name of the option
ROLES = ("include", "include_ordered", "exclude", "limit_mask", "ends_in")
SPEC = "FILE|x,y,z,r"


@dataclass(frozen=True)
class RegionOptions:
    """Options of regions of interest, a part of :class:`tistreamlines.Parameters`."""

    include: OneOrMore[ImageLike] | None = option(
        None, REGIONS, "Keep streamlines that visit this region: a mask image on any grid, or a sphere in RASmm. With "
        "several regions, all must be visited.", unit=SPEC, absent="none",
    )  # fmt: skip
    exclude: OneOrMore[ImageLike] | None = option(
        None, REGIONS, "Drop streamlines that visit this region. They end at once.", unit=SPEC, absent="none",
    )  # fmt: skip
    include_ordered: OneOrMore[ImageLike] | None = option(
        None, REGIONS, "Keep streamlines that enter these regions in the order in which they are given, and none "
        "before its turn.", unit=SPEC, absent="none", requires=("one_way",),
    )  # fmt: skip
    limit_mask: OneOrMore[ImageLike] | None = option(
        None, REGIONS, "End streamlines where they leave this region. The point outside is dropped, and so are seeds "
        "outside. Several regions count as one.", unit=SPEC, absent="the whole image",
    )  # fmt: skip
    stop_when_included: bool = option(
        False, REGIONS, "End streamlines once they have visited all regions of --include and --include-ordered. The "
        "backward half is grown after the forward half.",
    )  # fmt: skip
    ends_in: OneOrMore[ImageLike] | None = option(
        None, REGIONS, "Keep streamlines with an end in this region; with two regions, those with one end in each.",
        unit=SPEC, absent="none",
    )  # fmt: skip


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
            **_grids([(one, bit) for one, bit in bits if isinstance(one, Mask)], space),
            **_balls([(one, bit) for one, bit in bits if isinstance(one, Sphere)], space),
            side_x=sides[0], side_y=sides[1], side_z=sides[2],
        ))  # fmt: skip

    def accepted(self, chunk: Chunk) -> npt.NDArray[np.bool_]:
        """Return whether each of the chunk's streamlines is accepted, (m,)."""
        return chunk.verdict == ACCEPTED


def _bits(asked: Asked, name: str) -> list[tuple[Region, int]]:
    """Return the regions of an option with their bits."""
    given = asked.get(name, ())
    if name in ("exclude", "limit_mask"):
        return [(region, EXCLUDE if name == "exclude" else LIMIT) for region in given]
    if name == "ends_in":
        return list(zip(given, (FIRST_END, SECOND_END), strict=False))
    begin = INCLUDES + (len(asked.get("include", ())) if name == "include_ordered" else 0)
    return [(region, 1 << begin + number) for number, region in enumerate(given)]


def _grids(masks: Sequence[tuple[Mask, int]], space: Space) -> dict[str, Any]:
    """Return the fields of the record for mask images; those on one grid share an array."""
    matrix: list[Array] = []
    voxels: list[Array] = []
    sides: list[int] = []
    size = 0
    for (affine, _), group in _by_grid(masks).items():
        marks = np.zeros(group[0][0].voxels.shape, np.int32)
        for mask, bit in group:
            marks |= np.where(mask.voxels, np.int32(bit), np.int32(0))
        low, cropped = _cropped(marks)
        to_grid = np.linalg.inv(np.frombuffer(affine).reshape(4, 4)) @ space.affine
        to_grid[:3, 3] -= low
        matrix.append(to_grid[:3].ravel())
        sides += [*cropped.shape, size]
        voxels.append(cropped.ravel())
        size += cropped.size
    # the first grid's numbers, and arrays of those of the others; without masks a grid of no voxels
    first, numbers = (matrix or [np.zeros(12)])[0], (sides or [0, 0, 0])[:3]
    return {
        **{name: float(number) for name, number in zip(kernels.ROWS, first, strict=True)},
        **dict(zip(kernels.SIDES, numbers, strict=True)), "further": max(len(matrix) - 1, 0),
        "matrix": np.concatenate(matrix[1:] or [np.zeros(1)]).astype(np.float32),
        "sides": np.array(sides[4:] or [0], np.int32), "voxels": np.concatenate(voxels or [np.zeros(1, np.int32)]),
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


def _balls(spheres: Sequence[tuple[Sphere, int]], space: Space) -> dict[str, Any]:
    """Return the fields of the record for spheres."""
    rows = [[*space.to_voxel(sphere.centre), sphere.radius**2] for sphere, _ in spheres]
    return {
        "spheres": len(rows), "balls": np.array(rows or [[0.0] * 4], np.float32).ravel(),
        "ball_bits": np.array([bit for _, bit in spheres] or [0], np.int32),
    }  # fmt: skip


def check_regions(asked: Asked, space: Space) -> None:
    """Check that streamlines can visit the regions.

    Parameters
    ----------
    asked : dict
        Regions by the name of their option.
    space : Space
        Grid of the tracked image.

    Raises
    ------
    InputError
        If a region lies outside the image, if there are too many, or if no streamline could pass.
    """
    for name in ROLES:
        for region in asked.get(name, ()):
            if not _touches(region, space):
                raise InputError(f"{region.name}: no part of {flag(name)} is in the image; check its coordinates")
    count = len(asked.get("include", ())) + len(asked.get("include_ordered", ()))
    if count > kernels.MOST_INCLUDES:
        raise InputError(f"{count} include regions: give at most {kernels.MOST_INCLUDES}, or join some in one image")
    if len(asked.get("ends_in", ())) > 2:
        raise InputError(f"--ends-in has {len(asked['ends_in'])} regions: a streamline has two ends; give one or two")
    for name in ("include", "include_ordered", "ends_in"):
        for region in asked.get(name, ()):
            if not _passable(region, asked):
                raise InputError(
                    f"{region.name}: no streamline can pass {flag(name)}, since it lies in --exclude or outside "
                    "--limit-mask: give regions that leave a part of it"
                )


def _touches(region: Region, space: Space) -> bool:
    """Whether a region has a part in the image: the centre of a voxel, or a point of the sphere."""
    sides = np.array(space.shape)
    if isinstance(region, Mask):
        points = space.to_voxel(region.space.to_ras(np.argwhere(region.voxels)))
        return bool(((points >= -0.5) & (points < sides - 0.5)).all(axis=1).any())
    centre = space.to_voxel(region.centre)
    nearest = np.clip(centre, -0.5, sides - 0.5)
    return bool(np.linalg.norm((centre - nearest) * space.voxel_sizes) <= region.radius)


def _passable(region: Region, asked: Asked) -> bool:
    """Whether a point can lie in a region; only regions of one kind, and masks of one grid, are compared."""
    excluded, limits = asked.get("exclude", ()), asked.get("limit_mask", ())
    if isinstance(region, Sphere):
        spheres = [one for one in excluded if isinstance(one, Sphere)]
        return not any(np.linalg.norm(one.centre - region.centre) + region.radius <= one.radius for one in spheres)
    left = region.voxels.copy()
    for one in _same_grid(region, excluded):
        left &= ~one.voxels
    inside = _same_grid(region, limits)
    if limits and len(inside) == len(limits):
        left &= np.logical_or.reduce([one.voxels for one in inside])
    return bool(left.any())


def _same_grid(mask: Mask, others: Sequence[Region]) -> list[Mask]:
    grid = mask.space.shape, mask.space.affine.tobytes()
    masks = (one for one in others if isinstance(one, Mask))
    return [one for one in masks if (one.space.shape, one.space.affine.tobytes()) == grid]
