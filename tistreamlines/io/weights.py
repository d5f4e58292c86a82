"""Weights of streamlines in text files, as MRtrix3's tcksift2 writes them."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from .drafts import completed
from .images import existing

AT_ONCE = 100_000  # numbers that are written together
LEAST, GREATEST = 1e-30, 1e30  # maps have float32
FAINT = 1e-12  # part of the sum of all weights; sums round by less


def load_weights(path: str | Path) -> npt.NDArray[np.float64]:
    """Read weights: numbers in the order of the streamlines, apart by spaces, commas or lines; ``#`` begins a comment.

    Returns
    -------
    (n,) float64

    Raises
    ------
    InputError
        If the file is missing, or has something that is no number from 0 to GREATEST; if all numbers are below LEAST,
        but not 0; or if one of them is so great that most others would not count beside it.
    """
    path = existing(path)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as text; give weights of streamlines, as of tcksift2") from error
    words = [word for line in lines for word in _words(line)]
    try:
        values = np.array(words, float)
    except ValueError as error:
        numbers: list[float] = []
        with suppress(ValueError):
            numbers.extend(map(float, words))  # those before the first word that is no number stay
        wrong = len(numbers)
        text = f"{_place(path, lines, wrong)} is {words[wrong]!r}; give weights of streamlines, numbers in text"
        raise InputError(text) from error
    outside = np.flatnonzero(~((values >= 0) & (values <= GREATEST)))
    if len(outside):
        wrong = int(outside[0])
        raise InputError(f"{_place(path, lines, wrong)} is {words[wrong]}; give numbers from 0 to {GREATEST:g}")
    positive = values[values > 0]
    if len(positive):
        greatest = int(values.argmax())
        if values[greatest] < LEAST:
            raise InputError(f"{_place(path, lines, greatest)} is the greatest one, and only {words[greatest]}; give "
                             f"weights above {LEAST:g}")
        if np.median(positive) < FAINT * values.sum():
            raise InputError(f"{_place(path, lines, greatest)} is {words[greatest]}, beside which most others would "
                             "not count: correct or leave out what is so great")
    return values


def faint(path: str | Path, values: npt.NDArray[np.float64]) -> list[str]:
    """Say how many weights are so small beside the sum of all that they hardly count."""
    count = int(np.count_nonzero((values > 0) & (values < FAINT * values.sum())))
    if not count:
        return []
    return [f"{path}: {count:,} of {len(values):,} weights are below {FAINT:g} of the sum of all, and hardly count"]


def _words(line: str) -> list[str]:
    return line.partition("#")[0].replace(",", " ").split()


def _place(path: Path, lines: list[str], number: int) -> str:
    """Say where a weight stands."""
    ends = np.cumsum([len(_words(line)) for line in lines])
    return f"{path}, line {int(np.searchsorted(ends, number, 'right')) + 1}: weight {number + 1:,}"


def write_numbers(path: Path, values: Iterable[float], *, force: bool) -> None:
    """Write numbers, a line each, as precisely as float32 needs."""
    numbers = np.asarray(values, float)
    with completed(path, force=force) as draft, draft.open("w", encoding="ascii", newline="\n") as file:
        for first in range(0, len(numbers), AT_ONCE):
            block = numbers[first : first + AT_ONCE].tolist()
            file.write(("%.10g\n" * len(block)) % tuple(block))  # five times as fast as numpy.savetxt
