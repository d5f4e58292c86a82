"""Writing of tractograms in all formats; a file appears only when it is complete.

A format is a class (a :class:`Sink`) that is created with a folder to work in, the space, an ExitStack that closes its
files, and the details of the run that it may keep. While tracking goes on, several threads lay batches out as they are
in the file and sum their bytes, and one thread writes them in their order. More threads would not help: Linux lets one
thread write to a file at a time. Through mapped memory, each page costs a fault, and a gigabyte three times as long.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar, Unpack

from ..devices import usable_cores
from ..devices.threads import thread_pool
from ..errors import OutputError
from ..space.batch import Batch, Space
from .drafts import check_target, explained, hidden_folder, place
from .drafts import completed as completed  # plugins import it from here
from .numbers import SUFFIX, NumbersSink
from .tck import TABLE, TckSink
from .trk import TrkSink
from .trx import Details, TrxSink

Block = TypeVar("Block")
WAITING = 7  # batches that are queued or being written at most
MAKERS = 6  # threads at most that make of batches what is written of them
POLL_SECONDS = 0.1


class Sink(Protocol[Block]):
    """The interface of a tractogram format, with its own type of blocks, the bytes of batches."""

    STREAMLINE_BYTES: ClassVar[int]  # in the file, besides its points and what is sampled along it
    beside: Path | None  # a table of sampled values, if that is a separate file

    def __init__(self, folder: Path, space: Space, files: ExitStack, details: Details) -> None: ...

    def lay_out(self, batch: Batch) -> Block:
        """Return a batch as it is in the file; several threads may call this at once."""
        ...

    def append(self, block: Block) -> None:
        """Append the bytes of a batch."""
        ...

    def finish(self) -> Path:
        """Complete the file and return its path."""
        ...


SINKS: dict[str, type[Sink[Any]]] = {".trx": TrxSink, ".trk": TrkSink, ".tck": TckSink, SUFFIX: NumbersSink}


class TractogramWriter:
    """Writes batches of streamlines to one file; the suffix determines the format.

    A context manager with ``write(batch)``. The file appears at the end of the ``with`` block; after an exception
    nothing is written and an existing file is unchanged. ``finish()`` does the slow part of the end in advance. Only
    one batch is in memory at a time.

    Parameters
    ----------
    path : str or Path
        Name ending in .trx, .trk, .tck or .npz, in an existing folder.
    space : Space
        Grid of the diffusion series.
    force : bool
        Replace an existing file.
    drafts : Path, optional
        Folder on the same disk in which the file is written; by default that of the file.
    **details
        See :class:`.trx.Details`.

    Raises
    ------
    OutputError
        If the suffix is unknown, the folder is missing, or the file exists and ``force`` is false.
    """

    def __init__(
        self, path: str | Path, space: Space, *, force: bool = False, drafts: Path | None = None,
        **details: Unpack[Details],
    ) -> None:
        self.path = Path(path)
        self._draft = self.path if drafts is None else drafts / self.path.name
        self._space, self._details = space, details
        self._force = force
        self._sink: Sink[Any] | None = None
        self._finished: dict[Path, Path] = {}  # what is written, by the names that it gets
        self._resources = ExitStack()
        if self.path.suffix.lower() not in SINKS:
            raise OutputError(f"{self.path}: unknown suffix {self.path.suffix!r}; end the name with {', '.join(SINKS)}")
        check_target(self.path, force=force)

    def __enter__(self) -> TractogramWriter:
        """Create the hidden folder in which the file is written."""
        with explained(self.path), ExitStack() as resources:
            folder = resources.enter_context(hidden_folder(self._draft))
            self._sink = SINKS[self.path.suffix.lower()](folder, self._space, resources, self._details)
            self._resources = resources.pop_all()
        return self

    def write(self, batch: Batch) -> None:
        """Append the streamlines of a batch."""
        self.append(self.lay_out(batch))

    def lay_out(self, batch: Batch) -> object:
        """Return the block of a batch, for :meth:`append`; several threads may call this at once."""
        return self._opened.lay_out(batch) if len(batch) else None

    def append(self, block: object) -> None:
        """Append a block of :meth:`lay_out`."""
        if block is not None:
            with explained(self.path):
                self._opened.append(block)

    @property
    def _opened(self) -> Sink[Any]:
        if self._sink is None:
            raise RuntimeError("write() works only inside the writer's with block")
        return self._sink

    def finish(self) -> None:
        """Complete the file, which stays hidden until the end of the block; nothing more can be written."""
        if self._sink is not None:
            with explained(self.path):
                self._finished = {self.path: self._sink.finish()}
                if self._sink.beside is not None:
                    self._finished = {table_of(self.path): self._sink.beside} | self._finished
        self._sink = None

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Move the complete file into place, or remove it after an exception."""
        if kind is not None:
            self._sink = None
            # A full disk, on which files cannot be flushed, must not hide the first error.
            with suppress(OSError):
                self._resources.close()
            return
        with explained(self.path), self._resources:
            self.finish()
            for path in self._finished:
                check_target(path, force=self._force)
            for path, draft in self._finished.items():
                place(draft, path, force=self._force)


def table_of(path: Path) -> Path:
    """Return the name of the table of sampled values, beside a tractogram that has no room for it."""
    return path.with_name(path.stem + TABLE)


class WriterThread:
    """Writes batches to a tractogram in other threads.

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
        self._thread = ThreadPoolExecutor(1, "writer")
        self._tasks: deque[Future[Any]] = deque()  # those whose errors have not been looked for

    def __enter__(self) -> WriterThread:
        """Start the thread."""
        self._opened = self._thread.submit(self._writer.__enter__)
        self._tasks.append(self._opened)
        return self

    def put(self, batch: Batch) -> None:
        """Queue a batch; wait if too many others are queued."""
        block = thread_pool("content", min(MAKERS, usable_cores())).submit(self._lay_out, batch)
        self._submit(lambda: self._writer.append(block.result()), WAITING)

    def _lay_out(self, batch: Batch) -> object:
        """Return the block of the contents of a batch."""
        writer = self._opened.result()
        return writer.lay_out(batch if self._content is None else self._content(batch))

    def finish(self) -> None:
        """Wait until the file is complete under its hidden name; the end of the block only renames it."""
        self._submit(self._writer.finish, 0)

    def _submit(self, task: Callable[[], object], most: int) -> None:
        """Hand a task to the thread, wait until at most so many are left, and raise the errors of the others."""
        self._tasks.append(self._thread.submit(task))
        while self._tasks and (len(self._tasks) > most or self._tasks[0].done()):
            _wait(self._tasks[0])
            self._tasks.popleft()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Wait until the file is renamed, or removed after an error."""
        try:
            if kind is None:
                self.finish()
        except BaseException as failure:
            kind = type(failure)
            raise
        finally:
            for task in self._tasks:
                task.cancel()
            self._tasks.clear()
            with self._thread:
                _wait(self._thread.submit(self._writer.__exit__, kind))


def _wait(task: Future[object]) -> None:
    """Wait for a task, and raise its error."""
    # with a timeout, since a signal that arrives just before a wait begins is handled only after the wait
    while not task.done():
        wait((task,), POLL_SECONDS)
    task.result()
