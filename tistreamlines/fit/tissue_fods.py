"""FODs of white matter beside grey matter and fluid: responses, multi-tissue deconvolution, normalisation."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from ..aliases import Array, GradientTable
from ..devices import CPU
from ..devices.threads import in_threads
from ..errors import DeviceError, InputError, ParameterError
from ..io.nifti import Dwi
from ..io.response import read_response
from ..option import PathLike, flag
from .amp_response import default_orders
from .dhollander import check_estimable, estimate_responses
from .fod_fit import FodFit
from .msmt import fit_msmt
from .normalise import normalise_tissues
from .shells import b_value
from .tissues import HIGHEST_ORDER, TISSUES, WHITE, TissueProblem, doubts, tissue_shells, tissues_of

Responses = Mapping[str, npt.NDArray[np.float64]]
Voxels = Mapping[str, npt.NDArray[np.bool_]]
Tell = Callable[[str, float], object]  # receives the name of a stage and its share that is done
Result = TypeVar("Result")
BLOCK = 1 << 12  # voxels per task


@dataclass(frozen=True, repr=False, eq=False)
class TissueOptions:
    """The options of a fit of tissues.

    Attributes
    ----------
    files : mapping of str to path
        Responses by tissue; without any, they are estimated.
    highest : int
        Highest order of the harmonics of white matter, unless ``orders`` has another one.
    normalise : bool
        Whether tissues are divided by a field that makes their sum the same everywhere.
    orders : tuple of int
        Orders of the harmonics of white matter, grey matter and fluid; by default those of the responses, up to 8.
    """

    files: Mapping[str, PathLike]
    highest: int
    normalise: bool
    orders: tuple[int, ...] = ()


def tissue_fods(
    dwi: Dwi, mask: npt.NDArray[np.bool_], options: TissueOptions, threads: int | None = None,
    tell: Tell = lambda *_: None, arch: str = CPU,
) -> FodFit:
    """Fit FODs of white matter beside the other tissues that the responses have.

    Parameters
    ----------
    dwi : Dwi
        The series; the FODs are along the axes of its gradients.
    mask : (x, y, z) bool
        Voxels to fit.
    options : TissueOptions
    threads : int, optional
        Number of CPU threads; None is one per core.
    tell : callable
        Receives the stages and their progress.
    arch : str
        Where tissues are fitted.

    Returns
    -------
    FodFit

    Raises
    ------
    InputError
        If responses and shells do not match, or the series does not determine the FODs.
    """
    responses, selections = responses_of(dwi, mask, options.files, threads, tell, arch)
    known = orders_of(responses, options.orders, options.highest)
    tell("fit", 0)
    solved = fit_msmt(dwi.data, dwi.gtab, mask, responses, known, threads, partial(tell, "fit"), arch)
    for sentence in doubts(solved.problem):
        warnings.warn(sentence, stacklevel=2)
    if not _all_finite(solved.coefficients.values(), mask, threads):
        raise DeviceError(f"--arch {arch}: the device gave coefficients that are not finite; give --arch {CPU}")
    if not (mask & ~solved.failed).any():
        raise InputError("no voxel of the mask has a signal: check series and mask")
    bvals = [b_value(dwi.gtab, shell) for shell in tissue_shells(dwi.gtab)]
    chosen = {"orders": dict(zip(responses, known, strict=True))}
    fit = FodFit(solved.coefficients, responses, bvals, mask, solved.failed, solved.residual, chosen, selections)
    if not options.normalise:
        return fit
    tell("normalise", 0)
    return normalised(fit, threads)


# ----------------------------------------------------------------------------------------------------------- responses
def planned_orders(dwi: Dwi, mask: npt.NDArray[np.bool_], options: TissueOptions) -> dict[str, int]:
    """Return the order of each tissue that would be fitted; check all that is known of responses and gradients."""
    names = tissues_of(options.files, dwi.gtab)
    if options.files:
        responses = {name: response_of_file(file, dwi.gtab, name) for name, file in options.files.items()}
        orders = orders_of(responses, options.orders, options.highest)
        TissueProblem.of(dwi.gtab, responses, orders)
    else:
        shells = check_estimable(dwi.data, dwi.gtab, mask)
        degrees = max(default_orders(dwi.gtab)) // 2 + 1
        estimated = {name: np.zeros((len(shells), degrees if name == WHITE else 1)) for name in names}
        orders = orders_of(estimated, options.orders, options.highest)
    return dict(zip(names, orders, strict=True))


def responses_of(
    dwi: Dwi, mask: npt.NDArray[np.bool_], files: Mapping[str, PathLike], threads: int | None, tell: Tell, arch: str
) -> tuple[Responses, Voxels]:
    """Return the responses of files, or those of dhollander and the voxels that they are estimated from."""
    tell("responses", 0)
    if files:
        return {name: response_of_file(file, dwi.gtab, name) for name, file in files.items()}, {}
    try:
        progress = partial(tell, "responses")
        estimated = estimate_responses(dwi.data, dwi.gtab, mask, threads=threads, progress=progress, arch=arch)
    except InputError as error:
        reason = f"{error.on_command_line.partition(':')[0]}, so no responses are estimated"
        raise InputError(f"{reason}: check series and mask, or give responses with --response-wm") from error
    responses = {name: estimated.responses[name] for name in tissues_of(files, dwi.gtab)}
    return responses, {name: estimated.selections[name] for name in TISSUES}


def response_of_file(file: PathLike, gtab: GradientTable, tissue: str) -> npt.NDArray[np.float64]:
    """Read MRtrix3's text of a response (shells, degrees), and check that it is one of the tissue and of the series."""
    table = read_response(file)
    if len(widths := {len(row) for row in table.rows}) > 1:
        raise InputError(f"{table.name}: has rows of {min(widths)} to {max(widths)} numbers; give rows of one length")
    bvals = [b_value(gtab, shell) for shell in tissue_shells(gtab)]
    if len(table.rows) != len(bvals):
        listed = ", ".join(f"{bval:.0f}" for bval in bvals)
        raise InputError(
            f"{table.name}: has {len(table.rows)} rows, but the series the shells b = {listed}: give a response of "
            f"these, or choose shells with {flag('shells')}"
        )
    rows = np.array(table.rows)
    if reason := _doubt(rows, tissue):
        raise InputError(f"{table.name}: {reason}: give a response of {tissue}, as of dwi2response")
    return rows


