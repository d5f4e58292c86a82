"""Inputs of a direction getter: orientation functions, peaks or signals, the sphere, and its options."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from dipy.core.sphere import Sphere
from dipy.direction.peaks import PeaksAndMetrics

from ..aliases import Array
from ..cuslines import arrays
from ..errors import InputError, ParameterError
from ..fit.dipy_private import fit_matrices
from ..options.objects import Options
from ..space.harmonics import BASES
from ..tracking.tables.inputs import OrientationFunctions, Signals
from .keywords import Model

MODEL_NAMES = {"OpdtModel": "opdt", "CsaOdfModel": "csa"}
RESIDUALS_ORDER = 4  # of DIPY's BootDirectionGetter, unless the model has an attribute sh_order
SMOOTH = 0.006  # DIPY's default
LOBE = 15.0  # degrees, the default of --peak-width


@dataclass(frozen=True, eq=False)
class Peaks:
    """The peaks of each voxel, the highest first.

    Parameters
    ----------
    indices : ndarray, (x, y, z, k), int
        Vertices of the sphere.
    values : ndarray, (x, y, z, k), float32
        Amplitudes; 0 where there is no peak.
    sphere : Sphere
        DIPY's sphere or hemisphere.
    """

    indices: Array
    values: Array
    sphere: Sphere

    @classmethod
    def of(cls, pam: PeaksAndMetrics, sphere: Sphere | None = None) -> Peaks:
        """Read a ``PeaksAndMetrics``; its own sphere has the vertices, if it has one, else ``sphere``.

        Raises
        ------
        ParameterError
            If it is none, or has no sphere, or another one than ``sphere``.
        InputError
            If its arrays do not have one shape.
        """
        names = ("peak_indices", "peak_values")
        if not all(getattr(pam, name, None) is not None for name in names):
            raise ParameterError(f"pam is a {type(pam).__name__}: give DIPY's PeaksAndMetrics, with its peaks")
        its_sphere = getattr(pam, "sphere", None) or sphere
        if its_sphere is None:
            raise ParameterError("pam has no sphere: give the sphere whose vertices are its peaks")
        if sphere is not None and not np.array_equal(its_sphere.vertices, sphere.vertices):
            raise ParameterError(
                f"sphere has {len(sphere.vertices)} vertices, but the peaks of pam are of its own sphere of "
                f"{len(its_sphere.vertices)}: leave sphere out"
            )
        indices, values = (np.asarray(getattr(pam, name)) for name in names)
        if indices.ndim != 4 or indices.shape != values.shape:
            raise InputError(f"pam has indices {indices.shape} and values {values.shape}: give both as (x, y, z, k)")
        valid = (indices >= 0) & (indices < len(its_sphere.vertices)) & (values > 0)
        indices, values = np.where(valid, indices, 0).astype(np.int64), np.where(valid, values, 0).astype(np.float32)
        return cls(indices, values, its_sphere)

    def above(self, threshold: float) -> Peaks:
        """Return the peaks above a threshold, all of amplitude 1; as in DIPY, none after one that is not above it."""
        kept = np.logical_and.accumulate(self.values > threshold, axis=-1)
        return Peaks(self.indices, kept.astype(np.float32), self.sphere)

    def directions(self) -> Array:
        """Return unit vectors (x, y, z, k, 3) float32 along the voxel axes; of length 0 where there is no peak."""
        return np.asarray(self.sphere.vertices, np.float32)[self.indices] * (self.values > 0)[..., None]

    def sample(self) -> Array:
        """Return the function (x, y, z, v) float32 that is 0 except at peaks, whose amplitude it has."""
        shape = self.values.shape
        out = np.zeros((int(np.prod(shape[:3])), len(self.sphere.vertices)), np.float32)
        voxels = np.repeat(np.arange(len(out)), shape[3])
        np.add.at(out, (voxels, self.indices.ravel()), self.values.ravel())
        return out.reshape(*shape[:3], -1)

    def at(self, points: Array) -> Array:
        """Return the directions (n, k, 3) of the voxels nearest to points (n, 3), voxel, as DIPY's seeds have them."""
        last = np.array(self.values.shape[:3]) - 1
        return self.directions()[tuple(np.clip(np.round(points).astype(np.int64), 0, last).T)].astype(np.float64)


