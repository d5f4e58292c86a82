"""Five tissues of a segmentation or of tissue fractions, and what the options of a run say of them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from ...aliases import Array
from ...devices.threads import reader
from ...errors import InputError, ParameterError, TrackingError
from ...fit.tissues import RED_GREEN_BLUE
from ...fit.tissues import TISSUES as OF_FIT
from ...io.images import (
    AnyPath,
    OpenImage,
    Tell,
    existing_path,
    grid_of,
    is_folder,
    open_image,
    state_of,
    state_of_file,
)
from ...io.in_memory import InMemory
from ...io.labels import labels_of
from ...io.nifti import load_map
from ...io.segmentations import (
    CORTICAL,
    FLUID,
    PATHOLOGICAL,
    SUBCORTICAL,
    TISSUES,
    TOLERANCE,
    WHITE,
    check_fractions,
    load_five_tissues,
    read_labels,
)
from ...space.batch import Space
from .anatomy import TISSUES as FRACTIONS
from .anatomy import doubt

if TYPE_CHECKING:
    from ...surfaces.hybrid import Subject

ACT = "act"  # the option of the stopping rule, and the word with which other options name its tissues
OPTIONS = (ACT, "seed_gmwmi", "sift2_act")  # that take five tissues, or what they are made of
SGM = "sgm"  # the option of subcortical grey matter
NAME = "act5"  # the stopping rule of five tissues
Kind = TypeVar("Kind", bound=np.generic)
# FreeSurfer's labels of each tissue in aseg, aparc+aseg, aparc.a2009s+aseg and wmparc, as 5ttgen freesurfer has them
LABELS = {
    CORTICAL: "3 8 17-18 42 47 53-54 96-97 1000-1035 1100-1181 1200-1202 1205-1207 1210-1212 2000-2035 2100-2181 "
    "2200-2202 2205-2207 2210-2212 11100-11175 12100-12175",
    SUBCORTICAL: "9-13 25-26 48-52 57-58",
    WHITE: "2 7 16 28 41 46 60 85 155-158 170-175 192 250-255 3000-3035 3100-3181 4000-4035 4100-4181 5001-5002 "
    "13100-13175 14100-14175",
    FLUID: "4-5 14-15 24 30-31 43-44 62-63 72",
    PATHOLOGICAL: "77-82 180-181",
}
AMYGDALAE_HIPPOCAMPI = "17-18 53-54"
OUTSIDE, UNKNOWN = 255, 254  # of no tissue, and of a label that is not in the table
BRAIN = 0.5  # least sum of fractions in the brain, as in tckgen -act
NEEDED = {"grey matter": {CORTICAL, SUBCORTICAL}, "white matter": {WHITE}}  # in each segmentation
NAMED = 5  # unknown labels in a message
FODS, VOLUMES = "tissues", {"tissues": len(OF_FIT)}  # the option that names a folder of FODs, and its image's volumes
NO_SUBCORTICAL = (
    "no subcortical grey matter is given: in the deep nuclei, streamlines will end at once where there is grey matter, "
    "as in the cortex, and pass where there is white matter"
)
NOT_TOLD_APART = (
    "the tissues of FODs do not tell cortical from subcortical grey matter: all of it counts as cortical, so "
    "streamlines end as they enter a deep nucleus; --sgm adds a segmentation of these"
)


@dataclass(frozen=True)
class TissueFiles:
    """The images of which five tissues are made.

    Attributes
    ----------
    files : a five-tissue-type image, a segmentation or a subject's folder; or tissue fractions, and perhaps subcortical
        grey matter, in the order of `FRACTIONS` and `SGM`.
    sgm_amyg_hipp : whether amygdalae and hippocampi are subcortical grey matter.
    """

    files: tuple[AnyPath, ...]
    sgm_amyg_hipp: bool = False

    def __str__(self) -> str:
        """Return their names, for messages."""
        return ", ".join(map(str, self.files))

    def read(self, warn: Tell) -> tuple[npt.NDArray[np.float32], Space]:
        """Return the five fractions and their grid; see :func:`read_tissues`."""
        if any(isinstance(file, InMemory | OpenImage) for file in self.files):
            return self._read(warn)
        subject = subject_at(self.files[0])
        files = self.files if subject is None else subject.files
        states = tuple(state_of(file) if subject is None else state_of_file(existing_path(file)) for file in files)
        # one thread, since two of a run may ask at once
        values, space, warnings = reader("tissues").submit(_read_files, self, states).result()
        for text in warnings:
            warn(text)
        return values, space

    def _read(self, warn: Tell) -> tuple[npt.NDArray[np.float32], Space]:
        if len(self.files) == 1 and (subject := subject_at(self.files[0])) is not None:
            if self.sgm_amyg_hipp:
                warn(f"--sgm-amyg-hipp changes nothing: amygdalae and hippocampi of a subject's folder ({self}) always "
                     "are subcortical")
            from ...surfaces.hybrid import of_subject

            return _round_affine(*cropped(*of_subject(subject, warn)))
        opened = [open_image(file) for file in self.files]
        if len(opened) == 1:
            return _read_image(opened[0], warn, sgm_amyg_hipp=self.sgm_amyg_hipp)
        named: dict[str, OpenImage] = dict(zip((*FRACTIONS, SGM), opened, strict=False))
        return _round_affine(*cropped(*of_fractions(named, warn, sgm_amyg_hipp=self.sgm_amyg_hipp)))


def tissue_files(options: Any, name: str = ACT) -> TissueFiles | None:
    """Return the images of an option of five tissues, or None; those of the stopping rule may be tissue fractions."""
    image = getattr(options, name, None)
    if name != ACT:
        if image is None:
            return None
        takes_word = name == "seed_gmwmi" and str(image) == ACT
        return tissue_files(options) if takes_word else TissueFiles((image,))
    files = (image,)
    if image is None and getattr(options, "stopping", None) == NAME:
        files = tuple(getattr(options, name) for name in (*FRACTIONS, SGM))
    known = tuple(file for file in files if file is not None)
    return TissueFiles(known, getattr(options, "sgm_amyg_hipp", False)) if known else None


def read_tissues(source: AnyPath | TissueFiles, warn: Tell) -> tuple[npt.NDArray[np.float32], Space]:
    """Read an image of five tissues, or make it of other images as ``tistreamlines 5tt --crop`` does.

    Parameters
    ----------
    source : path-like or TissueFiles
        Five-tissue-type image of four axes and five volumes, or a segmentation of three axes, or a subject's folder, or
        several images.
    warn : callable
        Receives messages about what looks wrong.

    Returns
    -------
    values : (x, y, z, 5) float32
    space : Space
        Their grid, as a NIfTI file stores it: the same streamlines follow from an image that is written and read again.

    Raises
    ------
    InputError
        If an image is missing or damaged, or of another kind.
    """
    return (source if isinstance(source, TissueFiles) else TissueFiles((source,))).read(warn)


def subject_at(source: AnyPath) -> Subject | None:
    """Open a subject's folder of FreeSurfer, or return nothing if the source is no folder.

    Raises
    ------
    InputError
        If a file of the folder is missing or damaged.
    """
    if not is_folder(source):
        return None
    from ...surfaces.hybrid import open_subject

    return open_subject(source)


def subject_files(source: AnyPath) -> tuple[Path, ...]:
    """Return the files that are read of a subject's folder; none of anything else, nor of a folder with an error."""
    with suppress(TrackingError, OSError):
        has_surfaces = is_folder(source) and (Path(source) / "surf").is_dir()  # unlike other folders, as of bedpostX
        if has_surfaces and (subject := subject_at(source)) is not None:
            return subject.files
    return ()


