"""Weights of streamlines in text files, as MRtrix3's tcksift2 writes them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from .images import existing
from .writer import completed

AT_ONCE = 100_000  # numbers that are written together


def load_weights(path: str | Path) -> npt.NDArray[np.float64]:
    """Read weights: numbers in the order of the streamlines, apart by spaces, commas or lines; ``#`` begins a comment.

    Returns
    -------
    (n,) float64

    Raises
    ------
    InputError
        If the file is missing, or has something that is no number from 0 on.
    """
    path = existing(path)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as text; give weights of streamlines, as of tcksift2") from error
    words = [word for line in lines for word in line.partition("#")[0].replace(",", " ").split()]
    try:
        values = np.array(words, float)
    except ValueError as error:
        raise InputError(f"{path}: {error}; give weights of streamlines, numbers in text") from error
    wrong = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
    if len(wrong):
        raise InputError(f"{path}: weight {wrong[0] + 1:,} is {words[wrong[0]]}; give numbers from 0 on")
    return values


def write_numbers(path: Path, values: Iterable[float], *, force: bool) -> None:
    """Write numbers, a line each, as precisely as float32 needs."""
    known = np.asarray(values, float)
    with completed(path, force=force) as draft, draft.open("w", encoding="ascii", newline="\n") as file:
        for first in range(0, len(known), AT_ONCE):
            some = known[first : first + AT_ONCE].tolist()
            file.write(("%.10g\n" * len(some)) % tuple(some))  # five times as fast as numpy.savetxt
