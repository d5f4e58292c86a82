"""The tests themselves: no file of tests needs another, and those that are called slow exist."""

import ast

from nights import BY_DAY, tried
from places import ROOT
from slow import SLOW

TESTS = ROOT / "tests"
FILES = sorted(TESTS.rglob("test_*.py"))


def imported(tree: ast.Module) -> set[str]:
    """First names of the modules that a file imports."""
    names = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {part for name in names for part in name.split(".")}


def named_in(tree: ast.Module) -> set[str]:
    """Tests of a file as pytest names them: functions, and methods after their class."""
    names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    for group in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        names |= {f"{group.name}::{node.name}" for node in group.body if isinstance(node, ast.FunctionDef)}
    return names


def test_no_test_imports_another():
    names = {path.stem for path in FILES} | {"conftest"}
    for path in TESTS.rglob("*.py"):
        assert not imported(ast.parse(path.read_text(encoding="utf-8"))) & names, path


def names_of(place: str) -> set[str]:
    """The tests of a file as conftest.py names it."""
    folder, _, name = f"/{place}".rpartition("/")
    return named_in(ast.parse((TESTS / folder.lstrip("/") / f"test_{name}.py").read_text(encoding="utf-8")))


def test_slow_tests_exist():
    for place, names in SLOW.items():
        assert set(names) <= names_of(place), place


def test_the_day_has_a_case_of_each_test():
    """Of those whose cases are listed by day, as far as their files are collected beside this one."""
    for place, names in BY_DAY.items():
        assert set(names) <= names_of(place), place
    assert not [name for name, by_day in tried.items() if not by_day]
