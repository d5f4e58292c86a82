"""Streamlines as DIPY returns them: one by one, in the space of the affine."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from types import SimpleNamespace
from typing import TypeVar

import numpy as np
from dipy.tracking.stopping_criterion import StoppingCriterion

from ..aliases import Array
from ..cuslines import arrays
from ..errors import ParameterError
from ..options.definitions import options
from ..options.objects import Mask, Options
from ..options.parameters import Parameters
from ..run.log import Log, Watcher
from ..run.setup import devices_of, selection_of, session_on, settings_of
from ..space.batch import Space
from ..tracking.recovery.recoveries import ParticleOptions
from ..tracking.registry import METHODS
from ..tracking.tables.inputs import GetterInputs
from . import criteria
from .fields import Field
from .keywords import MORE_NAMES, REGIONS, More

Streamline = Array | tuple[Array, Array]  # points (m, 3), or these and their seed (3,)
LikeRegion = TypeVar("LikeRegion")
MOST_STEPS = 10_000  # of a half, as with max_steps


@dataclass(frozen=True)
class Lengths:
    """Bounds of the number of steps, which is one less than that of the points.

    Parameters
    ----------
    fewest, most : int, int or None
        Of an accepted streamline; None is no bound. Streamlines without a step are always dropped.
    half : int
        Greatest number of steps on one side of the seed.
    """

    fewest: int
    most: int | None
    half: int

    def __post_init__(self) -> None:
        if not 1 <= self.half <= MOST_STEPS:
            raise ParameterError(
                f"streamlines may have {self.half} steps on each side of the seed: give a greatest length of at least "
                f"two and at most {MOST_STEPS} steps"
            )

    @classmethod
    def of_tracker(cls, fewest: int, most: int, return_all: bool) -> Lengths:
        """Return the bounds of DIPY's ``TrackerParameters``, from numbers of points.

        DIPY asks its criterion at step ``most - 1`` of a half too, but never keeps this step.
        """
        return cls(fewest - 1, most - 1, most - 2 if return_all else most - 1)

    @classmethod
    def of_local(cls, fewest: int, most: int, return_all: bool) -> Lengths:
        """Return the bounds of DIPY's ``LocalTracking``, from numbers of points."""
        if fewest > most:
            raise ParameterError(f"the least number of points is {fewest}, the greatest {most}: give least <= greatest")
        return cls(0, None, most) if return_all else cls(fewest - 1, most - 1, most)


def points_of(step_size: float, least: float, greatest: float) -> tuple[int, int]:
    """Return the numbers of points that DIPY makes of two lengths, mm: the lengths divided by the step size, mm."""
    if not step_size > 0:
        raise ParameterError(f"step_size is {step_size}: give a length above 0, mm")
    return int(least / step_size), int(greatest / step_size)


@dataclass(frozen=True)
class LocalGrowth:
    """How and where streamlines are grown, and which of them are returned.

    Parameters
    ----------
    lengths : Lengths
        Bounds of the number of steps.
    step_size : float
        Step size, mm.
    more : More
        Keywords that DIPY does not have.
    particles : ParticleOptions or None
        Options of particle filtering, see :func:`.criteria.tables_of`; None is tracking without it.
    voxel_size : array_like, (3,), or None
        Sides of a voxel, mm; None is those of the affine.
    unidirectional : bool
        Whether streamlines grow only along the initial direction, not also backward.
    randomize_forward_direction : bool
        Whether streamlines of one way go along the initial direction or opposite to it, at random.
    return_all : bool
        Whether streamlines with invalid ends are returned.
    save_seeds : bool
        Whether pairs of streamline and seed are returned.
    nbr_threads : int
        CPU threads; 0 is one per core.
    random_seed : int or None
        RNG seed. None and 0 draw another one each time, as in DIPY.
    seed_buffer_fraction : float
        Greatest share of the seeds that are tracked at a time, above 0 to 1.
    """

    lengths: Lengths
    step_size: float
    more: More
    particles: ParticleOptions | None = None
    voxel_size: Array | None = None
    unidirectional: bool = False
    randomize_forward_direction: bool = False
    return_all: bool = True
    save_seeds: bool = False
    nbr_threads: int = 0
    random_seed: int | None = None
    seed_buffer_fraction: float = 1.0

    @classmethod
    def of(cls, asked: SimpleNamespace, lengths: Lengths, particles: ParticleOptions | None = None) -> LocalGrowth:
        """Take the values of those of a function's keywords that are named like fields."""
        same = {row.name: getattr(asked, row.name) for row in fields(cls) if hasattr(asked, row.name)}
        more: More = {}
        for name in MORE_NAMES:
            more[name] = getattr(asked, name)
        return cls(**same, lengths=lengths, more=more, particles=particles)

    def __post_init__(self) -> None:
        if not 0 < self.seed_buffer_fraction <= 1:
            raise ParameterError(f"seed_buffer_fraction is {self.seed_buffer_fraction}: give a share in (0, 1]")
        seed = self.random_seed
        if seed is not None and not (isinstance(seed, int | np.integer) and 0 <= seed < 2**64):
            raise ParameterError(f"random_seed is {seed!r}: give a whole number from 0 to 2**64 - 1")

    def options(self, seeds: int, space: Space) -> Options:
        """Return the options of a run with a number of seeds on a grid."""
        chunk = None if self.seed_buffer_fraction == 1 else max(1, int(np.ceil(seeds * self.seed_buffer_fraction)))
        options: Options = {
            "like": "dipy", "step_size": float(self.step_size), "max_steps": self.lengths.half,
            "one_way": self.unidirectional, "threads": max(self.nbr_threads, 0) or None, "chunk_size": chunk,
            **self.more,
        }
        for name in REGIONS:
            regions = options.get(name)
            several = isinstance(regions, list | tuple)
            # pyrefly: ignore[bad-assignment]  # to it, `get` of one of several names returns an object
            options[name] = [_locate(region, space) for region in regions] if several else _locate(regions, space)
        return options

    def rng_seed(self) -> int:
        """Return the RNG seed of the next run."""
        return int(self.random_seed or 0) or secrets.randbits(63)


