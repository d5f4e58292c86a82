"""Random seeds that are tried until they lie where they should."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ...errors import InputError

ATTEMPTS = 1000  # at one seed
TOGETHER = 1 << 12  # attempts that are made before it is seen whether they are needed
Found = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int32]


def first_found(
    first: int, count: int, width: int,
    attempt: Callable[[int, Numbers, Numbers], tuple[npt.NDArray[np.floating], npt.NDArray[np.bool_]]],
    whose: str, reason: str,
) -> Found:
    """Return what the first attempt that succeeds finds at each of ``count`` seeds, (count, width) float64.

    Parameters
    ----------
    first, count, width : number of the first seed, of seeds, and of the reals that are found at each.
    attempt : receives ``first``, seeds from 0 on and the numbers of their attempts, (n,) each; returns (n, width), and
        which succeed.
    whose, reason : what a message begins with, and why no attempt at a seed may succeed.

    Raises
    ------
    InputError
        If there is a seed at which none of ATTEMPTS succeeds.
    """
    values, left, done = np.empty((count, width)), np.arange(count, dtype=np.int32), 0
    while len(left) and done < ATTEMPTS:
        several = min(max(TOGETHER // len(left), 1), ATTEMPTS - done)
        attempts = np.arange(done, done + several, dtype=np.int32)
        rows, reached = attempt(first, np.repeat(left, several), np.tile(attempts, len(left)))
        reached = reached.reshape(-1, several)
        values[left] = rows.reshape(-1, several, width)[np.arange(len(left)), reached.argmax(axis=1)]
        left, done = left[~reached.any(axis=1)], done + several
    if len(left):
        raise InputError(f"{whose}: seed {first + left[0]} was not found in {ATTEMPTS} attempts: {reason}")
    return values
