"""Results that a device still computes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

Kept = TypeVar("Kept")


@dataclass(frozen=True, eq=False, repr=False)
class Transfer(Generic[Kept]):
    """Results that a device still computes.

    Parameters
    ----------
    wait : waits for it and returns it; it may be called once.
    is_there : whether the device is done with it.
    """

    wait: Callable[[], Kept]
    is_there: Callable[[], bool] = lambda: True
