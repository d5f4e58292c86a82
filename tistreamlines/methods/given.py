"""What a method makes its tables from, and the tables that it makes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from ..kernels.interpolate import Volume
from ..kernels.lang import Record
from ..linker.records import memory, spread
from ..sphere.sphere import load_sphere

if TYPE_CHECKING:
    from dipy.core.gradients import GradientTable

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Signals:
    """A diffusion series, for methods that follow the signals themselves.

    Parameters
    ----------
    data : (x, y, z, n), signals.
    gtab : DIPY's gradient table of the n volumes, along the voxel axes; the b0s may be anywhere.
    """

    data: Array
    gtab: GradientTable


@dataclass(frozen=True, eq=False)
class OrientationFunctions:
    """An orientation function in each voxel, along the voxel axes: an ODF, a fODF or a PMF.

    Parameters
    ----------
    kind : what the last axis counts: 'pmf', samples at the sphere's vertices, or 'sh', coefficients of harmonics.
    values : (x, y, z, n), of any scale.
    basis : of coefficients, one of :data:`tistreamlines.sphere.harmonics.BASES`.
    symmetric : the function has the same value in opposite directions; if not, both senses are kept apart.
    """

    kind: Literal["pmf", "sh"]
    values: Array
    basis: str = "descoteaux07_legacy"
    symmetric: bool = True


@dataclass(frozen=True, eq=False)
class StopTables:
    """What a stopping rule makes of its maps.

    Parameters
    ----------
    record : the kernels' record of the rule.
    channels : (x, y, z, k) float32, the maps, which are interpolated with each voxel's row.
    alive : (x, y, z), voxels without which no point can be one to go on from: interpolated between others, none is.
        None where any point may be.
    fill : constants and holes that the rule's kernels are linked with, ``Stopping`` and ``classify`` among them.
    """

    record: Record
    channels: npt.NDArray[np.float32]
    alive: npt.NDArray[np.bool_] | None
    fill: dict[str, Any]

    @property
    def count(self) -> int:
        """Numbers of a voxel's row that the rule takes."""
        return self.channels.shape[3]


@dataclass(frozen=True, eq=False)
class Given:
    """All that a method makes its tables from, on one grid.

    Parameters
    ----------
    follows : signals or orientation functions, as the method's row in the registry says.
    stop : tables of the stopping rule.
    seeds : (m, 3), voxel coordinates (centre of voxel = integer) that touch every voxel that a seed touches.
    sphere : a name in :data:`tistreamlines.sphere.sphere.SPHERES`, or vertices (v, 3) and edges (e, 2).
    step_mm : step length, mm.
    voxel_sizes : sides of a voxel, mm.
    """

    follows: Signals | OrientationFunctions
    stop: StopTables
    seeds: Array
    sphere: str | tuple[Array, Array] = "default"
    step_mm: float = 0.5
    voxel_sizes: tuple[float, ...] = (1.0, 1.0, 1.0)

    @cached_property
    def vertices_and_edges(self) -> tuple[Array, Array]:
        """Vertices (v, 3) and edges (e, 2) of the sphere."""
        return load_sphere(self.sphere)


@dataclass(frozen=True, eq=False)
class Prepared:
    """Tables of a method and a stopping rule: all that the kernels take besides seeds.

    Parameters
    ----------
    method, stopping, volume : the kernels' records, filled in.
    team : the record of the method's team memory, with the size of each array in its place.
    fill : constants and holes that the kernels are linked with.
    seeds_most : greatest number of initial directions of a seed.
    shares : of team memory, which array may lie in another's, and from which element on, where memory is scarce: no
        stage uses both.
    often_read : arrays of the method, those read most first, for devices that gain by holding them in memory that a
        block's teams share.
    """

    method: Record
    stopping: Record
    volume: Volume
    team: Record
    fill: dict[str, Any]
    seeds_most: int
    shares: dict[str, tuple[str, int]]
    often_read: tuple[str, ...]

    @cached_property
    def values(self) -> dict[str, Any]:
        """Arrays and numbers by the name under which kernels take them, as ``volume_rows``."""
        records = spread("method", self.method) | spread("stopping", self.stopping) | spread("volume", self.volume)
        return records | {"seeds_most": self.seeds_most}

    @property
    def arrays(self) -> dict[str, Array]:
        """Those values that are arrays."""
        return {name: value for name, value in self.values.items() if isinstance(value, np.ndarray)}

    @property
    def scalars(self) -> dict[str, float | int]:
        """Those values that are numbers."""
        return {name: value for name, value in self.values.items() if not isinstance(value, np.ndarray)}

    @cached_property
    def scratch(self) -> dict[str, tuple[str, int]]:
        """Kind and size of each array of team memory, by the name under which kernels take it."""
        return memory("scratch", self.team)
