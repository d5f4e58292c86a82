"""Writing of tractograms in all formats; a file appears only when it is complete.

A format is a class (a :class:`Sink`) that is created with a folder to work in, the space, an ExitStack that closes its
files, and the details of the run that it may keep.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Protocol

from ..aliases import Unpack
from ..errors import OutputError
from ..space.batch import Batch, Space
from .drafts import hidden_folder
from .regular import may_replace, name_of_user
from .tck import TABLE, TckSink
from .trk import TrkSink
from .trx import Details, TrxSink


class Sink(Protocol):
    """The interface of a tractogram format."""

    STREAMLINE_BYTES: ClassVar[int]  # in the file, besides its points and what is sampled along it
    beside: Path | None  # a table of what is sampled, if that is a file of its own

    def __init__(self, folder: Path, space: Space, files: ExitStack, **details: Unpack[Details]) -> None: ...

    def append(self, batch: Batch) -> None:
        """Append the streamlines of a batch."""
        ...

    def finish(self) -> Path:
        """Complete the file and return its path."""
        ...


SINKS: dict[str, type[Sink]] = {".trx": TrxSink, ".trk": TrkSink, ".tck": TckSink}


class TractogramWriter:
    """Writes batches of streamlines to one file; the suffix determines the format.

    A context manager with ``write(batch)``. The file appears at the end of the ``with`` block; after an exception
    nothing is written and an existing file is unchanged. ``finish()`` does the slow part of the end in advance. Only
    one batch is in memory at a time.

    Parameters
    ----------
    path : str or Path
        Name ending in .trx, .trk or .tck, in an existing folder.
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
        self._sink: Sink | None = None
        self._finished: dict[Path, Path] = {}  # what is written, by the names that it gets
        self._resources = ExitStack()
        self._files = ExitStack()
        if self.path.suffix.lower() not in SINKS:
            raise OutputError(f"{self.path}: unknown suffix {self.path.suffix!r}; end the name with {', '.join(SINKS)}")
        check_target(self.path, force=force)

    def __enter__(self) -> TractogramWriter:
        """Create the hidden folder in which the file is written."""
        with explained(self.path), ExitStack() as resources:
            folder = resources.enter_context(hidden_folder(self._draft))
            self._files = resources.enter_context(ExitStack())
            self._sink = SINKS[self.path.suffix.lower()](folder, self._space, self._files, **self._details)
            self._resources = resources.pop_all()
        return self

    def write(self, batch: Batch) -> None:
        """Append the streamlines of a batch."""
        if self._sink is None:
            raise RuntimeError("write() works only inside the writer's with block")
        if len(batch):
            with explained(self.path):
                self._sink.append(batch)

    def finish(self) -> None:
        """Complete the file, which stays hidden until the end of the block; nothing more can be written."""
        if self._sink is not None:
            with explained(self.path):
                self._finished = {self.path: self._sink.finish()}
                self._files.close()
                if self._sink.beside is not None:
                    self._finished = {table_of(self.path): self._sink.beside} | self._finished
        self._sink = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
                os.replace(draft, path)  # noqa: PTH105  (one atomic call on every system)


def table_of(path: Path) -> Path:
    """Return the name of the table of what is sampled, beside a tractogram that has no room for it."""
    return path.with_name(path.stem + TABLE)


@contextmanager
def completed(path: Path, *, force: bool) -> Generator[Path, None, None]:
    """Hand out the name of a hidden file, which gets the name ``path`` at the end of the block.

    Raises
    ------
    OutputError
        If the file exists and ``force`` is false, or if it cannot be written.
    """
    check_target(path, force=force)
    with explained(path), hidden_folder(path) as folder:
        draft = folder / path.name
        yield draft
        check_target(path, force=force)
        os.replace(draft, path)  # noqa: PTH105  (one atomic call on every system)


@contextmanager
def all_or_none(paths: Iterable[Path]) -> Generator[None, None, None]:
    """Remove those of some files that are new if the block fails, so that none stays that lacks the others."""
    new = [path for path in paths if not path.exists()]
    try:
        yield
    except BaseException:
        for path in new:
            with suppress(OSError):
                path.unlink()
        raise


def check_target(path: Path, *, force: bool) -> None:
    """Raise OutputError unless a file can be written at this path."""
    try:
        if not path.parent.is_dir():
            raise OutputError(f"{path}: no folder {path.parent}; make it first")
        if path.is_dir():
            raise OutputError(f"{path}: is a folder; give the name of a file")
        if path.exists() and not path.is_file():
            raise OutputError(f"{path}: is a pipe or a device, and is not replaced; give the name of a file")
        if path.exists() and not force:
            raise OutputError(f"{path}: exists already; give another name, or --force to replace it")
        if not os.access(path.parent, os.W_OK):
            raise OutputError(f"{path}: no permission to write to folder {path.parent}; choose another")
        if path.exists() and not may_replace(path):
            owner = name_of_user(path.lstat().st_uid)
            raise OutputError(f"{path}: belongs to another user ({owner}), who alone can replace it; give another name")
    except (OSError, ValueError) as error:  # a name that is too long, or has a NUL
        reason = error.strerror if isinstance(error, OSError) else error
        raise OutputError(f"{path}: cannot be written ({reason}); give another name") from error


@contextmanager
def explained(path: Path) -> Generator[None, None, None]:
    """Turn an OSError into an OutputError that names the file."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise OutputError(f"{path}: cannot be written ({reason}); check the free space and the folder") from error
