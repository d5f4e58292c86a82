"""From DIPY's models to the tables of the kernels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .errors import InputError
from .kernels.methods import boot
from .kernels.stopping import threshold as stopping
from .volume import build_rows, touched

if TYPE_CHECKING:
    from dipy.core.gradients import GradientTable

Array = npt.NDArray[Any]
VERTEX_BLOCK = 64  # two chunks at a time: more loads in flight for the same loop
SPHERES = {"default": ("repulsion724", True), "full": ("repulsion724", False), "small": ("symmetric362", True)}


@dataclass(frozen=True)
class Prepared:
    """All that the kernels take besides seeds: constants, arrays and scalars by flat name, team memory by size.

    ``fill`` holds the linker's constants and holes; ``scratch`` a (kind, size) for each of the team's arrays;
    ``shares`` says which of them may lie in another's memory where that is scarce: no stage uses both.  ``tables``
    are the arrays read most, for devices that gain by holding them in the memory that teams share.
    """

    fill: dict[str, Any]
    arrays: dict[str, Array]
    scalars: dict[str, float | int]
    scratch: dict[str, tuple[str, int]]
    shares: dict[str, str]
    tables: tuple[str, ...]


def padded(n: int, unit: int = 32) -> int:
    """``n`` rounded up to whole chunks of 32, or to another unit."""
    return -(-n // unit) * unit


def tensor_fa(data: npt.NDArray[np.float32], gtab: GradientTable, mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.float32]:
    """Fractional anisotropy of DIPY's TensorModel in the mask, 0 outside it: (x, y, z) float32."""
    from dipy.reconst.dti import TensorModel

    out = np.zeros(mask.shape, np.float32)
    fit = TensorModel(gtab, fit_method="WLS").fit(data[mask])
    out[mask] = np.nan_to_num(fit.fa)
    return out


def load_sphere(name: str) -> tuple[Array, Array]:
    """Vertices (n, 3) and edges (m, 2) of a sphere of SPHERES."""
    from dipy.core.sphere import HemiSphere
    from dipy.data import get_sphere

    source, half = SPHERES[name]
    sphere = get_sphere(name=source)
    if half:
        sphere = HemiSphere.from_sphere(sphere)
    return np.asarray(sphere.vertices, float), np.asarray(sphere.edges, np.int64)


