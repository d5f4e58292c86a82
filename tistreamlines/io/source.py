"""The hash of this package's source, which tells results of different code apart where the version does not."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from ..plugins import digests

IDLE = ("cli", "benchmarks", "phantom")  # rooms that compute no streamline


@cache
def source_hash() -> str:
    """Return the SHA-256 of the source that computes, as 64 hexadecimal digits."""
    folder, own = Path(__file__).parents[1], hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        place = path.relative_to(folder)
        if place.parts[0] not in IDLE:
            content = path.read_bytes()
            own.update(f"{place.as_posix()} {len(content)}\n".encode() + content)
    return own.hexdigest()


def with_plugins(own: str) -> str:
    """Return a hash of this package's source, which is given, and of that of the modules that extend it, if any."""
    others = digests()
    return hashlib.sha256(repr((own, others)).encode()).hexdigest() if others else own
