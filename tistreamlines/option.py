"""The definition of an option, the check of its value, and its name on the command line.

Classes of options and of parts (:mod:`.linker.parts`) have no ``repr`` and no ``eq``: to make these methods takes 10 ms
of each command.
"""

from __future__ import annotations

import math
import numbers
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, SupportsFloat, SupportsInt, TypeAlias, TypeVar

from .aliases import Array, SpatialImage
from .errors import ParameterError, listed

Value = TypeVar("Value")
OneOrMore = Value | Sequence[Value]  # of an option that can be given several times; Parameters holds a tuple
PathLike = str | Path
TableLike = PathLike  # of an input that is no image
PointsLike = str | os.PathLike[str] | Array | Sequence[object]
ImageLike: TypeAlias = "str | os.PathLike[str] | Array | SpatialImage"
BallLike = str | Sequence[float]  # x, y, z and a radius
# headings of the help, in its order
GROUPS = SEEDS, MODEL, FILES, GROWTH, REGIONS, OUTPUT, RUNNING = (
    "Seeds and region", "Model and directions", "Orientations from a file, instead of a model", "Growth",
    "Regions of interest and selection", "Output", "Running",
)
FARTHEST = 1e6  # mm; voxel coordinates of farther points might overflow 32 bits
ZEROS = {"": 0, "k": 3, "m": 6, "b": 9}  # of a thousand, a million and a billion
LONGEST = 40  # characters of a whole number
LARGEST = (2 - 2.0**-23) * 2.0**127  # the largest float32, the type with which the kernels compute


@dataclass(frozen=True)
class Option:
    """The definition of an option except for its name and default.

    Attributes
    ----------
    group : str
        Heading under which the help lists the option.
    help : str
        Description in one or two sentences.
    unit : str
        Unit of the value, or its placeholder in the help, e.g. "FILE".
    choices : collection of str
        Allowed words, if the value is a word. The keys of a registry include rows that are added later.
    unlisted : collection of str
        Words that are allowed, too, for developers: neither the help nor messages list them.
    low, high : float
        Bounds of a number.
    above : bool
        Whether the value must be above ``low``, not at it.
    absent : str
        The effect if the option has no default and the user does not give it.
    off : str
        Name of the flag that turns a flag off.
    excludes, requires : tuple of str
        Options that must not, or must, be given together with this one.
    needs_one : tuple of str
        Options of which at least one must be given together with this one.
    only : mapping
        Values of 'model' or 'source' (of the orientations) with which the option has an effect; empty for all. Which
        direction getters and stopping rules have an option follows from their options classes.
    one_of : str
        The meaning of the option, if other options express the same: the user can give only one of them.
    words : tuple of str
        Words that stand in the place of a file: what the option names is made in the run.
    foreign : mapping
        Advice for values that other programs know, by the value in small letters without '-' and '_'; of '', instead of
        any other value that is none of the option's own.
    otherwise : object
        Default where neither the direction getter's row nor the model's has one. The field's own default is None then.
    affects : str
        The reach of a change of the option: 'tables' (made again), 'growth' (seeds, growth or selection, with the same
        tables), 'run' (no streamline, but device, speed and files), or only the 'defaults' of other options.
    common : bool
        Whether ``track --help`` shows the option; ``--help-all`` shows all.
    """

    group: str
    help: str
    unit: str = ""
    choices: Collection[str] = ()
    unlisted: Collection[str] = ()
    low: float = -math.inf
    high: float = math.inf
    above: bool = False
    absent: str = ""
    off: str = ""
    excludes: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    needs_one: tuple[str, ...] = ()
    only: Mapping[str, Collection[str]] = field(default_factory=dict)
    one_of: str = ""
    words: tuple[str, ...] = ()
    foreign: Mapping[str, str] = field(default_factory=dict)
    otherwise: object = None
    affects: Literal["tables", "growth", "run", "defaults"] = "tables"  # at worst, tables are made anew
    common: bool = False


def option(default: object, group: str, help: str, **known: Any) -> Any:
    """Return a dataclass field with the default and the definition of an option."""
    return field(default=default, metadata={"option": Option(group, help, **known)})


def values_of(option: OneOrMore[Value] | None) -> tuple[Value, ...]:
    """Return the values of an option that can be given several times, as Parameters holds it; none by default."""
    assert option is None or isinstance(option, tuple)
    return option or ()


def file_of(image: ImageLike) -> str | os.PathLike[str]:
    """Return an image of an option, which Parameters has made path-like."""
    assert isinstance(image, str | os.PathLike)
    return image


def pairs_of(option: OneOrMore[tuple[ImageLike, PathLike]] | None) -> list[tuple[str | os.PathLike[str], Path]]:
    """Return the images and the output files of an option of pairs, as Parameters holds it; none if it is not given."""
    pairs: tuple[tuple[ImageLike, PathLike], ...] = values_of(option)
    return [(file_of(image), Path(path)) for image, path in pairs]


