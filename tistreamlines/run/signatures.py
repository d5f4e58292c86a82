"""Signatures of functions that take many keywords together, as ``help()`` and notebooks show them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar

Function = TypeVar("Function", bound=Callable[..., object])


def listing(keywords: Mapping[str, object], *, whole: bool = False) -> Callable[[Function], Function]:
    """List keywords with their defaults in a function's signature, from which notebooks complete them.

    Parameters
    ----------
    keywords : dict
        Defaults of keywords that the function takes together, by name.
    whole : bool
        Whether these are all keywords that it takes so.
    """

    def listed(function: Function) -> Function:
        signature = inspect.signature(function)
        *named, others = signature.parameters.values()
        added = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=v) for name, v in keywords.items()]
        arguments = [*named, *added, *([] if whole else [others])]
        function.__signature__ = signature.replace(parameters=arguments)  # type: ignore[attr-defined]
        return function

    return listed


def check_keywords(function: str, keywords: Iterable[str], known: Collection[str]) -> None:
    """Raise the TypeError of a function that is called with a keyword that it does not have."""
    if unknown := set(keywords) - set(known):
        raise TypeError(f"{function}() got an unexpected keyword argument {min(unknown)!r}")
