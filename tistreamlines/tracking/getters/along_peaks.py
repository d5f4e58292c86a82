"""SD_STREAM and FACT, which follow peaks as MRtrix3's tckgen does: makes the tables of the kernels."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...aliases import Array
from ...kernels.getters import along_peaks
from ...kernels.getters.shared import HALF, HeadingScratch, Vertex, read_row, read_stop
from ...linker.lang import Func, Record, Stage
from ...linker.parts import Part, host
from ...option import MODEL, option
from ...space.sphere import round_up
from ..parts import Getter, Row
from ..tables.inputs import Scheme
from ..tables.rows import Rows, front
from .fod import CutoffOptions, FodGetter, FodOptions, fod_rows, order_of_fods
from .shared import harmonic_operations

CIRCLES = 3  # great circles, as many as a quadratic form of two variables has numbers
USUAL_ROUNDS = 2  # of a step, at least: one that moves, and one that finds that it need not
ROUND_OPERATIONS = 120  # operations of a round besides its amplitudes


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class FollowsPeaks(Part):
    """Common parts of getters that step along peaks, whose directions are the codes of steps."""

    scratch: type[Record] = HeadingScratch
    state: type[Record] = Vertex
    set_out: Stage = along_peaks.set_out_to_peak
    move: Stage = along_peaks.move_to_peak
    code_bits: int = 2 * HALF
    aimed: bool = host(default=True)


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class SdStreamGetter(FollowsPeaks, FodGetter):
    """SD_STREAM; see the constants of ``kernels/getters/along_peaks.py``."""

    scratch: type[Record] = along_peaks.SdStreamScratch
    begin: Func = along_peaks.begin_at_peak
    read: Func = read_row
    choose: Func = along_peaks.choose_peak
    circle_chunks: int
    circle_points: int
    laid_out_abreast: bool = host(default=False)
    often_read: tuple[str, ...] = host(default=("method_weights", "method_circles"))

    def count_step(self) -> tuple[int, int]:
        """Return a lower bound of the bytes read and the operations done for a step."""
        channels, rounds = 32 * self.row.row_chunks, USUAL_ROUNDS * 32
        amplitudes = self.circle_chunks * harmonic_operations(self.half_order)
        return 32 * channels, 16 * channels + rounds * (amplitudes + 2 * self.circle_points + ROUND_OPERATIONS)


def describe_sd_stream(scheme: Scheme, options: FodOptions) -> tuple[SdStreamGetter, Rows]:
    """Return the getter and its rows; see :func:`tistreamlines.tracking.getters.fod.fod_rows`."""
    order = order_of_fods(scheme)
    parts, weights = great_circles(order)
    chunks, least = -(-len(parts) // 32), options.least(scheme.rule)
    columns = np.concatenate([parts, np.repeat(parts[:1], 32 * chunks - len(parts), axis=0)]).reshape(chunks, 32, 3)
    method = along_peaks.SdStream(
        threshold=least, cos_angle=math.cos(math.radians(options.max_angle)),
        circles=columns.swapaxes(1, 2).ravel(), weights=np.pad(weights, ((0, 0), (0, 32 - weights.shape[1]))).ravel(),
    )
    row, rows = fod_rows(scheme, order)
    getter = SdStreamGetter(
        method=method, row=row, half_order=order // 2, sharpness=1.0 / least, circle_chunks=chunks,
        circle_points=len(parts),
    )
    return getter, rows


def great_circles(order: int) -> tuple[Array, Array]:
    """Return directions about a pole, and the weights by which their amplitudes make the derivatives at the pole.

    Along a great circle an even function of order L is a sum of cosines and sines of 0, 2, ..., L times the angle. Its
    values at L + 1 angles in steps of pi / (L + 1) determine the sum, and so its derivatives.

    Parameters
    ----------
    order : int
        L, even.

    Returns
    -------
    parts : (3 L + 1, 3) float64
        Unit vectors, by their parts along the pole and two axes across it; the first one is the pole.
    weights : (3 L + 1, 5) float64
        For the slopes along both axes, both second derivatives, and the mixed one, per radian.
    """
    count = order + 1
    numbers = np.arange(-(order // 2), order // 2 + 1)
    angles, double = np.pi / count * numbers[numbers != 0], 2 * np.arange(1, order // 2 + 1)
    slope = 2 / count * np.sin(np.outer(angles, double)) @ double
    bend = -2 / count * np.cos(np.outer(np.append(0, angles), double)) @ double**2
    azimuths = np.pi / CIRCLES * np.arange(CIRCLES)
    towards = np.stack([np.cos(azimuths), np.sin(azimuths)], axis=1)
    parts = np.stack([np.insert(np.sin(t) * axis, 0, np.cos(t)) for axis in towards for t in angles])
    gradient = np.linalg.pinv(towards)
    form = np.linalg.inv(np.column_stack([towards**2, 2 * towards.prod(axis=1)]))
    slopes = np.kron(gradient.T, slope[:, None])
    bends = np.kron(form.T, bend[1:, None])
    pole = np.append([0, 0], bend[0] * form.sum(axis=1))
    return np.vstack([[1, 0, 0], parts]), np.vstack([pole, np.hstack([slopes, bends])])


PEAK_OPERATIONS = 20  # operations that compare a peak


@dataclass(frozen=True, repr=False, eq=False)
class FactOptions(CutoffOptions):
    """Options of FACT, a part of :class:`tistreamlines.Parameters`, with tckgen's defaults."""

    peaks_between: str = option(
        "nearest", MODEL, "Follow the peaks of the nearest voxel (nearest), as tckgen does, or blend those of the "
        "eight voxels around a point that are most collinear with the last step (linear).",
        choices=("nearest", "linear"),
    )


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class FactGetter(FollowsPeaks, Getter):
    """FACT; see the constants of ``kernels/getters/along_peaks.py``."""

    begin: Func = along_peaks.begin_at_fixel
    read: Func = read_stop
    choose: Func = along_peaks.choose_fixel
    peaks: int
    blends: int

    def count_step(self) -> tuple[int, int]:
        """Return a lower bound of the bytes read and the operations done for a step."""
        voxels, maps = (8 if self.blends else 1), self.row.stop_channels
        return 12 * voxels * self.peaks + 32 * maps, voxels * self.peaks * PEAK_OPERATIONS + 16 * maps


def describe_fact(scheme: Scheme, options: FactOptions) -> tuple[FactGetter, Rows]:
    """Return the getter and its rows.

    Parameters
    ----------
    scheme : Scheme
        The headers of the inputs, which are peaks.
    options : FactOptions
        Options of the method.
    """
    count, maps = scheme.form.count, scheme.maps
    # where several maps are interpolated alone, the first 32 numbers of the row are needed for that
    width = round_up(max(count, 32 * (maps > 1)) + maps)
    method = along_peaks.Fact(
        threshold=options.least(scheme.rule), cos_squared=math.cos(math.radians(options.max_angle)) ** 2
    )
    getter = FactGetter(
        method=method, row=Row.of(width, maps), peaks=count // 3, blends=int(options.peaks_between == "linear"),
    )
    # a voxel without a row has no peak, which ends streamlines, so each that has one needs its row
    return getter, Rows(front(), all_values=True)
