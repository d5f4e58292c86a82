"""Drop-ins for cuslines' direction getters: each makes the tables that a tracker runs on."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
import numpy.typing as npt

from ..errors import ParameterError
from ..methods import boot, pmf, ptt
from ..methods.given import Given, OrientationFunctions, Prepared, Signals
from ..methods.registry import METHODS
from ..run.parameters import Parameters
from ..sphere.harmonics import BASES, turned
from . import arrays

if TYPE_CHECKING:
    from dipy.core.gradients import GradientTable
    from dipy.core.sphere import Sphere

Array = npt.NDArray[Any]
PMF_THRESHOLD = 0.05  # cuslines' PMF_THRESHOLD_P


@dataclass(frozen=True)
class Geometry:
    """What tables depend on besides the options.

    voxel_sizes : sides of a voxel, mm.
    symmetric : a direction of the sphere stands for its opposite too.
    axes : directions of the voxel axes in RAS, the columns of a matrix given row by row.
    alive : (x, y, z), voxels whose stop map reaches the threshold.
    """

    voxel_sizes: tuple[float, ...] = (1.0, 1.0, 1.0)
    symmetric: bool = True
    axes: tuple[tuple[float, ...], ...] = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
    alive: Any = field(default=None, compare=False)


class DirectionGetter(Protocol):
    """What a tracker asks of a direction getter; ``name`` is its name in the registry of methods."""

    name: str

    def options(self, geometry: Geometry) -> dict[str, Any]:
        """Return its own options, named as in :class:`tistreamlines.Parameters`."""
        ...

    def symmetric(self, vertices: Array, sphere_symm: bool) -> bool:
        """Whether a direction of the sphere stands for its opposite too."""
        ...

    def sphere_tables(self, dataf: Array, vertices: Array, edges: Array) -> tuple[Array, Array]:
        """Return vertices (v, 3) and edges (e, 2), after checking that they and the data (x, y, z, n) go together."""
        ...

    def follow(self, dataf: Array, geometry: Geometry) -> Signals | OrientationFunctions:
        """Return what the method follows, from the data (x, y, z, n)."""
        ...

    def prepare(self, given: Given, parameters: Parameters) -> Prepared:
        """Make the tables."""
        ...


class BootDirectionGetter:
    """Directions by residual bootstrap of an OPDT or CSA fit.

    Parameters
    ----------
    model_type : 'opdt' or 'csa', in any case.
    gtab : DIPY's gradient table of the n volumes; the b0s may be anywhere, the rest is one shell.
    sphere : DIPY's sphere or hemisphere on which peaks are sought; the tracker is given the same one.
    sh_order_max : order of the spherical harmonics, even.
    sh_lambda : Laplace-Beltrami smoothing of the fit.
    min_signal : signals below this are raised to it.
    boot_rule : 'dipy' draws again only while there is no peak at all, 'cuslines' until one fits the angle.
    negative_odf : an ODF without a positive value has one peak ('dipy') or none ('none').

    Attributes
    ----------
    angular_weight : float, 0 to 1
        Weight w of ODF * (1 - w + w |cos(angle to the last step)|); 0 is off. May be set at any time.

    Notes
    -----
    The matrices that cuslines' constructor takes (H, R, delta_b, ...) are made from the gradient table here.
    """

    name = "boot"
    angular_weight = 0.0

    def __init__(
        self, model_type: str, gtab: GradientTable | None = None, sphere: Sphere | None = None, sh_order_max: int = 6,
        sh_lambda: float = 0.006, min_signal: float = 1, *, boot_rule: str = "dipy", negative_odf: str = "dipy",
        **matrices: Any,
    ) -> None:  # fmt: skip
        if not hasattr(gtab, "b0s_mask") or not hasattr(sphere, "vertices") or matrices:
            raise ParameterError(
                "a BootDirectionGetter takes a gradient table and a sphere, not the matrices made from them: "
                "use BootDirectionGetter.from_dipy_opdt(gtab, sphere) or from_dipy_csa(gtab, sphere)"
            )
        if str(model_type).lower() not in METHODS[self.name].models:
            raise ParameterError(f"model_type is {model_type!r}: give one of {', '.join(METHODS[self.name].models)}")
        self.gtab, self.sphere = cast("GradientTable", gtab), cast("Sphere", sphere)
        self.model_type = str(model_type).lower()
        self.sh_order_max, self.sh_lambda, self.min_signal = sh_order_max, sh_lambda, min_signal
        self.boot_rule, self.negative_odf = boot_rule, negative_odf
        check(self)

    @classmethod
    def from_dipy_opdt(
        cls, gtab: GradientTable, sphere: Sphere, sh_order_max: int = 6, full_basis: bool = False,
        sh_lambda: float = 0.006, min_signal: float = 1,
    ) -> BootDirectionGetter:  # fmt: skip
        """Bootstrap DIPY's orientation probability density transform; arguments as for the class."""
        _no_full_basis(full_basis)
        return cls("opdt", gtab, sphere, sh_order_max, sh_lambda, min_signal)

    @classmethod
    def from_dipy_csa(
        cls, gtab: GradientTable, sphere: Sphere, sh_order_max: int = 6, full_basis: bool = False,
        sh_lambda: float = 0.006, min_signal: float = 1,
    ) -> BootDirectionGetter:  # fmt: skip
        """Bootstrap DIPY's constant solid angle ODF; arguments as for the class."""
        _no_full_basis(full_basis)
        return cls("csa", gtab, sphere, sh_order_max, sh_lambda, min_signal)

    def options(self, geometry: Geometry) -> dict[str, Any]:
        """Return its own options, named as in :class:`tistreamlines.Parameters`."""
        return {
            "model": self.model_type, "sh_order": self.sh_order_max, "sm_lambda": self.sh_lambda,
            "min_signal": self.min_signal, "angular_weight": self.angular_weight, "boot_rule": self.boot_rule,
            "negative_odf": self.negative_odf,
        }  # fmt: skip

    def symmetric(self, vertices: Array, sphere_symm: bool) -> bool:
        """Return True: so is the signal, and so are the models fitted to it."""
        return True

    def sphere_tables(self, dataf: Array, vertices: Array, edges: Array) -> tuple[Array, Array]:
        """Return vertices and edges, which are those of the getter's own sphere; the data are a series."""
        arrays.series(self.gtab, dataf)
        return arrays.sphere_tables(vertices, edges, self.sphere)

    def follow(self, dataf: Array, geometry: Geometry) -> Signals:
        """Return the signals."""
        return Signals(dataf, self.gtab)

    def prepare(self, given: Given, parameters: Parameters) -> Prepared:
        """Make the tables of the residual bootstrap."""
        return boot.prepare(given, parameters)