def _doubt(rows: Array, tissue: str) -> str | None:
    """Return why rows (shells, degrees) are no response of a tissue; None if they may be one."""
    if not np.isfinite(rows).all():
        return f"has {rows[~np.isfinite(rows)][0]:g}"
    means = rows[:, 0]
    if means.min() < 0 or not means.any():
        return f"the mean signal of row {means.argmin() + 1} is {means.min():g}"
    if tissue == WHITE and not rows[:, 1:].any():
        return "has no column but that of the mean signal, so FODs would have no direction"
    if tissue == WHITE and rows[np.abs(rows[:, 1]).argmax(), 1] > 0:
        return f"its second column has {rows[:, 1].max():g} and is not negative, so signals would be high along fibres"
    return None


def orders_of(responses: Responses, orders: Sequence[int], highest: int) -> list[int]:
    """Return the order of each tissue: from the caller, or else the order of its response, up to the highest one."""
    if len(orders) > len(responses):
        raise ParameterError(f"--lmax has {len(orders)} orders for {len(responses)} tissues ({', '.join(responses)}): "
                             "give one for each")
    limits = [highest, *[HIGHEST_ORDER] * (len(responses) - 1)]
    known = [min(2 * rows.shape[1] - 2, limit) for rows, limit in zip(responses.values(), limits, strict=True)]
    return [*orders, *known[len(orders) :]]


# ------------------------------------------------------------------------------------------------- after the fit
def normalised(fit: FodFit, threads: int | None = None) -> FodFit:
    """Divide all tissues by the field that makes their sum the same everywhere, as MRtrix3's ``mtnormalise`` does.

    This changes the coefficients of the fit, since two copies of them may be gigabytes.
    """
    densities = {name: values[..., 0] for name, values in fit.coefficients.items()}
    try:
        known = normalise_tissues(densities, fit.mask & ~fit.failed, threads=threads)
    except InputError as error:
        advice = "the tissues are not normalised: widen the mask, or give --no-normalise"
        raise InputError(f"{error.on_command_line.partition(':')[0]}, so {advice}") from error
    field = known.field.reshape(-1, 1)

    def divide(rows: Array, voxels: Array) -> None:
        rows[voxels] /= field[voxels]

    _of_voxels(divide, fit.coefficients.values(), fit.mask, threads)
    chosen = fit.chosen | {"lognorm_scale": known.scale, "balance": known.factors}
    return replace(fit, field=known.field, scale=known.scale, chosen=chosen)


def _all_finite(images: Iterable[Array], mask: npt.NDArray[np.bool_], threads: int | None) -> bool:
    """Whether all coefficients (x, y, z, k) in a mask are finite."""
    return all(_of_voxels(lambda rows, voxels: np.isfinite(rows[voxels]).all(), images, mask, threads))


def _of_voxels(
    task: Callable[[Array, Array], Result], images: Iterable[Array], mask: npt.NDArray[np.bool_], threads: int | None
) -> list[Result]:
    """Return what a task gives for the rows (voxels, k) of each image and the numbers (m,) of voxels of a mask."""
    voxels = np.flatnonzero(mask)
    tables = [image.reshape(mask.size, -1) for image in images]  # views, also of columns of one table
    parts = [(rows, voxels[first : first + BLOCK]) for rows in tables for first in range(0, len(voxels), BLOCK)]
    return in_threads(lambda part: task(*part), parts, threads)
