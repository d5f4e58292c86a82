"""Functions that Numba makes a part of the kernel that calls them."""

import re
from dataclasses import replace

import pytest
from synthetic import boot_case

from tistreamlines.backends.numba.dialect import inlined_once
from tistreamlines.backends.numba.program import NumbaProgram
from tistreamlines.kernels import growth
from tistreamlines.tracking.parts import Layout

MODULE = """
@kernel(nogil=True)
def once(a):
    return a


@kernel(nogil=True)
def twice(a):
    return once(a)


@kernel(nogil=True)
def root(a):
    return twice(a) + twice(a)


@compiled
def run_root(a):
    root(a)
"""


def inlined(text: str) -> set[str]:
    return set(re.findall(r"@kernel\(.*forceinline=True\)\ndef (\w+)\(", text))


def test_functions_with_one_call_are_inlined():
    text = inlined_once(MODULE)
    assert inlined(text) == {"once", "root"}
    assert text.replace(", forceinline=True", "") == MODULE


@pytest.mark.parametrize("carried", [0, 3])
def test_kernels_whose_halves_carry_numbers_are_left_alone(carried):
    prepared = boot_case()
    layout = Layout.of(replace(prepared.getter, carried=carried), prepared.rule)
    program = NumbaProgram(prepared.source([growth.advance], layout), threads=1)
    names = inlined(program._functions["advance"]._text)
    assert names >= {"advance", "grow", "interpolate_row"} if carried == 0 else not names
