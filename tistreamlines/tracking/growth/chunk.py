"""A chunk: streamlines that grow together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from ...aliases import Array
from ...backends.numba.cache import Function, text_of
from ...kernels.stop_reasons import Stop, Verdict
from ...space.batch import Space

_KERNELS = text_of(Path(__file__).with_name("chunk_kernels.py"))
_enlist, _tally = Function(_KERNELS, "enlist"), Function(_KERNELS, "tally")
_count, _places, _tell = Function(_KERNELS, "count"), Function(_KERNELS, "places"), Function(_KERNELS, "tell")


def enlisted(counts: Array, slot: Array) -> tuple[Array, Array, Array]:
    """Return the streamlines of seeds, each (m,) int32: their seeds, branches and numbers; see :class:`Chunk`.

    Parameters
    ----------
    counts : (n,) int32, the streamlines of each seed.
    slot : (n,) int32, the number of its first one.
    """
    seed, branch, number = (np.empty(int(counts.sum()), np.int32) for _ in range(3))
    _enlist(counts, slot, seed, branch, number)
    return seed, branch, number


def tallied(state: Array) -> tuple[int, int, Array]:
    """Return the steps of all halves, the most of one, and forward and backward halves by stop reason (2, reasons).

    Parameters
    ----------
    state : (m, 2, 2) int32, see :class:`Chunk`.
    """
    out = np.zeros((3, len(Stop)), np.int64)
    _tally(state, out)
    return int(out[0, 0]), int(out[0, 1]), out[1:]


def counted(chunk: Chunk, verdicts: Array) -> Array:
    """Return the counts of :class:`.statistics.Statistics` for a chunk that has ended, with the verdicts on it."""
    ends, judged = tallied(chunk.state)[2].sum(axis=0), np.zeros(len(Verdict), np.int64)
    _count(np.asarray(verdicts, np.int8), judged)  # at once: among many threads, each step of Python's may have to wait
    return np.concatenate([[len(chunk.seeds)], ends, judged])


@dataclass(frozen=True)
class Chunk:
    """Streamlines that grow together, in the order of their seeds and initial directions.

    Parameters
    ----------
    first_seed : number of the chunk's first seed in the run.
    seeds : (n, 3) float32, voxel coordinates.
    seed : (m,) int32, number of each streamline's seed in the chunk.
    branch : (m,) int32, number of its initial direction among those of the seed.
    number : (m,) int32, its number on the device: its halves are 2 * number (forward) and 2 * number + 1 (backward).
    state : (m, 2, 2) int32, of the forward half and of the backward half its steps and its stop reason.
    besides : what has come back of each streamline besides, (m, ...) int32 by name. ``verdict``, where points have
        bits: what regions make of it, see :func:`...kernels.streamlines.judge`. ``initial`` and ``first``, for getters
        that carry more than a code from step to step: the code of its initial direction and, where a recovery may take
        it back, of the forward half's first step. ``cropped``, where the rule moves ends: (m, 2), see
        :class:`...kernels.halves.Halves`.
    """

    first_seed: int
    seeds: Array
    seed: Array
    branch: Array
    number: Array
    state: Array
    besides: Mapping[str, Array] = field(default_factory=dict)

    @cached_property
    def steps(self) -> Array:
        """Steps of each streamline, both halves together, (m,)."""
        return self.state[:, 0, 0] + self.state[:, 1, 0]

    def places(self, codes_a_word: int) -> tuple[Array, Array]:
        """Return the first word of each half, (2 m + 1,) int32, and the first point of each streamline, (m + 1,) int64.

        The last elements are the numbers of all words and of all points.
        """
        count = len(self.seed)
        slot, offset = np.empty(2 * count + 1, np.int32), np.empty(count + 1, np.int64)
        most = int(self.state[..., 0].max(initial=0))
        words = (np.arange(most + 1, dtype=np.int32) + codes_a_word - 1) // codes_a_word
        _places(self.state, words, slot, offset)
        return slot, offset

    def told(self, space: Space) -> tuple[tuple[Array, ...], Array]:
        """Return what a batch says of each streamline besides its points, and the places of first points as int32.

        The former are the offsets, the seed (RASmm), the numbers of seed and direction, and the stop reasons.
        """
        count = len(self.seed)
        offsets, begins = np.empty(count + 1, np.int64), np.empty(count, np.int32)
        seeds, numbers = np.empty((count, 3), np.float32), np.empty(count, np.uint32)
        directions, reasons = np.empty(count, np.uint16), np.empty((count, 2), np.uint8)
        facts = offsets, begins, seeds, numbers, directions, reasons
        _tell(space.affine, self.first_seed, (self.seeds, self.seed, self.branch, self.state), facts)
        return (offsets, seeds, numbers, directions, reasons), begins

    def first(self, count: int) -> Chunk:
        """Return the chunk with its first streamlines, and their seeds."""
        return replace(self.some(slice(count)), seeds=self.seeds[: int(self.seed[count - 1]) + 1])

    def some(self, places: Array | slice) -> Chunk:
        """Return the chunk with some of its streamlines."""
        def chosen(values: Array) -> Array:
            return values[places] if isinstance(places, slice) else np.take(values, places, axis=0)

        named = {name: chosen(getattr(self, name)) for name in ("seed", "branch", "number", "state")}
        return replace(self, **named, besides={name: chosen(values) for name, values in self.besides.items()})
