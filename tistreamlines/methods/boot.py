"""From DIPY's models to the tables of the kernels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..kernels.methods import boot
from ..kernels.stopping import threshold as stopping
from ..kernels.vertex_steps import ALONG_VERTICES
from ..sphere.polynomials import from_harmonics, monomials
from ..sphere.sphere import SPHERES, load_sphere, most_peaks, padded, sphere_tables
from .rows import build_rows, touched

if TYPE_CHECKING:
    from dipy.core.gradients import GradientTable

Array = npt.NDArray[Any]
__all__ = ["SPHERES", "BootOptions", "Prepared", "load_sphere", "prepare_boot", "sphere_tables", "tensor_fa"]


@dataclass(frozen=True)
class Prepared:
    """All that the kernels take besides seeds: constants, arrays and scalars by flat name, team memory by size.

    ``fill`` holds the linker's constants and holes; ``scratch`` a (kind, size) for each of the team's arrays;
    ``shares`` says which of them may lie in another's memory, and from where on, where that is scarce: no stage uses
    both.  ``tables``
    are the arrays read most, for devices that gain by holding them in the memory that teams share.
    """

    fill: dict[str, Any]
    arrays: dict[str, Array]
    scalars: dict[str, float | int]
    scratch: dict[str, tuple[str, int]]
    shares: dict[str, tuple[str, int]]
    tables: tuple[str, ...]


def tensor_fa(
    data: npt.NDArray[np.float32], gtab: GradientTable, mask: npt.NDArray[np.bool_]
) -> npt.NDArray[np.float32]:
    """Fractional anisotropy of DIPY's TensorModel in the mask, 0 outside it: (x, y, z) float32."""
    from dipy.reconst.dti import TensorModel

    out = np.zeros(mask.shape, np.float32)
    fit = TensorModel(gtab, fit_method="WLS").fit(data[mask])
    out[mask] = np.nan_to_num(fit.fa)
    return out


def _single_shell(gtab: GradientTable, tolerance: float = 20.0) -> None:
    bvals = gtab.bvals[~gtab.b0s_mask]
    if np.ptp(bvals) >= tolerance:
        low, high = bvals.min(), bvals.max()
        raise InputError(
            f"b-values run from {low:g} to {high:g} s/mm2, but the bootstrap needs a single shell "
            f"(within {tolerance:g}): extract one shell and its b0 volumes, or take another direction getter"
        )


def _dipy_model(
    kind: str, gtab: GradientTable, order: int, smooth: float, min_signal: float
) -> tuple[Any, Array, Array]:
    """A model, its fit matrix (coefficients, signals) and the constant added to each coefficient."""
    from dipy.reconst.shm import CsaOdfModel, OpdtModel

    if kind == "opdt":
        model = OpdtModel(gtab, sh_order_max=order, smooth=smooth, min_signal=min_signal)
        return model, model._fit_matrix[1], np.zeros(len(model.l_values))
    model = CsaOdfModel(gtab, sh_order_max=order, smooth=smooth, min_signal=min_signal)
    fit, bias = np.array(model._fit_matrix), np.zeros(len(model.l_values))
    fit[0], bias[0] = 0.0, model._n0_const
    return model, fit, bias


# the arrays read most, in the order of what reading them from a GPU's shared memory gains
TABLES = ("method_sphere_vertices", "method_fit", "method_gradients", "method_sphere_neighbours")


