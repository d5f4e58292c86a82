"""Residual bootstrap: makes the tables of the kernels from a series and DIPY's OPDT or CSA model."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...aliases import Array, GradientTable
from ...errors import InputError
from ...fit.linear import LinearModel
from ...fit.shells import shells
from ...kernels.getters import boot
from ...kernels.getters.shared import prefetch_along
from ...linker.lang import Func, Record, Stage
from ...linker.parts import host
from ...option import MODEL, option
from ...space.harmonics import from_harmonics, monomials, order_advice
from ...space.sphere import most_peaks, round_up, sphere_tables
from ..parts import Row
from ..tables.inputs import Scheme
from ..tables.rows import Rows
from .shared import VertexGetter, VertexOptions, harmonic_operations, most_directions, peak_rule

ATTEMPTS = 5  # greatest number of bootstrap samples for a step, as in DIPY
FEW = "give --dg prob, det or ptt, which need no residuals, or a series of more directions"
# in order of the time saved by reading them from the shared memory of a GPU
OFTEN_READ = (
    "method_sphere_vertices", "method_fit", "method_gradients", "method_sphere_around", "method_sphere_neighbours",
)


@dataclass(frozen=True, repr=False, eq=False)
class BootOptions(VertexOptions):
    """Options of the residual bootstrap, a part of :class:`tistreamlines.Parameters`."""

    angular_weight: float = option(
        0.0, MODEL, "Weight w in ODF * (1 - w + w |cos(angle to the last step)|); 0 turns it off.", unit="weight",
        low=0, high=1,
    )
    boot_rule: str = option(
        None, MODEL, "Draw a new bootstrap sample only if the ODF has no peak (dipy), or until a peak lies within "
        "the greatest angle (cuslines).", choices=("dipy", "cuslines"),
    )
    negative_odf: str = option(
        "dipy", MODEL, "Whether an ODF without a positive value has one peak, as in DIPY, or none.",
        choices=("dipy", "none"),
    )


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class BootGetter(VertexGetter):
    """The residual bootstrap; see the constants of ``kernels/getters/boot.py``."""

    scratch: type[Record] = boot.BootScratch
    initial_directions: Func = boot.initial_directions
    next_direction: Func = boot.next_direction
    look_ahead: Stage | None = prefetch_along
    signal_chunks: int
    passes: int
    coefficients: int
    split: int
    groups: int
    fit_steps: int
    fit_pattern: tuple[int, ...]
    sets: int
    opdt: int
    attempts: int = ATTEMPTS
    until_fit: int
    angular: int
    often_read: tuple[str, ...] = host(default=OFTEN_READ)

    def count_step(self) -> tuple[int, int]:
        """Return a lower bound of the bytes read and the operations done for a step.

        Eight rows are read and interpolated, with 16 operations per channel. A coefficient takes two operations per
        signal in the bootstrap's fit, two per signal in the model's fit, and two per sample of the ODF.
        """
        channels, signals = 32 * self.row.row_chunks, 32 * self.signal_chunks
        harmonic = harmonic_operations(self.half_order)
        fits = signals * (harmonic + 2 * self.coefficients)
        return 32 * channels, 16 * channels + fits + 32 * self.ball.vertex_chunks * harmonic


def _check_single_shell(gtab: GradientTable) -> None:
    if len(shells(gtab)) > 1:
        weighted = gtab.bvals[~gtab.b0s_mask]
        raise InputError(
            f"b-values range from {weighted.min():g} to {weighted.max():g} s/mm2, but boot needs a single shell: "
            "extract one shell and the b0 volumes, or use another direction getter"
        )


class BootTables:
    """Shapes of the tables; the kernels' constants have the same names.

    Parameters
    ----------
    signals : int
        Number of diffusion-weighted volumes.
    coefficients : int
        Number of spherical harmonic coefficients.
    sets : int
        Number of differently transformed copies of the signals, one per degree for the OPDT.
    """

    def __init__(self, signals: int, coefficients: int, sets: int) -> None:
        self.signals, self.coefficients, self.sets = signals, coefficients, sets
        self.groups, self.chunks = round_up(coefficients) // 32, round_up(signals) // 32
        # with at most 8 lanes, the steps of a chunk are a multiple of 4
        self.split = 1 if self.groups > 1 else min(8, 2 ** int(math.log2(32 // coefficients)))
        self.steps = 32 // self.split

    def pattern(self, degrees: Array) -> Array:
        """Return the index of the transformed signals at which each lane of each group begins."""
        lanes = np.arange(32 * self.groups)
        j = lanes % self.steps if self.groups == 1 else lanes
        sets = np.where(j < self.coefficients, degrees[np.minimum(j, self.coefficients - 1)] // 2, 0)
        part = lanes // self.steps if self.groups == 1 else 0 * lanes
        return part * self.steps + (sets * boot.SPAN if self.sets > 1 else 0)

    def fit(self, matrix: Array) -> Array:
        """Return the fit matrix in the order [group][chunk of signals][step][lane]."""
        wide = np.zeros((32 * self.groups // self.split, round_up(self.signals)))
        wide[: self.coefficients, : self.signals] = matrix
        if self.groups > 1:
            return wide.reshape(self.groups, 32, -1).transpose(0, 2, 1)
        return wide.reshape(self.steps, self.chunks, self.split, self.steps).transpose(1, 3, 2, 0)

    def change(self, order: int) -> Array:
        """Return the change from harmonics to monomials in the order [group][harmonic][lane]."""
        wide = _wide(from_harmonics(order).T, 32 * self.groups)
        return wide.reshape(self.coefficients, self.groups, 32).transpose(1, 0, 2)


def _wide(table: Array, width: int) -> Array:
    return np.pad(table, [(0, 0)] * (table.ndim - 1) + [(0, width - table.shape[-1])])


class _Residuals:
    """The linear fit from which residuals are drawn.

    Parameters
    ----------
    functions : ndarray, (signals, coefficients)
        Monomials at the directions of the signals.

    Attributes
    ----------
    fit : ndarray, (coefficients, signals)
        Gives the coefficients of the fit.
    leverage : ndarray, (signals,)
        Square root of one minus the diagonal of the hat matrix.
    centred : ndarray, (signals, signals)
        Gives the residuals, corrected for leverage, minus their mean.
    mean : ndarray, (signals,)
        Gives the mean of the corrected residuals.
    """

    def __init__(self, functions: Array) -> None:
        # monomials and harmonics span the same functions, so both have the hat matrix U U^T
        basis = np.linalg.qr(functions)[0]
        self.fit, self.leverage = np.linalg.pinv(functions), np.sqrt(1 - (basis**2).sum(axis=1))
        leveraged = (np.eye(len(basis)) - basis @ basis.T) / self.leverage[:, None]
        self.mean = leveraged.mean(axis=0)
        self.centred = leveraged - self.mean


def describe(scheme: Scheme, options: BootOptions) -> tuple[BootGetter, Rows]:
    """Return the getter and its rows.

    Parameters
    ----------
    scheme : Scheme
        The headers of the inputs, which are signals of a single shell.
    options : BootOptions
        Options of the method.

    Returns
    -------
    getter, rows : BootGetter, Rows
        The getter, and how its rows are made. A row has centred residuals, coefficients of the fit, mean residual, mean
        b0 and the stopping maps.

    Raises
    ------
    InputError
        If the series has several shells, or not more directions than coefficients.
    """
    gtab, maps = scheme.form.gtab, scheme.maps
    assert gtab is not None
    _check_single_shell(gtab)
    model = LinearModel.of(gtab, options.model, options.sh_order, options.sm_lambda)
    degrees, matrix, bias = model.degrees, model.matrices[0], model.constants
    sets = options.sh_order // 2 + 1 if options.model == "opdt" else 1
    tables = BootTables(scheme.form.count, len(degrees), sets)
    if tables.signals <= tables.coefficients:
        raise InputError(
            f"{tables.signals} diffusion-weighted volumes leave no residuals with order {options.sh_order} "
            f"({tables.coefficients} coefficients): {order_advice(tables.signals - 1, FEW)}"
        )
    gradients = gtab.bvecs[~gtab.b0s_mask]
    residuals = _Residuals(monomials(gradients, options.sh_order))
    width = round_up(tables.signals)
    row_width = width + round_up(len(degrees) + 2 + maps)
    vertices, edges = scheme.vertices_and_edges
    ball, sphere = sphere_tables(vertices, edges)
    method = boot.Boot(
        sphere=sphere, rule=peak_rule(options), gradients=_wide(gradients.T, width).ravel(),
        leverage=_wide(residuals.leverage, width), fit=tables.fit(matrix).ravel(), pattern=tables.pattern(degrees),
        bias=_wide(bias, 32 * tables.groups), change=tables.change(options.sh_order).ravel(), signals=tables.signals,
        min_signal=options.min_signal, angular_weight=options.angular_weight,
    )
    peaks = most_peaks(32 * ball.vertex_chunks, options.min_separation_angle)
    # sampling the ODF no longer needs the row and the transformed signals, the coefficients no longer need the sums,
    # and the search of peaks needs neither
    shares = {
        "scratch_odf": ("scratch_row", 0), "scratch_transformed": ("scratch_row", row_width),
        "scratch_coefficients": ("scratch_peaks_candidates", 0), "scratch_sums": ("scratch_peaks_candidates", 0),
    }
    getter = BootGetter(
        method=method, row=Row.of(row_width, maps), ball=ball, code_bits=ball.code_bits, most_peaks=peaks,
        candidates=max(64, 32 * tables.groups),  # the sums may lie in their place
        signal_chunks=tables.chunks, passes=-(-tables.chunks // boot.PASS), coefficients=tables.coefficients,
        split=tables.split, half_order=options.sh_order // 2, groups=tables.groups, fit_steps=tables.steps,
        sets=tables.sets, fit_pattern=tuple(int(v) for v in tables.pattern(degrees)[:32]),
        opdt=int(options.model == "opdt"), until_fit=int(options.boot_rule == "cuslines"),
        angular=int(options.angular_weight > 0), negative_peak=int(options.negative_odf == "dipy"), shares=shares,
        most_directions=most_directions(peaks, options),
    )
    end, weighted = row_width - maps, ~gtab.b0s_mask

    def fill_rows(values: Array, rows: Array) -> None:
        signals = values[:, weighted]
        rows[:, : residuals.centred.shape[0]] = signals @ residuals.centred.T
        rows[:, width : width + residuals.fit.shape[0]] = signals @ residuals.fit.T
        rows[:, end - 2] = signals @ residuals.mean
        rows[:, end - 1] = values[:, ~weighted].mean(axis=1)

    return getter, Rows(fill_rows)
