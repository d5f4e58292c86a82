"""Docstrings of the public API follow numpydoc's standard."""

from __future__ import annotations

import inspect
from enum import Enum
from importlib.util import find_spec

import pytest

import tistreamlines as ts

validate = pytest.importorskip("numpydoc.validate", reason='numpydoc is not installed: pip install ".[docs]"').validate

# Not asked for: an extended summary, See Also and Examples in each docstring; the pages in docs/ have them.
OPTIONAL = {"ES01", "SA01", "EX01"}
# The fields of Parameters are described in their definition, from which docs/options.md is made.
# An Enum's constructor is Python's own.
# track and stream list the options in their signatures, a TrackResult has its fields as attributes.
DESCRIBED_ELSEWHERE = {
    "Parameters": {"PR01"}, "TrackResult": {"PR01"}, "track": {"PR01", "PR02"}, "stream": {"PR01", "PR02"},
    "estimate": {"PR01", "PR02"}, "Estimate": {"PR01"},
} | {
    name: {"PR01"} for name in ts.__all__ if inspect.isclass(getattr(ts, name)) and issubclass(getattr(ts, name), Enum)
}

def public_names() -> list[str]:
    """Names of the public API, and of the public methods and properties that its classes define."""
    names = ["distributed.track", "distributed.track_many"] if find_spec("distributed") else []
    for name in ts.__all__:
        thing = getattr(ts, name)
        names.append(name)
        if inspect.isclass(thing):
            members = [member for member in vars(thing) if not member.startswith("_")]
            described = (property, classmethod, staticmethod)
            names += [
                f"{name}.{member}" for member in members
                if callable(getattr(thing, member)) or isinstance(vars(thing)[member], described)
            ]
    return names


def errors(name: str) -> set[str]:
    """Codes of the rules that a docstring breaks."""
    codes = {code for code, _ in validate(f"tistreamlines.{name}")["errors"]}
    return codes - OPTIONAL - DESCRIBED_ELSEWHERE.get(name, set())


def test_docstrings_follow_the_standard():
    names = public_names()
    assert len(names) > 60
    assert not {name: errors(name) for name in names if errors(name)}


def undescribed(points):
    """Return the points."""
    return points


def test_a_missing_description_is_found():
    assert {"PR01", "RT01"} <= {code for code, _ in validate(f"{__name__}.undescribed")["errors"]}
