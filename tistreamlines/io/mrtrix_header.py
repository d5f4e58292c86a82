"""Reading of the text headers of MRtrix3's images and tracks: lines of keys, up to END."""

from __future__ import annotations

import gzip
import re
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ..errors import InputError

END = re.compile(rb"\nEND\s*\n")
LONGEST = 1 << 24  # bytes of a header; the histories of commands in it may be long
BLOCK = 1 << 16  # bytes


class Values(NamedTuple):
    """The file of the values, and how many bytes are before the first one, once it is unpacked."""

    path: Path
    offset: int


@dataclass(frozen=True)
class Header:
    """The text of a header.

    Parameters
    ----------
    path : Path
        Its file, for messages.
    lines : dict
        The text after each key, once for each of its lines; keys are in lower case.
    size : int
        Bytes of the text.
    end : int
        Byte behind its line END.
    """

    path: Path
    lines: dict[str, list[str]]
    size: int
    end: int

    def value(self, key: str) -> str:
        """Return what the only line of a key says."""
        lines = self.lines.get(key, [])
        if len(lines) != 1:
            raise self.fault(f"the header has {len(lines) or 'no'} lines with {key!r}, where one is needed")
        return lines[0]

    def numbers(self, key: str, line: str) -> list[float]:
        """Return the numbers of a line, which commas or spaces separate."""
        try:
            return [float(word) for word in line.partition("#")[0].replace(",", " ").split()]
        except ValueError:
            raise self.fault(f"{key} is {line[:60]!r}, which are not numbers") from None

    def fault(self, what: str) -> InputError:
        """Return the error that says what is wrong."""
        return InputError(f"{self.path}: {what}; check how the file was created, or create it again")


def read_header(path: Path, magic: bytes) -> Header:
    """Read the lines up to END, which a .mih can do without.

    Parameters
    ----------
    path : Path
        File that exists; it is packed if its name ends with .gz.
    magic : bytes
        Its first line.

    Raises
    ------
    InputError
        If it begins otherwise, or if the header does not end.
    """
    content, unpacked = b"", gzip.open if path.suffix.lower() == ".gz" else Path.open
    with unpacked(path, "rb") as file:
        while not (end := END.search(content)):
            block = file.read(max(BLOCK, len(content)))  # twice as much each time, since all of it is searched again
            content += block
            if not content.startswith(magic):
                raise InputError(f"{path}: begins with {content[:12]!r}, not with {magic!r}; give a file of MRtrix3")
            if not block and path.suffix.lower() == ".mih":
                break
            if not block or len(content) > LONGEST:
                raise InputError(f"{path}: its header has no line END; the file is incomplete, copy or create it again")
    lines: dict[str, list[str]] = {}
    text = content[: end.start()] if end else content
    for line in text.decode("utf-8", "replace").split("\n")[1:]:
        key, colon, words = line.partition(":")
        if colon:
            lines.setdefault(key.strip().lower(), []).append(words.strip())
    return Header(path, lines, len(text), end.end() if end else len(content))


def values_of(header: Header) -> Values:
    """Return where the values are that a header belongs to.

    Raises
    ------
    InputError
        If the header does not say where, or says that they are in itself.
    """
    text = header.value("file")
    name, _, number = text.rpartition(" ")
    name, number = (name.strip(), number) if number.isdecimal() else (text, "0")
    if not name or (name == "." and int(number) < header.size):
        raise header.fault(f"file is {text[:60]!r}, where a name and the place of the first value are needed")
    return Values(header.path if name == "." else header.path.parent / name, int(number))
