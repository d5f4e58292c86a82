"""Direction getters with cuslines' arguments."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Literal

import numpy as np

from ..aliases import Array, GradientTable, Sphere
from ..errors import ParameterError
from ..options.objects import Options
from ..options.parameters import Parameters
from ..space.batch import Space
from ..space.harmonics import BASES, turn_coefficients
from ..tracking.getters import ptt
from ..tracking.registry import METHODS
from ..tracking.tables.inputs import GetterInputs, KernelTables, OrientationFunctions, Signals
from ..tracking.tables.rows import tables_of
from . import arrays

PMF_THRESHOLD = 0.05  # cuslines' PMF_THRESHOLD_P


class DirectionGetter:
    """Base class of the direction getters. Its methods are called by the tracker, not by users.

    Attributes
    ----------
    name : str
        Name of the method in the registry.
    """

    name: str

    def _options(self, voxel_sizes: Array) -> Options:
        """Return this getter's options, named as in :class:`tistreamlines.Parameters`; voxel sizes (3,) are in mm."""
        raise NotImplementedError

    def _follows(self, dataf: Array, space: Space, symmetric: bool, alive: Array) -> Signals | OrientationFunctions:
        """Return what the method follows, from data (x, y, z, n) and voxels (x, y, z) above the stop threshold."""
        raise NotImplementedError

    def _check_options(self) -> None:
        """Check the options as the command line does."""
        options: Options = {"dg": self.name, "like": "dipy", **self._options(np.ones(3))}
        Parameters(**options)

    def _check_sphere(self, dataf: Array, vertices: Array, edges: Array) -> tuple[Array, Array]:
        """Return vertices (v, 3) and edges (e, 2) after checking them against each other and the data (x, y, z, n)."""
        vertices, edges = arrays.check_sphere(vertices, edges)
        arrays.check_samples(dataf, vertices)
        return vertices, edges

    def _is_symmetric(self, vertices: Array, sphere_symm: bool) -> bool:
        """Return whether the orientation function has the same value in opposite directions."""
        return arrays.is_symmetric(vertices, sphere_symm)

    def _prepare(self, inputs: GetterInputs, parameters: Parameters) -> KernelTables:
        """Make the tables."""
        return METHODS[self.name].prepare(inputs, parameters)