def sphere_tables(vertices: Array, edges: Array) -> tuple[dict[str, int], dict[str, Array]]:
    """Constants and arrays of the kernels' Sphere record."""
    count = len(vertices)
    width = padded(count, VERTEX_BLOCK)
    near: list[list[int]] = [[] for _ in range(count)]
    for a, b in edges:
        near[a].append(int(b))
        near[b].append(int(a))
    most = max(map(len, near))
    neighbours = np.tile(np.arange(width, dtype=np.int32), (most, 1))
    for i, row in enumerate(near):
        neighbours[:, i] = [row[rank % len(row)] for rank in range(most)]
    # a padding vertex copies vertex 0, so that it changes neither the least nor the greatest sample
    padding = np.concatenate([vertices, np.repeat(vertices[:1], width - count, axis=0)])
    constants = {"VERTEX_CHUNKS": width // 32, "VERTEX_UNROLL": VERTEX_BLOCK // 32, "NEIGHBOURS": most, "SYMMETRIC": 1}
    pairs = [neighbours[rank] | (neighbours[rank + 1] << 16) for rank in range(0, most - 1, 2)]
    packed = np.array(pairs + [neighbours[-1]] * (most % 2), np.int32)
    return constants, {"vertices": padding.T.ravel(), "neighbours": packed.ravel()}


def _single_shell(gtab: GradientTable, tolerance: float = 20.0) -> None:
    bvals = gtab.bvals[~gtab.b0s_mask]
    if np.ptp(bvals) >= tolerance:
        low, high = bvals.min(), bvals.max()
        raise InputError(
            f"b-values run from {low:g} to {high:g} s/mm2, but the bootstrap needs a single shell "
            f"(within {tolerance:g}): extract one shell and its b0 volumes"
        )


def _dipy_model(kind: str, gtab: GradientTable, order: int, smooth: float, min_signal: float) -> tuple[Any, Array, Array]:
    """A model, its fit matrix (coefficients, signals) and the constant added to each coefficient."""
    from dipy.reconst.shm import CsaOdfModel, OpdtModel

    if kind == "opdt":
        model = OpdtModel(gtab, sh_order_max=order, smooth=smooth, min_signal=min_signal)
        return model, model._fit_matrix[1], np.zeros(len(model.l_values))
    model = CsaOdfModel(gtab, sh_order_max=order, smooth=smooth, min_signal=min_signal)
    fit, bias = np.array(model._fit_matrix), np.zeros(len(model.l_values))
    fit[0], bias[0] = 0.0, model._n0_const
    return model, fit, bias


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
        # at most 8 lanes: their steps are then a multiple of 4
        return 1 if self.groups > 1 else min(8, 2 ** int(math.log2(32 // self.coefficients)))

    @property
    def steps(self) -> int:
        return padded(self.signals) // self.split

    @property
    def unroll(self) -> int:
        """Steps of the fit to write out: as many as divide the whole, up to 20."""
        return max(n for n in (4, 8, 12, 16, 20) if self.steps % n == 0)

    @property
    def span(self) -> int:
        # one more than whole chunks: sets that start in one bank of shared memory would be read one after the other
        return padded(self.signals) + 1

    def pattern(self, degrees: Array) -> Array:
        """Where in the transformed signals each lane of each group begins."""
        lanes = np.arange(32 * self.groups)
        width = 32 // self.split
        j = lanes % width if self.groups == 1 else lanes
        sets = np.where(j < self.coefficients, degrees[np.minimum(j, self.coefficients - 1)] // 2, 0)
        part = lanes // width if self.groups == 1 else 0 * lanes
        return part * self.steps + (sets * self.span if self.sets > 1 else 0)

    def fit(self, matrix: Array) -> Array:
        """The fit matrix as [group][step][lane]."""
        wide = np.zeros((32 * self.groups // self.split if self.groups == 1 else 32 * self.groups, padded(self.signals)))
        wide[: self.coefficients, : self.signals] = matrix
        if self.groups > 1:
            return wide.reshape(self.groups, 32, -1).transpose(0, 2, 1)
        return wide.reshape(32 // self.split, self.split, self.steps).transpose(2, 1, 0)


def _wide(table: Array, width: int) -> Array:
    out = np.zeros((*table.shape[:-1], width))
    out[..., : table.shape[-1]] = table
    return out


def prepare_boot(
    data: npt.NDArray[np.float32],
    gtab: GradientTable,
    stop_map: npt.NDArray[np.float32],
    threshold: float,
    seeds: npt.NDArray[np.float64],
    *,
    model: str = "opdt",
    sphere: str | tuple[Array, Array] = "default",
    sh_order: int = 4,
    sm_lambda: float = 0.006,
    min_signal: float = 1.0,
    relative_peak_threshold: float = 0.25,
    min_separation_angle: float = 45.0,
    max_angle: float = 60.0,
    angular_weight: float = 0.0,
    boot_rule: str = "dipy",
    negative_odf: str = "dipy",
    attempts: int = 5,
) -> Prepared:
    """Tables of the residual bootstrap.

    Parameters
    ----------
    data : (x, y, z, n) signals.
    gtab : DIPY's gradient table of the n volumes; the b0s may be anywhere.
    stop_map : (x, y, z); threshold : streamlines go on where it is above this.
    seeds : (m, 3) voxel coordinates.
    Angles are in degrees; the other parameters are those of :mod:`tistreamlines.parameters`.

    Raises
    ------
    InputError
        Where the data are not a single shell, or have fewer directions than coefficients.
    """
    from dipy.reconst.shm import hat, real_sh_descoteaux, cart2sphere

    _single_shell(gtab)
    fitted, matrix, bias = _dipy_model(model, gtab, sh_order, sm_lambda, min_signal)
    dwi = ~gtab.b0s_mask
    signals, degrees = int(dwi.sum()), np.asarray(fitted.l_values, int)
    tables = BootTables(signals, len(degrees), sh_order // 2 + 1 if model == "opdt" else 1)
    if signals <= len(degrees):
        raise InputError(
            f"{signals} diffusion-weighted volumes cannot give residuals of order {sh_order} "
            f"({len(degrees)} coefficients): lower --sh-order"
        )
    vertices, edges = load_sphere(sphere) if isinstance(sphere, str) else sphere
    constants, ball = sphere_tables(vertices, edges)
    _, theta, phi = cart2sphere(*vertices.T)
    sampling = real_sh_descoteaux(sh_order, theta, phi, legacy=True)[0]
    padding = np.concatenate([sampling, np.repeat(sampling[:1], 32 * constants["VERTEX_CHUNKS"] - len(vertices), axis=0)])
    # the bootstrap's own fit: an orthonormal basis of the harmonics at the gradients
    basis = np.linalg.qr(fitted.B)[0]
    assert np.allclose(basis @ basis.T, hat(fitted.B))
    leverage = np.sqrt(1 - (basis**2).sum(axis=1))
    leveraged = (np.eye(signals) - basis @ basis.T) / leverage[:, None]
    mean = leveraged.mean(axis=0)
    width = padded(signals)
    row_width = width + padded(len(degrees) + 3)
    stop = stop_map.ravel()

    def fill_rows(values: Array, voxels: Array, rows: Array) -> None:
        weighted = values[:, dwi]
        rows[:, :signals] = weighted @ (leveraged - mean).T
        rows[:, width : width + len(degrees)] = weighted @ basis
        rows[:, -3] = weighted @ mean
        rows[:, -2] = values[:, ~dwi].mean(axis=1)
        rows[:, -1] = stop[voxels]

    index, rows = build_rows(data, touched(stop_map, threshold, seeds), row_width, fill_rows)
    most = len(vertices)
    if min_separation_angle > 0:  # disjoint caps about the directions and their opposites
        most = min(most, int(1 / (1 - math.cos(math.radians(min_separation_angle) / 2))) + 1)
    fill = constants | {
        "ROW_CHUNKS": row_width // 32, "CANDIDATES": min(row_width, 32 * constants["VERTEX_CHUNKS"]), "STOP_CHANNEL": row_width - 1, "MAX_DIRECTIONS": most,
        "SIGNAL_CHUNKS": width // 32, "SIGNAL_BLOCKS": -(-width // 256), "COEFFICIENTS": tables.coefficients,
        "SPLIT": tables.split, "GROUPS": tables.groups, "FIT_STEPS": tables.steps, "FIT_UNROLL": tables.unroll, "SPAN": tables.span,
        "SETS": tables.sets, "FIT_PATTERN": tuple(int(v) for v in tables.pattern(degrees)[:32]),
        "OPDT": int(model == "opdt"), "ATTEMPTS": attempts, "UNTIL_FIT": int(boot_rule == "cuslines"),
        "ANGULAR": int(angular_weight > 0), "NEGATIVE_PEAK": int(negative_odf == "dipy"),
    }  # fmt: skip
    arrays = {
        "volume_index": index, "volume_rows": rows.ravel(), "volume_shape": np.array(stop_map.shape),
        "method_sphere_vertices": ball["vertices"], "method_sphere_neighbours": ball["neighbours"],
        "method_basis": _wide(basis.T[1:], width).ravel(), "method_leverage": _wide(leverage, width),
        "method_fit": tables.fit(matrix).ravel(), "method_pattern": tables.pattern(degrees),
        "method_bias": _wide(bias, 32 * tables.groups), "method_sampling": padding.T[1:].ravel(),
    }  # fmt: skip
    scalars = {
        "stopping_threshold": threshold, "method_sphere_count": len(vertices),
        "method_rule_relative_threshold": relative_peak_threshold,
        "method_rule_cos_separation": math.cos(math.radians(min_separation_angle)),
        "method_rule_cos_angle": math.cos(math.radians(max_angle)), "method_signals": signals,
        "method_first_basis": basis[0, 0], "method_first_harmonic": sampling[0, 0],
        "method_min_signal": min_signal, "method_angular_weight": angular_weight,
    }  # fmt: skip
    scratch = {
        "scratch_row": ("reals", row_width), "scratch_transformed": ("reals", max(tables.sets * tables.span, 32 * constants["VERTEX_CHUNKS"])),
        "scratch_sums": ("reals", 32 * tables.groups), "scratch_coefficients": ("reals", 32 * tables.groups),
        "scratch_odf": ("reals", 32 * constants["VERTEX_CHUNKS"]), "scratch_peaks_candidates": ("reals", fill["CANDIDATES"]),
        "scratch_peaks_kept": ("ints", most), "scratch_peaks_counter": ("ints", 1),
    }  # fmt: skip
    fill |= {
        "Method": boot.Boot, "Scratch": boot.BootScratch, "Stopping": stopping.Threshold, "classify": stopping.classify,
        "initial_directions": boot.initial_directions, "next_direction": boot.next_direction,
    }  # fmt: skip
    # the transformed signals are spent when the ODF is sampled, and the row when peaks are found, unless for a new draw
    shares = {"scratch_odf": "scratch_transformed"}
    if boot_rule == "dipy":
        shares["scratch_peaks_candidates"] = "scratch_row"
    return Prepared(fill, arrays, scalars, scratch, shares, ("method_sampling", "method_fit"))
