"""What editors and type checkers know of the options: the stub of the keywords and their objects.

``docs/generate.py`` writes it, and ``tests/options/test_objects.py`` compares it with what this makes.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from dataclasses import fields
from pathlib import Path

from tistreamlines.options import objects
from tistreamlines.options.definitions import join_options, options
from tistreamlines.options.parameters import Parameters

SOURCE = Path(objects.__file__)
STUB = SOURCE.with_suffix(".pyi")
WIDTH = 120  # of a line
HEAD = '''"""Keywords, and objects beside them. This file is written by ``python docs/generate.py``.

The keywords are the fields of :class:`tistreamlines.Parameters`, which has their defaults and checks their values.
Names that come from a registry are any string here, or an object. None stands for the default.
"""

from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass
from typing import ClassVar, Literal, TypedDict

import numpy.typing as npt

from .. import option
from ..fit.models import Model
from ..option import OneOrMore, PathLike, PointsLike, TableLike
from ..tracking import registry

Row = registry.Method | registry.StoppingRule | registry.Product | Model
MADE: str
KINDS: dict[str, str]
TABLES: dict[str, Mapping[str, Row]]

'''
KEYWORDS = '''\
class ProductOptions(TypedDict, total=False):
    """Options of what a tractogram holds, and of what is made of the streamlines besides."""

{products}

class Options(ProductOptions, total=False):
    """All options of :func:`tistreamlines.track`: those of products, and the others in the order of the help."""

{others}
'''


def types() -> dict[str, str]:
    """Return the type of each keyword: that of its field, its words, or the name of a row or its object."""
    annotations, known = {f.name: str(f.type).removesuffix(" | None") for f in fields(Parameters)}, options()
    words_of = {}
    for name, option in known.items():
        words = ", ".join(f'"{word}"' for word in option.choices or ())
        words_of[name] = annotations[name]
        if name in objects.TABLES:
            words_of[name] += " | Choice"
        elif words:
            words_of[name] = f"Literal[{words}]"
    return {name: f"{row} | None" for name, row in words_of.items()}


def keywords() -> str:
    """Return the classes of the keywords."""
    kinds, joined = types(), join_options()
    products = _fields({name: kind for name, kind in kinds.items() if name in joined})
    others = _fields({name: kind for name, kind in kinds.items() if name not in joined})
    others += ["# objects that stand for several options", f"{objects.MADE}: Sequence[Product] | None"]
    products, others = (textwrap.indent("\n".join(lines), " " * 4) for lines in (products, others))
    return KEYWORDS.format(products=products, others=others)


def _fields(kinds: dict[str, str]) -> list[str]:
    """Return the lines of fields, each group below its title."""
    lines, group = [], ""
    for name, kind in kinds.items():
        if options()[name].group != group:
            group = options()[name].group
            lines.append(f"# {group}")
        line = f"{name}: {kind}"
        if len(line) > WIDTH - 4:
            words = textwrap.fill(kind[kind.index("[") + 1 : kind.index("]")] + ",", WIDTH - 8)
            line = f"{name}: Literal[\n{textwrap.indent(words, ' ' * 4)}\n] | None"
        lines.append(line)
    return lines


def stub() -> str:
    """Return the text of the stub."""
    parts = [_shape(getattr(objects, name)) for name in ("Choice", "Sphere", "Mask", "Product")]
    parts.append("Region = Sphere | Mask\nImageLike = option.ImageLike | Region\nBallLike = option.BallLike | Sphere\n")
    parts.append(keywords())
    functions = ("expand", "choice", "row_options", "arguments_of", "class_name")
    parts += [_function(getattr(objects, name)) for name in functions]
    for keyword, table in objects.TABLES.items():
        parts += [_row(objects.choice(keyword, name)) for name in table]
    return HEAD + "\n".join(parts)


def _row(choice: type[objects.Choice]) -> str:
    """Write the class of a row: its options, with the types that ``track`` has for them."""
    known = types()
    names = objects.arguments_of(choice.option, choice.name)
    annotations = [known[argument.name] for argument in objects.row_options(choice.option, choice.name)]
    lines = [f"{name}: {row} = ..." for name, row in zip(names, annotations, strict=True) if name != "path"]
    before = ["self", *(["path: PathLike"] if "path" in names else []), *(["*"] if lines else [])]
    text = textwrap.indent(inspect.getdoc(choice), " " * 4)
    arguments = textwrap.indent(",\n".join((*before, *lines)) + ",", " " * 8)
    head = f"class {choice.__name__}({choice.__base__.__name__}):"
    return f'{head}\n    """{text.lstrip()}\n    """\n    def __init__(\n{arguments}\n    ) -> None: ...\n'


def _shape(choice: type) -> str:
    """Write a class without the bodies of its methods, as it stands in the source."""
    text = inspect.getsource(choice)
    head = text[: text.index("    def ")]
    first = re.search(r"^    def __init__\(.*\) -> .*:$", text, re.MULTILINE)
    decorator = "" if first else "@dataclass(frozen=True, eq=False)\n"
    return decorator + head.removeprefix(decorator).rstrip() + (f"\n\n{first[0]} ...\n" if first else "\n")


def _function(choice: object) -> str:
    text = inspect.getsource(choice)
    return f"{text[: text.index('    ' + chr(34) * 3)].strip().removesuffix(':')}: ...\n"
