"""The inputs of a method and of a stopping rule, and the tables that they make."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from ...aliases import Array, GradientTable
from ...errors import InputError
from ...io.samples import Samples
from ...kernels.interpolate import Volume
from ...linker.lang import Func
from ...linker.parts import Arrays, Part, Source
from ...linker.records import Arguments, spread
from ...space.sphere import load_sphere
from ..parts import Getter, Layout, Rule


@dataclass(frozen=True, eq=False)
class Signals:
    """A diffusion series, for methods that fit the signals during tracking.

    Parameters
    ----------
    data : ndarray, (x, y, z, n)
        Signals.
    gtab : GradientTable
        DIPY's gradient table of the n volumes, with gradients along the voxel axes. The b0s may be anywhere.
    """

    data: Array
    gtab: GradientTable


@dataclass(frozen=True, eq=False)
class OrientationFunctions:
    """The orientation function of each voxel, relative to the voxel axes: an ODF, a fODF or a PMF.

    Parameters
    ----------
    kind : str
        'pmf' if the last axis holds samples at the vertices of the sphere, 'sh' if it holds coefficients, 'peaks' if it
        holds x, y, z of each peak in turn.
    values : ndarray, (x, y, z, n)
        Samples, coefficients or peaks, in any scale.
    basis : str
        Basis of coefficients, a key of :data:`tistreamlines.space.harmonics.BASES`.
    symmetric : bool
        Whether the function has the same value in opposite directions. If not, these are kept apart.
    peak_width : float
        Standard deviation of the lobe of a peak, degrees.
    """

    kind: Literal["pmf", "sh", "peaks"]
    values: Array
    basis: str = "descoteaux07_legacy"
    symmetric: bool = True
    peak_width: float = 0.0


@dataclass(frozen=True)
class Form:
    """The headers of a method's input.

    Parameters
    ----------
    kind : str
        'signals', 'samples', or a kind of :class:`OrientationFunctions`.
    count : int
        How many weighted volumes, samples, or numbers of an orientation function a voxel has.
    basis, symmetric, peak_width
        See :class:`OrientationFunctions`.
    fibres : int
        Fibres of each sample.
    gtab : GradientTable, optional
        The gradients of signals; how kernels are linked depends on their number alone.
    """

    kind: Literal["signals", "samples", "pmf", "sh", "peaks"]
    count: int
    basis: str = "descoteaux07_legacy"
    symmetric: bool = True
    peak_width: float = 0.0
    fibres: int = 0
    gtab: GradientTable | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of_series(cls, gtab: GradientTable) -> Form:
        """Return the form of a series with these gradients."""
        return cls("signals", int(np.count_nonzero(~gtab.b0s_mask)), gtab=gtab)


@dataclass(frozen=True, eq=False)
class Scheme:
    """The headers of the inputs of a method, before values are read; its kernels depend on nothing else.

    Parameters
    ----------
    form : Form
        The form of the method's input.
    rule : Rule
        The stopping rule.
    maps : int
        Number of its maps that are stored in rows.
    sphere, step_mm, voxel_sizes
        See :class:`GetterInputs`.
    """

    form: Form
    rule: Rule
    maps: int
    sphere: str | tuple[Array, Array]
    step_mm: float
    voxel_sizes: tuple[float, ...]

    @cached_property
    def vertices_and_edges(self) -> tuple[Array, Array]:
        """Vertices (v, 3) and edges (e, 2) of the sphere."""
        return load_sphere(self.sphere)


@dataclass(frozen=True, eq=False)
class StopTables:
    """A stopping rule, and the maps that it has on the grid of the tracked image.

    Parameters
    ----------
    rule : Rule
        The rule.
    channels : ndarray, (x, y, z, k), float32, or None
        Maps, stored at the end of each voxel's row and interpolated with it. None if there are none: a rule may have
        maps on another grid, in its record.
    alive : ndarray of bool, (x, y, z), or None
        A streamline can continue only at points where at least one of the eight voxels around is alive. None if it can
        continue anywhere.
    zeros_end : bool
        Whether a streamline ends where all maps are 0, as they read in voxels without a row, and whether the rule asks
        no more than whether it ends. If not, the rows around each point that is tested are needed, one step beyond
        those of the points from which streamlines continue.
    """

    rule: Rule
    channels: npt.NDArray[np.float32] | None = None
    alive: npt.NDArray[np.bool_] | None = None
    zeros_end: bool = True

    @property
    def count(self) -> int:
        """Number of maps that are stored in rows."""
        return 0 if self.channels is None else self.channels.shape[3]


@dataclass(frozen=True, eq=False)
class GetterInputs:
    """The inputs from which a method makes its tables, on one grid.

    Parameters
    ----------
    follows : Signals, OrientationFunctions or Samples
        The data that the method follows; the registry says which of them.
    stop : StopTables
        Tables of the stopping rule.
    seeds : ndarray, (m, 3), or callable
        Voxel coordinates (centre of voxel = integer) around which lie all voxels that are read at the seeds, or what
        returns them. Methods that need a row of each voxel do not ask for them.
    sphere : str or tuple of ndarray
        Key of :data:`tistreamlines.space.sphere.SPHERES`, or vertices (v, 3) and edges (e, 2).
    step_mm : float
        Step size, mm.
    voxel_sizes : tuple of float
        Sides of a voxel, mm.
    """

    follows: Signals | OrientationFunctions | Samples
    stop: StopTables
    seeds: Array | Callable[[], Array]
    sphere: str | tuple[Array, Array] = "default"
    step_mm: float = 0.5
    voxel_sizes: tuple[float, ...] = (1.0, 1.0, 1.0)

    @cached_property
    def channels(self) -> npt.NDArray[np.float32]:
        """Maps of the stopping rule on the grid, (x, y, z, k)."""
        if self.stop.channels is not None:
            return self.stop.channels
        return np.zeros((*self._shape[:3], 0), np.float32)

    @property
    def _shape(self) -> tuple[int, ...]:
        follows = self.follows
        if isinstance(follows, Samples):
            return follows.mask.shape
        return follows.data.shape if isinstance(follows, Signals) else follows.values.shape

    @cached_property
    def scheme(self) -> Scheme:
        """The headers, read before the values.

        Raises
        ------
        InputError
            If what is followed has another grid than the maps of the stopping rule.
        """
        follows, shape, grid = self.follows, self._shape, self.channels.shape[:3]
        if isinstance(follows, Signals):
            form = Form.of_series(follows.gtab)
        elif isinstance(follows, Samples):
            form = Form("samples", follows.values.shape[1], fibres=follows.values.shape[2])
        else:
            count = math.prod(shape[3:])
            form = Form(follows.kind, count, follows.basis, follows.symmetric, follows.peak_width)
        if shape[:3] != grid or (form.kind in ("pmf", "sh") and len(shape) != 4):
            what = "samples" if isinstance(follows, Samples) else "values"
            raise InputError(f"{what} are {shape}, the stop map is {grid}: give both on one grid")
        return Scheme(form, self.stop.rule, self.stop.count, self.sphere, self.step_mm, self.voxel_sizes)


@dataclass(frozen=True, eq=False)
class KernelTables:
    """A direction getter and a stopping rule with their tables: all inputs of the kernels except for the seeds.

    Parameters
    ----------
    getter, rule : Getter, Rule
        The parts.
    volume : Volume
        The rows of the voxels that they read.
    """

    getter: Getter
    rule: Rule
    volume: Volume

    @cached_property
    def values(self) -> Arguments:
        """Arrays and numbers by the name of the kernels' argument, e.g. ``volume_rows``."""
        records = {"method": self.getter.method, "stopping": self.rule.stopping, "volume": self.volume}
        spread_records = [spread(name, record) for name, record in records.items()]
        return {name: value for record in spread_records for name, value in record.items()} | {
            "seeds_most": self.getter.most_directions
        }

    @property
    def arrays(self) -> dict[str, Array]:
        """The values that are arrays."""
        return {name: value for name, value in self.values.items() if isinstance(value, np.ndarray)}

    @property
    def scalars(self) -> Arguments:
        """The values that are numbers."""
        return {name: value for name, value in self.values.items() if not isinstance(value, np.ndarray)}

    def digest(self) -> str:
        """Return the SHA-256 of all values, with reals of 32 bits, as kernels have them."""
        digest = hashlib.sha256()
        for name, value in sorted(self.values.items()):
            array = np.asarray(value)
            array = np.ascontiguousarray(array, np.float32 if array.dtype.kind == "f" else np.int64)
            digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
            digest.update(array.data)
        return digest.hexdigest()

    @property
    def scratch(self) -> Arrays:
        """Type and size of each array of team memory, by the name of the kernels' argument."""
        return Layout.of(self.getter, self.rule).scratch

    def source(self, roots: Sequence[Func], layout: Layout | None = None, parts: Sequence[Part] = ()) -> Source:
        """Return kernels that are linked with the parts, for the getter and the rule alone if no layout is given."""
        return (layout or Layout.of(self.getter, self.rule)).source(roots, parts)


# Maps of a stopping rule on another grid.
@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class MapCount(Part):
    """Number of maps on another grid, for kernels that are linked without a rule."""

    maps: int


@dataclass(frozen=True, eq=False)
class MapImage:
    """An image on another grid, as a rule's ``prepare`` receives it.

    Parameters
    ----------
    values : ndarray, (x, y, z) or (x, y, z, n), float32
        The map, or maps.
    to_grid : ndarray, (4, 4), float64
        From voxel coordinates of the tracked image (centre of voxel = integer) to those of the map.
    """

    values: npt.NDArray[np.float32]
    to_grid: Array

    @property
    def count(self) -> int:
        """Number of maps."""
        return int(np.prod(self.values.shape[3:], dtype=int))

    def fields(self) -> dict[str, Array]:
        """Return the fields of :class:`tistreamlines.kernels.lanes.MapVolume`."""
        return {
            "maps": np.ascontiguousarray(self.values, np.float32).ravel(),
            "sides": np.array(self.values.shape[:3], np.int32),
            "to_grid": self.to_grid[:3].astype(np.float32).ravel(),
        }
