"""Whether maps of white matter, grey matter and cerebrospinal fluid lie as in a brain, or seem to be exchanged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np
import numpy.typing as npt

from ...aliases import Array

NAMES = ("white matter", "grey matter", "cerebrospinal fluid")
ORDERS = tuple(permutations(range(3)))  # the first is the right one
WHITE, GREY, FLUID, OUTSIDE = range(4)
# bounds that hold for the maps of tests/tracking/stopping/test_tissues.py, in any of which two tissues are exchanged
CLEAR = 1.05  # ratio of two depths above which one is deeper
VENTRICLES = 0.1  # greatest share of fluid among the tissues where it all lies inside
OUTER = 0.3  # share of the fluid's surface at the outside, below which it does not surround the tissues


@dataclass(frozen=True, eq=False)
class Arrangement:
    """How three tissues lie, from the tissue that fills most of each voxel.

    Parameters
    ----------
    sums : ndarray, (3,)
        Sum of each map.
    depths : ndarray, (3,)
        Mean distance of a tissue's voxels from the outside, voxels.
    faces : ndarray, (4, 4)
        Number of faces between voxels of two tissues; the last one is the outside, where there is no tissue.
    """

    sums: Array
    depths: Array
    faces: Array

    @classmethod
    def of(cls, maps: Sequence[Array]) -> Arrangement:
        """Measure three maps (x, y, z)."""
        from scipy.ndimage import distance_transform_cdt

        white, grey, fluid = maps
        most = np.where(white >= np.maximum(grey, fluid), WHITE, np.where(grey >= fluid, GREY, FLUID))
        labels = np.where(white + grey + fluid > 0.5, most, OUTSIDE).astype(np.int8)
        labels = np.pad(_cropped(labels), 1, constant_values=OUTSIDE)
        away = np.zeros(labels.shape, np.int32)
        distance_transform_cdt(labels < OUTSIDE, "taxicab", distances=away)
        depths = [float(away[labels == tissue].mean()) if (labels == tissue).any() else 0.0 for tissue in range(3)]
        faces = np.zeros(16, np.int64)
        for axis in range(3):
            moved = np.moveaxis(labels, axis, 0)
            faces += np.bincount((4 * moved[1:] + moved[:-1]).ravel(), minlength=16)
        both = faces.reshape(4, 4)
        return cls(np.array([values.sum(dtype=np.float64) for values in maps]), np.array(depths), both + both.T)

    def ordered(self, order: Sequence[int]) -> Arrangement:
        """Return the arrangement if the maps were given in another order."""
        whole = [*order, 3]
        return Arrangement(self.sums[list(order)], self.depths[list(order)], self.faces[np.ix_(whole, whole)])

    def plausible(self) -> bool:
        """Tell whether the tissues lie as in a brain."""
        white, _, fluid = self.sums
        deep, rim, wet = self.depths
        beside_grey = self.faces[WHITE, GREY] >= self.faces[WHITE, FLUID]
        enough = white >= fluid or (2 * white >= fluid and beside_grey)
        # fluid is deeper than white matter in ventricles alone, which are small
        deepest = rim <= CLEAR * deep and (wet <= CLEAR * deep or fluid <= VENTRICLES * self.sums.sum())
        return bool(enough and deepest and self._fluid_in_place())

    def _fluid_in_place(self) -> bool:
        """Tell whether fluid lies inside or around, and grey matter beside white matter."""
        grey, fluid = self.faces[GREY], self.faces[FLUID]
        outer = fluid[OUTSIDE] / max(fluid.sum() - fluid[FLUID], 1)
        # white matter borders on grey matter rather than on fluid, unless fluid surrounds everything
        if fluid[WHITE] > 1.5 * grey[WHITE] and outer < OUTER:
            return False
        return bool(outer <= OUTER or 3 * fluid[OUTSIDE] >= grey[OUTSIDE])


def exchanged(white: Array, grey: Array, fluid: Array) -> str:
    """Say which tissues seem to be exchanged, in words, or nothing.

    Parameters
    ----------
    white, grey, fluid : ndarray, (x, y, z)
        Fractions.
    """
    arrangement = Arrangement.of((white, grey, fluid))
    if not arrangement.sums.all() or arrangement.plausible():
        return ""
    for order in ORDERS[1:]:
        if arrangement.ordered(order).plausible():
            wrong = [f"the map of {NAMES[given]} lies like {NAMES[tissue]}" for given, tissue in _places(order)]
            return " and ".join(wrong)
    return ""  # in a phantom, or in a part of a brain, no order may look right


def _places(order: Sequence[int]) -> list[tuple[int, int]]:
    """Return for each map that is not where it belongs which it was given as, and which it seems to be."""
    return sorted((given, tissue) for tissue, given in enumerate(order) if given != tissue)


def exclude_in_place(include: Array, exclude: Array) -> bool:
    """Tell whether maps of valid ends and of fluid, (x, y, z), seem not to be exchanged.

    Where there is no tissue, ends are valid, so the first map and not the second one fills the corners of an image.
    """
    corners = np.ix_(*((0, -1) for _ in range(3)))
    faces = (np.take(include, place, axis) for axis in range(3) for place in (0, -1))
    return not ((exclude[corners] > 0.5).all() and all((face <= 0.5).all() for face in faces))


def _cropped(labels: npt.NDArray[np.int8]) -> npt.NDArray[np.int8]:
    """Cut away planes without tissue."""
    where = np.argwhere(labels < OUTSIDE)
    if not len(where):
        return labels[:1, :1, :1]
    return labels[tuple(slice(low, high + 1) for low, high in zip(where.min(axis=0), where.max(axis=0), strict=True))]
