"""Tables of a method from arrays in memory, with the options of a run."""

from __future__ import annotations

from ..aliases import Array
from ..options.parameters import Parameters
from ..tracking.registry import METHODS
from ..tracking.stopping import threshold
from ..tracking.tables.inputs import GetterInputs, KernelTables, OrientationFunctions, Signals


def prepare_arrays(
    dg: str, follows: Signals | OrientationFunctions, stop_map: Array, stop_threshold: float, seeds: Array, *,
    sphere: str | tuple[Array, Array] = "default", step_mm: float = 0.5,
    voxel_sizes: tuple[float, ...] = (1.0, 1.0, 1.0), **options: object,
) -> KernelTables:
    """Make the tables of a method.

    Parameters
    ----------
    dg : str
        Name of the method in the registry.
    follows : Signals or OrientationFunctions
        The data that the method follows.
    stop_map : ndarray, (x, y, z)
        Streamlines end where this map is at or below ``stop_threshold``.
    stop_threshold : float
        Threshold, in the unit of ``stop_map``.
    seeds : ndarray, (m, 3)
        Seeds in voxel coordinates (centre of voxel = integer).
    sphere, step_mm, voxel_sizes : see GetterInputs
        See :class:`tistreamlines.tracking.tables.inputs.GetterInputs`.
    **options : object
        Other options of :class:`tistreamlines.Parameters`; the defaults are DIPY's.

    Returns
    -------
    KernelTables
        The tables.

    Raises
    ------
    TrackingError
        If an option is invalid, or the data do not fit the sphere, the stop map or the options.
    """
    stop = threshold.of_map(stop_map, stop_threshold)
    data = GetterInputs(follows, stop, seeds, sphere, step_mm, voxel_sizes)
    return METHODS[dg].prepare(data, Parameters.given({"dg": dg, "like": "dipy"} | options))
