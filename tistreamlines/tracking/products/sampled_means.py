"""Means of maps along streamlines as whole numbers, whose sums depend neither on threads nor on batches."""

from __future__ import annotations

from collections.abc import Iterable
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ...aliases import Json
from ...space.batch import Batch
from .samples import Sampler, leave, unit_of

if TYPE_CHECKING:
    from ...option import ImageLike


class SampledMeans:
    """Samples maps along streamlines, and counts the streamlines that leave each of them.

    Parameters
    ----------
    images : 3-D images of any grid.

    Attributes
    ----------
    maps : each of them by its short name, that of its file.
    units : by how much the values of each are multiplied to be whole numbers, powers of two.

    Raises
    ------
    InputError
        If an image is missing or damaged, or no 3-D image.
    """

    def __init__(self, images: Iterable[ImageLike]) -> None:
        self._notes: list[str] = []
        self._sampler = Sampler.of(images, 1, self._notes.append)
        self.maps = self._sampler.maps
        self.units = [unit_of(sampled) for sampled in self.maps.values()]
        self._outside, self._adding = dict.fromkeys(self.maps, 0), Lock()

    def of(self, batch: Batch) -> npt.NDArray[np.int64] | None:
        """Return the mean of each map along each streamline, (n, maps), in units; None without maps."""
        if not self.maps:
            return None
        left = {name: int(leave(batch, sampled).sum()) for name, sampled in self.maps.items()}
        with self._adding:
            self._outside = {name: count + left[name] for name, count in self._outside.items()}
        values = self._sampler.per_streamline(batch)
        means = np.stack([values[f"{name}_mean"] for name in self.maps], axis=1).astype(float)
        return np.rint(np.nan_to_num(means) * self.units).astype(np.int64)  # without points, there is no edge either

    @property
    def details(self) -> Json:
        """What the record says of the maps."""
        return {
            name: {"path": path, "unit": 1 / unit, "streamlines_outside": self._outside[name]}
            for (name, path), unit in zip(self._sampler.details.items(), self.units, strict=True)
        }

    @property
    def doubts(self) -> list[str]:
        """Why the means may be wrong."""
        return self._notes + [
            f"{path}: {self._outside[name]:,} streamlines leave the map, outside which its value counts as 0: check "
            "that it covers all streamlines" for name, path in self._sampler.paths.items() if self._outside[name]
        ]
