"""Dynamic seeding: seeds in fixels whose streamlines so far are less dense than fibres (Smith et al. 2015).

Seeds come in rounds. The densities of streamlines and of fibres are compared in each fixel, which gets another
probability for a later round; MRtrix3's ``tckgen -seed_dynamic`` compares them all the time. With rounds, seeds do not
depend on the device, nor on how many streamlines grow at a time. A round follows from the streamlines of all rounds but
the last ones: while it is drawn, these grow, or the lengths of their streamlines in fixels are found.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from dataclasses import dataclass, field, replace
from functools import cached_property
from threading import Lock

import numpy as np
import numpy.typing as npt

from ...aliases import Array
from ...devices import choose
from ...devices.threads import reader, thread_pool
from ...io.images import AnyPath, Tell
from ...space.batch import Batch, Space
from ..products.batch_work import thread_count
from ..seeding.interface import Segmentation, load_segmentation
from ..seeding.more_seeds import cells_around
from ..seeding.seeds import Coding, Draw, DrawnSeeds, corners_of
from ..stopping.segmentation import TissueFiles
from .comparison import Comparison
from .fixel_draw import FixelDraw
from .fixels import FixelRules, Fixels, fixels_of, inside_of
from .fods import Fods, option_fods
from .visit_list import VisitList
from .visits import Visitor

SHARE = 40  # a round has at least one seed for so many before it,
SHARE_OF_ALL = 100  # and by default for so many wanted streamlines
FEWEST = 50  # seeds of a round by default
BEGUN = 4  # rounds at a time: one grows, the lengths of two are found, one is drawn, so that no device waits
Rows = tuple[Array, Array]


@dataclass(eq=False)
class _Round:
    """A round of seeds and its streamlines so far.

    Parameters
    ----------
    first : number of the first seed.
    units : length of the streamlines in each fixel, (fixels,) int64, once the ``work`` that adds to it is done.

    Attributes
    ----------
    streamlines : how many there are.
    probabilities : those of fixels, with which its seeds are drawn.
    seeds : their points and directions, (n, 3) each.
    """

    first: int
    units: Array
    streamlines: int = 0
    work: list[Future[None]] = field(default_factory=list)
    adding: Lock = field(default_factory=Lock)
    probabilities: Array = field(init=False)
    seeds: Future[Rows] = field(init=False)


@dataclass(eq=False)
class DynamicSeeds(DrawnSeeds):
    """Random seeds in fixels, by how much the density of their streamlines so far is less than that of fibres.

    A seed lies anywhere in the voxel of its fixel. With five tissues, it is tried again in fluid, and grey matter leads
    it to the interface, as in MRtrix3.

    Parameters
    ----------
    fod, basis : image of FODs, and the basis of its harmonics.
    tissues : five-tissue-type image of the stopping rule, or None.
    space : grid of the image that is tracked.
    step_mm : distance of the points of a streamline.
    every : which of them make its curve, see :class:`.visits.Visitor`.
    arch : device on which fixels and visits are found.
    draw : how many there are at most, and their random numbers.
    target : streamlines that are wanted, or None.
    fewest : seeds of a round, at least; 0 for a part of the streamlines that are wanted, or else of the seeds.

    Attributes
    ----------
    doubts : what looks wrong with the images, once the fixels are found.
    """

    fod: AnyPath
    basis: str | None
    tissues: AnyPath | TissueFiles | None
    space: Space
    step_mm: float
    every: int
    arch: str
    draw: Draw
    target: int | None
    fewest: int
    either_sense = True  # a fixel has no sense

    def __post_init__(self) -> None:
        self.doubts: list[str] = []
        self._followed: Fods | None = None
        self._rounds: list[_Round] = []  # those whose streamlines come, or will
        self._batches: list[Batch] = []  # batches of a round that do not make a launch yet
        self._passed = 0  # streamlines before these
        self._tracked = 0  # seeds that an earlier process has tracked, which are not drawn again
        self._work: deque[Future[None]] = deque()  # of threads that find lengths
        self._keep: Callable[[VisitList], object] | None = None
        self._codes: Coding | None = None
        self._segmentation: Future[Segmentation] | None = None

    def follow(self, followed: object) -> None:
        """Take what streamlines follow, :class:`.fods.Fods` or None."""
        assert followed is None or isinstance(followed, Fods)
        self._followed = followed

    def code_with(self, codes: Coding) -> None:
        """Have the thread that draws rounds find the codes of directions."""
        self._codes = codes

    def _fods(self, note: Tell | None = None) -> Fods:
        return option_fods(self.fod, self.basis, self._followed, "--seed-dynamic", note)

    @cached_property
    def _comparison(self) -> Comparison:
        self.prepare(lambda _: None)
        return self._comparison

    def prepare(self, progress: Callable[[float], object]) -> None:
        """Find the fixels; meanwhile, a thread reads the tissues, whose errors occur when seeds are drawn."""
        fods, device, note = self._fods(self.doubts.append), choose(self.arch), self.doubts.append
        if self.tissues is not None:  # which the first seeds need
            self._segmentation = reader("tissues of seeds").submit(load_segmentation, self.tissues)
        fixels = fixels_of(fods, device, self.draw.threads, note, FixelRules(self.tissues), progress)
        fixels.check_overlap(self.space, str(self.fod))
        self._comparison = Comparison(fixels, self.target, self.draw.threads)

    @cached_property
    def _visitor(self) -> Visitor:
        fixels = self._comparison.fixels
        visitor = Visitor(fixels.table, self.step_mm, choose(self.arch), self.draw.threads, self.every)
        self._comparison.fixels = replace(fixels, table=fixels.table.without_lobes())
        return visitor

    @cached_property
    def _fixel_draw(self) -> FixelDraw:
        fixels = self._comparison.fixels
        fixels, tissues = replace(fixels, table=fixels.table.without_lobes()), self._segmentation
        return FixelDraw(fixels, str(self.fod), None if tissues is None else tissues.result(), self.space, self.draw)

    @property
    def directed(self) -> bool:
        """Each seed has the direction of its fixel."""
        return True

    def round_from(self, first: int) -> int:
        """Return the size of a round, which grows with the seeds before it."""
        fewest = self.fewest or max((self.target or self.count) // SHARE_OF_ALL, FEWEST)
        return max(fewest, first // SHARE)

    def whole_rounds(self, first: int, count: int) -> int:
        """Return how many seeds the rounds from number ``first`` on have that are at least ``count`` together."""
        stop = first
        while stop < first + count:
            stop += self.round_from(stop)
        return stop - first

    def advance(self, first: int, seeds: int) -> bool:
        """Begin rounds as streamlines come; return whether the one from number ``first`` on has begun."""
        if not self._rounds:  # nothing is known for the first ones
            for _ in range(BEGUN):
                self._rounds.append(self._begin(self._next_first()))
            _ = self._visitor  # which threads share
        self._go_on(seeds)
        return any(seed_round.first == first for seed_round in self._rounds)

    def is_drawn(self, first: int) -> bool:
        """Whether the seeds of the round from number ``first`` on are there."""
        return all(seed_round.seeds.done() for seed_round in self._rounds if seed_round.first == first)

    def restore(self, batches: Iterable[Batch], first: int, count: int) -> None:
        """Take the streamlines of rounds into account that an earlier process has tracked."""
        self._tracked = first + count
        self.advance(first, first)
        for batch in batches:
            while len(batch):
                self._go_on(number := int(batch.seed_number[0]))
                end = int(np.searchsorted(batch.seed_number, self._rounds[1].first))
                self.heed(batch[:end], number)
                batch = batch[end:]
        self._go_on(self._tracked)

    def heed(self, batch: Batch, seeds: int) -> None:
        """Take streamlines into account, whose lengths other threads find; those of the first ``seeds`` have come."""
        if len(batch):
            seed_round = self._round_of(batch)
            if self._batches and (before := self._round_of(self._batches[-1])) is not seed_round:
                self._hand_over(before)
            self._gather(batch, seed_round)
        self._go_on(seeds)

    def _round_of(self, batch: Batch) -> _Round:
        """Return the round of a batch's seeds."""
        return [seed_round for seed_round in self._rounds if batch.seed_number[0] >= seed_round.first][-1]

    def _next_first(self) -> int:
        """Return the number of the first seed after the rounds that have begun."""
        if not self._rounds:
            return 0
        first = self._rounds[-1].first
        return first + self.round_from(first)

    def _go_on(self, seeds: int) -> None:
        """Begin rounds while all streamlines of the first of those here are among those of so many seeds."""
        while seeds >= self._rounds[1].first:
            self._hand_over(self._rounds[0])
            self._rounds = [*self._rounds[1:], self._begin(self._next_first(), self._rounds[0])]

    def _gather(self, batch: Batch, seed_round: _Round) -> None:
        """Add a batch of a round to those whose lengths are found together."""
        self._batches.append(batch)
        seed_round.streamlines += len(batch)
        if self._visitor.are_enough(self._batches):
            self._hand_over(seed_round)

    def _hand_over(self, seed_round: _Round) -> None:
        """Have a thread find the lengths of the batches of a round that were gathered."""
        if not self._batches:
            return
        workers = thread_count(self.draw.threads)
        if len(self._work) > workers:  # which bounds the memory of batches
            self._work.popleft().result()
        work = thread_pool("dynamic", workers).submit(self._add_lengths, self._batches, self._passed, seed_round)
        seed_round.work.append(work)
        self._work.append(work)
        self._passed += sum(map(len, self._batches))
        self._batches = []

    def _add_lengths(self, batches: list[Batch], first: int, seed_round: _Round) -> None:
        """Find the lengths of streamlines from number ``first`` on."""
        keep = self._keep
        lengths = self._visitor.lengths(*batches, keep=keep and (lambda part: keep(part.renumber(first))))
        with seed_round.adding:
            seed_round.units += lengths

    def give_visits(self, fixels: Fixels, keep: Callable[[VisitList], object]) -> Visitor | None:
        """Have ``keep`` receive the visits of all streamlines, if they are of these fixels; return what finds them.

        Several threads call ``keep``.
        """
        if fixels is not self._comparison.fixels:
            return None
        self._keep = keep
        return self._visitor

    def finish(self) -> None:
        """Wait until the visits of all streamlines are found; no more seeds are drawn."""
        if self._batches:
            self._hand_over(self._round_of(self._batches[-1]))
        for work in self._work:
            work.result()
        drawing = [seed_round.seeds for seed_round in self._rounds if not seed_round.seeds.cancel()]
        wait(drawing)
        del self._visitor, self._comparison, self._fixel_draw  # whose memory is not needed any more
        self._codes = self._segmentation = None

    def _begin(self, first: int, earlier: _Round | None = None) -> _Round:
        """Have a thread draw a round, after a comparison of the streamlines of another one."""
        seed_round = _Round(first, np.zeros(self._comparison.fixels.table.count, np.int64))
        seed_round.seeds = thread_pool("rounds", 1).submit(self._draw_round, seed_round, earlier)
        return seed_round

    def _draw_round(self, seed_round: _Round, earlier: _Round | None) -> Rows:
        """Return points and directions of the seeds of a round."""
        if earlier is not None:
            for work in earlier.work:
                work.result()
            self._comparison.add(earlier.units, earlier.streamlines, earlier.probabilities)
            self._comparison.compare()
        seed_round.probabilities = self._comparison.probabilities
        first, count = seed_round.first, self.round_from(seed_round.first)
        return self._coded(first, 0 if first + count <= self._tracked else count)

    def points(self, first: int, count: int) -> Array:
        """Return seeds of a round from number ``first`` on; raise InputError if one is not found."""
        return self._rows(first, count)[0][:count]

    def directions(self, first: int, count: int) -> Array:
        """Return the directions of their fixels, or the codes of these."""
        return self._rows(first, count)[1][:count]

    def _rows(self, first: int, count: int) -> Rows:
        """Return points and directions of seeds, at least so many, those of a round as they were drawn."""
        for seed_round in self._rounds:
            if seed_round.first == first and count <= self.round_from(first):
                return seed_round.seeds.result()
        return self._coded(first, count)

    def sample(self, numbers: npt.NDArray[np.int64]) -> Rows:
        """Return seeds and directions of the first round."""
        return self._draw(int(numbers[0]), len(numbers))

    def reach(self) -> npt.NDArray[np.float64]:
        """Return eight points in each voxel with an FOD, or points between voxels of the tracked image around them."""
        inside, space = inside_of(self._fods())
        corners = corners_of(np.argwhere(inside).astype(np.int32))
        if np.array_equal(space.affine, self.space.affine):
            return corners
        return cells_around(self.space.to_voxel(space.to_ras(corners)), self.space)

    def _coded(self, first: int, count: int) -> Rows:
        """Draw seeds; return points and codes, or directions as long as nothing finds those."""
        seeds, along = self._draw(first, count)
        if self._codes is None:
            return seeds, along
        points = seeds.astype(np.float32)
        return points, self._codes(points, first, along)

    def _draw(self, first: int, count: int) -> Rows:
        """Draw seeds by the probabilities of the fixels now; return points and directions, (n, 3) each."""
        return self._fixel_draw.seeds(self._comparison.probabilities, first, self.within(first, count))
