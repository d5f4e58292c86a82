"""Streamlines, and the image space they lie in, on their way from the tracker to the files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, overload

import numpy as np
import numpy.typing as npt

from ..aliases import Vector

PER_STREAMLINE = ("seeds", "seed_number", "direction_number", "stop_reasons")
DATA = ("data_per_streamline", "data_per_point")
MOST_POINTS = 1 << 24  # of a streamline in a file; one with more comes of damage


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of streamlines, such as one for each node of a parcellation.

    Parameters
    ----------
    names : tuple of str
        Name of each group.
    numbers : (n, k) int32
        The groups that each of n streamlines belongs to: numbers from 1 on, in the order of the names, and 0 for none.
    """

    names: tuple[str, ...]
    numbers: npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class WholeLengths:
    """Lengths of streamlines with all their points, of which a batch has fewer.

    Parameters
    ----------
    points : (n,) int64
        Number of points of each streamline.
    units : (n,) int32
        Length of each streamline, in 2^-16 mm.
    """

    points: npt.NDArray[np.int64]
    units: npt.NDArray[np.int32]

    def __getitem__(self, rows: npt.NDArray) -> WholeLengths:
        """Return those of some streamlines."""
        return WholeLengths(self.points[rows], self.units[rows])


@dataclass(frozen=True, eq=False, repr=False)
class Batch:
    """Finished streamlines, one after another in one array of points; a sequence of ``(n, 3)`` arrays.

    ``len(batch)`` counts the streamlines, ``batch[i]`` is the points of one, and a slice or an array of indices gives a
    batch of those.

    Parameters
    ----------
    points : (p, 3) float32, RASmm
        Points of all streamlines, each from its backward end to its forward end.
    offsets : (n + 1,) int64
        Streamline ``i`` is ``points[offsets[i]:offsets[i + 1]]``. Files of other programs have some without points.
    seeds : (n, 3) float32, RASmm
        Seed point of each streamline.
    seed_number : (n,) uint32
        Index of the seed among all seeds of the run.
    direction_number : (n,) uint16
        Index of the initial direction among those of the seed.
    stop_reasons : (n, 2) uint8
        Why the backward and the forward half stopped: see ``kernels/stop_reasons.py``.
    data_per_streamline, data_per_point : mapping of str to ndarray, (n,) and (p,) float32
        Values sampled along the streamlines, by name.
    groups : tuple of Groups
        Which groups the streamlines belong to.
    whole : WholeLengths, optional
        Lengths of the whole streamlines, if points between their ends were left out.

    Raises
    ------
    ValueError
        If an array has the wrong shape. Arrays of another type are converted.

    Examples
    --------
    Two streamlines along x, of two and of three points:

    >>> import numpy as np
    >>> import tistreamlines as ts
    >>> points = np.array([[0, 0, 0], [1, 0, 0], [0, 5, 0], [1, 5, 0], [2, 5, 0]])
    >>> batch = ts.Batch(
    ...     points=points, offsets=[0, 2, 5], seeds=points[[0, 3]], seed_number=[0, 1], direction_number=[0, 0],
    ...     stop_reasons=np.full((2, 2), ts.Stop.OUTSIDE_IMAGE),
    ... )
    >>> len(batch), batch.lengths.tolist(), batch.longest_step
    (2, [2, 3], 1.0)
    >>> batch[1].tolist()
    [[0.0, 5.0, 0.0], [1.0, 5.0, 0.0], [2.0, 5.0, 0.0]]
    """

    points: npt.NDArray[np.float32]
    offsets: npt.NDArray[np.int64]
    seeds: npt.NDArray[np.float32]
    seed_number: npt.NDArray[np.uint32]
    direction_number: npt.NDArray[np.uint16]
    stop_reasons: npt.NDArray[np.uint8]
    data_per_streamline: Mapping[str, npt.NDArray[np.float32]] = field(default_factory=dict, kw_only=True)
    data_per_point: Mapping[str, npt.NDArray[np.float32]] = field(default_factory=dict, kw_only=True)
    groups: tuple[Groups, ...] = field(default=(), kw_only=True)
    whole: WholeLengths | None = field(default=None, kw_only=True)
    has_points: ClassVar[bool] = True

    def __post_init__(self) -> None:
        offsets = np.ascontiguousarray(self.offsets, np.int64)
        if offsets.ndim != 1 or len(offsets) == 0 or offsets[0] != 0:
            raise ValueError(f"offsets must be a 1-D array that starts with 0, not {offsets.shape}")
        if np.any(np.diff(offsets) < 0):
            raise ValueError("offsets must not fall")
        object.__setattr__(self, "offsets", offsets)
        n = len(offsets) - 1
        self._shape("points", np.float32, (int(offsets[-1]) if self.has_points else 0, 3))
        self._shape("seeds", np.float32, (n, 3))
        self._shape("seed_number", np.uint32, (n,))
        self._shape("direction_number", np.uint16, (n,))
        self._shape("stop_reasons", np.uint8, (n, 2))
        if self.whole is not None and {*map(len, (self.whole.points, self.whole.units))} != {n}:
            raise ValueError(f"whole must have lengths of {n} streamlines")
        for name, count in zip(DATA, (n, len(self.points)), strict=True):
            arrays = getattr(self, name)
            data = {key: _check_shape(key, array, np.float32, (count,)) for key, array in arrays.items()}
            object.__setattr__(self, name, data)

    def _shape(self, name: str, dtype: type, shape: tuple[int, ...]) -> None:
        object.__setattr__(self, name, _check_shape(name, getattr(self, name), dtype, shape))

    def __len__(self) -> int:
        """Return the number of streamlines."""
        return len(self.offsets) - 1

    def __iter__(self) -> Iterator[npt.NDArray[np.float32]]:
        """Iterate over the points of each streamline, ``(n, 3)`` float32, RASmm."""
        return (self[i] for i in range(len(self)))

    @overload
    def __getitem__(self, index: int | np.integer) -> npt.NDArray[np.float32]: ...
    @overload
    def __getitem__(self, index: slice | npt.NDArray) -> Batch: ...
    def __getitem__(self, index: int | np.integer | slice | npt.NDArray) -> npt.NDArray[np.float32] | Batch:
        """Return the points of one streamline, ``(n, 3)`` float32, RASmm, or a batch of several streamlines."""
        rows = np.arange(len(self))[index]
        if rows.ndim == 0:
            return self.points[self.offsets[rows] : self.offsets[rows + 1]]
        lengths = self.lengths[rows]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        points, data = self.points, self.data_per_point
        if self.has_points:
            places = np.repeat(self.offsets[rows] - offsets[:-1], lengths) + np.arange(offsets[-1])
            points, data = points[places], {name: values[places] for name, values in data.items()}
        others = (getattr(self, name)[rows] for name in PER_STREAMLINE)
        of_rows = {name: values[rows] for name, values in self.data_per_streamline.items()}
        groups = tuple(Groups(kind.names, kind.numbers[rows]) for kind in self.groups)
        whole = None if self.whole is None else self.whole[rows]
        return type(self)(
            points, offsets, *others, data_per_streamline=of_rows, data_per_point=data, groups=groups, whole=whole
        )

    def __repr__(self) -> str:
        """Return the numbers of streamlines and points in one line."""
        return f"<Batch of {len(self):,} streamlines, {len(self.points):,} points>"

    @classmethod
    def concatenate(cls, batches: Iterable[Batch]) -> Batch:
        """Join batches into one.

        Parameters
        ----------
        batches : iterable of Batch
            Any number of batches.

        Returns
        -------
        Batch
            Their streamlines, in the same order, with their values, groups and whole lengths.

        Raises
        ------
        ValueError
            If only some of them know whole lengths, or if they have other kinds of groups.
        """
        parts = [cls(np.empty((0, 3)), [0], np.empty((0, 3)), [], [], np.empty((0, 2))), *batches]  # type: ignore[arg-type]
        offsets = np.cumsum(np.concatenate([[0], *(part.lengths for part in parts)]))
        names = ("points", *PER_STREAMLINE)
        points, *others = (np.concatenate([getattr(part, name) for part in parts]) for name in names)
        return cls(
            points, offsets, *others, data_per_streamline=_join(parts, "data_per_streamline"),
            data_per_point=_join(parts, "data_per_point"), groups=_join_groups(parts), whole=_join_whole(parts),
        )

    @property
    def longest_step(self) -> float:
        """Longest distance between two consecutive points of a streamline, mm; 0 without steps."""
        with np.errstate(over="ignore"):  # infinity is the longest
            steps = np.diff(self.points, axis=0)
            steps[last_points(self.offsets)[:-1]] = 0  # from one streamline to the next
            return float(np.sqrt(np.einsum("ij,ij->i", steps, steps).max(initial=0)))

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Number of points of each streamline, ``(n,)`` int64."""
        return np.diff(self.offsets)

    @property
    def whole_lengths(self) -> npt.NDArray[np.int64]:
        """Number of points of each whole streamline, ``(n,)`` int64."""
        return self.lengths if self.whole is None else self.whole.points


def last_points(offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the number of the last point of each streamline that has points."""
    return offsets[1:][np.diff(offsets) > 0] - 1


