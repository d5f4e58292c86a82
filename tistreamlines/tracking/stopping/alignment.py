"""Whether tissues lie where the fibres are, judged by how large orientation functions, or FA, are in each voxel.

The sizes are correlated with the fraction of white matter, as it is and moved by up to REACH. A correlation is better
if it is higher by BETTER and by twice its error, which is large in small images: by 0.15 in all for a brain, by 0.27
for ``sherbrooke_crop``. The bounds were found on ``sherbrooke_1p8mm``, whose tissues were made of FA and of the
apparent diffusivity, with CSD of order 6. With the tissues in their place, moving them by more than NEAR lowers the
correlation by 0.18, and by at least 0.05 in 70 boxes of the image. If they are 20 mm off, putting them back raises it
by 0.25 to 0.35; in the crop, four of six such moves are seen. Orientation functions of fluid are, on average, at most
0.87 times as large as those of grey matter. In the data of ``sherbrooke_1p8mm`` and of MRtrix3's phantom, no white
matter lacks orientation functions, and none of these lies where there is no tissue.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...aliases import Array
from ...io.samples import Samples
from ...space.batch import Space
from ...space.harmonics import BASES
from ...space.resampling import resampled
from ..tables.given import OrientationFunctions
from .own_grid import OwnMap

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


def misplaced(tissues: OwnMap, follows: object, anisotropy: Callable[[], Array] | None, space: Space) -> str:
    """Say so if tissues seem to lie elsewhere than the fibres, or if grey matter and fluid seem to be exchanged.

    Parameters
    ----------
    tissues : OwnMap, (x, y, z, 3)
        Fractions of white matter, grey matter and cerebrospinal fluid.
    follows : OrientationFunctions, Samples or another
        What streamlines follow.
    anisotropy : callable, optional
        Returns FA, (i, j, k), for what has no size of its own.
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
    shares = resampled(tissues.values, grid, cells, nearest=False)[0]
    if exchanged := _exchanged(shares, follows, every):
        return exchanged
    known = _means(np.ones(space.shape, bool), every) > 0.5
    white = np.where(known, shares[..., 0], 0)
    if not sizes.any() or not white.any():
        return ""
    if (away := float(sizes[shares.sum(axis=-1) < 0.5].sum() / sizes.sum())) > AWAY:
        return f"{away:.0%} of {what}, by size, lie where there is no tissue: {CHECK}"
    if (bare := float(white[sizes == 0].sum() / white.sum())) > BARE:
        return f"{bare:.0%} of the white matter of the tissues in the image has no {what}: {CHECK}"
    if (better := _moved(shares[..., 0], sizes, known, cells.voxel_sizes)) is None:
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


def _exchanged(shares: Array, follows: object, every: int) -> str:
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


def _moved(white: Array, sizes: Array, known: Array, sides: Array) -> tuple[float, float, Array] | None:
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