@lru_cache(maxsize=1)  # the rule, seeds, weights and the output of a run need the same ones, which may take seconds
def _read_files(files: TissueFiles, states: tuple[object, ...]) -> tuple[npt.NDArray[np.float32], Space, list[str]]:
    """Return the five fractions, their grid, and warnings about images that the states of their files identify."""
    del states
    warnings: list[str] = []
    return *files._read(warnings.append), warnings


def _read_image(image: OpenImage, warn: Tell, *, sgm_amyg_hipp: bool) -> tuple[npt.NDArray[np.float32], Space]:
    """Return the five fractions of a five-tissue-type image or of a segmentation, which the number of axes tells."""
    shape = tuple(image.image.shape)
    if shape[3:] == (len(TISSUES),):
        if sgm_amyg_hipp:
            warn(f"--sgm-amyg-hipp changes nothing: {image.path} has five tissues, not labels")
        return load_five_tissues(image, warn)
    if shape[3:] not in ((), (1,)):
        raise InputError(f"{image.path}: shape {shape}; give a five-tissue-type image, which has four axes and five "
                         "volumes, or a segmentation with labels of FreeSurfer, which has three axes")
    return _round_affine(*of_segmentation(image, sgm_amyg_hipp=sgm_amyg_hipp, crop=True))


