"""Tables of a method from arrays in memory, without files."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from ..methods import threshold
from ..methods.given import Given, OrientationFunctions, Prepared, Signals
from ..methods.registry import METHODS
from .parameters import Parameters

Array = npt.NDArray[Any]


def prepare_arrays(
    dg: str, follows: Signals | OrientationFunctions, stop_map: Array, stop_threshold: float, seeds: Array, *,
    sphere: str | tuple[Array, Array] = "default", step_mm: float = 0.5,
    voxel_sizes: tuple[float, ...] = (1.0, 1.0, 1.0), **options: Any,
) -> Prepared:  # fmt: skip
    """Make the tables of a method.

    Parameters
    ----------
    dg : name of the method in the registry.
    follows : what it follows.
    stop_map : (x, y, z); streamlines go on where it is above ``stop_threshold``.
    seeds : (m, 3), voxel coordinates (centre of voxel = integer).
    sphere, step_mm, voxel_sizes : see :class:`tistreamlines.methods.given.Given`.
    options : others of :class:`tistreamlines.Parameters`.
    """
    stop = threshold.of_map(stop_map, stop_threshold)
    given = Given(follows, stop, seeds, sphere, step_mm, voxel_sizes)
    return METHODS[dg].prepare(given, Parameters.given({"dg": dg} | options))
