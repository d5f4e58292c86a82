"""Versions of the packages that are installed, each of which is read once: that takes a millisecond or two."""

from __future__ import annotations

from functools import cache


@cache
def version_of(package: str) -> str:
    """Return the version of a package, or ``not installed``."""
    from importlib.metadata import PackageNotFoundError, version  # takes a hundredth of a second to import

    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