def _round_affine(values: npt.NDArray[np.float32], space: Space) -> tuple[npt.NDArray[np.float32], Space]:
    """Return an image with its affine rounded to float32, as in a file."""
    return values, Space(space.affine.astype(np.float32).astype(np.float64), space.shape)


def of_segmentation(
    segmentation: OpenImage, *, sgm_amyg_hipp: bool, crop: bool = False
) -> tuple[npt.NDArray[np.float32], Space]:
    """Return the five fractions, each 0 or 1, of labels of FreeSurfer, and their grid, which may be cut to the brain.

    Raises
    ------
    InputError
        If the image is no segmentation of a brain, or has a label of no known tissue.
    """
    labels = read_labels(segmentation)
    if labels.values.max() == 1:
        raise InputError(f"{labels.path}: has only 0 and 1, as a mask; give labels of FreeSurfer, such as aparc+aseg")
    tissue, space = _tissue_of(labels.path, labels.values, sgm_amyg_hipp=sgm_amyg_hipp), labels.space
    there = set(np.flatnonzero(np.bincount(tissue.ravel(order="K"), minlength=OUTSIDE)[: len(TISSUES)]).tolist())
    if lacking := [name for name, kinds in NEEDED.items() if not there & kinds]:
        raise InputError(f"{labels.path}: has no labels of {' and '.join(lacking)}; give an aseg or aparc+aseg of "
                         "FreeSurfer, not a mask or a part of one")
    if crop:
        tissue, space = cropped(tissue, space, tissue != OUTSIDE)
    return np.asfortranarray(tissue[..., None] == np.arange(len(TISSUES)), np.float32), space


def of_fractions(
    opened: Mapping[str, OpenImage], warn: Tell, *, sgm_amyg_hipp: bool
) -> tuple[npt.NDArray[np.float32], Space]:
    """Return the five fractions and their grid, given images of three tissues and perhaps of subcortical grey matter.

    Nothing is taken to be pathological. ``warn`` receives messages about what looks wrong.
    """
    first = opened[FODS if FODS in opened else FRACTIONS[0]]
    space = grid_of(*first, sheared=True)
    read = partial(load_map, space=space, note=warn, reference=first.path)
    maps = {name: read(image, volumes=VOLUMES.get(name, 0), labels=name == SGM) for name, image in opened.items()}
    if FODS in maps:
        maps |= _of_fods(first.path, maps.pop(FODS))
    for name in FRACTIONS:
        check_fractions(opened.get(name, first).path, maps[name])
        maps[name] = maps[name].clip(0, 1)
    if FODS not in opened and (exchanged := doubt(maps, None, None)):
        warn(exchanged)
    white, grey, fluid = (maps[name] for name in FRACTIONS)
    total = white + grey + fluid
    inside = total >= BRAIN
    if not inside.any():
        files = ", ".join(str(image.path) for name, image in opened.items() if name != SGM)
        raise InputError(f"{files}: sum to {BRAIN} or more in no voxel; give fractions from 0 to 1")
    values = np.zeros((*space.shape, len(TISSUES)), np.float32, order="F")  # volume by volume, as NIfTI stores them
    values[..., FLUID] = np.divide(fluid, total, where=inside, out=np.zeros_like(total))
    left = np.where(inside, 1 - values[..., FLUID], 0)
    if SGM in maps:
        deep = _subcortical(opened[SGM].path, maps[SGM], sgm_amyg_hipp=sgm_amyg_hipp)
        values[..., SUBCORTICAL] = np.minimum(deep, left)
        left -= values[..., SUBCORTICAL]
    else:
        warn(NOT_TOLD_APART if FODS in opened else NO_SUBCORTICAL)
    # a quotient of at most 1 is rounded to at most 1, which 5ttcheck demands
    both = white + grey
    for tissue, map_ in ((CORTICAL, grey), (WHITE, white)):
        values[..., tissue] = left * np.divide(map_, both, where=both > 0, out=np.zeros_like(both))
    return values, space


