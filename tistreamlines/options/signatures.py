"""Functions whose keywords are stated once: their types in a TypedDict, their defaults in a table."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


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
        What an error about an unknown keyword ends with.

    Returns
    -------
    callable
        Decorator of the function. The decorated function raises a TypeError if arguments are missing or unknown.
    """
    annotations = {name: getattr(hint, "__forward_arg__", hint) for name, hint in types.__annotations__.items()}
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotations[name])
        for name, default in defaults.items()
    ]

    def decorated(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        complete: Callable[..., Result] = function
        bare = inspect.signature(function)
        arguments = [argument for argument in bare.parameters.values() if argument.kind is not argument.VAR_KEYWORD]
        signature = bare.replace(parameters=[*arguments, *options])

        @functools.wraps(function)
        def called(*values: Arguments.args, **named: Arguments.kwargs) -> Result:
            try:
                bound = signature.bind(*values, **named)
            except TypeError as error:
                unknown = named.keys() - signature.parameters.keys()
                raise TypeError(f"{function.__qualname__}() {error}{advice if unknown else ''}") from None
            bound.apply_defaults()
            return complete(**bound.arguments)

        called.__dict__["__signature__"] = signature
        return called

    return decorated