def _locate(region: LikeRegion, space: Space) -> LikeRegion | Mask:
    """Return a region, with the affine of the data if it is an array (x, y, z)."""
    return Mask(region, space.affine) if isinstance(region, np.ndarray) and region.ndim == 3 else region


class Streamlines:
    """Streamlines that are grown when they are iterated over, each time anew.

    Parameters
    ----------
    field : Field
        The input of the direction getter.
    sc : StoppingCriterion
        See :func:`.criteria.tables_of`.
    seeds : ndarray, (n, 3)
        Seeds in the space of the affine.
    space : Space
        Voxel grid of the data, with the affine.
    growth : LocalGrowth
        How and where they are grown.
    directions : ndarray, (n, 3), or None
        Initial direction of each seed, a unit vector along the voxel axes. None is the highest peaks at the seed.
    """

    def __init__(
        self, field: Field, sc: StoppingCriterion, seeds: Array, space: Space, growth: LocalGrowth,
        directions: Array | None = None,
    ) -> None:
        sides = arrays.sides_of(growth.voxel_size, space)
        options: Options = {"dg": field.dg, **field.options, **growth.options(len(seeds), space)}
        parameters = Parameters(**options)
        if growth.particles is not None:
            _check_regions(parameters)
        self._parameters, self._devices = parameters, devices_of(parameters)
        step_size, lengths = float(growth.step_size), growth.lengths
        settings = settings_of(parameters, parameters.step_mm(sides), lengths.fewest, lengths.most)
        self._growth, self._settings = growth, replace(settings, either_sense=growth.randomize_forward_direction)
        self._seeds, self._voxels, self._directions = seeds, space.to_voxel(seeds), directions
        stop = criteria.tables_of(sc, space.shape, step_size, growth.particles, sides)
        inputs = GetterInputs(field.follows, stop, self._voxels, field.sphere, step_size, sides)
        self._prepared = METHODS[field.dg].prepare(inputs, parameters)
        # Streamlines grow in mm along the voxel axes, so that voxel_size need not be that of the affine.
        scale = np.diag([*sides, 1.0])
        self._grid, self._outward = Space(scale, space.shape), Space(space.affine @ np.linalg.inv(scale), space.shape)
        selection = replace(selection_of(parameters, Log(Watcher())), valid_ends=not growth.return_all)
        self._filters = selection.filters(space)

    def __iter__(self) -> Iterator[Streamline]:
        """Grow the streamlines; yield the points (m, 3) of each, float64, or pairs of these and the seed (3,)."""
        settings = replace(self._settings, rng_seed=self._growth.rng_seed())
        with session_on(self._devices, self._parameters) as session:
            engine = session.open(self._prepared, self._grid, settings, self._filters)
            for batch in engine.track(self._voxels, directions=self._directions):
                points = self._outward.to_ras(batch.points)
                for number, first, end in zip(batch.seed_number, batch.offsets, batch.offsets[1:], strict=False):
                    # a copy, so that one streamline that is kept does not keep the whole batch in memory
                    streamline = points[first:end].copy()
                    yield (streamline, self._seeds[number].copy()) if self._growth.save_seeds else streamline


def _check_regions(parameters: Parameters) -> None:
    """Raise a ParameterError if regions are given that particles do not heed."""
    for name in options()["pft"].excludes:
        if parameters.gives(name):
            raise ParameterError(f"{name} does not go with particle filtering: leave it out")
