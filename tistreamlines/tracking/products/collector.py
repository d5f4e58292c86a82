"""Collectors: what is made of the accepted streamlines while they are on a device.

A collector receives each chunk while its streamlines are on the device, before the next chunk takes their place.  It
may run kernels on them (with ``growth.values`` and arrays of its own) and copy what it needs to the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...aliases import Array
from ...linker.lang import Func
from ...linker.parts import Part
from ..growth.chunk import Chunk
from ..growth.growth import Growth


class Collector:
    """Something made of the accepted streamlines. By itself it does nothing: a subclass says what it needs and does.

    Attributes
    ----------
    roots : kernels that it runs.
    parts : what fills further holes and constants of these.
    bytes : memory of the device that it needs besides the buffers of a chunk.
    takes_dropped : whether ``collect_dropped`` does something. Both halves of a streamline grow in turn then, so that
        a region that ends one early does not leave the other one at a point that depends on the device.
    waits : whether the host waits for the device in ``collect``. Such products are made first, and the device works
        on the others while the host prepares the next chunk.
    """

    roots: Sequence[Func] = ()
    parts: Sequence[Part] = ()
    bytes: int = 0
    takes_dropped: bool = False
    waits: bool = True

    def compile(self, growth: Growth) -> None:
        """Compile the kernels, if there are any, before the first chunk; nothing of this may be left in the product."""

    def collect(self, growth: Growth, accepted: Chunk) -> None:
        """Add the accepted streamlines of a chunk, whose arrays are among ``growth.values`` with those of the others.

        The first steps of the next chunk may be under way, so what is uploaded ``beside`` kernels may not be in use.
        """

    def collect_dropped(self, growth: Growth, chunk: Chunk, verdicts: Array) -> None:
        """Add the streamlines of a chunk that are not accepted, before ``collect`` receives those that are."""

    def undo(self, growth: Growth) -> None:
        """Take the streamlines of the last chunk back, also if the device ran out of memory while they were added."""

    def take(self, growth: Growth) -> Any:
        """Return what was collected since the last call; nothing by default."""

    def merge(self, delta: Any) -> None:
        """Add what this product or another one of its kind, maybe in another process, has returned from ``take``."""
