"""Lines of numbers as text, made by compiled code without Python's lock.

Two million weights take 0.12 s on two cores, and 0.71 s with Python's ``%``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..backends.numba.cache import Function, text_of

TENS = np.array([float(f"1e{power}") for power in range(23)])
LONGEST = 21  # characters of a number
_write_lines = Function(text_of(Path(__file__).with_name("numbers_kernels.py")), "write_lines")


def lines_of(values: npt.NDArray[np.float64], separator: str, precision: int = 9) -> memoryview | None:
    """Return a line for each row of a matrix: whole rows as whole numbers, others with 9 or 10 digits.

    None if a value is beyond what compiled code writes: one that is not finite, or is extreme.
    """
    text = np.empty(2 * values.size + LONGEST * int((values != 0).sum()) + len(values), np.uint8)
    size = np.zeros(1, np.int64)
    values = np.ascontiguousarray(values)
    _write_lines(values, values.view(np.int64), TENS, precision, ord(separator), text, size)
    return None if size[0] < 0 else text[: size[0]].data
