"""Random seeds in fixels, each drawn with the probability of its fixel, by a kernel that many threads run at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ...aliases import Array
from ...backends.numba.cache import Function, Held
from ...devices import usable_cores
from ...devices.threads import in_threads
from ...errors import InputError
from ...space.batch import Space
from ..seeding import interface
from ..seeding.directed import along_voxel_axes
from ..seeding.seeds import ATTEMPTS, Draw
from .fixels import Fixels

KERNELS = Path(__file__).with_name("fixel_draw_kernels.py")
FEWEST = 1 << 9  # seeds for which another thread pays


@cache
def _draw_seeds() -> Function:
    """Return the kernel."""
    from ...backends.numba.program import text_with
    from ..seeding.place_seeds import draw_attempt

    return Function(text_with([draw_attempt], interface.KERNELS, KERNELS), "draw_seeds")


@dataclass(frozen=True, eq=False)
class FixelDraw:
    """Draws seeds, each anywhere in the voxel of its fixel.

    Parameters
    ----------
    fixels : the fixels.
    name : what messages begin with.
    tissues : five tissues, or None; a seed is tried again in fluid, and grey matter leads it to the interface.
    space : grid of the image that is tracked.
    draw : random numbers.
    """

    fixels: Fixels
    name: str
    tissues: interface.Segmentation | None
    space: Space
    draw: Draw

    @cached_property
    def _constants(self) -> list[Held]:
        """Arguments of the kernel that are the same each time."""
        fixels, table = self.fixels, self.fixels.table
        nowhere = np.zeros((0, 0, 0, 0), np.float32), np.eye(4), 0.0
        tissues = nowhere if self.tissues is None else self.tissues.values_and_grid
        grid = np.ascontiguousarray(table.space.affine), np.linalg.inv(table.space.affine)
        along = along_voxel_axes(fixels.directions, self.space)
        places = table.voxel_of, *table.counts.shape[1:], *grid, along
        return [Held(places), Held(tissues), Held(np.linalg.inv(self.space.affine))]

    def seeds(
        self, probabilities: Array, first: int, count: int
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return voxel coordinates of seeds from number ``first`` on, and directions along the voxel axes, (n, 3) each.

        Raises
        ------
        InputError
            If there is a seed at which no attempt succeeds.
        """
        points, along, threads = np.empty((count, 3)), np.zeros((count, 3)), self.draw.threads or usable_cores()
        key = np.array([self.draw.key], np.uint64).view(np.int32)
        queue, draw, sums = np.zeros(1, np.int64), (np.uint32(first), key, ATTEMPTS), np.cumsum(probabilities)
        # converted once: a conversion needs Python's lock, so threads would wait for each other
        arguments = [*map(Held, (queue, draw, sums)), *self._constants, Held(points), Held(along)]

        def draw_some(_: int) -> None:
            item, attempt, reals = np.zeros(1, np.int32), np.zeros(1, np.int32), np.zeros(7, np.float32)
            _draw_seeds().call_with([*arguments, Held((item, attempt, reals, np.zeros((1, 3)), np.zeros(1, np.uint8)))])

        in_threads(draw_some, range(max(1, min(threads, -(-count // FEWEST)))), threads)
        if len(missing := np.flatnonzero(np.isnan(along[:, 0]))):
            path = self.tissues and self.tissues.path
            raise InputError(
                f"{self.name}: seed {first + missing[0]} was not found in {ATTEMPTS} attempts: hardly any fixel that "
                f"lacks streamlines lies outside the fluid of {path}: are both of one subject, in one space?"
            )
        return points, along
