"""The base class of the direction getters: what a tracker needs of one."""

from __future__ import annotations

import numpy as np

from ..aliases import Array
from ..errors import ParameterError
from ..options.objects import Options
from ..options.parameters import Parameters
from ..space.batch import Space
from ..tracking.registry import METHODS
from ..tracking.tables.given import Given, OrientationFunctions, Prepared, Signals
from . import arrays


class DirectionGetter:
    """Base class of the direction getters. Its methods are called by the tracker, not by users.

    Attributes
    ----------
    name : str
        Name of the method in the registry.
    """

    name: str

    def _options(self, voxel_sizes: Array) -> Options:
        """Return this getter's options, named as in :class:`tistreamlines.Parameters`; voxel sizes (3,) are in mm."""
        raise NotImplementedError

    def _follows(self, dataf: Array, space: Space, symmetric: bool, alive: Array) -> Signals | OrientationFunctions:
        """Return what the method follows, from data (x, y, z, n) and voxels (x, y, z) above the stop threshold."""
        raise NotImplementedError

    def _check_options(self) -> None:
        """Check the options as the command line does."""
        options: Options = {"dg": self.name, "like": "dipy", **self._options(np.ones(3))}
        Parameters(**options)

    def _check_sphere(self, dataf: Array, vertices: Array, edges: Array) -> tuple[Array, Array]:
        """Return vertices (v, 3) and edges (e, 2) after checking them against each other and the data (x, y, z, n)."""
        vertices, edges = arrays.check_sphere(vertices, edges)
        arrays.check_samples(dataf, vertices)
        return vertices, edges

    def _is_symmetric(self, vertices: Array, sphere_symm: bool) -> bool:
        """Return whether the orientation function has the same value in opposite directions."""
        return arrays.is_symmetric(vertices, sphere_symm)

    def _prepare(self, given: Given, parameters: Parameters) -> Prepared:
        """Make the tables."""
        return METHODS[self.name].prepare(given, parameters)


def check_getter(dg: object) -> None:
    """Check that ``dg`` is an instance of a direction getter of this package."""
    if isinstance(dg, type):
        raise ParameterError(f"dg is the class {dg.__name__}: give an instance, {dg.__name__}(...)")
    if not isinstance(dg, DirectionGetter):
        known = "BootDirectionGetter, ProbDirectionGetter or PttDirectionGetter"
        raise ParameterError(f"dg is of the kind {type(dg).__name__}: give tistreamlines' {known}")
