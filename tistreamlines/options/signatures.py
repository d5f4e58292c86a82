"""Functions of many keywords, which are stated once: their types in a TypedDict, their defaults in a table."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Function = TypeVar("Function", bound=Callable[..., object])


def with_keywords(
    types: type, defaults: Mapping[str, object], advice: str = ""
) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """Call a function of ``**options`` with all its options, and list them in its signature.

    ``help()`` shows this signature, and notebooks complete keywords from it.

    Parameters
    ----------
    types : type
        TypedDict of the options.
    defaults : mapping
        Default of each option, in the order of the signature.
    advice : str
        The end of an error about an unknown keyword.

    Returns
    -------
    callable
        Decorator of the function. The decorated function raises a TypeError if arguments are missing or unknown.
    """

    def decorated(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        complete: Callable[..., Result] = function
        signature = inspect.signature(list_keywords(defaults, types, whole=True)(function))

        @functools.wraps(function)
        def called(*values: Arguments.args, **named: Arguments.kwargs) -> Result:
            check_keywords(function.__qualname__, named, signature.parameters, advice)
            try:
                bound = signature.bind(*values, **named)
            except TypeError as error:
                raise TypeError(f"{function.__qualname__}() {error}") from None
            bound.apply_defaults()
            return complete(**bound.arguments)

        return called

    return decorated


def list_keywords(
    keywords: Mapping[str, object], types: type | None = None, *, whole: bool = False
) -> Callable[[Function], Function]:
    """List keywords with their defaults in a function's signature, from which notebooks complete them.

    Parameters
    ----------
    keywords : dict
        Defaults of keywords that the function takes together, by name.
    types : type, optional
        TypedDict of the keywords, whose types the signature then has.
    whole : bool
        Whether these are all keywords that it takes so.
    """
    hints = {} if types is None else types.__annotations__
    added = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=default,
            annotation=getattr(hints.get(name), "__forward_arg__", inspect.Parameter.empty),
        )
        for name, default in keywords.items()
    ]

    def listed(function: Function) -> Function:
        signature = inspect.signature(function)
        *named, others = signature.parameters.values()
        arguments = [*named, *added, *([] if whole else [others])]
        function.__signature__ = signature.replace(parameters=arguments)  # type: ignore[attr-defined]
        return function

    return listed


def check_keywords(function: str, keywords: Iterable[str], known: Collection[str], advice: str = "") -> None:
    """Raise the TypeError of a function that is called with a keyword that it does not have; ``advice`` ends it."""
    if unknown := set(keywords) - set(known):
        raise TypeError(f"{function}() got an unexpected keyword argument {min(unknown)!r}{advice}")
