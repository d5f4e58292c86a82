"""The map of the ends of streamlines: its option, how the host counts them, and its file."""

from __future__ import annotations

from dataclasses import dataclass

from ...kernels.products.ends import count_end_points
from ...option import OUTPUT, PathLike, option
from ...space.batch import Batch
from .density import Density, program_of


@dataclass(frozen=True)
class EndsOptions:
    """The option that names the map, a part of :class:`tistreamlines.Parameters`."""

    ends: PathLike | None = option(
        None, OUTPUT, "Write a map of how many streamlines end in each voxel, .nii or .nii.gz. Both ends of a "
        "streamline count. Without --output, only maps are written, and no streamline is kept.", unit="FILE",
        absent="not written", affects="run",
    )  # fmt: skip


class Ends(Density):
    """Counts the ends of streamlines in each voxel; see :class:`.density.Density`."""

    each = 2

    def _add(self, batch: Batch, some: slice) -> None:
        """Count the ends of some streamlines of a batch."""
        for values in self._listed(batch, some):
            count = len(values["slot"])
            program_of(count_end_points).run("count_end_points", count, values | {"counts": self._cells})
