"""The fits of orientation models (:mod:`.models`), and the responses that they need."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from ..aliases import Array, GradientTable, Json
from ..devices import CPU
from ..devices.threads import single_blas
from ..errors import InputError, ParameterError
from ..io.nifti import Dwi
from ..io.response import AUTO, FA, FEWEST_FIBRES, TOURNIER, WAYS, read_response
from ..option import PathLike, flag
from ..space.harmonics import count_of, order_advice, order_of, to_descoteaux, turning_matrix
from .csd import System, fit_system
from .csd_shells import SHARPER, ShellResponses, responses_of_high_fa, responses_of_tournier
from .csd_weight import choose_weight
from .frames import along_scanner_axes, axes_are_scanners
from .linear import MORE_DIRECTIONS, LinearModel, fit_linear
from .models import ALL, ONE, FitOptions, Fitted, Mask, Progress, response_files, weight_of
from .response import FibreResponse, single_fibre_response, tensor_response
from .series import in_parts
from .shells import shells_of_csd
from .tissue_fods import TissueOptions, tissue_fods
from .tissues import BASIS as TISSUE_BASIS

Fit = Callable[[Dwi, Mask, FitOptions, int | None, Progress, str], Fitted]
Estimate = TypeVar("Estimate")  # a response of one shell or of several


def _fit_linear(
    dwi: Dwi, mask: Mask, options: FitOptions, threads: int | None, progress: Progress, arch: str
) -> Fitted:
    model = LinearModel.of(dwi.gtab, options.model, options.sh_order, options.sm_lambda)
    return Fitted(fit_linear(dwi.data, dwi.gtab, mask, model, options.min_signal, threads, progress, arch), {})


class CsdFit(NamedTuple):
    """A fit of constrained spherical deconvolution.

    It has coefficients (x, y, z, m), equations, values that were chosen from the data, for the record, and the voxels
    (x, y, z) from which the response of one shell was estimated, if it was.
    """

    coefficients: npt.NDArray[np.float32]
    system: System
    chosen: Json
    voxels: Mask | None


def _fit_csd(dwi: Dwi, mask: Mask, options: FitOptions, threads: int | None, progress: Progress, arch: str) -> Fitted:
    fit = fit_fibres(dwi.data, dwi.gtab, mask, options, threads, progress, arch)
    return Fitted(fit.coefficients, fit.chosen)


def fit_fibres(
    data: Array, gtab: GradientTable, mask: Mask, options: FitOptions, threads: int | None = None,
    progress: Progress = lambda _: None, arch: str = CPU,
) -> CsdFit:
    """Fit constrained spherical deconvolution to one shell or several, with responses of single-fibre voxels.

    The device of an arch fits the voxels. The CPU estimates the response and chooses the weight.
    """
    directions, coefficients = int(np.count_nonzero(~gtab.b0s_mask)), count_of(options.sh_order)
    if directions < coefficients:
        warnings.warn(
            f"{directions} diffusion-weighted volumes are fewer than the {coefficients} coefficients of order "
            f"{options.sh_order}, so the fit depends on the constraint that fODFs are not negative: "
            f"{order_advice(directions, MORE_DIRECTIONS)}",
            stacklevel=2,
        )
    with single_blas():
        if len(shells_of_csd(gtab)) > 1:
            responses, weight = responses_and_weight(data, gtab, mask, options, threads)
            system = responses.system(gtab, options.sh_order).with_weight(weight)
            record, voxels = responses.record(gtab), None
        else:
            response, weight = response_and_weight(data, gtab, mask, options, threads)
            system = System.of(gtab, response.response, options.sh_order, weight)
            record, voxels = response.record, response.voxels
        if weight_of(options.csd_lambda) is None:
            warnings.warn(f"{flag('csd_lambda')} auto is {weight:g} for this series", stacklevel=2)
        coefficients = fit_system(data, gtab, mask, system, threads, progress, arch)
    return CsdFit(coefficients, system, {"csd_lambda": weight, "response": record}, voxels)


def _fit_msmt(dwi: Dwi, mask: Mask, options: FitOptions, threads: int | None, progress: Progress, arch: str) -> Fitted:
    """Fit the FODs of white matter beside other tissues: along the scanner's axes, as a file of them would have it."""
    fit = tissue_fods(
        along_scanner_axes(dwi), mask, tissue_options(options), threads, lambda _, share: progress(share), arch
    )
    # responses may be of a lower order
    whole, voxels = np.zeros((*mask.shape, count_of(options.sh_order)), np.float32), np.flatnonzero(mask)
    rows, out = (values.reshape(mask.size, -1) for values in (fit.coefficients["wm"], whole))
    turn = None
    if not axes_are_scanners(dwi.space):
        turn = turning_matrix(dwi.space.axes, order_of(rows.shape[1]), TISSUE_BASIS)

    def convert(part: slice) -> None:
        fods = rows[voxels[part]]
        if turn is not None:
            fods = (fods.astype(np.float64) @ turn.T).astype(np.float32)
        out[voxels[part], : rows.shape[1]] = to_descoteaux(fods, TISSUE_BASIS)

    in_parts(convert, len(voxels), threads)
    return Fitted(whole, fit.chosen, fit.shares(threads))


