"""Tables of fixels, by voxel and direction, as kernels read them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ...aliases import Array
from ...errors import InputError
from ...kernels.weights.visits import FIXEL_MASK, MOST_UNITS, FixelGrid
from ...linker.parts import Part
from ...space.batch import Space
from ...space.geodesic import half_sphere
from ...space.sphere import Ball, CellSizes, cell_table, sphere_tables
from ..products.grid import affine_of


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class FixelSizes(Part):
    """The constants of a table, see ``kernels/weights/visits.py``."""

    ball: Ball
    cell_sizes: CellSizes
    words: int
    symmetric: int = 1


@dataclass(frozen=True, eq=False)
class FixelTable:
    """Fixels by voxel and direction.

    Parameters
    ----------
    space : Space
        Grid of the voxels.
    counts : (x, y, z) int
        Fixels of each voxel.
    known : (x, y, z) bool
        Voxels that ``lobes`` knows, among them all with fixels.
    lobes : (voxels, words) int32
        Of each of these, in C order, the number within the voxel of the fixel to which each direction of the half
        sphere belongs, along the scanner's axes, four to a word: see :class:`tistreamlines.fit.lobes.Lobes`.

    Raises
    ------
    InputError
        If there are more fixels than a visit can name.
    """

    space: Space
    counts: Array
    known: Array
    lobes: Array

    def __post_init__(self) -> None:
        if self.count > FIXEL_MASK:
            raise InputError(f"{self.count:,} fixels are more than {FIXEL_MASK:,}: give a mask, or larger voxels")

    @property
    def count(self) -> int:
        """Number of fixels."""
        return int(self.counts.sum())

    @property
    def unit_mm(self) -> float:
        """A unit of length: the diagonal of a voxel has 255, as in MRtrix3."""
        return float(np.linalg.norm(self.space.voxel_sizes)) / MOST_UNITS

    @cached_property
    def voxel_of(self) -> Array:
        """Number in C order of the voxel of each fixel, (fixels,)."""
        return np.repeat(np.arange(self.counts.size), self.counts.ravel())

    def without_lobes(self) -> FixelTable:
        """Return the table without what only a :class:`Visitor` needs, most of its memory."""
        return replace(self, known=np.zeros(self.counts.shape, bool), lobes=np.zeros((0, 1), np.int32))

    def record(self) -> tuple[FixelGrid, FixelSizes]:
        """Return the kernels' record, and their constants."""
        assert len(self.lobes) or not self.count
        row = np.full(self.counts.size, -1, np.int32)
        row[self.known.ravel()] = np.arange(len(self.lobes), dtype=np.int32)
        counts = self.counts[self.known]
        directions, edges = half_sphere()
        ball, sphere = sphere_tables(directions, edges, len(directions))
        cells, cell_sizes = cell_table(directions)
        back = self.space.affine.copy()
        back[:3, 3] = 0.0
        across, deep, high = self.counts.shape
        grid = FixelGrid(
            to_voxel=affine_of(np.linalg.inv(self.space.affine)), to_mm=affine_of(back), across=across, deep=deep,
            high=high, row=row, first=(np.cumsum(counts) - counts).astype(np.int32),
            lobes=self.lobes.ravel(), vertices=np.asarray(sphere.vertices, np.float32), cells=cells,
            units=1.0 / self.unit_mm,
        )
        return grid, FixelSizes(ball=ball, cell_sizes=cell_sizes, words=self.lobes.shape[1])
