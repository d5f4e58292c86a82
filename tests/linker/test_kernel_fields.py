"""Kernels name fields that their records have, and call functions with as many arguments as these take.

Compilers would say so, but only of kernels that some run links, and in words about linked text.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from typing import Any

import pytest

import tistreamlines.fit.lobes
import tistreamlines.kernels
import tistreamlines.tracking.registry  # whose getters and rules are parts, as are the constants of fixels
import tistreamlines.tracking.weights.device_weights
from tistreamlines.linker import lang
from tistreamlines.linker.parts import Part
from tistreamlines.linker.rewriter import tree_of

KERNELS = tistreamlines.kernels


def modules() -> list[Any]:
    names = [info.name for info in pkgutil.walk_packages(KERNELS.__path__, KERNELS.__name__ + ".")]
    return [importlib.import_module(name) for name in names]


def kernel_functions() -> list[lang.Func]:
    """Every kernel function of the package, each once."""
    functions = {
        (module.__name__, name): value
        for module in modules() for name, value in vars(module).items()
        if isinstance(value, lang.Func) and value.__module__ == module.__name__
    }
    return [functions[key] for key in sorted(functions)]


@cache
def parts() -> dict[str, list[Any]]:
    """What classes of parts fill each hole with by default, by its name in small letters."""
    filling: dict[str, list[Any]] = {}
    kinds = [Part]
    for kind in kinds:
        kinds += kind.__subclasses__()
        for field in fields(kind):
            if isinstance(field.default, (lang.Func, type)):
                filling.setdefault(field.name, []).append(field.default)
    return filling


@cache
def records() -> list[type[lang.Record]]:
    """All records of kernels, some of which fill a hole for a record."""
    return [value for module in modules() for value in vars(module).values() if is_record(value)]


class Fields(ast.NodeVisitor):
    """Finds fields that records lack, and calls with another number of arguments than a function takes."""

    def __init__(self, function: lang.Func) -> None:
        self.function, self.module = function, importlib.import_module(function.__module__)
        self.faults: list[str] = []
        self.notes: dict[str, Any] = {}
        tree = tree_of(function)
        for argument in tree.args.args:
            scope = getattr(argument.annotation, "scope", vars(self.module))
            self.notes[argument.arg] = eval(ast.unparse(argument.annotation), scope)
        for statement in tree.body:
            self.visit(statement)

    def visit_Assign(self, node: ast.Assign) -> None:
        """Note a record of local variables."""
        target, value = node.targets[0], node.value
        kind = vars(self.module).get(value.func.id) if isinstance(value, ast.Call) else None
        if isinstance(target, ast.Name) and (isinstance(kind, lang.Hole) or is_record(kind)):
            self.notes[target.id] = kind
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.notes_of(node)

    def notes_of(self, node: ast.expr) -> list[Any]:
        """What an expression may be: a record, a hole for one, or something that has no fields."""
        if isinstance(node, ast.Name):
            return [self.notes.get(node.id)]
        if not isinstance(node, ast.Attribute):
            self.visit(node)
            return []
        kinds = self.notes_of(node.value)
        owners = [kind for kind in kinds if is_record(kind)]
        owners += records() if any(isinstance(kind, lang.Hole) for kind in kinds) else []
        notes = [lang.fields_of(record)[node.attr] for record in owners if node.attr in lang.fields_of(record)]
        if not notes:
            self.faults.append(f"{ast.unparse(node)}: no record here has the field {node.attr}")
        return notes

    def visit_Call(self, node: ast.Call) -> None:
        assert isinstance(node.func, ast.Name)
        called = vars(self.module).get(node.func.id)
        for callee in parts().get(node.func.id.lower(), []) if isinstance(called, lang.Hole) else [called]:
            taken = number_of_arguments(callee)
            if taken is not None and taken != len(node.args):
                self.faults.append(f"{node.func.id} takes {taken} arguments, not {len(node.args)}")
        for argument in node.args:
            self.visit(argument)


def is_record(value: Any) -> bool:
    return inspect.isclass(value) and issubclass(value, lang.Record)


def number_of_arguments(callee: Any) -> int | None:
    """How many arguments a function takes, with the fields of contexts; None for what is no function."""
    if isinstance(callee, lang.Func):
        return len(tree_of(callee).args.args)
    if is_record(callee):
        return 0
    return len(inspect.signature(callee).parameters) if inspect.isfunction(callee) else None


@pytest.mark.parametrize("function", kernel_functions(), ids=lambda function: function.__name__)
def test_fields_and_arguments_are_there(function):
    assert Fields(function).faults == []


def holes() -> Iterator[tuple[str, Any]]:
    for module in modules():
        for name, value in vars(module).items():
            if isinstance(value, (lang.Hole, lang.Constant)):
                yield name, value


def test_each_hole_and_constant_is_a_field_of_a_part():
    """So that a reader finds by its name who fills it."""
    named: set[str] = set()
    kinds = [Part]
    for kind in kinds:
        kinds += kind.__subclasses__()
        named |= {field.name for field in fields(kind)}
    missing = {name for name, _ in holes() if name.lower() not in named}
    assert missing == set()
    assert len({name for name, _ in holes()}) > 80


class Pair(lang.Record):
    """Two numbers."""

    first: lang.real
    second: lang.real


@lang.func
def sum_of(pair: Pair, more: lang.real) -> lang.real:
    """A sum, with a field that is not there, and a call with an argument too many."""
    return sum_of(pair, pair.third, more)


def test_the_lint_finds_faults():
    faults = Fields(sum_of).faults
    assert any("no record here has the field third" in fault for fault in faults)
    assert any("sum_of takes 2 arguments, not 3" in fault for fault in faults)
