"""Options of MRtrix3, DIPY and FSL that users may try, and the option of tistreamlines to use instead.

They are the rows of ``hints.tsv``. The tables of equivalents in the guides are made from these (``docs/generate.py``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from ..errors import ParameterError


@dataclass(frozen=True)
class Hint:
    """Advice for options of other programs.

    Parameters
    ----------
    advice : what to do.
    tckgen, dipy_track, probtrackx2 : the options of each program, without leading dashes, with dashes for underscores.
        Options that tistreamlines has too are not listed, unless they mean something else here.
    """

    advice: str
    tckgen: str = ""
    dipy_track: str = ""
    probtrackx2: str = ""

    def of(self, program: str) -> list[str]:
        """Return the options of a program."""
        return getattr(self, program).split()


_ROWS = Path(__file__).with_suffix(".tsv").read_text(encoding="utf-8").splitlines()[1:]
HINTS = tuple(Hint(*row.split("\t")) for row in _ROWS)
PROGRAMS = ("tckgen", "dipy_track", "probtrackx2")
TRACKS = "--dg"  # an option of the command that tracks alone
ADVICE = {name: hint.advice for hint in HINTS for program in PROGRAMS for name in hint.of(program)}


def refuse_foreign(arguments: Iterable[str], known: Collection[str]) -> None:
    """Raise an error with advice at the first option that belongs to another program.

    Parameters
    ----------
    arguments : iterable of str
        Arguments of the command line.
    known : collection of str
        Options of the command, with their dashes.

    Raises
    ------
    ParameterError
        If an option belongs to another program, or is misspelled, such as ``-max_angle``.
    """
    for argument in arguments:
        if argument == "--":
            return
        option = argument.partition("=")[0]
        name = option.lstrip("-").replace("_", "-").lower()
        if not option.startswith("-") or option in known or len(name) < 2:
            continue
        flag = f"--{name}"
        spelling = f"write {flag}" if flag in known else None
        # advice is about tracking; elsewhere, an option of the command's own is meant
        advice = (ADVICE.get(name) or spelling) if TRACKS in known else (spelling or ADVICE.get(name))
        if advice is not None:
            raise ParameterError(f"{option} is not an option of tistreamlines: {advice}")
