"""Codes of directions: points of a grid on the octahedron around the sphere (Meyer et al. 2010), to within 1.3e-4 radians.

The octahedron unfolds into a plane, where a point has two coordinates of HALF bits.
"""

from __future__ import annotations

from ...linker.lang import *
from ...linker.maths import floored, reciprocal_root
from ..lanes import normalised

HALF = 15  # bits of a coordinate on the octahedron
EDGE = 16383  # its greatest value: the grid has a point on each axis, and is the same in opposite directions
SPACING = 1 / 16383


@func
def folded(x: real, y: real) -> real:
    """First coordinate of a point of the octahedron's lower half, folded outwards into the plane, or back."""
    return where(x < 0.0, absolute(y) - 1.0, 1.0 - absolute(y))


@func
def encoded(d: vec3) -> i32:
    """Code of a direction."""
    scale = reciprocal_root((absolute(d[0]) + absolute(d[1])) + absolute(d[2]))
    x = d[0] * (scale * scale)
    y = d[1] * (scale * scale)
    i = i32(floored(real(EDGE) * where(d[2] < 0.0, folded(x, y), x) + 0.5)) + EDGE
    j = i32(floored(real(EDGE) * where(d[2] < 0.0, folded(y, x), y) + 0.5)) + EDGE
    return (minimum(maximum(i, 0), 2 * EDGE) << HALF) | minimum(maximum(j, 0), 2 * EDGE)


@func
def decoded(code: i32) -> vec3:
    """Direction of a code."""
    x = real((code >> HALF) - EDGE) * SPACING
    y = real((code & ((1 << HALF) - 1)) - EDGE) * SPACING
    z = (1.0 - absolute(x)) - absolute(y)
    return normalised(vec3(where(z < 0.0, folded(x, y), x), where(z < 0.0, folded(y, x), y), z))


@func
def encode_directions(item: i32, directions: Reals, codes: Ints):
    """Codes of given directions, whose x, y and z follow each other."""
    codes[item] = encoded(vec3(directions[3 * item], directions[3 * item + 1], directions[3 * item + 2]))
