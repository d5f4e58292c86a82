"""The five tissues of a subject of FreeSurfer, of surfaces and labels, as MRtrix3's ``5ttgen hsvs`` combines them.

The cortex lies between FreeSurfer's surfaces ``pial`` and ``white``. Other structures are labels of aparc+aseg, around
each of which a smooth surface is laid. The share of a voxel within each surface is the structure's fraction. Where
structures overlap, pathological tissue comes first, then fluid, subcortical grey matter, white matter and cortex.

References
----------
Smith RE, Skoch A, Bajada CJ, Caspers S, Connelly A. Hybrid surface-volume segmentation for improved
anatomically-constrained tractography. OHBM 2020.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..devices.threads import in_threads
from ..errors import InputError
from ..io.images import AnyPath, OpenImage, existing_path, open_image
from ..io.nifti import load_map
from ..io.segmentations import CORTICAL, FLUID, PATHOLOGICAL, SUBCORTICAL, TISSUES, WHITE, Labels, read_labels
from ..io.surfaces import Surface, geometry_of, load_surface
from ..option import flag
from ..space.batch import Space
from .contours import MIDDLE, contour
from .enclosed import Shares, check_closed, enclosed
from .modules import AMYGDALA, ASEG, nuclei_in, subfields_in
from .smoothing import EXTENT, smooth

SEGMENTATIONS = "mri/aparc+aseg.mgz", "mri/aseg.mgz"  # the first that is there
BRAIN = "mri/brainmask.mgz"
CORTEX = {"surf/lh.white": WHITE, "surf/lh.pial": CORTICAL, "surf/rh.white": WHITE, "surf/rh.pial": CORTICAL}
FOURTH_VENTRICLE, STEM = (15,), (16, 27, 28, 59, 60)
HIPPOCAMPI, AMYGDALAE, THALAMI = (17, 53), (18, 54), (10, 49)
NUCLEI = (11, 12, 13, 26, 50, 51, 52, 58, *HIPPOCAMPI, *AMYGDALAE, *THALAMI)
FLUIDS = (4, 31), (5,), (14,), FOURTH_VENTRICLE, (24,), (30,), (43, 63), (44,), (62,), (72,)
CALLOSUM, FORNIX, LESIONS = (192, 251, 252, 253, 254, 255), (250,), ((25,), (57,))
CEREBELLA = (7, 8), (46, 47)  # white and grey matter
# The level that voxel2mesh finds by itself for a mask, where 5ttgen gives it none: almost half a voxel outside
OUTER = 1e-3
FINE = 2.0  # mm: the extent of smoothing where labels are fine
FIRST_COME = PATHOLOGICAL, FLUID, SUBCORTICAL, WHITE, CORTICAL
BRAIN_VALUE = 0.5  # least value in the brain; those of FreeSurfer are intensities
INSIDE = 0.5  # least share of a voxel that counts as the fourth ventricle
LABELLED = 0.5  # least share of a surface's vertices that have a label

Box = tuple[slice, ...]
Fractions = npt.NDArray[np.float32]


class Structure(NamedTuple):
    """A structure, around whose labels a surface is laid.

    Parameters
    ----------
    tissue : int
        The tissue that it consists of.
    labels : tuple of int
        FreeSurfer's.
    level, extent : float
        See :func:`.contours.contour` and :func:`.smoothing.smooth`.
    """

    tissue: int
    labels: Sequence[int]
    level: float = MIDDLE
    extent: float = EXTENT


STRUCTURES = (
    *(Structure(SUBCORTICAL, (label,)) for label in NUCLEI),
    *(Structure(FLUID, labels) for labels in FLUIDS),
    *(Structure(PATHOLOGICAL, labels) for labels in LESIONS),
    Structure(WHITE, CALLOSUM), Structure(WHITE, FORNIX), Structure(WHITE, STEM, OUTER),
    # white matter has what grey matter leaves
    *(Structure(WHITE, labels, OUTER) for labels in CEREBELLA),
    *(Structure(SUBCORTICAL, labels[1:], OUTER) for labels in CEREBELLA),
)
# fimbria, hippocampal fissure and the nucleus of the olfactory tract are white matter
SUBFIELDS = (
    Structure(SUBCORTICAL, (*range(201, 212), 214, 216, 217, 226, *range(233, 247)), OUTER, FINE),
    Structure(WHITE, (212, 215), OUTER, FINE),
)
SUBFIELDS_OF_AMYGDALA = (
    Structure(SUBCORTICAL, (*range(7001, 7014), *range(7015, 7021)), OUTER, FINE),
    Structure(WHITE, (7014,), OUTER, FINE),
)
THALAMIC_NUCLEI = tuple(Structure(SUBCORTICAL, range(first, first + 100), OUTER, FINE) for first in (8100, 8200))


class Segmentation(NamedTuple):
    """An image of labels, and the structures that are taken from it."""

    image: OpenImage
    structures: tuple[Structure, ...]


@dataclass(frozen=True, eq=False)
class Subject:
    """A subject's folder.

    Parameters
    ----------
    segmentations : tuple of Segmentation
        That of the whole brain comes first.
    brain : OpenImage
        An image that is 0 outside the brain.
    cortex : tuple of Path
        Files of the surfaces, in the order of CORTEX.
    """

    segmentations: tuple[Segmentation, ...]
    brain: OpenImage
    cortex: tuple[Path, ...]

    @property
    def labels(self) -> OpenImage:
        """The labels of the whole brain."""
        return self.segmentations[0].image

    @property
    def files(self) -> tuple[Path, ...]:
        """All files that are read."""
        return *(segmentation.image.path for segmentation in self.segmentations), self.brain.path, *self.cortex


def open_subject(folder: AnyPath, hippocampi: str | None = None, thalami: str | None = None) -> Subject:
    """Open the files of a subject's folder.

    Parameters
    ----------
    folder : str or Path
    hippocampi, thalami : str, optional
        One of ``HIPPOCAMPI_FROM`` and ``THALAMI_FROM`` of :mod:`.modules`: the image that they are taken from,
        hippocampi with amygdalae. By default, it is that of FreeSurfer's module if it exists.

    Returns
    -------
    Subject

    Raises
    ------
    InputError
        If a file is missing or damaged; it names the first. Also if the folder may not be read.
    """
    try:
        return _subject_in(Path(folder), hippocampi, thalami)
    except OSError as error:
        raise InputError(f"{error.filename}: cannot be read ({error.strerror}); check the path") from error


def _subject_in(folder: Path, hippocampi: str | None, thalami: str | None) -> Subject:
    """Open the files of a folder; raise an OSError if it may not be searched or listed."""
    names = [name for name in SEGMENTATIONS if (folder / name).exists()] or SEGMENTATIONS
    paths = []
    for name in (names[0], BRAIN, *CORTEX):
        try:
            paths.append(existing_path(folder / name))
        except InputError as error:
            raise InputError(f"{error}; a subject's folder of FreeSurfer has {', '.join((names[0], BRAIN))} and "
                             f"{', '.join(CORTEX)}") from error
    finer, replaced = _finer(folder / "mri", hippocampi, thalami)
    structures = tuple(structure for structure in STRUCTURES if not replaced & {*structure.labels})
    whole = Segmentation(open_image(paths[0]), structures)
    return Subject((whole, *finer), open_image(paths[1]), tuple(paths[2:]))


def _finer(folder: Path, hippocampi: str | None, thalami: str | None) -> tuple[list[Segmentation], set[int]]:
    """Return the segmentations of FreeSurfer's modules, and the labels whose structures they replace."""
    finer, replaced = [], set()
    for path in _wanted(folder, "hippocampi", hippocampi, subfields_in(folder)):
        amygdala = AMYGDALA in path.name
        finer.append(Segmentation(open_image(path), SUBFIELDS + SUBFIELDS_OF_AMYGDALA * amygdala))
        replaced |= {*HIPPOCAMPI, *(AMYGDALAE * amygdala)}
    for path in _wanted(folder, "thalami", thalami, nuclei_in(folder)):
        finer.append(Segmentation(open_image(path), THALAMIC_NUCLEI))
        replaced |= {*THALAMI}
    return finer, replaced


