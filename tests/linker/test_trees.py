"""The syntax trees of kernel functions: from which file, of which function, and by several threads at once."""

import ast
import sys
import threading

import pytest

from tistreamlines.kernels import growth, halves, lanes
from tistreamlines.linker import lang, rewriter
from tistreamlines.linker.rewriter import tree_of

TEXT = '''
from functools import wraps
from tistreamlines.linker.lang import *

class Place(Context):
    """Where it is."""

    {kind}: real

def doubled(function):
    """A decorator."""
    @wraps(function)
    def call(*arguments):
        return 2 * function(*arguments)
    return call

@func
def first(place: Place) -> real:
    """Return it."""
    return place.{kind}

@(
    func
)
def in_brackets(x: real) -> real:
    "Not the docstring of others."
    return x + 1.0

@func
@doubled
def wrapped(x: real) -> real:
    return x + 2.0

class Inner:
    if True:
        @func
        def within(x: real) -> real:
            return x + 3.0

short = func(lambda x: x)
'''


def returned(function):
    tree = tree_of(function)
    assert len(tree.body) == 1  # without the docstring
    return ast.unparse(tree.body[0])


def test_functions_are_found_however_they_are_written(tmp_path, monkeypatch):
    path = tmp_path / "oddly_written.py"
    path.write_text(TEXT.replace("{kind}", "x"))
    monkeypatch.syspath_prepend(tmp_path)
    written = __import__("oddly_written")
    assert returned(written.first) == "return x"
    assert [argument.arg for argument in tree_of(written.first).args.args] == ["x"]
    assert returned(written.in_brackets) == "return x + 1.0"
    assert returned(written.wrapped) == "return x + 2.0"
    assert returned(written.Inner.within) == "return x + 3.0"
    with pytest.raises(SyntaxError, match="<lambda>: its file has no such function: write it with def"):
        tree_of(written.short)


def test_modules_of_the_same_text_have_trees_of_their_own(tmp_path, monkeypatch):
    for name in ("same_one", "same_other"):
        (tmp_path / f"{name}.py").write_text(TEXT.replace("{kind}", "x"))
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("same_one", "same_other"):
        written = __import__(name)
        (parameter,) = tree_of(written.first).args.args
        assert parameter.annotation.scope is vars(written)
        assert returned(written.first) == "return x"


def test_threads_that_read_the_same_functions_get_whole_trees():
    modules = (growth, halves, lanes)
    functions = [value for module in modules for value in vars(module).values() if isinstance(value, lang.Func)]
    assert len(functions) > 40
    expected = [ast.dump(tree_of(function)) for function in functions]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for _ in range(20):
            tree_of.cache_clear(), rewriter._parsed.clear()
            begin, trees = threading.Barrier(2), dict[str, list[str]]()

            def read(name, begin=begin, trees=trees):
                begin.wait()
                trees[name] = [ast.dump(tree_of(function)) for function in functions]

            threads = [threading.Thread(target=read, args=(name,)) for name in "ab"]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert trees["a"] == trees["b"] == expected
    finally:
        sys.setswitchinterval(interval)
