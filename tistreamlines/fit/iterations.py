"""Tensors by iterated least squares, as MRtrix3's ``dwi2tensor`` fits them: FA of all voxels, axes of some.

The first fit has the squared signals as weights, each other one the squared signals that the fit before predicts. A
kernel computes FA (:mod:`.iterations_kernels`), on the CPU, since copies to a GPU take as long. NumPy takes three times
as long, and its threads wait for each other. It fits voxels whose equations are ill-conditioned, and axes.

References
----------
Veraart, Sijbers, Sunaert, Leemans, Jeurissen. Weighted linear least squares estimation of diffusion MRI parameters:
strengths, limitations, and pitfalls. NeuroImage 81, 2013.
"""

from __future__ import annotations

import numpy as np

from ..aliases import Array, GradientTable
from ..devices import CPU, choose
from ..devices.threads import in_threads
from ..errors import InputError
from ..space.encoding import TENSOR, tensor_design
from .iterations_kernels import fit_iterated
from .tensor import Memory, TensorFit, program_of, sizes_of

VOXELS, BLOCK = 1 << 11, 1 << 8  # voxels per task of the kernel and of NumPy, so that a core's cache holds them
LEAST_SHARE, FITS = 1e-6, 3  # the least signal over the greatest, and the number of fits
SINGULAR, MOST_LOG = 1e-14, 1.0  # a ridge of equations, and the greatest logarithm of a weight, lest the ridge vanish
MEMORY = Memory(chunk=32, keeps=0)


def begin_compiling() -> None:
    """Begin to compile the kernel, if it is not in the cache, beside other work."""
    program_of(fit_iterated, choose(CPU), MEMORY)


def iterated_fa(signals: Array, gtab: GradientTable, voxels: Array, threads: int | None = None) -> Array:
    """Fit tensors to voxels, and return the FA (m,) of their eigenvalues, of which some may be negative.

    Parameters
    ----------
    signals : (rows, n)
        Signals, which are taken as float32.
    gtab : GradientTable
        DIPY's gradient table of the n volumes.
    voxels : (m,) int
        Which rows are fitted. Each has a positive signal.
    threads : int, optional
        Number of threads; by default all available cores. The result does not depend on it.

    Raises
    ------
    InputError
        If the gradients do not determine a tensor.
    """
    design = _checked_design(gtab)
    numbers = {"fits": FITS, "share": LEAST_SHARE}
    program = program_of(fit_iterated, choose(CPU), MEMORY)
    fit = TensorFit(program, fit_iterated, design, numbers, lambda rows: _eigen(rows, design)[0])
    blocks = range(0, len(voxels), VOXELS)
    parts = in_threads(lambda first: fit(signals[voxels[first : first + VOXELS]]), blocks, threads)
    return np.concatenate([np.empty(0), *parts])


def iterated_axes(signals: Array, gtab: GradientTable, threads: int | None = None) -> Array:
    """Fit tensors to signals (m, n), and return their first eigenvectors (m, 3), in the frame of the gradients.

    Raises
    ------
    InputError
        If the gradients do not determine a tensor.
    """
    design = _checked_design(gtab)
    blocks = range(0, len(signals), BLOCK)
    parts = in_threads(lambda first: _eigen(signals[first : first + BLOCK], design)[1][:, :, 2], blocks, threads)
    return np.concatenate([np.empty((0, 3)), *parts])


def _checked_design(gtab: GradientTable) -> Array:
    """Return the design (n, 7) of the logarithms of signals."""
    design = tensor_design(gtab)
    if np.linalg.matrix_rank(design / sizes_of(design)) < design.shape[1]:
        raise InputError("the gradients do not determine a tensor: give a series of at least 6 directions and a b0")
    return design


def _eigen(signals: Array, design: Array) -> tuple[Array, Array]:
    """Return the eigenvalues (m, 3) and eigenvectors (m, 3, 3) of signals (m, n), the smallest first."""
    scaled = design / (sizes := sizes_of(design))
    products = (scaled[:, :, None] * scaled[:, None]).reshape(len(design), -1)
    values = signals.astype(np.float64)
    values /= values.max(axis=1, keepdims=True)
    weights = np.maximum(values, LEAST_SHARE)
    logs = np.log(weights)

    def solve(weights: Array) -> Array:
        squares = weights**2
        normal = (squares @ products).reshape(-1, 7, 7) + SINGULAR * np.eye(7)
        return np.linalg.solve(normal, ((squares * logs) @ scaled)[..., None])[..., 0]

    fit = solve(weights)
    for _ in range(FITS - 1):
        prediction = fit @ scaled.T
        fit = solve(np.exp(prediction - (prediction.max(axis=1, keepdims=True) - MOST_LOG).clip(0)))
    return np.linalg.eigh((fit / sizes)[:, TENSOR])
