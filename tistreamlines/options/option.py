"""What is known of one option, how its value is checked, and how options are spelled."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ParameterError

if TYPE_CHECKING:
    import numpy.typing as npt
    from nibabel.spatialimages import SpatialImage

    PointsLike = str | os.PathLike[str] | npt.NDArray[Any]
    ImageLike = PointsLike | SpatialImage
PathLike = str | Path
LARGEST = (2 - 2.0**-23) * 2.0**127  # number of float32, in which the kernels compute


@dataclass(frozen=True)
class Option:
    """What is known of one option besides its name and default.

    Attributes
    ----------
    group : heading under which the help lists it.
    help : what it does, in a line or two.
    unit : what the value is counted in, or what stands in for it in the help ("FILE").
    choices : all the words it may be, if it is a word; keys of a registry grow with it.
    low, high : bounds, both allowed unless ``above`` says that ``low`` itself is not.
    absent : what happens when it is not given and has no default.
    off : name of the flag that turns a flag off.
    excludes, requires : options that must not, or must, be given with it.
    only : where it applies: by 'model' or 'source' (of the orientations), the words that it goes with.  An option of a
        direction getter or a stopping rule is a field of that one's options class, which says the same of 'dg'.
    """

    group: str
    help: str
    unit: str = ""
    choices: Collection[str] = ()
    low: float = -math.inf
    high: float = math.inf
    above: bool = False
    absent: str = ""
    off: str = ""
    excludes: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    only: Mapping[str, Collection[str]] = field(default_factory=dict)


def option(default: Any, group: str, help: str, **known: Any) -> Any:
    """Make the field of an option."""
    return field(default=default, metadata={"option": Option(group, help, **known)})


def listed(words: Iterable[Any]) -> str:
    """Join alternatives: 'a', 'a or b', 'a, b or c'."""
    *first, last = map(str, words)
    return f"{', '.join(first)} or {last}" if first else last


def flag(name: str) -> str:
    """Spell a parameter as an option: max_angle -> --max-angle."""
    return "--" + name.replace("_", "-")


def checked(name: str, option: Option, value: Any, sort: str) -> Any:
    """Return a value as its kind has it (see :func:`tistreamlines.run.parameters.kind`), or raise."""
    if sort == "word":
        if value not in option.choices:
            raise ParameterError(f"{flag(name)} is {value!r}: give one of {', '.join(option.choices)}")
        return value
    if sort == "flag":
        if not isinstance(value, bool):
            raise ParameterError(f"{flag(name)} is {value!r}: give True or False")
        return value
    if sort in ("int", "float"):
        return _number(name, option, value, sort)
    if sort == "path" and not isinstance(value, str | os.PathLike):
        raise ParameterError(f"{flag(name)} is a {type(value).__name__}: give the path of a file")
    if sort == "path" and not str(value):
        raise ParameterError(f"{flag(name)} is empty: give a path, or leave it out")
    return value


def _number(name: str, option: Option, value: Any, sort: str) -> int | float:
    try:
        number = float(value)
        exact = int(value) if sort == "int" else number
    except (TypeError, ValueError, OverflowError):
        number = exact = math.nan
    if sort == "float" and LARGEST < abs(number) < math.inf:
        raise ParameterError(f"{flag(name)} is {value}: give a number that 32 bits can hold, {LARGEST:.2g} at most")
    if isinstance(value, bool) or not math.isfinite(number) or (sort == "int" and exact != value):
        raise ParameterError(f"{flag(name)} is {value!r}: give a {'whole ' if sort == 'int' else ''}number")
    if exact < option.low or exact > option.high or (option.above and exact == option.low):
        raise ParameterError(f"{flag(name)} is {exact}: give {bounds(option)}")
    return exact


def bounds(option: Option) -> str:
    """Say which numbers an option takes: 'a number from 0 to 1'."""
    low = "" if option.low == -math.inf else f"above {option.low:g}" if option.above else f"from {_plain(option.low)}"
    high = "" if option.high == math.inf else f"to {_plain(option.high)}"
    if option.above and high:
        high = f"up {high}"
    return " ".join(["a number", low or "", high]).strip() + (" on" if low and not high and not option.above else "")


def _plain(bound: float) -> str:
    return str(int(bound)) if float(bound).is_integer() else f"{bound:g}"
