"""The response of constrained spherical deconvolution: the signal of a single fibre, estimated from a series.

References
----------
Tournier, Calamante, Gadian, Connelly. Direct estimation of the fiber orientation density function from
diffusion-weighted MRI data using spherical deconvolution. NeuroImage 23, 2004.
Tournier, Calamante, Connelly. Determination of the appropriate b value and number of gradient directions for
high-angular-resolution diffusion-weighted imaging. NMR in Biomedicine 26, 2013.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from ..aliases import Array, AxSymShResponse, GradientTable, Json
from ..devices.threads import in_threads, single_blas
from ..errors import InputError
from ..io.response import FA, FEWEST_FIBRES, TOURNIER, ZonalResponse
from ..space.encoding import tensor_design
from ..space.harmonics import order_of, sampling_matrix, zonal_harmonics
from ..space.sphere import load_sphere
from .csd import DIPYS_WEIGHT, Response, System, deconvolve_series
from .csd_system import BASIS
from .iterations import iterated_axes
from .series import check_series
from .shells import on_shell, shell_of_tensor
from .tensor import anisotropy, eigenvalues, fractional_anisotropy

Voxels = npt.NDArray[np.bool_]
RADIUS = 10  # voxels; that of DIPY's cube
# of the search for voxels with a single fibre
RANKED, TESTED, FIBRES = 4096, 1024, 300  # voxels of the first pass, of the others, and that make the response
SHARE = 4  # of a small mask, one in so many voxels makes the response, and at least FEWEST_FIBRES
FEWEST = 100  # voxels among which to search
SHARPEST = (1.0, -1.0, 1.0)  # the first response, which only ranks the voxels
FIRST_ORDER = 4
PASSES = 10
STAYS = 0.95  # of the voxels that make the response, after which it changes no more than by noise
LOBE = 30.0  # degrees from the greatest amplitude within which a lobe's axis is computed
NEIGHBOURS = 6  # of a vertex of the sphere
BLOCK, MANY = 512, 1 << 14  # voxels per task; fixed, so that the bits do not depend on the number of threads

__all__ = ["csd_response", "iterative_response", "response_record"]


@dataclass(frozen=True, eq=False)
class FibreResponse:
    """The response of a single fibre.

    Attributes
    ----------
    response : (evals, S0) or ZonalResponse
        Eigenvalues in mm2/s and the b0 signal, as DIPY has them, or zonal harmonics.
    way : str
        In which way it was estimated: 'fa' or 'tournier', or 'given' by the user.
    voxels : (x, y, z) bool or None
        From which it was estimated, if it was.
    """

    response: Response
    way: str = "given"
    voxels: Voxels | None = None

    @property
    def record(self) -> Json:
        """It as the record of a run has it."""
        return response_record(self.response) | {"way": self.way}


def csd_response(
    data: Array, gtab: GradientTable, mask: Voxels, fa_threshold: float = 0.7, threads: int | None = None,
    fewest: int = 1,
) -> tuple[tuple[Array, float], float]:
    """Estimate the response of a single fibre, as DIPY's ``auto_response_ssst`` does.

    It is the mean tensor of the voxels with high FA in a cube of 21 voxels' edge at the centre of the volume. Unlike
    DIPY, only voxels in the mask are used; if there are too few in the cube, the whole mask is searched.

    Parameters
    ----------
    data : (x, y, z, n)
        Signals of one shell and its b0s.
    gtab : dipy.core.gradients.GradientTable
        Gradients of the n volumes.
    mask : (x, y, z) bool
        Brain mask.
    fa_threshold : float
        FA that a voxel must exceed.
    threads : int, optional
        Number of threads; by default all available cores. The result does not depend on it.
    fewest : int
        Number of voxels that must exceed it.

    Returns
    -------
    response : (evals, S0)
        Eigenvalues (3,) in mm2/s, the last two equal, and the b0 signal: DIPY's ``response``.
    ratio : float
        Smallest eigenvalue over the largest.

    Raises
    ------
    InputError
        If there is no b0, or if too few voxels of the mask exceed the FA threshold.
    """
    response = tensor_response(data, gtab, mask, fa_threshold, threads, fewest).response
    assert isinstance(response, tuple)
    return response, float(response[0][-1] / response[0][0])


def tensor_response(
    data: Array, gtab: GradientTable, mask: Voxels, fa_threshold: float, threads: int | None, fewest: int
) -> FibreResponse:
    """Return the response of :func:`csd_response` with its voxels."""
    _check(data, gtab, mask)
    cube = np.zeros_like(mask)
    cube[tuple(slice(max(n // 2 - RADIUS, 0), n // 2 + RADIUS + 1) for n in mask.shape)] = True
    chosen, _ = _anisotropic(data, gtab, mask & cube, fa_threshold, threads)
    if chosen.sum() < fewest:
        chosen = _enough_anisotropic(data, gtab, mask, fa_threshold, fewest, threads)
    signals = data[chosen]
    along, across = eigenvalues(tensor_design(gtab), signals)[:, :2].mean(axis=0)
    unweighted = float(signals[:, np.asarray(gtab.b0s_mask)].mean())
    return FibreResponse((np.array([along, across, across]), unweighted), FA, chosen)


def anisotropic_fibres(
    data: Array, gtab: GradientTable, mask: Voxels, fa_threshold: float, fewest: int, threads: int | None
) -> tuple[Voxels, Array]:
    """Return the voxels (x, y, z) of a series of several shells with high FA, and the tensor's first axis in each.

    Raises
    ------
    InputError
        As :func:`csd_response`.
    """
    _check(data, gtab, mask)
    data, gtab = on_shell(data, gtab, shell_of_tensor)
    chosen = _enough_anisotropic(data, gtab, mask, fa_threshold, fewest, threads)
    return chosen, iterated_axes(data[chosen], gtab, threads)


def iterative_response(
    data: Array, gtab: GradientTable, mask: Voxels, order: int = 8, threads: int | None = None
) -> ZonalResponse:
    """Estimate the response of a single fibre as Tournier et al. (2013), MRtrix3's ``dwi2response tournier``, do.

    Each round deconvolves the voxels, chooses those most like a single fibre, and estimates the response anew from
    their signals about the axis of their greatest peak, until the choice stays. A voxel with peaks p1 and p2 counts as
    like a single fibre as ``sqrt(p1) (1 - p2 / p1)^2`` is high. The first response is sharp; MRtrix3 deconvolves the
    whole mask with it, this function the 4096 voxels whose signals differ most between directions.

    Parameters
    ----------
    data : (x, y, z, n)
        Signals of one shell and its b0s.
    gtab : dipy.core.gradients.GradientTable
        Gradients of the n volumes.
    mask : (x, y, z) bool
        Brain mask.
    order : int
        Order of the spherical harmonics, even.
    threads : int, optional
        Number of threads; by default all available cores. The result does not depend on it.

    Returns
    -------
    ZonalResponse
        ``dwi_response``: zonal harmonics (order / 2 + 1,) of the signal about the z axis, which are also MRtrix3's;
        ``S0``: the mean b0 signal of the voxels.

    Raises
    ------
    InputError
        If there is no b0, if the mask has fewer than 100 voxels, or if what they have in common is no fibre.
    """
    response = single_fibre_response(data, gtab, mask, order, threads).response
    assert isinstance(response, ZonalResponse)
    return response


def single_fibre_response(
    data: Array, gtab: GradientTable, mask: Voxels, order: int, threads: int | None
) -> FibreResponse:
    """Return the response of :func:`iterative_response` with its voxels."""
    voxels, _, zonal = iterative_fibres(data, gtab, mask, order, threads)
    unweighted, selected = data.reshape(mask.size, -1)[voxels][:, np.asarray(gtab.b0s_mask)], np.zeros_like(mask)
    selected.flat[voxels] = True
    return FibreResponse(ZonalResponse(float(unweighted.mean()), zonal), TOURNIER, selected)


def iterative_fibres(
    data: Array, gtab: GradientTable, mask: Voxels, order: int, threads: int | None
) -> tuple[npt.NDArray[np.int64], Array, Array]:
    """Search the voxels that make :func:`iterative_response`.

    Returns
    -------
    voxels : (m,) int64
        Their places in the flat volume.
    axes : (m, 3)
        The direction of the fibre of each.
    zonal : (order / 2 + 1,)
        Zonal harmonics of the response.
    """
    _check(data, gtab, mask)
    with single_blas():
        voxels, known = _candidates(data, gtab, mask, threads)
    signals = np.ascontiguousarray(data).reshape(mask.size, -1)[voxels]
    if known < FEWEST:
        raise InputError(f"the mask has {known} voxels with signal, fewer than {FEWEST}: widen it, or give a response")
    b0s, count = np.asarray(gtab.b0s_mask), min(FIBRES, max(known // SHARE, FEWEST_FIBRES))
    zonal, tested, used = np.array(SHARPEST), np.arange(len(signals)), min(FIRST_ORDER, order)
    fibres, axes = tested[:0], np.empty((0, 3))
    with single_blas():
        for _ in range(PASSES):
            system = System.of(gtab, ZonalResponse(1.0, zonal), used, DIPYS_WEIGHT)
            functions, likeness = _rank_signals(signals[tested], gtab, system, threads)
            best, before = np.argsort(-likeness, kind="stable"), fibres
            chosen = np.sort(best[:count])
            fibres = tested[chosen]
            axes = _axes(functions[chosen])
            zonal = zonal_response(signals[fibres][:, ~b0s], axes, gtab.bvecs[~b0s], order)
            if len(np.intersect1d(fibres, before)) >= STAYS * count or not _is_response(zonal):
                break
            if not len(before):
                tested, used = tested[np.sort(best[:TESTED])], order
    if not _is_response(zonal):
        raise InputError(
            f"the {count} voxels most like a single fibre have no fibre's signal: widen the mask to white matter, or "
            "give a response"
        )
    return voxels[fibres], axes, zonal


def response_rows(response: ZonalResponse | AxSymShResponse) -> Array:
    """Return the rows (2, degrees) of MRtrix3's text of a response: of b = 0, with degree 0 alone, and of the shell."""
    zonal = np.asarray(response.dwi_response, np.float64)
    unweighted = np.zeros(len(zonal))
    unweighted[0] = response.S0 * np.sqrt(4 * np.pi)
    return np.stack([unweighted, zonal])


