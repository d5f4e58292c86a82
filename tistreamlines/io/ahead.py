"""The content of gzip files: unpacked in one call, and that of a command's series while libraries are imported.

To unpack a series of 0.2 GB takes a core 0.3 s, without Python's lock, which imports hold for 0.6 s. This module
imports little, so it can begin before them.
"""

from __future__ import annotations

import math
import os
import struct
import threading
from collections.abc import Iterable
from contextlib import suppress
from types import ModuleType

UNPACKED = 1 << 22  # bytes that are unpacked at a time, in memory that is used again
GROUP = 1 << 28  # bytes of the volumes of a large image that are unpacked before others
BEYOND = 1 << 24  # bytes that may follow the values, such as the footer of an .mgz
HEADER, DIMENSIONS, BITS, OFFSET = 348, 40, 72, 108  # bytes of NIfTI's header, and where its fields lie
State = tuple[int, int, int, int]  # device, number, size and time of a file
_contents: dict[str, SeriesContent] = {}


def quick_zlib() -> ModuleType:
    """Return isal's zlib, which unpacks twice and sums seven times as fast, or Python's where it is missing."""
    try:
        from isal import isal_zlib as zlib
    except ImportError:
        import zlib
    return zlib


def unpack(packed: bytes, most: int) -> bytes | None:
    """Return up to so many bytes of a gzip file, which is unpacked to its end, where its checksum is.

    It is None if the file is damaged or has several members.
    """
    zlib = quick_zlib()
    stream = zlib.decompressobj(wbits=31)  # of gzip's format
    try:
        content = stream.decompress(packed, most)
        while not stream.eof and stream.decompress(stream.unconsumed_tail, UNPACKED):
            pass
    except zlib.error:
        return None
    return content if stream.eof and not stream.unused_data else None


class SeriesContent(threading.Thread):
    """A thread that unpacks a NIfTI file of a moderate size; of any other file it has no content."""

    def __init__(self, path: str) -> None:
        super().__init__(name="content", daemon=True)
        self._path = path
        self._state: State | None = None
        self._content: bytes | None = None

    def run(self) -> None:
        """Unpack the file; an error is left to the later reader."""
        with suppress(Exception):
            with open(self._path, "rb") as file:  # noqa: PTH123  (pathlib is imported later)
                status, packed = os.fstat(file.fileno()), file.read(UNPACKED)
                size = _size_of(packed)
                if not (0 < size <= GROUP and _has_memory(status.st_size + size + BEYOND)):
                    return
                packed += file.read()
            content = unpack(packed, size + BEYOND)
            if content is not None and len(content) < size + BEYOND:
                self._state, self._content = _state_of(status), content

    def content_of(self, path: str) -> bytes | None:
        """Return the content, unless the file has changed since."""
        self.join()
        with suppress(OSError):
            return self._content if _state_of(os.stat(path)) == self._state else None  # noqa: PTH116
        return None


def unpack_ahead(arguments: Iterable[str]) -> None:
    """Begin to unpack the largest gzipped NIfTI file among the arguments of a command."""
    forget()
    files = [name for name in arguments if name.endswith(".nii.gz") and os.path.isfile(name)]  # noqa: PTH113
    if not files:
        return
    with suppress(OSError, RuntimeError):  # the file is gone, or the system starts no more threads
        content = SeriesContent(path := os.path.realpath(max(files, key=os.path.getsize)))
        content.start()
        _contents[path] = content


def content_ahead(name: str) -> bytes | None:
    """Return the content of a file that was unpacked ahead, once; None if there is none."""
    thread = _contents.pop(path := os.path.realpath(name), None)
    return None if thread is None else thread.content_of(path)


def forget() -> None:
    """Free the content that nothing has read."""
    _contents.clear()


def _state_of(status: os.stat_result) -> State:
    """Return what changes with a file."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _has_memory(count: int) -> bool:
    """Return whether so many bytes are free, as far as is known."""
    from ..devices.host import host_memory

    free = host_memory()[1]
    return free is None or free > count


def _size_of(packed: bytes) -> int:
    """Return how many bytes a NIfTI-1 file has by its header, or 0 if it is none."""
    header = quick_zlib().decompressobj(wbits=31).decompress(packed[:UNPACKED], HEADER)
    for order in "<>":
        if struct.unpack_from(f"{order}i", header)[0] == HEADER:
            count, *sizes = struct.unpack_from(f"{order}8h", header, DIMENSIONS)
            (bits,) = struct.unpack_from(f"{order}h", header, BITS)
            (offset,) = struct.unpack_from(f"{order}f", header, OFFSET)
            return int(offset) + math.prod(sizes[:count]) * bits // 8
    return 0