class BootDirectionGetter(DirectionGetter):
    """Directions from a residual bootstrap [1]_ of an OPDT or CSA fit.

    The ``dataf`` of the tracker is the diffusion series. cuslines' constructor takes matrices (H, R, delta_b, ...)
    that are made from the gradient table and the sphere; here, give these two.

    Parameters
    ----------
    model_type : str
        'opdt' or 'csa', in upper or lower case.
    gtab : GradientTable
        DIPY's gradient table of the n volumes. The b0s may be anywhere; the other volumes must be of one shell.
    sphere : Sphere
        DIPY's sphere or hemisphere on which peaks are searched. The tracker must be given the same one.
    sh_order_max : int
        Order of the spherical harmonics, even.
    sh_lambda : float
        Weight of the Laplace-Beltrami regularisation of the fit.
    min_signal : float
        Lower signals are raised to this value.
    boot_rule : str
        'dipy' draws a new bootstrap sample only if the ODF has no peak, 'cuslines' until a peak lies within
        ``max_angle``.
    negative_odf : str
        Whether an ODF without a positive value has one peak, as in DIPY ('dipy'), or none ('none').
    **matrices : object
        Not accepted: cuslines' matrices, by name.

    Attributes
    ----------
    angular_weight : float
        Weight w, 0 to 1, in ODF * (1 - w + w |cos(angle to the last step)|); 0, the default, turns it off. It may be
        set at any time.

    Raises
    ------
    ParameterError
        If matrices are given, or an option is out of bounds.

    References
    ----------
    .. [1] Berman JI, Chung S, Mukherjee P, Hess CP, Han ET, Henry RG. Probabilistic streamline q-ball tractography
        using the residual bootstrap. NeuroImage 39, 2008. doi:10.1016/j.neuroimage.2007.08.021

    Examples
    --------
    >>> import numpy as np
    >>> from dipy.core.gradients import gradient_table
    >>> from dipy.data import default_sphere
    >>> from tistreamlines.cuslines import BootDirectionGetter
    >>> bvecs = np.concatenate([np.zeros((1, 3)), default_sphere.vertices[:60]])
    >>> gtab = gradient_table(np.repeat([0.0, 1000.0], [1, 60]), bvecs=bvecs)
    >>> getter = BootDirectionGetter.from_dipy_csa(gtab, default_sphere, sh_order_max=4)
    >>> getter.model_type, getter.sh_order_max
    ('csa', 4)
    """

    name = "boot"
    angular_weight = 0.0
    boot_rule: Literal["dipy", "cuslines"]
    negative_odf: Literal["dipy", "none"]

    def __init__(
        self, model_type: str, gtab: GradientTable | None = None, sphere: Sphere | None = None, sh_order_max: int = 6,
        sh_lambda: float = 0.006, min_signal: float = 1, *, boot_rule: Literal["dipy", "cuslines"] = "dipy",
        negative_odf: Literal["dipy", "none"] = "dipy", **matrices: object,
    ) -> None:
        complete = hasattr(gtab, "b0s_mask") and hasattr(sphere, "vertices") and not matrices
        if gtab is None or sphere is None or not complete:
            raise ParameterError(
                "a BootDirectionGetter takes a gradient table and a sphere, not the matrices made from them: "
                "use BootDirectionGetter.from_dipy_opdt(gtab, sphere) or from_dipy_csa(gtab, sphere)"
            )
        if str(model_type).lower() not in METHODS[self.name].models:
            raise ParameterError(f"model_type is {model_type!r}: give one of {', '.join(METHODS[self.name].models)}")
        self.gtab, self.sphere, self.model_type = gtab, sphere, str(model_type).lower()
        self.sh_order_max, self.sh_lambda, self.min_signal = sh_order_max, sh_lambda, min_signal
        self.boot_rule, self.negative_odf = boot_rule, negative_odf
        self._check_options()

    @classmethod
    def from_dipy_opdt(
        cls, gtab: GradientTable, sphere: Sphere, sh_order_max: int = 6, full_basis: bool = False,
        sh_lambda: float = 0.006, min_signal: float = 1,
    ) -> BootDirectionGetter:
        """Bootstrap DIPY's orientation probability density transform (OPDT).

        Parameters
        ----------
        gtab, sphere, sh_order_max : GradientTable, Sphere, int
            See :class:`BootDirectionGetter`.
        full_basis : bool
            Must be False, because the diffusion signal is symmetric.
        sh_lambda, min_signal : float
            See :class:`BootDirectionGetter`.

        Returns
        -------
        BootDirectionGetter
            The direction getter.

        Raises
        ------
        ParameterError
            If an option is out of bounds.
        """
        _no_full_basis(full_basis)
        return cls("opdt", gtab, sphere, sh_order_max, sh_lambda, min_signal)

    @classmethod
    def from_dipy_csa(
        cls, gtab: GradientTable, sphere: Sphere, sh_order_max: int = 6, full_basis: bool = False,
        sh_lambda: float = 0.006, min_signal: float = 1,
    ) -> BootDirectionGetter:
        """Bootstrap DIPY's constant solid angle (CSA) ODF.

        Parameters
        ----------
        gtab, sphere, sh_order_max, full_basis, sh_lambda, min_signal : as in from_dipy_opdt
            See :meth:`from_dipy_opdt`.

        Returns
        -------
        BootDirectionGetter
            The direction getter.

        Raises
        ------
        ParameterError
            If an option is out of bounds.
        """
        _no_full_basis(full_basis)
        return cls("csa", gtab, sphere, sh_order_max, sh_lambda, min_signal)

    def _options(self, voxel_sizes: Array) -> Options:
        return {
            "model": self.model_type, "sh_order": self.sh_order_max, "sm_lambda": self.sh_lambda,
            "min_signal": self.min_signal, "angular_weight": self.angular_weight, "boot_rule": self.boot_rule,
            "negative_odf": self.negative_odf,
        }

    def _check_sphere(self, dataf: Array, vertices: Array, edges: Array) -> tuple[Array, Array]:
        arrays.check_series(self.gtab, dataf)
        return arrays.check_sphere(vertices, edges, self.sphere)

    def _is_symmetric(self, vertices: Array, sphere_symm: bool) -> bool:
        return True  # as the diffusion signal is

    def _follows(self, dataf: Array, space: Space, symmetric: bool, alive: Array) -> Signals:
        return Signals(dataf, self.gtab)