def tissue_options(options: FitOptions, orders: tuple[int, ...] = ()) -> TissueOptions:
    """Return what the options ask of the fit of several tissues."""
    return TissueOptions(response_files(options), options.sh_order, options.normalise, orders)


def response_and_weight(
    data: Array, gtab: GradientTable, mask: Mask, options: FitOptions, threads: int | None = None
) -> tuple[FibreResponse, float]:
    """Return what CSD is fitted with: the response and the weight."""
    response, weight = _response(options.response, data, gtab, mask, options, threads), weight_of(options.csd_lambda)
    if weight is None:
        weight = choose_weight(data, gtab, mask, response.response, options.sh_order, threads)
    return response, weight


def responses_and_weight(
    data: Array, gtab: GradientTable, mask: Mask, options: FitOptions, threads: int | None = None
) -> tuple[ShellResponses, float]:
    """Return what CSD of several shells is fitted with, as :func:`response_and_weight`."""
    order, way = options.sh_order, options.response
    if way not in WAYS:
        raise ParameterError(f"{flag('csd_shells')} {ALL} estimates a response of each shell: leave "
                             f"{flag('response')} out, or give {flag('csd_shells')} {ONE}")

    def of_high_fa(fewest: int) -> ShellResponses:
        return responses_of_high_fa(data, gtab, mask, order, options.fa_response, fewest, threads)

    def of_tournier() -> ShellResponses:
        return responses_of_tournier(data, gtab, mask, order, threads)

    responses = _estimated(str(way), of_high_fa, of_tournier)
    weight = weight_of(options.csd_lambda)
    if weight is None:
        equations = partial(responses.system, order=order)
        outermost = responses.outermost(order)
        weight = choose_weight(data, gtab, mask, outermost, order, threads, equations, SHARPER)
    return responses, weight


def _response(
    way: Any, data: Array, gtab: GradientTable, mask: Mask, options: FitOptions, threads: int | None
) -> FibreResponse:
    """Return the response."""
    if way not in WAYS:
        return known_response(way, gtab, options.sh_order)
    return _estimated(
        way, lambda fewest: tensor_response(data, gtab, mask, options.fa_response, threads, fewest),
        lambda: single_fibre_response(data, gtab, mask, options.sh_order, threads),
    )


def _estimated(way: str, of_high_fa: Callable[[int], Estimate], of_tournier: Callable[[], Estimate]) -> Estimate:
    """Return the response that is estimated in a way, of which ``auto`` chooses one."""
    if way == TOURNIER:
        return of_tournier()
    try:
        return of_high_fa(FEWEST_FIBRES if way == AUTO else 1)
    except InputError as error:
        few = error.on_command_line
        if way == FA:
            words = f"lower {flag('fa_response')}, or give {flag('response')} {TOURNIER} or a file"
            raise InputError(few.replace("lower fa_threshold or give the response yourself", words)) from error
    try:
        response = of_tournier()
    except InputError:  # in a small mask
        return _estimated(FA, of_high_fa, of_tournier)
    text = f"{few.partition(':')[0]}, so the response is that of {flag('response')} {TOURNIER}"
    warnings.warn(text, stacklevel=2)
    return response


def known_response(source: PathLike, gtab: GradientTable, order: int) -> FibreResponse:
    """Return the response that a file or numbers have for the shell of a series."""
    shell = float(gtab.bvals[~gtab.b0s_mask].mean())
    return FibreResponse(read_response(source).of_shell(shell, order))


# By model. The arguments are the series, the voxels to fit (x, y, z), the options, and the number of CPU threads, None
# for one per core. A function that receives the share of fitted voxels follows, and the arch whose device may fit them.
MODEL_FITS: dict[str, Fit] = {"opdt": _fit_linear, "csa": _fit_linear, "csd": _fit_csd, "msmt": _fit_msmt}