def response_record(response: Response) -> Json:
    """Return a response of DIPY as the record of a run has it: eigenvalues or zonal harmonics, and the b0 signal."""
    if isinstance(response, tuple):
        return {"eigenvalues": np.asarray(response[0]).tolist(), "b0_signal": response[1]}
    return {"zonal": np.asarray(response.dwi_response).tolist(), "b0_signal": response.S0}


def response_fa(response: Response, unweighted: Array) -> float:
    """Return the FA of a response of DIPY: that of its tensor, or of the one with the same signals along and across.

    If the response does not say the signal without diffusion weighting, it is the mean of ``unweighted``, of any shape,
    and if this is empty too, the FA is 1.
    """
    if isinstance(response, tuple):
        return float(fractional_anisotropy(np.asarray(response[0], float)))
    zonal = np.asarray(response.dwi_response, float)
    along, across = zonal_harmonics(np.array([1.0, 0.0]), len(zonal)) @ zonal
    whole = response.S0 or (unweighted.mean() if unweighted.size else 0)
    if not whole > 0:
        return 1.0
    decay = -np.log(np.clip(np.array([along, across, across]) / whole, 1e-6, 1))  # the b-value changes no FA
    return float(fractional_anisotropy(decay))


def _is_response(zonal: Array) -> bool:
    """Return whether the signal has a finite positive mean and is lowest along the axis."""
    return bool(np.isfinite(zonal).all() and zonal[0] > 0 > zonal[1])


