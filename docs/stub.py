"""The stub by which editors and type checkers know the objects of options/objects.py; docs/generate.py writes it.

A test, ``tests/options/test_objects.py``, compares the committed stub with what this makes.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from pathlib import Path

from tistreamlines.options import objects
from tistreamlines.options.keywords import Options

SOURCE = Path(objects.__file__)
STUB = SOURCE.with_suffix(".pyi")
HEAD = '''"""Objects beside keywords. This file is written by ``python docs/generate.py``."""

from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass
from typing import Any, ClassVar, Literal

import numpy.typing as npt

from .. import option
from ..option import OneOrMore, PathLike, PointsLike  # noqa: F401  (an option of any row may need them)

PRODUCTS: str
KINDS: dict[str, str]
TABLES: dict[str, Mapping[str, Any]]

'''


def stub() -> str:
    """Return the text of the stub."""
    parts = [_shape(getattr(objects, name)) for name in ("Choice", "Sphere", "Mask", "Density")]
    parts.append("Region = Sphere | Mask\nProduct = Density\nImageLike = option.ImageLike | Region\n")
    parts += [_function(getattr(objects, name)) for name in ("expanded", "choice", "own_options", "class_name")]
    for keyword, table in objects.TABLES.items():
        parts += [_row(objects.choice(keyword, name)) for name in table]
    return HEAD + "\n".join(parts)


def _row(made: type[objects.Choice]) -> str:
    """Write the class of a row: its options, with the types that ``track`` has for them."""
    known = {name: row.__forward_arg__ for name, row in Options.__annotations__.items()}
    told = [f"{name}: {' '.join(known[name].split())} = ..." for name in inspect.signature(made).parameters]
    first = inspect.getdoc(made).split("\n")[0]
    arguments = textwrap.indent(",\n".join(("self", "*", *told) if told else ("self",)) + ",", " " * 8)
    return f'class {made.__name__}(Choice):\n    """{first}"""\n    def __init__(\n{arguments}\n    ) -> None: ...\n'


def _shape(made: type) -> str:
    """Write a class without the bodies of its methods, as it stands in the source."""
    text = inspect.getsource(made)
    head = text[: text.index("    def ")]
    first = re.search(r"^    def __init__\(.*\) -> .*:$", text, re.MULTILINE)
    decorator = "" if first else "@dataclass(frozen=True, eq=False)\n"
    return decorator + head.removeprefix(decorator).rstrip() + (f"\n\n{first[0]} ...\n" if first else "\n")


def _function(made: object) -> str:
    text = inspect.getsource(made)
    return f"{text[: text.index('    ' + chr(34) * 3)].strip().removesuffix(':')}: ...\n"
