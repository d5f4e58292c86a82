"""Images of fibre orientation distributions (FODs), whose lobes are sought."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import ParameterError
from ..io.images import Tell
from ..io.in_memory import InMemory, source_of
from ..io.orientations import Orientations
from ..space.harmonics import basis_of, turned
from .frames import axes_are_scanners, frame_of_orientations

MRTRIX_BASIS = "tournier07"  # of a .mif, unless another one is given
MRTRIX_SUFFIXES = (".mif", ".mif.gz", ".mih")


def source_and_basis(
    fod: Any, basis: str | None, frame: str | None, *, option: str = "--sh-basis"
) -> tuple[Any, str]:
    """Return the image that is given and its basis, by default that of MRtrix3 for its own files."""
    given = source_of("fod", fod)
    if isinstance(given, InMemory) and given.affine is None:
        raise ParameterError("fod is an array: give a nibabel image, or the path of one")
    if basis is None:
        if not str(given).lower().endswith(MRTRIX_SUFFIXES):
            raise ParameterError(f"{option} is needed, since {given} does not say it: tournier07 of MRtrix3, or "
                                 "descoteaux07_legacy, DIPY's default")  # fmt: skip
        basis = MRTRIX_BASIS
    if basis_of(basis).full:
        raise ParameterError(f"{option} {basis} keeps opposite directions apart, and a fixel does not: give a "
                             "symmetric basis and functions of even degrees")  # fmt: skip
    if frame not in (None, "scanner", "voxel"):
        raise ParameterError(f"--sh-frame is {frame!r}: give scanner or voxel")
    return given, basis


def along_scanner_axes(
    harmonics: Orientations, inside: npt.NDArray[np.bool_], frame: str, name: str, warn: Tell
) -> npt.NDArray[np.float32]:
    """Return coefficients along the scanner's axes, (voxels, n); warn if another frame or basis fits better.

    Lobes depend a little on the directions in which functions are sampled. Along these axes, these are MRtrix3's,
    however the voxels are stored.
    """
    placing = frame_of_orientations(harmonics, frame, name)
    for text in placing.warnings:
        warn(text)
    if frame == "scanner" or axes_are_scanners(harmonics.space):
        return harmonics.values[inside]
    assert harmonics.basis is not None
    return turned(harmonics.values[inside], harmonics.space.axes.T, harmonics.basis)
