"""Additions to integers in memory that several threads make at once."""

from __future__ import annotations

from numba.core import types
from numba.core.errors import TypingError
from numba.extending import intrinsic

from .lanes import I32


@intrinsic
def add(typingctx, array, index, value):
    """Add to an element of an int32 array, undivided by other threads."""
    if array.dtype is not types.int32 or not isinstance(index, types.Integer) or not isinstance(value, types.Integer):
        raise TypingError("add is for one whole number in an array of them")

    def build(context, builder, sig, args):
        place, term = (context.cast(builder, v, t, k) for v, t, k in zip(args[1:], sig.args[1:], KINDS, strict=True))
        data = context.make_array(sig.args[0])(context, builder, args[0]).data
        # the order of additions does not matter, and nothing else is read by it
        builder.atomic_rmw("add", builder.gep(data, [place]), builder.trunc(term, I32), "monotonic")
        return context.get_dummy_value()

    return types.void(array, index, value), build


KINDS = (types.intp, types.int64)