def of_each(combine: np.ufunc, values: npt.NDArray, offsets: npt.NDArray[np.int64]) -> npt.NDArray:
    """Combine the values of the points of each streamline, ``(p, ...)`` to ``(n, ...)``; without points, it has 0."""
    held = np.flatnonzero(np.diff(offsets))
    out = np.zeros((len(offsets) - 1, *values.shape[1:]), values.dtype)
    if len(held):
        out[held] = combine.reduceat(values, offsets[held])
    return out


def _check_shape(name: str, values: npt.ArrayLike, dtype: type, shape: tuple[int, ...]) -> npt.NDArray:
    array = np.ascontiguousarray(values, dtype)
    if array.shape != shape:
        raise ValueError(f"{name} must have the shape {shape}, not {array.shape}")
    return array


def _join(parts: Iterable[Batch], kind: str) -> dict[str, npt.NDArray]:
    """Join the data of batches, all of which have the same names, except for batches without streamlines."""
    data = [getattr(part, kind) for part in parts]
    names = dict.fromkeys(name for arrays in data for name in arrays)
    return {name: np.concatenate([arrays[name] for arrays in data if name in arrays]) for name in names}


def _join_groups(parts: Iterable[Batch]) -> tuple[Groups, ...]:
    """Join the groups of batches, all of which have the same names, except for batches without streamlines."""
    known = [part.groups for part in parts if len(part)]
    if len({tuple(kind.names for kind in groups) for groups in known}) > 1:
        raise ValueError("batches have other groups: join those of one kind")
    kinds = zip(*known, strict=True)
    return tuple(Groups(kind[0].names, np.concatenate([each.numbers for each in kind])) for kind in kinds)


