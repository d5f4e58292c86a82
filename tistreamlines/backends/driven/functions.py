"""Functions of a driver, through ctypes."""

from __future__ import annotations

import ctypes as c
from collections.abc import Callable, Collection, Mapping

# of parameters: p is a pointer or a handle that is one, q another handle, an address or a size, u a 32-bit number
LETTERS = {"p": c.c_void_p, "q": c.c_uint64, "u": c.c_uint32}


def functions_of(
    library: c.CDLL, table: Mapping[str, str], quick: tuple[str, ...], long: Collection[str] = ()
) -> dict[str, Callable[..., int]]:
    """Return functions by name, from handles of the library that others do not use.

    Parameters
    ----------
    table : letters of the parameters of each, see LETTERS.
    quick : functions, or how their names begin, that return at once. They are called without releasing Python's lock:
        whoever releases it has to wait until the threads that lay points out give it back.
    long : those that return 64 bits, not a code.
    """
    usual, holding, functions = c.CDLL(library._name), c.PyDLL(library._name), {}
    for name, letters in table.items():
        functions[name] = function = getattr(holding if name.startswith(quick) else usual, name)
        function.argtypes = [LETTERS[letter] for letter in letters]
        if name in long:
            function.restype = c.c_uint64
    return functions
