"""DIPY's ``LocalTracking``, on any device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Unpack

import numpy as np
import numpy.typing as npt
from dipy.tracking.direction_getter import DirectionGetter
from dipy.tracking.stopping_criterion import StoppingCriterion

from ..aliases import Array
from ..cuslines import arrays
from ..errors import ParameterError
from ..io.in_memory import unmask
from .direction_getters import field_of
from .fields import Field
from .growing import Lengths, LocalGrowth, Streamline, Streamlines
from .keywords import Local, like_local


class LocalTracking:
    """Streamlines from seeds, with the arguments of DIPY's ``LocalTracking``.

    Iterating over the object tracks; each iteration tracks anew.

    Parameters
    ----------
    direction_getter : DirectionGetter
        One of the direction getters of :mod:`tistreamlines.dipy`.
    stopping_criterion : StoppingCriterion
        A criterion of :mod:`tistreamlines.dipy`, or a ``BinaryStoppingCriterion`` or ``ActStoppingCriterion`` of DIPY.
    seeds : ndarray, (n, 3)
        Seeds in the space of the affine.
    affine : ndarray, (4, 4)
        From voxel coordinates to the space of seeds and streamlines; without shear.
    step_size : float
        Step size, mm.
    max_cross : int or None
        Greatest number of initial directions of a seed, the highest peaks first. None is all.
    maxlen : int
        Greatest number of steps on each side of the seed, and of points if not ``return_all``.
    minlen : int
        Streamlines with fewer points are dropped if not ``return_all``.
    fixedstep : bool
        Must be True.
    return_all : bool
        Whether streamlines are returned whatever their length and their ends.
    random_seed : int or None
        RNG seed. None and 0 draw another one each time.
    save_seeds : bool
        Whether to yield pairs of streamline and seed.
    unidirectional : bool
        Whether streamlines grow only along the initial direction, so that the seed is their first point.
    randomize_forward_direction : bool
        Whether the initial direction is turned round at random. Without ``unidirectional`` it has no effect; in DIPY it
        then changes which end of a streamline comes first.
    initial_directions : ndarray, (n, k, 3), or None
        Up to k initial directions of each seed, along the voxel axes; those of length 0 are left out.
    nbr_threads : int
        CPU threads; 0 is one per core.
    **more : as for :func:`tistreamlines.dipy.probabilistic_tracking`
        Device and regions of interest.

    Raises
    ------
    ParameterError
        If an argument is out of bounds or not supported.
    InputError
        If an array has the wrong shape or values.
    DeviceError
        If the device cannot be used.

    Examples
    --------
    >>> import numpy as np
    >>> from dipy.data import default_sphere
    >>> from tistreamlines.dipy import LocalTracking, ProbabilisticDirectionGetter, ThresholdStoppingCriterion
    >>> pmf = np.tile(default_sphere.vertices[:, 0] ** 20, (20, 5, 5, 1))  # fibres along x
    >>> getter = ProbabilisticDirectionGetter.from_pmf(pmf, 30.0, default_sphere)
    >>> criterion, seeds = ThresholdStoppingCriterion(np.ones((20, 5, 5)), 0.2), np.array([[10, 2, 2], [12, 2, 2]])
    >>> for streamline in LocalTracking(getter, criterion, seeds, np.eye(4), 0.5, random_seed=1, arch="cpu"):
    ...     print(streamline.shape[1])
    3
    3
    """

    @like_local
    def __init__(
        self, direction_getter: DirectionGetter, stopping_criterion: StoppingCriterion, seeds: Array, affine: Array,
        step_size: float, **options: Unpack[Local],
    ) -> None:
        asked = SimpleNamespace(step_size=step_size, **options)
        if not asked.fixedstep:
            raise ParameterError(f"fixedstep={asked.fixedstep} is not supported: leave it at True")
        lengths = Lengths.of_local(int(asked.minlen), int(asked.maxlen), asked.return_all)
        self._streamlines = local_streamlines(
            field_of(direction_getter), stopping_criterion, seeds, affine, LocalGrowth.of(asked, lengths),
            initial_directions=asked.initial_directions, max_cross=asked.max_cross,
        )

    def __iter__(self) -> Iterator[Streamline]:
        """Track; yield the points (m, 3) of each streamline, or pairs of streamline and seed (3,)."""
        return iter(self._streamlines)


def local_streamlines(
    field: Field, sc: StoppingCriterion, seeds: Array, affine: Array, growth: LocalGrowth, *,
    initial_directions: Array | None, max_cross: int | None, name: str = "seeds",
) -> Streamlines:
    """Return the streamlines of DIPY's ``LocalTracking`` from the input of a direction getter.

    Parameters
    ----------
    field : Field
        The direction getter's input.
    sc, seeds, growth : StoppingCriterion, ndarray (n, 3), LocalGrowth
        See :class:`.growing.Streamlines`.
    affine, initial_directions, max_cross : ndarray (4, 4), ndarray (n, k, 3) or None, int or None
        See :class:`LocalTracking`.
    name : str
        The caller's name of the seeds, for errors.

    Returns
    -------
    Streamlines
        The streamlines.
    """
    space = arrays.grid(affine, field.shape, regular=True)
    points, directions = arrays.check_seeds(name, seeds, space, "rasmm"), None
    if initial_directions is None:
        field = replace(field, options={**field.options, "max_directions": max_cross})
    else:
        points, directions = spread(points, initial_directions, max_cross)
    return Streamlines(field, sc, points, space, growth, directions)


def spread(seeds: Array, directions: npt.ArrayLike, max_cross: int | None = None) -> tuple[Array, Array]:
    """Repeat each seed for each of its directions.

    Parameters
    ----------
    seeds : ndarray, (n, 3)
        Seeds.
    directions : array_like, (n, k, 3)
        Directions of each seed; those of length 0 are left out.
    max_cross : int or None
        Greatest number of directions of a seed.

    Returns
    -------
    tuple of ndarray
        Seeds (m, 3), and for each of them a unit vector (m, 3).

    Raises
    ------
    ParameterError
        If the directions are no array (n, k, 3) of finite numbers.
    """
    vectors = np.asarray(unmask("initial_directions", directions), np.float64)
    if vectors.ndim != 3 or (len(vectors), vectors.shape[2]) != seeds.shape or not np.isfinite(vectors).all():
        raise ParameterError(f"initial_directions has the shape {vectors.shape}: give directions ({len(seeds)}, k, 3)")
    norms = np.linalg.norm(vectors, axis=2)
    kept = norms > 0
    if max_cross is not None:
        kept &= np.cumsum(kept, axis=1) <= max_cross
    number, rank = np.nonzero(kept)
    return seeds[number], vectors[number, rank] / norms[number, rank, None]
