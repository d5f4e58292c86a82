"""SD_STREAM: makes the tables of the kernels, which follow the peaks of FODs as MRtrix3's tckgen does."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from ...kernels.getters import sd_stream
from ...kernels.getters.dead_ends import KEPT
from ...kernels.getters.direction_codes import HALF
from ...kernels.getters.reads import read_row
from ...kernels.getters.vertex_steps import Vertex
from ..tables.given import Given, Prepared
from .fod import FodOptions, order_of_fods, prepare_fods
from .shared import harmonic_operations

Array = npt.NDArray[Any]
CIRCLES = 3  # great circles, as many as a quadratic form of two variables has numbers
USUAL_ROUNDS = 2  # of a step, at least: one that moves, and one that finds that it need not
ROUND_OPERATIONS = 120  # operations of a round besides its amplitudes
HOLES = KEPT | {
    "State": Vertex, "CARRIED": 0, "LAID_OUT_ABREAST": 0, "begin": sd_stream.begin_at_peak, "read": read_row,
    "set_out": sd_stream.set_out_to_peak, "load_state": None, "store_state": None, "choose": sd_stream.choose_peak,
    "move": sd_stream.move_to_peak, "note_step_again": None, "CODE_BITS": 2 * HALF, "AIMED": 1,
}  # fmt: skip


def prepare(given: Given, options: FodOptions) -> Prepared:
    """Make the tables; see :func:`tistreamlines.tracking.getters.fod.prepare_fods`."""
    order = order_of_fods(given)
    parts, weights = great_circles(order)
    chunks = -(-len(parts) // 32)
    columns = np.concatenate([parts, np.repeat(parts[:1], 32 * chunks - len(parts), axis=0)]).reshape(chunks, 32, 3)
    method = sd_stream.SdStream(
        threshold=options.least(given.stop), cos_angle=math.cos(math.radians(options.max_angle)),
        circles=columns.swapaxes(1, 2).ravel(), weights=np.pad(weights, ((0, 0), (0, 32 - weights.shape[1]))).ravel(),
    )  # fmt: skip
    own = HOLES | {"CIRCLE_CHUNKS": chunks, "CIRCLE_POINTS": len(parts)}
    return prepare_fods(given, order, method, sd_stream.SdStreamScratch, own, ("method_weights", "method_circles"))


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


def count_step(fill: dict[str, Any]) -> tuple[int, int]:
    """Return a lower bound of the bytes read and the operations done for a step."""
    channels, rounds = 32 * fill["ROW_CHUNKS"], USUAL_ROUNDS * 32
    return 32 * channels, 16 * channels + rounds * (
        fill["CIRCLE_CHUNKS"] * harmonic_operations(fill) + 2 * fill["CIRCLE_POINTS"] + ROUND_OPERATIONS
    )
