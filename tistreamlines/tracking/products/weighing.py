"""What products ask of the option --weights: whether streamlines are weighted, and by which weights."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from ...errors import ParameterError
from ...io.tables import load_weights

SIFT2 = "sift2"  # the weights of the product of this name
SUM_BITS, PART_BITS = 61, 30  # rounding up or down adds less than a bit
WEIGHABLE = ("connectome", "density", "ends")  # products that weigh streamlines


class WeighingOptions(Protocol):
    """Options that say by what streamlines are weighted."""

    @property
    def weights(self) -> str | None: ...

    @property
    def sift2(self) -> object: ...


def are_weighted(options: WeighingOptions) -> bool:
    """Return whether streamlines are weighted."""
    return options.weights is not None


def known_weights(options: WeighingOptions) -> npt.NDArray[np.float64] | None:
    """Return the weights of a file, (n,); None if there are none, or if they come when all streamlines have."""
    return None if options.weights in (None, SIFT2) else load_weights(options.weights)


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


def check_weights(options: WeighingOptions) -> None:
    """Raise a ParameterError if the weights of SIFT2 are asked for, but not SIFT2."""
    if options.weights == SIFT2 and options.sift2 is None:
        raise ParameterError("--weights sift2 needs --sift2 FOD FILE; a file of this name is ./sift2")
