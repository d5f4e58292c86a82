"""Objects beside keywords: a direction getter, a stopping rule or a model with its options, regions and products.

An object only stands for keywords of :func:`tistreamlines.track`: ``dg=Prob(max_angle=30)`` is ``dg="prob",
max_angle=30``. There is a class for each row of the registries, made from the row and its options, so it has no list of
options of its own; ``objects.pyi``, which ``python docs/generate.py`` writes, shows them to editors and type checkers.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, dataclass, fields
from functools import partial
from typing import ClassVar, cast

import numpy as np
import numpy.typing as npt

from ..errors import ParameterError, listed, python_names
from ..fit.models import MODELS, FitOptions, Model
from ..option import ImageLike, PathLike, flag
from ..tracking import registry
from ..tracking.references import OF_OPTIONS, REFERENCES
from ..tracking.registry import METHODS, PRODUCTS, STOPPING_RULES

Row = registry.Method | registry.StoppingRule | registry.Product | Model
MADE = "products"  # the keyword that no option has
TABLES: dict[str, Mapping[str, Row]] = {"dg": METHODS, "stopping": STOPPING_RULES, "model": MODELS, MADE: PRODUCTS}
KINDS = {"dg": "direction getter", "stopping": "stopping rule", "model": "orientation model", MADE: "product"}
WIDTH, INDENT = 112, "    "  # of a line of a docstring, and what stands before what belongs to the line above
_fill = partial(textwrap.fill, width=WIDTH, subsequent_indent=INDENT, break_long_words=False, break_on_hyphens=False)
_WORDS = {  # of the aliases in annotations
    "tuple[ImageLike, PathLike]": "pair of an image and the file to write", "str | PathLike": "str or Path",
    "ImageLike": "str, Path, nibabel image or ndarray", "PathLike": "str or Path", "TableLike": "str or Path",
    "Sequence[float]": "sequence of float", " | ": " or ",
}


class Choice:
    """A row of a registry with some of its options, instead of its name.

    Parameters
    ----------
    **options
        Options of the row. Those that are left out, or None, have their default.

    Raises
    ------
    TypeError
        If the row has no such option.
    """

    option: ClassVar[str]  # the keyword that it is given as
    name: ClassVar[str]  # of the row
    row: ClassVar[Row]

    def __init__(self, **options: object) -> None:
        try:
            inspect.signature(type(self)).bind(**options)
        except TypeError as error:
            known = listed(inspect.signature(type(self)).parameters)
            raise TypeError(f"{type(self).__name__}: {error}; its options are {known}") from None
        self.options = options

    def __repr__(self) -> str:
        """Return the call that makes the object."""
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.options.items())})"

    def __reduce__(self) -> tuple[Callable[..., Choice], tuple[object, ...]]:
        """Have the class made anew where the object is unpickled."""
        return _unpickle, (self.option, self.name, self.options)


@dataclass(frozen=True, eq=False)
class Sphere:
    """A ball in which seeds are placed, or a region of interest.

    Parameters
    ----------
    centre : array_like, (3,)
        Its centre, RASmm.
    radius : float
        Its radius, mm.

    Raises
    ------
    ParameterError
        If the centre has not three numbers; the function that uses the sphere raises it.

    Examples
    --------
    >>> import tistreamlines as ts
    >>> ts.Parameters(include=[ts.Sphere((10, -20, 5), radius=8)]).include
    ('10.0,-20.0,5.0,8.0',)
    """

    centre: npt.ArrayLike
    radius: float

    def _value(self) -> tuple[float, ...]:
        """Return the value of an option that the object stands for."""
        centre = np.asarray(self.centre, float).ravel()
        if len(centre) != 3:
            raise ParameterError(f"centre has {len(centre)} numbers: give x, y and z in RASmm")
        return (*centre.tolist(), float(self.radius))


@dataclass(frozen=True, eq=False)
class Mask:
    """The voxels of an image that are at least 0.5, on another grid.

    Parameters
    ----------
    image : str, Path, nibabel image or (x, y, z) ndarray
        The mask.
    affine : (4, 4) array_like, optional
        From voxel coordinates of an array to RASmm. Without it, an array has the affine that ``track`` is given.

    Raises
    ------
    ParameterError
        If an image that is no array has an affine beside its own; the function that uses the image raises it.

    Examples
    --------
    >>> import numpy as np
    >>> import tistreamlines as ts
    >>> left = ts.Mask(np.ones((10, 20, 20), bool), affine=np.diag([2, 2, 2, 1]))
    >>> ts.Parameters(exclude=[left, ts.Mask("cerebellum.nii.gz")]).gives("exclude")
    True
    """

    image: ImageLike
    affine: npt.ArrayLike | None = None

    def _value(self) -> ImageLike:
        """Return the value of an option that the object stands for."""
        if self.affine is None:
            return self.image
        if not isinstance(self.image, np.ndarray):
            raise ParameterError(f"Mask has an affine, but a {type(self.image).__name__} brings its own: leave it out")
        from nibabel.nifti1 import Nifti1Image

        voxels = self.image.astype(np.uint8) if self.image.dtype == bool else self.image
        return Nifti1Image(voxels, np.asarray(self.affine, float))


class Product(Choice):
    """A row of the products, with its options: the file to write first, and the others without the name of the row."""

    def __init__(self, path: PathLike, **options: object) -> None:
        super().__init__(path=path, **options)

    def _keywords(self) -> dict[str, object]:
        """Return the keywords that the object stands for."""
        names = dict(zip(arguments_of(self.option, self.name), row_options(self.option, self.name), strict=True))
        return {names[name].name: value for name, value in self.options.items()}


Region = Sphere | Mask
Options = ProductOptions = dict[str, object]  # for annotations; the stub has the keywords and their types


def expand(named: Mapping[str, object]) -> dict[str, object]:
    """Return keywords with the objects among their values replaced by the keywords that these stand for.

    Parameters
    ----------
    named : mapping
        Values by the name of a keyword. One of None counts as not given.

    Returns
    -------
    dict
        Values by name, without None.

    Raises
    ------
    ParameterError
        If two of them say different things, or an object is given as another keyword than its own.
    """
    values: dict[str, object] = {}
    sources: dict[str, str] = {}
    for name, value in named.items():
        for key, plain, words in _plain_keywords(name, value):
            # a keyword that says the same is not in the way
            if key in values and not (
                plain is values[key] or (isinstance(plain, str | float | int) and plain == values[key])
            ):
                raise ParameterError(f"{sources[key]}, but {words}: both give {flag(key)}, so leave one of them out")
            values[key], sources[key] = plain, words
    return values


def _plain_keywords(name: str, value: object) -> Iterator[tuple[str, object, str]]:
    """Yield the plain keywords that a keyword stands for, their values, and in which words it was given."""
    if value is None:
        return
    words = f"{flag(name)} is {_show(value)}"
    if name == MADE:
        for product in value if isinstance(value, list | tuple) else (value,):
            if not isinstance(product, Product):
                raise ParameterError(f"products has a {type(product).__name__}: give objects such as Density")
            yield from (
                (key, option, f"{MADE} has {product!r}")
                for key, option in product._keywords().items() if option is not None
            )
    elif isinstance(value, Choice):
        if value.option != name:
            raise ParameterError(f"{words}, a {KINDS[value.option]}: give it as {value.option}")
        yield name, value.name, words
        for key, option in value.options.items():
            yield from ((inner, plain, words) for inner, plain, _ in _plain_keywords(key, option))
    elif isinstance(value, list | tuple):
        yield name, [_plain(region) for region in value], words
    else:
        yield name, _plain(value), words


def _show(value: object) -> str:
    """Put a value in a few words; the numbers of an array take long, and say little."""
    if isinstance(value, Choice):
        return repr(value)
    return f"an array of shape {value.shape}" if isinstance(value, np.ndarray) else str(value)[:80]


def _plain(value: object) -> object:
    """Return what a region stands for, and any other value as it is."""
    return value._value() if isinstance(value, Region) else value


def choice(option: str, name: str) -> type[Choice]:
    """Return the class of a row of a registry.

    Parameters
    ----------
    option : str
        'dg', 'stopping', 'model' or 'products'.
    name : str
        Name of the row, also of one that was registered from outside this package.

    Returns
    -------
    type
        The class, whose arguments are the options of the row.

    Raises
    ------
    ParameterError
        If there is no such row.

    Examples
    --------
    >>> import tistreamlines as ts
    >>> ts.choice("dg", "prob") is ts.Prob
    True
    >>> ts.choice("stopping", "act")(pve="pve.nii.gz")
    ACT(pve='pve.nii.gz')
    """
    if name not in TABLES[option]:
        raise ParameterError(f"{name!r} is no {KINDS[option]}: give one of {', '.join(TABLES[option])}")
    row, known = TABLES[option][name], _classes.get((option, name))
    if known is not None and known.row is row:
        return known
    space = {"option": option, "name": name, "row": row, "__module__": __name__}
    base = Product if option == MADE else Choice
    kind = _classes[option, name] = cast("type[Choice]", type(class_name(option, name), (base,), space))
    arguments = dict(zip(arguments_of(option, name), row_options(option, name), strict=True))
    defaults = getattr(row, "defaults", {})
    kind.__signature__ = inspect.Signature([  # type: ignore[attr-defined]
        inspect.Parameter("path", inspect.Parameter.POSITIONAL_OR_KEYWORD) if key == "path" else
        inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=defaults.get(field.name, field.default))
        for key, field in arguments.items()
    ])
    kind.__doc__ = _docstring_of(kind, arguments)
    return kind


_classes: dict[tuple[str, str], type[Choice]] = {}


def row_options(option: str, name: str) -> list[Field[object]]:
    """Return the options of a row as dataclass fields, those of a model only for the model."""
    row = TABLES[option][name]
    if isinstance(row, Model):
        return [field for field in fields(FitOptions) if name in field.metadata["option"].only.get("model", ())]
    return [field for field in fields(row.options) if "model" not in field.metadata["option"].only]


def arguments_of(option: str, name: str) -> list[str]:
    """Return what the arguments of a row's class are called: a product's have no name of the row before them."""
    keywords = [field.name for field in row_options(option, name)]
    if option != MADE:
        return keywords
    return ["path" if keyword == name else keyword.removeprefix(f"{name}_") for keyword in keywords]


def class_name(option: str, name: str) -> str:
    """Return the name of a row's class: Prob, Threshold; rules and models of few letters are abbreviations, as ACT."""
    short = option in ("stopping", "model") and len(name) <= 4
    return name.upper() if short else name.title().replace("_", "")