def _wanted(folder: Path, option: str, source: str | None, images: tuple[Path, ...]) -> tuple[Path, ...]:
    """Return the images of a module if they are there, unless the option chooses labels of the whole brain."""
    if source not in (None, ASEG) and not images:
        raise InputError(f"{folder}: has no image of {option} by FreeSurfer's module of {source}; run the module, or "
                         f"leave {flag(option)} out")
    return () if source == ASEG else images


def of_subject(
    subject: Subject, warn: Callable[[str], object], space: Space | None = None, *, white_stem: bool = False
) -> tuple[Fractions, Space]:
    """Return the five fractions of a subject, and their grid.

    Parameters
    ----------
    subject : Subject
    warn : callable
        Receives a message if a hemisphere has no cortex.
    space : Space, optional
        Grid of the result; by default, that of the segmentation.
    white_stem : bool
        Whether the brain stem is white matter; otherwise it is pathological tissue, in which streamlines may end.

    Returns
    -------
    values : (x, y, z, 5) float32
    space : Space

    Raises
    ------
    InputError
        If a file is damaged, the brain is empty, a surface is not closed, or surfaces and labels do not lie at the same
        place.
    """
    labels = read_labels(subject.labels)
    space = labels.space if space is None else space
    brain = load_map(subject.brain, space, reference=labels.path, labels=True) >= BRAIN_VALUE
    shares = in_threads(lambda surface: enclosed(surface(), space), _surfaces(subject, labels), None)
    if not (boxes := [*(share.box for share in shares if share.values.size), *_boxes(brain)]):
        raise InputError(f"{labels.path}: has no brain where the template lies; give another one")
    if not brain.any():
        raise InputError(f"{subject.brain.path}: no voxel is inside the brain, all values are 0; give another one")
    _check_cortex(subject, shares, warn)
    box = _around(boxes)
    shares = [_within(share, box) for share in shares]
    structures = [structure for segmentation in subject.segmentations for structure in segmentation.structures]
    fractions = _combined([*CORTEX.values(), *(structure.tissue for structure in structures)], shares, brain[box])
    of_labels = dict(zip((structure.labels for structure in structures), shares[len(CORTEX) :], strict=True))
    stem, ventricle = (_spread(of_labels[name], brain[box].shape) for name in (STEM, FOURTH_VENTRICLE))
    if not white_stem:
        overlap = np.minimum(fractions[WHITE], stem)
        fractions[WHITE] -= overlap
        fractions[PATHOLOGICAL] = np.minimum(fractions[PATHOLOGICAL] + overlap, 1)
    fractions[:, _lower(stem, ventricle, space)] = 0
    values = np.zeros((*space.shape, len(TISSUES)), np.float32, order="F")
    values[box] = np.moveaxis(fractions, 0, -1)
    return values, space


