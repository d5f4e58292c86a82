"""Unpacking of compressed files: whole, or the volumes of a large image in turn."""

from __future__ import annotations

import math
from collections.abc import Generator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from ..aliases import Array
from ..devices import host_memory
from .ahead import GROUP, UNPACKED, content_ahead, quick_zlib, unpack

GZIPPED = (".gz", ".mgz")
DENSEST, DENSEST_OF_OTHERS = 1033, 1 << 20  # bytes that one of gzip's may unpack to, and one of any other format
PACKED = 1 << 20  # bytes that are read at a time


def bytes_unpacked(name: str, most: int) -> int:
    """Return so many bytes, or as many as a file can unpack to; raise MemoryError if they are more than are free."""
    densest = DENSEST if Path(name).suffix.lower() in GZIPPED else DENSEST_OF_OTHERS
    most, free = min(most, Path(name).stat().st_size * densest + 1), host_memory()[1]
    if free is not None and most > free:
        raise MemoryError
    return most


def content_of(name: str, most: int) -> bytes:
    """Return up to so many bytes of a compressed file, which is unpacked to its end, where its checksum is.

    Raises
    ------
    MemoryError
        If these bytes are more than the memory that is free, and may be there.
    """
    from nibabel.openers import ImageOpener

    if (content := content_ahead(name)) is not None:
        return content[:most]
    most = bytes_unpacked(name, most)
    if (content := unpack(Path(name).read_bytes(), most)) is not None:
        return content
    with ImageOpener(name) as file:  # another format, a gzip file of several parts, or a damage, which this names
        content = file.read(most)
        while file.read(UNPACKED):
            pass
        return content


def volumes_in_turn(
    name: str, shape: tuple[int, int, int, int], kind: np.dtype, offset: int
) -> Generator[Array, None, None]:
    """Unpack the volumes of a gzip file, whose values follow each other from a byte of its content on, x fastest.

    Yields
    ------
    (x, y, z, k)
        Some volumes, in one of two memories by turns.

    Raises
    ------
    EOFError
        If the file is damaged, or has several members.
    """
    size, count = math.prod(shape[:3]) * kind.itemsize, shape[3]
    together = -(-count // -(-size * count // GROUP))
    memories = [np.empty(together * size, np.uint8) for _ in range(2)]
    zlib = quick_zlib()
    stream = zlib.decompressobj(wbits=31)  # of gzip's format
    try:
        with Path(name).open("rb") as file:
            _fill(stream, file, np.empty(offset, np.uint8))
            for number, first in enumerate(range(0, count, together)):
                volumes = min(together, count - first)
                memory = memories[number % 2][: volumes * size]
                _fill(stream, file, memory)
                yield memory.view(kind).reshape(*shape[:3], volumes, order="F")
            while not stream.eof:  # its checksum is at the end
                _unpack(stream, file, UNPACKED)
            if stream.unused_data or file.read(1):
                raise EOFError
    except zlib.error as error:
        raise EOFError from error


def _fill(stream: Any, file: BinaryIO, memory: npt.NDArray[np.uint8]) -> None:
    """Unpack the next bytes into a memory."""
    filled = 0
    while filled < len(memory):
        part = np.frombuffer(_unpack(stream, file, len(memory) - filled), np.uint8)
        memory[filled : filled + len(part)] = part
        filled += len(part)


def _unpack(stream: Any, file: BinaryIO, most: int) -> bytes:
    """Return some of the next bytes, or none; raise EOFError at the end of the file."""
    packed = stream.unconsumed_tail or file.read(PACKED)
    part = stream.decompress(packed, min(most, UNPACKED))
    if not packed and not part:
        raise EOFError
    return part