def _docstring_of(kind: type[Choice], arguments: Mapping[str, Field[object]]) -> str:
    """Return the docstring of a class: the title of its row, the help of its options, its references and an example."""
    row, signature = kind.row, inspect.signature(kind).parameters
    lines = [f"{KINDS[kind.option].capitalize()} '{kind.name}': {row.title}.", ""]
    lines += ["Parameters", "----------"] if arguments else []
    for name, field in arguments.items():
        lines += [f"{name} : {_type_of(field, signature[name].default)}", _indented(field.metadata["option"].help)]
    lines += ["", "Raises", "------", "TypeError", f"{INDENT}If there is no such option."]
    papers = getattr(row, "references", None) or [OF_OPTIONS[name] for name in (kind.name,) if name in OF_OPTIONS]
    if papers:
        texts = (f".. [{number}] {REFERENCES[paper]}" for number, paper in enumerate(papers, 1))
        lines += ["", "References", "----------", *(_fill(text) for text in texts)]
    if row.example:
        lines += ["", "Examples", "--------", *_example(kind)]
    return "\n".join([*lines, ""])


def _example(kind: type[Choice]) -> list[str]:
    """Return the lines of an example: an object of a class, and what it stands for."""
    noun = KINDS[kind.option].split()[-1]
    lines = [">>> import tistreamlines as ts", f">>> {noun} = ts.{kind.__name__}({kind.row.example})"]
    if kind.option == MADE:
        return [*lines, f'>>> ts.Parameters({MADE}=[{noun}]).gives("{kind.name}")', "True"]
    others = 'dg="prob", ' if kind.option == "model" else ""
    return [*lines, f">>> ts.Parameters({others}{kind.option}={noun}).{kind.option}", repr(kind.name)]


def _indented(help: str) -> str:
    """Return the help of an option in Python's names, as lines below its name."""
    return _fill(python_names(help), initial_indent=INDENT)


def _type_of(field: Field[object], default: object) -> str:
    """Say of which type an option is, in which unit, and what it is by default, as numpydoc has it."""
    known, text = field.metadata["option"], str(field.type).removesuffix(" | None")
    if several := text.startswith("OneOrMore["):
        text = text.removeprefix("OneOrMore[").removesuffix("]")
    for alias, words in _WORDS.items():
        text = text.replace(alias, words)
    if known.choices:
        text = "{" + ", ".join(map(repr, known.choices)) + "}"
    elif text in ("int", "float") and known.unit:
        text = f"{text}, {known.unit}"
    text += ", or a list of these" if several else ""
    if default is inspect.Parameter.empty:
        return text
    return f"{text}, optional" if default is None else f"{text}, default {default!r}"


def _unpickle(option: str, name: str, options: Mapping[str, object]) -> Choice:
    return choice(option, name)(**options)


def __getattr__(name: str) -> type[Choice]:
    for option, table in TABLES.items():
        for row in table:
            if class_name(option, row) == name:
                return choice(option, row)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
