"""The kernel language: the words that a kernel function may use, and their meaning in plain Python.

A kernel function is ordinary Python over scalars and flat arrays.  It is written for a *team* of 32 virtual
lanes that grows one half-streamline.  Two kinds of value exist:

* a *uniform* value is the same for the whole team (a point, a counter, a stop reason);
* a *lane* value has one entry for each virtual lane (a signal, an ODF sample).

On a GPU both are one register of a thread; on the CPU a lane value is a SIMD vector of 32; interpreted, it is a
numpy array of 32.  Every dialect does the same additions in the same order, so all give the same bits.  So the CPU
uses its whole vector unit, and no compiler has to vectorise a loop.

On CUDA a minimum over a team takes five shuffles, one after the other, and a vote takes one instruction.  So kernels
decide by ``team_any`` and ``team_first`` where they can.

The functions below are the interpreted dialect (float64); :mod:`tistreamlines.backends` has the other dialects.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from functools import cache
from numbers import Integral, Real
from typing import NoReturn

import numpy as np

LANES = 32
__all__ = [  # what a kernel file imports
    "Constant", "Context", "Hole", "Ints", "Reals", "Record", "absolute", "add", "at", "barrier", "bits", "collect", "each", "floor",
    "from_bits", "i32", "lane", "lanes", "maximum", "minimum", "prefetch", "put", "raised", "real", "rolled", "spread", "stage", "take",
    "team_any", "team_first", "team_last", "team_max", "team_min", "team_value", "func", "u32", "umulhi", "unrolled", "vec3",
    "where", "words",
]


class Func:
    """A kernel function: one source, which is linked for each compiler."""

    def __init__(self, function: Callable[..., object]) -> None:
        self.function = function
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__
        self.__module__ = function.__module__

    def __reduce__(self) -> str:
        """Let pickle store where the function is."""
        return self.__name__

    def __call__(self, *_: object) -> NoReturn:
        raise TypeError(f"{self.__name__} is a kernel function: link it to a dialect first (tistreamlines.linker.link)")


class Stage(Func):
    """A part of a kernel function, whose lines the linker writes where it is called.

    So it can set variables of its caller: the fields of a record of local variables, which ``name = SomeRecord()`` makes,
    and variables that it is given.  Where a hole for a stage is filled with None, the call is left out.
    """


def func(function: Callable[..., object]) -> Func:
    """Mark a function as written in the kernel language."""
    return Func(function)


def stage(function: Callable[..., object]) -> Stage:
    """Mark a function in the kernel language as a stage of those that call it."""
    return Stage(function)


class Constant:
    """An integer or a flag that is fixed when kernels are linked (a table's size, an option)."""

    def __init__(self, meaning: str) -> None:
        self.meaning = meaning


class Hole:
    """A function or a record that is chosen when kernels are linked (of the method, of the stopping rule)."""

    def __init__(self, meaning: str) -> None:
        self.meaning = meaning


class Record:
    """Base of the records of arrays and scalars that kernel functions take; the linker spreads them into flat arguments.

    A subclass annotates its fields.  Making one gives each field its value by keyword: an array, a number or another
    record.  Instead of an array, its size may be given (see ``linker.records.memory``).

    Raises
    ------
    TypeError
        If a field is missing or unknown, or if its value does not fit its annotation.
    """

    def __init__(self, **values: object) -> None:
        name, fields = type(self).__name__, fields_of(type(self))
        for problem, names in (("lacks", fields.keys() - values.keys()), ("has no", values.keys() - fields.keys())):
            if names:
                raise TypeError(f"{name} {problem} {', '.join(sorted(names))}")
        for field, note in fields.items():
            if not _fits(values[field], note):
                raise TypeError(f"{name}.{field} is {type(values[field]).__name__}, but {note.__name__} is needed")
            setattr(self, field, values[field])

    @staticmethod
    def sizes(*parts: object) -> dict[str, int]:
        """Number of elements of each array, as far as the parts with which kernels are linked decide it."""
        return {}

    def elements(self, *parts: object) -> dict[str, int]:
        """Number of elements of each array; a record whose numbers say more than the parts extends it."""
        return self.sizes(*parts)


class Context(Record):
    """Parameters that many functions have in common, under one name.

    A function with the parameter ``chunk: Chunk`` has the fields of Chunk as parameters, and ``chunk.rules`` is the one
    called ``rules``. A call hands on a context, ``choose(position, chunk)``, or the values of its fields in their order,
    ``choose(Position(p, code), chunk)``; these may have a name, ``here = Position(p, code)``, and are evaluated where it is
    handed on. Kernels are run with the fields.
    """


@cache
def fields_of(record: type[Record]) -> dict[str, Callable[..., object]]:
    """Annotation of each field of a record, the fields of the record that it extends first."""
    lineage = [c for c in reversed(record.__mro__) if issubclass(c, Record)]
    return {field: note for c in lineage for field, note in inspect.get_annotations(c, eval_str=True).items()}


def _fits(value: object, note: Callable[..., object]) -> bool:
    """Whether a value may stand in a field; arrays of a device are known to the device alone, so they all may."""
    if isinstance(note, type) and issubclass(note, Record):
        return isinstance(value, note)
    if isinstance(value, np.ndarray):
        return note in (Reals, Ints) and (value.dtype.kind == "f") == (note is Reals)
    if isinstance(value, Record) or note in (Reals, Ints):
        return not isinstance(value, (Record, float, str))
    return isinstance(value, Real if note is real else Integral)


class Reals:
    """Annotation: a flat array of reals, passed by reference."""


class Ints:
    """Annotation: a flat array of int32, passed by reference."""


def words(a, b, c, d):
    """Annotation, and constructor, of four 32-bit words."""
    return a, b, c, d


def vec3(x, y, z):
    """Annotation, and constructor, of three reals."""
    return x, y, z


def _cast(kind, name=""):
    def cast(x):
        return x.astype(kind) if isinstance(x, np.ndarray) else kind(x)

    cast.__name__ = name
    return cast


real = _cast(np.float64, "real")
_i32 = _cast(np.int64)
_u64 = _cast(np.uint64)


def i32(x):
    """Truncate to a whole number."""
    return _i32(x) if isinstance(x, np.ndarray) else int(x)


def u32(x):
    """Reduce to an unsigned word of 32 bits."""
    return _i32(x) & 0xFFFFFFFF if isinstance(x, np.ndarray) else int(x) & 0xFFFFFFFF


def umulhi(a, b):
    """High word of the 64-bit product of two words."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return i32((_u64(a) * _u64(b)) >> np.uint64(32))
    return (int(a) * int(b)) >> 32


def floor(x):
    """Largest whole number not above ``x``, as a real."""
    return np.floor(x) if isinstance(x, np.ndarray) else float(math.floor(x))


def bits(x):
    """The 32 bits of a float32, as a signed int."""
    return i32(np.asarray(x, np.float32).view(np.int32)) if isinstance(x, np.ndarray) else int(np.float32(x).view(np.int32))


def from_bits(x):
    """The float32 that has these 32 bits."""
    return np.asarray(x).astype(np.int64).astype(np.int32).view(np.float32).astype(float)[()]


def absolute(x):
    """Absolute value."""
    return abs(x)


def minimum(a, b):
    """Smaller of two values."""
    return np.minimum(a, b) if isinstance(a, np.ndarray) or isinstance(b, np.ndarray) else min(a, b)


def maximum(a, b):
    """Larger of two values."""
    return np.maximum(a, b) if isinstance(a, np.ndarray) or isinstance(b, np.ndarray) else max(a, b)


def where(condition, a, b):
    """``a`` where the condition holds, else ``b``; both are evaluated."""
    return np.where(condition, a, b) if isinstance(condition, np.ndarray) else (a if condition else b)


def lane():
    """Number of the virtual lane, 0 to 31 (a lane value)."""
    return np.arange(LANES)


def lanes(x):
    """The same value in every lane."""
    return np.full(LANES, x)


def at(array, start):
    """Lane l reads ``array[start + l]``."""
    return array[start : start + LANES].copy()  # a lane value, not a view that a later put would change


def put(array, start, value):
    """Lane l writes ``array[start + l]``."""
    array[start : start + LANES] = value


def add(array, index, value):
    """Add a whole number to one of an array of integers, undivided by additions of other teams at the same time.

    It is called in the body of ``each``, so that one lane adds.  Of integers alone, since the order of the additions varies.
    """
    array[index] += value


def take(array, index):
    """Lane l reads ``array[index of lane l]``."""
    return array[index]


def prefetch(array, start):
    """Ask a processor's caches for 32 consecutive elements that will be read soon; has no effect elsewhere."""


def spread(array, start, pattern, table):
    """Lane l reads ``array[start + pattern[l]]``; ``table`` holds the same 32 offsets for dialects that look them up."""
    return array[start + np.asarray(pattern)]


def collect(items, count, marks, limit):
    """List in ``items`` the number ``l + 32 k`` for each bit k of lane l's ``marks``; ``count[0]`` says how many.

    Numbers beyond the first ``limit`` are left out.
    """
    numbers = [number + 32 * k for number in range(LANES) for k in range(31) if int(marks[number]) >> k & 1][:limit]
    items[: len(numbers)] = numbers
    count[0] = len(numbers)


def team_min(x):
    """Smallest of the lanes' values, known to all."""
    return np.min(x)


def team_max(x):
    """Largest of the lanes' values, known to all."""
    return np.max(x)


def team_any(condition):
    """1 if a condition holds in any lane, else 0; known to all."""
    return int(np.any(condition))


def team_first(condition):
    """The first lane in which a condition holds, or LANES; known to all."""
    return int(np.argmax(condition)) if np.any(condition) else LANES


def team_last(condition):
    """The last lane in which a condition holds, or -1; known to all."""
    return LANES - 1 - team_first(condition[::-1])


def team_value(x, number):
    """The real that the lane with this number has, known to all."""
    return x[number]


def raised(x, step):
    """Lane l gets the real that lane ``l - step`` has, or 0 if there is none; ``step`` is a constant from 1 on."""
    return np.concatenate([np.zeros_like(x[:step]), x[:-step]])


def barrier():
    """Wait until all lanes of the team see what each of them has written."""


def each(n):
    """Distribute the numbers below ``n`` over the lanes; the loop's body sees one number at a time."""
    return range(n)


def unrolled(n):
    """``range(n)`` that the compiler unrolls; ``n`` is a constant."""
    return range(n)


def rolled(n):
    """``range(n)`` that compilers for GPUs do not unroll: a GPU waits less for instructions where a kernel is short."""
    return range(n)
