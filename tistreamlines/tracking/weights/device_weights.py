"""Visits and coefficients of streamlines on a device, and what kernels make of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...aliases import Array
from ...backends import open_program
from ...backends.program import on_device
from ...devices.threads import thread_pool
from ...kernels.weights import sift2 as kernels
from ...linker.lang import LANES
from ...linker.parts import Part, Source
from ...linker.records import INTS, REALS, Arguments, spread
from .visit_list import DeviceWords, StoredWords, VisitList, in_memory, join_last
from .visit_memory import VisitBuffer, VisitMemory

WORD_BITS = 32
WORDS = "weighed_words"  # the visits, as kernels name them


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class WeightSums(Part):
    """The constants of sums over fixels, see ``kernels/weights/sift2.py``."""

    atomic: int
    excludes: int


@dataclass(eq=False)
class _Piece:
    """Some streamlines: the number of each lane's, -1 for none, how many teams they are, and arguments of kernels.

    Visits that are not kept on the device are ``waiting`` elsewhere.
    """

    order: Array
    teams: int
    values: Arguments
    waiting: Array | StoredWords | None


class DeviceWeights:
    """Streamlines that are weighed.

    Parameters
    ----------
    parts : list of VisitList
        Their visits; the list becomes empty, so that no copy takes memory.
    count : int
        Number of streamlines.
    memory : VisitMemory
        The device, and the number of visits that it keeps.
    excludes : bool
        Whether fixels are excluded that drive coefficients beyond the greatest one.

    Attributes
    ----------
    first : (fixels,) int64
        Length of all streamlines in each fixel, in units.
    visits : (fixels,) int64
        Streamlines that visit each fixel.
    """

    def __init__(self, parts: list[VisitList], count: int, memory: VisitMemory, *, excludes: bool = False) -> None:
        self._count, self._fixels, self._threads = count, memory.fixels, memory.threads
        device, fixels = memory.device, memory.fixels
        sums = WeightSums(atomic=int(not device.on_host), excludes=int(excludes))
        roots = [kernels.reweigh, kernels.sum_up, kernels.count_visits, kernels.average, kernels.tally]
        self._program = open_program(device, Source(roots, [sums]), threads=1)
        self._excluded = self._program.array(np.zeros(fixels + 1, np.int32))
        self._pieces: list[_Piece] = []
        self._hold_all(parts, memory)
        counts = self._run("count_visits", {}, "counts", 2 * fixels).view(np.uint32)
        self.first, self.visits = (counts[:, k::2].sum(axis=0, dtype=np.int64) for k in range(2))
        # no sum of low bits needs more than a word
        self._bits_apart = min(WORD_BITS - int(self.visits.max(initial=1)).bit_length(), WORD_BITS // 2)

    def _hold_all(self, parts: list[VisitList], memory: VisitMemory) -> None:
        """Move as many visits to the device as it has room for, first those in memory; each thread has a few pieces."""
        left, most = memory.shares()
        self._buffers = [VisitBuffer(self._program, memory.device, most) for _ in range(self._threads)]
        parts[:] = [piece for part in parts for piece in part.divide(most)]
        parts.sort(key=_place)  # the last ones are taken first
        pieces = -(-2 * self._threads // max(len(parts), 1)) if self._threads > 1 else 1
        while parts:
            part = parts.pop() if memory.device.on_host else join_last(parts, most)
            if kept := len(part.words) <= left:
                left -= len(part.words)
            for teams in np.array_split(np.arange(len(part.depth)), pieces):
                if len(teams):
                    visits = part.teams(int(teams[0]), int(teams[-1]) + 1)
                    words = None if kept or isinstance(visits.words, DeviceWords) else visits.words
                    self._hold(visits, None if words is None else memory.waiting(words))

    def _hold(self, part: VisitList, waiting: Array | StoredWords | None) -> None:
        """Make a piece of a part, whose visits go to the device unless they are ``waiting`` elsewhere."""
        program, lanes = self._program, len(part.order)
        weighed = kernels.StreamlineWeights(
            begin=program.array(part.begin), depth=program.array(part.depth),
            words=self._words(part) if waiting is None else None,
            share=program.empty(lanes, INTS), coefficients=program.array(np.zeros(lanes, np.int32)),
            after=program.empty(lanes, INTS), roughness=program.empty(lanes, INTS), excluded=self._excluded,
        )
        values = spread("weighed", weighed) | {"factors": program.empty(lanes, REALS)}
        self._pieces.append(_Piece(part.order, len(part.depth), values, waiting))

    def _words(self, part: VisitList) -> object:
        """Return an array of the device with the visits of a part."""
        words = part.words
        return words.array if isinstance(words, DeviceWords) else self._program.array(in_memory(words))

    def _run(self, kernel: str, arguments: Arguments, name: str = "", words: int = 0) -> Array:
        """Run a kernel for all streamlines; on the host, each thread does so for some of them.

        Return what each thread's kernels have added to its argument ``name``, (threads, words).
        """

        def work(pieces: Sequence[_Piece], buffer: VisitBuffer) -> Array:
            sums = {name: self._program.array(np.zeros(words, np.int32))} if words else {}
            for piece in pieces:
                values = piece.values | arguments | sums
                if piece.waiting is not None and WORDS in dict(self._program.signatures[kernel]):
                    values[WORDS] = buffer.fill(piece.waiting)
                self._program.run(kernel, piece.teams, values)
            return self._program.host(sums[name], words) if words else np.zeros(0, np.int32)

        groups = [self._pieces[thread :: self._threads] for thread in range(self._threads)]
        each = map if self._threads == 1 else thread_pool("weights", self._threads).map
        return np.stack(list(each(work, groups, self._buffers)))

    def average(self, values: Array, masks: Array) -> None:
        """Find the mean of ``values`` (fixels,) over the visits of each streamline, to be fetched as 'after'.

        It is 0 without a visit. A visit counts by its length times ``masks`` (fixels,), as in the regularisation from
        then on.
        """
        self._run("average", on_device(self._program, {"values": np.float32(values), "masks": np.float32(masks)}))

    def step(self, rows: Array, unit: float, bounds: Mapping[str, float]) -> None:
        """Find a step of each coefficient, and how far each is from those of its fixels.

        Parameters
        ----------
        rows : (fixels, 6) float32
            The numbers of each fixel in the kernels' ``Model``.
        unit : float
            Density of a unit of length.
        bounds : mapping
            Its other fields.
        """
        fixels = self._program.array(rows.ravel())
        model = kernels.FixelModel(fixels=fixels, count=self._fixels, unit=unit, **bounds)
        self._run("reweigh", spread("model", model))

    def accept(self) -> Array:
        """Take the best step; return which fixels are excluded from the next one on, (fixels,)."""
        for piece in self._pieces:
            before, after = piece.values["weighed_coefficients"], piece.values["weighed_after"]
            piece.values |= {"weighed_coefficients": after, "weighed_after": before}
        return self._program.host(self._excluded, self._fixels) > 0

    def sums(self, least: float) -> Array:
        """Return weighted lengths of streamlines in each fixel, and sums of coefficients times lengths, (fixels, 2)."""
        arguments: Arguments = {"least": least, "bits_apart": self._bits_apart}
        words = self._run("sum_up", arguments, "sums", kernels.SUMS * self._fixels)
        low, high = words[:, ::2].view(np.uint32), words[:, 1::2]
        both = low.sum(axis=0, dtype=np.int64) + (high.sum(axis=0, dtype=np.int64) << self._bits_apart)
        return both.reshape(-1, 2) / kernels.FRACTION

    def regularisation(self, least: float) -> tuple[float, float, int]:
        """Return the sums of squared coefficients and of their roughness, and how many are above the least one."""
        words = self._run("tally", {"least": least}, "totals", kernels.TALLIES * kernels.TALLY).view(np.uint32)
        sums = words.reshape(-1, kernels.TALLY).sum(axis=0, dtype=np.int64)
        parts = kernels.TALLY_PARTS
        return float(sums[0] + sums[1] / parts), float(sums[2] + sums[3] / parts), int(sums[4])

    def fetch(self, name: str) -> npt.NDArray[np.float32]:
        """Return a number of each streamline in their order, (n,) float32, 0 where no visits are known.

        Parameters
        ----------
        name : str
            A field of the kernels' ``StreamlineWeights``: 'share'; 'coefficients'; 'after', the coefficients before the
            last step until the next step is known; 'roughness'.
        """
        out = np.zeros(self._count, np.float32)
        for piece in self._pieces:
            bits = self._program.host(piece.values[f"weighed_{name}"], LANES * piece.teams)
            held = piece.order >= 0
            out[piece.order[held]] = bits.view(np.float32)[held]
        return out


def _place(part: VisitList) -> tuple[bool, int]:
    """Return a key by which parts whose visits are in files come first, and those in one array follow each other."""
    words = part.words
    return not isinstance(words, StoredWords), id(words.array) if isinstance(words, DeviceWords) else 0