def _surfaces(subject: Subject, labels: Labels) -> list[Callable[[], Surface]]:
    """Return functions that make the surfaces of the cortex, and then those of the structures."""
    geometry, whole = geometry_of(labels.space), _cut(labels)
    cortex = zip(subject.cortex, CORTEX.values(), strict=True)
    surfaces = [partial(_cortex_of, path, tissue, whole, geometry) for path, tissue in cortex]
    for number, (image, structures) in enumerate(subject.segmentations):
        values = _cut(read_labels(image)) if number else whole
        surfaces += [partial(_surface_of, structure, values) for structure in structures]
    return surfaces


def _cut(labels: Labels) -> Labels:
    """Return the box of an image in which there are labels."""
    box = _boxes(labels.values > 0)[0]
    space = labels.space.part([side.start for side in box], [side.stop for side in box])
    return Labels(labels.path, space, labels.values[box])


def _cortex_of(path: Path, tissue: int, labels: Labels, geometry: npt.NDArray[np.float64]) -> Surface:
    """Return a surface of the cortex, and check that it is closed and around white matter of the labels."""
    surface = load_surface(path, geometry=geometry)
    check_closed(surface)
    if tissue == WHITE:  # around which there is grey matter
        _check_place(surface, labels)
    return surface


def _check_place(surface: Surface, labels: Labels) -> None:
    """Raise an InputError if most vertices lie where there is no label, nor within the image."""
    places = np.rint(labels.space.to_voxel(surface.vertices)).astype(int)
    inside = ((places >= 0) & (places < labels.space.shape)).all(axis=1)
    share = (labels.values[tuple(places[inside].T)] > 0).sum() / len(places)
    if share < LABELLED:
        raise InputError(f"{surface.path}: only {share:.0%} of its vertices lie where {labels.path} has labels; give "
                         "files of one subject, which nothing has moved")


