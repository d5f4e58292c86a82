"""Writing in a thread of its own, so that computing goes on meanwhile."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from pathlib import Path
from queue import Empty, Full, Queue
from types import TracebackType

from .io import open_writer
from .tractogram import Batch, Space

WAITING = 2  # batches held at most, besides the one being written
POLL_SECONDS = 0.1


class _Abandoned(Exception):
    """Makes the writer remove what it has written."""


class WriterThread:
    """Writes batches to a tractogram in another thread.

    A context manager: the file appears whole at the end of the block, or not at all after an exception in it.  What
    goes wrong in the thread is raised by ``put`` or at the end of the block.

    Parameters
    ----------
    path : name of the file.
    space : grid of the diffusion series.
    force : whether a file of that name may be replaced.
    step_mm : distance between points, for the formats that note it.
    """

    def __init__(
        self, path: str | Path, space: Space, *, force: bool = False, step_mm: float | None = None
    ) -> None:  # fmt: skip
        self.seconds = 0.0
        self._writer = open_writer(path, space, force=force, step_mm=step_mm)
        self._queue: Queue[Batch | None] = Queue(WAITING)
        self._abandoned = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="writer")

    def __enter__(self) -> WriterThread:
        """Start the thread."""
        self._thread.start()
        return self

    def put(self, batch: Batch | None) -> None:
        """Hand over a batch; waits while two others are waiting.  None says that there are no more."""
        while True:
            if self._error is not None:
                raise self._error
            with suppress(Full):
                return self._queue.put(batch, timeout=POLL_SECONDS)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for the file to be whole, or to be gone."""
        try:
            if kind is None:
                self.put(None)
                self._thread.join()
        finally:
            self._abandoned.set()
            self._thread.join()
        if kind is None and self._error is not None:
            raise self._error

    def _work(self) -> None:
        try:
            with self._writer as writer:
                while (batch := self._next()) is not None:
                    begun = time.perf_counter()
                    writer.write(batch)
                    self.seconds += time.perf_counter() - begun
                begun = time.perf_counter()
            self.seconds += time.perf_counter() - begun
        except _Abandoned:
            pass
        except BaseException as error:
            self._error = error

    def _next(self) -> Batch | None:
        while not self._abandoned.is_set():
            with suppress(Empty):
                return self._queue.get(timeout=POLL_SECONDS)
        raise _Abandoned
