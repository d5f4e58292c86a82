"""Functions of lane values on the CPU: words, memory, choices, reductions, the logarithm.

LLVM splits the vectors of 32 over the CPU's vector registers (:mod:`.lanes` has their type).
"""

from __future__ import annotations

import operator

from llvmlite import ir
from numba import njit
from numba.core import cgutils, types
from numba.core.typing.templates import infer_global, signature
from numba.extending import intrinsic, lower_builtin

from .lanes import ELEMENTS, F4, F8, I4, I32, I64, LANES, U4, First, Lanes, common, convert, splat, vector_type


@intrinsic
def umulhi(typingctx, a, b):
    """High word of a 64-bit product."""
    vector = isinstance(a, Lanes) or isinstance(b, Lanes)
    target = U4 if vector else types.uint32

    def build(context, builder, sig, args):
        wide = ir.VectorType(I64, LANES) if vector else I64
        words = [
            convert(context, builder, v, t, U4) if vector else context.cast(builder, v, t, types.uint32)
            for v, t in zip(args, sig.args, strict=True)
        ]
        product = builder.mul(*[builder.zext(w, wide) for w in words])
        shift = ir.Constant(wide, [32] * LANES if vector else 32)
        return builder.trunc(builder.lshr(product, shift), vector_type("u4") if vector else I32)

    return target(a, b), build


def _bits_as(kind: str, target: types.Type, held: Lanes, source: types.Type):
    @intrinsic
    def bits_as(typingctx, x):
        """The same bits as another type."""
        vector = isinstance(x, Lanes)

        def build(context, builder, sig, args):
            if vector:
                return builder.bitcast(convert(context, builder, args[0], x, held), vector_type(kind))
            return builder.bitcast(args[0], ELEMENTS[kind])

        return (Lanes(kind)(x) if vector else target(source)), build

    return bits_as


bits = _bits_as("i4", types.int32, F4, types.float32)
from_bits = _bits_as("f4", types.float32, I4, types.int32)


@intrinsic
def lane(typingctx):
    """0 to 31."""
    return I4(), lambda context, builder, sig, args: ir.Constant(vector_type("i4"), list(range(LANES)))


@intrinsic
def where(typingctx, condition, a, b):
    """Choose lane by lane, or between two values by one condition."""
    target = common(a, b) or (types.float32 if types.float32 in (a, b) else a)
    if isinstance(condition, Lanes) and not isinstance(target, Lanes):
        target = F4 if isinstance(a, types.Float) else I4

    def build(context, builder, sig, args):
        values = [
            convert(context, builder, v, t, target) if isinstance(target, Lanes) else context.cast(builder, v, t, target)
            for v, t in zip(args[1:], (a, b), strict=True)
        ]
        return builder.select(args[0], *values)

    return target(condition, a, b), build


@intrinsic
def index(typingctx, number):
    """An index that is never negative: of a signed one, Numba would test whether it counts from the end."""
    target = number if isinstance(number, Lanes) else types.uint64
    return target(number), lambda context, builder, sig, args: context.cast(builder, args[0], number, target)


def _pointer(context, builder, array_type, array, index):
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(data, [index])


def _element(array: types.Array) -> Lanes:
    return {types.float32: F4, types.float64: F8, types.int32: I4}[array.dtype]


@intrinsic
def at(typingctx, array, start):
    """Read 32 consecutive elements."""
    target = _element(array)

    def build(context, builder, sig, args):
        pointer = _pointer(context, builder, array, args[0], context.cast(builder, args[1], start, types.intp))
        loaded = builder.load(builder.bitcast(pointer, vector_type(target.kind).as_pointer()))
        loaded.align = 4
        return loaded

    return target(array, start), build


@intrinsic
def prefetch(typingctx, array, start):
    """Ask the processor's caches for 32 consecutive elements, which fill lines of 64 bytes."""

    def build(context, builder, sig, args):
        number, pointer = context.cast(builder, args[1], start, types.intp), ir.IntType(8).as_pointer()
        ask = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.VoidType(), [pointer, I32, I32, I32]), "llvm.prefetch.p0"
        )
        to_read, soon, data = (ir.Constant(I32, value) for value in (0, 3, 1))
        line = 64 // (array.dtype.bitwidth // 8)
        for first in range(0, LANES, line):
            place = _pointer(context, builder, array, args[0], builder.add(number, ir.Constant(I64, first)))
            builder.call(ask, [builder.bitcast(place, pointer), to_read, soon, data])
        return context.get_dummy_value()

    return types.void(array, start), build


