"""Tracking through samples of fibres: makes the tables of the kernels from bedpostX's samples."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ...errors import InputError, ParameterError
from ...io.samples import Samples
from ...kernels.getters import bedpostx, headings
from ...kernels.getters.dead_ends import KEPT
from ...kernels.getters.reads import read_stop
from ...option import FILES, MODEL, PathLike, option
from ...space.sphere import padded
from ..tables.given import Given, Prepared
from ..tables.rows import build_volume, kept
from .options import AngleOptions
from .shared import stop_fill

if TYPE_CHECKING:
    from ...option import OneOrMore

Array = npt.NDArray[Any]
MOST_BITS = 30  # of a step's code
HOLES = KEPT | {
    "State": headings.Heading, "begin": bedpostx.begin_by_sample, "read": read_stop,
    "set_out": bedpostx.set_out_from_seed, "load_state": headings.load_heading, "store_state": headings.store_heading,
    "choose": bedpostx.choose_fibre, "move": bedpostx.move_along_fibre, "note_step_again": None, "CARRIED": 3,
    "LAID_OUT_ABREAST": 0,
}  # fmt: skip
PHILOX_OPERATIONS = 100  # operations for four random words


@dataclass(frozen=True)
class BedpostxOptions(AngleOptions):
    """Options of tracking through samples of fibres, a part of :class:`tistreamlines.Parameters`."""

    bedpostx: OneOrMore[PathLike] | None = option(
        None, FILES, "Samples of fibres: the folder of bedpostX, or its files merged_th1samples, merged_ph1samples, "
        "merged_f1samples and so on. Without other options, seeds are placed in the folder's nodif_brain_mask, and "
        "streamlines end outside it.", unit="FOLDER", absent="a model is fitted", common=True,
    )  # fmt: skip
    min_f: float = option(
        0.01, MODEL, "Fibres count where their volume fraction is above this.", unit="share", low=0, high=1,
    )  # fmt: skip
    use_f: bool = option(
        False, MODEL, "End a streamline at each step with a probability of one minus the volume fraction of the fibre "
        "that is followed.",
    )  # fmt: skip
    random_fibre: bool = option(
        False, MODEL, "Start along any fibre of a sample, with equal probabilities, instead of along the first one.",
    )  # fmt: skip
    modified_euler: bool = option(
        False, MODEL, "Draw a second direction one step ahead, and step along the mean of both.",
    )  # fmt: skip


def prepare(given: Given, options: BedpostxOptions) -> Prepared:
    """Make the tables of tracking through samples of fibres.

    Parameters
    ----------
    given : Given
        Inputs, with samples.
    options : BedpostxOptions
        Options of the method.

    Returns
    -------
    Prepared
        The tables.

    Raises
    ------
    InputError
        If the samples and the stop map have different grids.
    ParameterError
        If there are more samples than codes of steps.
    """
    samples = given.follows
    assert isinstance(samples, Samples)
    shape, (_, count, fibres, _) = given.channels.shape[:3], samples.values.shape
    if samples.mask.shape != shape:
        raise InputError(f"samples are {samples.mask.shape}, the stop map is {shape}: give both on one grid")
    bits = bedpostx.PLACE + max((count * fibres - 1).bit_length(), 1)
    code = 2 * bits + 1 if options.modified_euler else bits
    if code > MOST_BITS:
        raise ParameterError(
            f"{count} samples of {fibres} fibres are too many for the codes of steps: give fewer, or leave out "
            "--modified-euler"
        )
    step = given.step_mm / np.asarray(given.voxel_sizes, float)
    method = bedpostx.Bedpostx(least=options.min_f, cos_angle=math.cos(math.radians(options.max_angle)))
    width = padded(4 * count * fibres + given.stop.count)
    fill = HOLES | stop_fill(given.stop, width) | {
        "FIBRES": fibres, "DRAWN": count, "FIRST": fibres if options.random_fibre else 1, "BITS": bits,
        "USE_F": int(options.use_f), "MODIFIED_EULER": int(options.modified_euler), "CODE_BITS": code,
    }  # fmt: skip
    kept_one = headings.Kept(**headings.Kept.sizes(fill))
    team = headings.HeadingScratch(**headings.HeadingScratch.sizes(fill), peaks=kept_one)
    volume = _volume(given, samples, width, np.ceil(step).astype(int) * options.modified_euler)
    return Prepared(method, given.stop.record, volume, team, fill, 1, {}, ())


def _volume(given: Given, samples: Samples, width: int, reach: Array) -> Any:
    """Return rows of the voxels that are read: x, y, z and the volume fraction of each sample's fibres in turn."""
    rows = samples.values.reshape(len(samples.values), -1)
    numbers = np.zeros((*samples.mask.shape, 1), np.int32)  # of a voxel's samples, from 1
    numbers[samples.mask, 0] = np.arange(1, len(rows) + 1)

    def fill_rows(some: Array, written: Array) -> None:
        own = some[:, 0].astype(np.int64)
        there = own > 0
        written[there, : rows.shape[1]] = rows[own[there] - 1]

    return build_volume(numbers, kept(given, numbers, reach), width, fill_rows, given.channels)


def count_step(fill: dict[str, Any]) -> tuple[int, int]:
    """Return a lower bound of the bytes read and the operations done for a step.

    The maps of the stopping rule are read in eight voxels, with 16 operations each, and the fibres of one sample, with
    six operations each. Four random words are drawn.
    """
    stops, fibres = fill["STOP_CHANNELS"], fill["FIBRES"]
    return 32 * stops + 16 * fibres, 16 * stops + 6 * fibres + PHILOX_OPERATIONS
