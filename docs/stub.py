"""What editors and type checkers know of the options: the keywords, and the stub of their objects.

``docs/generate.py`` writes both files, and ``tests/options/test_objects.py`` compares them with what this makes.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from dataclasses import fields
from pathlib import Path

from tistreamlines.options import objects
from tistreamlines.options.definitions import joined_options, options
from tistreamlines.options.parameters import Parameters

SOURCE = Path(objects.__file__)
STUB, KEYWORDS = SOURCE.with_suffix(".pyi"), SOURCE.with_name("keywords.py")
WIDTH = 120  # of a line
KEYWORDS_HEAD = '''\
"""The keywords of :func:`tistreamlines.track` and :func:`tistreamlines.stream`, for editors and type checkers.

This file is written by ``python docs/generate.py``. The keywords are the fields of :class:`tistreamlines.Parameters`,
which has their defaults and checks their values. Names that come from a registry are any string here, or an object of
``objects``. None stands for the default.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .. import option
    from ..option import OneOrMore, PathLike, PointsLike, TableLike
    from .objects import Choice, Mask, Product, Sphere

    ImageLike = option.ImageLike | Mask | Sphere
    BallLike = option.BallLike | Sphere
'''
CLASSES = (  # classes of keywords, which follow one another in the order of the help
    ("GrowthOptions", "Those of how streamlines are tracked, and of files about the run."),
    ("ProductOptions", "Those of what a tractogram holds, and of what is made of the streamlines besides."),
    ("DeviceOptions", "Those of the device, and objects that stand for several options."),
)
KEYWORDS_END = '''

class Options(GrowthOptions, ProductOptions, DeviceOptions, total=False):
    """Options of tracking, in the order in which ``tistreamlines track --help-all`` explains them."""
'''
HEAD = '''"""Objects beside keywords. This file is written by ``python docs/generate.py``."""

from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass
from typing import ClassVar, Literal

import numpy.typing as npt

from .. import option
from ..fit.models import Model
from ..option import OneOrMore, PathLike, PointsLike, TableLike  # noqa: F401  (an option of any row may need them)
from ..tracking import registry

Row = registry.Method | registry.StoppingRule | registry.Product | Model
MADE: str
KINDS: dict[str, str]
TABLES: dict[str, Mapping[str, Row]]

'''


def types() -> dict[str, str]:
    """Return the type of each keyword: that of its field, its words, or the name of a row or its object."""
    annotations, known = {f.name: str(f.type).removesuffix(" | None") for f in fields(Parameters)}, options()
    found = {}
    for name, option in known.items():
        words = ", ".join(f'"{word}"' for word in option.choices or ())
        found[name] = annotations[name]
        if name in objects.TABLES:
            found[name] += " | Choice"
        elif words:
            found[name] = f"Literal[{words}]"
    return {name: f"{row} | None" for name, row in found.items()}


def keywords() -> str:
    """Return the text of the keywords: those before the options of products, these, and those after them."""
    lines: list[list[str]] = [[], [], []]
    group, place, own = "", 0, joined_options()
    for name, row in types().items():
        place = 1 if name in own else 2 if place else 0
        if options()[name].group != group:
            group = options()[name].group
            lines[place].append(f"# {group}")
        line = f"{name}: {row}"
        if len(line) > WIDTH - 4:
            words = textwrap.fill(row[row.index("[") + 1 : row.index("]")] + ",", WIDTH - 8)
            line = f"{name}: Literal[\n{textwrap.indent(words, ' ' * 4)}\n] | None"
        lines[place].append(line)
    lines[2] += ["# objects that stand for several of these options", f"{objects.MADE}: Sequence[Product] | None"]
    classes = []
    for (name, text), rows in zip(CLASSES, lines, strict=True):
        body = textwrap.indent("\n".join(rows), " " * 4)
        classes.append(f'\n\nclass {name}(TypedDict, total=False):\n    """{text}"""\n\n{body}\n')
    return KEYWORDS_HEAD + "".join(classes) + KEYWORDS_END


def stub() -> str:
    """Return the text of the stub."""
    parts = [_shape(getattr(objects, name)) for name in ("Choice", "Sphere", "Mask", "Product")]
    parts.append("Region = Sphere | Mask\nImageLike = option.ImageLike | Region\n")
    functions = ("expanded", "choice", "own_options", "arguments_of", "class_name")
    parts += [_function(getattr(objects, name)) for name in functions]
    for keyword, table in objects.TABLES.items():
        parts += [_row(objects.choice(keyword, name)) for name in table]
    return HEAD + "\n".join(parts)


def _row(made: type[objects.Choice]) -> str:
    """Write the class of a row: its options, with the types that ``track`` has for them."""
    known = types()
    names = objects.arguments_of(made.option, made.name)
    own = [known[one.name] for one in objects.own_options(made.option, made.name)]
    told = [f"{name}: {row} = ..." for name, row in zip(names, own, strict=True) if name != "path"]
    before = ["self", *(["path: PathLike"] if "path" in names else []), *(["*"] if told else [])]
    first = inspect.getdoc(made).split("\n")[0]
    arguments = textwrap.indent(",\n".join((*before, *told)) + ",", " " * 8)
    head = f"class {made.__name__}({made.__base__.__name__}):"
    return f'{head}\n    """{first}"""\n    def __init__(\n{arguments}\n    ) -> None: ...\n'


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