@intrinsic
def put(typingctx, array, start, value):
    """Write 32 consecutive elements."""
    target = _element(array)

    def build(context, builder, sig, args):
        pointer = _pointer(context, builder, array, args[0], context.cast(builder, args[1], start, types.intp))
        vector = convert(context, builder, args[2], value, target)
        builder.store(vector, builder.bitcast(pointer, vector_type(target.kind).as_pointer())).align = 4
        return context.get_dummy_value()

    return types.void(array, start, value), build


@lower_builtin(operator.getitem, types.Array, Lanes)
def _take(context, builder, sig, args):
    data = context.make_array(sig.args[0])(context, builder, args[0]).data
    result = ir.Constant(vector_type(_element(sig.args[0]).kind), ir.Undefined)
    for k in range(LANES):
        place = builder.zext(builder.extract_element(args[1], ir.Constant(I32, k)), I64)
        value = builder.load(builder.gep(data, [place]))
        result = builder.insert_element(result, value, ir.Constant(I32, k))
    return result


@lower_builtin(operator.setitem, types.Array, Lanes, types.Any)
def _scatter(context, builder, sig, args):
    array, _, value = sig.args
    data = context.make_array(array)(context, builder, args[0]).data
    vector = convert(context, builder, args[2], value, _element(array))
    for k in range(LANES):
        number = ir.Constant(I32, k)
        place = builder.zext(builder.extract_element(args[1], number), I64)
        builder.store(builder.extract_element(vector, number), builder.gep(data, [place]))
    return context.get_dummy_value()


@intrinsic
def take(typingctx, array, index):
    """Read one element for each lane."""
    return _element(array)(array, index), _take


@infer_global(operator.getitem)  # pyright: ignore[reportOptionalCall]
class _Taking(First):
    """``array[index]`` with an index in each lane."""

    def generic(self, args, kws):
        array, index = args
        lanes = isinstance(array, types.Array) and isinstance(index, Lanes)
        return signature(_element(array), array, index) if lanes else None


@infer_global(operator.setitem)  # pyright: ignore[reportOptionalCall]
class _Scattering(First):
    """``array[index] = value`` with an index in each lane; lane 0 writes first."""

    def generic(self, args, kws):
        array, index, value = args
        lanes = isinstance(array, types.Array) and isinstance(index, Lanes)
        return signature(types.none, array, index, value) if lanes else None


def make_spread(pattern: tuple[int, ...]):
    """Make ``spread`` for one pattern of offsets: a few scalar loads, each copied to its lanes."""

    @intrinsic
    def spread(typingctx, array, start):
        target = _element(array)

        def build(context, builder, sig, args):
            first = context.cast(builder, args[1], start, types.intp)
            result = None
            for offset in sorted(set(pattern)):
                place = builder.add(first, ir.Constant(I64, offset))
                value = splat(builder, builder.load(_pointer(context, builder, array, args[0], place)))
                if result is None:
                    result = value
                else:
                    mask = ir.Constant(vector_type("mask"), [int(p == offset) for p in pattern])
                    result = builder.select(mask, value, result)
            return result

        return target(array, start), build

    return spread


def _reduction(name: str):
    @intrinsic
    def reduce(typingctx, x):
        target = {"f4": types.float32, "f8": types.float64, "i4": types.int32}[x.kind]

        def build(context, builder, sig, args):
            value, width = args[0], LANES
            undefined = ir.Constant(value.type, ir.Undefined)
            while width > 1:
                width //= 2
                low = ir.Constant(ir.VectorType(I32, width), list(range(width)))
                high = ir.Constant(ir.VectorType(I32, width), list(range(width, 2 * width)))
                a, b = (builder.shuffle_vector(value, undefined, half) for half in (low, high))
                smaller = builder.fcmp_ordered("<", a, b) if x.real else builder.icmp_signed("<", a, b)
                value = builder.select(smaller, *((a, b) if name == "min" else (b, a)))
                undefined = ir.Constant(value.type, ir.Undefined)
            return builder.extract_element(value, ir.Constant(I32, 0))

        return target(x), build

    return reduce