def of_each(first: str, count: int, second: str, values: tuple[Value, ...], what: str) -> tuple[Value | None, ...]:
    """Return the value of option ``second`` that belongs to each of ``count`` values of option ``first``, or None.

    One value belongs to all of them. ``what`` names a value and those of ``first``, for the error.
    """
    if len(values) <= 1:
        return (values or (None,)) * count
    if len(values) != count:
        raise ParameterError(f"{flag(second)} is there {len(values)} times, {flag(first)} {count} times: give {what}, "
                             "or one for each")
    return values


def flag(name: str) -> str:
    """Return the name of an option on the command line: max_angle -> --max-angle."""
    return "--" + name.replace("_", "-")


def companions(fact: str, words: Collection[str]) -> str:
    """Write options with their values as on the command line: '--dg prob or det', '--odf or --pmf'."""
    return listed(map(flag, words)) if fact == "source" else f"{flag(fact)} {listed(words)}"


def check_value(name: str, option: Option, value: object, sort: str) -> object:
    """Check the value of an option.

    Parameters
    ----------
    name : str
        Python name of the option.
    option : Option
        Its definition.
    value : object
        The value.
    sort : str
        Type of the option, see :func:`tistreamlines.options.definitions.kind`.

    Returns
    -------
    object
        The value, converted to int or float if it is a number, and to a tuple if the option can be given several times.

    Raises
    ------
    ParameterError
        If the value has the wrong type or is out of bounds.
    """
    if sort in ("int", "float"):
        return _number(name, option, value, sort)
    if sort == "word":
        return _word(name, option, value)
    if sort == "flag" and not isinstance(value, bool):
        raise ParameterError(f"{flag(name)} is {value!r}: give True or False")
    if isinstance(value, tuple) and sort in ("list", "pairs"):
        if not value:
            raise ParameterError(f"{flag(name)} is an empty list: give {option.unit}, or leave it out")
        return _checked_list(name, option, value) if sort == "list" else _checked_pairs(name, option, value)
    if sort == "path" and not isinstance(value, str | os.PathLike):
        raise ParameterError(f"{flag(name)} is a {type(value).__name__}: give the path of a file")
    if sort == "path" and not str(value):
        raise ParameterError(f"{flag(name)} is empty: give a path, or leave it out")
    return value


def _fold(word: str) -> str:
    """Return a word in small letters and without '-' and '_', in which programs differ."""
    return word.casefold().replace("-", "").replace("_", "")


def _word(name: str, option: Option, value: object) -> str:
    """Return a word as it is spelled here; words of other programs get advice."""
    if isinstance(value, str):
        words = (*option.choices, *option.unlisted)
        alike = [word for word in words if value == word or _fold(value) == _fold(word)]
        if value in alike or len(alike) == 1:
            return value if value in alike else alike[0]
        if advice := option.foreign.get(_fold(value)):
            raise ParameterError(f"{flag(name)} has no {value!r}: {advice}")
    raise ParameterError(f"{flag(name)} is {value!r}: give one of {', '.join(option.choices)}")


def whole(text: str) -> int | None:
    """Return the whole number that a text means, such as '5000', '5k', '1.5M', '2B' or '1e6'; None if it means none.

    Parameters
    ----------
    text : str
        A number, perhaps with k, M or B for thousands, millions or billions, in letters of either size, as MRtrix3
        reads them.
    """
    pattern = r"([+-]?[0-9][0-9_]*)(?:\.([0-9]*))?(?:e([+-]?[0-9]{1,2}))?\s*([kmb]?)"
    match = re.fullmatch(pattern, text.strip().lower())
    if match is None or len(text) > LONGEST:
        return None
    decimals = match[2] or ""
    digits, zeros = int(match[1] + decimals), int(match[3] or 0) + ZEROS[match[4]] - len(decimals)
    number, rest = divmod(digits * 10 ** max(zeros, 0), 10 ** max(-zeros, 0))
    return None if rest else number


def several(value: object) -> tuple[object, ...]:
    """Return the values of an option that can be given several times, of which Python callers may give one or many.

    Parameters
    ----------
    value : object
        One value, or a list or tuple of values. A list, tuple or one-dimensional array of numbers is one value, such as
        x, y, z and a radius.

    Returns
    -------
    tuple
        The values. Numbers are joined with commas, as on the command line.
    """
    if isinstance(value, list | tuple) and not _are_numbers(value):
        return tuple(map(_join, value))
    return (_join(value),)


def pairs(value: object) -> tuple[object, ...]:
    """Return the pairs of an option, of which Python callers may give one or many."""
    if isinstance(value, list | tuple) and any(isinstance(item, list | tuple) for item in value):
        return tuple(value)
    return (value,)


