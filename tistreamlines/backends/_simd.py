"""Lane values for Numba: vectors of 32 that LLVM splits over whatever vector registers the CPU has.

A lane value is an LLVM vector <32 x T>.  Its operations are plain IEEE ones, lane by lane, so the result does not
depend on the width of the hardware.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit
from numba.core import cgutils, types
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, lower_cast, models, overload, register_model

LANES = 32
I1, I32, I64 = ir.IntType(1), ir.IntType(32), ir.IntType(64)
ELEMENTS = {"f4": ir.FloatType(), "f8": ir.DoubleType(), "i4": I32, "u4": I32, "mask": I1}


class Lanes(types.Type):
    """Numba's type of a lane value; ``kind`` is f4, f8, i4, u4 or mask."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        super().__init__(name=f"Lanes({kind})")

    @property
    def real(self) -> bool:
        return self.kind in ("f4", "f8")


F4, F8, I4, U4, MASK = (Lanes(k) for k in ELEMENTS)


@register_model(Lanes)
class _Model(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Lanes) -> None:
        super().__init__(dmm, fe_type, ir.VectorType(ELEMENTS[fe_type.kind], LANES))


def _vector(kind: str) -> ir.VectorType:
    return ir.VectorType(ELEMENTS[kind], LANES)


def _splat(builder: ir.IRBuilder, value: Any) -> Any:
    undefined = ir.Constant(ir.VectorType(value.type, LANES), ir.Undefined)
    one = builder.insert_element(undefined, value, ir.Constant(I32, 0))
    return builder.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(I32, LANES), [0] * LANES))


def _convert(context: Any, builder: ir.IRBuilder, value: Any, source: Any, target: Lanes) -> Any:
    """A scalar in every lane, or lanes of one kind as another."""
    scalar = {"f4": types.float32, "f8": types.float64, "i4": types.int32, "u4": types.uint32, "mask": types.boolean}
    if not isinstance(source, Lanes):
        return _splat(builder, context.cast(builder, value, source, scalar[target.kind]))
    if source.kind == target.kind or {source.kind, target.kind} == {"i4", "u4"}:
        return value
    if source.real and target.real:
        return (builder.fpext if target.kind == "f8" else builder.fptrunc)(value, _vector(target.kind))
    if target.real:
        return (builder.uitofp if source.kind == "u4" else builder.sitofp)(value, _vector(target.kind))
    return builder.fptosi(value, _vector(target.kind))


@lower_cast(types.Number, Lanes)
@lower_cast(types.Boolean, Lanes)
def _cast(context, builder, source, target, value):
    return _convert(context, builder, value, source, target)


def _common(a: Any, b: Any) -> Lanes | None:
    """Kind of an operation on two values, at least one of them a lane value."""
    kinds = [x for x in (a, b) if isinstance(x, Lanes)]
    if not kinds:
        return None
    if len(kinds) == 2 and kinds[0].kind != kinds[1].kind:
        return next(k for k in (F8, F4, U4, I4) if k in kinds)
    other = b if isinstance(a, Lanes) else a
    if kinds[0].kind == "i4" and isinstance(other, types.Integer) and not other.signed:
        return U4
    return kinds[0]


def _register(op: Any, build: Any, compares: bool = False) -> None:
    class Template(AbstractTemplate):
        key = op

        def generic(self, args, kws):
            common = _common(*args) if len(args) == 2 else None
            return common and signature(MASK if compares else common, common, common)

    infer_global(op)(Template)

    @lower_builtin(op, Lanes, Lanes)
    def _lower(context, builder, sig, args):
        return build(builder, sig.args[0], *args)


def _arithmetic(real: str, whole: str):
    return lambda builder, kind, a, b: getattr(builder, real if kind.real else whole)(a, b)


def _shift_right(builder, kind, a, b):
    return builder.lshr(a, b) if kind.kind == "u4" else builder.ashr(a, b)


def _comparison(symbol: str):
    def build(builder, kind, a, b):
        if kind.real:
            return (builder.fcmp_unordered if symbol == "!=" else builder.fcmp_ordered)(symbol, a, b)
        return (builder.icmp_unsigned if kind.kind == "u4" else builder.icmp_signed)(symbol, a, b)

    return build


for _op, _real, _whole in (
    (operator.add, "fadd", "add"), (operator.sub, "fsub", "sub"), (operator.mul, "fmul", "mul"),
    (operator.and_, "and_", "and_"), (operator.or_, "or_", "or_"), (operator.xor, "xor", "xor"),
    (operator.lshift, "shl", "shl"),
):  # fmt: skip
    _register(_op, _arithmetic(_real, _whole))
