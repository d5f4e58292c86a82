"""Fixels to compare streamlines with: of fibre orientation distributions (FODs), of a folder, or of samples."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from ...aliases import Array
from ...devices import Device
from ...devices.threads import in_threads
from ...errors import InputError, ParameterError
from ...fit.fod_image import FodImage
from ...fit.lobes import Thresholds, find_lobes
from ...io.fixel_images import FixelImages
from ...io.images import AnyPath, Tell
from ...io.samples import Samples
from ...kernels.weights.visits import NO_LOBE
from ...option import flag
from ...space.batch import Space
from ...space.geodesic import half_sphere, quadrature_weights
from ...space.sphere import cell_table, round_up
from ..stopping.segmentation import TissueFiles
from .fixel_table import FixelTable
from .fods import Fods
from .voxel_masks import read_grid_mask, tissue_mask

LEAST = 0.05  # mean volume fraction of a fibre that counts, as for FSL's images of dyads
TOGETHER = 1 << 12  # voxels whose samples are averaged at once
COMPARED = 1 << 10  # voxels whose fixels are compared with all directions at once
WIDEST = 45.0  # degrees between a fixel without a lobe and directions within it, as in MRtrix3's tck2fixel
_IN_USE: WeakValueDictionary[tuple[object, ...], Fixels] = WeakValueDictionary()


@dataclass(frozen=True, eq=False)
class Fixels:
    """The lobes of FODs, in the order of their voxels.

    Parameters
    ----------
    table : FixelTable
        Which of them a streamline visits.
    fibres : (n,) float64
        Fibre density of each.
    mask : (x, y, z) float
        How much each voxel counts, 0 to 1.
    directions : (n, 3) float32
        Mean direction of each, a unit vector along the scanner's axes, whose sign means nothing.
    """

    table: FixelTable
    fibres: Array
    mask: Array
    directions: Array

    @property
    def masks(self) -> npt.NDArray[np.float64]:
        """How much the voxel of each fixel counts, (n,)."""
        return self.mask.ravel()[self.table.voxel_of].astype(float)

    def check_overlap(self, space: Space, name: str) -> None:
        """Raise an InputError, which begins with a name, if no fixel lies in an image of this grid."""
        voxels, half = np.flatnonzero(self.table.counts), np.array(space.shape) / 2
        for every in (1000, 1):  # hardly ever is each voxel looked at
            few = np.stack(np.unravel_index(voxels[::every], self.table.counts.shape), axis=1)
            places = space.to_voxel(self.table.space.to_ras(few))
            if (np.abs(places - (half - 0.5)) <= half).all(axis=1).any():
                return
        raise InputError(f"{name}: no fixel lies in the tracked image: are both of one subject, in one space?")


@dataclass(frozen=True)
class FixelRules:
    """Which fixels are found, and how much they count.

    Parameters
    ----------
    tissues, proc_mask : path or image, optional
        Five tissues, or how much each voxel counts; without them, each voxel with fibres counts alike.
    scale_grey : bool
        Whether grey matter lowers fibre densities.
    dilate : bool
        Whether directions outside all lobes of FODs belong to a lobe nearby, so that streamlines along them visit it.
    null_lobes : bool
        Whether each voxel has one more fixel, of fibre density 0, to which directions outside all lobes belong. This
        needs ``dilate=False``.
    """

    tissues: AnyPath | TissueFiles | None = None
    proc_mask: AnyPath | None = None
    scale_grey: bool = False
    dilate: bool = True
    null_lobes: bool = False


def make_directions() -> None:
    """Make the tables of directions that fixels need, which depend on nothing: beside other work, they cost no time."""
    cell_table(half_sphere()[0])
    quadrature_weights()


def fixels_of(
    followed: Fods, device: Device, threads: int | None, note: Tell, rules: FixelRules | None = None,
    progress: Callable[[float], object] = lambda _: None,
) -> Fixels:
    """Find the fixels of FODs, as MRtrix3's tcksift2 and ``tckgen -seed_dynamic`` do, or of samples of fibres.

    Fixels of a folder are there, but have no lobes. If both the seeds and the weights of a run ask for the same fixels,
    they are found once.

    Parameters
    ----------
    followed : FodImage, FixelImages or Samples
        The FODs or the samples whose fixels are found, or fixels.
    device, threads : Device, int
        The device that finds them. The result is the same everywhere.
    note : callable
        Receives warnings.
    rules : FixelRules, optional
        Which fixels are found, and how much they count.
    progress : callable
        Receives the share of the voxels whose fixels are found, 0 to 1.

    Raises
    ------
    InputError
        If a mask is missing or damaged, or there is no fixel where voxels count.
    ParameterError
        If ``dilate`` is False for samples, which have no lobes.
    """
    rules = rules or FixelRules()
    key = _key(followed, *vars(rules).values())
    if (known := _IN_USE.get(key)) is not None:
        return known
    inside, space = inside_of(followed)
    scale = None
    if rules.proc_mask is not None:
        mask = read_grid_mask(rules.proc_mask, space, note)
    elif rules.tissues is not None:
        mask, scale = tissue_mask(rules.tissues, space, inside, device, threads, note)
    else:
        mask = inside.astype(float)
    inside &= mask > 0  # as in MRtrix3, other voxels have no fixels
    numbers, fibres, directions, words = _populations(followed, inside, device, threads, rules, progress)
    if not len(fibres):
        name = "samples" if isinstance(followed, Samples) else followed.name
        raise InputError(f"{name}: no fixel lies where voxels count")
    if rules.null_lobes:  # one behind the others of each voxel, to which directions outside all lobes belong
        lobe_of, ends = words.view(np.uint8), np.cumsum(numbers)
        np.copyto(lobe_of, numbers[:, None].astype(np.uint8), where=lobe_of == NO_LOBE)
        fibres, directions = np.insert(fibres, ends, 0.0), np.insert(directions, ends, 0.0, axis=0)
        numbers = numbers + 1
    counts = np.zeros(inside.shape, np.int32)
    counts[inside] = numbers
    table = FixelTable(space, counts, counts > 0, words)
    if rules.scale_grey and scale is not None:
        fibres = fibres * scale.ravel()[table.voxel_of]
    _IN_USE[key] = fixels = Fixels(table, fibres, mask, directions)
    return fixels


def _populations(
    followed: Fods, inside: npt.NDArray[np.bool_], device: Device, threads: int | None, rules: FixelRules,
    progress: Callable[[float], object],
) -> tuple[Array, Array, Array, Array]:
    """Return the fixels of some voxels: counts, fibre densities, directions, and the fixel of each direction."""
    if isinstance(followed, FodImage):
        lobes = find_lobes(
            followed.along_scanner_axes(inside, threads), followed.basis, Thresholds(), device, table=True,
            dilate=rules.dilate, threads=threads, progress=progress,
        )
        words = lobes.words_of_all() if rules.null_lobes else lobes.words
        assert words is not None
        return lobes.counts, lobes.integrals.astype(float), lobes.means, words
    if isinstance(followed, FixelImages):
        counts, fibres, directions = _stored(followed, inside)
    elif rules.dilate:
        counts, fibres, directions = sticks(followed, inside)
    else:
        raise ParameterError(f"samples have no directions outside lobes: leave {flag('sift2_no_dilate_lut')} out")
    words = nearest_fixels(counts[counts > 0], directions, 90.0 if rules.dilate else WIDEST, threads)
    return counts, fibres, directions.astype(np.float32), words


def sticks(samples: Samples, inside: npt.NDArray[np.bool_]) -> tuple[Array, Array, Array]:
    """Return fixels of some voxels.

    The direction of a fibre is the principal one of the mean dyadic tensor of its samples, as in FSL (Jbabdi et al.
    2010).

    Parameters
    ----------
    samples : Samples
        Directions are along the voxel axes.
    inside : (x, y, z) bool
        Voxels of the samples' mask.

    Returns
    -------
    counts : (voxels,) int32
        Fixels of each voxel.
    fibres : (n,) float64
        Mean volume fraction of each.
    directions : (n, 3) float64
        Unit vectors along the scanner's axes.
    """
    rows = np.flatnonzero(inside[samples.mask])
    counts, fibres, directions = np.zeros(len(rows), np.int32), [np.zeros(0)], [np.zeros((0, 3))]
    for first in range(0, len(rows), TOGETHER):
        block = slice(first, first + TOGETHER)
        values = samples.values[rows[block]].astype(float)  # (v, samples, fibres, 4)
        dyads = np.einsum("vnfx,vnfy->vfxy", values[..., :3], values[..., :3])
        means, along = values[..., 3].mean(axis=1), np.linalg.eigh(dyads)[1][..., -1] @ samples.space.axes.T
        along /= np.linalg.norm(along, axis=-1, keepdims=True)
        kept = means >= LEAST
        counts[block] = kept.sum(axis=1)
        fibres.append(means[kept])
        directions.append(along[kept])
    return counts, np.concatenate(fibres), np.concatenate(directions)


def _stored(fixels: FixelImages, inside: npt.NDArray[np.bool_]) -> tuple[Array, Array, Array]:
    """Return fixels of some voxels, as :func:`sticks` does."""
    kept = np.repeat(inside.ravel(), fixels.counts.ravel())
    return fixels.counts[inside], fixels.densities[kept], fixels.directions[kept]


def nearest_fixels(
    counts: Array, directions: Array, widest: float = 90.0, threads: int | None = None
) -> npt.NDArray[np.int32]:
    """Return the fixel that is nearest to each direction of :func:`.geodesic.half_sphere`; of equals, the first.

    Parameters
    ----------
    counts : (voxels,) int
        Fixels of each voxel.
    directions : (n, 3)
        Unit vector of each fixel, in the order of their voxels.
    widest : float
        Angle, degrees, beyond which a direction belongs to no fixel.
    threads : int, optional
        CPU threads; by default all cores.

    Returns
    -------
    (voxels, 321) int32
        The number within the voxel of the fixel of each direction, four to a word.
    """
    half = half_sphere()[0].astype(np.float32)
    lobes = np.full((len(counts), round_up(len(half), 4)), NO_LOBE, np.uint8)
    begins, least = np.cumsum(counts) - counts, np.float32(np.cos(np.radians(widest))) if widest < 90 else -1

    def compare(first: int) -> None:
        numbers = counts[first : first + COMPARED]
        best = np.full((len(numbers), len(half)), least, np.float32)
        for rank in range(int(numbers.max())):
            rows = np.flatnonzero(numbers > rank)
            x, y, z = directions[begins[first + rows] + rank].astype(np.float32).T[..., None]
            cosines = np.abs(x * half[:, 0] + y * half[:, 1] + z * half[:, 2])
            nearer = cosines > best[rows]
            best[rows] = np.where(nearer, cosines, best[rows])
            fixels = lobes[first + rows, : len(half)]
            fixels[nearer] = rank
            lobes[first + rows, : len(half)] = fixels

    in_threads(compare, range(0, len(counts), COMPARED), threads)
    return lobes.view(np.int32)


def _key(followed: Fods, *rules: object) -> tuple[object, ...]:
    """Return what fixels depend on: the content of FODs, and names of files, or objects in memory themselves."""
    named = (str(rule) if isinstance(rule, str | Path) else rule for rule in rules)
    if isinstance(followed, Samples):
        return followed, *named
    if isinstance(followed, FixelImages):
        arrays = (followed.counts, followed.directions, followed.densities)
        return *(zlib.crc32(array.data) for array in arrays), followed.space.affine.tobytes(), *named
    values, space = followed.harmonics.values, followed.harmonics.space
    return *followed.content, values.shape, followed.basis, followed.frame, space.affine.tobytes(), *named


def inside_of(followed: Fods) -> tuple[npt.NDArray[np.bool_], Space]:
    """Return the voxels with FODs, fixels or samples, and their grid."""
    if isinstance(followed, Samples):
        return followed.mask.copy(), followed.space
    if isinstance(followed, FixelImages):
        return followed.counts > 0, followed.space
    return followed.harmonics.values[..., 0] > 0, followed.harmonics.space
