"""Maps of lengths, directions and sampled values, and all maps of weighted streamlines, instead of plain counts.

Lengths are whole numbers of 2^-16 mm, directions and sampled values whole multiples of a power of two.  Their sums are
whole numbers of 64 bits, so that a map depends neither on the order of the streamlines nor on batches and threads.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np

from ....aliases import Array
from ....backends.program import Program
from ....errors import ParameterError
from ....space.batch import Batch, Space, last_points, of_each
from ...tables.inputs import MapImage
from ..files import weight_unit
from ..grid import Passage, passages
from ..samples.sampler import Sampler, unit_of
from .density import Density

OF_MM = float(1 << 16)  # a length of 1 mm
OF_ONE = float(1 << 30)  # a component of 1 of a direction
LONGEST_MM = 1 << 15  # of a streamline, so that what it has in a voxel fits 32 bits


class Sums(Density):
    """Sums of whole numbers that streamlines leave in the voxels that they pass; each kind of map has a class.

    Parameters are those of :class:`.density.Density`; ``sampled``, the map that is sampled, if any; ``weighted``,
    whether streamlines have weights; and these, (n,), if they are known before, else see :meth:`take_weights`.
    """

    shares: ClassVar[int] = 0  # amounts of a segment that are shared among its voxels
    channels: ClassVar[int] = 1  # sums of a voxel
    voxel_bytes: ClassVar[int] = 32
    most: ClassVar[float] = 1.0  # that a streamline leaves in a voxel
    unit: float = OF_MM  # of the values whose mean is mapped

    def __init__(
        self, space: Space, step_mm: float, threads: int | None = None, sampled: MapImage | None = None,
        weighted: bool = False, weights: Array | None = None,
    ) -> None:
        super().__init__(space, step_mm, threads)
        self._passes = np.zeros(self._grid.voxels, np.int64)
        self._sums = np.zeros((self.channels, self._grid.voxels), np.int64)
        self._weighted, self._units = weighted, (1.0, 1.0)  # of weights, and of weighted values
        self._weights: Array | None = None
        if weights is not None:
            self._know(weights)
        self._sampler: Sampler | None = None
        if sampled is not None:
            self._sampler, self.unit = Sampler({"map": sampled}, 1), unit_of(sampled)
        # streamline, voxel and what the one leaves in the other, until weights come
        self._held: list[tuple[Array, Array, Array]] = []

    def move_to(self, program: Program) -> None:
        """Stay on the host, which has to have the voxels of each streamline."""

    def _spans(self, points: Array, offsets: Array) -> Array:
        """Return the amounts of the segment that begins at each point, (p, shares) int32."""
        return np.zeros((len(points), 0), np.int32)

    def _contribution(self, batch: Batch, passed: Passage) -> Array:
        """Return what a streamline leaves in each voxel that it passes, (channels, v) int64."""
        raise NotImplementedError

    def _add(self, batch: Batch, chosen: slice, before: int) -> None:
        """Sum up what some streamlines of a batch leave, or keep it until their weights come."""
        whole, owner = self._count_batch(batch if len(batch) == chosen.stop - chosen.start else batch[chosen])
        for passed in passages(self._grid, whole, self.shares, self._spans):
            left, streamlines = self._contribution(whole, passed), before + owner[passed.streamline]
            if not self._weighted:
                self._sum(passed.voxel, 1, left)
            elif self._weights is None:
                self._held.append((streamlines.astype(np.int32), passed.voxel, left))
            else:
                self._weigh(streamlines, passed.voxel, left)

    def _count_batch(self, batch: Batch) -> tuple[Batch, Array]:
        """Return what is counted of a batch, and the streamline that each of these is or belongs to."""
        return batch, np.arange(len(batch))

    def _sum(self, voxels: Array, passes: Array | int, left: Array) -> None:
        """Add to the sums of voxels; a thread adds while no other does."""
        with self._summing:
            np.add.at(self._passes, voxels, passes)
            for sums, amounts in zip(self._sums, left, strict=True):
                np.add.at(sums, voxels, amounts)

    def take_weights(self, weights: Array) -> None:
        """Sum up what the streamlines that have come leave, times their weights, (n,)."""
        self._backlog.wait()
        self._know(weights)
        while self._held:
            self._backlog.submit(self._weigh, *self._held.pop())
        self._backlog.wait()

    def _know(self, weights: Array) -> None:
        """Choose units in which sums of all weights have room; streamlines beyond them have a weight of 0."""
        self._weights = np.append(weights, 0.0)
        self._units = weight_unit(weights), weight_unit(weights, self.most)

    def _weigh(self, streamlines: Array, voxels: Array, left: Array) -> None:
        """Add what streamlines leave, times their weights; one without a weight counts 0, and is an error later."""
        assert self._weights is not None
        weights = self._weights[np.minimum(streamlines, len(self._weights) - 1)]
        passes, amounts = np.rint(weights * self._units[0]), np.rint(weights * self._units[1] * left)
        self._sum(voxels, passes.astype(np.int64), amounts.astype(np.int64))

    @property
    def _count(self) -> Array:
        """Streamlines in each voxel, or the sum of their weights; waits for all batches."""
        self._backlog.wait()
        return self._passes / self._units[0]

    def _shape(self, values: Array) -> Array:
        """Return the values of all voxels as a float32 image."""
        return values.astype(np.float32).reshape(*self.space.shape, *values.shape[1:])


class Count(Sums):
    """The number of streamlines that pass a voxel, or the sum of their weights."""

    channels = 0

    def _contribution(self, batch: Batch, passed: Passage) -> Array:
        return np.zeros((0, len(passed.voxel)), np.int64)

    def values(self) -> Array:
        """Wait for all batches; return the sum in each voxel, (x, y, z) float32."""
        return self._shape(self._count)


class CountOfEnds(Count):
    """The number of ends of streamlines in a voxel, or the sum of their weights."""

    def _count_batch(self, batch: Batch) -> tuple[Batch, Array]:
        """Return a streamline of one point for each end; one that is a point has one end."""
        owner = np.repeat(np.arange(len(batch)), np.minimum(batch.lengths, 2))
        first = np.append(True, owner[1:] != owner[:-1])[: len(owner)]
        ends = np.where(first, batch.offsets[owner], batch.offsets[owner + 1] - 1)
        whole = replace(batch[owner], points=batch.points[ends], offsets=np.arange(len(ends) + 1), data_per_point={})
        return whole, owner


class TotalLength(Sums):
    """The length of all streamlines within each voxel, mm."""

    shares, most = 1, LONGEST_MM * OF_MM

    def _spans(self, points: Array, offsets: Array) -> Array:
        return to_fixed_point(norms(segments(points, offsets))[:, None], offsets)

    def _contribution(self, batch: Batch, passed: Passage) -> Array:
        return passed.amounts.T.astype(np.int64)

    def values(self) -> Array:
        """Wait for all batches; return the length in each voxel, (x, y, z) float32, mm."""
        self._backlog.wait()
        return self._shape(self._sums[0] / (OF_MM * self._units[1]))


class Directions(Sums):
    """The mean direction of the streamlines in each voxel, as colours, with the number of streamlines as its length.

    A streamline has one direction in a voxel: the sum of the absolute components of its segments there
    (MRtrix3's ``tckmap -dec``).
    """

    shares = channels = 3
    voxel_bytes = 72
    most = OF_ONE

    def _spans(self, points: Array, offsets: Array) -> Array:
        return to_fixed_point(np.abs(segments(points, offsets)), offsets)

    def _contribution(self, batch: Batch, passed: Passage) -> Array:
        units = scale_vectors(passed.amounts.astype(float), np.ones(len(passed.voxel)))
        return np.rint(units * OF_ONE).astype(np.int64).T

    def values(self) -> Array:
        """Wait for all batches; return the vectors, (x, y, z, 3) float32, along the axes of RASmm."""
        count = self._count
        return self._shape(scale_vectors(self._sums.T.astype(float), count))


class MeanLength(Sums):
    """The mean length of the streamlines that pass a voxel, mm."""

    most = 2.0**40  # 17 km

    def _each(self, batch: Batch) -> Array:
        """Return the number of each streamline whose mean is mapped, (n,), in units."""
        lengths = np.rint(norms(segments(batch.points, batch.offsets)) * OF_MM).astype(np.int64)
        return of_each(np.add, lengths, batch.offsets)

    def _contribution(self, batch: Batch, passed: Passage) -> Array:
        low, high = passed.streamline[[0, -1]] if len(passed.streamline) else (0, 0)
        return self._each(batch[low : high + 1])[passed.streamline - low][None]

    def values(self) -> Array:
        """Wait for all batches; return the mean in each voxel, (x, y, z) float32; 0 where no streamline passes."""
        count = self._count
        return self._shape(self._sums[0] / self._units[1] / np.where(count > 0, count, 1.0) / self.unit)


class MeanSample(MeanLength):
    """The mean, over the streamlines that pass a voxel, of the mean of a map along each of them."""

    most = 2.0**30

    def _each(self, batch: Batch) -> Array:
        assert self._sampler is not None
        values = self._sampler.per_streamline(batch)["map_mean"].astype(float)
        return np.rint(np.nan_to_num(values) * self.unit).astype(np.int64)  # without points, it is in no voxel either


SUMS: dict[str, type[Sums]] = {
    "count": Count, "direction": Directions, "length": TotalLength, "mean-length": MeanLength, "sample": MeanSample,
}


def segments(points: Array, offsets: Array) -> Array:
    """Return the vector from each point to the next one of its streamline, (p, 3) float64; 0 from the last one."""
    vectors = np.zeros((len(points), 3))
    np.subtract(points[1:], points[:-1], out=vectors[:-1], dtype=float)
    vectors[last_points(offsets)] = 0
    return vectors


def to_fixed_point(lengths: Array, offsets: Array) -> Array:
    """Return lengths, (p, k) mm, in 2^-16 mm; raise a ParameterError if a streamline is too long."""
    longest = of_each(np.add, lengths, offsets).max(initial=0)
    if not longest < LONGEST_MM:
        raise ParameterError(f"a streamline of {longest:.0f} mm is too long for this --density-kind, which maps those "
                             f"below {LONGEST_MM} mm: lower --max-length, or leave --density-kind out")
    return np.rint(lengths * OF_MM).astype(np.int32)


def scale_vectors(vectors: Array, lengths: Array) -> Array:
    """Return vectors of whole numbers, (n, 3), with other lengths, (n,); those of 0 stay 0."""
    return vectors * (lengths / np.maximum(norms(vectors), 1))[:, None]


def norms(vectors: Array) -> Array:
    """Return the lengths of vectors, (n, 3), whose sums have one order everywhere."""
    x, y, z = vectors.T
    return np.sqrt((x * x + y * y) + z * z)