def _no_full_basis(full_basis: bool) -> None:
    if full_basis:
        raise ParameterError("full_basis is True: give False, because the diffusion signal has no odd harmonics")


@dataclass(eq=False, repr=False)
class ProbDirectionGetter(DirectionGetter):
    """Directions drawn from the PMF at each point (probabilistic tracking).

    The ``dataf`` of the tracker holds the PMF or ODF of each voxel at the vertices of the sphere, in any scale, as in
    cuslines. If ``sh_basis`` is given, it holds spherical harmonic coefficients, which are evaluated at each step.

    Parameters
    ----------
    pmf_threshold : float or None
        Directions with a value below this share of the greatest value are never taken. None is cuslines' 0.05; DIPY's
        default is 0.1.
    max_directions : int or None
        Greatest number of streamlines from a seed, which follow the highest peaks. None is one for each peak.
    asymmetric : bool or None
        Whether opposite directions are kept apart, which needs a whole sphere. With None this follows from the basis,
        or else from the sphere and ``sphere_symm`` of the tracker.
    sh_basis : str or None
        Basis of the coefficients: descoteaux07, tournier07, their _legacy or their _full form.
    sh_frame : str or None
        Axes of the coefficients: 'voxel' or 'scanner'. None is scanner for tournier07 and voxel for descoteaux07.

    Raises
    ------
    ParameterError
        If an option is out of bounds or the basis is unknown.

    Examples
    --------
    With DIPY's threshold instead of cuslines':

    >>> from tistreamlines.cuslines import ProbDirectionGetter
    >>> ProbDirectionGetter().pmf_threshold, ProbDirectionGetter(pmf_threshold=0.1).pmf_threshold
    (0.05, 0.1)
    """

    name = "prob"

    _: KW_ONLY
    pmf_threshold: float | None = None
    max_directions: int | None = None
    asymmetric: bool | None = None
    sh_basis: str | None = None
    sh_frame: str | None = None

    def __post_init__(self) -> None:
        if self.pmf_threshold is None:
            self.pmf_threshold = PMF_THRESHOLD
        if self.sh_basis is not None:
            arrays.coefficient_frame(self.sh_frame, self.sh_basis)
        self._check_options()

    def _options(self, voxel_sizes: Array) -> Options:
        return {"pmf_threshold": self.pmf_threshold, "max_directions": self.max_directions}

    def _check_sphere(self, dataf: Array, vertices: Array, edges: Array) -> tuple[Array, Array]:
        if self.sh_basis is None:
            return super()._check_sphere(dataf, vertices, edges)
        arrays.check_samples(dataf, None)
        return arrays.check_sphere(vertices, edges)

    def _is_symmetric(self, vertices: Array, sphere_symm: bool) -> bool:
        asymmetric = self.asymmetric
        if asymmetric is None and self.sh_basis is not None:
            asymmetric = BASES[self.sh_basis].full
        return arrays.is_symmetric(vertices, sphere_symm, asymmetric)

    def _follows(self, dataf: Array, space: Space, symmetric: bool, alive: Array) -> OrientationFunctions:
        if self.sh_basis is None:
            return OrientationFunctions("pmf", dataf, symmetric=symmetric)
        if arrays.coefficient_frame(self.sh_frame, self.sh_basis) == "scanner":
            dataf = turn_coefficients(dataf, space.axes, self.sh_basis)
        return OrientationFunctions("sh", dataf, self.sh_basis, symmetric)


