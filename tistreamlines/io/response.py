"""Reading of a fibre response: MRtrix3's text of zonal harmonics, and DIPY's eigenvalues and b0 signal."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError, ParameterError
from ..option import flag
from .images import existing_path, reading

FEWEST_FIBRES = 25  # least number of voxels with a single fibre from which a response is estimated
WAYS = AUTO, FA, TOURNIER = "auto", "fa", "tournier"  # to estimate a response, instead of a file
FASTEST = 0.1  # mm2/s; water at 40 degrees diffuses at 0.003
SHELL_TOLERANCE = 100  # s/mm2
LARGEST = 1 << 20  # bytes of a file
FORMS = (
    "give MRtrix3's zonal harmonics, of which the first is positive and the second negative, or DIPY's three "
    "eigenvalues in mm2/s, the largest first, and the b0 signal"
)


@dataclass(frozen=True, eq=False)
class ZonalResponse:
    """The response of a fibre along z, with the attributes of DIPY's AxSymShResponse, whose import takes 0.6 s.

    Attributes
    ----------
    S0 : float or None
        The signal without diffusion weighting, if it is known.
    dwi_response : (order / 2 + 1,)
        Orthonormal zonal harmonics of the signal, as in MRtrix3's files.
    """

    S0: float | None
    dwi_response: npt.NDArray[np.float64]


def response_text(value: Any) -> str:
    """Return a response as on the command line: a way, a path, or numbers joined by commas.

    Parameters
    ----------
    value : str, os.PathLike, sequence of numbers, (evals, S0) or dipy.reconst.csdeconv.AxSymShResponse
        A response of DIPY is made flat.

    Raises
    ------
    ParameterError
        If it is anything else.
    """
    if isinstance(value, str | os.PathLike):
        if not os.fspath(value):
            raise ParameterError(f"{flag('response')} is empty: give {', '.join(WAYS)}, a file or numbers")
        return os.fspath(value)
    try:
        numbers = np.hstack(getattr(value, "dwi_response", value)).astype(np.float64)
    except (TypeError, ValueError):
        kind = type(value).__name__
        raise ParameterError(f"{flag('response')} is a {kind}: give {', '.join(WAYS)}, a path or numbers") from None
    return ",".join(repr(float(number)) for number in numbers)


def is_file(text: str | os.PathLike[str] | None) -> bool:
    """Return whether a response is given as a path."""
    return text is not None and os.fspath(text) not in WAYS and _numbers(os.fspath(text)) is None


def identity(text: str | os.PathLike[str] | None) -> object:
    """Return what tells a response apart: its way, or its numbers with their shells.

    Raises
    ------
    InputError
        See :func:`read_response`.
    """
    if text is None or os.fspath(text) in WAYS:
        return text
    table = read_response(text)
    return [table.rows, table.shells]


def _numbers(text: str) -> list[float] | None:
    """Return numbers separated by commas or spaces, or None if that is not what the text has."""
    try:
        return [float(word) for word in re.split(r"[\s,]+", text.strip(" \t,"))]
    except ValueError:
        return None


@dataclass(frozen=True, eq=False)
class ResponseTable:
    """The numbers of a response.

    Attributes
    ----------
    name : the file, or the option.
    rows : the numbers of each shell.
    shells : (n,) s/mm2, the b-value of each row, or empty if it is not known.
    """

    name: str
    rows: tuple[tuple[float, ...], ...]
    shells: tuple[float, ...] = ()

    def of_shell(self, bval: float, order: int) -> tuple[npt.NDArray[np.float64], float] | ZonalResponse:
        """Return the response of a shell.

        Parameters
        ----------
        bval : float, s/mm2
        order : int
            Order of the harmonics that are fitted.

        Returns
        -------
        (evals, S0) or ZonalResponse
            CSD does not need ``S0``, which is None if it is not known.

        Raises
        ------
        InputError
            If no row is that of the shell, or if the numbers are no response, or one of a lower order.
        """
        values = np.array(self.rows[self._row(bval)])
        if self._is_tensor(values):
            return values[:3], float(values[3])
        if len(values) <= order // 2:
            raise InputError(
                f"{self.name}: {len(values)} zonal harmonics are those up to order {2 * len(values) - 2}; give "
                f"{flag('sh_order')} {max(2 * len(values) - 2, 2)}, or a response of order {order}"
            )
        first = self.rows[0]
        unweighted = first[0] / math.sqrt(4 * math.pi) if len(self.rows) > 1 and not any(first[1:]) else None
        return ZonalResponse(unweighted, values[: order // 2 + 1])

    def _row(self, bval: float) -> int:
        """Return which row is that of a shell."""
        if self.shells:
            row = int(np.argmin(np.abs(np.array(self.shells) - bval)))
            if abs(self.shells[row] - bval) > SHELL_TOLERANCE:
                known = ", ".join(f"{shell:g}" for shell in self.shells)
                raise InputError(
                    f"{self.name}: is of b = {known} s/mm2, but the shell that is fitted of {bval:.0f}; give that one's"
                )
            return row
        if len(self.rows) == 1 or (len(self.rows) == 2 and not any(self.rows[0][1:])):
            return len(self.rows) - 1
        raise InputError(
            f"{self.name}: which of the {len(self.rows)} rows is that of b = {bval:.0f} is not known; leave only that "
            "one, or begin the file with a line such as '# Shells: 0,1000'"
        )

    def _is_tensor(self, values: npt.NDArray[np.float64]) -> bool:
        """Return whether a row is DIPY's numbers, and not zonal harmonics."""
        if not np.isfinite(values).all():
            raise InputError(f"{self.name}: has {values[~np.isfinite(values)][0]}; give finite numbers")
        if len(values) > 1 and values[0] > 0 > values[1]:
            return False
        slow = (values > 0).all() and values[:3].max() < FASTEST and values[0] > values[1:3].max(initial=0)
        if slow and len(values) == 3:
            raise InputError(f"{self.name}: has three eigenvalues alone; add the b0 signal as a fourth number")
        if slow and len(values) == 4:
            return True
        raise InputError(f"{self.name}: {' '.join(f'{value:g}' for value in values[:6])} is no response; {FORMS}")


