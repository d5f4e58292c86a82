"""Drop-ins for cuslines' direction getters: each makes the tables that a tracker runs on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
import numpy.typing as npt

from ..errors import ParameterError
from ..methods import boot as models
from ..methods import pmf as models_pmf
from ..methods import ptt as models_ptt
from ..methods.boot import Prepared
from ..run.parameters import Parameters
from ..sphere.harmonics import BASES, turned
from . import arrays

if TYPE_CHECKING:
    from dipy.core.gradients import GradientTable
    from dipy.core.sphere import Sphere

Array = npt.NDArray[Any]
MODELS = ("opdt", "csa")
PMF_THRESHOLD = 0.05  # cuslines' PMF_THRESHOLD_P


@dataclass(frozen=True)
class Geometry:
    """What tables depend on besides the options.

    step_mm, voxel_sizes : length of a step, and sides of a voxel, mm.
    symmetric : a direction of the sphere stands for its opposite too.
    axes : directions of the voxel axes in RAS, the columns of a matrix given row by row.
    """

    step_mm: float = 0.5
    voxel_sizes: tuple[float, ...] = (1.0, 1.0, 1.0)
    symmetric: bool = True
    axes: tuple[tuple[float, ...], ...] = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))


class DirectionGetter(Protocol):
    """What a tracker asks of a direction getter; ``name`` is its word of ``--dg``."""

    name: str

    def options(self, geometry: Geometry) -> dict[str, Any]:
        """Return its own options that shape the tables, checked: where they change, tables are made anew."""
        ...

    def symmetric(self, vertices: Array, sphere_symm: bool) -> bool:
        """Whether a direction of the sphere stands for its opposite too."""
        ...

    def sphere_tables(self, dataf: Array, vertices: Array, edges: Array) -> tuple[Array, Array]:
        """Return vertices (v, 3) and edges (e, 2), once they and the data (x, y, z, n) are seen to go together."""
        ...

    def prepare(self, dataf: Array, stop_map: Array, threshold: float, seeds: Array, **options: Any) -> Prepared:
        """Make the tables from the data, its own options and those that all getters share."""
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
        if str(model_type).lower() not in MODELS:
            raise ParameterError(f"model_type is {model_type!r}: give one of {', '.join(MODELS)}")
        self.gtab, self.sphere = cast("GradientTable", gtab), cast("Sphere", sphere)
        self.model_type = str(model_type).lower()
        self.sh_order_max, self.sh_lambda, self.min_signal = sh_order_max, sh_lambda, min_signal
        self.boot_rule, self.negative_odf = boot_rule, negative_odf
        self.options()

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

    def options(self, geometry: Geometry | None = None) -> dict[str, Any]:
        """Return the options of :func:`tistreamlines.methods.boot.prepare_boot` that belong to the model, checked."""
        named = {
            "model": self.model_type, "sh_order": self.sh_order_max, "sm_lambda": self.sh_lambda,
            "min_signal": self.min_signal, "angular_weight": self.angular_weight, "boot_rule": self.boot_rule,
            "negative_odf": self.negative_odf,
        }  # fmt: skip
        checked = Parameters(dg=self.name, **named)
        return {name: getattr(checked, name) for name in named}

    def symmetric(self, vertices: Array, sphere_symm: bool) -> bool:
        """Return True: so is the signal, and so are the models fitted to it."""
        return True

    def sphere_tables(self, dataf: Array, vertices: Array, edges: Array) -> tuple[Array, Array]:
        """Return vertices and edges, which are those of the getter's own sphere; the data are a series."""
        arrays.series(self.gtab, dataf)
        return arrays.sphere_tables(vertices, edges, self.sphere)

    def prepare(self, dataf: Array, stop_map: Array, threshold: float, seeds: Array, **options: Any) -> Prepared:
        """Make the tables of the residual bootstrap."""
        return models.prepare_boot(dataf, self.gtab, stop_map, threshold, seeds, **options)


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
        self.options(Geometry())

    def options(self, geometry: Geometry) -> dict[str, Any]:
        """Return the options of :func:`tistreamlines.methods.pmf.prepare_prob` that belong to the getter, checked."""
        named = {"pmf_threshold": _threshold(self.pmf_threshold), "max_directions": self.max_directions}
        checked = Parameters(dg=self.name, **named)
        basis: dict[str, Any] = {}
        if self.sh_basis is not None:
            frame = arrays.frame(self.sh_frame, arrays.basis(self.sh_basis))
            basis = {"basis": self.sh_basis, "axes": geometry.axes if frame == "scanner" else None}
        return {name: getattr(checked, name) for name in named} | {"asymmetric": not geometry.symmetric} | basis

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

    def prepare(self, dataf: Array, stop_map: Array, threshold: float, seeds: Array, **options: Any) -> Prepared:
        """Make the tables of probabilistic tracking."""
        source = "sh" if self.sh_basis else "pmf"
        axes = options.pop("axes", None)
        if axes is not None and self.sh_basis is not None:
            dataf = turned(dataf, axes, self.sh_basis)
        return models_pmf.prepare_prob(source, dataf, stop_map, threshold, seeds, **options)


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
        self.options(Geometry())

    def options(self, geometry: Geometry) -> dict[str, Any]:
        """Return the options of :func:`tistreamlines.methods.ptt.prepare_ptt` that belong to the getter, checked."""
        named = {
            "probe_length": self.probe_length * self.probe_quality * min(geometry.voxel_sizes),
            "probe_quality": self.probe_quality + 1, "pmf_threshold": _threshold(self.pmf_threshold),
            "max_directions": self.max_directions, "probe_radius": self.probe_radius,
            "probe_count": self.probe_count, "data_support_exponent": self.data_support_exponent,
            "probe_rule": self.probe_rule,
        }  # fmt: skip
        checked = Parameters(dg=self.name, **named)
        if self.max_curvature is not None and not self.max_curvature > 0:
            raise ParameterError(f"max_curvature is {self.max_curvature}: give more than 0, or None for cuslines'")
        return {name: getattr(checked, name) for name in named} | {
            "step_mm": geometry.step_mm, "voxel_sizes": geometry.voxel_sizes, "max_curvature": self.max_curvature,
            "exact_arcs": self.probe_rule == "paper", "asymmetric": not geometry.symmetric,
        }  # fmt: skip

    def symmetric(self, vertices: Array, sphere_symm: bool) -> bool:
        """Whether a direction of the sphere stands for its opposite too."""
        return arrays.symmetry(vertices, sphere_symm)

    def sphere_tables(self, dataf: Array, vertices: Array, edges: Array) -> tuple[Array, Array]:
        """Return vertices and edges; the data have a value for each vertex."""
        vertices, edges = arrays.sphere_tables(vertices, edges)
        arrays.samples(dataf, vertices)
        return vertices, edges

    def prepare(self, dataf: Array, stop_map: Array, threshold: float, seeds: Array, **options: Any) -> Prepared:
        """Make the tables of parallel transport tractography."""
        values = np.maximum(dataf, 0)
        values[stop_map < threshold] = 0
        greatest = values.max(axis=-1, keepdims=True)
        np.divide(values, greatest, out=values, where=greatest > 0)
        curvature = options.pop("max_curvature")
        if curvature is None:
            curvature = 8 * math.sin(math.radians(options["max_angle"]) / 2)
        options["max_curvature"] = curvature / min(options["voxel_sizes"])
        return models_ptt.prepare_ptt("pmf", values, stop_map, threshold, seeds, **options)


def _threshold(pmf_threshold: float | None) -> float:
    return PMF_THRESHOLD if pmf_threshold is None else pmf_threshold
