"""The frame (axes) of the directions in input files, and their transformation to the voxel axes used for tracking.

==========  ======================================================================================================
frame       axes
==========  ======================================================================================================
voxel       the axes of the array, with x along the first one, as DIPY uses them
fsl         the same, but x is flipped if the determinant of the affine is positive, as in FSL's bvecs
scanner     RAS, independent of the array, as in MRtrix3's harmonics, peaks and gradients
==========  ======================================================================================================

Files do not record their frame. If the frames differ, fibre coherence decides (:mod:`tistreamlines.fit.coherence`); if
it is not significant, a default is used with a warning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from ..aliases import Array, Json
from ..io.mif import MRTRIX_SUFFIXES
from ..io.nifti import Dwi
from ..io.orientations import Orientations
from ..io.samples import Samples
from ..space.batch import Space
from ..space.encoding import with_directions
from ..space.harmonics import BASES, basis_of, turn_coefficients
from .coherence import (
    FLIPPED_X,
    MARGIN,
    TURNS,
    coherence,
    lead,
    maxima_field,
    peaks_field,
    samples_field,
    scores_of_turns,
    tensor_field,
)

AS_GIVEN = "as given"  # the turn that changes nothing
SAME = 1e-4  # largest difference in direction cosines between equal frames
BRIGHT = 0.1  # of the 99th percentile of the mean b0: darker voxels are not examined
# tournier07 of MRtrix3, descoteaux07_legacy of DIPY, and then those that programs seldom write
BY_USE = sorted(BASES, key=lambda name: ((BASES[name].basis == "tournier07") == BASES[name].legacy, BASES[name].legacy))
NEGATIVE = 0.15  # of the positive part: the negative part of an orientation function is smaller


@dataclass(frozen=True)
class Placement:
    """The frame of an input's directions.

    Attributes
    ----------
    frame : 'voxel', 'fsl' or 'scanner'
    coherence : mapping of str to float
        Mean score of each frame that was tried; empty if there was no choice.
    decided_by : 'option', 'default', 'coherence', 'grid' or 'file'
        'grid' if the frames are identical, 'file' if the format of the file defines the frame.
    notes, warnings : tuple of str
        Messages to the user; warnings if the result may be wrong.
    """

    frame: str
    coherence: Mapping[str, float] = field(default_factory=dict)
    decided_by: str = "option"
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def as_dict(self) -> Json:
        """Return the entry in the record of a run."""
        return {"frame": self.frame, "decided_by": self.decided_by, "coherence": dict(self.coherence)}


# ------------------------------------------------------------------------------------------------------------ gradients
def place_gradients(dwi: Dwi, mask: Array | None, asked: str, name: str) -> tuple[Dwi, Placement]:
    """Transform the gradients of a series to the voxel axes.

    Parameters
    ----------
    dwi : Dwi
        The series, with gradients as in their file, or along the voxel axes if they are its own.
    mask : (x, y, z) bool, optional
        Brain mask; by default the voxels with a bright b0.
    asked : 'voxel', 'fsl' or 'auto'
    name : str
        Name of the file of the gradients, for messages.

    Returns
    -------
    dwi : Dwi
        The series with gradients along the voxel axes.
    placing : Placement
        The frame, and how it was chosen.

    Notes
    -----
    'auto' compares the two frames if they differ; if neither is significantly better, it uses 'voxel' as DIPY does.
    """
    scores = gradient_scores(dwi, mask)
    differ = dwi.space.fsl_flips_x
    if dwi.has_gradients:
        placing = Placement("scanner", decided_by="file")
    else:
        placing = _choose_gradients(scores, differ, asked, name)
    taken = FLIPPED_X if differ and placing.frame == "fsl" else AS_GIVEN
    best = max(scores, key=lambda turn: _mean(scores[turn]))
    ahead = lead(scores[best], scores[taken])
    if ahead.clear:
        text = (
            f"{name}: {_agree(ahead.share, _turned(best), _turned(taken))}; check the file"
            f"{'' if dwi.has_gradients else ' and --bvecs-frame'}"
        )
        placing = replace(placing, warnings=(*placing.warnings, text))
    if taken == AS_GIVEN:
        return dwi, placing
    return _turned_series(dwi, TURNS[taken]), placing


def _turned(turn: str) -> str:
    return "the gradients as given" if turn == AS_GIVEN else turn


def _agree(share: float, better: str, worse: str) -> str:
    """Say in plain words by which share fibre coherence is higher."""
    return f"neighbouring fibres agree {share:.0%} better with {better} than with {worse}"


def gradient_scores(dwi: Dwi, mask: Array | None = None) -> dict[str, Array]:
    """Return the coherence scores (n,) for every flip and permutation of the gradients' axes, by name."""
    if mask is None:
        mask = np.asarray(dwi.mean_b0 > BRIGHT * np.percentile(dwi.mean_b0, 99))
    seen = tensor_field(dwi.data, dwi.gtab, mask, dwi.space.voxel_sizes)
    return dict(zip(TURNS, scores_of_turns(seen), strict=True))


