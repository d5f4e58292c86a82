"""Cases of a parametrized test that only the night tries."""

from collections.abc import Iterable

import pytest


def at_night(*cases: object) -> list:
    """Mark cases, each a value or a plain tuple: ``[*by_day, *at_night(...)]`` are those of a parametrization."""
    rows: Iterable[tuple] = (case if type(case) is tuple else (case,) for case in cases)
    return [pytest.param(*row, marks=pytest.mark.nightly) for row in rows]


def few_by_day(cases: Iterable[object], every: int = 3) -> list:
    """Return cases that are alike: the first of every so many by day, and all of them at night."""
    rows = list(cases)
    return [row if number % every == 0 else at_night(row)[0] for number, row in enumerate(rows)]
