"""The kernel of :mod:`.directed`, which loads a copy of this file, hence the whole name of a module.

Before this text comes ``encode_directions`` of ``kernels/getters/shared.py``.
"""

import math

from tistreamlines.backends.numba.compiler import compiled


@compiled
def code_directions(directions, seeds, shape, unit, single, code, codes, bad):
    """Find the codes of directions, -1 where a seed is outside the image, and the first one that is no unit vector.

    ``unit`` is how far a length may be from 1; ``single`` and ``code`` are memory.
    """
    across, deep, high = shape[0] - 0.5, shape[1] - 0.5, shape[2] - 0.5
    for i in range(codes.shape[0]):
        x, y, z = directions[i, 0], directions[i, 1], directions[i, 2]
        if not abs(math.sqrt(x * x + y * y + z * z) - 1.0) <= unit:
            bad[0] = min(bad[0], i)
        single[0], single[1], single[2] = x, y, z
        encode_directions(0, single, code)  # noqa: F821  (in the text before)
        x, y, z = seeds[i, 0], seeds[i, 1], seeds[i, 2]
        inside = -0.5 <= x < across and -0.5 <= y < deep and -0.5 <= z < high
        codes[i] = code[0] if inside else -1
