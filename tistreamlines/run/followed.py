"""The FODs or samples that streamlines of a run follow, with which their densities are compared."""

from __future__ import annotations

import numpy as np

from ..errors import ParameterError
from ..fit.fod_image import FodImage
from ..io.orientations import Orientations
from ..io.samples import Samples
from ..option import flag
from ..options.parameters import Parameters
from ..space.batch import Space
from ..space.harmonics import basis_of, sampling_matrix
from ..space.sphere import load_sphere
from ..tracking.registry import FOD_MODELS
from ..tracking.sources import FITTED
from ..tracking.tables.inputs import OrientationFunctions, Signals
from ..tracking.weights.fods import NEEDED, Fods

ORDER, BASIS = 8, "descoteaux07_legacy"  # of the harmonics that are fitted to samples of functions


def fods_of(follows: Signals | OrientationFunctions | Samples, space: Space, options: Parameters) -> Fods:
    """Return the FODs, or the samples of fibres, that a direction getter follows.

    Parameters
    ----------
    follows : OrientationFunctions, Samples or Signals
        Directions are along the voxel axes.
    space : Space
        Grid of the image that is tracked.
    options : Parameters
        All options.

    Raises
    ------
    ParameterError
        If what is followed has no densities of fibres.
    """
    if isinstance(follows, Samples):
        return follows
    if not isinstance(follows, OrientationFunctions):
        raise ParameterError(f"--dg {options.dg} follows signals, which have no densities of fibres: {NEEDED}")
    if options.source == FITTED and options.model not in FOD_MODELS:
        raise ParameterError(
            f"--model {options.model} has no densities of fibres: give --model csd, or {NEEDED.removeprefix('give ')}"
        )
    values, basis = follows.values, follows.basis
    if follows.kind == "peaks":
        raise ParameterError(f"{flag(options.source)} has no densities of fibres: {NEEDED}")
    if follows.kind == "pmf":
        if not follows.symmetric:
            raise ParameterError(f"--asymmetric keeps opposite directions apart, and a fixel does not: {NEEDED}")
        fit = np.linalg.pinv(sampling_matrix(load_sphere(options.sphere)[0], ORDER, BASIS)).astype(np.float32)
        values, basis = np.asarray(values, np.float32) @ fit.T, BASIS
    if basis_of(basis).full:
        raise ParameterError(f"--sh-basis {basis} keeps opposite directions apart, and a fixel does not: {NEEDED}")
    harmonics = Orientations("sh", np.ascontiguousarray(values, np.float32), basis, None, space)
    return FodImage(harmonics, "voxel", "the FODs that are tracked")