def _candidates(
    data: Array, gtab: GradientTable, mask: Array, threads: int | None
) -> tuple[npt.NDArray[np.int64], int]:
    """Return the places (m,) of the voxels with the greatest contrast between directions, and how many have some.

    The contrast is the norm of the harmonics of degree 2 over the root of the mean, as the likeness is of peaks.
    """
    rows, voxels, weighted = np.ascontiguousarray(data).reshape(mask.size, -1), np.flatnonzero(mask), ~gtab.b0s_mask
    fit = np.zeros((len(weighted), 6), np.float32)
    fit[weighted] = np.linalg.pinv(sampling_matrix(gtab.bvecs[weighted], 2, BASIS)).T

    def contrasts(first: int) -> Array:
        harmonics = rows[voxels[first : first + MANY]] @ fit
        with np.errstate(all="ignore"):  # voxels without a finite positive mean are no candidates
            return np.nan_to_num(np.linalg.norm(harmonics[:, 1:], axis=1) / np.sqrt(harmonics[:, 0]), posinf=0)

    contrast = np.concatenate([np.empty(0), *in_threads(contrasts, range(0, len(voxels), MANY), threads)])
    best = np.sort(np.argsort(-contrast, kind="stable")[:RANKED])
    return voxels[best[contrast[best] > 0]], int((contrast > 0).sum())


