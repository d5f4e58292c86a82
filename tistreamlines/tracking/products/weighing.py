"""What products ask of the option --weights."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ...errors import ParameterError

SIFT2 = "sift2"  # the weights of the product of this name
SUM_BITS, PART_BITS = 61, 30  # rounding up or down adds less than a bit
WEIGHABLE = ("connectome", "density", "ends")  # products that weigh streamlines


def weight_unit(weights: npt.NDArray[np.float64], greatest: float = 1.0) -> float:
    """Return by how much weights times some values are multiplied to be whole numbers, a power of two.

    Sums of these then have at most 62 bits, whatever is summed in which order.

    Parameters
    ----------
    weights : (n,) from 0 on, of all streamlines.
    greatest : the greatest size of the values.
    """
    most = float(weights.max(initial=0))
    if not most > 0 or not greatest > 0:
        return 1.0
    exponent = int(np.frexp(most)[1])
    # parts of a power of two that no weight exceeds, rounded up: their sum does not depend on the order
    parts = np.ceil(np.ldexp(weights, PART_BITS - exponent)).astype(np.int64)
    bits = int(parts.sum()).bit_length() - PART_BITS + exponent + int(np.frexp(greatest)[1])
    return 2.0 ** (SUM_BITS - bits)


def check_weights(weights: str | None, sift2: object) -> None:
    """Raise a ParameterError if the weights of SIFT2 are asked for, but not SIFT2."""
    if weights == SIFT2 and sift2 is None:
        raise ParameterError("--weights sift2 needs --sift2 FOD FILE; a file of this name is ./sift2")
