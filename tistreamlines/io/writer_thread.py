"""Writing of a tractogram in a separate thread, so that tracking goes on meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from queue import Empty, Full, Queue
from types import TracebackType

from ..aliases import Unpack
from ..devices.threads import thread_pool
from ..space.batch import Batch, Space
from .trx import Details
from .writer import TractogramWriter

WAITING = 6  # batches in the queue at most, besides the one being written
MAKERS = 6  # threads that make of batches what is written of them
POLL_SECONDS = 0.1


class _Abandoned(Exception):
    """Ends the thread; the writer then removes what it has written."""


class WriterThread:
    """Writes batches to a tractogram in another thread.

    Use it in a ``with`` block. The complete file appears at the end of the block; after an exception in the block there
    is no file. Errors of the thread are raised by ``put``, by ``finish`` or at the end of the block.

    Parameters
    ----------
    path : the tractogram.
    space : grid of the image that is tracked.
    force : whether an existing file may be replaced.
    drafts : folder in which the file is written until it is complete.
    content : makes of each batch what is written of it.
    **details : see :class:`.trx.Details`.
    """

    def __init__(
        self, path: str | Path, space: Space, *, force: bool = False, drafts: Path | None = None,
        content: Callable[[Batch], Batch] | None = None, **details: Unpack[Details],
    ) -> None:
        self._content = content
        self._writer = TractogramWriter(path, space, force=force, drafts=drafts, **details)
        self._queue: Queue[Batch | Future[Batch] | None] = Queue(WAITING)
        self._abandoned, self._finished, self._ended = threading.Event(), threading.Event(), threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="writer")

    def __enter__(self) -> WriterThread:
        """Start the thread."""
        self._thread.start()
        return self

    def put(self, batch: Batch) -> None:
        """Queue a batch; wait if WAITING others are queued."""
        self._hand_over(batch if self._content is None else thread_pool("content", MAKERS).submit(self._content, batch))

    def finish(self) -> None:
        """Wait until the file is complete under its hidden name; the end of the block only renames it."""
        if not self._finished.is_set():
            self._hand_over(None)
            _wait(self._finished)
        if self._error is not None:
            raise self._error

    def _hand_over(self, batch: Batch | Future[Batch] | None) -> None:
        """Queue a batch; a first None completes the file, a second renames it."""
        while True:
            if self._error is not None:
                raise self._error
            with suppress(Full):
                return self._queue.put(batch, timeout=POLL_SECONDS)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait until the file is renamed, or removed after an error."""
        try:
            if kind is None:
                self.finish()
                self._hand_over(None)
                _wait(self._ended)
        finally:
            self._abandoned.set()
            # until Python 3.13, join takes the thread for ended if a signal interrupts it
            _wait(self._ended)
            self._thread.join()
        if kind is None and self._error is not None:
            raise self._error

    def _work(self) -> None:
        try:
            with self._writer as writer:
                while (batch := self._next()) is not None:
                    writer.write(batch if isinstance(batch, Batch) else batch.result())
                writer.finish()
                self._finished.set()
                self._next()
        except _Abandoned:
            pass
        except BaseException as error:
            self._error = error
        finally:
            self._finished.set()
            self._ended.set()

    def _next(self) -> Batch | Future[Batch] | None:
        while not self._abandoned.is_set():
            with suppress(Empty):
                return self._queue.get(timeout=POLL_SECONDS)
        raise _Abandoned


def _wait(event: threading.Event) -> None:
    # with a timeout, since a signal that arrives just before a wait begins is handled only after the wait
    while not event.wait(POLL_SECONDS):
        pass
