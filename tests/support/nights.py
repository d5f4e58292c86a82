"""Cases of a parametrized test that only the night tries."""

from collections.abc import Iterable

import pytest


def at_night(*cases: object) -> list:
    """Mark cases, each a value or a tuple of values: ``[*by_day, *at_night(...)]`` are those of a parametrization."""
    rows: Iterable[tuple] = (case if isinstance(case, tuple) else (case,) for case in cases)
    return [pytest.param(*row, marks=pytest.mark.nightly) for row in rows]
