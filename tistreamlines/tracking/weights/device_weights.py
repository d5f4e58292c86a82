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
from ...kernels.weights.sift2 import FRACTION, SUMS, Model, Weighed, reweigh, sum_up
from ...kernels.weights.visits import FIXEL_BITS, FIXEL_MASK, MOST_UNITS
from ...linker.lang import LANES
from ...linker.records import INTS, REALS, spread
from ...linker.source import Source
from .visits import Part

Array = npt.NDArray[Any]
WORD_BITS = 32


@dataclass(eq=False)
class _Piece:
    """Some streamlines: their numbers, the visits of each team, all words, and arguments of kernels."""

    order: Array
    depth: Array
    words: Array
    values: dict[str, Any]

    @property
    def teams(self) -> int:
        """Number of teams."""
        return len(self.depth)

    @property
    def units(self) -> Array:
        """Length of each visit, (visits, 32)."""
        return ((self.words >> FIXEL_BITS) & MOST_UNITS).reshape(-1, LANES)

    def total(self, values: Array) -> Array:
        """Return the sums of ``values`` (fixels,) over the visits of each lane, times their lengths, (teams, 32)."""
        sums = np.zeros((len(self.units) + 1, LANES))
        np.cumsum(self.units * values[self.words & FIXEL_MASK].reshape(-1, LANES), axis=0, out=sums[1:])
        ends = np.cumsum(self.depth)
        return sums[ends] - sums[ends - self.depth]