team_min = _reduction("min")
team_max = _reduction("max")


@intrinsic
def team_any(typingctx, condition):
    """1 if any lane's flag is set, else 0."""

    def build(context, builder, sig, args):
        flags = builder.bitcast(args[0], I32)
        return builder.zext(builder.icmp_unsigned("!=", flags, ir.Constant(I32, 0)), I64)

    return types.int64(condition), build


@intrinsic
def team_first(typingctx, condition):
    """Number of the first lane whose flag is set, or LANES."""

    def build(context, builder, sig, args):
        return builder.zext(builder.cttz(builder.bitcast(args[0], I32), cgutils.false_bit), I64)

    return types.int64(condition), build


@intrinsic
def team_last(typingctx, condition):
    """Number of the last lane whose flag is set, or -1."""

    def build(context, builder, sig, args):
        before = builder.ctlz(builder.bitcast(args[0], I32), cgutils.false_bit)
        return builder.sext(builder.sub(ir.Constant(I32, LANES - 1), before), I64)

    return types.int64(condition), build


@intrinsic
def team_value(typingctx, lanes, number):
    """The value of one lane."""
    target = {"f4": types.float32, "f8": types.float64, "i4": types.int32}[lanes.kind]

    def build(context, builder, sig, args):
        return builder.extract_element(args[0], context.cast(builder, args[1], number, types.int32))

    return target(lanes, number), build


@intrinsic
def log8(typingctx, x):
    """Natural logarithm in float64, for the reference dialect."""

    def build(context, builder, sig, args):
        log = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.DoubleType(), [ir.DoubleType()]), "llvm.log.f64"
        )
        if not isinstance(x, Lanes):
            return builder.call(log, args)
        result = ir.Constant(vector_type("f8"), ir.Undefined)
        for k in range(LANES):
            place = ir.Constant(I32, k)
            result = builder.insert_element(result, builder.call(log, [builder.extract_element(args[0], place)]), place)
        return result

    return x(x), build


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
def move_mask(typingctx, mask):
    """The lanes' flags as the bits of a word."""

    def build(context, builder, sig, args):
        return builder.zext(builder.bitcast(args[0], I32), I64)

    return types.uint64(mask), build


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


def _extreme(symbol: str, meaning: str):
    @intrinsic
    def extreme(typingctx, a, b):
        target = common(a, b) or types.unliteral(typingctx.unify_types(a, b))

        def build(context, builder, sig, args):
            first, second = (context.cast(builder, v, t, target) for v, t in zip(args, sig.args, strict=True))
            return builder.select(_compared(builder, symbol, target, first, second), first, second)

        return target(a, b), build

    extreme.__doc__ = meaning
    return extreme


def _compared(builder, symbol: str, kind, a, b):
    if isinstance(kind, types.Float) or (isinstance(kind, Lanes) and kind.real):
        return builder.fcmp_ordered(symbol, a, b)
    signed = kind.kind != "u4" if isinstance(kind, Lanes) else kind.signed
    return (builder.icmp_signed if signed else builder.icmp_unsigned)(symbol, a, b)


minimum = _extreme("<", "Smaller of two.")
maximum = _extreme(">", "Larger of two.")


@intrinsic
def absolute(typingctx, x):
    """Absolute value of a real."""

    def build(context, builder, sig, args):
        if not isinstance(x, Lanes):
            return builder.call(builder.module.declare_intrinsic("llvm.fabs", [args[0].type]), args)
        negative = builder.fcmp_ordered("<", args[0], ir.Constant(args[0].type, [0.0] * LANES))
        return builder.select(negative, builder.fneg(args[0]), args[0])

    return x(x), build


@intrinsic
def floor(typingctx, x):
    """Largest whole number not above ``x``, as a real."""

    def build(context, builder, sig, args):
        return builder.call(builder.module.declare_intrinsic("llvm.floor", [args[0].type]), args)

    return x(x), build