def _check_cortex(subject: Subject, shares: Sequence[Shares], warn: Callable[[str], object]) -> None:
    """Warn of a white surface of which the grid has a side, and which encloses as much as the pial one."""
    for place in range(0, len(CORTEX), 2):
        white, pial = (share.values for share in shares[place : place + 2])
        if white.size and white.min() < 1 and pial.sum() <= white.sum():
            warn(f"{subject.cortex[place + 1]}: there is no cortical grey matter between it and "
                 f"{subject.cortex[place].name}; give FreeSurfer's surfaces")


def _surface_of(structure: Structure, labels: Labels) -> Surface:
    """Return the smooth surface around a structure."""
    mask = np.isin(labels.values, [*structure.labels])
    return smooth(contour(mask, labels.space, structure.level), structure.extent)


def _combined(tissues: Sequence[int], shares: Sequence[Shares], brain: npt.NDArray[np.bool_]) -> Fractions:
    """Return the fractions (5, x, y, z), which sum to 1 in the brain; what no structure takes there is fluid."""
    fractions = np.zeros((len(TISSUES), *brain.shape), np.float32)
    for tissue, share in zip(tissues, shares, strict=True):
        fractions[tissue][share.box] += share.values
    left = np.ones(brain.shape, np.float32)
    for tissue in FIRST_COME:
        np.minimum(fractions[tissue], left, out=fractions[tissue])
        left -= fractions[tissue]
    filled = np.where(brain | (left < 1), left, 0)
    fractions[FLUID] = np.minimum(fractions[FLUID] + filled, 1)
    return fractions


def _lower(stem: Fractions, ventricle: Fractions, space: Space) -> npt.NDArray[np.bool_]:
    """Return the voxels of the brain stem below the fourth ventricle, which streamlines leave the image by.

    Below is along the voxel axis that is nearest to the vertical.
    """
    from nibabel.orientations import io_orientation

    axes, senses = io_orientation(space.affine).T
    axis = int(np.flatnonzero(axes == 2)[0])
    up = slice(None, None, int(senses[axis]))
    layers = np.flatnonzero(np.moveaxis(ventricle >= INSIDE, axis, 0)[up].any(axis=(1, 2)))
    lower = stem > 0
    np.moveaxis(lower, axis, 0)[up][layers[0] if len(layers) else 0 :] = False
    return lower


def _boxes(mask: npt.NDArray[np.bool_]) -> list[Box]:
    """Return the box around a mask, or nothing if it is empty."""
    from scipy.ndimage import find_objects

    return find_objects(mask.view(np.uint8))


def _around(boxes: Sequence[Box]) -> Box:
    """Return the box around others."""
    return tuple(slice(min(a.start for a in axis), max(a.stop for a in axis)) for axis in zip(*boxes, strict=True))


def _within(share: Shares, box: Box) -> Shares:
    """Return shares whose box lies in another box instead of in the grid."""
    moved = [slice(a.start - b.start, a.stop - b.start) for a, b in zip(share.box, box, strict=True)]
    return Shares(tuple(moved) if share.values.size else share.box, share.values)


def _spread(share: Shares, shape: tuple[int, ...]) -> Fractions:
    """Return shares in all of a box."""
    values = np.zeros(shape, np.float32)
    values[share.box] = share.values
    return values
