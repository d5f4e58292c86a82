"""What products ask of the option --weights: whether streamlines are weighted, and by which weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import ParameterError
from ...io.weights import load_weights

SIFT2 = "sift2"  # the weights of the product of this name
WEIGHABLE = ("connectome", "density", "ends")  # products that weigh streamlines


def are_weighted(options: Any) -> bool:
    """Return whether streamlines are weighted."""
    return getattr(options, "weights", None) is not None


def known_weights(options: Any) -> npt.NDArray[np.float64] | None:
    """Return the weights of a file, (n,); None if there are none, or if they come when all streamlines have."""
    return load_weights(options.weights) if are_weighted(options) and options.weights != SIFT2 else None


def check_weights(options: Any) -> None:
    """Raise a ParameterError if the weights of SIFT2 are asked for, but not SIFT2."""
    if are_weighted(options) and options.weights == SIFT2 and getattr(options, "sift2", None) is None:
        raise ParameterError("--weights sift2 needs --sift2 FOD FILE; a file of this name is ./sift2")
