"""Memory on the CPU: what lanes read and write, and what several threads add to at once, as the queue of their work."""

from __future__ import annotations

import operator

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.core.typing.templates import infer_global, signature
from numba.extending import intrinsic, lower_builtin

from .lanes import F4, F8, I4, I32, I64, LANES, First, Lanes, convert, splat, vector_type

LANES_OF: dict[types.Type, Lanes] = {types.float32: F4, types.float64: F8, types.int32: I4}


def _element(array: types.Array) -> Lanes:
    return LANES_OF[array.dtype]


def _data(context, builder, sig, args):
    """Return the address of the first element of an array, the first argument."""
    return context.make_array(sig.args[0])(context, builder, args[0]).data


def _start(context, builder, sig, args):
    """Return the number of an element, the second argument."""
    return context.cast(builder, args[1], sig.args[1], types.intp)


def _row(context, builder, sig, args):
    """Return the address of 32 consecutive elements."""
    place = builder.gep(_data(context, builder, sig, args), [_start(context, builder, sig, args)])
    return builder.bitcast(place, vector_type(_element(sig.args[0]).kind).as_pointer())


def _places(context, builder, sig, args):
    """Yield the number of each lane and the address of the element whose number it has."""
    data = _data(context, builder, sig, args)
    for lane in range(LANES):
        number = ir.Constant(I32, lane)
        yield number, builder.gep(data, [builder.zext(builder.extract_element(args[1], number), I64)])


@intrinsic
def at(typingctx, array, start):
    """Read 32 consecutive elements."""
    return _element(array)(array, start), lambda *build: build[1].load(_row(*build), align=4)


@intrinsic
def put(typingctx, array, start, value):
    """Write 32 consecutive elements."""

    def build(context, builder, sig, args):
        vector = convert(context, builder, args[2], value, _element(array))
        builder.store(vector, _row(context, builder, sig, args), align=4)
        return context.get_dummy_value()

    return types.void(array, start, value), build


@intrinsic
def prefetch(typingctx, array, start):
    """Ask the processor's caches for 32 consecutive elements, which fill lines of 64 bytes."""

    def build(context, builder, sig, args):
        data, number = _data(context, builder, sig, args), _start(context, builder, sig, args)
        pointer = ir.IntType(8).as_pointer()
        ask = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.VoidType(), [pointer, I32, I32, I32]), "llvm.prefetch.p0"
        )
        how = [ir.Constant(I32, value) for value in (0, 3, 1)]  # to read, soon, data
        for first in range(0, LANES, 64 // (array.dtype.bitwidth // 8)):
            place = builder.gep(data, [builder.add(number, ir.Constant(I64, first))])
            builder.call(ask, [builder.bitcast(place, pointer), *how])
        return context.get_dummy_value()

    return types.void(array, start), build


@lower_builtin(operator.getitem, types.Array, Lanes)
def _take(context, builder, sig, args):
    result = ir.Constant(vector_type(_element(sig.args[0]).kind), ir.Undefined)
    for number, place in _places(context, builder, sig, args):
        result = builder.insert_element(result, builder.load(place), number)
    return result


@lower_builtin(operator.setitem, types.Array, Lanes, types.Any)
def _scatter(context, builder, sig, args):
    vector = convert(context, builder, args[2], sig.args[2], _element(sig.args[0]))
    for number, place in _places(context, builder, sig, args):
        builder.store(builder.extract_element(vector, number), place)
    return context.get_dummy_value()


@intrinsic
def take(typingctx, array, index):
    """Read one element for each lane."""
    return _element(array)(array, index), _take


class _Indexing(First):
    """``array[index]`` and ``array[index] = value`` with an index in each lane; lane 0 writes first."""

    def generic(self, args, kws):
        array, index, *values = args
        if isinstance(array, types.Array) and isinstance(index, Lanes):
            return signature(types.none if values else _element(array), *args)
        return None


for _operator in (operator.getitem, operator.setitem):
    infer_global(_operator)(_Indexing)  # pyright: ignore[reportOptionalCall]


def make_spread(pattern: tuple[int, ...]):
    """Make ``spread`` for one pattern of offsets: a few scalar loads, each copied to its lanes."""

    @intrinsic
    def spread(typingctx, array, start):
        def build(context, builder, sig, args):
            data, first = _data(context, builder, sig, args), _start(context, builder, sig, args)
            result = None
            for offset in sorted(set(pattern)):
                place = builder.gep(data, [builder.add(first, ir.Constant(I64, offset))])
                value = splat(builder, builder.load(place))
                if result is None:
                    result = value
                else:
                    mask = ir.Constant(vector_type("mask"), [int(p == offset) for p in pattern])
                    result = builder.select(mask, value, result)
            return result

        return _element(array)(array, start), build

    return spread


@intrinsic
def add(typingctx, array, index, value):
    """Add to an element of an int32 array, undivided by other threads."""
    if array.dtype is not types.int32 or not isinstance(index, types.Integer) or not isinstance(value, types.Integer):
        raise TypingError("add is for one whole number in an array of them")

    def build(context, builder, sig, args):
        place = builder.gep(_data(context, builder, sig, args), [_start(context, builder, sig, args)])
        term = builder.trunc(context.cast(builder, args[2], value, types.int64), I32)
        builder.atomic_rmw("add", place, term, "monotonic")  # the order does not matter, and nothing else is read by it
        return context.get_dummy_value()

    return types.void(array, index, value), build


@intrinsic
def claim(typingctx, queue, count):
    """Take so many items of a queue, an array of one int64: return the number of the first, which no other thread gets."""
    if queue.dtype is not types.int64 or not isinstance(count, types.Integer):
        raise TypingError("claim is for an array of one int64 and a whole number")

    def build(context, builder, sig, args):
        taken = context.cast(builder, args[1], count, types.int64)
        return builder.atomic_rmw("add", _data(context, builder, sig, args), taken, "monotonic")

    return types.int64(queue, count), build
