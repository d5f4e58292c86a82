"""Small kernels for programs that run without Taichi's runtime."""

import numpy as np

from tistreamlines.backends.driven.program import DrivenProgram
from tistreamlines.linker.lang import Ints, Reals, func, i32, real
from tistreamlines.linker.parts import Source


@func
def tripled(item: i32, factor: real, a: Ints, out: Ints):
    """Three times a number, and the rounded factor."""
    out[item] = 3 * a[item] + i32(factor)


@func
def raised(item: i32, a: Reals, out: Reals):
    """A product and a sum that a compiler would make one operation of."""
    out[item] = a[item] * a[item] + 0.1


def codes(device, exact):
    """Numbers, and what ``raised`` makes of them on a device."""
    program = DrivenProgram(device, Source([raised]), exact=exact)
    a = np.linspace(1, 2, 999).astype(np.float32)
    values = {"a": program.array(a), "out": program.empty(999, "reals")}
    program.run("raised", 999, values)
    return a, program.host(values["out"], 999).view(np.float32)
