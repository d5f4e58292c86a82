"""Five-tissue-type (5TT) images, made of a segmentation or of tissue fractions."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ..aliases import Nifti1Image
from ..errors import OutputError, ParameterError
from ..io.drafts import check_target
from ..io.images import AnyPath, OpenImage, grid_of, is_folder, open_image
from ..io.in_memory import refuse_arrays, source_of
from ..io.maps import SUFFIXES, write_map
from ..option import ImageLike, PathLike, flag
from ..space.batch import Space
from ..surfaces.hybrid import Subject, of_subject, open_subject
from ..surfaces.modules import HIPPOCAMPI_FROM, THALAMI_FROM
from ..tracking.products.grid import finer
from ..tracking.stopping.anatomy import TISSUES as FRACTIONS
from ..tracking.stopping.segmentation import FODS, cropped, of_fractions, of_segmentation
from .fod_files import shares_in
from .outputs import check_name, taken_by

LEAST_SIDE, MOST_SIDE = 0.2, 10.0  # of voxels, mm: more memory than computers have, and more than a structure


def five_tissues(
    segmentation: ImageLike | None = None, output: PathLike | None = None, *, pve_wm: ImageLike | None = None,
    pve_gm: ImageLike | None = None, pve_csf: ImageLike | None = None, tissues: PathLike | None = None,
    sgm: ImageLike | None = None, sgm_amyg_hipp: bool = False, template: ImageLike | None = None,
    voxel_size: float | None = None, hippocampi: str | None = None, thalami: str | None = None,
    white_stem: bool = False, crop: bool = False, force: bool = False,
) -> Nifti1Image:
    """Make a five-tissue-type (5TT) image, for anatomically constrained tractography.

    Parameters
    ----------
    segmentation : str, Path or nibabel image, optional
        Labels of FreeSurfer: aseg, aparc+aseg, aparc.a2009s+aseg or wmparc, or a segmentation of FastSurfer or
        SynthSeg, which have the same labels. They are grouped as by MRtrix3's ``5ttgen freesurfer``. Or a subject's
        folder of FreeSurfer, whose surfaces and labels are combined as by ``5ttgen hsvs``.
    output : str or Path, optional
        Image to write, .nii or .nii.gz.
    pve_wm, pve_gm, pve_csf : str, Path or nibabel image, optional
        Instead of a segmentation, the fractions of white matter, grey matter and cerebrospinal fluid, 0 to 1, on one
        grid. They are divided by their sum where it is at least 0.5; elsewhere, there is no brain.
    tissues : str or Path, optional
        Instead of these, a folder of FODs by :func:`fit_fods`, which have the shares of three tissues. The image is a
        stand-in for that of an anatomical image: all grey matter counts as cortical unless ``sgm`` is given.
    sgm : str, Path or nibabel image, optional
        Subcortical grey matter on the grid of the fractions: a mask, fractions from 0 to 1, or labels of FreeSurfer, as
        FSL's FIRST writes them, too. As in ``5ttgen fsl``, cerebrospinal fluid stays as it is, and white matter and
        cortical grey matter share what is left.
    sgm_amyg_hipp : bool
        Take the amygdalae and hippocampi as subcortical grey matter; otherwise they are cortical. Of a subject's
        folder, they always are subcortical.
    template : str, Path or nibabel image, optional
        For a subject's folder: the image whose grid the result has; by default, it is that of the labels.
    voxel_size : float, optional
        For a subject's folder instead of ``template``: the side of the voxels in mm, which cover the labels' grid.
    hippocampi, thalami : str, optional
        For a subject's folder: ``"aseg"`` takes these structures, and amygdalae, from the labels of the whole brain.
        ``"subfields"`` and ``"nuclei"`` take them from the images of FreeSurfer's modules. These are the defaults if
        the folder has such images.
    white_stem : bool
        For a subject's folder: take the brain stem as white matter; otherwise it is pathological tissue, in which
        streamlines may end.
    crop : bool
        Cut the grid to the brain, with a voxel around it; by default, it is that of the input.
    force : bool
        Overwrite an existing file.

    Returns
    -------
    nibabel.nifti1.Nifti1Image, (x, y, z, 5) float32
        Fractions of cortical grey matter, subcortical grey matter, white matter, cerebrospinal fluid and pathological
        tissue. They sum to 1 in the brain, and are 0 elsewhere.

    Raises
    ------
    ParameterError
        If there is no segmentation, nor all three fractions, nor a folder of FODs, or if options cannot be combined.
    InputError
        If an input is missing, damaged or on another grid, has a label of no known tissue, or values that are no
        fractions.
    OutputError
        If the output exists, has another suffix, or cannot be written.

    Warns
    -----
    UserWarning
        If maps seem to be exchanged, fractions come without subcortical grey matter, or a hemisphere has no cortex.

    Notes
    -----
    Labels and fractions are combined as by MRtrix3's ``5ttgen freesurfer`` and ``5ttgen fsl`` [1]_, and surfaces as by
    ``5ttgen hsvs`` [2]_.

    References
    ----------
    .. [1] Smith RE, Tournier JD, Calamante F, Connelly A. Anatomically-constrained tractography: improved diffusion MRI
        streamlines tractography through effective use of anatomical information. NeuroImage 62, 2012.
        doi:10.1016/j.neuroimage.2012.06.005
    .. [2] Smith RE, Skoch A, Bajada CJ, Caspers S, Connelly A. Hybrid surface-volume segmentation for improved
        anatomically-constrained tractography. OHBM 2020.

    Examples
    --------
    Of a segmentation with FreeSurfer's labels: white matter (2) around a thalamus (10).

    >>> import nibabel as nib
    >>> import numpy as np
    >>> import tistreamlines as ts
    >>> labels = np.full((8, 8, 8), 2, np.int16)
    >>> labels[3:5, 3:5, 3:5] = 10
    >>> image = ts.five_tissues(nib.Nifti1Image(labels, np.eye(4)), "5tt.nii.gz")
    >>> image.shape
    (8, 8, 8, 5)
    >>> image.get_fdata()[3, 3, 3].tolist()
    [0.0, 1.0, 0.0, 0.0, 0.0]
    """
    import nibabel as nib

    from ..io.placement import placement_doubts

    inputs = {
        "segmentation": segmentation, "pve_wm": pve_wm, "pve_gm": pve_gm, "pve_csf": pve_csf, "sgm": sgm,
        "template": template,
    }
    sources = {name: source_of(name, image) for name, image in inputs.items() if image is not None}
    if tissues is not None:
        sources[FODS] = shares_in(Path(tissues))
    _check(sources, sgm_amyg_hipp=sgm_amyg_hipp)
    of_folder = {
        "template": template, "voxel_size": voxel_size, "hippocampi": hippocampi, "thalami": thalami,
        "white_stem": white_stem,
    }
    subject, taken = _subject(sources, of_folder, sgm_amyg_hipp=sgm_amyg_hipp), taken_by(sources.values())
    if subject is not None:
        sources["segmentation"] = subject.labels
    target = None if output is None else Path(output)
    if target is not None:
        check_name(target, taken)
        if not target.name.lower().endswith(SUFFIXES):
            raise OutputError(f"{target}: unknown suffix {target.suffix!r}; end the name with {', '.join(SUFFIXES)}")
        check_target(target, force=force)
    opened = {name: open_image(source) for name, source in sources.items()}
    for text in placement_doubts(sources.values()):
        warnings.warn(text, stacklevel=2)
    if subject is not None:
        grid = _grid(subject, opened.get("template"), voxel_size)
        values, space = of_subject(subject, partial(warnings.warn, stacklevel=2), grid, white_stem=white_stem)
        values, space = cropped(values, space) if crop else (values, space)
    elif segmentation is not None:
        values, space = of_segmentation(opened["segmentation"], sgm_amyg_hipp=sgm_amyg_hipp, crop=crop)
    else:
        values, space = of_fractions(opened, partial(warnings.warn, stacklevel=2), sgm_amyg_hipp=sgm_amyg_hipp)
        values, space = cropped(values, space) if crop else (values, space)
    if target is not None:
        write_map(target, values, space, force=force)
    image = nib.Nifti1Image(values, space.affine)
    image.header.set_xyzt_units("mm")
    return image


def _check(sources: Mapping[str, object], *, sgm_amyg_hipp: bool) -> None:
    """Raise a ParameterError unless there is either a segmentation, or all fractions, or a folder of FODs."""
    fractions = [name for name in FRACTIONS if name in sources]
    others = [name for name in (FODS, *FRACTIONS, "sgm") if name in sources]
    if "segmentation" in sources and others:
        raise ParameterError(f"{flag(others[0])} and a segmentation cannot be combined: give one of them")
    if FODS in sources and fractions:
        raise ParameterError(f"{flag(FODS)} and {flag(fractions[0])} cannot be combined: give one of them")
    if not {FODS, "segmentation"} & set(sources) and len(fractions) < len(FRACTIONS):
        raise ParameterError(
            f"give a segmentation, or all of {', '.join(map(flag, FRACTIONS))}, or a folder of FODs with {flag(FODS)}"
        )
    if "segmentation" not in sources and sgm_amyg_hipp and "sgm" not in sources:
        raise ParameterError("--sgm-amyg-hipp needs a segmentation, or labels with --sgm")
    refuse_arrays({flag(name): source for name, source in sources.items()})


def _subject(
    sources: Mapping[str, AnyPath], of_folder: Mapping[str, Any], *, sgm_amyg_hipp: bool
) -> Subject | None:
    """Open a subject's folder, or return nothing if the segmentation is none; check the options of folders."""
    segmentation = sources.get("segmentation")
    options = [name for name, value in of_folder.items() if value is not None and value is not False]
    if segmentation is None or not is_folder(segmentation):
        if options:
            raise ParameterError(f"{flag(options[0])} is for a subject's folder of FreeSurfer: leave it out")
        return None
    if sgm_amyg_hipp:
        raise ParameterError(f"{flag('sgm_amyg_hipp')} is for labels; of a subject's folder, amygdalae and hippocampi "
                             "always are subcortical: leave it out")
    if "template" in options and "voxel_size" in options:
        raise ParameterError(f"{flag('template')} and {flag('voxel_size')} both say what the grid is: give one of them")
    choices = {"hippocampi": HIPPOCAMPI_FROM, "thalami": THALAMI_FROM}
    for name, words in choices.items():
        if of_folder[name] not in (None, *words):
            raise ParameterError(f"{flag(name)} is {of_folder[name]!r}: give {' or '.join(words)}")
    return open_subject(segmentation, *(of_folder[name] for name in choices))


def _grid(subject: Subject, template: OpenImage | None, voxel_size: float | None) -> Space:
    """Return the grid of a template, or one of cubes that covers a subject's labels, or theirs."""
    if template is not None:
        return grid_of(*template, sheared=True)
    space = grid_of(*subject.labels, sheared=True)
    if voxel_size is None:
        return space
    if not LEAST_SIDE <= voxel_size <= MOST_SIDE:
        raise ParameterError(f"{flag('voxel_size')} is {voxel_size:g} mm: give {LEAST_SIDE:g} to {MOST_SIDE:g} mm")
    return finer(space, voxel_size)
