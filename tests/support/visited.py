"""Made-up fixels, curves that visit them, and the weights of these curves."""

import numpy as np
import pytest

from tistreamlines.devices import choose
from tistreamlines.errors import ParameterError
from tistreamlines.kernels.weights.visits import FIXEL_BITS, FIXEL_MASK, MOST_UNITS
from tistreamlines.space.batch import Batch, Space
from tistreamlines.space.geodesic import half_sphere
from tistreamlines.tracking.weights.fixel_table import FixelTable
from tistreamlines.tracking.weights.fixels import Fixels
from tistreamlines.tracking.weights.options import Sift2Options
from tistreamlines.tracking.weights.sift2 import sift2
from tistreamlines.tracking.weights.visit_list import StoredWords
from tistreamlines.tracking.weights.visit_memory import A_LANE, A_TEAM, VisitMemory
from tistreamlines.tracking.weights.visits import Visitor

SHAPE = (12, 10, 9)
AFFINE = np.array([[1.6, 0.5, -0.2, -8.0], [-0.5, 1.5, 0.4, 3.0], [0.3, -0.3, 1.9, -20.0], [0, 0, 0, 1]])
STEP = 0.7  # mm
ALONG_X = np.abs(half_sphere()[0][:, 0]) > np.sqrt(0.5)  # directions of the first fixel


def fixel_table(missing=0.1):
    """Two fixels in most voxels, of directions near x and away from it, and none in some."""
    counts = np.where(np.random.default_rng(5).random(SHAPE) < missing, 0, 2)
    return table_of(AFFINE, counts, np.where(ALONG_X, 0, 1))


def table_of(affine, counts, lobes):
    """The same lobes in each voxel with fixels."""
    row = np.pad(lobes.astype(np.uint8), (0, -len(lobes) % 4)).view(np.int32)
    known = counts > 0
    return FixelTable(Space(affine, counts.shape), counts, known, np.tile(row, (int(known.sum()), 1)))


def fixels_with(table, fibres, mask):
    """Fixels of these fibre densities, in no known direction."""
    return Fixels(table, fibres, mask, np.zeros((table.count, 3), np.float32))


def curves(count, seed=0, turn=0.15):
    """Smooth curves of points STEP apart, some of which leave the grid; of 1 point, or 2, too."""
    rng, lines = np.random.default_rng(seed), []
    for length in rng.integers(1, 60, count):
        d = rng.normal(size=3)
        points = [AFFINE[:3, :3] @ rng.uniform(-1, SHAPE) + AFFINE[:3, 3]]
        for _ in range(length - 1):
            d = d / np.linalg.norm(d) + turn * rng.normal(size=3)
            points.append(points[-1] + STEP * d / np.linalg.norm(d))
        lines.append(np.array(points, np.float32))
    return batch(np.concatenate(lines), np.cumsum([0, *map(len, lines)]))


def batch(points, offsets):
    """A batch of these streamlines."""
    count = len(offsets) - 1
    seeds = points[offsets[:-1]]
    none = np.zeros(count, np.uint16), np.zeros((count, 2), np.uint8)
    return Batch(points, offsets, seeds, np.arange(count, dtype=np.uint32), *none)


def lengths_of(parts, count, fixels):
    """Units of each streamline in each fixel, (count, fixels)."""
    units = np.zeros((count, fixels), int)
    for part in parts:
        for team, (begin, depth) in enumerate(zip(part.begin, part.depth, strict=True)):
            words = part.words[begin : begin + 32 * depth].reshape(-1, 32)
            for lane, number in enumerate(part.order[32 * team : 32 * team + 32]):
                if number < 0:
                    assert not words[:, lane].any()
                    continue
                np.add.at(units[number], words[:, lane] & FIXEL_MASK, (words[:, lane] >> FIXEL_BITS) & MOST_UNITS)
    return units


def densities():
    """Fixels with random densities of fibres, of which some count less."""
    table = fixel_table()
    fibres = np.random.default_rng(2).uniform(0.1, 1.0, table.count)
    return fixels_with(table, fibres, np.random.default_rng(3).uniform(0.2, 1.0, table.counts.shape))


def weigh(count, fixels=None, arch="cpu", threads=None, parts=1, memory=None, **rules):
    """Weights of random curves, whose visits are found in so many parts and kept in ``memory``, if there is one."""
    fixels, lines, device = fixels or densities(), curves(count, seed=11), choose(arch)
    visitor, visits = Visitor(fixels.table, STEP, device, threads), []
    for numbers in np.array_split(np.arange(count), parts):
        for part in visitor.parts(lines[numbers]):
            moved = part.renumber(int(numbers[0]))
            visits.append(moved if memory is None else memory.keep(moved))
    stored = sum(isinstance(part.words, StoredWords) for part in visits)
    options = Sift2Options(**{f"sift2_{name}": value for name, value in rules.items()})
    return sift2(fixels, visits, count, device, options, threads=threads, memory=memory), stored


def weigh_within(left, folder, count, arch="cpu", threads=None, parts=1, **more):
    """The same with a limit of memory, of which so many bytes are left for visits; none if that is None."""
    fixels, device = fixel_table().count, choose(arch)
    teams = sum(-(-len(numbers) // 32) for numbers in np.array_split(np.arange(count), parts))
    limit = None if left is None else left + needed(fixels, device, threads) + 4 * teams * (32 * A_LANE + A_TEAM)
    memory = VisitMemory(fixels, device, threads, limit=limit, beside=folder / "w.txt")
    try:
        return weigh(count, arch=arch, threads=threads, parts=parts, memory=memory, **more)
    finally:
        memory.close()


def needed(fixels, device, threads):
    """Bytes for fixels alone, from what the error of a limit says, in four digits."""
    with pytest.raises(ParameterError) as raised:
        VisitMemory(fixels, device, threads, limit=1)
    words = str(raised.value).split()
    return int(1e9 * float(words[words.index("take") + 1]))
