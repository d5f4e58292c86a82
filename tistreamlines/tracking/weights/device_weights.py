"""Visits and coefficients of streamlines on a device, and what kernels make of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ...backends import open_program
from ...devices import Device, usable_cores
from ...devices.threads import thread_pool
from ...kernels.weights.sift2 import (
    FRACTION,
    SUMS,
    TALLIES,
    TALLY,
    TALLY_PARTS,
    Model,
    Weighed,
    average,
    count_visits,
    reweigh,
    sum_up,
    tally,
)
from ...linker.lang import LANES
from ...linker.records import INTS, REALS, spread
from ...linker.source import Source
from .visits import Part

Array = npt.NDArray[Any]
WORD_BITS = 32
MOST_WORDS = 2**27  # visits that a launch reads on a GPU: 512 MB


@dataclass(eq=False)
class _Piece:
    """Some streamlines: the number of each lane's, -1 for none, how many teams they are, and arguments of kernels."""

    order: Array
    teams: int
    values: dict[str, Any]


class DeviceWeights:
    """Streamlines that are weighed.

    Parameters
    ----------
    parts : list of Part
        Their visits; the list becomes empty, so that no copy takes memory.
    count, fixels : int
        Number of streamlines, and of fixels.
    device : Device
        Where they are weighed.
    threads : int, optional
        CPU threads; by default all cores.
    excludes : bool
        Whether fixels are excluded that drive coefficients beyond the greatest one.

    Attributes
    ----------
    first : (fixels,) int64
        Length of all streamlines in each fixel, in units.
    visits : (fixels,) int64
        Streamlines that visit each fixel.
    """

    def __init__(
        self, parts: list[Part], count: int, fixels: int, device: Device, threads: int | None = None,
        excludes: bool = False,
    ) -> None:  # fmt: skip
        self._count, self._fixels = count, fixels
        # threads of the host have sums of their own, since additions that others see take longer
        self._threads = (threads or usable_cores()) if device.on_host else 1
        fill = {"ATOMIC": int(not device.on_host), "EXCLUDES": int(excludes)}
        self._program = open_program(device, Source([reweigh, sum_up, count_visits, average, tally], fill), threads=1)
        self._excluded = self._program.array(np.zeros(fixels + 1, np.int32))
        self._pieces: list[_Piece] = []
        pieces = -(-2 * self._threads // max(len(parts), 1))
        while parts:
            self._hold(parts.pop() if device.on_host else _together(parts), pieces)
        found = self._added("count_visits", "counts", 2 * fixels, {}).view(np.uint32)
        self.first, self.visits = (found[:, k::2].sum(axis=0, dtype=np.int64) for k in range(2))
        # no sum of low bits needs more than a word
        self._bits_apart = min(WORD_BITS - int(self.visits.max(initial=1)).bit_length(), WORD_BITS // 2)

    def _hold(self, part: Part, pieces: int) -> None:
        """Move the visits of a part to the device, on the host in so many pieces."""
        program = self._program
        for teams in np.array_split(np.arange(len(part.depth)), pieces if self._threads > 1 else 1):
            if not len(teams):
                continue
            begin, depth, lanes = part.begin[teams], part.depth[teams], LANES * len(teams)
            words = part.words[begin[0] : begin[-1] + LANES * depth[-1]]
            weighed = Weighed(
                begin=program.array(begin - begin[0]), depth=program.array(depth), words=program.array(words),
                share=program.empty(lanes, INTS), coefficients=program.array(np.zeros(lanes, np.int32)),
                after=program.empty(lanes, INTS), roughness=program.empty(lanes, INTS), excluded=self._excluded,
            )  # fmt: skip
            values = spread("weighed", weighed) | {"factors": program.empty(lanes, REALS)}
            self._pieces.append(_Piece(part.order[LANES * teams[0] : LANES * (teams[-1] + 1)], len(teams), values))

    def _each(self, work: Callable[[Sequence[_Piece]], Any]) -> list[Any]:
        """Do some work for all pieces; on the host, each thread does so for some of them."""
        if self._threads == 1:
            return [work(self._pieces)]
        groups = [self._pieces[thread :: self._threads] for thread in range(self._threads)]
        return list(thread_pool("weights", self._threads).map(work, groups))

    def _run(self, kernel: str, given: dict[str, Any]) -> None:
        """Run a kernel for all streamlines."""

        def work(some: Sequence[_Piece]) -> None:
            for piece in some:
                self._program.run(kernel, piece.teams, piece.values | given)

        self._each(work)

    def _added(self, kernel: str, name: str, words: int, given: dict[str, Any]) -> Array:
        """Run a kernel that adds to so many words, its argument ``name``; return each thread's, (threads, words)."""

        def work(some: Sequence[_Piece]) -> Array:
            own = self._program.array(np.zeros(words, np.int32))
            for piece in some:
                self._program.run(kernel, piece.teams, piece.values | given | {name: own})
            return self._program.host(own, words)

        return np.stack(self._each(work))

    def average(self, values: Array, masks: Array) -> None:
        """Find the mean of ``values`` (fixels,) over the visits of each streamline, to be fetched as 'after'.

        It is 0 without a visit. A visit counts by its length times ``masks`` (fixels,), as in the regularisation from
        then on.
        """
        given = {"values": values.astype(np.float32), "masks": masks.astype(np.float32)}
        self._run("average", {name: self._program.array(one) for name, one in given.items()})

    def step(self, rows: Array, unit: float, bounds: Mapping[str, float]) -> None:
        """Find a step of each coefficient, and how far each is from those of its fixels.

        Parameters
        ----------
        rows : (fixels, 6) float32
            What the kernels' ``Model`` has of each fixel.
        unit : float
            Density of a unit of length.
        bounds : mapping
            Its other fields.
        """
        fixels = self._program.array(rows.ravel())
        self._run("reweigh", spread("model", Model(fixels=fixels, count=self._fixels, unit=unit, **bounds)))

    def accept(self) -> Array:
        """Take the step that was found; return which fixels are excluded from the next one on, (fixels,)."""
        for piece in self._pieces:
            before, after = piece.values["weighed_coefficients"], piece.values["weighed_after"]
            piece.values |= {"weighed_coefficients": after, "weighed_after": before}
        return self._program.host(self._excluded, self._fixels) > 0

    def sums(self, least: float) -> Array:
        """Return weighted lengths of streamlines in each fixel, and sums of coefficients times lengths, (fixels, 2)."""
        given = {"least": least, "bits_apart": self._bits_apart}
        found = self._added("sum_up", "sums", SUMS * self._fixels, given)
        low, high = found[:, ::2].view(np.uint32), found[:, 1::2]
        both = low.sum(axis=0, dtype=np.int64) + (high.sum(axis=0, dtype=np.int64) << self._bits_apart)
        return both.reshape(-1, 2) / FRACTION

    def regularisation(self, least: float) -> tuple[float, float, int]:
        """Return the sums of squared coefficients and of their roughness, and how many are above the least one."""
        found = self._added("tally", "totals", TALLIES * TALLY, {"least": least}).view(np.uint32)
        sums = found.reshape(-1, TALLY).sum(axis=0, dtype=np.int64)
        return float(sums[0] + sums[1] / TALLY_PARTS), float(sums[2] + sums[3] / TALLY_PARTS), int(sums[4])

    def fetched(self, name: str) -> npt.NDArray[np.float32]:
        """Return a number of each streamline in their order, (n,) float32, 0 where no visits are known.

        Parameters
        ----------
        name : str
            One of the kernels' ``Weighed``: 'share'; 'coefficients'; 'after', those before the last step until the next
            one is found; 'roughness'.
        """
        out = np.zeros(self._count, np.float32)
        for piece in self._pieces:
            bits = self._program.host(piece.values[f"weighed_{name}"], LANES * piece.teams)
            held = piece.order >= 0
            out[piece.order[held]] = bits.view(np.float32)[held]
        return out


def _together(parts: list[Part]) -> Part:
    """Take the last ones of some parts, as many as a launch may read; return them as one part."""
    some, words = [parts.pop()], 0
    while parts and words + len(parts[-1].words) + len(some[-1].words) <= MOST_WORDS:
        words += len(some[-1].words)
        some.append(parts.pop())
    starts = np.cumsum([0, *(len(one.words) for one in some[:-1])])
    begins = [one.begin + first for one, first in zip(some, starts, strict=True)]
    both = ([getattr(one, name) for one in some] for name in ("order", "depth", "words"))
    order, depth, found = (np.concatenate(one) for one in both)
    return Part(order, np.concatenate(begins).astype(np.int32), depth, found)
