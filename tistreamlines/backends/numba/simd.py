"""Functions of lane values on the CPU: words, choices, reductions, the logarithm.

LLVM splits the vectors of 32 over the CPU's vector registers (:mod:`.lanes` has their type).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import njit
from numba.core import cgutils, types
from numba.extending import intrinsic

from .lanes import ELEMENTS, F4, F8, I4, I32, I64, LANES, U4, Lanes, common, compared, convert, converted, vector_type


@intrinsic
def umulhi(typingctx, a, b):
    """High word of a 64-bit product."""
    vector = isinstance(a, Lanes) or isinstance(b, Lanes)
    target = U4 if vector else types.uint32

    def build(context, builder, sig, args):
        wide = ir.VectorType(I64, LANES) if vector else I64
        words = [convert(context, builder, v, t, target) for v, t in zip(args, sig.args, strict=True)]
        product = builder.mul(*[builder.zext(w, wide) for w in words])
        shift = ir.Constant(wide, [32] * LANES if vector else 32)
        return builder.trunc(builder.lshr(product, shift), vector_type("u4") if vector else I32)

    return target(a, b), build


def _bits_as(target: Lanes, held: Lanes):
    @intrinsic
    def bits_as(typingctx, x):
        """The same bits as another type."""
        vector = isinstance(x, Lanes)

        def build(context, builder, sig, args):
            if vector:
                return builder.bitcast(convert(context, builder, args[0], x, held), vector_type(target.kind))
            return builder.bitcast(args[0], ELEMENTS[target.kind])

        return (target(x) if vector else target.scalar(held.scalar)), build

    return bits_as


bits, from_bits = _bits_as(I4, F4), _bits_as(F4, I4)


@intrinsic
def lane(typingctx):
    """0 to 31."""
    return I4(), lambda context, builder, sig, args: ir.Constant(vector_type("i4"), list(range(LANES)))


@intrinsic
def where(typingctx, condition, a, b):
    """Choose lane by lane, or between two values by one condition."""
    target = common(a, b) or (types.float32 if types.float32 in (a, b) else a)
    if isinstance(condition, Lanes) and not isinstance(target, Lanes):
        target = I4 if not isinstance(a, types.Float) else F8 if types.float64 in (a, b) else F4

    def build(context, builder, sig, args):
        values = [convert(context, builder, v, t, target) for v, t in zip(args[1:], (a, b), strict=True)]
        return builder.select(args[0], *values)

    return target(condition, a, b), build


@intrinsic
def index(typingctx, number):
    """An index that is never negative: of a signed one, Numba would test whether it counts from the end."""
    return converted(number if isinstance(number, Lanes) else types.uint64, number)


def _reduction(name: str):
    @intrinsic
    def reduce(typingctx, x):
        def build(context, builder, sig, args):
            value, width = args[0], LANES
            while width > 1:
                width //= 2
                halves = (list(range(first, first + width)) for first in (0, width))
                a, b = (builder.shuffle_vector(value, value, ir.Constant(ir.VectorType(I32, width), h)) for h in halves)
                smaller = compared(builder, x, a, b, "<")
                value = builder.select(smaller, *((a, b) if name == "min" else (b, a)))
            return builder.extract_element(value, ir.Constant(I32, 0))

        return x.scalar(x), build

    return reduce


team_min, team_max = _reduction("min"), _reduction("max")


def _of_flags(build: Callable[[ir.IRBuilder, Any], Any], result: types.Type = types.int64):
    """Return a function of flags, which is built from the word whose bits they are."""

    @intrinsic
    def flags(typingctx, condition):
        return result(condition), lambda _, builder, sig, args: build(builder, builder.bitcast(args[0], I32))

    return flags


ZERO, LAST = ir.Constant(I32, 0), ir.Constant(I32, LANES - 1)
# 1 if any lane's flag is set, else 0
team_any = _of_flags(lambda builder, word: builder.zext(builder.icmp_unsigned("!=", word, ZERO), I64))
# the number of the first lane whose flag is set, or LANES
team_first = _of_flags(lambda builder, word: builder.zext(builder.cttz(word, cgutils.false_bit), I64))
# the number of the last lane whose flag is set, or -1
team_last = _of_flags(lambda builder, word: builder.sext(builder.sub(LAST, builder.ctlz(word, cgutils.false_bit)), I64))
# the lanes' flags as the bits of a word
move_mask = _of_flags(lambda builder, word: builder.zext(word, I64), types.uint64)


@intrinsic
def team_value(typingctx, lanes, number):
    """The value of one lane."""

    def build(context, builder, sig, args):
        return builder.extract_element(args[0], context.cast(builder, args[1], number, types.int32))

    return lanes.scalar(lanes, number), build


def _function(name: str):
    @intrinsic
    def call(typingctx, x):
        scalar, kind = (x.scalar, "v32f") if isinstance(x, Lanes) else (x, "f")

        kind += str(64 if scalar == types.float64 else 32)

        def build(context, builder, sig, args):
            signature = ir.FunctionType(args[0].type, [args[0].type])
            return builder.call(cgutils.get_or_insert_function(builder.module, signature, f"{name}.{kind}"), args)

        return x(x), build

    return call


# of a real; the natural logarithm is that of the reference dialect
absolute, floor, log8 = _function("llvm.fabs"), _function("llvm.floor"), _function("llvm.log")


@intrinsic(prefer_literal=True)
def raised(typingctx, value, step):
    """Lane l gets the value of lane l - step, or 0."""

    def build(context, builder, sig, args):
        zeros = ir.Constant(vector_type(value.kind), [0.0] * LANES)
        first = LANES - step.literal_value
        numbers = ir.Constant(ir.VectorType(I32, LANES), list(range(first, first + LANES)))
        return builder.shuffle_vector(zeros, args[0], numbers)

    return value(value, step), build


@intrinsic
def trailing_zeros(typingctx, word):
    """Number of the lowest bit that is set."""

    def build(context, builder, sig, args):
        return builder.cttz(args[0], cgutils.false_bit)

    return types.uint64(types.uint64), build


@njit
def collect(items, count, marks, limit):
    """List ``l + 32 k`` for each bit k of lane l's marks."""
    n = 0
    flags = move_mask(marks != 0)  # pyright: ignore[reportCallIssue]
    while flags != 0:
        lane_number = trailing_zeros(flags)
        rest = types.uint64(team_value(marks, lane_number))
        while rest != 0 and n < limit:
            items[n] = lane_number + types.uint64(32) * trailing_zeros(rest)
            n += 1
            rest = rest & (rest - types.uint64(1))
        flags = flags & (flags - types.uint64(1))
    count[0] = n


def _extreme(symbol: str):
    @intrinsic
    def extreme(typingctx, a, b):
        target = common(a, b) or types.unliteral(typingctx.unify_types(a, b))

        def build(context, builder, sig, args):
            first, second = (context.cast(builder, v, t, target) for v, t in zip(args, sig.args, strict=True))
            return builder.select(compared(builder, target, first, second, symbol), first, second)

        return target(a, b), build

    return extreme


minimum, maximum = _extreme("<"), _extreme(">")