def _join_whole(parts: Iterable[Batch]) -> WholeLengths | None:
    """Join the whole lengths of batches, which all have or none, except for batches without streamlines."""
    known = [part.whole for part in parts if len(part)]
    there = [whole for whole in known if whole is not None]
    if not there:
        return None
    if len(there) < len(known):
        raise ValueError("some batches have all points of their streamlines, others do not")
    return WholeLengths(*(np.concatenate([getattr(whole, name) for whole in there]) for name in ("points", "units")))


class Outline(Batch):
    """Streamlines whose points have stayed on the device: seeds, numbers of points and ends; ``points`` is empty."""

    has_points = False


@dataclass(frozen=True, eq=False)
class Space:
    """The voxel grid of an image and its position in space.

    Parameters
    ----------
    affine : (4, 4) float64
        From voxel coordinates to RASmm; integer coordinates are voxel centres.
    shape : (3,)
        Number of voxels along each stored axis.

    Raises
    ------
    ValueError
        If an argument has the wrong shape.

    Examples
    --------
    >>> import numpy as np
    >>> import tistreamlines as ts
    >>> space = ts.Space(np.diag([2, 2, 2.5, 1]), (96, 96, 60))
    >>> space.to_ras([1, 2, 3]).tolist()
    [2.0, 4.0, 7.5]
    >>> space.to_voxel([2, 4, 7.5]).tolist()
    [1.0, 2.0, 3.0]
    """

    affine: npt.NDArray[np.float64]
    shape: tuple[int, int, int]

    def __post_init__(self) -> None:
        affine = np.array(self.affine, np.float64)
        shape = tuple(int(size) for size in self.shape)
        if affine.shape != (4, 4) or len(shape) != 3:
            raise ValueError(f"the affine must be (4, 4) and the shape three sizes, not {affine.shape} and {shape}")
        object.__setattr__(self, "affine", affine)
        object.__setattr__(self, "shape", shape)

    @property
    def voxel_sizes(self) -> Vector[np.float64]:
        """Voxel size along each stored axis, ``(3,)`` float64, mm."""
        return np.sqrt(np.sum(self.affine[:3, :3] ** 2, axis=0))

    @property
    def axes(self) -> npt.NDArray[np.float64]:
        """Unit vectors along the voxel axes as columns in RAS, ``(3, 3)`` float64; orthogonal, perhaps left-handed."""
        return self.affine[:3, :3] / self.voxel_sizes

    @property
    def shear(self) -> float:
        """Largest absolute cosine between two voxel axes: 0 on a rectangular grid, NaN if the affine is singular."""
        return float(np.abs(np.triu(self.axes.T @ self.axes, 1)).max())

    @property
    def fsl_flips_x(self) -> bool:
        """Whether x is against the first voxel axis in FSL's frame: the affine's determinant is positive."""
        return bool(np.linalg.det(self.affine[:3, :3]) > 0)

    def part(self, low: npt.ArrayLike, high: npt.ArrayLike) -> Space:
        """Return the grid of a box of voxels.

        Parameters
        ----------
        low, high : (3,) array_like
            Its first voxel, and the one after the last.

        Returns
        -------
        Space
            Grid of the box, whose first voxel is ``low``.
        """
        affine = self.affine.copy()
        affine[:3, 3] = self.to_ras(low)
        x, y, z = np.subtract(high, low)
        return Space(affine, (x, y, z))

    def to_voxel(self, points: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Transform RASmm points to voxel coordinates.

        Parameters
        ----------
        points : (..., 3) array_like
            RASmm.

        Returns
        -------
        (..., 3) ndarray, float64
            Voxel coordinates (centre of a voxel = integer).
        """
        return _apply(np.linalg.inv(self.affine).astype(np.float64, copy=False), points)

    def to_ras(self, points: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Transform voxel coordinates to RASmm points.

        Parameters
        ----------
        points : (..., 3) array_like
            Voxel coordinates (centre of a voxel = integer).

        Returns
        -------
        (..., 3) ndarray, float64
            RASmm.
        """
        return _apply(self.affine, points)


def mean_side(voxel_sizes: npt.ArrayLike) -> float:
    """Return the side in mm of a cube that is as large as a voxel, whose sides are (3,) mm."""
    return float(np.prod(np.asarray(voxel_sizes, float)) ** (1 / 3))


def _apply(affine: npt.NDArray[np.float64], points: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Transform points without a library of linear algebra, whose threads wait busily and whose last digits differ."""
    x, y, z = np.ascontiguousarray(np.moveaxis(np.asarray(points), -1, 0), np.float64)
    moved = np.empty((*np.shape(x), 3))
    for axis, (a, b, c, d) in enumerate(affine[:3]):
        moved[..., axis] = a * x + b * y + c * z + d
    return moved
