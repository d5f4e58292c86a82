"""The content of gzip files, unpacked in one call, and that of a command's series and its hash beside imports.

To unpack a series of 0.2 GB takes a core 0.3 s, and to hash it 0.2 s. Neither needs Python's lock, which imports hold
for 0.6 s. This module imports little, so it can begin before them.
"""

from __future__ import annotations

import hashlib
import math
import os
import struct
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import ModuleType
from typing import IO, Generic, TypeVar

HASHED = 1 << 22  # bytes that are hashed at a time, without Python's lock
ENDINGS = (".nii", ".nii.gz", ".mif", ".mif.gz")  # of a series
UNPACKED = 1 << 22  # bytes that are unpacked at a time, in memory that is used again
GROUP = 1 << 28  # bytes of the volumes of a large image that are unpacked before others
BEYOND = 1 << 24  # bytes that may follow the values, such as the footer of an .mgz
HEADER, DIMENSIONS, BITS, OFFSET = 348, 40, 72, 108  # bytes of NIfTI's header, and where its fields lie
State = tuple[int, int, int, int]  # device, number, size and time of a file
T = TypeVar("T")
_contents: dict[str, FileTask[bytes | None]] = {}
_digests: dict[str, FileTask[str]] = {}


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


def sha256(file: IO[bytes]) -> str:
    """Return the SHA-256 of an open file as 64 hexadecimal digits."""
    digest = hashlib.sha256()
    while block := file.read(HASHED):
        digest.update(block)
    return digest.hexdigest()


class FileTask(threading.Thread, Generic[T]):
    """A thread that computes something of a file; an error is left to who reads the file later."""

    def __init__(self, path: str, compute: Callable[[IO[bytes]], T]) -> None:
        super().__init__(name="ahead", daemon=True)
        self._path, self._compute = path, compute
        self._result: tuple[State, T] | None = None
        with suppress(RuntimeError):  # the system starts no more threads
            self.start()

    def run(self) -> None:
        """Read the file."""
        with suppress(Exception), open(self._path, "rb") as file:  # noqa: PTH123  (pathlib is imported later)
            self._result = _state_of(os.fstat(file.fileno())), self._compute(file)

    def result(self) -> T | None:
        """Wait for the result; return it, unless there is none or the file has changed since."""
        if self.ident is not None:
            self.join()
        with suppress(OSError):
            if self._result is not None and _state_of(os.stat(self._path)) == self._result[0]:  # noqa: PTH116
                return self._result[1]
        return None


def begin(arguments: Iterable[str], *, unpacks: bool) -> None:
    """Begin to hash the largest image among a command's arguments, and to unpack the largest gzipped NIfTI file."""
    _contents.clear()
    _digests.clear()
    images = sorted((name for name in arguments if _image_bytes(name)), key=_image_bytes)
    packed = [name for name in images if name.endswith(".nii.gz")]  # a link of this name may lead to another one
    if images:
        path = os.path.realpath(images[-1])
        _digests[path] = FileTask(path, sha256)
    if packed and unpacks:
        path = os.path.realpath(packed[-1])
        _contents[path] = FileTask(path, _unpacked)


def content_ahead(name: str) -> bytes | None:
    """Return the content of a file that was unpacked ahead, once; None if there is none."""
    thread = _contents.pop(os.path.realpath(name), None)
    return None if thread is None else thread.result()


def digest_ahead(name: str) -> str | None:
    """Return the SHA-256 of a file that was hashed ahead, once; None if there is none."""
    thread = _digests.pop(os.path.realpath(name), None)
    return None if thread is None else thread.result()


def forget_content() -> None:
    """Free the content that nothing has read."""
    _contents.clear()


def _image_bytes(name: str) -> int:
    """Return the size of a file that has the name of an image, or 0."""
    with suppress(OSError, ValueError):
        return os.path.getsize(name) if name.endswith(ENDINGS) and os.path.isfile(name) else 0  # noqa: PTH113, PTH202
    return 0


def _unpacked(file: IO[bytes]) -> bytes | None:
    """Return the content of a gzipped NIfTI file of a moderate size."""
    packed = file.read(UNPACKED)
    size = _size_of(packed)
    if not (0 < size <= GROUP and _has_memory(os.fstat(file.fileno()).st_size + size + BEYOND)):
        return None
    content = unpack(packed + file.read(), size + BEYOND)
    return content if content is not None and len(content) < size + BEYOND else None


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
