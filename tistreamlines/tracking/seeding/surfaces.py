"""Seeds on surfaces such as that of white matter: anywhere, uniformly by area, or at the vertices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...errors import InputError
from ...io.images import AnyPath, Tell, silent
from ...io.surfaces import AUTO, SPACES, Surface, load_surface
from ...option import SEEDS, OneOrMore, TableLike, flag, option
from ...space.batch import Space
from .directed import along_voxel_axes, lengths_of, normals_of, senses_of
from .files import PointSeeds, count_inside
from .more_seeds import cells_between, count_seeds, voxels_by_share
from .seeds import Draw, DrawnSeeds, Seeds, first_success

FREE, NORMAL, INWARD = DIRECTIONS = ("free", "normal", "inward")


@dataclass(frozen=True, repr=False, eq=False)
class SurfaceOptions:
    """Options of seeds on surfaces."""

    seed_surface: OneOrMore[TableLike] | None = option(
        None, SEEDS, "Surface on which random seeds are placed, uniformly by area over all surfaces, such as "
        "both hemispheres: GIFTI, or FreeSurfer's geometry (lh.white). With --seed-mask, seeds lie in the mask.",
        unit="FILE", absent="as --seed-mask",
        excludes=("seeds", "seed_sphere", "seed_image", "seed_gmwmi", "seeds_per_voxel", "seed_grid"),
    )
    seeds_per_vertex: int | None = option(
        None, SEEDS, "Number of seeds at each vertex of the surfaces, instead of --nseeds random seeds on them.",
        unit="seeds", low=1, high=1_000_000, absent="--nseeds in all", requires=("seed_surface",),
        excludes=("nseeds", "seed_seed"),
    )
    surface_direction: str = option(
        FREE, SEEDS, "Direction in which the one streamline of a seed of --seed-surface starts: along the normal, out "
        "of the surface, or inward, into white matter. The other half starts in the opposite direction, without "
        "--one-way. free starts along the peaks, as other seeds do.", choices=DIRECTIONS, requires=("seed_surface",),
    )
    surface_space: str = option(
        AUTO, SEEDS, "Coordinates of --seed-surface: RASmm (scanner), or FreeSurfer's (tkras), which are moved to "
        "RASmm by the geometry of their volume in the file. auto takes what the file says.", choices=SPACES,
        requires=("seed_surface",),
    )


MOST_OUTSIDE = 0.5  # of the vertices of a surface, outside the image

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


class SeedMask(NamedTuple):
    """Voxels outside of which no seed may lie.

    Parameters
    ----------
    inside : (x, y, z) bool
    space : Space
        Their grid.
    """

    inside: Flags
    space: Space

    def holds(self, points: Floats) -> Flags:
        """Return which points (n, 3), RASmm, lie in a voxel of the mask."""
        voxels = np.floor(self.space.to_voxel(points) + 0.5)
        within = ((voxels >= 0) & (voxels < self.inside.shape)).all(axis=1)
        held = np.zeros(len(points), bool)
        held[within] = self.inside[tuple(voxels[within].astype(int).T)]
        return held

    def touches(self, low: Floats, high: Floats) -> Flags:
        """Return which boxes, from ``low`` to ``high``, (m, 3) in voxel coordinates, have a part in a voxel of it."""
        sums = np.pad(self.inside, ((1, 0),) * 3).astype(np.int64)
        for axis in range(3):
            sums = sums.cumsum(axis)
        ends = [np.clip(np.floor(side), 0, self.inside.shape).astype(int) for side in (low + 0.5, high + 1.5)]
        count = np.zeros(len(low), np.int64)
        for corner in np.ndindex(2, 2, 2):
            place = tuple(ends[end][:, axis] for axis, end in enumerate(corner))
            count += (-1) ** (3 - sum(corner)) * sums[place]
        return count > 0


@dataclass(frozen=True, eq=False)
class AreaSeeds(DrawnSeeds):
    """Random seeds on triangles, uniformly by area.

    Parameters
    ----------
    vertices : (n, 3) float64, RASmm
    triangles : (m, 3) int64
        Vertices of each triangle; each has an area.
    senses : (m,) float64, optional
        1 or -1, by which the normal of each triangle is multiplied for the direction of a seed in it.
    space : Space
        Grid of the image.
    draw : how many there are, and their random numbers.
    mask : Mask, optional
        Points are drawn until one lies in it.
    """

    vertices: Floats
    triangles: npt.NDArray[np.int64]
    senses: Floats | None
    space: Space
    draw: Draw
    mask: SeedMask | None = None

    @cached_property
    def _sums(self) -> Floats:
        return np.cumsum(lengths_of(normals_of(self.vertices, self.triangles)))

    def points(self, first: int, count: int) -> Floats:
        """Return the seeds from number ``first`` on; raise InputError if one is not found in the mask."""
        return self.space.to_voxel(self._place(first, count)[0])

    def directions(self, first: int, count: int) -> Floats | None:
        """Return unit vectors normal to the triangles of seeds, if options want them."""
        return None if self.senses is None else self._along(self._place(first, count)[1])

    def sample(self, numbers: npt.NDArray[np.int64]) -> tuple[Floats, Floats | None]:
        """Return seeds that stand for those of these numbers, and their directions."""
        points, chosen = self._place(int(numbers[0]), len(numbers))
        return self.space.to_voxel(points), None if self.senses is None else self._along(chosen)

    def _place(self, first: int, count: int) -> tuple[Floats, npt.NDArray[np.intp]]:
        """Return the seeds from number ``first`` on, RASmm, and the triangles in which they lie."""
        numbers = np.arange(self.within(first, count), dtype=np.int32)
        if self.mask is None:
            rows = self._try(first, numbers, np.zeros_like(numbers))[0]
        else:
            reason = f"hardly any part of the surfaces lies in {flag('seed_mask')}; give another mask"
            rows = first_success(first, numbers, 4, self._try, flag("seed_surface"), reason)
        return rows[:, :3], rows[:, 3].astype(np.intp)

    def _try(self, first: int, items: npt.NDArray[np.int32], attempts: npt.NDArray[np.int32]) -> tuple[Floats, Flags]:
        """Return the points and the triangles (n, 4) of attempts at seeds ``first + items``, and which may be used."""
        reals = self.draw.attempts(first, items, attempts)
        chosen = voxels_by_share(self._sums, reals[:, :2])
        corner, second, third = (self.vertices[self.triangles[chosen, number]] for number in range(3))
        u, v = reals[:, 2:4].astype(np.float64).T
        over = u + v > 1  # the other half of the parallelogram is turned onto the triangle
        u, v = (np.where(over, 1 - share, share)[:, None] for share in (u, v))
        points = corner + u * (second - corner) + v * (third - corner)
        held = np.ones(len(items), bool) if self.mask is None else self.mask.holds(points)
        return np.column_stack([points, chosen.astype(np.float64)]), held

    def _along(self, chosen: npt.NDArray[np.intp]) -> Floats:
        assert self.senses is not None
        normals = normals_of(self.vertices, self.triangles[chosen]) * self.senses[chosen, None]
        return along_voxel_axes(normals, self.space)

    def reach(self) -> Floats:
        """Return a point between each eight voxels of the image among which a triangle may lie."""
        corners = self.space.to_voxel(self.vertices)[self.triangles]
        low, high = (np.floor(end(axis=1)).astype(int) for end in (corners.min, corners.max))
        return cells_between(low, high, self.space)


def surface_seeds(
    paths: Sequence[AnyPath], space: Space, draw: Draw, *, vertex_space: str = AUTO, direction: str = FREE,
    each: int | None = None, mask: SeedMask | None = None, note: Tell = silent, warn: Tell = silent,
) -> Seeds:
    """Return seeds on surfaces.

    Parameters
    ----------
    paths : files of surfaces.
    space : Space
        Grid of the image.
    draw : number of random seeds, and their random numbers.
    vertex_space : space of the vertices, see :func:`tistreamlines.io.surfaces.load_surface`.
    direction : one of ``DIRECTIONS``.
    each : number of seeds at each vertex, instead of random ones.
    mask : seeds lie in it.
    note, warn : receive messages about vertices that are moved or lie outside the image.

    Raises
    ------
    InputError
        If a surface cannot be read, has no area, or lies elsewhere.
    """
    surfaces = [load_surface(path, vertex_space, note, warn) for path in paths]
    for surface in surfaces:
        _check_place(surface, space, warn)
        if not len(surface.triangles) and (each is None or direction != FREE):
            raise InputError(
                f"{surface.path}: has no triangles, and so neither area nor normals; give {flag('seeds_per_vertex')} "
                f"without {flag('surface_direction')}"
            )
    senses = None
    if direction != FREE:
        outward = np.concatenate([senses_of(surface, note, warn) for surface in surfaces])
        senses = outward * (1 if direction == NORMAL else -1)
    firsts = np.cumsum([0, *(len(surface.vertices) for surface in surfaces)])
    vertices = np.concatenate([surface.vertices for surface in surfaces])
    triangles = np.concatenate([surface.triangles + k for surface, k in zip(surfaces, firsts, strict=False)])
    if each is not None:
        return _at_vertices(vertices, triangles, senses, space, each, mask)
    keep = _with_area(vertices, triangles, mask)
    kept = None if senses is None else senses[keep]
    return AreaSeeds(vertices, triangles[keep], kept, space, draw, mask)


def _with_area(vertices: Floats, triangles: npt.NDArray[np.int64], mask: SeedMask | None) -> Flags:
    """Return which triangles have an area, and may have a part of it in the mask."""
    keep = lengths_of(normals_of(vertices, triangles)) > 0
    if not keep.any():
        raise InputError(f"no triangle of {flag('seed_surface')} has an area; make the surface again")
    if mask is None:
        return keep
    corners = mask.space.to_voxel(vertices)[triangles]
    keep &= mask.touches(corners.min(axis=1), corners.max(axis=1))
    if not keep.any():
        raise InputError(f"no part of {flag('seed_surface')} lies in {flag('seed_mask')}: check where they are")
    return keep


def _at_vertices(
    vertices: Floats, triangles: npt.NDArray[np.int64], senses: Floats | None, space: Space, each: int,
    mask: SeedMask | None,
) -> PointSeeds:
    """Return seeds at vertices, along the sums of the normals of their triangles, weighted by area."""
    keep = np.ones(len(vertices), bool) if mask is None else mask.holds(vertices)
    if not keep.any():
        raise InputError(f"no vertex of {flag('seed_surface')} lies in {flag('seed_mask')}: check where they are")
    along = None
    if senses is not None:
        normals, sums = normals_of(vertices, triangles) * senses[:, None], np.zeros_like(vertices)
        for corner in range(3):
            np.add.at(sums, triangles[:, corner], normals)
        if len(none := np.flatnonzero(keep & ~(lengths_of(sums) > 0))):
            raise InputError(
                f"{flag('seed_surface')}: {len(none)} vertices have no normal, the first of which is at "
                f"{vertices[none[0]].round(3).tolist()}; leave out {flag('surface_direction')}"
            )
        along = along_voxel_axes(sums[keep], space)
    count_seeds(flag("seeds_per_vertex"), each, int(keep.sum()), each, "vertices")
    return PointSeeds(space.to_voxel(vertices[keep]), along, each)


def _check_place(surface: Surface, space: Space, warn: Tell) -> None:
    """Check that most vertices lie in the image, and warn if some do not."""
    vertices = surface.vertices
    outside = len(vertices) - count_inside(space.to_voxel(vertices), space)
    text = f"{surface.path}: {outside:,} of {len(vertices):,} vertices lie outside the image"
    if outside > MOST_OUTSIDE * len(vertices):
        raise InputError(
            f"{text}; give a surface of this subject in the space of the series, and say with {flag('surface_space')} "
            "if its vertices are in another space than the file says"
        )
    if outside:
        warn(f"{text} ({outside / len(vertices):.1%}), and no streamline starts there")
