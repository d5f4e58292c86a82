"""What keeps a process from linking the same program for each run tells programs apart as the linker does."""

from __future__ import annotations

import numpy as np
import pytest
from linked import Linked

from tistreamlines.backends.numba.dialect import dialect
from tistreamlines.backends.numba.program import NumbaProgram
from tistreamlines.linker.lang import Constant, Hole, Reals, func, i32, real
from tistreamlines.linker.link import LinkedOnce, link, link_once
from tistreamlines.linker.parts import Source

FACTOR = 2.0
OFFSET = Constant("what is added")
Change = Hole("a function of a number")


@func
def scaled(x: real):
    """A multiple of a number."""
    return FACTOR * x


@func
def halved(x: real):
    """Half of a number."""
    return 0.5 * x


@func
def changed(item: i32, out: Reals):
    """Change a number."""
    out[item] = Change(out[item]) + OFFSET


@pytest.fixture
def linked():
    """Link ``changed``; return the text, which is the linker's, and whether it was linked for that."""
    calls = []

    def counted(*arguments):
        calls.append(arguments)
        return link(*arguments)

    once = LinkedOnce(counted)

    def call(bits=32, **fill):
        before, arguments = len(calls), ([changed], dialect(bits), {"offset": 1.0, "change": scaled} | fill)
        text = once(*arguments).text
        assert text == link(*arguments).text
        return text, len(calls) > before

    return call


def test_the_same_program_is_linked_once(linked):
    (single, first), (other, again) = linked(), linked()
    assert single == other
    assert first and not again


@pytest.mark.parametrize(
    "change", [{"offset": 1}, {"offset": True}, {"offset": -0.0}, {"change": halved}, {"bits": 64}],
    ids=["integer", "truth", "negative zero", "function", "precision"],
)
def test_another_program_is_linked_anew(linked, change):
    linked()
    linked(offset=0.0)
    assert linked(**change)[1]
    assert not linked(**change)[1]


def test_what_is_changed_in_a_module_of_kernels_counts(linked, monkeypatch):
    before = linked()[0]
    for value in (3.0, 4.0):
        monkeypatch.setitem(scaled.function.__globals__, "FACTOR", value)
        text, afresh = linked()
        assert afresh and text != before
    monkeypatch.undo()
    assert linked() == (before, False)


def test_values_that_have_no_full_text_are_linked_each_time(linked):
    for _ in range(2):
        assert linked(unused=np.arange(5000))[1]


def test_programs_are_linked_by_it():
    parts = [Linked(offset=0.125, change=halved)]
    known = len(link_once._known)
    for _ in range(2):
        NumbaProgram(Source([changed], parts), threads=1)
    assert len(link_once._known) == known + 1
