"""Docstrings of the public API are complete by numpydoc's standard, and their examples run."""

from __future__ import annotations

import ast
import doctest
import inspect
import re
import shutil
import textwrap
from collections.abc import Callable, Iterator
from enum import Enum
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
from registries import restore_registries

import tistreamlines as ts
from tistreamlines.options.definitions import options
from tistreamlines.phantom.phantom import make_phantom, save_phantom

needs_numpydoc = pytest.mark.skipif(not find_spec("numpydoc"), reason='no numpydoc: pip install ".[docs]"')
MODULES = ["dipy", "cuslines", *(["distributed"] if find_spec("distributed") else [])]
# Not asked for: an extended summary and See Also in each docstring, and examples of methods, which their class has.
# Parameters are compared with those of the signature here, where a docstring may point to another one.
OPTIONAL = {"ES01", "SA01", "PR01", "PR02"}
REFERENCE = re.compile(r":(?:class|func|meth):`~?([\w.]+)`")
VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def thing_of(name: str) -> object:
    """What a name below the package stands for."""
    module, _, attribute = f"tistreamlines.{name}".rpartition(".")
    try:
        return getattr(import_module(module), attribute)
    except ModuleNotFoundError:
        return getattr(thing_of(module.removeprefix("tistreamlines.")), attribute)


def objects() -> list[str]:
    """Names of the public classes and functions."""
    inside = [f"{name}.{public}" for name in MODULES for public in import_module(f"tistreamlines.{name}").__all__]
    return [*ts.__all__, *(name for name in inside if name != "cuslines.BACKEND"), "cuslines.tracker.Tracker"]


def members(name: str) -> list[str]:
    """Names of the public methods and properties that a class of this package defines."""
    kind = thing_of(name)
    if not inspect.isclass(kind):
        return []
    bases = [base for base in kind.__mro__ if base.__module__.startswith("tistreamlines")]
    public = {member: value for base in bases for member, value in vars(base).items() if not member.startswith("_")}
    described = (property, classmethod, staticmethod)
    called = (member for member, value in public.items() if inspect.isfunction(value) or isinstance(value, described))
    return [f"{name}.{member}" for member in called]


def names_in(section: list) -> set[str]:
    """The names in a section of parameters, several of which may share a description."""
    return {name.strip().lstrip("*") for row in section for name in row.name.split(",")}


def documented(name: str) -> set[str]:
    """Parameters that a docstring describes, itself or in the docstrings to which it points with 'as for'."""
    from numpydoc.docscrape import NumpyDocString

    thing = thing_of(name)
    text = NumpyDocString(inspect.getdoc(thing) or "")
    names = names_in(text["Parameters"]) | names_in(text["Attributes"])
    if thing is ts.Parameters:
        names |= set(options()) | {"products"}  # docs/options.md is made of their definitions
    for row in text["Parameters"]:
        for pointer in REFERENCE.findall(row.type) if row.type.startswith("as ") else ():
            names |= documented(pointed_at(name, pointer))
        if row.name.startswith("**"):
            words = " ".join(row.desc)
            names |= set(re.findall(r"``(\w+)``", words))
            names |= documented("Parameters") if "fields of :class:`tistreamlines.Parameters`" in words else set()
    return names


def pointed_at(name: str, pointer: str) -> str:
    """Name of the object to which a docstring points: beside its own, or within the package."""
    if pointer.startswith("tistreamlines."):
        return pointer.removeprefix("tistreamlines.")
    if pointer.startswith("."):
        return name.partition(".")[0] + pointer
    return ".".join([*name.split(".")[:-1], pointer])


def parameters(name: str) -> set[str]:
    """Parameters of a function, or of the constructor of a class of this package."""
    thing = thing_of(name)
    if isinstance(thing, property) or (inspect.isclass(thing) and issubclass(thing, (Enum, Exception))):
        return set()
    if inspect.isclass(thing) and not getattr(thing.__init__, "__module__", "").startswith("tistreamlines"):
        return set()
    rows = inspect.signature(thing).parameters.values()
    return {row.name for row in rows if row.kind not in VARIADIC} - {"self", "cls", "_"}


def errors_raised(function: Callable) -> set[str]:
    """Names of the errors that a function raises itself, in a statement of its own."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function))))
    calls = (node.exc for node in ast.walk(tree) if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call))
    return {call.func.id for call in calls if isinstance(call.func, ast.Name) and call.func.id[0].isupper()}


def errors_of(name: str) -> set[str]:
    """Names of the errors that a function, a property or a constructor raises itself."""
    thing = thing_of(name)
    if isinstance(thing, property):
        return errors_raised(thing.fget)
    if not inspect.isclass(thing):
        return errors_raised(thing)
    makers = [vars(thing)[maker] for maker in ("__init__", "__post_init__") if maker in vars(thing)]
    written = [maker for maker in makers if maker.__code__.co_filename.endswith(".py")]  # dataclasses write others
    return {error for maker in written for error in errors_raised(maker)}


def faults(name: str, *, has_examples: bool) -> list[str]:
    """What is missing in a docstring, or wrong in it."""
    from numpydoc.docscrape import NumpyDocString
    from numpydoc.validate import validate

    optional = OPTIONAL | (set() if has_examples else {"EX01"})
    missing = [text for code, text in validate(f"tistreamlines.{name}")["errors"] if code not in optional]
    missing += [f"describe the parameter {parameter}" for parameter in sorted(parameters(name) - documented(name))]
    rows = NumpyDocString(inspect.getdoc(thing_of(name)) or "")["Raises"]
    known = {error.strip() for row in rows for error in row.type.split(",")}
    return missing + [f"say when it raises {error}" for error in sorted(errors_of(name) - known)]


@needs_numpydoc
@pytest.mark.parametrize("name", objects())
def test_docstrings_are_complete(name):
    missing = {name: faults(name, has_examples=True)}
    missing |= {member: faults(member, has_examples=False) for member in members(name)}
    assert not {key: words for key, words in missing.items() if words}


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small phantom, whose files have the names of those that the demo writes."""
    folder = tmp_path_factory.mktemp("series")
    save_phantom(make_phantom((18, 22, 17), voxel_mm=8.0), folder)
    return folder


@pytest.fixture
def registries() -> Iterator[None]:
    """What an example registers is forgotten after it."""
    with restore_registries():
        yield


def failures_of(name: str) -> str:
    """Run the examples of a docstring, and return what fails in them."""
    text = inspect.getdoc(thing_of(name)) or ""
    test = doctest.DocTestParser().get_doctest(text, {"__name__": "__main__"}, name, None, 0)
    runner, lines = doctest.DocTestRunner(verbose=False), list[str]()
    runner.run(test, out=lines.append)
    return "".join(lines)


@pytest.mark.usefixtures("registries")
@pytest.mark.parametrize("name", objects())
def test_examples_run(name, series, tmp_path, monkeypatch):
    """Each in a folder of its own, with the files of the demo."""
    shutil.copytree(series, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    assert not failures_of(name)


def halved(points, count):
    """Return the points.

    >>> 1 + 1
    3
    """
    if count < 0:
        raise ValueError(f"count is {count}")
    return points


@needs_numpydoc
def test_what_is_missing_is_found(monkeypatch):
    monkeypatch.setattr(ts, "halved", halved, raising=False)
    text = " ".join(faults("halved", has_examples=True))
    for words in ("parameter points", "parameter count", "raises ValueError", "No Returns section", "No examples"):
        assert words in text, text
    assert "Expected:\n    3\nGot:\n    2" in failures_of("halved")
