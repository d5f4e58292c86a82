"""Kinds of kernel values, and records spread into the flat arguments that kernels take."""

from __future__ import annotations

from numbers import Integral
from typing import TypeGuard

from . import lang

Arguments = dict[str, object]  # of a kernel by flat name: numbers, and arrays of the host or of a device
REAL, INT, WORD, BOOL, VEC, WORDS, REALS, INTS, NOTHING = "real int word bool vec words reals ints nothing".split()
KINDS: dict[object, str] = {
    lang.real: REAL, lang.i32: INT, lang.u32: WORD, lang.vec3: VEC, lang.words: WORDS, lang.Reals: REALS,
    lang.Ints: INTS, None: NOTHING,
}


def is_record(note: object) -> TypeGuard[type[lang.Record]]:
    """Whether an annotation is a record."""
    return isinstance(note, type) and issubclass(note, lang.Record)


def flat_fields(prefix: str, record: type[lang.Record]) -> list[tuple[str, str]]:
    """Flat name and kind of each field of a record; nested records are spread too."""
    out: list[tuple[str, str]] = []
    for field, note in lang.fields_of(record).items():
        name = f"{prefix}_{field}"
        out += flat_fields(name, note) if is_record(note) else [(name, KINDS[note])]
    return out


def spread(prefix: str, record: lang.Record) -> Arguments:
    """Values of a record by flat name, as kernels take them: ``volume_rows``, ``method_sphere_vertices``."""
    out: Arguments = {}
    for field, value in vars(record).items():
        name = f"{prefix}_{field}"
        out |= spread(name, value) if isinstance(value, lang.Record) else {name: value}
    return out


def team_memory(prefix: str, record: type[lang.Record], *parts: object) -> dict[str, tuple[str, int]]:
    """Kind and size of each array of a team's memory, by flat name; the parts that kernels are linked with decide the sizes."""
    out, sizes = {}, record.sizes(*parts)
    for field, note in lang.fields_of(record).items():
        name = f"{prefix}_{field}"
        out |= team_memory(name, note, *parts) if is_record(note) else {name: (KINDS[note], sizes[field])}
    return out


def memory(prefix: str, record: lang.Record) -> dict[str, tuple[str, int]]:
    """Kind and size of each array of a record that holds sizes instead of arrays, by flat name; numbers are left out.

    The engine describes the buffers of a chunk so.
    """
    sizes, arrays = spread(prefix, record), {}
    for name, kind in flat_fields(prefix, type(record)):
        if kind in (REALS, INTS):
            size = sizes[name]
            assert isinstance(size, Integral)
            arrays[name] = kind, int(size)
    return arrays
