"""The keywords that the functions of this package have beside DIPY's: devices and regions of interest."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

import numpy as np

from ..option import listed
from ..options.objects import Mask, Sphere
from ..options.parameters import defaults
from ..space.batch import Space

if TYPE_CHECKING:
    from ..option import ImageLike, OneOrMore

    RegionLike = OneOrMore[ImageLike | Mask | Sphere]

Function = TypeVar("Function", bound=Callable[..., Any])


class More(TypedDict, total=False):
    """Options of :class:`tistreamlines.Parameters`. Arrays of regions are on the grid of the data."""

    arch: str
    devices: str | None
    include: RegionLike | None
    include_ordered: RegionLike | None
    exclude: RegionLike | None
    limit_mask: RegionLike | None
    ends_in: RegionLike | None
    stop_when_included: bool


def with_more(function: Function) -> Function:
    """List the keywords in the signature, for ``help()`` and for notebooks, which complete keywords from it."""
    signature, known = inspect.signature(function), defaults()
    own = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
    added = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=known[name]) for name in names()]
    function.__signature__ = signature.replace(parameters=[*own, *added])  # type: ignore[attr-defined]
    return function


def names() -> list[str]:
    """Return the names of the keywords."""
    return list(More.__annotations__)


def checked(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keywords without those of None; one of another name is a TypeError."""
    for name in given:
        if name not in names():
            raise TypeError(f"got an unexpected keyword argument {name!r}; besides DIPY's, there are {listed(names())}")
    return {name: value for name, value in given.items() if value is not None}


def located(given: Mapping[str, Any], space: Space) -> dict[str, Any]:
    """Return the keywords with the affine of the data for the arrays (x, y, z) among the regions."""

    def one(value: Any) -> Any:
        return Mask(value, space.affine) if isinstance(value, np.ndarray) and value.ndim == 3 else value

    return {name: list(map(one, some)) if isinstance(some, list | tuple) else one(some) for name, some in given.items()}