def response_file(rows: npt.NDArray[np.float64], shells: Sequence[float]) -> str:
    """Return the text of a response in MRtrix3's layout: a row of zonal harmonics (shells, degrees) for each shell."""
    lines = [" ".join(f"{number:.15g}" for number in row) for row in rows]
    return "\n".join([f"# Shells: {','.join(f'{shell:.0f}' for shell in shells)}", *lines, ""])


def read_response(source: str | os.PathLike[str]) -> ResponseTable:
    """Read a response.

    Parameters
    ----------
    source : str or os.PathLike
        Numbers separated by commas; or a text file with MRtrix3's zonal harmonics of even degrees, a row for each
        shell, or with DIPY's numbers. Text after a # is a comment; '# Shells: 0,1000' tells the b-values of the rows.

    Raises
    ------
    InputError
        If the file is missing or is no text of numbers.
    """
    if not is_file(source):
        return ResponseTable(flag("response"), (tuple(_numbers(os.fspath(source)) or ()),))
    path = existing_path(source)
    with reading(path):
        if path.stat().st_size > LARGEST:
            raise InputError(f"{path}: is larger than a response; {FORMS}")
        try:
            lines = path.read_text(encoding="utf-8-sig").splitlines()
        except UnicodeDecodeError:
            raise InputError(f"{path}: is no text; {FORMS}") from None
    rows, shells = [], ()
    for number, line in enumerate(lines, 1):
        content, _, comment = line.partition("#")
        if match := re.match(r"\s*shells:(.*)", comment, re.IGNORECASE):
            shells = tuple(_numbers(match[1]) or ())
        row = _numbers(content) if content.strip() else []
        if row is None:
            raise InputError(f"{path}: line {number}, {line[:60]!r}, is not of numbers; remove it or begin it with #")
        rows += [tuple(row)] if row else []
    if not rows:
        raise InputError(f"{path}: has no numbers; {FORMS}")
    if shells and len(shells) != len(rows):
        raise InputError(f"{path}: has {len(rows)} rows for {len(shells)} shells; give one for each")
    return ResponseTable(str(path), tuple(rows), shells)