def ball_of(name: str, text: object) -> tuple[float, float, float, float]:
    """Return the centre and the radius of a ball, mm, from text such as '10,-20.5,3,5'.

    Parameters
    ----------
    name : str
        Python name of the option.
    text : str
        x,y,z,r in RASmm.

    Raises
    ------
    ParameterError
        If the text is anything else than four numbers, or the radius not above 0.
    """
    try:
        x, y, z, radius = map(float, str(text).split(","))
    except ValueError:
        x = y = z = radius = math.nan
    if not (radius > 0 and all(abs(number) <= FARTHEST for number in (x, y, z, radius))):
        raise ParameterError(
            f"{flag(name)} is {str(text)!r}: give x,y,z,r in RASmm, four numbers with a radius above 0, at most "
            f"{FARTHEST:g}"
        )
    return x, y, z, radius


def part_of(text: object) -> tuple[int, int]:
    """Return K and N of text such as '3/8', which stands for the third of eight parts.

    Parameters
    ----------
    text : str
        K/N.

    Raises
    ------
    ParameterError
        If the text is anything else than two whole numbers, or K not one of 1 to N.
    """
    match = re.fullmatch(r"(\d{1,9})/(\d{1,9})", str(text))
    number, count = map(int, match.groups()) if match else (0, 0)
    if not 1 <= number <= count:
        raise ParameterError(f"--part is {str(text)!r}: give K/N, the K-th of N parts, e.g. 1/8")
    return number, count


def _join(value: object) -> object:
    flat = isinstance(value, list | tuple) or getattr(value, "ndim", 0) == 1
    if not (flat and isinstance(value, Collection) and _are_numbers(value)):
        return value
    return ",".join(f"{float(number)!r}" for number in value)


def record_value(value: object) -> object:
    """Return the value of an option as written to the record: paths are strings, several values a list."""
    if isinstance(value, tuple):
        return list(map(record_value, value))
    return str(value) if isinstance(value, os.PathLike) else value


def _are_numbers(values: Collection[object]) -> bool:
    return len(values) > 0 and all(isinstance(value, numbers.Real) for value in values)


def _checked_list(name: str, option: Option, values: tuple[object, ...]) -> tuple[object, ...]:
    """Check each value of an option that can be given several times: text or something path-like."""
    for value in values:
        if not isinstance(value, str | os.PathLike):
            raise ParameterError(f"{flag(name)} is a {type(value).__name__}: give {option.unit}, or several in a list")
        if not str(value):
            raise ParameterError(f"{flag(name)} is empty: give {option.unit}, or leave it out")
    return values


def _checked_pairs(name: str, option: Option, values: tuple[object, ...]) -> tuple[tuple[object, ...], ...]:
    """Check each pair of an option: an input, and the output that belongs to it."""
    for pair in values:
        items = pair if isinstance(pair, list | tuple) and len(pair) == 2 else ()
        if not items or not all(isinstance(item, str | os.PathLike) and str(item) for item in items):
            kinds = " and ".join(type(item).__name__ for item in items or (pair,))
            raise ParameterError(f"{flag(name)} is {kinds}: give {option.unit}, or several pairs of these in a list")
    return tuple(tuple(pair) for pair in values if isinstance(pair, list | tuple))


def _number(name: str, option: Option, value: object, sort: str) -> int | float:
    if sort == "float" and isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            unit = f" ({option.unit})" if option.unit else ""
            raise ParameterError(f"{flag(name)} is {value[:LONGEST]!r}: give a number{unit}") from None
    if sort == "int" and isinstance(value, str):
        text, value = value, whole(value)
        if value is None:
            advice = f"{flag(name)} is {text[:LONGEST]!r}: give a whole number, such as 5000, 5k or 5M"
            raise ParameterError(f"{advice}; {option.foreign['']}" if "" in option.foreign else advice)
    try:
        number = float(value) if isinstance(value, SupportsFloat) else math.nan
        exact = int(value) if sort == "int" and isinstance(value, SupportsInt) else number
    except (TypeError, ValueError, OverflowError):
        number = exact = math.nan
    if sort == "float" and LARGEST < abs(number) < math.inf:
        raise ParameterError(f"{flag(name)} is {value}: give a number that fits 32 bits, at most {LARGEST:.2g}")
    if isinstance(value, bool) or not math.isfinite(number) or (sort == "int" and exact != value):
        raise ParameterError(f"{flag(name)} is {value!r}: give a {'whole ' if sort == 'int' else ''}number")
    if exact < option.low or exact > option.high or (option.above and exact == option.low):
        raise ParameterError(f"{flag(name)} is {exact}: give {bounds(option)}")
    return exact


def bounds(option: Option) -> str:
    """Describe the numbers that an option accepts, e.g. 'a number from 0 to 1'."""
    low = "" if option.low == -math.inf else f"above {option.low:g}" if option.above else f"from {_plain(option.low)}"
    high = "" if option.high == math.inf else f"to {_plain(option.high)}"
    if option.above and high:
        high = f"up {high}"
    return " ".join(["a number", low or "", high]).strip() + (" on" if low and not high and not option.above else "")


def _plain(bound: float) -> str:
    return str(int(bound)) if float(bound).is_integer() else f"{bound:g}"