@dataclass(frozen=True, eq=False)
class Field:
    """The input of a direction getter.

    Parameters
    ----------
    dg : str
        Name of the direction getter in the registry.
    follows : OrientationFunctions or Signals
        Data on the voxel grid, along the voxel axes.
    sphere : tuple of ndarray
        Vertices (v, 3) and edges (e, 2).
    options : dict
        Options of the method, by their name in :class:`tistreamlines.Parameters`.
    """

    dg: str
    follows: OrientationFunctions | Signals
    sphere: tuple[Array, Array]
    options: Options

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of voxels along each axis."""
        data = self.follows.data if isinstance(self.follows, Signals) else self.follows.values
        return data.shape[:3]


def coefficients_of(pam: PeaksAndMetrics) -> Array:
    """Return the spherical harmonic coefficients of a ``PeaksAndMetrics``, (x, y, z, n)."""
    coefficients = getattr(pam, "shm_coeff", None)
    if coefficients is None:
        raise ParameterError("pam has no shm_coeff: make it with return_sh=True, or give sh or sf")
    return coefficients


def of_functions(
    dg: str, sh: Array | None, sf: Array | None, sphere: Sphere | None, basis_type: str | None, legacy: bool,
    options: Options,
) -> Field:
    """Return what a getter follows, from coefficients or from samples on a sphere.

    Parameters
    ----------
    dg : str
        Name of the direction getter.
    sh, sf : ndarray, (x, y, z, n), or None
        Spherical harmonic coefficients, or values at the vertices of the sphere; one of them.
    sphere : Sphere or None
        DIPY's sphere or hemisphere; None is DIPY's ``default_sphere``, for ``sh`` only.
    basis_type, legacy : str or None, bool
        Basis of the coefficients, as in DIPY.
    options : dict
        Options of the method.

    Returns
    -------
    Field
        The getter's input.

    Raises
    ------
    ParameterError
        If both or none are given, or the sphere or the basis cannot be used.
    InputError
        If an array has the wrong shape or values.
    """
    if sh is not None and sf is not None:
        raise ParameterError("sh and sf given: give one of sh and sf")
    if sh is not None:
        values = arrays.volume("sh", sh, 4, "spherical harmonic coefficients (x, y, z, n)")
        follows = OrientationFunctions("sh", values, _basis(basis_type, legacy))
        return Field(dg, follows, _vertices_and_edges(sphere), options)
    if sf is None:
        raise ParameterError("neither sh nor sf given: give one of sh and sf")
    if sphere is None:
        raise ParameterError("sphere is missing: give the sphere at whose vertices sf has its values")
    values = arrays.volume("sf", sf, 4, "values at the vertices of the sphere, (x, y, z, n)")
    vertices, edges = _vertices_and_edges(sphere)
    if values.shape[3] != len(vertices):
        raise InputError(f"sf has {values.shape[3]} values per voxel, but the sphere has {len(vertices)} vertices")
    return Field(dg, OrientationFunctions("pmf", values), (vertices, edges), options)


def of_peaks(dg: str, peaks: Peaks, options: Options) -> Field:
    """Return what a getter follows, from peaks: a function that is 0 except at them, as in DIPY's ``SimplePeakGen``.

    Parameters
    ----------
    dg : str
        Name of the direction getter.
    peaks : Peaks
        Peaks of each voxel.
    options : dict
        Options of the method.

    Returns
    -------
    Field
        The getter's input.
    """
    values = arrays.volume("the peaks of pam", peaks.sample(), 4, "peaks (x, y, z, k)")
    return Field(dg, OrientationFunctions("pmf", values), _vertices_and_edges(peaks.sphere), options)


def of_lobes(peaks: Peaks, options: Options) -> Field:
    """Return what :func:`.tracker.eudx_tracking` follows: the closest peak of functions with a lobe for each peak."""
    vectors = peaks.directions().reshape(*peaks.values.shape[:3], -1)
    follows = OrientationFunctions("peaks", vectors, peak_width=LOBE)
    return Field("det", follows, _vertices_and_edges(peaks.sphere), {**options, "det_rule": "closest"})


def of_model(data: Array, model: Model, sphere: Sphere | None, sh_order: int, options: Options) -> Field:
    """Return what the bootstrap follows, from a series and a DIPY model.

    Parameters
    ----------
    data : ndarray, (x, y, z, n)
        Diffusion series.
    model : OpdtModel or CsaOdfModel
        Model of DIPY. One with another ``smooth`` than 0.006 needs this number in an attribute ``smooth``, since
        DIPY does not keep it.
    sphere : Sphere or None
        DIPY's sphere or hemisphere on which peaks are searched; None is ``default_sphere``.
    sh_order : int
        Order of the fit from which residuals are drawn; 0 is DIPY's default.
    options : dict
        Options of the method.

    Returns
    -------
    Field
        The getter's input.

    Raises
    ------
    ParameterError
        If the model is of another kind, or its residuals would be of another order.
    InputError
        If the series does not fit the model.
    """
    name = MODEL_NAMES.get(type(model).__name__)
    if name is None:
        raise ParameterError(f"model is of the kind {type(model).__name__}: give DIPY's {' or '.join(MODEL_NAMES)}")
    order = sh_order or getattr(model, "sh_order", RESIDUALS_ORDER)
    if order != model.sh_order_max:
        raise ParameterError(
            f"model has sh_order_max {model.sh_order_max}, but residuals are drawn from a fit of order {order}: both "
            "must be of one order, 4 by default"
        )
    signals = arrays.volume("data", data, 4, "the diffusion series (x, y, z, n)")
    arrays.check_series(model.gtab, signals)
    options = {
        "model": name, "sh_order": order, "sm_lambda": _smooth_of(model), "min_signal": float(model.min_signal),
        **options,
    }
    return Field("boot", Signals(signals, model.gtab), _vertices_and_edges(sphere), options)


def _smooth_of(model: Model) -> float:
    """Return the regularisation of a model, checked by fitting again with it."""
    smooth = float(getattr(model, "smooth", SMOOTH))
    again = type(model)(model.gtab, model.sh_order_max, smooth=smooth, min_signal=model.min_signal)
    numbers = [np.concatenate([np.ravel(part) for part in fit_matrices(fitted)]) for fitted in (model, again)]
    if model.assume_normed or not np.allclose(*numbers, rtol=1e-6, atol=1e-9):
        raise ParameterError(
            f"model was not made with smooth={smooth:g} and assume_normed=False: DIPY does not keep smooth, so set "
            "model.smooth to the number that you gave"
        )
    return smooth


def _basis(basis_type: str | None, legacy: bool) -> str:
    """Return the name of a basis of DIPY; None is descoteaux07."""
    name = f"{basis_type or 'descoteaux07'}{'_legacy' if legacy else ''}"
    if name not in BASES:
        raise ParameterError(f"basis_type is {basis_type!r}: give descoteaux07, tournier07 or None")
    return name


def _vertices_and_edges(sphere: Sphere | None) -> tuple[Array, Array]:
    """Return vertices (v, 3) and edges (e, 2) of a sphere on which opposite directions are the same, as in DIPY."""
    if sphere is None:
        from dipy.data import default_sphere as sphere
    if not hasattr(sphere, "vertices") or not hasattr(sphere, "edges"):
        raise ParameterError(f"sphere is of the kind {type(sphere).__name__}: give DIPY's Sphere or HemiSphere")
    vertices, edges = arrays.check_sphere(sphere.vertices, sphere.edges)
    try:
        arrays.is_symmetric(vertices, True)
    except ParameterError:
        raise ParameterError(
            f"sphere has {len(vertices)} vertices of which some have no opposite vertex: give half a sphere, e.g. "
            "DIPY's default_sphere, or a sphere of opposite pairs, e.g. repulsion724"
        ) from None
    return vertices, edges
