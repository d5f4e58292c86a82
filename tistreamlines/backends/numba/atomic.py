"""Additions to integers in memory that several threads make at once, and the queue from which they take their work."""

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


@intrinsic
def claim(typingctx, queue, count):
    """Take so many items of a queue, an array of one int64: return the number of the first, which no other thread gets."""
    if queue.dtype is not types.int64 or not isinstance(count, types.Integer):
        raise TypingError("claim is for an array of one int64 and a whole number")

    def build(context, builder, sig, args):
        data = context.make_array(sig.args[0])(context, builder, args[0]).data
        taken = context.cast(builder, args[1], sig.args[1], types.int64)
        return builder.atomic_rmw("add", data, taken, "monotonic")

    return types.int64(queue, count), build


KINDS = (types.intp, types.int64)