def _rank_signals(signals: Array, gtab: GradientTable, system: System, threads: int | None) -> tuple[Array, Array]:
    """Deconvolve signals (m, n); return the coefficients (m, k), and how like a single fibre they are (m,)."""
    rows = signals[:, None, None]
    functions = deconvolve_series(rows, gtab, np.ones(rows.shape[:3], bool), system, threads).coefficients[:, 0, 0]
    functions = np.nan_to_num(functions, posinf=0, neginf=0)  # of voxels without a solution
    blocks = [functions[first : first + BLOCK] for first in range(0, len(rows), BLOCK)]
    return functions, np.concatenate([*in_threads(_likeness, blocks, threads)])


def _likeness(functions: Array) -> Array:
    """Return ``sqrt(p1) (1 - p2 / p1)^2`` of the two greatest peaks of each function (m, k), in rows."""
    amplitudes = functions @ _sampling(order_of(functions.shape[1]))
    greatest, rows = amplitudes.argmax(axis=1), np.arange(len(amplitudes))
    peaks = amplitudes > 0
    for beside in _sphere()[1]:
        peaks &= amplitudes >= amplitudes[:, beside]
    first = np.maximum(amplitudes[rows, greatest], 0).astype(np.float64)
    peaks[rows, greatest] = False
    second = np.where(peaks, amplitudes, 0).max(axis=1)
    return np.sqrt(first) * (1 - np.divide(second, first, out=np.ones_like(first), where=first > 0)) ** 2


def _axes(functions: Array) -> Array:
    """Return the mean direction (m, 3) of the lobe about the greatest amplitude of each function (m, k)."""
    vertices = _sphere()[0]
    amplitudes = functions @ _sampling(order_of(functions.shape[1]))
    cosines = (vertices @ vertices.T)[amplitudes.argmax(axis=1)]
    lobe = np.where(np.abs(cosines) > np.cos(np.radians(LOBE)), np.maximum(amplitudes, 0), 0)
    axes = (lobe * np.sign(cosines)) @ vertices
    return axes / np.maximum(np.linalg.norm(axes, axis=1, keepdims=True), 1e-30)


def zonal_response(signals: Array, axes: Array, gradients: Array, order: int) -> Array:
    """Fit zonal harmonics (order / 2 + 1,) to signals (m, n) by the angle between axes (m, 3) and gradients (n, 3)."""
    harmonics = zonal_harmonics(np.clip(axes @ gradients.T, -1, 1).ravel(), order // 2 + 1)
    return np.asarray(np.linalg.lstsq(harmonics, signals.astype(np.float64).ravel(), rcond=None)[0])


@cache
def _sphere() -> tuple[Array, Array]:
    """Return the vertices (v, 3) of half a sphere, and the neighbours of each in columns (6, v)."""
    vertices, _ = load_sphere("default")
    return vertices, np.argsort(-np.abs(vertices @ vertices.T), axis=1)[:, 1 : NEIGHBOURS + 1].T


@cache
def _sampling(order: int) -> Array:
    """Return the matrix (coefficients, v) float32 from coefficients to amplitudes at the vertices."""
    return sampling_matrix(_sphere()[0], order, BASIS).astype(np.float32).T


def _enough_anisotropic(
    data: Array, gtab: GradientTable, mask: Array, fa_threshold: float, fewest: int, threads: int | None
) -> Array:
    """Return the voxels of the mask whose FA exceeds the threshold; raise InputError if there are too few."""
    chosen, most = _anisotropic(data, gtab, mask, fa_threshold, threads)
    if (count := int(chosen.sum())) < fewest:
        has = "have" if count > 1 else "has"
        raise InputError(
            f"{count or 'none'} of the {np.count_nonzero(mask)} voxels of the mask {has} an FA above "
            f"{fa_threshold:g} (the greatest is {most:.2f}): widen it to white matter, lower fa_threshold or give "
            "the response yourself"
        )
    return chosen


def _anisotropic(
    data: Array, gtab: GradientTable, mask: Array, fa_threshold: float, threads: int | None
) -> tuple[Array, float]:
    """Return the voxels of the mask whose FA exceeds the threshold, and the greatest FA."""
    fa, chosen = anisotropy(data, gtab, mask, threads), np.zeros_like(mask)
    chosen[mask] = fa > fa_threshold
    return chosen, fa.max(initial=0)


def _check(data: Array, gtab: GradientTable, mask: Array) -> None:
    check_series(data, gtab, mask)
    if not gtab.b0s_mask.any():
        raise InputError("the gradient table has no b0: the response needs the signal without diffusion weighting")