_register(operator.rshift, _shift_right)
for _op, _symbol in (
    (operator.lt, "<"), (operator.le, "<="), (operator.gt, ">"), (operator.ge, ">="), (operator.eq, "=="), (operator.ne, "!="),
):  # fmt: skip
    _register(_op, _comparison(_symbol), compares=True)


@infer_global(operator.neg)
class _Negation(AbstractTemplate):
    def generic(self, args, kws):
        return signature(args[0], args[0]) if isinstance(args[0], Lanes) else None


@lower_builtin(operator.neg, Lanes)
def _negate(context, builder, sig, args):
    return builder.fneg(args[0]) if sig.args[0].real else builder.neg(args[0])


def _converter(real_kind: str):
    """The intrinsics whose result depends on the face's precision."""
    real_lanes = F4 if real_kind == "f4" else F8
    scalar = types.float32 if real_kind == "f4" else types.float64

    @intrinsic
    def lanes(typingctx, x):
        target = real_lanes if isinstance(x, types.Float) else I4 if x.signed else U4

        def build(context, builder, sig, args):
            return _convert(context, builder, args[0], x, target)

        return target(x), build

    @intrinsic
    def real(typingctx, x):
        target = real_lanes if isinstance(x, Lanes) else scalar

        def build(context, builder, sig, args):
            if isinstance(x, Lanes):
                return _convert(context, builder, args[0], x, target)
            return context.cast(builder, args[0], x, target)

        return target(x), build

    return lanes, real


lanes4, real4 = _converter("f4")
lanes8, real8 = _converter("f8")


def _to_int(kind: str, scalar: Any):
    @intrinsic
    def convert(typingctx, x):
        target = Lanes(kind) if isinstance(x, Lanes) else scalar

        def build(context, builder, sig, args):
            if isinstance(x, Lanes):
                return _convert(context, builder, args[0], x, target)
            return context.cast(builder, args[0], x, target)

        return target(x), build

    return convert


i32 = _to_int("i4", types.int64)
u32 = _to_int("u4", types.uint32)


@intrinsic
def umulhi(typingctx, a, b):
    """High word of a 64-bit product."""
    vector = isinstance(a, Lanes) or isinstance(b, Lanes)
    target = U4 if vector else types.uint32

    def build(context, builder, sig, args):
        wide = ir.VectorType(I64, LANES) if vector else I64
        words = [
            _convert(context, builder, v, t, U4) if vector else context.cast(builder, v, t, types.uint32)
            for v, t in zip(args, sig.args, strict=True)
        ]
        product = builder.mul(*[builder.zext(w, wide) for w in words])
        shift = ir.Constant(wide, [32] * LANES if vector else 32)
        return builder.trunc(builder.lshr(product, shift), _vector("u4") if vector else I32)

    return target(a, b), build


@intrinsic
def bits(typingctx, x):
    """The bits of a float32."""
    if isinstance(x, Lanes):
        return I4(x), lambda context, builder, sig, args: builder.bitcast(args[0], _vector("i4"))
    return types.int32(types.float32), lambda context, builder, sig, args: builder.bitcast(args[0], I32)


@intrinsic
def from_bits(typingctx, x):
    """The float32 that has these bits."""
    if isinstance(x, Lanes):
        return F4(x), lambda context, builder, sig, args: builder.bitcast(args[0], _vector("f4"))
    return types.float32(types.int32), lambda context, builder, sig, args: builder.bitcast(args[0], ir.FloatType())


@intrinsic
def lane(typingctx):
    """0 to 31."""
    return I4(), lambda context, builder, sig, args: ir.Constant(_vector("i4"), list(range(LANES)))


@intrinsic
def where(typingctx, condition, a, b):
    """Choose lane by lane, or between two values by one condition."""
    target = _common(a, b) or (types.float32 if types.float32 in (a, b) else a)
    if isinstance(condition, Lanes) and not isinstance(target, Lanes):
        target = F4 if isinstance(a, types.Float) else I4

    def build(context, builder, sig, args):
        values = [
            _convert(context, builder, v, t, target) if isinstance(target, Lanes) else context.cast(builder, v, t, target)
            for v, t in zip(args[1:], (a, b), strict=True)
        ]
        return builder.select(args[0], *values)

    return target(condition, a, b), build


