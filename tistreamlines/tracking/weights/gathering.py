"""Visits of streamlines that come in batches, found by other threads once there are enough points."""

from __future__ import annotations

from collections.abc import Callable

from ...space.batch import Batch
from ..products.batch_work import Backlog, thread_count
from .visit_list import VisitList
from .visits import Visitor


class VisitGathering:
    """Finds the visits of streamlines as they come.

    Parameters
    ----------
    visitor : Visitor
        It finds them.
    threads : int, optional
        CPU threads; by default all cores.
    keep : callable
        Takes the visits of some streamlines, in another thread, and returns them, perhaps from another place.

    Attributes
    ----------
    parts : list of VisitList
        Visits of all streamlines, once :meth:`finish` was called.
    count : int
        Streamlines so far.
    """

    def __init__(
        self, visitor: Visitor, threads: int | None, keep: Callable[[VisitList], VisitList] = lambda part: part
    ) -> None:
        self.parts: list[VisitList] = []
        self.count = 0
        workers = thread_count(threads)
        self._backlog = Backlog("visits", workers, max(1, workers - 1), self.parts.extend)
        self._visitor, self._keep = visitor, keep
        self._gathered: list[Batch] = []  # batches that do not make a launch yet

    def add(self, batch: Batch) -> None:
        """Take streamlines; wait if many batches wait for a thread."""
        if len(batch):
            self._gathered.append(batch)
            if self._visitor.are_enough(self._gathered):
                self._hand_over()

    def finish(self) -> None:
        """Wait until all visits are found."""
        if self._gathered:
            self._hand_over()
        self._backlog.wait()
        del self._visitor  # whose memory is not needed any more

    def _hand_over(self) -> None:
        batches, self._gathered = self._gathered, []
        self._backlog.submit(self._find_visits, batches, self.count)
        self.count += sum(map(len, batches))

    def _find_visits(self, batches: list[Batch], first: int) -> list[VisitList]:
        """Return the visits of the streamlines of some batches, of which the first one has this number."""
        return [self._keep(part.renumber(first)) for part in self._visitor.parts(*batches)]