def _of_fods(path: Path, shares: npt.NDArray[np.float32]) -> dict[str, npt.NDArray[np.float32]]:
    """Return the fractions of white matter, grey matter and fluid, given the shares (x, y, z, 3) of a fit of FODs."""
    tissues = {name: shares[..., RED_GREEN_BLUE.index(tissue)] for name, tissue in zip(FRACTIONS, OF_FIT, strict=True)}
    if not all(values.any() for values in tissues.values()):
        raise InputError(f"{path}: has not all of white matter, grey matter and fluid: fit FODs to two or more shells "
                         "besides b = 0")
    return tissues


def _subcortical(path: Path, values: npt.NDArray[np.float32], *, sgm_amyg_hipp: bool) -> Array:
    """Return the fraction of subcortical grey matter, given labels or the fraction itself."""
    if values.max() > 1 + TOLERANCE and (values == np.rint(values)).all():
        tissue = _tissue_of(path, labels_of(path, values), sgm_amyg_hipp=sgm_amyg_hipp)
        values = (tissue == SUBCORTICAL).astype(np.float32)
    elif sgm_amyg_hipp:
        raise ParameterError(f"--sgm-amyg-hipp needs labels, and {path} has none: leave the option out")
    check_fractions(path, values)
    if not values.any():
        raise InputError(f"{path}: has no subcortical grey matter; give a mask, fractions or labels of FreeSurfer")
    return values.clip(0, 1)


def _tissue_of(path: Path, labels: npt.NDArray[np.int32], *, sgm_amyg_hipp: bool) -> npt.NDArray[np.uint8]:
    """Return the tissue of each label, or OUTSIDE; raise an InputError if a label belongs to none."""
    tissues = {label: tissue for tissue, text in LABELS.items() for label in _listed(text)}
    if sgm_amyg_hipp:
        tissues |= dict.fromkeys(_listed(AMYGDALAE_HIPPOCAMPI), SUBCORTICAL)
    beyond = max(tissues) + 1
    table = np.full(beyond + 1, UNKNOWN, np.uint8)
    table[0] = OUTSIDE
    table[list(tissues)] = list(tissues.values())
    tissue = table[np.minimum(labels, beyond)]
    if (unknown := tissue == UNKNOWN).any():
        which = np.unique(labels[unknown])
        named = ", ".join(map(str, which[:NAMED].tolist())) + (", ..." if len(which) > NAMED else "")
        raise InputError(f"{path}: {unknown.sum():,} voxels have labels of no known tissue ({named}); give an aseg or "
                         "aparc+aseg of FreeSurfer, or set these labels to 0 or to those of their tissues")
    return tissue


def _listed(text: str) -> list[int]:
    """Return the labels of a list such as '3 17-18'."""
    ends = [[int(end) for end in word.split("-")] for word in text.split()]
    return [label for first, *last in ends for label in range(first, (last or [first])[0] + 1)]


def cropped(
    values: npt.NDArray[Kind], space: Space, inside: npt.NDArray[np.bool_] | None = None
) -> tuple[npt.NDArray[Kind], Space]:
    """Cut an image to its tissue and a voxel around it, between which and the tissue points are still interpolated.

    ``inside`` are the voxels (x, y, z) with tissue; by default, those that are not 0.
    """
    tissue = values.any(axis=-1) if inside is None else inside
    along = [np.flatnonzero(np.any(tissue, axis=others)) for others in ((1, 2), (0, 2), (0, 1))]
    low = np.array([max(places[0] - 1, 0) for places in along])
    high = np.array([places[-1] + 2 for places in along])
    part = np.asfortranarray(values[tuple(map(slice, low, high))])
    return part, space.part(low, low + part.shape[:3])