def _no_full_basis(full_basis: bool) -> None:
    if full_basis:
        raise ParameterError("full_basis=True: the diffusion signal is symmetric, its models have no odd harmonics")


class ProbDirectionGetter:
    """Directions drawn from a distribution at each point (PMF).

    The tracker's ``dataf`` holds the PMF or ODF of each voxel, sampled at the vertices of its sphere, of any scale: as
    cuslines has it; or, with a basis, coefficients of spherical harmonics.

    Parameters
    ----------
    pmf_threshold : directions below this share of the greatest are never taken; None for cuslines' 0.05.  DIPY has 0.1.
    max_directions : begin at most this many streamlines at a seed, toward the highest peaks; None for all.
    asymmetric : whether opposite directions are kept apart, on a whole sphere; None for what the tracker's sphere and
        ``sphere_symm`` say, or the basis.
    sh_basis : of coefficients, a name in ``tistreamlines.sphere.harmonics.BASES``; evaluated in each step.
    sh_frame : axes of the coefficients, 'voxel' or 'scanner'; None for the basis' own, as ``--sh-frame``.
    """

    name = "prob"

    def __init__(
        self, *, pmf_threshold: float | None = None, max_directions: int | None = None, asymmetric: bool | None = None,
        sh_basis: str | None = None, sh_frame: str | None = None,
    ) -> None:  # fmt: skip
        self.pmf_threshold, self.max_directions = pmf_threshold, max_directions
        self.asymmetric, self.sh_basis, self.sh_frame = asymmetric, sh_basis, sh_frame
        if sh_basis is not None:
            arrays.frame(sh_frame, arrays.basis(sh_basis))
        check(self)

    def options(self, geometry: Geometry) -> dict[str, Any]:
        """Return its own options, named as in :class:`tistreamlines.Parameters`."""
        return {"pmf_threshold": _threshold(self.pmf_threshold), "max_directions": self.max_directions}

    def symmetric(self, vertices: Array, sphere_symm: bool) -> bool:
        """Whether a direction of the sphere stands for its opposite too: so it does for an even basis."""
        asymmetric = self.asymmetric
        if asymmetric is None and self.sh_basis is not None:
            asymmetric = BASES[self.sh_basis].full
        return arrays.symmetry(vertices, sphere_symm, asymmetric)

    def sphere_tables(self, dataf: Array, vertices: Array, edges: Array) -> tuple[Array, Array]:
        """Return vertices and edges; the data have a value for each vertex, or are coefficients."""
        vertices, edges = arrays.sphere_tables(vertices, edges)
        arrays.samples(dataf, None if self.sh_basis else vertices)
        return vertices, edges

    def follow(self, dataf: Array, geometry: Geometry) -> OrientationFunctions:
        """Return the functions, along the voxel axes."""
        if self.sh_basis is None:
            return OrientationFunctions("pmf", dataf, symmetric=geometry.symmetric)
        if arrays.frame(self.sh_frame, self.sh_basis) == "scanner":
            dataf = turned(dataf, geometry.axes, self.sh_basis)
        return OrientationFunctions("sh", dataf, self.sh_basis, geometry.symmetric)

    def prepare(self, given: Given, parameters: Parameters) -> Prepared:
        """Make the tables of probabilistic tracking."""
        return pmf.prepare_prob(given, parameters)


