"""Regions of interest as a filter: which streamlines they accept, and where they end them.

The rules are those of MRtrix3's ``tckgen``: points are tested, not segments, the seed among them. The nearest voxel of
a mask decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...aliases import Array
from ...kernels.selection import bits
from ...kernels.selection import regions as kernels
from ...kernels.selection.regions import EXCLUDE, FIRST_END, INCLUDES, LIMIT, MOST_INCLUDES, SECOND_END, WORD_BITS
from ...linker.lang import Func, Stage
from ...space.batch import Space
from ..growth.chunk import Chunk
from ..parts import Selection
from .filters import Filter
from .places import MaskRegion, Region, SphereRegion, box_around, mark_ball, mark_voxels

Asked = Mapping[str, Sequence[Region]]  # by the name of the option
Marked = tuple[MaskRegion, int, int]  # with its word and its bit in it
ROLES = ("include", "include_ordered", "exclude", "limit_mask", "ends_in")
SAME = 1e-4  # voxels: headers of one grid may differ by so much, since many programs keep them in float32


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class BitsOfPoints(Selection):
    """Looks each point up in regions, as a half grows or, where steps may be taken back, when it has ended."""

    bits_at: Func = kernels.bits_at
    load_bits: Stage = bits.load_bits
    look: Stage = bits.look
    confine: Stage = bits.confine
    add_point: Stage = bits.add_point
    stand: Stage = bits.stand
    leave_point: Stage = bits.leave_point
    store_bits: Stage = bits.store_bits
    has_bits: int = 1


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
        included = {name: _region_bits(asked, name) for name in ROLES[:2]}
        words = 1 + max((word for places in included.values() for word, _ in places), default=0)
        placed = [(region, 0, bit) for name in ROLES[2:] for region, bit in _unions(asked, name)]
        for name, places in included.items():
            placed += [(region, *place) for region, place in zip(asked.get(name, ()), places, strict=True)]
        sums = [[sum(bit for at, bit in included[name] if at == word) for word in range(words)] for name in ROLES[:2]]
        (unordered, ordered), sides = (bits[0] for bits in sums), space.voxel_sizes
        record = kernels.Regions(
            counted=EXCLUDE | unordered, ordered=ordered, first=ordered & -ordered, wanted=unordered | ordered,
            limited=LIMIT if asked.get("limit_mask") else 0, stops=int(stops), ends=len(asked.get("ends_in", ())),
            **_places(placed, space, words), side_x=sides[0], side_y=sides[1], side_z=sides[2],
            further=np.array([*np.transpose(sums)[1:].ravel(), len(included["include_ordered"])], np.int32),
        )
        collects = any(asked.get(name) for name in ROLES if name != "limit_mask")
        self._selection = BitsOfPoints(filter=record, more=words - 1, collects=int(collects), in_turn=stops)

    def demand(self, selection: Selection) -> Selection:
        """Demand that points are looked up in the regions."""
        return replace(self._selection, in_vain=selection.in_vain)

    def verdicts(self, chunk: Chunk) -> Array:
        """Return the verdict on each of the chunk's streamlines, (m,)."""
        return chunk.besides["verdict"]


def _region_bits(asked: Asked, name: str) -> list[tuple[int, int]]:
    """Return the word and the bit of each region of ``include`` or ``include_ordered``.

    If one word has too few bits for both, the ordered regions begin with a word of their own.
    """
    unordered, count = len(asked.get("include", ())), len(asked.get(name, ()))
    if unordered + len(asked.get("include_ordered", ())) <= MOST_INCLUDES:
        begin = INCLUDES + (unordered if name == "include_ordered" else 0)
        return [(0, 1 << begin + number) for number in range(count)]
    places = [(0, 1 << INCLUDES + number) for number in range(MOST_INCLUDES)] if name == "include" else []
    first = 1 if name == "include" else 1 + -(-max(unordered - MOST_INCLUDES, 0) // WORD_BITS)
    further = [(first + number // WORD_BITS, 1 << number % WORD_BITS) for number in range(count)]
    return [*places, *further][:count]


def _unions(asked: Asked, name: str) -> list[tuple[Region, int]]:
    """Return the regions of an option whose bits are always in the first word."""
    regions = asked.get(name, ())
    if name == "ends_in":
        return list(zip(regions, (FIRST_END, SECOND_END), strict=False))
    return [(region, EXCLUDE if name == "exclude" else LIMIT) for region in regions]


def _places(placed: Sequence[tuple[Region, int, int]], space: Space, words: int) -> dict[str, Array | int]:
    """Return the fields of the record that say where regions lie, by word and bit; masks on one grid share an array."""
    grids: dict[tuple[bytes, tuple[int, ...]], list[Marked]] = {}
    spheres: list[tuple[SphereRegion, int, int]] = []
    for region, word, bit in placed:
        if isinstance(region, SphereRegion):
            spheres.append((region, word, bit))
        else:
            grids.setdefault((region.space.affine.tobytes(), region.space.shape), []).append((region, word, bit))
    voxels = np.zeros((words, *space.shape), np.int32)
    matrix: list[Array] = [np.zeros(0)]
    voxel_bits: list[Array] = [np.zeros((words, 1), np.int32)]
    sides: list[int] = []
    for (affine, shape), group in grids.items():
        low, bits = _bits(group, words)
        to_grid = np.linalg.inv(np.frombuffer(affine).reshape(4, 4)) @ space.affine
        if shape == space.shape and (np.abs(to_grid - np.eye(4)) @ [*space.shape, 1]).max() < SAME:
            box = tuple(slice(begin, begin + size) for begin, size in zip(low, bits.shape[1:], strict=True))
            voxels[(slice(None), *box)] |= bits
            continue
        to_grid[:3, 3] -= low
        for marked, word_bits in zip(voxels, bits, strict=True):
            mark_voxels(marked, word_bits, to_grid)
        sides += [*bits.shape[1:], sum(part.shape[1] for part in voxel_bits)]
        matrix.append(to_grid[:3].ravel())
        voxel_bits.append(bits.reshape(words, -1))
    balls = np.array([[*space.to_voxel(ball.centre), ball.radius**2] for ball, *_ in spheres], np.float32).ravel()
    ball_bits = np.zeros((words, len(spheres)), np.int32)
    for number, (sphere, word, bit) in enumerate(spheres):
        ball_bits[word, number] = bit
        mark_ball(voxels[word], space.to_voxel(sphere.centre), sphere.radius, bit, space.voxel_sizes)
    across, deep, high = space.shape
    all_bits = np.concatenate(voxel_bits, axis=1)
    return {
        "voxels": voxels.ravel(), "across": across, "deep": deep, "high": high, "grids": len(matrix) - 1,
        "matrix": np.append(np.concatenate(matrix), 0).astype(np.float32), "sides": np.array([*sides, 0], np.int32),
        "voxel_bits": all_bits.ravel(), "word_stride": all_bits.shape[1], "spheres": len(spheres),
        "balls": np.append(balls, np.float32(0)), "ball_bits": np.append(ball_bits, np.int32(0)),
    }


def _bits(group: Sequence[Marked], words: int) -> tuple[Array, Array]:
    """Return the first voxel of the smallest box around some masks of one grid, and their bits in it, by word."""
    boxes = np.array([box_around(mask.voxels) for mask, *_ in group])
    low, high = boxes[:, 0].min(axis=0), boxes[:, 1].max(axis=0)
    box = tuple(map(slice, low, high))
    bits = np.zeros((words, *(high - low)), np.int32)
    for mask, word, bit in group:
        bits[word][mask.voxels[box]] |= np.int32(bit)
    return low, bits