class DeviceWeights:
    """Streamlines that are weighed.

    Parameters
    ----------
    parts : sequence of Part
        Their visits.
    fixels : int
        Number of fixels.
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
        self, parts: Sequence[Part], fixels: int, device: Device, threads: int | None = None, excludes: bool = False
    ) -> None:
        self._fixels = fixels
        # threads of the host have sums of their own, since additions that others see take longer
        self._threads = (threads or usable_cores()) if device.on_host else 1
        fill = {"ATOMIC": int(not device.on_host), "EXCLUDES": int(excludes)}
        self._program = open_program(device, Source([reweigh, sum_up], fill), threads=1)
        self.first, self.visits = np.zeros(fixels, np.int64), np.zeros(fixels, np.int64)
        for part in parts:
            which, units = part.words & FIXEL_MASK, (part.words >> FIXEL_BITS) & MOST_UNITS
            self.first += np.bincount(which, units, fixels).astype(np.int64)
            self.visits += np.bincount(which[units > 0], minlength=fixels)
        # no sum of low bits needs more than a word
        self._bits_apart = min(WORD_BITS - int(self.visits.max(initial=1)).bit_length(), WORD_BITS // 2)
        self._excluded = self._program.array(np.zeros(fixels + 1, np.int32))
        self._pieces = [piece for part in parts for piece in self._split(part)]

    def _split(self, part: Part) -> list[_Piece]:
        """Move the visits of a part to the device, in as many pieces as there are threads."""
        program, made = self._program, []
        for teams in np.array_split(np.arange(len(part.depth)), self._threads):
            if not len(teams):
                continue
            begin, depth, lanes = part.begin[teams], part.depth[teams], LANES * len(teams)
            words = part.words[begin[0] : begin[-1] + LANES * depth[-1]]
            weighed = Weighed(
                begin=program.array(begin - begin[0]), depth=program.array(depth), words=program.array(words),
                share=program.empty(lanes, REALS), coefficients=program.array(np.zeros(lanes, np.int32)),
                after=program.empty(lanes, INTS), roughness=program.empty(lanes, INTS), excluded=self._excluded,
            )  # fmt: skip
            order = part.order[LANES * teams[0] : LANES * (teams[-1] + 1)]
            values = spread("weighed", weighed) | {"factors": program.empty(lanes, REALS)}
            made.append(_Piece(order, depth, words, values))
        return made

    def _each(self, work: Callable[[_Piece], Any]) -> list[Any]:
        """Do some work for each piece; on the host, threads do so together."""
        if self._threads == 1:
            return [work(piece) for piece in self._pieces]
        return list(thread_pool("weights", self._threads).map(work, self._pieces))

    def weigh_voxels(self, masks: Array) -> None:
        """Take the masks of the fixels (fixels,): lengths of streamlines count so much in the regularisation."""

        def work(piece: _Piece) -> None:
            total = piece.total(masks)
            share = np.where(total > 0, 1.0 / np.where(total > 0, total, 1.0), 0.0)
            self._program.upload(piece.values["weighed_share"], share.astype(np.float32).ravel())

        self._each(work)

    @property
    def visiting(self) -> Array:
        """Whether each streamline visits a fixel, (n,), in the order in which visits are held."""
        return np.concatenate([np.zeros(0, bool), *map(_visits, self._pieces)])

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
        values = spread("model", Model(fixels=fixels, count=self._fixels, unit=unit, **bounds))
        self._each(lambda piece: self._program.run("reweigh", piece.teams, piece.values | values))

    def accept(self) -> Array:
        """Take the step that was found; return which fixels are excluded from the next one on, (fixels,)."""
        for piece in self._pieces:
            before, after = piece.values["weighed_coefficients"], piece.values["weighed_after"]
            piece.values |= {"weighed_coefficients": after, "weighed_after": before}
        return self._program.host(self._excluded, self._fixels) > 0

    def set_coefficients(self, values: Array) -> None:
        """Set the coefficients of the streamlines, (count,), in their order."""
        for piece in self._pieces:
            held = np.zeros(LANES * piece.teams, np.float32)
            held[: len(piece.order)] = values[piece.order]
            self._program.upload(piece.values["weighed_coefficients"], held)

    def means(self, values: Array, weights: Array, count: int) -> Array:
        """Return the mean of ``values`` (fixels,) over the visits of each streamline, (count,); NaN without a visit.

        A visit counts by its length times ``weights`` (fixels,).
        """
        out = np.full(count, np.nan)

        def work(piece: _Piece) -> None:
            count = len(piece.order)
            top, bottom = (piece.total(one).ravel()[:count] for one in (weights * values, weights))
            out[piece.order] = top / np.where(bottom > 0, bottom, np.nan)

        self._each(work)
        return out

    def sums(self, least: float) -> Array:
        """Return weighted lengths of streamlines in each fixel, and sums of coefficients times lengths, (fixels, 2)."""
        words = SUMS * self._fixels

        def work(some: Sequence[_Piece]) -> Array:
            own = self._program.array(np.zeros(words, np.int32))
            for piece in some:
                given = {"sums": own, "least": least, "bits_apart": self._bits_apart}
                self._program.run("sum_up", piece.teams, piece.values | given)
            return self._program.host(own, words)

        groups = [self._pieces[thread :: self._threads] for thread in range(self._threads)]
        found = [work(groups[0])] if self._threads == 1 else thread_pool("weights", self._threads).map(work, groups)
        total = np.zeros((self._fixels, 2))
        for one in found:
            parts = one.reshape(-1, 2, 2).astype(np.int64)
            total += (parts[..., 0] & 0xFFFFFFFF) + (parts[..., 1] << self._bits_apart)
        return total / FRACTION

    def fetched(self, name: str) -> Array:
        """Return a number of each streamline, (n,) float64, in the order in which visits are held.

        Parameters
        ----------
        name : str
            One of the kernels' ``Weighed``: 'coefficients'; 'after', those before the last step until the next one is
            found; 'roughness'.
        """
        held = [self._program.host(one.values[f"weighed_{name}"], LANES * one.teams) for one in self._pieces]
        real = (bits.view(np.float32)[: len(one.order)] for bits, one in zip(held, self._pieces, strict=True))
        return np.concatenate([np.zeros(0), *real])

    def coefficients(self, count: int) -> npt.NDArray[np.float32]:
        """Return the coefficients in the order of the streamlines, (count,)."""
        out = np.zeros(count, np.float32)
        if self._pieces:
            out[np.concatenate([piece.order for piece in self._pieces])] = self.fetched("coefficients")
        return out


def _visits(piece: _Piece) -> Array:
    """Return whether each streamline has a visit, (n,)."""
    units = np.concatenate([piece.units, np.zeros((1, LANES), np.int32)])  # for teams without a visit at the end
    first = units[np.cumsum(piece.depth) - piece.depth]
    return ((first > 0) & (piece.depth > 0)[:, None]).ravel()[: len(piece.order)]
