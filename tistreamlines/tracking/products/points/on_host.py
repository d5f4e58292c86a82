"""Points of streamlines that grow on the CPU, where the host reads their codes as the kernels leave them."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from ....devices import Device, usable_cores
from ....kernels.halves import IN_A_ROW
from ....space.batch import Space
from ...growth.chunk import Chunk
from ...growth.growth import Growth
from ...tables.given import Prepared
from .points import Points
from .unpacking import Grown, Unpacker

if TYPE_CHECKING:
    from ....backends.numba.program import QueuedProgram

BESIDE = 2  # threads of the host that a GPU keeps at work: the one that waits for it, and what helps (Growth.beside)


class PointsOnHost(Points):
    """The streamlines themselves: threads lay out the points of one chunk while others grow the next one."""

    roots = ()

    def compile(self, growth: Growth) -> None:
        """Lay out a made-up streamline of two steps."""
        chunk = growth.made_up(1)
        growth.program.upload(growth.values["halves_codes"], np.zeros(2 * IN_A_ROW, np.int32))
        self.unpacker.batch(self._grown(growth, chunk), growth.rules)

    def collect(self, growth: Growth, accepted: Chunk) -> None:
        """Let threads lay out the points. Until they have, no later chunk takes the place of the codes."""
        self.begin_chunk()
        with growth.statistics.stage("pack"):
            grown, program = self._grown(growth, accepted), cast("QueuedProgram", growth.program)
            for batch in self.lay_out(growth, grown, self.points_each(int(grown.offsets[-1])), True):
                program.also_read(grown.words, batch)

    def _grown(self, growth: Growth, chunk: Chunk) -> Grown:
        """Return streamlines whose codes are where the kernels have written them, each in a word of its own."""
        halves = np.add.outer(2 * chunk.number, np.arange(2, dtype=np.int32)).ravel()
        codes = growth.values["halves_codes"]
        assert isinstance(codes, np.ndarray)
        return Grown(chunk, codes, halves, chunk.places(1)[1])


def points_on(device: Device, prepared: Prepared, space: Space, threads: int | None) -> Points:
    """Return the points of streamlines that grow on a device.

    Parameters
    ----------
    prepared, space : see :class:`.unpacking.Unpacker`.
    threads : how many threads the run may use, None for all cores.
    """
    if device.on_host:  # as many as grow streamlines, which wait for none of them
        return PointsOnHost(Unpacker(prepared, space, packed=False), threads or usable_cores())
    return Points(Unpacker(prepared, space), threads or max(1, usable_cores() - BESIDE))