def _pointer(context, builder, array_type, array, index):
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(data, [index])


def _element(array: types.Array) -> Lanes:
    return {types.float32: F4, types.float64: F8, types.int32: I4}[array.dtype]


@intrinsic
def at(typingctx, array, start):
    """32 neighbours from ``start`` on."""
    target = _element(array)

    def build(context, builder, sig, args):
        pointer = _pointer(context, builder, array, args[0], context.cast(builder, args[1], start, types.intp))
        loaded = builder.load(builder.bitcast(pointer, _vector(target.kind).as_pointer()))
        loaded.align = 4
        return loaded

    return target(array, start), build


@intrinsic
def put(typingctx, array, start, value):
    """Write 32 neighbours."""
    target = _element(array)

    def build(context, builder, sig, args):
        pointer = _pointer(context, builder, array, args[0], context.cast(builder, args[1], start, types.intp))
        vector = _convert(context, builder, args[2], value, target)
        builder.store(vector, builder.bitcast(pointer, _vector(target.kind).as_pointer())).align = 4
        return context.get_dummy_value()

    return types.void(array, start, value), build


@intrinsic
def take(typingctx, array, index):
    """Read at 32 places."""
    target = _element(array)

    def build(context, builder, sig, args):
        data = context.make_array(array)(context, builder, args[0]).data
        result = ir.Constant(_vector(target.kind), ir.Undefined)
        for k in range(LANES):
            place = builder.zext(builder.extract_element(args[1], ir.Constant(I32, k)), I64)
            value = builder.load(builder.gep(data, [place]))
            result = builder.insert_element(result, value, ir.Constant(I32, k))
        return result

    return target(array, index), build


def make_spread(pattern: tuple[int, ...]):
    """``spread`` for one pattern of offsets: a few scalar loads, each put into its lanes."""

    @intrinsic
    def spread(typingctx, array, start):
        target = _element(array)

        def build(context, builder, sig, args):
            first = context.cast(builder, args[1], start, types.intp)
            result = None
            for offset in sorted(set(pattern)):
                place = builder.add(first, ir.Constant(I64, offset))
                value = _splat(builder, builder.load(_pointer(context, builder, array, args[0], place)))
                if result is None:
                    result = value
                else:
                    mask = ir.Constant(_vector("mask"), [int(p == offset) for p in pattern])
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
def log8(typingctx, x):
    """Natural logarithm in float64, for the face that is a reference."""

    def build(context, builder, sig, args):
        log = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.DoubleType(), [ir.DoubleType()]), "llvm.log.f64"
        )
        if not isinstance(x, Lanes):
            return builder.call(log, args)
        result = ir.Constant(_vector("f8"), ir.Undefined)
        for k in range(LANES):
            place = ir.Constant(I32, k)
            result = builder.insert_element(result, builder.call(log, [builder.extract_element(args[0], place)]), place)
        return result

    return x(x), build


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


@intrinsic
def pick(typingctx, lanes, number):
    """The value of one lane."""

    def build(context, builder, sig, args):
        return builder.extract_element(args[0], builder.trunc(args[1], I32))

    return types.int32(lanes, types.uint64), build


@njit
def collect(items, count, marks, limit):
    """List ``l + 32 k`` for each bit k of lane l's marks."""
    n = 0
    flags = move_mask(marks != 0)
    while flags != 0:
        lane_number = trailing_zeros(flags)
        rest = types.uint64(pick(marks, lane_number))
        while rest != 0 and n < limit:
            items[n] = lane_number + types.uint64(32) * trailing_zeros(rest)
            n += 1
            rest = rest & (rest - types.uint64(1))
        flags = flags & (flags - types.uint64(1))
    count[0] = n


def minimum(a, b):
    """Smaller of two (a face's function; see the overload)."""


def maximum(a, b):
    """Larger of two."""


def absolute(x):
    """Absolute value."""


def floor(x):
    """Largest whole number not above, as a real."""


@overload(minimum)
def _minimum(a, b):
    if _common(a, b):
        return lambda a, b: where(a < b, a, b)
    return lambda a, b: a if a < b else b


@overload(maximum)
def _maximum(a, b):
    if _common(a, b):
        return lambda a, b: where(a > b, a, b)
    return lambda a, b: a if a > b else b


@overload(absolute)
def _absolute(x):
    if isinstance(x, Lanes):
        return lambda x: where(x < 0, -x, x)
    return lambda x: abs(x)


@overload(floor)
def _floor(x):
    return lambda x: np.floor(x)