def _choose_gradients(scores: Mapping[str, Array], differ: bool, asked: str, name: str) -> Placement:
    if not differ:
        return Placement("fsl" if asked == "fsl" else "voxel", decided_by="grid")
    voxel, fsl = scores[AS_GIVEN], scores[FLIPPED_X]
    means = mean_scores({"voxel": voxel, "fsl": fsl})
    if asked != "auto":
        return Placement(asked, means)
    for frame, ahead in (("voxel", lead(voxel, fsl)), ("fsl", lead(fsl, voxel))):
        if ahead.clear:
            how = "x is flipped, as in FSL" if frame == "fsl" else "x is not flipped, as in DIPY"
            other = "without this flip" if frame == "fsl" else "with x flipped"
            text = f"{name}: {how}: neighbouring fibres agree {ahead.share:.0%} better than {other}"
            return Placement(frame, means, "coherence", (text,))
    text = (
        f"{name}: FSL flips x if the determinant of the affine is positive, as it is here, and DIPY does not; "
        "neighbouring fibres agree equally well both ways, so x is not flipped: give --bvecs-frame voxel or fsl"
    )
    return Placement("voxel", means, "default", (), (text,))


def along_scanner_axes(dwi: Dwi) -> Dwi:
    """Return a series with gradients along the voxel axes as one with gradients along those of the scanner."""
    if axes_are_scanners(dwi.space):
        return dwi
    return _turned_series(dwi, dwi.space.axes)


def _turned_series(dwi: Dwi, turn: Array) -> Dwi:
    return replace(dwi, gtab=with_directions(dwi.gtab, dwi.gtab.bvecs @ turn.T))


# --------------------------------------------------------------------------------------------------------- orientations
def place_orientations(oriented: Orientations, asked: str, name: str) -> tuple[Orientations, Placement]:
    """Transform harmonics or peaks to the voxel axes, and warn if another frame or basis fits the data better.

    Parameters
    ----------
    oriented : Orientations
        Orientations as in their file, of kind 'sh' or 'peaks'.
    asked : 'voxel', 'scanner' or, for peaks, 'auto'
    name : str
        Name of the file, for messages.

    Returns
    -------
    oriented : Orientations
        The orientations along the voxel axes.
    placing : Placement
        The frame, and how it was chosen.
    """
    placing = frame_of_orientations(oriented, asked, name)
    if placing.frame == "voxel" or axes_are_scanners(oriented.space):
        return oriented, placing
    return replace(oriented, values=_to_voxel_axes(oriented)), placing


def frame_of_orientations(oriented: Orientations, asked: str, name: str) -> Placement:
    """Do what :func:`place_orientations` does, but leave the orientations along the axes of their file."""
    place = _place_harmonics if oriented.kind == "sh" else _place_peaks
    return place(oriented, asked, axes_are_scanners(oriented.space), name)


def axes_are_scanners(space: Space) -> bool:
    """Whether the voxel axes are those of the scanner (RAS)."""
    return bool(np.abs(space.axes - np.eye(3)).max() < SAME)


def _to_voxel_axes(oriented: Orientations) -> Array:
    axes = oriented.space.axes
    if oriented.kind == "sh":
        assert oriented.basis is not None
        return turn_coefficients(oriented.values, axes, oriented.basis)
    shape = oriented.values.shape
    return (oriented.values.reshape(*shape[:3], -1, 3) @ axes.astype(np.float32)).reshape(shape)


