"""Whether maps of white matter, grey matter and cerebrospinal fluid lie as in a brain, or seem to be exchanged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np
import numpy.typing as npt

from ...aliases import Array
from ...io.samples import Samples
from ...space.batch import Space
from ...space.harmonics import BASES
from ...space.resampling import resample_image
from ..tables.inputs import MapImage, OrientationFunctions

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
        labels = np.pad(_crop(labels), 1, constant_values=OUTSIDE)
        away = np.zeros(labels.shape, np.int32)
        distance_transform_cdt(labels < OUTSIDE, "taxicab", distances=away)
        depths = [float(away[labels == tissue].mean()) if (labels == tissue).any() else 0.0 for tissue in range(3)]
        faces = np.zeros(16, np.int64)
        for axis in range(3):
            moved = np.moveaxis(labels, axis, 0)
            faces += np.bincount((4 * moved[1:] + moved[:-1]).ravel(), minlength=16)
        both = faces.reshape(4, 4)
        return cls(np.array([values.sum(dtype=np.float64) for values in maps]), np.array(depths), both + both.T)

    def reorder(self, order: Sequence[int]) -> Arrangement:
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


def describe_exchange(white: Array, grey: Array, fluid: Array) -> str:
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
        if arrangement.reorder(order).plausible():
            wrong = [f"the map of {NAMES[label]} lies like {NAMES[tissue]}" for label, tissue in _places(order)]
            return " and ".join(wrong)
    return ""  # in a phantom, or in a part of a brain, no order may look right


def _places(order: Sequence[int]) -> list[tuple[int, int]]:
    """Return for each map that is not where it belongs which it was given as, and which it seems to be."""
    return sorted((label, tissue) for tissue, label in enumerate(order) if label != tissue)


def exclude_in_place(include: Array, exclude: Array) -> bool:
    """Tell whether maps of valid ends and of fluid, (x, y, z), seem not to be exchanged.

    Ends without tissue are valid, so the first map and not the second one fills the corners of an image.
    """
    corners = np.ix_(*((0, -1) for _ in range(3)))
    faces = (np.take(include, place, axis) for axis in range(3) for place in (0, -1))
    return not ((exclude[corners] > 0.5).all() and all((face <= 0.5).all() for face in faces))


def _crop(labels: npt.NDArray[np.int8]) -> npt.NDArray[np.int8]:
    """Cut away planes without tissue."""
    where = np.argwhere(labels < OUTSIDE)
    if not len(where):
        return labels[:1, :1, :1]
    return labels[tuple(slice(low, high + 1) for low, high in zip(where.min(axis=0), where.max(axis=0), strict=True))]


# Whether tissues lie where the fibres are, judged by how large orientation functions, or FA, are in each voxel.
#
# The sizes are correlated with the fraction of white matter, as it is and moved by up to REACH. A correlation is
# better if it is higher by BETTER and by twice its error, which is large in small images: by 0.15 in all for a brain,
# by 0.27 for ``sherbrooke_crop``. The bounds were found on ``sherbrooke_1p8mm``, whose tissues were made of FA and of
# the apparent diffusivity, with CSD of order 6. With the tissues in their place, moving them by more than NEAR lowers
# the correlation by 0.18, and by at least 0.05 in 70 boxes of the image. If they are 20 mm off, putting them back
# raises it by 0.25 to 0.35; in the crop, four of six such moves are seen. Orientation functions of fluid are, on
# average, at most 0.87 times as large as those of grey matter. In the data of ``sherbrooke_1p8mm`` and of MRtrix3's
# phantom, no white matter lacks orientation functions, and none of these lies where there is no tissue.
CELL = 3.6  # mm: sizes are averaged over cells of about so much
REACH, NEAR = 40.0, 8.0  # mm
BETTER = 0.12  # by which a correlation is higher
ALIKE = 27  # cells that are not independent of each other
LOWEST = 0.3  # correlation that says anything
BARE = 0.25  # share of white matter without orientation functions
AWAY = 0.7  # share of orientation functions without tissue
LARGER = 1.1  # ratio of sizes
CHECK = "check that both are of one subject, in one space"
FEW = 50.0  # voxels of a tissue, too few for a mean


def placement_doubt(tissues: MapImage, follows: object, anisotropy: Callable[[], Array] | None, space: Space) -> str:
    """Say so if tissues seem to lie elsewhere than the fibres, or if grey matter and fluid seem to be exchanged.

    Parameters
    ----------
    tissues : MapImage, (x, y, z, 3)
        Fractions of white matter, grey matter and cerebrospinal fluid.
    follows : OrientationFunctions, Samples or another
        The input that streamlines follow.
    anisotropy : callable, optional
        Returns FA, (i, j, k), for inputs without sizes.
    space : Space
        Grid of the image that is tracked.

    Returns
    -------
    str
        A warning, or nothing.
    """
    every = max(1, int(np.ceil(CELL / space.voxel_sizes.min() - 1e-6)))
    sizes, what = _sizes(follows, every), "orientation functions"
    if sizes is None:
        if anisotropy is None:
            return ""
        sizes, what = _means(anisotropy(), every), "FA"
    cells = _coarse(space, every)
    grid = Space(space.affine @ np.linalg.inv(tissues.to_grid), tissues.values.shape[:3])  # type: ignore[arg-type]
    shares = resample_image(tissues.values, grid, cells, nearest=False)[0]
    if doubt := _describe_fod_exchange(shares, follows, every):
        return doubt
    known = _means(np.ones(space.shape, bool), every) > 0.5
    white = np.where(known, shares[..., 0], 0)
    if not sizes.any() or not white.any():
        return ""
    if (away := float(sizes[shares.sum(axis=-1) < 0.5].sum() / sizes.sum())) > AWAY:
        return f"{away:.0%} of {what}, by size, lie where there is no tissue: {CHECK}"
    if (bare := float(white[sizes == 0].sum() / white.sum())) > BARE:
        return f"{bare:.0%} of the white matter of the tissues in the image has no {what}: {CHECK}"
    if (better := _best_shift(shares[..., 0], sizes, known, cells.voxel_sizes)) is None:
        return ""
    now, then, voxels = better
    by = ", ".join(f"{length:.0f}" for length in space.axes @ (voxels * cells.voxel_sizes))
    return (
        f"{what} and the white matter of the tissues correlate by {now:.2f}, and by {then:.2f} with the tissues moved "
        f"by {by} mm (RAS): {CHECK}"
    )


def _sizes(follows: object, every: int) -> Array | None:
    """Return how much fibre each cell has, in any unit; None if what is followed does not say it."""
    if isinstance(follows, Samples):
        fractions = np.zeros(follows.mask.shape, np.float32)
        fractions[follows.mask] = follows.values[..., 3].sum(axis=2).mean(axis=1)
        return _means(fractions, every)
    if not isinstance(follows, OrientationFunctions):
        return None
    values = np.asarray(follows.values)
    if follows.kind == "sh":
        # those of degree 2: noise has the higher degrees as well, and no direction in common with its neighbours
        assert follows.basis is not None
        first = 4 if BASES[follows.basis].full else 1
        return np.linalg.norm(_means(values[..., first : first + 5], every), axis=-1)
    if follows.kind == "peaks":
        return _means(np.sqrt(np.einsum("...i,...i->...", values, values)), every)
    return _means(values.std(axis=-1), every)


def _describe_fod_exchange(shares: Array, follows: object, every: int) -> str:
    """Say so if orientation functions are larger in fluid than in grey matter, where there are some."""
    if not isinstance(follows, OrientationFunctions) or follows.kind != "sh":
        return ""
    first = np.asarray(follows.values[..., 0], np.float64)
    there = _means(first != 0, every)
    weights = shares[..., 1:] * there[..., None]
    sums = weights.sum(axis=(0, 1, 2))
    if sums.min() * every**3 < FEW:
        return ""
    mean = np.divide(_means(first, every), there, where=there > 0, out=np.zeros_like(there))
    grey, fluid = (weights * mean[..., None]).sum(axis=(0, 1, 2)) / sums
    if not fluid > LARGER * abs(grey):
        return ""
    return (
        f"orientation functions are larger in cerebrospinal fluid ({fluid:.3g} on average) than in grey matter "
        f"({grey:.3g}): the tissues may be exchanged or lie elsewhere"
    )


def _coarse(space: Space, every: int) -> Space:
    """Return the grid of cells of so many voxels along each axis."""
    middle = np.eye(4)
    middle[:3] *= every
    middle[3, 3], middle[:3, 3] = 1, (every - 1) / 2
    x, y, z = (-(-size // every) for size in space.shape)
    return Space(space.affine @ middle, (x, y, z))


def _means(values: Array, every: int) -> Array:
    """Return the mean of the values (x, y, z, ...) in each cell; what a cell has outside the image counts as 0."""
    sums = np.asarray(values, np.float32)
    for axis in range(3):
        planes = np.moveaxis(sums, axis, 0)
        blocks = planes[::every].copy()
        for number in range(1, every):
            more = planes[number::every]
            blocks[: len(more)] += more
        sums = np.moveaxis(blocks, 0, axis)
    return sums.astype(np.float64) / every**3


def _best_shift(white: Array, sizes: Array, known: Array, sides: Array) -> tuple[float, float, Array] | None:
    """Return the correlation as it is, the best one of white matter that is moved, and by how many cells; or None.

    Each is Pearson's, over the cells that are known; moved white matter is 0 where nothing of it was.
    """
    from scipy.fft import irfftn, next_fast_len, rfftn

    most = np.floor(REACH / sides).astype(int)
    shape = [next_fast_len(int(size + step)) for size, step in zip(sizes.shape, most, strict=True)]
    count, centred = known.sum(), np.where(known, sizes - sizes[known].mean(), 0)
    if not centred.any() or not white.any():
        return None

    def correlated(values: Array, moved: Array) -> Array:
        first, second = (np.asarray(rfftn(each, shape)) for each in (values, moved))
        return np.asarray(irfftn(first * np.conj(second), shape))

    mask = known.astype(float)
    spread = correlated(mask, white**2) - correlated(mask, white) ** 2 / count
    steps = np.stack(np.meshgrid(*(np.arange(-step, step + 1) for step in most), indexing="ij"), axis=-1).reshape(-1, 3)
    at = tuple(steps.T)
    enough = spread[at] > 1e-2 * max(float(spread[0, 0, 0]), float(spread[at].max()))
    products = correlated(centred, white)[at]
    correlations = np.where(enough, products / np.sqrt(np.maximum(spread[at], 1e-12) * (centred**2).sum()), -1.0)
    away = np.linalg.norm(steps * sides, axis=1)
    now = float(correlations[np.argmin(away)])
    best = int(np.argmax(np.where((away > NEAR) & (away <= REACH), correlations, -1.0)))
    bound = max(LOWEST, now + BETTER + 2 * float(np.sqrt(ALIKE / count)))
    return (now, float(correlations[best]), steps[best]) if correlations[best] > bound else None
