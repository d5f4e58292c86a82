"""FACT: makes the tables of the kernels from peaks, which it follows as MRtrix3's tckgen does."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...aliases import Array
from ...errors import InputError
from ...kernels.getters import fact
from ...kernels.getters.reads import read_stop
from ...linker.lang import Func
from ...option import MODEL, option
from ...space.sphere import padded
from ..parts import Getter, Row
from ..tables.given import Given, Prepared
from ..tables.rows import build_volume
from .fod import CutoffOptions
from .sd_stream import FollowsPeaks

PEAK_OPERATIONS = 20  # operations that compare a peak


@dataclass(frozen=True)
class FactOptions(CutoffOptions):
    """Options of FACT, a part of :class:`tistreamlines.Parameters`, with tckgen's defaults."""

    peaks_between: str = option(
        "nearest", MODEL, "Follow the peaks of the nearest voxel (nearest), as tckgen does, or blend those of the "
        "eight voxels around a point that are most collinear with the last step (linear).",
        choices=("nearest", "linear"),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class FactGetter(FollowsPeaks, Getter):
    """FACT; see the constants of ``kernels/getters/fact.py``."""

    begin: Func = fact.begin_at_fixel
    read: Func = read_stop
    choose: Func = fact.choose_fixel
    peaks: int
    blends: int

    def count_step(self) -> tuple[int, int]:
        """Return a lower bound of the bytes read and the operations done for a step."""
        voxels, maps = (8 if self.blends else 1), self.row.stop_channels
        return 12 * voxels * self.peaks + 32 * maps, voxels * self.peaks * PEAK_OPERATIONS + 16 * maps


def prepare(inputs: Given, options: FactOptions) -> Prepared:
    """Make the tables of FACT.

    Parameters
    ----------
    inputs : Given
        Inputs, with peaks.
    options : FactOptions
        Options of the method.

    Returns
    -------
    Prepared
        The tables.

    Raises
    ------
    InputError
        If the peaks have another grid than the maps of the stopping rule.
    """
    values, maps = inputs.function.values, inputs.channels
    peaks = values.reshape(*values.shape[:3], -1)
    if peaks.shape[:3] != maps.shape[:3]:
        raise InputError(f"peaks are {peaks.shape}, the stop map is {maps.shape[:3]}: give both on one grid")
    # where several maps are interpolated alone, the first 32 numbers of the row are needed for that
    width = padded(max(peaks.shape[3], 32 * (inputs.stop.count > 1)) + inputs.stop.count)

    def fill_rows(values: Array, rows: Array) -> None:
        rows[:, : values.shape[1]] = values

    # a voxel without a row has no peak, which ends streamlines, so each that has one needs its row
    volume = build_volume(peaks, np.logical_or.reduce(peaks, axis=-1), width, fill_rows, maps)
    method = fact.Fact(
        threshold=options.least(inputs.stop.rule), cos_squared=math.cos(math.radians(options.max_angle)) ** 2
    )
    getter = FactGetter(
        method=method, row=Row.of(width, inputs.stop.count), peaks=peaks.shape[3] // 3,
        blends=int(options.peaks_between == "linear"),
    )
    return Prepared(getter, inputs.stop.rule, volume)