def _place_harmonics(oriented: Orientations, asked: str, alike: bool, name: str) -> Placement:
    basis, axes = oriented.basis or "", oriented.space.axes
    frames = {"voxel": np.eye(3)} if alike else {"voxel": np.eye(3), "scanner": axes.T}
    scores: dict[tuple[str, str], Array] = {}
    negative = {}
    for other in BY_USE:
        if basis_of(other).full == basis_of(basis).full:
            seen, negative[other] = maxima_field(oriented.values, other, oriented.space)
            scores |= {(other, frame): coherence(seen, turn) for frame, turn in frames.items()}
    frame = "voxel" if alike else asked
    means = mean_scores({frame: scores[basis, frame] for frame in frames})
    decided = "grid" if alike else "option"
    notes = () if alike else (f"{name}: the harmonics are along the {_axes(frame)}; --sh-frame changes this",)
    most = max(map(_mean, scores.values()))
    # some bases score alike, for example tournier07 and its legacy form: prefer the given one, then the most used
    good = [pair for pair in scores if _mean(scores[pair]) >= (1 - MARGIN) * most]
    best = next((pair for pair in good if pair[0] == basis), good[0])
    ahead, warning = lead(scores[best], scores[basis, frame]), ""
    positive = next((other for other in negative if negative[other] < negative[basis] / 2), None)
    if ahead.clear:
        warning = (
            f"{name}: neighbouring fibres agree {ahead.share:.0%} better in {_name_basis(best[0], name)} along the "
            f"{_axes(best[1])} than in {basis} along the {_axes(frame)}; check --sh-basis and --sh-frame"
        )
    elif negative[basis] > NEGATIVE and positive is not None:
        warning = (
            f"{name}: the negative part of the orientation functions is {negative[basis]:.0%} in basis {basis}, but "
            f"{negative[positive]:.0%} in {_name_basis(positive, name)}; check --sh-basis"
        )
    return Placement(asked, means, decided, notes, (warning,) if warning else ())


def _name_basis(basis: str, name: str) -> str:
    """Name the basis that fits better; MRtrix3 has written no file with one of the legacy bases."""
    return "another basis" if basis_of(basis).legacy and name.lower().endswith(MRTRIX_SUFFIXES) else f"basis {basis}"


def _place_peaks(oriented: Orientations, asked: str, alike: bool, name: str) -> Placement:
    if alike:
        return Placement("voxel" if asked == "auto" else asked, decided_by="grid")
    seen = peaks_field(oriented.values, oriented.space)
    voxel, scanner = coherence(seen), coherence(seen, oriented.space.axes.T)
    means = mean_scores({"voxel": voxel, "scanner": scanner})
    leads = {"voxel": lead(voxel, scanner), "scanner": lead(scanner, voxel)}
    clear = next((frame for frame, ahead in leads.items() if ahead.clear), None)
    if asked != "auto":
        text = "" if clear is None or clear == asked else _better(name, leads[clear].share, clear)
        return Placement(asked, means, warnings=(text,) if text else ())
    if clear is None:
        text = (
            f"{name}: neighbouring peaks agree equally well along the voxel axes, as in DIPY, and along the scanner "
            f"axes, as in MRtrix3, which differ by up to {_angle_to_scanner(oriented.space):.2g} degrees; the voxel "
            "axes are used: give --peaks-frame voxel or scanner"
        )
        return Placement("voxel", means, "default", (), (text,))
    return Placement(clear, means, "coherence", (_better(name, leads[clear].share, clear),))


def _angle_to_scanner(space: Space) -> float:
    """Return the largest angle between a voxel axis and the scanner axis of the same name, in degrees."""
    return float(np.degrees(np.arccos(np.clip(np.abs(np.diag(space.axes)).min(), 0, 1))))


def _better(name: str, share: float, frame: str) -> str:
    other = "scanner" if frame == "voxel" else "voxel"
    return f"{name}: neighbouring peaks agree {share:.0%} better along the {_axes(frame)}, than along the {other} axes"


def _axes(frame: str) -> str:
    return "scanner axes, as in MRtrix3" if frame == "scanner" else "voxel axes, as in DIPY"


def _mean(scores: Array) -> float:
    return float(scores.mean()) if len(scores) else 0.0


def mean_scores(scores: Mapping[str, Array]) -> dict[str, float]:
    """Return the mean of each frame's scores, as far as there are any."""
    return {frame: round(_mean(values), 5) for frame, values in scores.items() if len(values)}


def place_samples(samples: Samples, name: str) -> Placement:
    """Return the frame of bedpostX's samples, which is FSL's, and warn if the other sign of x fits them better.

    Parameters
    ----------
    samples : Samples
        Their directions are along the voxel axes already.
    name : str
        Name of the folder, for messages.
    """
    seen = samples_field(samples)
    scores = {"fsl": coherence(seen), FLIPPED_X: coherence(seen, TURNS[FLIPPED_X])}
    ahead = lead(scores[FLIPPED_X], scores["fsl"])
    text = f"{name}: {_agree(ahead.share, 'x flipped', 'x as it is')}; check the bvecs that were fitted"
    return Placement("fsl", mean_scores(scores), "file", warnings=(text,) if ahead.clear else ())


