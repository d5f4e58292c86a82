"""The messages of a run and of its workers, each of which is pickled.

A turn is a call of ``load`` or ``track``: what is asked for in an earlier one is no longer wanted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..aliases import Array
from ..space.batch import Batch, Space
from ..tracking.engine.engine import Block
from ..tracking.engine.kernels import KernelParts
from ..tracking.growth.settings import Settings
from ..tracking.products.collector import Collector
from ..tracking.selection.filters import Filter
from ..tracking.tables.given import Prepared


class Opening(NamedTuple):
    """What :meth:`.session.Session.open` takes."""

    prepared: Prepared
    space: Space
    settings: Settings
    filters: Sequence[Filter]
    products: Sequence[Collector]
    points: bool


class Turn(NamedTuple):
    """Forget what was asked for before this turn."""

    turn: int


class Free(NamedTuple):
    """Nobody looks at these parts of shared memory any more."""

    numbers: list[int]


class Ask(NamedTuple):
    """Say that you are alive."""


class LoadKernels(NamedTuple):
    """Compile the kernels for :class:`Opening`, as it is packed in shared memory (see :mod:`.shared`); answer Ready."""

    turn: int
    content: bytes
    sizes: list[int]


class CompileKernels(NamedTuple):
    """Compile kernels whose tables come later; nothing is answered."""

    parts: KernelParts


class FindDirections(NamedTuple):
    """Find the initial directions at points; answer with Directions."""

    turn: int
    points: Array


class TrackSeeds(NamedTuple):
    """Track a range of seeds, up to ``most`` streamlines; answer with each batch, and with Tracked at the end."""

    turn: int
    block: Block
    most: int | None


class Ready(NamedTuple):
    """The kernels are compiled."""

    turn: int


class InitialDirections(NamedTuple):
    """Initial directions, see :mod:`..tracking.engine.directions`."""

    turn: int
    directions: tuple[Array, Array]


class Note(NamedTuple):
    """What the user should know."""

    text: str


class Failed(NamedTuple):
    """The worker has met an error, and has ended."""

    error: Exception


class Alive(NamedTuple):
    """The worker is alive."""


class BatchMessage(NamedTuple):
    """A batch of the first range that is not tracked to its end."""

    turn: int
    batch: Batch


class SharedBatch(NamedTuple):
    """The same, with the number of the shared memory in which the batch lies, and its points and streamlines."""

    turn: int
    place: tuple[int, int, int]


class Tracked(NamedTuple):
    """All batches of a range have been sent: their counts, as those of a Statistics, and what products collected."""

    turn: int
    counts: Array
    deltas: Sequence[object]


Job = CompileKernels | LoadKernels | FindDirections | TrackSeeds
Message = (
    Turn | Free | Ask | Job | Ready | InitialDirections | Note | Failed | Alive | BatchMessage | SharedBatch | Tracked
)
