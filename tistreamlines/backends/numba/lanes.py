"""The Numba type of a lane value, an LLVM vector <32 x T>, with its casts, operators and conversions.

All operations are IEEE operations on each lane, so results do not depend on the width of the CPU's vectors.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, lower_cast, models, register_model

LANES = 32
I1, I32, I64 = ir.IntType(1), ir.IntType(32), ir.IntType(64)
ELEMENTS = {"f4": ir.FloatType(), "f8": ir.DoubleType(), "i4": I32, "u4": I32, "mask": I1}
SCALARS = {"f4": types.float32, "f8": types.float64, "i4": types.int32, "u4": types.uint32, "mask": types.boolean}


class Lanes(types.Type):
    """Numba's type of a lane value; ``kind`` is f4, f8, i4, u4 or mask."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        super().__init__(name=f"Lanes({kind})")

    @property
    def real(self) -> bool:
        return self.kind in ("f4", "f8")

    @property
    def scalar(self) -> types.Type:
        """The type of the value of one lane."""
        return SCALARS[self.kind]


F4, F8, I4, U4, MASK = (Lanes(k) for k in ELEMENTS)


@register_model(Lanes)
class _Model(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Lanes) -> None:
        super().__init__(dmm, fe_type, ir.VectorType(ELEMENTS[fe_type.kind], LANES))


def vector_type(kind: str) -> ir.VectorType:
    return ir.VectorType(ELEMENTS[kind], LANES)


def splat(builder: ir.IRBuilder, value: Any) -> Any:
    undefined = ir.Constant(ir.VectorType(value.type, LANES), ir.Undefined)
    first = builder.insert_element(undefined, value, ir.Constant(I32, 0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(I32, LANES), [0] * LANES))


def convert(context: Any, builder: ir.IRBuilder, value: Any, source: Any, target: types.Type) -> Any:
    """A scalar in every lane, lanes of one kind as another, or a scalar as another."""
    if not isinstance(target, Lanes):
        return context.cast(builder, value, source, target)
    if not isinstance(source, Lanes):
        return splat(builder, context.cast(builder, value, source, target.scalar))
    if source.kind == target.kind or {source.kind, target.kind} == {"i4", "u4"}:
        return value
    if source.real and target.real:
        return (builder.fpext if target.kind == "f8" else builder.fptrunc)(value, vector_type(target.kind))
    if target.real:
        return (builder.uitofp if source.kind == "u4" else builder.sitofp)(value, vector_type(target.kind))
    return builder.fptosi(value, vector_type(target.kind))


@lower_cast(types.Number, Lanes)
@lower_cast(types.Boolean, Lanes)
def _cast(context, builder, source, target, value):
    return convert(context, builder, value, source, target)


def common(a: Any, b: Any) -> Lanes | None:
    """Kind of an operation on two values, at least one of them a lane value."""
    kinds = [x for x in (a, b) if isinstance(x, Lanes)]
    if not kinds:
        return None
    if len(kinds) == 2 and kinds[0].kind != kinds[1].kind:
        return next(k for k in (F8, F4, U4, I4) if k in kinds)
    other = b if isinstance(a, Lanes) else a
    if kinds[0].kind == "i4" and isinstance(other, types.Integer) and not getattr(other, "signed", True):
        return U4
    return kinds[0]


TARGET = {"target": "cpu"}


class First(AbstractTemplate):
    """A typing rule of an operator that Numba tries before the dozen of its own."""

    metadata = TARGET


def _register(op: Any, build: Any, compares: bool = False) -> None:
    class Template(First):
        key = op

        def generic(self, args, kws):
            both = common(*args) if len(args) == 2 else None
            return both and signature(MASK if compares else both, both, both)

    infer_global(op)(Template)  # pyright: ignore[reportOptionalCall]

    @lower_builtin(op, Lanes, Lanes)
    def _lower(context, builder, sig, args):
        return build(builder, sig.args[0], *args)


def _arithmetic(real: str, whole: str, words: str):
    names = {"f4": real, "f8": real, "u4": words}
    return lambda builder, kind, a, b: getattr(builder, names.get(kind.kind, whole))(a, b)


def compared(builder: ir.IRBuilder, kind: types.Type, a: Any, b: Any, symbol: str) -> Any:
    """Compare two values of a kind, scalars or lanes."""
    scalar = kind.scalar if isinstance(kind, Lanes) else kind
    if isinstance(scalar, types.Float):
        return (builder.fcmp_unordered if symbol == "!=" else builder.fcmp_ordered)(symbol, a, b)
    return (builder.icmp_signed if getattr(scalar, "signed", True) else builder.icmp_unsigned)(symbol, a, b)


for _op, *_names in (
    (operator.add, "fadd", "add", "add"), (operator.sub, "fsub", "sub", "sub"), (operator.mul, "fmul", "mul", "mul"),
    (operator.and_, "", "and_", "and_"), (operator.or_, "", "or_", "or_"), (operator.xor, "", "xor", "xor"),
    (operator.lshift, "", "shl", "shl"), (operator.rshift, "", "ashr", "lshr"),
):
    _register(_op, _arithmetic(*_names))
for _op, _symbol in (
    (operator.lt, "<"), (operator.le, "<="), (operator.gt, ">"), (operator.ge, ">="), (operator.eq, "=="), (operator.ne, "!="),
):
    _register(_op, partial(compared, symbol=_symbol), compares=True)


@infer_global(operator.neg)  # pyright: ignore[reportOptionalCall]
class _Negation(First):
    def generic(self, args, kws):
        return signature(args[0], args[0]) if isinstance(args[0], Lanes) else None


@lower_builtin(operator.neg, Lanes)
def _negate(context, builder, sig, args):
    return builder.fneg(args[0]) if sig.args[0].real else builder.neg(args[0])


def converted(target: types.Type, x: types.Type):
    """Return what an intrinsic returns that converts its argument: its signature, and what builds it."""
    return target(x), lambda context, builder, sig, args: convert(context, builder, args[0], x, target)


def _conversion(target: Callable[[Any], types.Type]):
    @intrinsic
    def conversion(typingctx, x):
        return converted(target(x), x)

    return conversion


# the same value in every lane; reals in the dialect's precision
lanes4, lanes8 = (_conversion(lambda x, r=r: r if isinstance(x, types.Float) else I4 if x.signed else U4) for r in (F4, F8))
# a lane value or a scalar as another type
real4, real8, i32, u32 = (
    _conversion(lambda x, kind=kind, scalar=scalar: kind if isinstance(x, Lanes) else scalar)
    for kind, scalar in ((F4, types.float32), (F8, types.float64), (I4, types.int64), (U4, types.uint32))
)