@dataclass(eq=False, repr=False)
class PttDirectionGetter(DirectionGetter):
    """Parallel transport tractography [1]_: it draws curvatures by the data support of a probe ahead.

    The ``dataf`` of the tracker holds the PMF or ODF of each voxel at the vertices of the sphere. As in cuslines,
    negative values count as 0, the values of each voxel are divided by the greatest one, and all are 0 where the stop
    map is below ``stop_threshold``.

    Parameters
    ----------
    odf_lut_res : int
        Not used: the vertex nearest to a direction is found exactly.
    probe_length : float
        Length of a segment of a probe, voxels (the smallest voxel side if the sides differ).
    target_short_step : float
        Not used: each step is one arc.
    probe_quality : int
        Number of segments of a probe. The orientation function is read at one point more.
    pmf_threshold : float or None
        Values at or below this, after division by the greatest value, count as 0. None is cuslines' 0.05; DIPY's
        default is 0.1.
    max_directions : int or None
        Greatest number of streamlines from a seed, which follow the highest peaks. None is one for each peak.
    probe_radius : float
        Radius of the circle of parallel lines that make up a probe if there are several, mm.
    probe_count : int
        Number of parallel lines in a probe.
    data_support_exponent : float
        Candidates are drawn with a probability proportional to their data support to this power.
    probe_rule : str
        'paper' follows the publication, with exact arcs: a step turns by at most the greatest curvature times the step
        size. 'dipy' follows DIPY's probes and arcs, see ``--probe-rule``.
    max_curvature : float or None
        Greatest curvature per voxel (the smallest voxel side if the sides differ). None is cuslines' value on CUDA,
        ``8 sin(max_angle / 2)`` for any step size.

    Raises
    ------
    ParameterError
        If an option is out of bounds.

    References
    ----------
    .. [1] Aydogan DB, Shi Y. Parallel transport tractography. IEEE Trans Med Imaging 40, 2021.
        doi:10.1109/TMI.2020.3034038

    Examples
    --------
    >>> from tistreamlines.cuslines import PttDirectionGetter
    >>> getter = PttDirectionGetter(probe_length=0.5, probe_quality=4)
    >>> getter.probe_length * getter.probe_quality  # of a whole probe, in voxels
    2.0
    """

    name = "ptt"

    odf_lut_res: int = 128
    probe_length: float = 0.25
    target_short_step: float = 0.025
    probe_quality: int = 8
    _: KW_ONLY
    pmf_threshold: float | None = None
    max_directions: int | None = None
    probe_radius: float = 0.0
    probe_count: int = 1
    data_support_exponent: float = 1.0
    probe_rule: Literal["dipy", "tracker", "paper"] = "paper"
    max_curvature: float | None = None

    def __post_init__(self) -> None:
        if self.pmf_threshold is None:
            self.pmf_threshold = PMF_THRESHOLD
        if self.max_curvature is not None and not self.max_curvature > 0:
            text = f"max_curvature is {self.max_curvature}"
            raise ParameterError(f"{text}: give a number above 0, or None for the default")
        self._check_options()

    def _options(self, voxel_sizes: Array) -> Options:
        return {
            "probe_length": self.probe_length * self.probe_quality * float(min(voxel_sizes)),
            "probe_quality": self.probe_quality + 1, "pmf_threshold": self.pmf_threshold,
            "max_directions": self.max_directions, "probe_radius": self.probe_radius,
            "probe_count": self.probe_count, "data_support_exponent": self.data_support_exponent,
            "probe_rule": self.probe_rule,
        }

    def _follows(self, dataf: Array, space: Space, symmetric: bool, alive: Array) -> OrientationFunctions:
        values = np.maximum(dataf, 0)
        values[~alive] = 0
        greatest = values.max(axis=-1, keepdims=True)
        np.divide(values, greatest, out=values, where=greatest > 0)
        return OrientationFunctions("pmf", values, symmetric=symmetric)

    def _prepare(self, inputs: GetterInputs, parameters: Parameters) -> KernelTables:
        curvature = self.max_curvature or 8 * math.sin(math.radians(parameters.max_angle) / 2)
        curvature /= min(inputs.voxel_sizes)
        return tables_of(inputs, *ptt.describe(inputs.scheme, parameters, curvature, self.probe_rule == "paper"))