@dataclass(frozen=True)
class BootTables:
    """Shapes of the bootstrap's tables (the kernels' constants of the same names)."""

    signals: int
    coefficients: int
    sets: int

    @property
    def groups(self) -> int:
        return padded(self.coefficients) // 32

    @property
    def split(self) -> int:
        # at most 8 lanes: a chunk's steps are then a multiple of 4
        return 1 if self.groups > 1 else min(8, 2 ** int(math.log2(32 // self.coefficients)))

    @property
    def chunks(self) -> int:
        return padded(self.signals) // 32

    @property
    def steps(self) -> int:
        return 32 // self.split

    def pattern(self, degrees: Array) -> Array:
        """Where in the transformed signals each lane of each group begins."""
        lanes = np.arange(32 * self.groups)
        j = lanes % self.steps if self.groups == 1 else lanes
        sets = np.where(j < self.coefficients, degrees[np.minimum(j, self.coefficients - 1)] // 2, 0)
        part = lanes // self.steps if self.groups == 1 else 0 * lanes
        return part * self.steps + (sets * boot.SPAN if self.sets > 1 else 0)

    def fit(self, matrix: Array) -> Array:
        """The fit matrix as [group][chunk of signals][step][lane]."""
        wide = np.zeros((32 * self.groups // self.split, padded(self.signals)))
        wide[: self.coefficients, : self.signals] = matrix
        if self.groups > 1:
            return wide.reshape(self.groups, 32, -1).transpose(0, 2, 1)
        return wide.reshape(self.steps, self.chunks, self.split, self.steps).transpose(1, 3, 2, 0)

    def change(self, order: int) -> Array:
        """The change from harmonics to monomials as [group][harmonic][lane]."""
        wide = _wide(from_harmonics(order).T, 32 * self.groups)
        return wide.reshape(self.coefficients, self.groups, 32).transpose(1, 0, 2)


def _wide(table: Array, width: int) -> Array:
    out = np.zeros((*table.shape[:-1], width))
    out[..., : table.shape[-1]] = table
    return out


@dataclass(frozen=True)
class BootOptions:
    """Options of the residual bootstrap, as in :mod:`tistreamlines.run.parameters`; angles in degrees."""

    model: str = "opdt"
    sphere: str | tuple[Array, Array] = "default"
    sh_order: int = 4
    sm_lambda: float = 0.006
    min_signal: float = 1.0
    relative_peak_threshold: float = 0.25
    min_separation_angle: float = 45.0
    max_angle: float = 60.0
    angular_weight: float = 0.0
    boot_rule: str = "dipy"
    negative_odf: str = "dipy"
    attempts: int = 5


@dataclass(frozen=True)
class _Residuals:
    """The bootstrap's own linear fit: what gives its coefficients, and the leveraged, centred residuals."""

    fit: Array
    leverage: Array
    centred: Array
    mean: Array

    @classmethod
    def of(cls, monomials: Array) -> _Residuals:
        # monomials and harmonics span the same functions, so they share the hat matrix U U^T
        basis = np.linalg.qr(monomials)[0]
        leverage = np.sqrt(1 - (basis**2).sum(axis=1))
        leveraged = (np.eye(len(basis)) - basis @ basis.T) / leverage[:, None]
        mean = leveraged.mean(axis=0)
        return cls(np.linalg.pinv(monomials), leverage, leveraged - mean, mean)


def prepare_boot(
    data: npt.NDArray[np.float32],
    gtab: GradientTable,
    stop_map: npt.NDArray[np.float32],
    threshold: float,
    seeds: npt.NDArray[np.float64],
    **options: Any,
) -> Prepared:
    """Tables of the residual bootstrap.

    Parameters
    ----------
    data : (x, y, z, n) signals.
    gtab : DIPY's gradient table of the n volumes; the b0s may be anywhere.
    stop_map : (x, y, z); threshold : streamlines go on where it is above this.
    seeds : (m, 3) voxel coordinates.
    options : those of :class:`BootOptions`.

    Raises
    ------
    InputError
        Where the data are not a single shell, or have fewer directions than coefficients.
    """
    chosen = BootOptions(**options)
    _single_shell(gtab)
    fitted, matrix, bias = _dipy_model(chosen.model, gtab, chosen.sh_order, chosen.sm_lambda, chosen.min_signal)
    dwi, degrees = ~gtab.b0s_mask, np.asarray(fitted.l_values, int)
    sets = chosen.sh_order // 2 + 1 if chosen.model == "opdt" else 1
    tables = BootTables(int(dwi.sum()), len(degrees), sets)
    if tables.signals <= tables.coefficients:
        raise InputError(
            f"{tables.signals} diffusion-weighted volumes cannot give residuals of order {chosen.sh_order} "
            f"({tables.coefficients} coefficients): lower --sh-order"
        )
    gradients = gtab.bvecs[dwi]
    residuals = _Residuals.of(monomials(gradients, chosen.sh_order))
    width = padded(tables.signals)
    row_width = width + padded(len(degrees) + 3)
    stop = stop_map.ravel()

    def fill_rows(values: Array, voxels: Array, rows: Array) -> None:
        weighted = values[:, dwi]
        rows[:, : tables.signals] = weighted @ residuals.centred.T
        rows[:, width : width + len(degrees)] = weighted @ residuals.fit.T
        rows[:, -3] = weighted @ residuals.mean
        rows[:, -2] = values[:, ~dwi].mean(axis=1)
        rows[:, -1] = stop[voxels]

    index, rows = build_rows(data, touched(stop_map, threshold, seeds), row_width, fill_rows)
    ball, ball_arrays = _sampled_sphere(chosen)
    arrays = ball_arrays | {
        "volume_index": index, "volume_rows": rows.ravel(), "volume_shape": np.array(stop_map.shape),
        "method_gradients": _wide(gradients.T, width).ravel(), "method_change": tables.change(chosen.sh_order).ravel(),
        "method_leverage": _wide(residuals.leverage, width), "method_bias": _wide(bias, 32 * tables.groups),
        "method_fit": tables.fit(matrix).ravel(), "method_pattern": tables.pattern(degrees),
    }  # fmt: skip
    most = most_peaks(32 * ball["VERTEX_CHUNKS"], chosen.min_separation_angle)
    scalars = rule_scalars(chosen, threshold) | {
        "seeds_most": most, "method_sphere_count": ball.pop("count"), "method_signals": tables.signals,
        "method_min_signal": chosen.min_signal, "method_angular_weight": chosen.angular_weight,
    }  # fmt: skip
    constants = ball | _constants(chosen, tables, row_width, degrees)
    # row and transformed signals are spent when the ODF is sampled, and the sums when coefficients are made of them
    shares = {
        "scratch_odf": ("scratch_row", 0), "scratch_transformed": ("scratch_row", row_width),
        "scratch_coefficients": ("scratch_sums", 0),
    }  # fmt: skip
    scratch = _scratch(tables, constants, most)
    return Prepared(constants | _holes(), arrays, scalars, scratch, shares, TABLES)


def _sampled_sphere(chosen: BootOptions) -> tuple[dict[str, int], dict[str, Array]]:
    """Constants and arrays of the sphere."""
    vertices, edges = load_sphere(chosen.sphere)
    constants, ball = sphere_tables(vertices, edges)
    return constants | {"count": len(vertices)}, {f"method_sphere_{name}": table for name, table in ball.items()}


def rule_scalars(chosen: Any, threshold: float) -> dict[str, float | int]:
    """The thresholds of any getter's options for stopping and peaks; degrees become cosines here."""
    return {
        "stopping_threshold": threshold,
        "method_rule_relative_threshold": chosen.relative_peak_threshold,
        "method_rule_cos_separation": math.cos(math.radians(chosen.min_separation_angle)),
        "method_rule_cos_angle": math.cos(math.radians(chosen.max_angle)),
    }


def _constants(chosen: BootOptions, tables: BootTables, row_width: int, degrees: Array) -> dict[str, Any]:
    """What the linker fixes."""
    width = padded(tables.signals)
    return {
        "ROW_CHUNKS": row_width // 32, "STOP_CHANNEL": row_width - 1, "STOP_CHANNELS": 1, "CANDIDATES": 64,
        "SIGNAL_CHUNKS": width // 32,
        "PASSES": -(-width // (32 * boot.PASS)), "COEFFICIENTS": tables.coefficients, "SPLIT": tables.split,
        "HALF_ORDER": chosen.sh_order // 2, "GROUPS": tables.groups, "FIT_STEPS": tables.steps, "SETS": tables.sets,
        "FIT_PATTERN": tuple(int(v) for v in tables.pattern(degrees)[:32]),
        "OPDT": int(chosen.model == "opdt"), "ATTEMPTS": chosen.attempts,
        "UNTIL_FIT": int(chosen.boot_rule == "cuslines"), "ANGULAR": int(chosen.angular_weight > 0),
        "NEGATIVE_PEAK": int(chosen.negative_odf == "dipy"),
    }  # fmt: skip


def _scratch(tables: BootTables, constants: dict[str, Any], most: int) -> dict[str, tuple[str, int]]:
    """Team memory."""
    odf, row = 32 * constants["VERTEX_CHUNKS"], 32 * constants["ROW_CHUNKS"]
    transformed = max(tables.sets * boot.SPAN, 32 * tables.groups)
    return {
        "scratch_row": ("reals", max(row + transformed, odf)),
        "scratch_transformed": ("reals", transformed),
        "scratch_sums": ("reals", 32 * tables.groups),
        "scratch_coefficients": ("reals", 32 * tables.groups),
        "scratch_odf": ("reals", odf),
        "scratch_peaks_candidates": ("reals", constants["CANDIDATES"]),
        "scratch_peaks_kept": ("ints", most),
        "scratch_peaks_counter": ("ints", 1),
    }


def _holes() -> dict[str, Any]:
    """The method and the stopping rule that the engine's kernels are linked with."""
    return ALONG_VERTICES | {
        "Method": boot.Boot, "Scratch": boot.BootScratch, "Stopping": stopping.Threshold, "classify": stopping.classify,
        "initial_directions": boot.initial_directions, "next_direction": boot.next_direction,
    }  # fmt: skip
