"""The messages of a run and of its workers, each of which is pickled.

A turn is a call of ``load`` or ``track``: what is asked for in an earlier one is no longer wanted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..aliases import Array
from ..space.batch import Batch, Space
from ..tracking.engine.engine import Block
from ..tracking.engine.kernels import KernelParts
from ..tracking.growth.settings import Settings
from ..tracking.products.collector import Collector
from ..tracking.selection.filters import Filter
from ..tracking.tables.given import Prepared

Counts = npt.NDArray[np.int64]  # as those of a Statistics


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
    """Track a range of seeds; answer with each batch, and with Done if ``most`` streamlines are only counted."""

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


class Done(NamedTuple):
    """A range is tracked that was only counted."""

    turn: int


class BatchMessage(NamedTuple):
    """A batch; with the last one of a chunk come its counts, and what products have collected in it."""

    turn: int
    counts: Counts | None
    deltas: Sequence[object]
    batch: Batch


class SharedBatch(NamedTuple):
    """The same, with the number of the shared memory in which the batch lies, and its points and streamlines."""

    turn: int
    counts: Counts | None
    deltas: Sequence[object]
    place: tuple[int, int, int]


Job = CompileKernels | LoadKernels | FindDirections | TrackSeeds
Batches = BatchMessage | SharedBatch
Message = Turn | Free | Ask | Job | Ready | InitialDirections | Note | Failed | Alive | Done | Batches