class PttDirectionGetter:
    """Parallel transport: arcs whose curvatures are drawn by what lies along a probe ahead.

    The tracker's ``dataf`` holds the PMF or ODF of each voxel, sampled at the vertices of its sphere.  As in cuslines,
    negative values count as 0, each voxel is divided by its greatest value, and one below the tracker's
    ``stop_threshold`` is 0 throughout.  So is the greatest curvature cuslines' (CUDA): ``8 sin(max_angle / 2)`` a
    voxel, whatever the step.  Arcs are exact, so that a step turns by at most that times its length, and no streamline
    is longer than its steps.  Where the tracker keeps opposite directions apart, so do the probes.

    Parameters
    ----------
    odf_lut_res : not used: the vertex nearest to a direction is found exactly.
    probe_length : of a segment of a probe, in voxels: in an image of unequal sides, in smallest ones.
    target_short_step : not used: a step is one arc.
    probe_quality : segments of a probe; the function is read at one point more.
    pmf_threshold : values not above this, of a greatest 1, count as 0; None for cuslines' 0.05.  DIPY has 0.1.
    max_directions : begin at most this many streamlines at a seed, toward the highest peaks; None for all.
    probe_radius : of the circle of lines that make a probe if they are more than one, mm.
    probe_count : lines.
    data_support_exponent : candidates are drawn by their data support to this power.
    probe_rule : 'paper', in which probes are as long as said, or 'dipy', see ``--probe-rule``, with DIPY's arcs too.
    max_curvature : greatest curvature, a voxel: in an image of unequal sides, a smallest one; None for cuslines'.
    """

    name = "ptt"

    def __init__(
        self, odf_lut_res: int = 128, probe_length: float = 0.25, target_short_step: float = 0.025,
        probe_quality: int = 8, *, pmf_threshold: float | None = None, max_directions: int | None = None,
        probe_radius: float = 0.0, probe_count: int = 1, data_support_exponent: float = 1.0, probe_rule: str = "paper",
        max_curvature: float | None = None,
    ) -> None:  # fmt: skip
        self.probe_length, self.probe_quality = probe_length, probe_quality
        self.pmf_threshold, self.max_directions = pmf_threshold, max_directions
        self.probe_radius, self.probe_count = probe_radius, probe_count
        self.data_support_exponent, self.probe_rule = data_support_exponent, probe_rule
        self.max_curvature = max_curvature
        if max_curvature is not None and not max_curvature > 0:
            raise ParameterError(f"max_curvature is {max_curvature}: give more than 0, or None for cuslines'")
        check(self)

    def options(self, geometry: Geometry) -> dict[str, Any]:
        """Return its own options, named as in :class:`tistreamlines.Parameters`."""
        return {
            "probe_length": self.probe_length * self.probe_quality * min(geometry.voxel_sizes),
            "probe_quality": self.probe_quality + 1, "pmf_threshold": _threshold(self.pmf_threshold),
            "max_directions": self.max_directions, "probe_radius": self.probe_radius,
            "probe_count": self.probe_count, "data_support_exponent": self.data_support_exponent,
            "probe_rule": self.probe_rule,
        }  # fmt: skip

    def symmetric(self, vertices: Array, sphere_symm: bool) -> bool:
        """Whether a direction of the sphere stands for its opposite too."""
        return arrays.symmetry(vertices, sphere_symm)

    def sphere_tables(self, dataf: Array, vertices: Array, edges: Array) -> tuple[Array, Array]:
        """Return vertices and edges; the data have a value for each vertex."""
        vertices, edges = arrays.sphere_tables(vertices, edges)
        arrays.samples(dataf, vertices)
        return vertices, edges

    def follow(self, dataf: Array, geometry: Geometry) -> OrientationFunctions:
        """Return the functions as cuslines scales them: none below 0, 0 in voxels that end streamlines, 1 at most."""
        values = np.maximum(dataf, 0)
        values[~geometry.alive] = 0
        greatest = values.max(axis=-1, keepdims=True)
        np.divide(values, greatest, out=values, where=greatest > 0)
        return OrientationFunctions("pmf", values, symmetric=geometry.symmetric)

    def prepare(self, given: Given, parameters: Parameters) -> Prepared:
        """Make the tables of parallel transport tractography."""
        curvature = self.max_curvature
        if curvature is None:
            curvature = 8 * math.sin(math.radians(parameters.max_angle) / 2)
        exact = self.probe_rule == "paper"
        return ptt.prepare(given, parameters, curvature / min(given.voxel_sizes), exact)


def check(dg: DirectionGetter) -> None:
    """Check a direction getter's own options as those of the command line are checked."""
    Parameters(dg=dg.name, **dg.options(Geometry()))


def _threshold(pmf_threshold: float | None) -> float:
    return PMF_THRESHOLD if pmf_threshold is None else pmf_threshold
